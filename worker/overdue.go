package worker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
)

// watch counts how long others are seen to run what they hold: by this machine's own clock, without the time in which it did
// not look, or in which the order was paused.
func (f *Fleet) watch(passed time.Duration) {
	ran, retired := map[ferry.RecordID]time.Duration{}, map[ferry.RecordID]bool{}
	for i := range f.sight.Tasks {
		t := &f.sight.Tasks[i]
		if t.Live.IsZero() || t.Holder == f.spec.Me {
			continue
		}
		before, known := f.ran[t.Live]
		if known && !t.Paused {
			before += passed
		}
		ran[t.Live] = before
		if f.retired[t.Live] {
			retired[t.Live] = true
		}
	}
	f.ran, f.retired = ran, retired
}

// Retired notes that this worker has retired a start: it is said once.
func (f *Fleet) Retired(start ferry.RecordID) { f.retired[start] = true }

// due is how much longer a live start of another may run, and how long it may in all: the time of the order for the first run
// and for each that a note began, and that of the checks. ok is false where the order names no time.
func (f *Fleet) due(t *ferry.Task) (left, given time.Duration, ok bool) {
	ran, known := f.ran[t.Live]
	if !known || t.Order.TimeoutSecs <= 0 || f.retired[t.Live] {
		return 0, 0, false
	}
	const longest = 365 * 24 * time.Hour
	run := time.Duration(min(t.Order.TimeoutSecs, int64(longest/time.Second))) * time.Second
	given = min(run*time.Duration(1+min(t.Steered, 100)), longest) + f.t.Check*time.Duration(2+len(t.Order.Checks))
	return given - ran, given, true
}

// overdue retires the attempt of another worker that has run for longer than its order gives it. Only who may dispatch does so,
// and every reader judges that by the roster.
func (p *planner) overdue(t *ferry.Task) {
	if !p.in.Dispatch || t.State != ferry.StateRunning || t.Paused {
		return
	}
	left, given, ok := p.in.Fleet.due(t)
	switch {
	case !ok:
	case left > 0:
		p.wake(left)
	default:
		p.add(Step{
			Do: DoRetire, Order: t.ID, Label: t.Order.Label, Start: t.Live,
			Reason: fmt.Sprintf("%s has run it for longer than the %s that the order gives an attempt", p.name(t.Holder), short(given)),
		})
	}
}

// mayDispatch reports whether this worker may end the attempts of others: by its grant, or as a delegate.
func (w *Worker) mayDispatch(ctx context.Context, members []ferry.Member, now time.Time) (bool, error) {
	me := w.cfg.Writer.ID()
	if slices.ContainsFunc(members, func(m ferry.Member) bool {
		return m.Writer == me && slices.Contains(m.Grants, ferry.GrantDispatch)
	}) {
		return true, nil
	}
	roster, err := w.cfg.Channel.Roster(ctx)
	if err != nil {
		return false, fmt.Errorf("read the roster: %w", err)
	}
	d, _, ok := roster.Delegation(me)
	return ok && slices.Contains(d.Scopes, ferry.ScopeDispatch) && !roster.Expired(d, now), nil
}

// endOverdue publishes that an attempt of another is over its time.
func (w *Worker) endOverdue(ctx context.Context, s Step, now time.Time) error {
	_, err := w.cfg.Writer.Retire(ctx, now, ferry.Retire{Order: s.Order, Start: s.Start, Overdue: true, Reason: s.Reason})
	if err = w.unpublished(err); err != nil {
		return fmt.Errorf("retire an attempt of %s: %w", s.Label, err)
	}
	w.fleet.Retired(s.Start)
	w.log.Info("retired", "task", string(s.Label), "reason", s.Reason)
	return nil
}

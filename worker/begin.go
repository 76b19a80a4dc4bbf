package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// claim publishes that this worker intends to run the next attempt of an order.
func (w *Worker) claim(ctx context.Context, s Step, now time.Time) error {
	id, err := w.cfg.Writer.Claim(ctx, now, channel.ClaimSpec{Order: s.Order, Attempt: s.Attempt, Supersedes: s.Over})
	if errors.Is(err, channel.ErrNotClaimable) {
		w.log.Info("not claimed", "task", string(s.Label), "err", err)
		return nil
	}
	if cut := w.hidden(err); cut != nil {
		return cut // the next pass gives the claim back, whose window the others did not see
	}
	if err = w.unpublished(err); err != nil {
		return fmt.Errorf("claim %s: %w", s.Label, err)
	}
	w.fleet.Claimed(w.clock(), id)
	w.wakeIn(max(w.fleet.Settle(), time.Millisecond))
	w.log.Info("claimed", "task", string(s.Label), "reason", s.Reason)
	return nil
}

// begin starts the next attempt of an order, durably, on the claim that was
// made before or with one that it makes, and then lets its goroutine go.
// Losing the order to another worker is not an error.
func (w *Worker) begin(ctx context.Context, s Step, now time.Time) error {
	task, err := w.cfg.Channel.Task(ctx, s.Order.String())
	if err != nil {
		return err
	}
	resumed := w.unproven(&task, s.Attempt)
	engine, ok := w.engineOf(&task, resumed, now)
	if !ok {
		return nil // it has failed another order since the plan was made; the next plan says so
	}
	a := &attempt{engine: engine, task: task}
	if resumed == nil {
		if err := w.purse.reserve(a, reservation(task.ID, s.Attempt, 1), engine, now); err != nil {
			return fmt.Errorf("begin %s: %w", s.Label, err)
		}
	}
	start := ferry.Start{
		Engine: string(engine.Name), Model: engine.Model, Sandbox: string(w.cfg.Box.Level), From: task.Next.From,
	}
	var id ferry.RecordID
	if s.Do == DoStart {
		id, err = w.cfg.Writer.Start(ctx, now, channel.StartSpec{Order: s.Order, Claim: s.Claim, Lapsed: s.Over, Start: start})
	} else {
		_, id, err = w.cfg.Writer.Begin(ctx, now, channel.BeginSpec{Order: s.Order, Attempt: s.Attempt, Start: start})
	}
	if errors.Is(err, channel.ErrNotClaimable) {
		w.settle(a, now)
		w.log.Info("lost", "task", string(s.Label), "err", err)
		return nil
	}
	if cut := w.hidden(err); cut != nil {
		w.settle(a, now)
		return errors.Join(cut, w.unstart(ctx, now, ferry.Stop{Order: s.Order, Start: id, Note: cut.Error()}))
	}
	if err = w.unpublished(err); err != nil {
		w.settle(a, now)
		return fmt.Errorf("begin %s: %w", s.Label, err)
	}
	w.log.Info("begin", "task", string(s.Label), "engine", start.Engine)
	if resumed != nil {
		resumed.Start = id
	}
	a.start = id
	w.launch(ctx, task, a, resumed)
	return nil
}

// unproven gives the journal of a run of ours whose engine had finished when
// the worker was stopped before the checks had, or could not run them: the new
// attempt begins with the checks, and the engine is not run, or paid, again.
func (w *Worker) unproven(t *ferry.Task, attempt int64) *Journal {
	if len(t.Attempts) == 0 || len(t.Steers) > 0 {
		return nil
	}
	last := lastRun(t.Attempts)
	if last.Holder != w.cfg.Writer.ID() || last.Stop == nil || len(last.Runs) == 0 {
		return nil
	}
	if why := last.Stop.Reason; why != ferry.StopShutdown && why != ferry.StopReleased {
		return nil
	}
	run := last.Runs[len(last.Runs)-1]
	j, err := ReadJournal(filepath.Join(w.cfg.Runs, string(run.Run)))
	if err != nil || run.Outcome != ferry.OutcomeDone || j.Commit != t.Next.From || j.Phase != PhaseClosed {
		return nil
	}
	j.Attempt, j.Phase, j.Stop, j.Result = attempt, PhaseKept, nil, nil
	return j
}

// lastRun gives the last attempt, but for those that were given back before anything ran for them.
func lastRun(all []ferry.Attempt) ferry.Attempt {
	last := len(all) - 1
	for last > 0 && len(all[last].Runs) == 0 && all[last].Stop != nil && all[last].Stop.Reason == ferry.StopReleased {
		last--
	}
	return all[last]
}

// launch starts the goroutine of an attempt; with a journal it goes on where
// that run was left.
func (w *Worker) launch(ctx context.Context, task ferry.Task, a *attempt, resumed *Journal) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.task, a.n, a.cancel, a.poke = task, task.Next.Attempt, cancel, w.poke
	a.control, a.told, a.pending = make(chan engines.Control, 4), map[ferry.RecordID]bool{}, task.Steers
	if resumed != nil {
		a.n = resumed.Attempt
	}
	for _, s := range task.Steers {
		a.told[s.ID] = true
	}
	w.running[a.start] = a
	go func() { // its end is the closed event, which Run, Drain and stop wait for
		defer cancel()
		var c *closing
		if resumed != nil {
			c = w.goOn(own, a, resumed)
		} else {
			c = w.work(own, a)
		}
		if err := w.cfg.Gate.Maintain(own); err != nil && own.Err() == nil {
			w.log.Warn("maintain the gate", "err", err)
		}
		w.events <- event{start: a.start, closed: c}
	}()
}

// orphan closes a start of ours that nothing runs for.
func (w *Worker) orphan(ctx context.Context, s Step, now time.Time) error {
	err := w.write(ctx, now, func(tx *channel.Tx) error {
		_, err := tx.Add(&ferry.Stop{Order: s.Order, Start: s.Start, Reason: s.Why, Note: s.Reason})
		return err
	})
	if err != nil {
		return fmt.Errorf("close the orphan of %s: %w", s.Label, err)
	}
	return nil
}

// write adds records to the channel, all or none.
func (w *Worker) write(ctx context.Context, now time.Time, f func(*channel.Tx) error) error {
	_, err := w.cfg.Writer.Update(ctx, now, f)
	return w.unpublished(err)
}

// unpublished makes a warning of records that hold but are not in the folder
// yet: the channel publishes them by itself.
func (w *Worker) unpublished(err error) error {
	if errors.Is(err, channel.ErrUnpublished) {
		w.log.Warn("the folder cannot be written; other machines do not see this yet", "err", err)
		return nil
	}
	return err
}

// stopped gives the reason why nothing new may begin on this machine, or "".
func (w *Worker) stopped(now time.Time) string {
	if b, err := atomicfile.ReadBounded(w.cfg.Pause, 64<<10); err == nil {
		return pauseReason(b)
	} else if !errors.Is(err, os.ErrNotExist) {
		return "paused: the pause file cannot be read: " + err.Error()
	}
	if reason := w.trouble(now); reason != "" {
		return reason
	}
	return cmp.Or(w.lowDisk(), w.governed(now))
}

// runDir makes the directory of a run and writes its first journal.
func (w *Worker) runDir(j *Journal) (string, error) {
	dir := filepath.Join(w.cfg.Runs, string(j.Run))
	if err := atomicfile.MkdirAll(filepath.Join(dir, "in"), 0o700); err != nil {
		return "", fmt.Errorf("run %s: %w", j.Run, err)
	}
	return dir, j.save(dir)
}

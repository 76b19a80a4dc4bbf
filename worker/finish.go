package worker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
)

// take handles what an attempt tells, a run that ended or its own end, and what
// a probe found.
func (w *Worker) take(ctx context.Context, e event, now time.Time) {
	switch {
	case e.probed != nil:
		w.heard(e.probed, now)
		return
	case e.failed != nil:
		w.faulted(ctx, e, now)
		return
	case e.run != nil:
		w.used(w.running[e.start], e.run)
		if err := w.reportRun(ctx, e.run, now); err != nil {
			w.log.Error("record the run", "task", string(e.run.Label), "run", string(e.run.Run), "err", err)
		}
		return
	}
	c := e.closed
	a := w.running[e.start]
	w.used(a, c.last)
	w.settle(a, now)
	delete(w.running, e.start)
	w.learn(c, now)
	if c.fault != nil && c.last.Stop != nil && c.last.Stop.Reason == ferry.StopFault {
		defer w.exhausted(ctx, c, now)
	}
	if err := w.submit(ctx, c, now); errors.Is(err, errGrace) {
		w.unsaid = append(w.unsaid, c)
	} else if err != nil {
		w.log.Error("close the attempt; it is tried again", "task", string(c.label), "err", err)
		w.unsaid = append(w.unsaid, c)
	}
}

// exhausted asks about an order that an attempt has given back because its engines failed.
func (w *Worker) exhausted(ctx context.Context, c *closing, now time.Time) {
	t, err := w.cfg.Channel.Task(ctx, c.order.String())
	if err != nil || t.State.Final() {
		return
	}
	w.stuck(ctx, &t, c.last.Stop.Note, now)
}

// reported closes the journal of a run whose record is in the channel.
func (w *Worker) reported(ctx context.Context, j *Journal) error {
	dir := filepath.Join(w.cfg.Runs, string(j.Run))
	j.Reported, j.Phase = true, PhaseClosed
	if err := j.save(dir); err != nil {
		return err
	}
	return w.retire(ctx, dir)
}

// learn lets the outcome of an attempt change what is known of the engine and
// of this machine. A fault was learnt when it happened.
func (w *Worker) learn(c *closing, now time.Time) {
	if c.worked && c.trouble == nil {
		w.health.worked()
		if err := w.shelf.worked(now, ferry.EngineName(c.last.Engine)); err != nil {
			w.log.Error("remember the engine's health", "err", err)
		}
	}
	if c.fault != nil && c.note == "" { // this machine failed under it before the fault was told
		if err := w.shelf.fail(now, ferry.EngineName(c.last.Engine), *c.fault); err != nil {
			w.log.Error("remember the engine's health", "err", err)
		}
	}
	if c.trouble != nil {
		w.health.troubled(now, c.order, c.trouble)
		w.log.Error("this machine could not carry an attempt through", "task", string(c.label), "err", c.trouble)
	}
}

// errGrace reports that a result is not handed in yet: right after a start or a
// sleep the record that fences it may still be on its way.
var errGrace = errors.New("what happened meanwhile may still arrive")

// submit writes the end of an attempt into the channel, unless the order is
// no longer ours, and then lets its trees go.
func (w *Worker) submit(ctx context.Context, c *closing, now time.Time) error {
	j := c.last
	if left := w.fleet.Grace(w.clock()); left > 0 && j.Result != nil {
		w.wakeIn(left)
		return errGrace
	}
	err := w.write(ctx, now, func(tx *channel.Tx) error {
		task, err := tx.Task(c.order)
		if err != nil {
			return err
		}
		for _, b := range w.closingRecords(&task, c) {
			if _, err := tx.Add(b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("submit %s: %w", c.label, err)
	}
	if j.Result != nil {
		w.rate(ctx, c)
	}
	w.log.Info("closed", "task", string(c.label), "run", string(j.Run), "outcome", string(j.Outcome))
	kept := j.Phase != PhaseRunning && j.Phase != PhaseEnded
	j.Reported, j.Phase = true, PhaseClosed
	err = j.save(filepath.Join(w.cfg.Runs, string(j.Run)))
	if !kept {
		return err
	}
	for _, dir := range c.dirs {
		err = errors.Join(err, w.retire(ctx, dir))
	}
	if err != nil {
		w.log.Warn("retire", "task", string(c.label), "err", err)
	}
	return nil
}

// closingRecords gives the records that close an attempt. An attempt that the
// channel knows as closed gets none; one that was fenced, or whose order was
// ended, gets its run and a stop, never a result.
func (w *Worker) closingRecords(t *ferry.Task, c *closing) []ferry.Body {
	var mine *ferry.Attempt
	for i := range t.Attempts {
		if t.Attempts[i].Start == c.start {
			mine = &t.Attempts[i]
		}
	}
	if mine == nil || mine.Stop != nil && mine.Stop.Reason != ferry.StopRetired || !mine.Result.IsZero() {
		return nil
	}
	var out []ferry.Body
	if !c.last.Reported {
		out = append(out, c.last.record())
	}
	if c.note != "" {
		out = append(out, &ferry.Note{Order: c.order, Kind: noteFault, Text: c.note})
	}
	switch {
	case c.last.Result != nil && t.Holds(c.start):
		return append(out, c.last.Result)
	case c.last.Result != nil:
		stop := w.stopFor(c.last, ferry.StopFenced, "finished after the order was "+string(t.State))
		stop.Commit = c.last.Commit
		return append(out, stop)
	}
	return append(out, c.last.Stop)
}

// flush tries again to write what could not be written.
func (w *Worker) flush(ctx context.Context, now time.Time) error {
	var err error
	var left []*closing
	for _, c := range w.unsaid {
		if failed := w.submit(ctx, c, now); failed != nil {
			left = append(left, c)
			if !errors.Is(failed, errGrace) {
				err = errors.Join(err, failed)
			}
		}
	}
	w.unsaid = left
	return err
}

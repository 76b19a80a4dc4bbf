package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/internal/process"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// recover looks after what an earlier process of this worker left: it ends
// what survived, keeps the work, and closes every attempt that is still open
// in the channel. An attempt whose engine had already ended is finished, not
// run again.
func (w *Worker) recover(ctx context.Context, now time.Time) error {
	journals, bad := ReadJournals(w.cfg.Runs)
	if bad != nil {
		w.log.Warn("a run of an earlier process cannot be read", "err", bad)
	}
	if _, err := w.cfg.Channel.Refresh(ctx); err != nil {
		return fmt.Errorf("refresh the channel: %w", err)
	}
	latest := map[ferry.RecordID]*Journal{}
	for _, j := range journals {
		latest[j.Start] = j // of the runs of one attempt only the last can be open
	}
	w.recall(ctx, journals)
	for _, j := range journals {
		if j.Phase == PhaseClosed {
			continue
		}
		w.lookAfter(ctx, j, latest[j.Start] == j, now)
	}
	return w.prune(ctx, journals, now)
}

// leftover is a run of an earlier process that could not be looked after: a
// full disk, or a tree that cannot be read. It is tried again; meanwhile other
// orders go on.
type leftover struct {
	journal *Journal
	last    bool
	err     error
}

func (l leftover) reason() string {
	return fmt.Sprintf("what an earlier worker left of run %s cannot be looked after, it is tried again: %v", l.journal.Run, l.err)
}

// leftoverWait is how long a leftover is left alone before it is tried again.
const leftoverWait = 30 * time.Second

func (w *Worker) lookAfter(ctx context.Context, j *Journal, last bool, now time.Time) {
	err := w.recoverRun(ctx, j, last, now)
	if err == nil {
		delete(w.left, j.Run)
		return
	}
	if w.left == nil {
		w.left = map[ferry.RunID]leftover{}
	}
	w.left[j.Run] = leftover{journal: j, last: last, err: err}
	w.again = now.Add(leftoverWait)
	w.log.Error("look after a run of an earlier worker", "task", string(j.Label), "run", string(j.Run), "err", err)
}

// retry tries the leftovers again.
func (w *Worker) retry(ctx context.Context, now time.Time) {
	for _, l := range w.left {
		w.lookAfter(ctx, l.journal, l.last, now)
	}
}

func (w *Worker) recoverRun(ctx context.Context, j *Journal, last bool, now time.Time) error {
	if n, err := process.Sweep(string(j.Run)); err != nil {
		return err
	} else if n > 0 {
		w.log.Warn("ended processes of an earlier worker", "task", string(j.Label), "run", string(j.Run), "processes", n)
	}
	task, err := w.cfg.Channel.Task(ctx, j.Order.String())
	if err != nil {
		return err
	}
	dir := filepath.Join(w.cfg.Runs, string(j.Run))
	open := last && task.Live == j.Start
	switch {
	case open && task.State == ferry.StateRunning && (j.Phase == PhaseEnded || j.Phase == PhaseKept) && j.Outcome == ferry.OutcomeDone:
		w.log.Info("go on with a finished run", "task", string(j.Label), "run", string(j.Run))
		w.launch(ctx, task, &attempt{start: j.Start, engine: w.engineNamed(j)}, j)
		return nil
	case j.Phase == PhaseMade || j.Phase == PhaseRunning || j.Phase == PhaseEnded:
		if err := w.keepOrphan(ctx, &task, j, dir); err != nil {
			return err
		}
	}
	if open && j.Phase != PhaseReady {
		j.Stop = w.stopFor(j, ferry.StopOrphan, "the worker died under it; what it left is kept")
		j.Stop.Commit = j.Commit
		j.Phase = PhaseReady
		if err := j.save(dir); err != nil {
			return err
		}
	}
	if !last {
		return w.reportRun(ctx, j, now)
	}
	c := &closing{order: j.Order, label: j.Label, start: j.Start, last: j, dirs: []string{dir}}
	err = w.submit(ctx, c, now)
	if errors.Is(err, errGrace) {
		w.unsaid = append(w.unsaid, c)
		return nil
	}
	return err
}

// keepOrphan snapshots what a dead run left, if its tree was ever made.
func (w *Worker) keepOrphan(ctx context.Context, t *ferry.Task, j *Journal, dir string) error {
	if j.Outcome == "" {
		j.Outcome, j.Reason = ferry.OutcomeOrphan, "the worker died under it"
	}
	if j.Ended.IsZero() {
		j.Ended = j.Started
	}
	snap, err := w.snapshot(ctx, t, j, dir)
	if errors.Is(err, worktree.ErrBroken) {
		j.Commit = j.From // the tree was never finished, so no engine was in it
		return nil
	}
	if err != nil {
		return err
	}
	j.Commit, j.Tree, j.Skipped, j.Phase = snap.Commit, snap.Tree, snap.Skipped, PhaseKept
	if owed, err := w.owe(ctx, j); err != nil {
		return err
	} else if owed != nil {
		w.carrier.add(*owed, nil)
	}
	return j.save(dir)
}

// keepRuns is how many run directories are kept, and keepDays for how long:
// journals and logs, without their trees.
const (
	keepRuns = 500
	keepDays = 30
)

// keepCaches is how many caches of `prepare` are kept: one for each base commit.
const keepCaches = 5

// prune removes the oldest closed run directories and caches.
func (w *Worker) prune(ctx context.Context, journals []*Journal, now time.Time) error {
	if err := evidence.Prune(w.cfg.Caches, keepCaches, nil); err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.log.Warn("prune", "err", err)
	}
	for i, j := range journals {
		aged := now.Sub(j.Started) > keepDays*24*time.Hour
		old := aged || len(journals)-i > keepRuns
		if !old || w.carrier.owes(j.Run) || j.Phase != PhaseClosed || w.running[j.Start] != nil {
			continue
		}
		dir := filepath.Join(w.cfg.Runs, string(j.Run))
		if err := w.retire(ctx, dir); err != nil {
			w.log.Warn("prune", "run", string(j.Run), "err", err)
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			w.log.Warn("prune", "run", string(j.Run), "err", err)
		}
	}
	return nil
}

package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/internal/gitfacts"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// keep snapshots what the run left as a commit under a ref of its own.
func (w *Worker) keep(ctx context.Context, a *attempt, j *Journal, dir string) error {
	a.at("keeping")
	snap, err := w.snapshot(ctx, &a.task, j, dir)
	if errors.Is(err, worktree.ErrBroken) { // the tree was never finished, so no engine was in it
		snap, err = worktree.Snap{Commit: j.From}, nil
	}
	if err != nil {
		return err
	}
	j.Commit, j.Tree, j.Skipped, j.Phase = snap.Commit, snap.Tree, snap.Skipped, PhaseKept
	if j.Stop != nil {
		j.Stop.Commit = snap.Commit
	}
	owed, err := w.owe(ctx, j)
	if err != nil {
		return err
	}
	if err := j.save(dir); err != nil {
		return err
	}
	w.pay(ctx, a, owed)
	return nil
}

func (w *Worker) snapshot(ctx context.Context, t *ferry.Task, j *Journal, dir string) (worktree.Snap, error) {
	tree, err := worktree.OpenTree(treeDir(dir))
	if err != nil {
		return worktree.Snap{}, err
	}
	return w.cfg.Gate.Snapshot(ctx, worktree.SnapSpec{
		Tree: tree, Ref: fmt.Sprintf("refs/ferry/attempts/%s/%d/%s", j.Order, j.Attempt, j.Run), Parent: j.From,
		Message: commitMessage(t, j), Hide: w.cfg.Redactor.String, Agent: w.cfg.Agent, When: j.Ended, Level: w.cfg.Box.Level, Mark: string(j.Run),
	})
}

// prove measures the change, runs the checks, and puts the result, or the stop
// for what is no result, into the journal.
func (w *Worker) prove(ctx context.Context, a *attempt, c *closing, j *Journal, dir string) error {
	a.at("checks")
	found, err := w.collect(ctx, a, j, dir)
	switch end := a.ended(); {
	case end != nil:
		j.Stop = w.stopFor(j, end.why, end.reason)
		j.Stop.Commit = j.Commit
		return w.close(j, dir)
	case ctx.Err() != nil:
		return nil // steered: the caller begins another run
	case err != nil:
		return err
	}
	if found.FilesTotal == 0 && j.Reason != "" && len(a.task.Order.Checks) == 0 {
		j.Stop = w.stopFor(j, ferry.StopFailed, j.Reason+", and it changed nothing")
		j.Stop.Commit = j.Commit
		return w.close(j, dir)
	}
	j.Result = w.result(a, j, found)
	if found.FilesTotal > 0 {
		if err := w.cfg.Gate.Branch(ctx, a.task.Branch(), j.Commit); err != nil {
			w.log.Warn("branch", "task", string(j.Label), "err", err)
			j.Result.Branch = ""
		}
	}
	return w.close(j, dir)
}

func (w *Worker) collect(ctx context.Context, a *attempt, j *Journal, dir string) (evidence.Findings, error) {
	cache, err := evidence.Prepare(ctx, w.prepareSpec(j))
	if err != nil {
		return evidence.Findings{}, err
	}
	repo, err := gitfacts.Open(w.cfg.Gate.Dir())
	if err != nil {
		return evidence.Findings{}, err
	}
	defer repo.Close() // it was only read
	spec := w.cfg.ChecksBox
	spec.Mark = string(j.Run)
	return evidence.Collect(ctx, evidence.Spec{
		Gate: w.cfg.Gate, Repo: repo, Order: a.task.Order, Base: j.Base, From: j.From, Commit: j.Commit,
		Skipped: j.Skipped, Denied: j.Denied, Redactor: w.cfg.Redactor,
		Checks: evidence.ChecksSpec{Dir: filepath.Join(dir, "checks"), Box: spec, Timeout: w.cfg.CheckTimeout, Cache: cache},
	})
}

func (w *Worker) result(a *attempt, j *Journal, found evidence.Findings) *ferry.Result {
	r := &ferry.Result{
		Order: j.Order, Attempt: j.Attempt, Revision: a.task.Revision + 1, Start: j.Start, Engine: j.Engine, Model: j.Model,
		Sandbox: j.Sandbox, Usage: j.Usage, Answer: clip(w.cfg.Redactor.String(j.Answer), ferry.MaxResultAnswer), Summary: j.Reason,
		Features: ferry.Features(),
	}
	found.Fill(r)
	if found.FilesTotal > 0 {
		r.Branch = a.task.Branch()
	}
	return r
}

// close writes the end of the attempt into the journal, so that a crash before
// it is in the channel loses nothing.
func (w *Worker) close(j *Journal, dir string) error {
	if j.Result == nil && j.Stop == nil {
		j.Stop = w.stopFor(j, ferry.StopReleased, "the attempt ended without a result")
		j.Stop.Commit = j.Commit
	}
	j.Phase = PhaseReady
	return j.save(dir)
}

// giveBack closes an attempt that this machine could not carry through. The
// order is given back and nothing counts against it; what the engine left
// stays where it is unless it is already a commit.
func (w *Worker) giveBack(c *closing, j *Journal, err error) *closing {
	c.last, c.trouble = j, err
	note := err.Error()
	if j.Phase == PhaseRunning || j.Phase == PhaseEnded {
		note += "; what the engine left is in " + filepath.Join(w.cfg.Runs, string(j.Run))
	}
	j.Result, j.Stop = nil, w.stopFor(j, ferry.StopReleased, note)
	if j.Ended.IsZero() {
		j.Ended = j.Started
	}
	if j.Outcome == "" || j.Outcome == ferry.OutcomeDone && j.Phase != PhaseKept {
		j.Outcome, j.Reason = ferry.OutcomeFault, clip(w.cfg.Redactor.String(err.Error()), 500)
	}
	j.Stop.Commit = j.Commit
	return c
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		s = s[i+1:]
	}
	return clip(s, 300)
}

// retire removes the tree of a run whose work is reachable from a ref. The
// journal and the log stay.
func (w *Worker) retire(ctx context.Context, dir string) error {
	for _, rest := range []string{"box", "checks", "in", "attached"} {
		if err := os.RemoveAll(filepath.Join(dir, rest)); err != nil {
			return err
		}
	}
	tree, err := worktree.OpenTree(treeDir(dir))
	if errors.Is(err, worktree.ErrBroken) {
		// A tree that was never finished had no engine in it.
		return os.RemoveAll(treeDir(dir))
	}
	if err != nil {
		return err
	}
	return w.cfg.Gate.Retire(ctx, tree)
}

package worker

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// work is the goroutine of an attempt: runs until one ends by itself or the
// attempt is ended, then evidence. It always returns how the attempt closes.
func (w *Worker) work(ctx context.Context, a *attempt) *closing {
	c := &closing{order: a.task.ID, label: a.task.Order.Label, start: a.start}
	notes, from := a.task.Next.Notes, a.task.Next.From
	for n := int64(1); ; n++ {
		j := w.newJournal(a, n, from)
		again, err := w.one(ctx, a, c, j, &notes)
		if err != nil {
			return w.giveBack(c, j, err)
		}
		if !again {
			return c
		}
		from = j.Commit
	}
}

// goOn finishes an attempt whose engine had ended before the worker did.
func (w *Worker) goOn(ctx context.Context, a *attempt, j *Journal) *closing {
	dir := filepath.Join(w.cfg.Runs, string(j.Run))
	c := &closing{order: j.Order, label: j.Label, start: j.Start, last: j, dirs: []string{dir}, worked: true}
	a.enter(j, dir, a.cancel)
	if j.Phase == PhaseEnded {
		if err := w.keep(ctx, a, j, dir); err != nil {
			return w.giveBack(c, j, err)
		}
	}
	if err := w.prove(ctx, a, c, j, dir); err != nil {
		return w.giveBack(c, j, err)
	}
	return c
}

func (w *Worker) newJournal(a *attempt, n int64, from ferry.Commit) *Journal {
	engine := a.present()
	return &Journal{
		Run: ferry.NewRunID(), Order: a.task.ID, Label: a.task.Order.Label, Start: a.start, Attempt: a.n, N: n,
		Engine: string(engine.Name), Model: engine.Model, Base: a.task.Order.Base, From: from, Commit: from,
		Sandbox: ferry.Sandbox{Level: string(w.cfg.Box.Level), Net: string(w.cfg.Box.Net), Probe: w.cfg.Probe},
		Phase:   PhaseMade, Started: time.Now(),
	}
}

// one is one run: tree, engine, snapshot, and for the last one the evidence.
// again is true when a note for the engine asks for another run.
func (w *Worker) one(ctx context.Context, a *attempt, c *closing, j *Journal, notes *[]string) (again bool, err error) {
	runCtx, stop := context.WithCancel(ctx)
	defer stop()
	for _, s := range a.enter(j, filepath.Join(w.cfg.Runs, string(j.Run)), stop) {
		j.Steers = append(j.Steers, s.ID)
		*notes = append(*notes, s.Note)
	}
	dir, err := w.runDir(j)
	if err != nil {
		return false, err
	}
	c.last, c.dirs = j, append(c.dirs, dir)
	reply, err := w.engine(runCtx, a, j, *notes)
	if err != nil && runCtx.Err() != nil {
		reply, err = engines.Reply{Ended: engines.EndedCancelled}, nil // ended before the engine began
	}
	if err != nil {
		return false, err
	}
	w.judgeEnd(a, c, j, reply)
	if err := j.save(dir); err != nil {
		return false, err
	}
	if err := w.keep(context.WithoutCancel(ctx), a, j, dir); err != nil {
		return false, err
	}
	if c.fault != nil {
		return w.handOver(a, c, j, dir)
	}
	if j.Outcome == ferry.OutcomeDone {
		if err := w.prove(runCtx, a, c, j, dir); err != nil {
			return false, err
		}
	}
	if a.steered() && a.ended() == nil {
		j.Outcome, j.Reason, j.Result, j.Stop = ferry.OutcomeSteered, steeredReason, nil, nil
		w.events <- event{start: a.start, run: j}
		return true, nil
	}
	return false, w.close(j, dir)
}

// engine makes the tree and runs the engine in it.
func (w *Worker) engine(ctx context.Context, a *attempt, j *Journal, notes []string) (engines.Reply, error) {
	dir := filepath.Join(w.cfg.Runs, string(j.Run))
	if err := w.cfg.Gate.Import(ctx, j.Base); err != nil {
		return engines.Reply{}, err
	}
	if j.From != j.Base && !w.cfg.Gate.Has(ctx, j.From) {
		if err := w.cfg.Gate.Import(ctx, j.From); err != nil {
			return engines.Reply{}, err
		}
	}
	if w.cfg.Prepare != "" {
		a.at("preparing")
	}
	cache, err := evidence.Prepare(ctx, w.prepareSpec(j))
	if err != nil {
		return engines.Reply{}, err
	}
	tree, err := w.cfg.Gate.NewTree(ctx, worktree.TreeSpec{Dir: treeDir(dir), Commit: j.From})
	if err != nil {
		return engines.Reply{}, err
	}
	attached, err := attach(dir, a.task.Order)
	if err != nil {
		return engines.Reply{}, err
	}
	log, err := os.OpenFile(filepath.Join(dir, LogFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return engines.Reply{}, fmt.Errorf("run %s: %w", j.Run, err)
	}
	defer log.Close() // every write to it was checked
	j.Phase = PhaseRunning
	if err := j.save(dir); err != nil {
		return engines.Reply{}, err
	}
	a.at("running")
	engine := a.present()
	engine.Env = maps.Clone(engine.Env)
	for name, value := range cache.Shown() {
		if engine.Env == nil {
			engine.Env = map[string]string{}
		}
		engine.Env[name] = value
	}
	reply := engines.Run(ctx, engines.Request{
		Engine: engine, Contract: engines.ContractOf(engine.Command), Prompt: prompt(&a.task, j.From, notes, attached),
		PromptDir: filepath.Join(dir, "in"), Box: w.engineBox(j, tree, cache, attached), Environ: os.Environ(),
		Redact: w.cfg.Redactor, Log: log, Control: a.control, Timeout: a.left(w.cfg, a.task.Order),
		Limit: a.limit(),
	})
	a.clocked(reply.Duration, a.steered())
	return reply, nil
}

func treeDir(dir string) string { return filepath.Join(dir, "tree") }

// engineBox is the box of one run: the tree, its private repository, the
// caches and the attachments come to what the configuration shows.
func (w *Worker) engineBox(j *Journal, tree *worktree.Tree, cache evidence.Cache, attached string) box.Spec {
	spec := w.cfg.Box
	spec.Work, spec.Mark, spec.State = tree.Work(), string(j.Run), filepath.Join(w.cfg.Runs, string(j.Run), "box")
	spec.Binds = slices.Concat(spec.Binds, tree.Binds(), cache.Binds())
	if attached != "" {
		spec.Binds = append(spec.Binds, box.Bind{Host: attached})
	}
	return spec
}

func (w *Worker) prepareSpec(j *Journal) evidence.PrepareSpec {
	spec := w.cfg.ChecksBox // prepare is the project's command: the engine's login is not for it
	spec.Mark, spec.Net = string(j.Run), w.cfg.Box.Net
	return evidence.PrepareSpec{
		Gate: w.cfg.Gate, Command: w.cfg.Prepare, Base: j.Base, Dir: w.cfg.Caches, Box: spec,
		Timeout: w.cfg.CheckTimeout, Redactor: w.cfg.Redactor,
	}
}

// attach writes the order's attachments where the engine can read them, and
// gives that directory, or "".
func attach(dir string, o *ferry.Order) (string, error) {
	if len(o.Attachments) == 0 {
		return "", nil
	}
	to := filepath.Join(dir, "attached")
	if err := atomicfile.MkdirAll(to, 0o700); err != nil {
		return "", err
	}
	for _, f := range o.Attachments {
		if err := atomicfile.Write(filepath.Join(to, filepath.Base(f.Name)), []byte(f.Text), 0o600); err != nil {
			return "", err
		}
	}
	return to, nil
}

// judgeEnd puts into the journal how the run ended. The engine's own exit code
// is never a verdict; whether there is work is for git and the checks to say.
func (w *Worker) judgeEnd(a *attempt, c *closing, j *Journal, r engines.Reply) {
	j.Ended, j.Usage, j.Answer, j.Denied = time.Now(), r.Usage, r.Text, r.Denied
	j.Phase = PhaseEnded
	a.pay(r.Usage)
	c.worked = r.Fault == nil && r.Ended == engines.EndedExited
	switch end := a.ended(); {
	case end != nil && r.Ended == engines.EndedCancelled:
		j.Outcome, j.Reason = end.outcome, end.reason
		j.Stop = w.stopFor(j, end.why, end.reason)
	case r.Ended == engines.EndedCancelled:
		j.Outcome, j.Reason = ferry.OutcomeSteered, steeredReason
	case r.Ended == engines.EndedLimit:
		j.Outcome, j.Reason = ferry.OutcomeLimit, r.Over
		j.Stop = w.stopFor(j, ferry.StopReleased, r.Over)
	case r.Fault != nil:
		c.fault = r.Fault
		j.Outcome, j.Reason = ferry.OutcomeFault, r.Fault.String()
		j.Stop = w.stopFor(j, ferry.StopFault, r.Fault.String())
	case r.Ended == engines.EndedTimeout, r.Ended == engines.EndedStalled:
		j.Outcome, j.Reason = ferry.OutcomeTimeout, "the run was ended by its clock: "+string(r.Ended)
		j.Stop = w.stopFor(j, ferry.StopTimeout, j.Reason)
	case r.OOM:
		j.Outcome, j.Reason = ferry.OutcomeLimit, "the run used more memory than [box] memory_mb allows"
		j.Stop = w.stopFor(j, ferry.StopFailed, j.Reason)
	case r.Err != nil:
		j.Outcome, j.Reason = ferry.OutcomeFault, r.Err.Error()
		j.Stop = w.stopFor(j, ferry.StopReleased, r.Err.Error())
		c.trouble = r.Err
	default:
		j.Outcome = ferry.OutcomeDone
		if r.Exit != 0 {
			j.Reason = fmt.Sprintf("the engine ended with exit %d: %s", r.Exit, lastLine(r.Tail))
		}
	}
}

// askEngine probes one engine in a place of its own.
func (w *Worker) askEngine(ctx context.Context, c engines.Config) (engines.Proof, error) {
	place, err := w.place(c)
	if err != nil {
		return engines.Proof{}, err
	}
	return engines.Probe(ctx, engines.ProbeDeps{Place: place, Now: time.Now}, c), nil
}

func (w *Worker) stopFor(j *Journal, why ferry.StopReason, note string) *ferry.Stop {
	return &ferry.Stop{Order: j.Order, Start: j.Start, Reason: why, Note: clip(w.cfg.Redactor.String(note), 1000)}
}

package worker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/internal/process"
)

// probed is what a probe found, as it reaches the worker.
type probed struct {
	engine ferry.EngineName
	proof  engines.Proof
	err    error // of this machine: the probe could not be made
}

// probe asks the engines that are due whether they answer, each in a goroutine of its own; what they say comes as an event,
// which Run, Drain and stop wait for.
func (w *Worker) probe(ctx context.Context, now time.Time) {
	if w.probes == nil {
		w.probes, w.endProbes = context.WithCancel(context.WithoutCancel(ctx))
	}
	for _, k := range w.shelf.known {
		if k.probing || k.Blocked != "" || k.Engine.Check() != nil || !engines.Due(k.Proof, k.Health, k.Engine, now) {
			continue
		}
		k.probing = true
		c := k.Engine
		go func() {
			proof, err := w.askEngine(w.probes, c)
			w.events <- event{probed: &probed{engine: c.Name, proof: proof, err: err}}
		}()
	}
}

// probing reports whether a probe is on its way.
func (w *Worker) probing() bool {
	for _, k := range w.shelf.known {
		if k.probing {
			return true
		}
	}
	return false
}

// place makes the empty directories that a command is tried in.
func (w *Worker) place(c engines.Config) (engines.Request, error) {
	req := engines.Request{Environ: os.Environ(), Redact: w.cfg.Redactor}
	if c.Kind != engines.KindCLI || c.BaseURL == "" {
		return req, nil
	}
	mark := "probe-" + string(w.cfg.Agent) + "-" + string(c.Name)
	dir := filepath.Join(w.cfg.Runs, mark)
	if _, err := process.Sweep(mark); err != nil { // of a worker that was killed under it
		return req, err
	}
	if err := os.RemoveAll(dir); err != nil {
		return req, fmt.Errorf("probe of engine %s: %w", c.Name, err)
	}
	req.Box = w.cfg.Box
	req.Box.Mark, req.Box.Work, req.Box.State = mark, filepath.Join(dir, "work"), filepath.Join(dir, "box")
	req.PromptDir = filepath.Join(dir, "in")
	for _, d := range []string{req.Box.Work, req.PromptDir} {
		if err := atomicfile.MkdirAll(d, 0o700); err != nil {
			return req, fmt.Errorf("probe of engine %s: %w", c.Name, err)
		}
	}
	return req, nil
}

// heard takes what a probe found.
func (w *Worker) heard(p *probed, now time.Time) {
	k := w.shelf.find(p.engine)
	k.probing = false
	switch {
	case w.probes != nil && w.probes.Err() != nil: // it was stopped
		return
	case p.err != nil:
		w.log.Error("probe", "engine", string(p.engine), "err", p.err)
		p.proof = engines.Proof{State: engines.StateUnknown, Reason: w.cfg.Redactor.String(p.err.Error()), At: now}
	case p.proof.State != k.Proof.State && (k.Proof.State != "" || p.proof.State != engines.StateUnknown):
		w.log.Info("probed", "engine", string(p.engine), "state", string(p.proof.State), "proof", p.proof.Proof, "reason", p.proof.Reason)
	}
	if err := w.shelf.proven(k, p.proof); err != nil {
		w.log.Error("remember the engine's health", "err", err)
	}
}

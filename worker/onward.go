package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/engines"
)

// choose gives the engine that an order goes to, as far as is known.
func (w *Worker) choose(o *ferry.Order, tried []ferry.EngineName, now time.Time) Choice {
	stands := w.shelf.stands()
	for i := range stands {
		w.purse.budget(&stands[i], o, now)
	}
	return Choose(Search{Stands: stands, Need: NeedOf(o), Tried: tried, Now: now, Route: w.cfg.Route})
}

// engineFor gives the plan why no engine may do an order at now.
func (w *Worker) engineFor(now time.Time) func(*ferry.Task) Lack {
	return func(t *ferry.Task) Lack {
		c := w.choose(t.Order, nil, now)
		return c.lack(now)
	}
}

// engineOf gives the engine that an attempt begins with: that of a run which had finished already, else the one that is
// chosen now.
func (w *Worker) engineOf(t *ferry.Task, resumed *Journal, now time.Time) (engines.Config, bool) {
	if resumed != nil {
		return w.engineNamed(resumed), true
	}
	c := w.choose(t.Order, nil, now).Engine
	return c, c.Name != ""
}

// engineNamed gives the engine of a run. It may have gone from the configuration since.
func (w *Worker) engineNamed(j *Journal) engines.Config {
	if k := w.shelf.find(ferry.EngineName(j.Engine)); k != nil {
		return k.Engine
	}
	return engines.Config{Name: ferry.EngineName(j.Engine), Model: j.Model}
}

// failed is a run that ended by a fault of its engine, as the attempt tells it.
type failed struct {
	order *ferry.Order
	fault engines.Fault
	tried []ferry.EngineName // in this attempt, with the one that failed
	back  chan<- onward      // gets the answer; never blocks
}

// onward is how an attempt goes on after a fault.
type onward struct {
	next engines.Config // its name is empty where the order is given back
	note string         // of the fault, for the ledger
	why  string         // it is given back
}

// handOver asks the worker how the attempt goes on after the engine has failed. again is true when another engine is to go
// on from the commit that this one left.
func (w *Worker) handOver(a *attempt, c *closing, j *Journal, dir string) (again bool, err error) {
	a.tried = append(a.tried, ferry.EngineName(j.Engine))
	back := make(chan onward, 1)
	w.events <- event{start: a.start, run: j, failed: &failed{order: a.task.Order, fault: *c.fault, tried: a.tried, back: back}}
	on := <-back
	if on.next.Name != "" {
		a.use(on.next)
		c.fault, c.note = nil, ""
		return true, nil
	}
	c.note = on.note
	if a.ended() == nil {
		j.Stop.Note = clip(w.cfg.Redactor.String(on.why), 1000)
	}
	return false, w.close(j, dir)
}

// faulted learns from the fault of an engine, and answers the attempt. A run that is not the last of its attempt is recorded
// before the next begins.
func (w *Worker) faulted(ctx context.Context, e event, now time.Time) {
	f, j := e.failed, e.run
	name := ferry.EngineName(j.Engine)
	w.learnFault(ctx, j, f.fault, now)
	a := w.running[e.start]
	w.used(a, j)
	w.settle(a, now)
	on := w.goesOn(e, now)
	on.note = w.cfg.Redactor.String(w.faultNote(name, f, on))
	w.log.Warn("engine fault", "task", string(j.Label), "engine", string(name), "err", f.fault.String(), "next", string(on.next.Name))
	if on.next.Name != "" {
		j.Stop = nil
		note := &ferry.Note{Order: j.Order, Kind: noteFault, Text: on.note}
		if err := w.reportRun(ctx, j, now, note); err != nil {
			w.log.Error("record the run", "task", string(j.Label), "run", string(j.Run), "err", err)
		}
	}
	f.back <- on
}

// learnFault notes the fault of a run's engine, and asks the master where it has failed too often.
func (w *Worker) learnFault(ctx context.Context, j *Journal, fault engines.Fault, now time.Time) {
	name := ferry.EngineName(j.Engine)
	k := w.shelf.find(name)
	if k == nil {
		return
	}
	before := k.Health.Failures
	if err := w.shelf.fail(now, name, fault); err != nil {
		w.log.Error("remember the engine's health", "err", err)
	}
	if label := string(j.Label); len(k.touched) < maxTouched && !slices.Contains(k.touched, label) {
		k.touched = append(k.touched, label)
	}
	if k.Health.Failures > before { // else it rested already
		w.alert(ctx, k, j.Order, now)
	}
}

// noteFault is the kind of the note about an engine's fault.
const noteFault = "engine-fault"

// goesOn chooses where an order goes after a fault, or words why it is given back.
func (w *Worker) goesOn(e event, now time.Time) onward {
	f := e.failed
	a := w.running[e.start]
	switch {
	case a == nil || a.ending:
		return onward{why: "the attempt was ended"}
	case a.spent(w.cfg, f.order):
		return onward{why: fmt.Sprintf("released: %s failed it (%s), and no time of the order is left for another engine", e.run.Engine, f.fault.Reason)}
	case len(f.tried) >= w.cfg.MaxEngines:
		return onward{why: fmt.Sprintf("released: %d engines have failed it, the limit of an attempt: %s", len(f.tried), w.failures(f))}
	}
	c := w.choose(f.order, f.tried, now)
	if c.Engine.Name != "" {
		key := reservation(a.task.ID, a.n, len(f.tried)+1)
		if err := w.purse.reserve(a, key, c.Engine, now); err != nil {
			return onward{why: fmt.Sprintf("released: engine %s cannot go on: %v", c.Engine.Name, err)}
		}
		return onward{next: c.Engine}
	}
	why := "released: no engine is left for it: " + w.failures(f)
	for _, l := range c.Left {
		if !slices.Contains(f.tried, l.Engine) {
			why += "; " + string(l.Engine) + ": " + l.Why
		}
	}
	return onward{why: why}
}

// failures names the engines that failed an attempt, and why.
func (w *Worker) failures(f *failed) string {
	var parts []string
	for _, n := range f.tried {
		why := "it failed"
		if k := w.shelf.find(n); k != nil && k.Health.Reason != "" {
			why = string(k.Health.Class) + ": " + k.Health.Reason
		}
		parts = append(parts, string(n)+": "+clip(why, 200))
	}
	return strings.Join(parts, "; ")
}

// faultNote words a fault for the ledger: the engine, where the order goes, how long the engine rests, and the reason.
func (w *Worker) faultNote(name ferry.EngineName, f *failed, on onward) string {
	text := fmt.Sprintf("engine %s failed: the order goes back", name)
	if on.next.Name != "" {
		text = fmt.Sprintf("engine %s failed: the order goes on with engine %s", name, on.next.Name)
	}
	if k := w.shelf.find(name); k != nil {
		text += "; it rests until " + k.Health.Until.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%s; %s: %s", text, f.fault.Class, f.fault.Reason)
}

// use makes an engine the one of the attempt's next run.
func (a *attempt) use(c engines.Config) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.engine = c
}

// present gives the engine of the attempt's next run.
func (a *attempt) present() engines.Config {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.engine
}

// left is how long a run may last. Where the order itself says how long, the runs of several engines share it: others take
// an attempt that lasts longer for one that hangs. A note from a person begins it again.
func (a *attempt) left(cfg Config, o *ferry.Order) time.Duration {
	if o.TimeoutSecs <= 0 {
		return cfg.Timeout
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Duration(o.TimeoutSecs)*time.Second - a.used
}

// spent reports whether too little of the order's time is left to begin another run.
func (a *attempt) spent(cfg Config, o *ferry.Order) bool {
	return o.TimeoutSecs > 0 && a.left(cfg, o) < min(time.Minute, time.Duration(o.TimeoutSecs)*time.Second/10)
}

// clocked adds the time of a run that has ended to that of the attempt.
func (a *attempt) clocked(d time.Duration, steered bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used += d
	if steered {
		a.used = 0
	}
}

// reportRun writes the record of a run that is not the last of its attempt, and what is to be said with it.
func (w *Worker) reportRun(ctx context.Context, j *Journal, now time.Time, notes ...ferry.Body) error {
	err := w.write(ctx, now, func(tx *channel.Tx) error {
		for _, b := range append([]ferry.Body{j.record()}, notes...) {
			if _, err := tx.Add(b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return w.reported(ctx, j)
}

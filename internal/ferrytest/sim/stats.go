package sim

import (
	"slices"
	"time"
)

// sight is something that has to happen now and then, or the simulation shows nothing about it.
type sight int

// The sights.
const (
	sawFork sight = iota
	sawLapse
	sawRefused
	sawLostPush
	sawResettle
	sawSelfDoubt
	sawParked
	sawRelay
	sawThird
	sawBehind
	sawOwnFork
	sawRetire
	sawFullDisk
	sawHalf
	sawOverdue
	sawDeputy
	lastSight
)

// SightNames gives the names of what a batch of runs has to have seen.
func SightNames() []string {
	return []string{
		"fork", "lapse", "CAS refusal", "applied but lost push", "settled again", "self-doubt ended", "gap parked", "relay", "through a third machine", "behind-hold",
		"own fork seen", "retired", "full disk", "half a file", "overdue", "a delegate's accept",
	}
}

func (w *world) seen(s sight) { w.stats.Sights[s]++ }

// Stats is what one run, or all runs of a scenario, came to.
type Stats struct {
	Runs, Orders, Started, Starts, Doubles int
	Lapses, Second, Refused, Violations    int
	Ended                                  int           // orders in a final state
	Engine, Wasted                         time.Duration // engine time; with a second engine on the same order
	Longest                                time.Duration // overlap of two engines
	Waits                                  []time.Duration
	Sights                                 [lastSight]int
	Events                                 int
	Records                                int
}

// Add adds the figures of another run.
func (s *Stats) Add(o *Stats) {
	s.Runs += o.Runs
	s.Orders += o.Orders
	s.Started += o.Started
	s.Starts += o.Starts
	s.Doubles += o.Doubles
	s.Lapses += o.Lapses
	s.Second += o.Second
	s.Refused += o.Refused
	s.Violations += o.Violations
	s.Ended += o.Ended
	s.Engine += o.Engine
	s.Wasted += o.Wasted
	s.Longest = max(s.Longest, o.Longest)
	s.Waits = append(s.Waits, o.Waits...)
	for i := range s.Sights {
		s.Sights[i] += o.Sights[i]
	}
	s.Events += o.Events
	s.Records += o.Records
}

// wait gives a percentile of the times from order to start.
func (s *Stats) wait(percent int) time.Duration {
	if len(s.Waits) == 0 {
		return 0
	}
	w := slices.Sorted(slices.Values(s.Waits))
	return w[min(len(w)*percent/100, len(w)-1)]
}

// engineBegins counts an engine, and whether another runs for the same order.
func (w *world) engineBegins(e *engine) {
	o := e.o
	w.stats.Starts++
	if !o.started {
		o.started = true
		w.stats.Started++
		w.stats.Waits = append(w.stats.Waits, w.time.now-o.issued)
	}
	if len(o.running) > 0 {
		w.stats.Doubles++
	}
	w.engineRuns(e)
}

// engineRuns counts the time of an engine, until engineRests.
func (w *world) engineRuns(e *engine) {
	o := e.o
	if len(o.running) == 1 {
		o.overlap = w.time.now
	}
	o.running = append(o.running, e)
	e.began = w.time.now
}

func (w *world) engineRests(e *engine) {
	o := e.o
	if !slices.Contains(o.running, e) {
		return
	}
	w.stats.Engine += w.time.now - e.began
	if len(o.running) > 1 {
		over := w.time.now - max(o.overlap, e.began)
		w.stats.Wasted += over
		w.stats.Longest = max(w.stats.Longest, over)
	}
	o.running = slices.DeleteFunc(o.running, func(x *engine) bool { return x == e })
	if len(o.running) > 0 {
		o.overlap = w.time.now
	}
}

// engineEnds counts what an engine took.
func (w *world) engineEnds(e *engine) {
	e.runs = false
	w.engineRests(e)
}

// ended reports whether an order is in a state that nothing leads out of, as the operator's machine sees it; or whether main
// holds it and the record of that cannot be: because the machine that landed it is gone, or a fork that was found later voids
// the result.
func (w *world) ended(o *ordered) bool {
	t, ok := w.machines[0].rep.Task(o.id)
	if !ok || o.id.IsZero() {
		return false
	}
	if t.State.Final() {
		return true
	}
	c, landed := w.remote.refs[landedRef(o.id)]
	if !landed {
		return false
	}
	g := w.remote.commits[c]
	return g.by.gone || w.cloned[w.records[g.result].by.i] && !counts(&t, g.result) || w.cloned[g.by.i]
}

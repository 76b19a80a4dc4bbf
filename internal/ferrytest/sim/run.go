package sim

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Report is what one run came to.
type Report struct {
	Seed       uint64
	Scenario   Scenario
	Digest     uint64 // of the trace
	Violations []Violation
	Stats      Stats
}

// Run runs one world to its end. lines takes the trace, or is nil.
func Run(seed uint64, sc Scenario, lines io.Writer) Report {
	w := newWorld(seed, sc.fill(seed), lines)
	w.work()
	if !w.check.failed() {
		w.settleDown()
	}
	w.stats.Runs, w.stats.Orders, w.stats.Violations = 1, len(w.orders), len(w.check.violations)
	w.stats.Events, w.stats.Records = w.time.done, len(w.records)
	w.stats.Refused = w.stats.Sights[sawRefused]
	for _, o := range w.orders {
		if w.ended(o) {
			w.stats.Ended++
		}
	}
	return Report{Seed: seed, Scenario: w.sc, Digest: w.sum.Sum64(), Violations: w.check.violations, Stats: w.stats}
}

// grantedTime is how long after the end of the faults every order has to be in a final state.
const grantedTime = 6 * time.Hour

// work runs the world until all orders have ended, or its time is over.
func (w *world) work() {
	end := w.sc.until
	if w.sc.Liveness || w.sc.Faults == 0 {
		end += grantedTime
	}
	for w.time.now < end && !w.check.failed() && !w.allEnded() {
		w.time.run(w.time.now+20*time.Second, w.halted)
		if w.time.stuck() {
			w.check.fail(nil, "bug", "time does not go on")
		}
	}
	if (w.sc.Liveness || w.sc.Faults == 0) && !w.check.failed() && !w.sc.Peer {
		w.check.live()
	}
}

func (w *world) halted() bool { return w.check.failed() || w.time.stuck() }

func (w *world) allEnded() bool {
	for _, o := range w.orders {
		if !w.ended(o) {
			return false
		}
	}
	return true
}

// settleDown ends all faults and all acting, and lets what is known spread until every machine has it.
func (w *world) settleDown() {
	w.closing = true
	w.sc.until = 0
	for _, m := range w.machines {
		if !m.up {
			continue
		}
		m.killEngines()
		m.boots++ // whatever waits for its time does not come any more
		m.planned, m.waiting = false, nil
		m.poll()
	}
	w.time.run(w.time.now+relayAfter+15*time.Minute, w.check.failed)
	if !w.check.failed() {
		w.check.quiet()
	}
}

// Batch runs seeds from first on, on some goroutines, and gives the reports in the order of the seeds to each, from one
// goroutine. It ends early when each says so.
type Batch struct {
	First, N uint64
	Workers  int
	Scenario func(seed uint64) Scenario
	Each     func(Report) (more bool)
}

// Run runs the batch.
func (b Batch) Run() {
	reports := make([]chan Report, b.N)
	for i := range reports {
		reports[i] = make(chan Report, 1)
	}
	var next atomic.Uint64
	var stop atomic.Bool
	var group sync.WaitGroup
	for range max(b.Workers, 1) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < b.N && !stop.Load(); i = next.Add(1) - 1 {
				seed := b.First + i
				reports[i] <- Run(seed, b.Scenario(seed), nil)
			}
		})
	}
	for _, r := range reports {
		if !b.Each(<-r) {
			break
		}
	}
	stop.Store(true)
	group.Wait()
}

// Replay gives the command that runs a seed again and prints its trace.
func (r *Report) Replay() string {
	s := fmt.Sprintf("scripts/simulate -seeds 1 -seed %d -trace", r.Seed)
	switch {
	case r.Scenario.Allowed == 0:
		s += fmt.Sprintf(" -scenario %q", r.Scenario.Name)
	case r.Scenario.Allowed != AllFaults:
		s += " -faults " + r.Scenario.Allowed.String()
	}
	if r.Scenario.Mutant != MutantNone {
		s += " -mutant " + string(r.Scenario.Mutant)
	}
	return s
}

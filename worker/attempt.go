package worker

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/engines"
)

// ending is why an attempt was ended from outside, and how it is closed.
type ending struct {
	outcome ferry.Outcome
	why     ferry.StopReason
	reason  string
}

func shutdown() *ending {
	return &ending{ferry.OutcomeShutdown, ferry.StopShutdown, "the worker was stopped"}
}

// steeredReason words the end of a run that begins again with a note.
const steeredReason = "a note for the engine arrived"

func endOf(why ferry.StopReason, reason string) *ending {
	return &ending{outcome: ferry.OutcomeKilled, why: why, reason: reason}
}

// attempt is one try at an order that runs here. Its goroutine is work; the
// methods are for the goroutine that owns the worker.
type attempt struct {
	task    ferry.Task
	start   ferry.RecordID
	n       int64
	cancel  context.CancelFunc
	control chan engines.Control
	tried   []ferry.EngineName // that have failed it; owned by its goroutine
	poke    chan<- struct{}    // tells the worker that the attempt has come a step further

	// Owned by the worker's goroutine.
	reserved string         // what is set aside for its engine; empty where nothing is
	sum      engines.Amount // that its engine has used
	frozen   bool
	ending   bool
	told     map[ferry.RecordID]bool

	mu      sync.Mutex
	engine  engines.Config // of the present run, or of the next
	used    time.Duration  // of the order's time, since its beginning or the last note
	allowed engines.Amount // by the engine's budget
	paid    int64          // millionths of a dollar, by the runs that have ended
	run     ferry.RunID
	phase   string
	since   time.Time // of the present run
	log     string
	pending []ferry.Steer      // told to us, not yet to a run
	stopRun context.CancelFunc // ends the present run alone
	why     *ending            // set once the attempt was told to end
}

// end ends the attempt; its work is kept.
func (a *attempt) end(why *ending) {
	if a.ending {
		return
	}
	a.ending = true
	a.mu.Lock()
	a.why = why
	a.mu.Unlock()
	a.cancel()
}

// allow sets what the engine's budget lets the next run use.
func (a *attempt) allow(limit engines.Amount) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.allowed = limit
}

// pay counts what a run has used: another run of the same engine, after a note, has what is left of the one reservation.
func (a *attempt) pay(u ferry.Usage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.paid += u.CostMicroUSD
	used := engines.UsedBy(u, engines.CapPrice(a.engine), 0)
	if a.allowed.MicroUSD > 0 { // 0 is no limit
		a.allowed.MicroUSD = max(1, a.allowed.MicroUSD-used.MicroUSD)
	}
	if a.allowed.Tokens > 0 {
		a.allowed.Tokens = max(1, a.allowed.Tokens-used.Tokens)
	}
}

// limit gives what the next run may use: what the engine's budget allows, and no more money than the order has left.
func (a *attempt) limit() engines.Amount {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.allowed
	if most := allowance(&a.task); most > 0 {
		left := max(1, most-a.task.Usage().CostMicroUSD-a.paid)
		if l.MicroUSD == 0 || left < l.MicroUSD {
			l.MicroUSD = left
		}
	}
	return l
}

// ended gives why the attempt was told to end, or nil.
func (a *attempt) ended() *ending {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.why
}

// freeze stops or continues the engine with its clocks.
func (a *attempt) freeze(on bool) {
	c := engines.Thaw
	if on {
		c = engines.Freeze
	}
	select {
	case a.control <- c:
		a.frozen = on
	default: // the engine has not taken the last one: the next pass tries again
	}
}

// steer ends the present run, whose work is kept, and begins another with the notes.
func (a *attempt) steer(notes []ferry.Steer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range notes {
		a.told[s.ID] = true
	}
	a.pending = append(a.pending, notes...)
	if a.stopRun != nil {
		a.stopRun()
	}
}

// enter begins a run of the attempt: it takes the notes that are waiting, and
// says how to end the run.
func (a *attempt) enter(j *Journal, dir string, stop context.CancelFunc) []ferry.Steer {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.run, a.log, a.phase, a.stopRun, a.since = j.Run, filepath.Join(dir, LogFile), "starting", stop, j.Started
	a.tell()
	notes := a.pending
	a.pending = nil
	return notes
}

// steered reports whether a note is waiting for the next run.
func (a *attempt) steered() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.pending) > 0
}

func (a *attempt) at(phase string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.phase = phase
	a.tell()
}

// tell lets the worker write a new status; one that is on its way is enough.
func (a *attempt) tell() {
	select {
	case a.poke <- struct{}{}:
	default:
	}
}

func (a *attempt) status() RunningStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	return RunningStatus{
		Order: a.task.ID, Label: a.task.Order.Label, Run: a.run, Attempt: a.n, Engine: string(a.engine.Name), Phase: a.phase,
		Since: a.since, Log: a.log, Frozen: a.frozen,
	}
}

// event is what an attempt tells the worker: that a run has ended while the
// attempt goes on, that its engine has failed, or how the attempt has ended;
// or what a probe found.
type event struct {
	start  ferry.RecordID
	run    *Journal // a run that has ended, to be reported; nil at the end
	failed *failed  // the run ended by this, and the attempt waits for an answer
	closed *closing // the end of the attempt
	probed *probed
}

// closing is the end of an attempt: what its records are made of.
type closing struct {
	order   ferry.RecordID
	label   ferry.Label
	start   ferry.RecordID
	last    *Journal
	dirs    []string       // run directories, to be retired once this is in the channel
	fault   *engines.Fault // of the last run
	note    string         // about that fault, for the ledger
	worked  bool           // the engine answered
	trouble error          // of this machine: not the order's and not the engine's
}

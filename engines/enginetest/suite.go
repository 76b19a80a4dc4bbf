package enginetest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry/engines"
)

// Scenario is what the engine of a request does in one test of the suite.
type Scenario string

// The scenarios that a Subject must be able to play.
const (
	Answers Scenario = "answers" // with the text Answer
	Edits   Scenario = "edits"   // changes the tree, then answers with Answer
	Silent  Scenario = "silent"  // never prints a thing
	Nothing Scenario = "nothing" // ends at once with no answer and no tokens
	Missing Scenario = "missing" // cannot be started
	Leaks   Scenario = "leaks"   // prints Secret, which is one of its credentials
	Floods  Scenario = "floods"  // prints more than any bound
)

// Answer and Secret are the words of the scenarios. Secret is long enough that a
// redactor looks for it.
const (
	Answer = "the scripted answer"
	Secret = "canary-9f1c2e7a4b"
)

// Subject is a kind of engine under test. It returns a request for an engine that
// plays the scenario, in a fresh place.
type Subject func(t *testing.T, s Scenario) engines.Request

// limit is how long a run that ends by itself may take on a slow machine.
const limit = time.Minute

// Run tests that a kind of engine keeps the promises of package engines.
func Run(t *testing.T, subject Subject) {
	t.Run("answers", func(t *testing.T) { testAnswers(t, subject, Answers) })
	t.Run("edits", func(t *testing.T) { testAnswers(t, subject, Edits) })
	t.Run("silent", func(t *testing.T) { testSilent(t, subject) })
	t.Run("nothing", func(t *testing.T) { testFault(t, subject, Nothing, engines.FaultEmpty) })
	t.Run("missing", func(t *testing.T) { testFault(t, subject, Missing, engines.FaultMissing) })
	t.Run("cancelled", func(t *testing.T) { testCancelled(t, subject) })
	t.Run("cancelled before", func(t *testing.T) { testCancelledBefore(t, subject) })
	t.Run("frozen", func(t *testing.T) { testFrozen(t, subject) })
	t.Run("leaks", func(t *testing.T) { testLeaks(t, subject) })
	t.Run("floods", func(t *testing.T) { testFloods(t, subject) })
}

// Log is a log of a run that a test may read while it is written.
type Log struct {
	mu sync.Mutex
	b  strings.Builder
}

// Write appends to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns what was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func testAnswers(t *testing.T, subject Subject, s Scenario) {
	req := subject(t, s)
	log := &Log{}
	req.Log = log
	var pid int
	req.Started = func(p int, _ uint64) { pid = p }
	got := engines.Run(t.Context(), req)
	if got.Err != nil || got.Fault != nil || got.Ended != engines.EndedExited {
		t.Fatalf("ended %s, fault %v, err %v\n%s", got.Ended, got.Fault, got.Err, got.Tail)
	}
	if got.Text != Answer {
		t.Errorf("Text = %q, want %q", got.Text, Answer)
	}
	if pid == 0 {
		t.Error("Started was not called with a pid")
	}
	if !strings.Contains(log.String(), Answer) || !strings.Contains(got.Tail, Answer) {
		t.Errorf("the answer is not in the log %q and the tail %q", log, got.Tail)
	}
	if got.Started.IsZero() || got.Duration <= 0 {
		t.Errorf("started %s, took %s", got.Started, got.Duration)
	}
}

func testSilent(t *testing.T, subject Subject) {
	const stall = 700 * time.Millisecond
	req := subject(t, Silent)
	req.Timeout, req.Stall = limit, stall
	got := engines.Run(t.Context(), req)
	if got.Ended != engines.EndedStalled || got.Fault == nil || got.Fault.Class != engines.FaultSilent {
		t.Fatalf("ended %s with %v, want a stall that is the engine's fault; err %v", got.Ended, got.Fault, got.Err)
	}
	if got.Fault.Engine != req.Engine.Name {
		t.Errorf("the fault is of %q", got.Fault.Engine)
	}
	if got.Duration < stall || got.Duration > limit {
		t.Errorf("stall of %s ended after %s", stall, got.Duration)
	}
}

func testFault(t *testing.T, subject Subject, s Scenario, want engines.Class) {
	got := engines.Run(t.Context(), subject(t, s))
	if got.Fault == nil || got.Fault.Class != want || got.Fault.Reason == "" {
		t.Fatalf("fault %v, want %s with a reason; ended %s, err %v", got.Fault, want, got.Ended, got.Err)
	}
}

func testCancelled(t *testing.T, subject Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req := subject(t, Silent)
	req.Started = func(int, uint64) { cancel() }
	got := engines.Run(ctx, req)
	if got.Ended != engines.EndedCancelled || got.Fault != nil || got.Err != nil {
		t.Fatalf("ended %s, fault %v, err %v; want cancelled without a fault", got.Ended, got.Fault, got.Err)
	}
	if got.Duration > limit {
		t.Errorf("cancelled after %s", got.Duration)
	}
}

func testCancelledBefore(t *testing.T, subject Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req := subject(t, Answers)
	req.Started = func(int, uint64) { t.Error("the engine was started") }
	if got := engines.Run(ctx, req); got.Ended != engines.EndedCancelled || got.Fault != nil {
		t.Fatalf("ended %s, fault %v; want cancelled", got.Ended, got.Fault)
	}
}

// testFrozen freezes a silent engine for longer than its stall clock.
func testFrozen(t *testing.T, subject Subject) {
	const stall, frozen = 700 * time.Millisecond, 1500 * time.Millisecond
	req := subject(t, Silent)
	req.Timeout, req.Stall = limit, stall
	control := make(chan engines.Control)
	req.Control = control
	req.Started = func(int, uint64) {
		go func() {
			control <- engines.Freeze
			<-time.After(frozen)
			control <- engines.Thaw
			close(control)
		}()
	}
	got := engines.Run(t.Context(), req)
	if got.Ended != engines.EndedStalled || got.Err != nil {
		t.Fatalf("ended %s, err %v, want a stall after the thaw", got.Ended, got.Err)
	}
	if got.Duration < frozen+stall-300*time.Millisecond {
		t.Errorf("ended after %s: the clock went on while the engine was frozen for %s", got.Duration, frozen)
	}
}

func testLeaks(t *testing.T, subject Subject) {
	req := subject(t, Leaks)
	log := &Log{}
	req.Log = log
	got := engines.Run(t.Context(), req)
	if got.Ended != engines.EndedExited || log.String() == "" {
		t.Fatalf("ended %s, err %v, log %q", got.Ended, got.Err, log)
	}
	for where, s := range map[string]string{"text": got.Text, "tail": got.Tail, "log": log.String()} {
		if strings.Contains(s, Secret) {
			t.Errorf("the credential is in the %s: %q", where, s)
		}
	}
}

func testFloods(t *testing.T, subject Subject) {
	const maxLog, maxText, maxTail = 8<<20 + 4096, 64 << 10, 8 << 10
	req := subject(t, Floods)
	log := &Log{}
	req.Log = log
	got := engines.Run(t.Context(), req)
	if got.Ended != engines.EndedExited || got.Err != nil {
		t.Fatalf("ended %s, err %v", got.Ended, got.Err)
	}
	if n := len(log.String()); n > maxLog {
		t.Errorf("log of %d bytes", n)
	}
	if !strings.Contains(log.String()[max(0, len(log.String())-200):], "bytes left out]") {
		t.Error("the log does not say that something was left out")
	}
	if len(got.Text) > maxText || len(got.Tail) > maxTail {
		t.Errorf("text of %d bytes, tail of %d bytes", len(got.Text), len(got.Tail))
	}
}

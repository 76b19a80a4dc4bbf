package enginetest

import (
	"context"
	"fmt"
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
	Answers Scenario = "answers" // with the text Answer, for 100 tokens in and 10 out
	Edits   Scenario = "edits"   // changes the tree, then answers with Answer
	Refused Scenario = "refused" // says that there is no credit, and names Secret in it
	Silent  Scenario = "silent"  // never says a thing
	Cut     Scenario = "cut"     // breaks off in the middle of an answer
	Nothing Scenario = "nothing" // ends at once with no answer and no tokens
	Missing Scenario = "missing" // cannot be started or reached
	Leaks   Scenario = "leaks"   // answers with Secret, which is one of its credentials
	Floods  Scenario = "floods"  // says more than any bound of what is kept
)

// Answer and Secret are the words of the scenarios. Secret is long enough that a
// redactor looks for it.
const (
	Answer = "the scripted answer"
	Secret = "canary-9f1c2e7a4b"
)

// Case is one run of a Subject.
type Case struct {
	Request engines.Request
	Runner  engines.Runner // nil for those of package engines
	// Left counts what of the run is alive after it.
	Left func(t *testing.T) int
}

// Subject is a kind of engine under test.
type Subject struct {
	// Play returns a run of an engine that plays the scenario, in a fresh place.
	Play    func(t *testing.T, s Scenario) Case
	Process bool          // the engine is a process
	Edits   bool          // it can change the tree
	Tells   bool          // it reports tokens and broken answers in a form for machines
	Gone    engines.Class // the fault of one that is not there
}

// limit is how long a run that ends by itself may take on a slow machine.
const limit = time.Minute

// Run tests that a kind of engine keeps the promises of package engines.
func Run(t *testing.T, s Subject) {
	t.Run("answers", func(t *testing.T) { testAnswers(t, s, Answers) })
	if s.Edits {
		t.Run("edits", func(t *testing.T) { testAnswers(t, s, Edits) })
	}
	t.Run("refused", func(t *testing.T) { testFault(t, s, Refused, engines.FaultCredit) })
	t.Run("silent", func(t *testing.T) { testSilent(t, s) })
	if s.Tells {
		t.Run("cut", func(t *testing.T) { testFault(t, s, Cut, engines.FaultEndpoint) })
	}
	t.Run("nothing", func(t *testing.T) { testFault(t, s, Nothing, engines.FaultEmpty) })
	t.Run("missing", func(t *testing.T) { testFault(t, s, Missing, s.Gone) })
	t.Run("cancelled", func(t *testing.T) { testCancelled(t, s) })
	t.Run("cancelled before", func(t *testing.T) { testCancelledBefore(t, s) })
	t.Run("frozen", func(t *testing.T) { testFrozen(t, s) })
	t.Run("leaks", func(t *testing.T) { testLeaks(t, s) })
	t.Run("floods", func(t *testing.T) { testFloods(t, s) })
}

// run runs a case and tests what holds for every run: nothing of it is alive, and
// its credential shows nowhere.
func (c Case) run(ctx context.Context, t *testing.T) engines.Reply {
	t.Helper()
	log, _ := c.Request.Log.(*Log)
	if c.Runner == nil {
		c.Runner = engines.Own(nil)
	}
	got := c.Runner.Run(ctx, c.Request)
	if n := c.Left(t); n != 0 {
		t.Errorf("%d of the run are alive after it", n)
	}
	for where, s := range map[string]string{"text": got.Text, "tail": got.Tail, "log": log.String(), "fault": fmt.Sprint(got.Fault), "error": fmt.Sprint(got.Err)} {
		if strings.Contains(s, Secret) {
			t.Errorf("the credential is in the %s: %.2000q", where, s)
		}
	}
	return got
}

// play returns a case with a log.
func (s Subject) play(t *testing.T, sc Scenario) Case {
	t.Helper()
	c := s.Play(t, sc)
	c.Request.Log = &Log{}
	return c
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

func testAnswers(t *testing.T, s Subject, sc Scenario) {
	c := s.play(t, sc)
	pid := -1
	c.Request.Started = func(p int, _ uint64) { pid = p }
	got := c.run(t.Context(), t)
	if got.Err != nil || got.Fault != nil || got.Ended != engines.EndedExited || got.Exit != 0 {
		t.Fatalf("ended %s, exit %d, fault %v, err %v\n%s", got.Ended, got.Exit, got.Fault, got.Err, got.Tail)
	}
	if got.Text != Answer {
		t.Errorf("Text = %q, want %q", got.Text, Answer)
	}
	if pid < 0 || (pid > 0) != s.Process {
		t.Errorf("Started was called with pid %d", pid)
	}
	if log := fmt.Sprint(c.Request.Log); !strings.Contains(log, Answer) || !strings.Contains(got.Tail, Answer) {
		t.Errorf("the answer is not in the log %q and the tail %q", log, got.Tail)
	}
	if got.Started.IsZero() || got.Duration <= 0 {
		t.Errorf("started %s, took %s", got.Started, got.Duration)
	}
	if u := got.Usage; s.Tells && (u.TokensIn != 100 || u.TokensOut != 10) {
		t.Errorf("usage %+v, want 100 tokens in and 10 out", u)
	}
}

func testSilent(t *testing.T, s Subject) {
	const stall = 700 * time.Millisecond
	c := s.play(t, Silent)
	c.Request.Timeout, c.Request.Stall = limit, stall
	got := c.run(t.Context(), t)
	if got.Ended != engines.EndedStalled || got.Fault == nil || got.Fault.Class != engines.FaultSilent {
		t.Fatalf("ended %s with %v, want a stall that is the engine's fault; err %v", got.Ended, got.Fault, got.Err)
	}
	if got.Fault.Engine != c.Request.Engine.Name {
		t.Errorf("the fault is of %q", got.Fault.Engine)
	}
	if got.Duration < stall || got.Duration > limit {
		t.Errorf("stall of %s ended after %s", stall, got.Duration)
	}
}

func testFault(t *testing.T, s Subject, sc Scenario, want engines.Class) {
	got := s.play(t, sc).run(t.Context(), t)
	if got.Fault == nil || got.Fault.Class != want || got.Fault.Reason == "" {
		t.Fatalf("fault %v, want %s with a reason; ended %s, err %v", got.Fault, want, got.Ended, got.Err)
	}
	if got.Exit == 0 && sc != Nothing {
		t.Error("it ended well")
	}
}

func testCancelled(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := s.play(t, Silent)
	c.Request.Started = func(int, uint64) { cancel() }
	got := c.run(ctx, t)
	if got.Ended != engines.EndedCancelled || got.Fault != nil || got.Err != nil {
		t.Fatalf("ended %s, fault %v, err %v; want cancelled without a fault", got.Ended, got.Fault, got.Err)
	}
	if got.Duration > limit {
		t.Errorf("cancelled after %s", got.Duration)
	}
}

func testCancelledBefore(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := s.play(t, Answers)
	c.Request.Started = func(int, uint64) { t.Error("the engine was started") }
	if got := c.run(ctx, t); got.Ended != engines.EndedCancelled || got.Fault != nil {
		t.Fatalf("ended %s, fault %v; want cancelled", got.Ended, got.Fault)
	}
}

// testFrozen freezes a silent engine for longer than its stall clock.
func testFrozen(t *testing.T, s Subject) {
	const stall, frozen = 700 * time.Millisecond, 1500 * time.Millisecond
	c := s.play(t, Silent)
	c.Request.Timeout, c.Request.Stall = limit, stall
	control := make(chan engines.Control)
	c.Request.Control = control
	c.Request.Started = func(int, uint64) {
		go func() {
			control <- engines.Freeze
			<-time.After(frozen)
			control <- engines.Thaw
			close(control)
		}()
	}
	got := c.run(t.Context(), t)
	if got.Ended != engines.EndedStalled || got.Err != nil {
		t.Fatalf("ended %s, err %v, want a stall after the thaw", got.Ended, got.Err)
	}
	if got.Duration < frozen+stall-300*time.Millisecond {
		t.Errorf("ended after %s: the clock went on while the engine was frozen for %s", got.Duration, frozen)
	}
}

func testLeaks(t *testing.T, s Subject) {
	c := s.play(t, Leaks)
	got := c.run(t.Context(), t)
	if log := fmt.Sprint(c.Request.Log); got.Ended != engines.EndedExited || got.Text == "" || log == "" {
		t.Fatalf("ended %s, err %v, text %q, log %q", got.Ended, got.Err, got.Text, log)
	}
}

func testFloods(t *testing.T, s Subject) {
	const maxLog, maxText, maxTail = 8<<20 + 4096, 64 << 10, 8 << 10
	c := s.play(t, Floods)
	got := c.run(t.Context(), t)
	if got.Ended != engines.EndedExited || got.Err != nil {
		t.Fatalf("ended %s, err %v", got.Ended, got.Err)
	}
	log := fmt.Sprint(c.Request.Log)
	if len(log) > maxLog {
		t.Errorf("log of %d bytes", len(log))
	}
	if !strings.Contains(log[max(0, len(log)-200):], "bytes left out]") {
		t.Error("the log does not say that something was left out")
	}
	if len(got.Text) > maxText || len(got.Tail) > maxTail {
		t.Errorf("text of %d bytes, tail of %d bytes", len(got.Text), len(got.Tail))
	}
}

package worker_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/worker"
)

// TestTogether is S1: who comes first claims at once, the others wait their turns and go on where it does not.
func TestTogether(t *testing.T) {
	s := newScene(t, ranked(t, 0))
	s.claims(s.wants(worker.DoClaim, "open"), "c")
	s.wants(worker.DoHold, "claimed, waits 3.0 s whether another claim arrives")
	s.due(S)
	if step := s.wants(worker.DoStart, "open"); step.Claim != id("c") || step.Over != nil {
		t.Errorf("start %+v, want it on the own claim alone", step)
	}

	s = newScene(t, ranked(t, 2))
	s.wants(worker.DoHold, "waits for its turn: 2 workers come before this one (6.0 s)")
	s.claimed(s.sight.Tasks[0].ID, third, "theirs")
	s.wants(worker.DoHold, "claimed by moon on shelf; others go on after 18 s without a start")
	s.starts(s.sight.Tasks[0].ID, third, "s")
	s.wants(worker.DoHold, "held by moon on shelf; last heard 0.0 s ago; taken over after 120 s of silence")

	s = newScene(t, ranked(t, 1))
	s.wants(worker.DoHold, "waits for its turn: 1 worker comes before this one")
	s.due(S)
	s.wants(worker.DoClaim, "open")
}

// TestBothClaim is S2: of two claims the smaller rank starts.
func TestBothClaim(t *testing.T) {
	s := newScene(t, ranked(t, 2))
	s.wants(worker.DoHold, "turn")
	s.due(2 * S)
	s.claims(s.wants(worker.DoClaim, "open"), "c")
	s.pass(time.Second)
	s.claimed(s.sight.Tasks[0].ID, other, "theirs")
	s.wants(worker.DoHold, "gale on box claimed it first; this worker goes on after 18 s without a start")
	s.pass(S)
	s.starts(s.sight.Tasks[0].ID, other, "s")
	s.wants(worker.DoHold, "held by gale")

	s = newScene(t, ranked(t, 0))
	s.claims(s.wants(worker.DoClaim, "open"), "c")
	s.claimed(s.sight.Tasks[0].ID, other, "theirs")
	s.wants(worker.DoHold, "whether another claim arrives")
	s.due(S)
	s.wants(worker.DoStart, "open")
}

// TestDoubleStart is S3: who loses on sight of the better start stops, and S14 to S16 in so far as they end a run: whatever
// settles the order fences it.
func TestDoubleStart(t *testing.T) {
	for _, change := range []struct {
		do   func(*ferry.Task)
		want string
	}{
		{func(t *ferry.Task) { t.Live, t.Holder = id("theirs"), other }, "another attempt holds"},
		{func(t *ferry.Task) { t.State = ferry.StateAwaitingReview }, "settled elsewhere: it is awaiting_review"},
		{func(t *ferry.Task) { t.State = ferry.StateLanded }, "settled elsewhere: it is landed"},
		{func(t *ferry.Task) { t.State = ferry.StateCancelled }, "the order is cancelled"},
	} {
		s := newScene(t, ranked(t, 0))
		a := s.sight.Tasks[0].ID
		s.starts(a, me, "mine")
		s.in.Running[id("mine")] = worker.Running{Order: a}
		if steps, _ := s.look(); len(steps) != 0 {
			t.Fatalf("the holder has steps %+v", steps)
		}
		s.sleep(time.Hour) // the grace after a sleep holds no fence back
		change.do(s.task(a))
		steps, _ := s.look()
		if len(steps) == 0 || steps[0].Do != worker.DoCancel || !strings.Contains(steps[0].Reason, change.want) {
			t.Errorf("steps %+v, want a cancel: %s", steps, change.want)
		}
	}
}

// TestClaimantDies is S4 and B1: a claim without a start lapses, and repeating it wins no time.
func TestClaimantDies(t *testing.T) {
	s := newScene(t, ranked(t, 2))
	a := s.sight.Tasks[0].ID
	s.claimed(a, other, "theirs")
	s.wants(worker.DoHold, "claimed by gale")
	s.pass(9 * time.Second)
	s.claimed(a, other, "theirs once more")
	s.wants(worker.DoHold, "claimed by gale on box; others go on after 9.0 s")
	s.due(9 * time.Second)
	s.claims(s.wants(worker.DoClaim, "open"), "c")
	s.due(S)
	if step := s.wants(worker.DoStart, "open"); len(step.Over) != 1 || step.Over[0] != id("theirs once more") {
		t.Errorf("start over %v, want over the lapsed claim", step.Over)
	}
}

// TestManyClaims is B1: a member that claims more than it can start is waited for as often as it can start.
func TestManyClaims(t *testing.T) {
	s := newScene(t, ranked(t, 2), task("b"), task("c"))
	s.in.Slots = 3
	for i, o := range s.sight.Tasks {
		s.claimed(o.ID, other, "theirs-"+string(rune('a'+i)))
	}
	steps, _ := s.look()
	waiting := 0
	for _, step := range steps {
		if strings.Contains(step.Reason, "claimed by gale") {
			waiting++
		}
	}
	if waiting != 1 {
		t.Errorf("%d orders wait for a member with one slot, want 1: %+v", waiting, steps)
	}
}

// TestOwnCrash is S5: the own orphan is closed, a claim of the process before given back.
func TestOwnCrash(t *testing.T) {
	s := newScene(t, ranked(t, 0))
	s.starts(s.sight.Tasks[0].ID, me, "mine")
	s.wants(worker.DoRecover, "its worker process is gone")
	s = newScene(t, ranked(t, 0))
	s.claimed(s.sight.Tasks[0].ID, me, "of the process before")
	s.wants(worker.DoRelease, "released as stale")
}

// TestHolderGone is S6: the order of a silent holder is taken over; who speaks again keeps it.
func TestHolderGone(t *testing.T) {
	silent := func() *scene {
		s := newScene(t, ranked(t, 0))
		s.starts(s.sight.Tasks[0].ID, other, "theirs")
		s.look()
		for range 4 {
			s.pass(15 * time.Second)
			s.beat(third, ferry.Beat{Slots: 1})
			s.beat(other, ferry.Beat{Running: []ferry.RecordID{id("theirs")}})
			s.wants(worker.DoHold, "held by gale on box; last heard 0.0 s ago")
		}
		for range 8 {
			s.wants(worker.DoHold, "held by gale")
			s.pass(15 * time.Second)
			s.beat(third, ferry.Beat{Slots: 1})
			s.beat(other, ferry.Beat{}) // it lives, and does not run the order
		}
		return s
	}
	s := silent()
	steps, _ := s.look()
	for len(steps) == 1 && steps[0].Do == worker.DoHold && strings.Contains(steps[0].Reason, "turn") {
		s.pass(S)
		steps, _ = s.look()
	}
	if len(steps) != 1 || steps[0].Do != worker.DoClaim || steps[0].Attempt != 2 || len(steps[0].Over) != 1 || steps[0].Over[0] != id("theirs") {
		t.Fatalf("steps %+v, want a claim of attempt 2 over the silent start", steps)
	}
	s.claims(steps[0], "c")
	s.pass(time.Second)
	s.wants(worker.DoHold, "claimed, waits 2.0 s")
	s.beat(other, ferry.Beat{Running: []ferry.RecordID{id("theirs")}}) // it was only slow
	steps, _ = s.look()
	if len(steps) != 2 || steps[0].Do != worker.DoRelease || !strings.Contains(steps[1].Reason, "held by gale") {
		t.Errorf("steps %+v, want the claim given back and a hold", steps)
	}
}

// TestCutOff is S7: who hears nobody at all doubts itself, and takes over only after four times the silence.
func TestCutOff(t *testing.T) {
	s := newScene(t, ranked(t, 0))
	s.starts(s.sight.Tasks[0].ID, other, "theirs")
	s.look()
	for range 31 {
		s.pass(15 * time.Second)
		s.wants(worker.DoHold, "held by gale")
	}
	s.wants(worker.DoHold, "taken over after 480 s of silence")
	s.pass(15*time.Second + time.Millisecond)
	s.look()
	s.pass(2 * S)
	s.wants(worker.DoClaim, "gale on box was not heard of for")
}

// TestSleepInSettle is S8 and S9: a settle window that the machine slept through has not been watched.
func TestSleepInSettle(t *testing.T) {
	s := newScene(t, ranked(t, 0))
	s.claims(s.wants(worker.DoClaim, "open"), "c")
	s.pass(time.Second)
	s.sleep(time.Hour)
	s.wants(worker.DoHold, "after its start or a sleep")
	s.due(2*S + 2*time.Second)
	s.claims(s.wants(worker.DoClaim, "claimed too long ago"), "again")
	s.due(S)
	if step := s.wants(worker.DoStart, "open"); step.Claim != id("again") {
		t.Errorf("start on %s, want on the second claim", step.Claim.Short())
	}

	s = newScene(t, ranked(t, 0)) // another has claimed meanwhile: its claim goes first, whatever its rank
	s.claims(s.wants(worker.DoClaim, "open"), "c")
	s.sleep(time.Hour)
	s.claimed(s.sight.Tasks[0].ID, other, "theirs")
	s.wants(worker.DoHold, "after its start or a sleep")
	s.pass(2*S + 2*time.Second)
	s.wants(worker.DoHold, "gale on box claimed it first")
}

// TestObserverSlept is S10: the silence of the time that this worker did not watch does not count.
func TestObserverSlept(t *testing.T) {
	s := newScene(t, ranked(t, 0))
	s.starts(s.sight.Tasks[0].ID, other, "theirs")
	s.look()
	s.pass(119 * time.Second / 2)
	s.look()
	s.pass(119 * time.Second / 2)
	s.sleep(time.Hour)
	s.wants(worker.DoHold, "last heard 0.0 s ago")

	begun := newScene(t, ranked(t, 0))
	begun.starts(begun.sight.Tasks[0].ID, other, "theirs")
	begun.in.Fleet = worker.NewFleet(worker.FleetSpec{Channel: id("channel"), Me: me, Boot: 2})
	begun.wants(worker.DoHold, "last heard 0.0 s ago")
}

// TestBegun is the grace of a worker that has begun: it claims nothing before what happened meanwhile can have arrived.
func TestBegun(t *testing.T) {
	s := newScene(t, ranked(t, 0))
	s.in.Fleet = worker.NewFleet(worker.FleetSpec{Channel: id("channel"), Me: me, Boot: 2})
	s.wants(worker.DoHold, "waits 30 s after its start")
	s.sight.Workers = []ferry.WriterID{me}
	s.wants(worker.DoBegin, "open") // alone there is nothing to wait for
}

// TestAddressed skips the turns and the settling: nobody else may start the order.
func TestAddressed(t *testing.T) {
	to := with(func(t *ferry.Task) { t.State, t.To = ferry.StateOffered, "wisp" })
	s := newScene(t, ranked(t, 2, to))
	s.wants(worker.DoBegin, "addressed to us")
	s.claimed(s.sight.Tasks[0].ID, other, "theirs") // a claim of somebody else is not waited for
	s.claims(s.wants(worker.DoClaim, "open"), "c")
	if step := s.wants(worker.DoStart, "open"); len(step.Over) != 1 {
		t.Errorf("start over %v, want over the other's claim", step.Over)
	}
}

// TestOnOneMachine is a fleet whose workers write into one store: its lock keeps them apart.
func TestOnOneMachine(t *testing.T) {
	s := newScene(t, ranked(t, 2))
	s.sight.Local = map[ferry.WriterID]bool{me: true, other: true, third: true}
	s.wants(worker.DoBegin, "open")
	s.starts(s.sight.Tasks[0].ID, other, "theirs")
	for range 9 {
		s.look()
		s.pass(15 * time.Second)
	}
	s.claims(s.wants(worker.DoClaim, "was not heard of for 135 s"), "c")
	s.wants(worker.DoStart, "open")
}

// TestSettleWindow is how long the window is.
func TestSettleWindow(t *testing.T) {
	s := newScene(t)
	if got := s.in.Fleet.Settle(); got != S {
		t.Errorf("settle = %s, want %s: 1.5 times the measured way", got, S)
	}
	s.sight.Workers = append(s.sight.Workers, critic)
	s.look()
	if got := s.in.Fleet.Settle(); got != S {
		t.Errorf("with a member that nobody hears: settle = %s, want %s", got, S)
	}
	s.beat(critic, ferry.Beat{Slots: 1})
	s.look()
	if got := s.in.Fleet.Settle(); got != 15*time.Second {
		t.Errorf("with one that was not measured: settle = %s, want 15s", got)
	}
	s.pass(time.Second)
	s.beat(critic, ferry.Beat{Slots: 1, Echo: []ferry.Echo{{Writer: me, Boot: 1, Beat: 1, Held: -1}, {Writer: me, Boot: 7, Beat: 1}, {Writer: me, Boot: 1, Beat: 99}}})
	s.look()
	if got := s.in.Fleet.Settle(); got != 15*time.Second {
		t.Errorf("after echoes of nothing: settle = %s, want 15s", got)
	}
	b := s.in.Fleet.Beat(s.clock, ferry.Beat{})
	s.in.Fleet.Beaten(s.clock, b, true)
	s.pass(20 * time.Second)
	s.beat(critic, ferry.Beat{Slots: 1, Echo: []ferry.Echo{{Writer: me, Boot: 1, Beat: b.Counter, Held: 19_000}}})
	s.look()
	if got := s.in.Fleet.Settle(); got != S {
		t.Errorf("after one second there and back: settle = %s, want %s of the slowest", got, S)
	}
	for range 20 {
		s.pass(15 * time.Second)
		s.look()
	}
	if got := s.in.Fleet.Settle(); got != 300*time.Millisecond {
		t.Errorf("with nobody there: settle = %s, want the least", got)
	}
}

// TestSelfFence: who cannot write its beat ends what it runs before others take it over.
func TestSelfFence(t *testing.T) {
	s := newScene(t, ranked(t, 0))
	a := s.sight.Tasks[0].ID
	s.starts(a, me, "mine")
	s.in.Running[id("mine")] = worker.Running{Order: a}
	s.in.Fleet.Beaten(s.clock, ferry.Beat{}, false)
	s.pass(30 * time.Second)
	s.in.Fleet.Beaten(s.clock, ferry.Beat{}, false)
	s.due(30 * time.Second)
	if step := s.wants(worker.DoCancel, "beat of this worker cannot be written"); step.Why != ferry.StopFenced {
		t.Errorf("it stops as %s", step.Why)
	}
	s.in.Fleet.Beaten(s.clock, ferry.Beat{}, true)
	if steps, _ := s.look(); len(steps) != 0 {
		t.Errorf("after a beat that was written: steps %+v", steps)
	}
}

// TestTouchesAmongClaims: of two orders that touch the same files the claim with the smaller rank goes first.
func TestTouchesAmongClaims(t *testing.T) {
	touches := with(func(t *ferry.Task) { t.Order.Touches = []string{"pkg/**"} })
	mine, theirs := ranked(t, 0, touches), task("b", touches)
	s := newScene(t, mine, theirs)
	s.claimed(theirs.ID, other, "theirs")
	steps, _ := s.look()
	x, y := ferry.Rank(id("channel"), mine.ID, 1, me), ferry.Rank(id("channel"), theirs.ID, 1, other)
	want, reason := worker.DoClaim, "open"
	if bytes.Compare(y[:], x[:]) < 0 {
		want, reason = worker.DoHold, "touches the same files as b, which is claimed"
	}
	if steps[0].Do != want || !strings.Contains(steps[0].Reason, reason) {
		t.Errorf("step %+v, want %s: %s", steps[0], want, reason)
	}
}

// TestGivenBack: a claim whose order cannot be begun after all is given back.
func TestGivenBack(t *testing.T) {
	s := newScene(t, ranked(t, 0))
	s.claims(s.wants(worker.DoClaim, "open"), "c")
	s.in.Stopped = "this machine is paused"
	steps, _ := s.look()
	if len(steps) != 2 || steps[0].Do != worker.DoRelease || steps[0].Claim != id("c") || steps[1].Do != worker.DoHold {
		t.Errorf("steps %+v, want the claim given back and a hold", steps)
	}
}

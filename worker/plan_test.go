package worker_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/worker"
)

const (
	me    = ferry.WriterID("wispwispwispwispwispwispwi")
	other = ferry.WriterID("galegalegalegalegalegalega")
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func id(name string) ferry.RecordID { return sha256.Sum256([]byte(name)) }

// task gives an order that can be taken; the options change it.
func task(label string, opts ...func(*ferry.Task)) ferry.Task {
	t := ferry.Task{
		ID: id(label), Order: &ferry.Order{Label: ferry.Label(label), Text: "do it"}, State: ferry.StateOpen,
		Next: ferry.Next{Claimable: true, Attempt: 1},
	}
	for _, o := range opts {
		o(&t)
	}
	return t
}

func state(s ferry.State) func(*ferry.Task) {
	return func(t *ferry.Task) {
		t.State = s
		switch s {
		case ferry.StateOpen, ferry.StateOffered, ferry.StateChangesRequested, ferry.StateRefuted:
		default:
			t.Next.Claimable = false
		}
	}
}

func claimedBy(w ferry.WriterID, claim string) func(*ferry.Task) {
	return func(t *ferry.Task) {
		t.Claims = append(t.Claims, ferry.Claimed{ID: id(claim), Writer: w})
		t.Holder, t.LiveClaim, t.Next.Takeover = t.Claims[0].Writer, t.Claims[0].ID, true
	}
}

func live(w ferry.WriterID, start string) func(*ferry.Task) {
	return func(t *ferry.Task) {
		t.State, t.Live, t.Holder, t.Next.Claimable = ferry.StateRunning, id(start), w, false
		t.Attempts = append(t.Attempts, ferry.Attempt{N: 1, Holder: w, Start: id(start)})
	}
}

func stopped(w ferry.WriterID, why ferry.StopReason, ago time.Duration) func(*ferry.Task) {
	return func(t *ferry.Task) {
		at := noon.Add(-ago)
		t.Attempts = append(t.Attempts, ferry.Attempt{N: 1, Holder: w, Start: id("s-old"), Stop: &ferry.Stop{Reason: why}, EndedAt: &at})
		if why.Counts() {
			t.Failures++
		}
	}
}

func refuted(trees ...string) func(*ferry.Task) {
	return func(t *ferry.Task) {
		t.State = ferry.StateRefuted
		for i, tree := range trees {
			t.Results = append(t.Results, ferry.Outturn{
				ID: id(fmt.Sprint(tree, i)), Result: &ferry.Result{Tree: ferry.Commit(tree), Checks: []ferry.Check{{Command: "go test", Exit: 1}}},
				Evidence: ferry.Evidence{Status: ferry.EvidenceRefuted, Reasons: []string{"a check failed"}},
			})
		}
	}
}

func with(f func(*ferry.Task)) func(*ferry.Task) { return f }

// brief is a step without the parts that the table does not name.
type brief struct {
	Do     worker.Do
	Label  string
	Reason string // a part of it
}

type planCase struct {
	name    string
	tasks   []ferry.Task
	running map[string]worker.Running
	in      worker.Input
	open    time.Duration // for how long the orders have been there
	want    []brief
	next    time.Duration // when it is to be asked again, where the table names it
}

// TestPlan is the specification of the worker: what it does, and why not.
func TestPlan(t *testing.T) {
	run := func(start string, r worker.Running) map[string]worker.Running {
		return map[string]worker.Running{start: r}
	}
	tests := []planCase{
		{name: "nothing to do"},
		{name: "open", tasks: []ferry.Task{task("a")}, want: []brief{{worker.DoBegin, "a", "open"}}},
		{name: "offered to us", tasks: []ferry.Task{task("a", state(ferry.StateOffered), with(func(t *ferry.Task) { t.To = "wisp" }))},
			want: []brief{{worker.DoBegin, "a", "addressed to us"}}},
		{name: "offered to another", tasks: []ferry.Task{task("a", state(ferry.StateOffered), with(func(t *ferry.Task) { t.To = "gale" }))},
			want: []brief{{worker.DoHold, "a", "addressed to gale, this is wisp"}}},
		{name: "one slot, two orders: in order of arrival", tasks: []ferry.Task{task("a"), task("b")},
			want: []brief{{worker.DoBegin, "a", ""}, {worker.DoHold, "b", "no free slot: 1 of 1"}}},
		{name: "two slots", tasks: []ferry.Task{task("a"), task("b"), task("c")}, in: worker.Input{Slots: 2},
			want: []brief{{worker.DoBegin, "a", ""}, {worker.DoBegin, "b", ""}, {worker.DoHold, "c", "no free slot: 2 of 2"}}},
		{name: "a revision goes first", tasks: []ferry.Task{task("a"), task("b", state(ferry.StateChangesRequested))},
			want: []brief{{worker.DoBegin, "b", "sent back"}, {worker.DoHold, "a", "no free slot"}}},
		{name: "a refuted one goes first", tasks: []ferry.Task{task("a"), task("b", refuted("x"))},
			want: []brief{{worker.DoBegin, "b", "refuted"}, {worker.DoHold, "a", "no free slot"}}},
		{name: "a revision of another's work is left to it for a while",
			tasks: []ferry.Task{task("a", state(ferry.StateChangesRequested), with(func(t *ferry.Task) { t.Next.Prefer = other }))},
			open:  time.Second, want: []brief{{worker.DoHold, "a", "first right to the revision (1.0 s)"}}, next: time.Second},
		{name: "and taken after that",
			tasks: []ferry.Task{task("a", state(ferry.StateChangesRequested), with(func(t *ferry.Task) { t.Next.Prefer = other }))},
			open:  3 * time.Second, want: []brief{{worker.DoBegin, "a", "sent back"}}},
		{name: "paused machine", tasks: []ferry.Task{task("a")}, in: worker.Input{Stopped: "paused: lunch"}, want: []brief{{worker.DoHold, "a", "paused: lunch"}}},
		{name: "engine cools off", tasks: []ferry.Task{task("a")}, in: worker.Input{Engine: func(*ferry.Task) worker.Lack { return worker.Lack{Why: "codex is down"} }}, want: []brief{{worker.DoHold, "a", "codex is down"}}},
		{name: "blocked", tasks: []ferry.Task{task("a", state(ferry.StateBlocked), with(func(t *ferry.Task) { t.Hold = "waits for b" }))},
			want: []brief{{worker.DoHold, "a", "waits for b"}}},
		{name: "failed just now: backs off", tasks: []ferry.Task{task("a", stopped(me, ferry.StopFailed, 4*time.Second))},
			want: []brief{{worker.DoHold, "a", "waits until 12:00:06 after 1 failed"}}},
		{name: "failed long enough ago", tasks: []ferry.Task{task("a", stopped(me, ferry.StopFailed, 11*time.Second))}, want: []brief{{worker.DoBegin, "a", ""}}},
		{name: "the failure of another worker does not hold us", tasks: []ferry.Task{task("a", stopped(other, ferry.StopFailed, time.Second))}, want: []brief{{worker.DoBegin, "a", ""}}},
		{name: "a failure 'in the future' does not hold us for ever", tasks: []ferry.Task{task("a", stopped(me, ferry.StopFailed, -time.Hour))}, want: []brief{{worker.DoBegin, "a", ""}}},
		{name: "a fault counts nothing", tasks: []ferry.Task{task("a", stopped(me, ferry.StopFault, time.Second))}, want: []brief{{worker.DoBegin, "a", ""}}},
		{name: "given back just now: backs off", tasks: []ferry.Task{task("a", stopped(me, ferry.StopReleased, 4*time.Second))},
			want: []brief{{worker.DoHold, "a", "waits until 12:00:06 after it was given back"}}},
		{name: "given back long enough ago", tasks: []ferry.Task{task("a", stopped(me, ferry.StopReleased, 11*time.Second))}, want: []brief{{worker.DoBegin, "a", ""}}},
		{name: "given back by another machine", tasks: []ferry.Task{task("a", stopped(other, ferry.StopReleased, time.Second))}, want: []brief{{worker.DoBegin, "a", ""}}},
		{name: "given back three times in a row: asks", tasks: []ferry.Task{task("a", stopped(me, ferry.StopReleased, time.Hour), stopped(me, ferry.StopReleased, time.Hour), stopped(other, ferry.StopReleased, time.Hour))},
			want: []brief{{worker.DoAsk, "a", "could not be carried through 3 times"}}},
		{name: "refuted just now: backs off", tasks: []ferry.Task{task("a", refuted("x"), with(func(t *ferry.Task) {
			at := noon.Add(-4 * time.Second)
			t.Failures, t.Attempts = 1, []ferry.Attempt{{N: 1, Holder: me, Result: id("x0"), EndedAt: &at}}
		}))}, want: []brief{{worker.DoHold, "a", "waits until 12:00:06 after 1 failed"}}},
		{name: "retired, and its engine is still ending", tasks: []ferry.Task{task("a", stopped(me, ferry.StopRetired, 0))}, in: worker.Input{Slots: 2},
			running: run("s-old", worker.Running{Order: id("a"), Ending: true}), want: []brief{{worker.DoHold, "a", "still ending here"}}},
		{name: "what waits to be closed takes no slot", tasks: []ferry.Task{task("a", live(me, "s")), task("b")},
			running: run("s", worker.Running{Order: id("a"), Ending: true, Idle: true}), want: []brief{{worker.DoBegin, "b", ""}}},
		{name: "another worker runs it", tasks: []ferry.Task{task("a", live(other, "s"))}, want: []brief{{worker.DoHold, "a", "held by gale on box"}}},
		{name: "another worker claimed it", tasks: []ferry.Task{task("a", state(ferry.StateClaimed), claimedBy(other, "c"))},
			want: []brief{{worker.DoHold, "a", "claimed by gale on box; others go on after 5.0 s without a start"}}, next: 5 * time.Second},
		{name: "touches overlap with what runs elsewhere", tasks: []ferry.Task{
			task("a", live(other, "s"), with(func(t *ferry.Task) { t.Order.Touches = []string{"pkg/**"} })),
			task("b", with(func(t *ferry.Task) { t.Order.Touches = []string{"pkg/x/*.go"} })),
			task("c", with(func(t *ferry.Task) { t.Order.Touches = []string{"docs/**"} }))},
			want: []brief{{worker.DoHold, "a", "held by gale"}, {worker.DoHold, "b", "same files as a, which runs"}, {worker.DoBegin, "c", ""}}},
		{name: "touches overlap within one plan", in: worker.Input{Slots: 2}, tasks: []ferry.Task{
			task("a", with(func(t *ferry.Task) { t.Order.Touches = []string{"pkg"} })),
			task("b", with(func(t *ferry.Task) { t.Order.Touches = []string{"./pkg/x.go"} }))},
			want: []brief{{worker.DoBegin, "a", ""}, {worker.DoHold, "b", "same files as a"}}},
		{name: "runs here", tasks: []ferry.Task{task("a", live(me, "s"))}, running: run("s", worker.Running{Order: id("a")})},
		{name: "ours, but nothing runs", tasks: []ferry.Task{task("a", live(me, "s"))}, want: []brief{{worker.DoRecover, "a", "process is gone"}}},
		{name: "our claim never started", tasks: []ferry.Task{task("a", state(ferry.StateClaimed), claimedBy(me, "c"))},
			want: []brief{{worker.DoRelease, "a", "released as stale"}}},
		{name: "killed while it runs", tasks: []ferry.Task{task("a", live(me, "s"), state(ferry.StateKilled))}, running: run("s", worker.Running{Order: id("a")}),
			want: []brief{{worker.DoCancel, "a", "killed"}}},
		{name: "cancelled while it runs", tasks: []ferry.Task{task("a", live(me, "s"), state(ferry.StateCancelled))}, running: run("s", worker.Running{Order: id("a")}),
			want: []brief{{worker.DoCancel, "a", "cancelled"}}},
		{name: "denied while it runs", tasks: []ferry.Task{task("a", live(me, "s"), state(ferry.StateFailed))}, running: run("s", worker.Running{Order: id("a")}),
			want: []brief{{worker.DoCancel, "a", "failed"}}},
		{name: "told to end already", tasks: []ferry.Task{task("a", live(me, "s"), state(ferry.StateKilled))}, running: run("s", worker.Running{Order: id("a"), Ending: true})},
		{name: "fenced by a higher attempt", tasks: []ferry.Task{task("a", live(me, "s"), with(func(t *ferry.Task) { t.Live, t.Holder = id("s2"), other }))},
			running: run("s", worker.Running{Order: id("a")}), want: []brief{{worker.DoCancel, "a", "another attempt"}, {worker.DoHold, "a", "held by gale"}}},
		{name: "a result of another attempt stands", tasks: []ferry.Task{task("a", live(me, "s"), state(ferry.StateDone))}, running: run("s", worker.Running{Order: id("a")}),
			want: []brief{{worker.DoCancel, "a", "settled elsewhere: it is done"}}},
		{name: "as many run in the fleet as may", in: worker.Input{Width: 2, Slots: 3}, tasks: []ferry.Task{task("a", live(other, "s")), task("b"), task("c")},
			want: []brief{{worker.DoHold, "a", "held by gale"}, {worker.DoBegin, "b", "open"}, {worker.DoHold, "c", "the fleet runs 2 of at most 2"}}},
		{name: "settled elsewhere", running: run("s", worker.Running{Order: id("a")}), want: []brief{{worker.DoCancel, "", "settled elsewhere"}}},
		{name: "paused while it runs", tasks: []ferry.Task{task("a", live(me, "s"), with(func(t *ferry.Task) { t.Paused = true }))},
			running: run("s", worker.Running{Order: id("a")}), want: []brief{{worker.DoFreeze, "a", "paused"}}},
		{name: "frozen already", tasks: []ferry.Task{task("a", live(me, "s"), with(func(t *ferry.Task) { t.Paused = true }))}, running: run("s", worker.Running{Order: id("a"), Frozen: true})},
		{name: "resumed", tasks: []ferry.Task{task("a", live(me, "s"))}, running: run("s", worker.Running{Order: id("a"), Frozen: true}), want: []brief{{worker.DoThaw, "a", "resumed"}}},
		{name: "steered", tasks: []ferry.Task{task("a", live(me, "s"), with(func(t *ferry.Task) { t.Steers = []ferry.Steer{{ID: id("n"), Note: "use b"}} }))},
			running: run("s", worker.Running{Order: id("a")}), want: []brief{{worker.DoSteer, "a", "note"}}},
		{name: "told of the steer already", tasks: []ferry.Task{task("a", live(me, "s"), with(func(t *ferry.Task) { t.Steers = []ferry.Steer{{ID: id("n")}} }))},
			running: run("s", worker.Running{Order: id("a"), Told: map[ferry.RecordID]bool{id("n"): true}})},
		{name: "a running attempt uses a slot", tasks: []ferry.Task{task("a", live(me, "s")), task("b")}, running: run("s", worker.Running{Order: id("a")}),
			want: []brief{{worker.DoHold, "b", "no free slot"}}},
		{name: "no progress: asks", tasks: []ferry.Task{task("a", refuted("x", "x"))}, want: []brief{{worker.DoAsk, "a", "no progress"}}},
		{name: "no progress, answered", tasks: []ferry.Task{task("a", refuted("x", "x"), with(func(t *ferry.Task) { t.Answered = []string{"no-progress-" + id("x1").Short()} }))},
			want: []brief{{worker.DoBegin, "a", "refuted"}}},
		{name: "another tree is progress", tasks: []ferry.Task{task("a", refuted("x", "y"))}, want: []brief{{worker.DoBegin, "a", "refuted"}}},
		{name: "the cap is spent: asks", tasks: []ferry.Task{task("a", with(func(t *ferry.Task) {
			t.Order.CapMicroUSD = 1_000_000
			t.Attempts = []ferry.Attempt{{Holder: other, Stop: &ferry.Stop{}, Runs: []ferry.Run{{Usage: ferry.Usage{CostMicroUSD: 1_250_000}}}}}
		}))}, want: []brief{{worker.DoAsk, "a", "has spent $1.25 of the $1.00 it may cost"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { checkPlan(t, tt) })
	}
}

func checkPlan(t *testing.T, tt planCase) {
	in := tt.in
	in.Now, in.Me, in.Agent, in.Tasks, in.Backoff = noon, me, "wisp", tt.tasks, worker.Backoff
	in.Names = map[ferry.WriterID]string{me: "wisp on desk", other: "gale on box"}
	in.Fleet = worker.NewFleet(worker.FleetSpec{Channel: id("channel"), Me: me, Boot: 1})
	for _, at := range []time.Duration{0, tt.open} {
		in.Clock = worker.Clock{Mono: at, Boot: at}
		in.Fleet.Look(in.Clock, worker.Sight{
			Tasks: tt.tasks, Workers: []ferry.WriterID{me, other}, Local: map[ferry.WriterID]bool{me: true, other: true},
		})
	}
	in.Slots = max(in.Slots, 1)
	in.Running = map[ferry.RecordID]worker.Running{}
	for name, r := range tt.running {
		in.Running[id(name)] = r
	}
	var got []brief
	steps, next := worker.Plan(in)
	if tt.next != 0 && next != tt.next {
		t.Errorf("next look after %s, want %s", next, tt.next)
	}
	for i, s := range steps {
		b := brief{s.Do, string(s.Label), s.Reason}
		if i < len(tt.want) && strings.Contains(s.Reason, tt.want[i].Reason) {
			b.Reason = tt.want[i].Reason
		}
		got = append(got, b)
		if s.Reason == "" {
			t.Errorf("step %d (%s) has no reason", i, s.Do)
		}
	}
	if d := cmp.Diff(tt.want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestBackoff(t *testing.T) {
	for n, want := range map[int]time.Duration{1: 10 * time.Second, 2: 40 * time.Second, 3: 160 * time.Second, 4: 10 * time.Minute, 50: 10 * time.Minute} {
		if got := worker.Backoff(n); got != want {
			t.Errorf("Backoff(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestOverlap(t *testing.T) {
	tests := []struct {
		a, b string
		want bool
	}{
		{"a/**", "a/b/c.go", true}, {"a/b", "a/c", false}, {"a/*.go", "a/b", true}, {"**", "x", true},
		{"ab/**", "a/**", false}, {"./a/", "a", true}, {"a/{b,c}/x", "a/c/y", true}, {"docs/x.md", "docs/y.md", false},
	}
	for _, tt := range tests {
		if got := worker.Overlap([]string{tt.a}, []string{tt.b}); got != tt.want {
			t.Errorf("Overlap(%q, %q) = %v, want %v", tt.a, tt.b, got, tt.want)
		}
		if got := worker.Overlap([]string{tt.b}, []string{tt.a}); got != tt.want {
			t.Errorf("Overlap(%q, %q) = %v, want %v", tt.b, tt.a, got, tt.want)
		}
	}
	if worker.Overlap(nil, []string{"a"}) {
		t.Error("an empty list overlaps")
	}
}

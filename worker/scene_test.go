package worker_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/worker"
)

// third is another worker.
const third = ferry.WriterID("moonmoonmoonmoonmoonmoonmo")

// critic is one more.
const critic = ferry.WriterID("criticcriticcriticcriticcr")

// scene is one worker that looks at a channel again and again while time passes and others act.
type scene struct {
	t     *testing.T
	in    worker.Input
	sight worker.Sight
	clock worker.Clock
	count map[ferry.WriterID]int64
}

// S is the settle window that the members of a scene are measured at: one and a half times a round trip of 2 s.
const S = 3 * time.Second

// newScene begins with two others that have answered, long enough ago for the worker to act at once.
func newScene(t *testing.T, tasks ...ferry.Task) *scene {
	t.Helper()
	s := &scene{t: t, clock: worker.Clock{Mono: time.Hour, Boot: time.Hour}, count: map[ferry.WriterID]int64{}}
	s.in = worker.Input{
		Me: me, Agent: "wisp", Slots: 2, Backoff: worker.Backoff, Running: map[ferry.RecordID]worker.Running{},
		Fleet: worker.NewFleet(worker.FleetSpec{Channel: id("channel"), Me: me, Boot: 1}),
		Names: map[ferry.WriterID]string{me: "wisp on desk", other: "gale on box", third: "moon on shelf"},
	}
	s.sight = worker.Sight{
		Workers: []ferry.WriterID{me, other, third}, Local: map[ferry.WriterID]bool{me: true}, Beats: map[ferry.WriterID]ferry.Beat{},
	}
	s.look()
	b := s.in.Fleet.Beat(s.clock, ferry.Beat{})
	s.in.Fleet.Beaten(s.clock, b, true)
	s.pass(2 * time.Second)
	for _, w := range []ferry.WriterID{other, third} {
		s.beat(w, ferry.Beat{Slots: 1, Echo: []ferry.Echo{{Writer: me, Boot: 1, Beat: b.Counter}}})
	}
	s.look()
	s.pass(10 * time.Second)
	s.look()
	s.sight.Tasks = tasks
	return s
}

// beat lets a beat of another come in with the next look.
func (s *scene) beat(w ferry.WriterID, b ferry.Beat) {
	s.count[w]++
	b.Epoch, b.Boot, b.Counter = 1, 1, s.count[w]
	s.sight.Beats[w] = b
}

// pass lets time pass, sleep lets the machine sleep.
func (s *scene) pass(d time.Duration)  { s.clock.Mono += d; s.clock.Boot += d }
func (s *scene) sleep(d time.Duration) { s.clock.Boot += d }

// look is one pass: it gives the steps and when the next is due.
func (s *scene) look() ([]worker.Step, time.Duration) {
	s.in.Now = noon.Add(s.clock.Boot)
	s.in.Clock, s.in.Tasks = s.clock, s.sight.Tasks
	s.in.Fleet.Look(s.clock, s.sight)
	return worker.Plan(s.in)
}

// wants looks, and checks the only step.
func (s *scene) wants(do worker.Do, reason string) worker.Step {
	s.t.Helper()
	steps, next := s.look()
	if len(steps) != 1 || steps[0].Do != do || !strings.Contains(steps[0].Reason, reason) {
		s.t.Fatalf("at %s: steps %+v, want %s for %q", s.clock.Mono, steps, do, reason)
	}
	if steps[0].Soon && next <= 0 {
		s.t.Errorf("at %s: %q ends by time, and no look is due", s.clock.Mono, steps[0].Reason)
	}
	return steps[0]
}

// due lets time pass until the next look is due, which must be after want.
func (s *scene) due(want time.Duration) {
	s.t.Helper()
	_, next := s.look()
	if next != want {
		s.t.Errorf("at %s: the next look is due after %s, want %s", s.clock.Mono, next, want)
	}
	s.pass(next)
}

// claims publishes the own claim of the order that a step is about.
func (s *scene) claims(step worker.Step, claim string) {
	s.in.Fleet.Claimed(s.clock, id(claim))
	s.claimed(step.Order, me, claim)
}

// claimed puts a claim of a writer into a task, by rank.
func (s *scene) claimed(order ferry.RecordID, w ferry.WriterID, claim string) {
	t := s.task(order)
	list := []ferry.Claimed{{ID: id(claim), Writer: w}}
	for _, c := range t.Claims {
		if c.Writer != w {
			list = append(list, c)
		}
	}
	for i := range list {
		for j := i; j > 0 && before(t, list[j].Writer, list[j-1].Writer); j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
	t.Claims = list
	if t.State != ferry.StateRunning {
		t.State, t.Next.Claimable, t.Next.Takeover, t.Holder, t.LiveClaim = ferry.StateClaimed, false, true, list[0].Writer, list[0].ID
	}
}

func (s *scene) task(order ferry.RecordID) *ferry.Task {
	for i := range s.sight.Tasks {
		if s.sight.Tasks[i].ID == order {
			return &s.sight.Tasks[i]
		}
	}
	s.t.Fatalf("no order %s", order.Short())
	return nil
}

// starts makes a writer the holder of a live start.
func (s *scene) starts(order ferry.RecordID, w ferry.WriterID, start string) {
	t := s.task(order)
	t.State, t.Holder, t.Live, t.LiveClaim, t.Claims = ferry.StateRunning, w, id(start), ferry.RecordID{}, nil
	t.Attempts = append(t.Attempts, ferry.Attempt{N: t.Next.Attempt, Holder: w, Start: id(start)})
	t.Attempt, t.Next.Attempt, t.Next.Claimable, t.Next.Takeover = t.Next.Attempt, t.Next.Attempt+1, false, true
}

func before(t *ferry.Task, a, b ferry.WriterID) bool {
	x, y := ferry.Rank(id("channel"), t.ID, t.Next.Attempt, a), ferry.Rank(id("channel"), t.ID, t.Next.Attempt, b)
	return bytes.Compare(x[:], y[:]) < 0
}

// ranked gives an order for whose next attempt so many of the two others come before this worker.
func ranked(t *testing.T, n int, opts ...func(*ferry.Task)) ferry.Task {
	t.Helper()
	for i := range 1000 {
		o := task("r-"+strings.Repeat("x", i), opts...)
		o.Order.Label = "a"
		first := 0
		for _, w := range []ferry.WriterID{other, third} {
			if before(&o, w, me) {
				first++
			}
		}
		if first == n {
			return o
		}
	}
	t.Fatal("no such order")
	return ferry.Task{}
}

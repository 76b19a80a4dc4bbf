package worker_test

import (
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/worker"
)

// timed gives an order a time.
func timed(d time.Duration) func(*ferry.Task) {
	return func(t *ferry.Task) {
		t.Order.TimeoutSecs, t.Order.Checks = int64(d/time.Second), []string{"sh check.sh"}
	}
}

// TestOverdue is B2: a member that starts and beats for ever is retired by one that may dispatch and has seen it run for too
// long, by its own clock alone.
func TestOverdue(t *testing.T) {
	const given = time.Hour + 3*10*time.Minute // the order's time, and that of one check and of all else
	run := func(s *scene, d time.Duration) {
		for range int(d / (30 * time.Second)) {
			s.pass(30 * time.Second)
			s.beat(third, ferry.Beat{Running: []ferry.RecordID{id("s")}})
			s.look()
		}
	}
	begin := func(opts ...func(*ferry.Task)) (*scene, *ferry.Task) {
		s := newScene(t, ranked(t, 0, opts...))
		a := s.sight.Tasks[0].ID
		s.in.Dispatch = true
		s.starts(a, third, "s")
		s.look()
		return s, s.task(a)
	}
	ends := func(s *scene) bool {
		steps, _ := s.look()
		for _, step := range steps {
			if step.Do == worker.DoRetire && step.Start == id("s") {
				return true
			}
		}
		return false
	}

	s, _ := begin(timed(time.Hour))
	run(s, given-time.Minute)
	if ends(s) {
		t.Error("it is retired before its time is over")
	}
	run(s, time.Minute)
	if !ends(s) {
		t.Error("it is not retired")
	}
	s.in.Dispatch = false
	if ends(s) {
		t.Error("a worker that may not dispatch retires it")
	}
	s.in.Dispatch = true
	s.in.Fleet.Retired(id("s"))
	if ends(s) {
		t.Error("it is retired twice")
	}

	s, task := begin(timed(time.Hour))
	task.Paused = true
	run(s, 2*given)
	if ends(s) {
		t.Error("the time in which it was paused counts")
	}

	s, task = begin(timed(time.Hour))
	task.Steered = 1
	run(s, given)
	if ends(s) {
		t.Error("a note for the engine gives no time")
	}
	run(s, time.Hour)
	if !ends(s) {
		t.Error("a note for the engine gives more than one run")
	}

	s, _ = begin(timed(time.Hour))
	s.sleep(2 * given)
	if s.look(); ends(s) {
		t.Error("the time in which the observer slept counts")
	}

	s, _ = begin()
	run(s, 2*given)
	if ends(s) {
		t.Error("an order without a time is over it")
	}

	s = newScene(t, ranked(t, 0, func(t *ferry.Task) { t.Next.Barred = []ferry.WriterID{me} }))
	s.wants(worker.DoHold, "`ferry channel retry a` lets it try again")
}

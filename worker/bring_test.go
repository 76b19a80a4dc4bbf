package worker_test

import (
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/worker"
)

// TestWhatLacksACommitIsNotClaimed holds an order whose commit is not here, gives back the claim that stands on it, and
// goes on when the commit has come.
func TestWhatLacksACommitIsNotClaimed(t *testing.T) {
	s := newScene(t, ranked(t, 0))
	order := s.sight.Tasks[0].ID
	lacks := func(l worker.Lack) { s.in.Lacks = map[ferry.RecordID]worker.Lack{order: l} }
	lacks(worker.Lack{Why: "its base is fetched first", Wait: 200 * time.Millisecond, Soon: true})
	if step := s.wants(worker.DoHold, "its base is fetched first"); !step.Soon {
		t.Error("a fetch is not waited for by a worker that runs once")
	}
	s.due(200 * time.Millisecond)
	lacks(worker.Lack{Why: "its base is not on this machine", Wait: 8 * time.Second})
	if step := s.wants(worker.DoHold, "its base is not on this machine"); step.Soon {
		t.Error("a commit that is nowhere is waited for by a worker that runs once")
	}
	s.due(8 * time.Second)
	s.in.Lacks = nil
	s.claims(s.wants(worker.DoClaim, "open"), "c-1")
	lacks(worker.Lack{Why: "its base is not on this machine", Wait: time.Second})
	steps, _ := s.look()
	if len(steps) != 2 || steps[0].Do != worker.DoRelease || steps[1].Do != worker.DoHold {
		t.Errorf("steps %+v, want the claim given back and a hold", steps)
	}
}

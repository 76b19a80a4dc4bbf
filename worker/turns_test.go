package worker_test

import (
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/worker"
)

// behind puts workers behind the others.
func behind(w ...ferry.WriterID) func(*ferry.Task) {
	return func(t *ferry.Task) { t.Next.Behind = w }
}

// TestTriedInVain is the turns of a worker whose attempts came to nothing twice: others go before it, however small its rank
// is, and where they do not want the order it takes it.
func TestTriedInVain(t *testing.T) {
	s := newScene(t, ranked(t, 0, behind(me)))
	s.wants(worker.DoHold, "waits for its turn: 2 workers come before this one (6.0 s)")
	s.due(2 * S)
	s.claims(s.wants(worker.DoClaim, "open"), "c")
	s.due(S)
	s.wants(worker.DoStart, "open")

	s = newScene(t, ranked(t, 2, behind(other, third)))
	s.claims(s.wants(worker.DoClaim, "open"), "c")
	s.claimed(s.sight.Tasks[0].ID, other, "theirs")
	s.due(S)
	if step := s.wants(worker.DoStart, "open"); len(step.Over) != 0 {
		t.Errorf("start %+v: a claim of one that is behind does not go before it", step)
	}

	s = newScene(t, ranked(t, 0, behind(me)))
	s.due(2 * S)
	s.claims(s.wants(worker.DoClaim, "open"), "c")
	s.claimed(s.sight.Tasks[0].ID, third, "theirs")
	s.wants(worker.DoHold, "moon on shelf claimed it first")

	s = newScene(t, ranked(t, 1, behind(me, other, third)))
	s.wants(worker.DoHold, "waits for its turn: 1 worker comes before this one")
}

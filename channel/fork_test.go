package channel_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
)

// What an old copy of the state directory has forgotten comes back from the folder, and the writer whose records they are
// writes no more: it may be the second of two.
func TestStateRestored(t *testing.T) {
	s := newSite(t)
	name := filepath.Join(s.cfg.State, "store.log")
	old, err := os.ReadFile(name)
	must1(t, err)
	id := s.issue(t, order("first"))
	for _, index := range []string{"", "index.db"} {
		must1(t, os.WriteFile(name, old, 0o600))
		if index != "" {
			must1(t, os.Remove(filepath.Join(s.cfg.State, index)))
		}
		s.reopen(t)
		if _, err := s.master.Issue(t.Context(), start, order("second")); !errors.Is(err, channel.ErrLost) {
			t.Errorf("a write from an old copy: %v", err)
		}
		s.wantState(t, id, ferry.StateOpen)
		wantIntact(t, s)
	}
	s.finish(t, id, 0) // the agent had written nothing that was forgotten
}

// A gap is filled by what arrives later; of a number signed twice neither counts, nor does what follows.
func TestGapAndFork(t *testing.T) {
	s := newSite(t)
	p := s.foreign(t, "moth", ferry.GrantWork)
	id := s.issue(t, order("first"))
	a := p.write(t, &ferry.Claim{Order: id, Attempt: 1})
	b := p.write(t, &ferry.Start{Order: id, Attempt: 1, Claim: a.id, Engine: "codex", Sandbox: "none"})
	deliver(t, s.cfg.Folder, b)
	if r, err := s.Refresh(t.Context()); err != nil || r.New != 0 || r.Parked != 1 {
		t.Fatalf("with a gap: %+v, %v", r, err)
	}
	deliver(t, s.cfg.Folder, a)
	if r, err := s.Refresh(t.Context()); err != nil || r.New != 2 || r.Parked != 0 {
		t.Fatalf("with the gap filled: %+v, %v", r, err)
	}
	s.wantState(t, id, ferry.StateRunning)
	twin := *p
	twin.seq, twin.prev = 1, a.id
	deliver(t, s.cfg.Folder, twin.write(t, &ferry.Stop{Order: id, Claim: a.id, Reason: ferry.StopReleased}))
	if r, err := s.Refresh(t.Context()); err != nil || r.New != 1 {
		t.Fatalf("with a fork: %+v, %v", r, err)
	}
	s.wantState(t, id, ferry.StateClaimed)
	if _, err := s.writer(t, "moth").Note(t.Context(), start, ferry.Note{Kind: "x", Text: "d"}); !errors.Is(err, channel.ErrForked) || !strings.Contains(err.Error(), "rejoin") {
		t.Errorf("a forked writer writes: %v", err)
	}
	snap, err := s.Snapshot(t.Context())
	if err != nil || len(snap.Rejected) != 1 || !strings.Contains(snap.Rejected[0].Reason, "fork") {
		t.Errorf("the snapshot names %+v, %v", snap.Rejected, err)
	}
	v, err := s.Verify(t.Context())
	if err != nil || len(v.Problems) != 1 || v.Problems[0].Kind != channel.ProblemFork {
		t.Errorf("verify: %+v, %v", v.Problems, err)
	}
	s.issue(t, order("goes-on")) // the others are not held up
}

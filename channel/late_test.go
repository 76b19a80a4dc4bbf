package channel_test

import (
	"errors"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
)

// A grant that arrives late makes count what its writer wrote before.
func TestLateGrant(t *testing.T) {
	s := newSite(t)
	p := s.penOf(t, "agent")
	o := order("early")
	f := p.write(t, &o)
	deliver(t, s.cfg.Folder, f)
	if r, err := s.Refresh(t.Context()); err != nil || r.New != 1 {
		t.Fatalf("refresh: %+v, %v", r, err)
	}
	if _, err := s.Task(t.Context(), "early"); !errors.Is(err, channel.ErrNoOrder) {
		t.Errorf("an order without the grant: %v", err)
	}
	_, err := s.master.Admit(t.Context(), start, testMember(p.key, "wisp", ferry.GrantOrder))
	must1(t, err)
	s.wantState(t, f.id, ferry.StateOpen)
	wantIntact(t, s)
}

// A fork that arrives after its chain takes back everything that followed from it.
func TestLateFork(t *testing.T) {
	s := newSite(t)
	before := s.issue(t, order("before"))
	p := s.penOf(t, "master")
	after := s.issue(t, order("after"))
	_, err := s.master.Cancel(t.Context(), start, ferry.Cancel{Order: before})
	must1(t, err)
	if _, err := s.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	deliver(t, s.cfg.Folder, p.write(t, &ferry.Note{Kind: "x", Text: "another"}))
	if r, err := s.Refresh(t.Context()); err != nil || r.New != 1 {
		t.Fatalf("refresh: %+v, %v", r, err)
	}
	s.wantState(t, before, ferry.StateOpen)
	if _, err := s.Task(t.Context(), after.String()); !errors.Is(err, channel.ErrNoOrder) {
		t.Errorf("an order that was written from the fork on: %v", err)
	}
	snap, err := s.Snapshot(t.Context())
	if err != nil || len(snap.Active) != 1 || snap.Active[0].ID != before {
		t.Errorf("active: %+v, %v", snap.Active, err)
	}
	v, err := s.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range v.Problems {
		if problem.Kind != channel.ProblemFork {
			t.Errorf("problem %+v", problem)
		}
	}
}

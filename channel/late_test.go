package channel_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
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

// A fork that arrives after its chain and has the smaller id takes its place, with everything that followed from it.
func TestLateFork(t *testing.T) {
	s := newSite(t)
	before := s.issue(t, order("before"))
	p := s.penOf(t, "master")
	var fork file
	for i := 0; fork.data == nil || bytes.Compare(fork.id[:], bytes.Repeat([]byte{0x10}, 32)) > 0; i++ {
		fork = p.seal(t, sign.Header{Type: "note"}, fmt.Appendf(nil, `{"order":"","kind":"x","text":"%d"}`, i))
	}
	var after ferry.RecordID
	for i := 0; after.IsZero() || bytes.Compare(after[:], fork.id[:]) < 0; i++ {
		o := order(fmt.Sprintf("after-%d", i))
		if f := p.seal(t, sign.Header{Type: "order"}, mustBody(t, &o)); bytes.Compare(f.id[:], fork.id[:]) > 0 {
			after = s.issue(t, o)
		}
	}
	_, err := s.master.Cancel(t.Context(), start, ferry.Cancel{Order: before})
	must1(t, err)
	if _, err := s.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	deliver(t, s.cfg.Folder, fork)
	if r, err := s.Refresh(t.Context()); err != nil || r.New != 1 {
		t.Fatalf("refresh: %+v, %v", r, err)
	}
	s.wantState(t, before, ferry.StateOpen)
	if _, err := s.Task(t.Context(), after.String()); !errors.Is(err, channel.ErrNoOrder) {
		t.Errorf("an order of the branch that does not count: %v", err)
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

func mustBody(t *testing.T, b ferry.Body) []byte {
	t.Helper()
	body, err := channel.EncodeBody(b)
	must1(t, err)
	return body
}

package channel_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

// Every record says up to where its writer had the master's chain, and a machine that lacks that part knows it.
func TestBehind(t *testing.T) {
	s := newSite(t)
	s.issue(t, order("first"))
	last := s.issue(t, order("second"))
	note, err := s.agent.Note(t.Context(), start, ferry.Note{Kind: "x", Text: "y"})
	must1(t, err)
	rec, _, err := s.Record(t.Context(), note)
	must1(t, err)
	head := ferry.Head{Writer: s.master.ID(), Epoch: 1, Seq: 4, ID32: last.String()[:32]}
	if diff := cmp.Diff([]ferry.Head{head}, rec.Saw); diff != "" {
		t.Errorf("the heads of a record (-want +got):\n%s", diff)
	}
	withheld := filepath.Join(s.cfg.Folder, "w", string(s.master.ID()), "t", "0001-0000000004-"+last.String()[:32]+".fr")
	data, err := os.ReadFile(withheld)
	must1(t, err)
	must1(t, os.Remove(withheld))
	cfg := channel.Config{Folder: s.cfg.Folder, State: t.TempDir(), Judge: judge}
	c, err := channel.Open(t.Context(), cfg, s.ID())
	must1(t, err)
	defer c.Close()
	look := func() *channel.Snapshot {
		t.Helper()
		if _, err := c.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		snap, err := c.Snapshot(t.Context())
		must1(t, err)
		return snap
	}
	if snap := look(); !strings.Contains(snap.Behind, "record 4 of esteban") || !strings.Contains(snap.Behind, "wisp") {
		t.Errorf("behind: %q", snap.Behind)
	}
	got, by, ok, err := c.Behind(t.Context())
	if err != nil || !ok || got != head || by != s.agent.ID() {
		t.Errorf("behind %+v by %s, %v, %v", got, by, ok, err)
	}
	deliver(t, s.cfg.Folder, toFile(t, data))
	if snap := look(); snap.Behind != "" || snap.Hold != "" {
		t.Errorf("with everything there: behind %q, hold %q", snap.Behind, snap.Hold)
	}
	if _, _, ok, err := c.Behind(t.Context()); ok || err != nil {
		t.Errorf("with everything there: behind %v, %v", ok, err)
	}
}

// What a writer says of the authority is waited for ten minutes, and then no more until it says something that is right.
func TestLiar(t *testing.T) {
	s := newSite(t)
	now := start
	s.SetClock(func() time.Time { return now })
	id := s.issue(t, order("first"))
	liar, delegate := testKey(t, "liar"), testKey(t, "delegate")
	said, err := s.master.Admit(t.Context(), start, testMember(liar, "liar"))
	must1(t, err)
	_, err = s.master.Admit(t.Context(), start, testMember(delegate, "ernest"))
	must1(t, err)
	acts, err := s.Writer(delegate)
	must1(t, err)
	_, err = s.master.Update(t.Context(), start, func(tx *channel.Tx) error {
		_, err := tx.Add(&ferry.Delegate{To: acts.ID(), Scopes: []ferry.Scope{ferry.ScopeDispatch}, NotAfter: "2099-01-01T00:00:00Z"})
		return err
	})
	must1(t, err)
	prev, seq := said, uint64(0)
	say := func(heads ...sign.Head) {
		t.Helper()
		seq++
		data, err := sign.Seal(liar, sign.Header{
			Channel: s.ID(), Type: "note", Writer: liar.Public().WriterID(), Epoch: 1, Seq: seq, Prev: prev, Time: start, Saw: heads,
		}, []byte(`{"kind":"x","text":"y"}`))
		must1(t, err)
		u, err := sign.ParseHeader(data)
		must1(t, err)
		prev = ferry.RecordID(u.ID())
		deliver(t, s.cfg.Folder, toFile(t, data))
		if r := s.refresh(t); r.New != 1 {
			t.Fatalf("%d records came in, want that of the liar", r.New)
		}
		s.refresh(t)
	}
	head := func(seq uint64) sign.Head {
		return sign.Head{Writer: sign.WriterID(s.master.ID()), Epoch: 1, Seq: seq, ID32: said.String()[:32]}
	}
	check := func(what string, waits bool, doubts int) {
		t.Helper()
		s.refresh(t)
		snap, err := s.Snapshot(t.Context())
		must1(t, err)
		if (snap.Behind != "") != waits || len(snap.Doubts) != doubts {
			t.Errorf("%s: behind %q, doubts %v", what, snap.Behind, snap.Doubts)
		}
		if doubts > 0 && string(snap.Doubts[0].Witness) != string(liar.Public().WriterID()) {
			t.Errorf("%s: the doubt is about %s", what, snap.Doubts[0].Witness)
		}
		_, err = acts.Interrupt(t.Context(), start, ferry.Interrupt{Order: id, Action: ferry.ActionPause})
		if errors.Is(err, channel.ErrBehind) != waits || !waits && err != nil {
			t.Errorf("%s: a delegate's act: %v", what, err)
		}
	}
	check("before", false, 0)
	say(head(999999))
	check("told of a record", true, 0)
	now = now.Add(9 * time.Minute)
	say(head(9999999))
	check("told of another", true, 0)
	now = now.Add(time.Minute)
	check("after ten minutes", false, 1)
	report := digestOf(t, s)
	if len(report.Problems) != 1 || report.Problems[0].Kind != channel.ProblemWitness || report.Problems[0].Seq != 999999 {
		t.Errorf("verify: %+v", report.Problems)
	}
	s.reopen(t)
	s.SetClock(func() time.Time { return now })
	acts, err = s.Writer(delegate)
	must1(t, err)
	check("opened again", false, 1)
	say(head(2))
	check("told what is right", false, 0)
	say(head(999999))
	check("told of a record again", true, 0)
}

// A policy that needs a newer ferry holds what it governs.
func TestPolicyHolds(t *testing.T) {
	s := newSite(t)
	_, err := s.master.Update(t.Context(), start, func(tx *channel.Tx) error {
		_, err := tx.Add(&ferry.Policy{Kind: ferry.PolicyEngine, Version: 1, Requires: []string{"sandbox.9"}, Text: "x"})
		return err
	})
	must1(t, err)
	snap, err := s.Snapshot(t.Context())
	if err != nil || !strings.Contains(snap.Hold, "sandbox.9") {
		t.Errorf("hold %q, %v", snap.Hold, err)
	}
}

package channel_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
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

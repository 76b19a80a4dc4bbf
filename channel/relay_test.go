package channel_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
)

// member makes another machine whose writer is a member, with files of its own.
func member(t *testing.T, s *site, name string) *site {
	t.Helper()
	_, err := s.master.Admit(t.Context(), start, testMember(testKey(t, name), name, ferry.GrantWork))
	must1(t, err)
	m := machine(t, s, channel.Limits{})
	m.agent = m.writer(t, name)
	notes(t, m.agent, 1, start)
	return m
}

// clockOf gives a channel a clock that only the test moves.
func clockOf(s *site) (move func(time.Duration)) {
	now := time.Now()
	s.SetClock(func() time.Time { return now })
	return func(d time.Duration) { now = now.Add(d) }
}

// What the folder has been lacking of another writer for ten minutes is written again, byte for byte, and readers take it
// like the original.
func TestRelay(t *testing.T) {
	s := newSite(t)
	id := s.issue(t, order("first"))
	s.finish(t, id, 0)
	m := member(t, s, "moth")
	move := clockOf(m)
	dir := filepath.Join(m.cfg.Folder, "w", string(s.agent.ID()))
	files := glob(t, dir, "t", "*.fr")
	gone := files[1]
	want, err := os.ReadFile(gone)
	must1(t, err)
	must1(t, os.Remove(gone))
	relays := filepath.Join(m.cfg.Folder, "w", string(m.agent.ID()), "r", string(s.agent.ID()), "t")
	for _, wait := range []time.Duration{time.Minute, 9 * time.Minute} {
		if r := m.refresh(t); r.Relayed != 0 || len(glob(t, relays, "*")) != 0 {
			t.Fatalf("relayed before its time: %+v", r)
		}
		move(wait)
	}
	if r := m.refresh(t); r.Relayed != 1 {
		t.Errorf("after ten minutes: %+v", r)
	}
	got, err := os.ReadFile(filepath.Join(relays, filepath.Base(gone)))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the relayed file has %d bytes, want the %d of the original (%v)", len(got), len(want), err)
	}
	move(time.Hour)
	for range 2 {
		if r := m.refresh(t); r.Relayed != 0 || len(r.Rejected) != 0 {
			t.Errorf("relayed again: %+v", r)
		}
	}
	fresh := machine(t, m, channel.Limits{})
	fresh.wantState(t, id, ferry.StateDone)
	if v := digestOf(t, fresh); !v.OK {
		t.Errorf("a machine that has the relay: %+v", v.Problems)
	}
	// The whole directory of the writer goes: all of it comes from the relays.
	must1(t, os.RemoveAll(dir))
	m.refresh(t)
	move(time.Hour)
	if r := m.refresh(t); r.Relayed != len(files)-1 {
		t.Errorf("relayed %d files, want the other %d", r.Relayed, len(files)-1)
	}
	fresh = machine(t, m, channel.Limits{})
	fresh.wantState(t, id, ferry.StateDone)
	// When the owner is back, nothing is lacking.
	bring(t, s.cfg.Folder, m.cfg.Folder)
	move(time.Hour)
	if r := m.refresh(t); r.Relayed != 0 {
		t.Errorf("with the owner back: %+v", r)
	}
}

// What was sealed is relayed as the one pack that it was.
func TestRelayPack(t *testing.T) {
	s := newSite(t)
	notes(t, s.agent, 20, start)
	seal := sealLoose(t, s.agent, start.Add(8*day))
	m := member(t, s, "moth")
	move := clockOf(m)
	want, err := os.ReadFile(filepath.Join(m.cfg.Folder, seal.Pack))
	must1(t, err)
	must1(t, os.RemoveAll(filepath.Join(m.cfg.Folder, "w", string(s.agent.ID()))))
	m.refresh(t)
	move(time.Hour)
	if r := m.refresh(t); r.Relayed != 2 {
		t.Errorf("relayed: %+v, want the pack and the seal", r)
	}
	got, err := os.ReadFile(filepath.Join(m.cfg.Folder, "w", string(m.agent.ID()), "r", string(s.agent.ID()), "p", filepath.Base(seal.Pack)))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the relayed pack has %d bytes, want %d (%v)", len(got), len(want), err)
	}
	if v := digestOf(t, machine(t, m, channel.Limits{})); !v.OK || v.Digest != digestOf(t, s).Digest {
		t.Errorf("a machine that has the relay: %+v", v.Problems)
	}
}

// Both branches of a fork are relayed: they are the evidence of it.
func TestRelayFork(t *testing.T) {
	s := newSite(t)
	p := s.penOf(t, "agent")
	a := *p
	one, other := a.write(t, &ferry.Note{Kind: "x", Text: "one"}), p.write(t, &ferry.Note{Kind: "x", Text: "other"})
	m := member(t, s, "moth")
	deliver(t, m.cfg.Folder, one)
	deliver(t, m.cfg.Folder, other)
	move := clockOf(m)
	m.refresh(t)
	must1(t, os.RemoveAll(filepath.Join(m.cfg.Folder, "w", string(s.agent.ID()))))
	m.refresh(t)
	move(time.Hour)
	if r := m.refresh(t); r.Relayed != 2 {
		t.Errorf("relayed: %+v, want both branches", r)
	}
	fresh := machine(t, m, channel.Limits{})
	if got, want := digestOf(t, fresh), digestOf(t, m); got.Records != want.Records || got.Digest != want.Digest {
		t.Errorf("a machine that has the relays has %d records, want %d", got.Records, want.Records)
	}
	// One of them alone is evidence, too.
	must1(t, os.Remove(glob(t, m.cfg.Folder, "w", string(m.agent.ID()), "r", string(s.agent.ID()), "t", filepath.Base(one.path))[0]))
	m.refresh(t)
	move(time.Hour)
	if r := m.refresh(t); r.Relayed != 1 {
		t.Errorf("relayed: %+v, want the branch that went away", r)
	}
}

package channel_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
)

const day = 24 * time.Hour

func sealLoose(t *testing.T, w *channel.Writer, now time.Time) channel.SealReport {
	t.Helper()
	r, err := w.SealLoose(t.Context(), now)
	must1(t, err)
	return r
}

// What is packed is the same to every reader, whether it reads the loose files, the pack or both.
func TestSeal(t *testing.T) {
	s := newSite(t)
	_, err := s.master.Admit(t.Context(), start, testMember(testKey(t, "lynx"), "lynx"))
	must1(t, err)
	late := machine(t, s, channel.Limits{})
	id := s.issue(t, order("first"))
	s.finish(t, id, 0)
	notes(t, s.agent, 250, start)
	if r := sealLoose(t, s.agent, start); r.Pack != "" {
		t.Fatalf("254 records are packed: %+v", r)
	}
	notes(t, s.agent, 2, start)
	r := sealLoose(t, s.agent, start)
	if r.Records != 256 || r.Removed != 0 || !strings.HasPrefix(r.Pack, "w/"+string(s.agent.ID())+"/p/0001-0000000001-0000000256-") {
		t.Fatalf("sealed: %+v", r)
	}
	loose := filepath.Join(s.cfg.Folder, "w", string(s.agent.ID()), "t")
	if n := len(glob(t, loose, "*.fr")); n != 257 {
		t.Errorf("%d loose files while a member may not have the seal, want 257", n)
	}
	// A week later nothing more is packed: the seal alone is not worth a pack.
	if r := sealLoose(t, s.agent, start.Add(8*day)); r.Pack != "" || r.Removed != 0 {
		t.Errorf("sealed again: %+v", r)
	}
	if r := sealLoose(t, s.agent, start.Add(31*day)); r.Removed != 256 {
		t.Errorf("after a month: %+v", r)
	}
	if names := glob(t, loose, "*.fr"); len(names) != 1 {
		t.Errorf("%d loose files are left, want the seal alone", len(names))
	}
	for range 2 {
		if r := s.refresh(t); r.Republished != 0 || len(r.Rejected) != 0 {
			t.Errorf("the pass after it: %+v", r)
		}
	}
	want := digestOf(t, s)
	if !want.OK {
		t.Errorf("verify: %+v", want.Problems)
	}
	bring(t, s.cfg.Folder, late.cfg.Folder)
	late.refresh(t)
	fresh := machine(t, s, channel.Limits{})
	for name, m := range map[string]*site{"late": late, "fresh": fresh} {
		if got := digestOf(t, m); got.Digest != want.Digest || got.Records != want.Records || !got.OK {
			t.Errorf("%s: %d records, %+v, want %d", name, got.Records, got.Problems, want.Records)
		}
	}
	alone, err := channel.VerifyDir(t.Context(), s.cfg.Folder, s.ID(), judge)
	if err != nil || !alone.OK || alone.Digest != want.Digest || alone.Records != want.Records {
		t.Errorf("the folder alone: %+v, %v", alone, err)
	}
}

// Loose files stay until every member that is heard of has the seal.
func TestSealWaitsForMembers(t *testing.T) {
	s := newSite(t)
	lynx := testKey(t, "lynx")
	_, err := s.master.Admit(t.Context(), start, testMember(lynx, "lynx", ferry.GrantReview))
	must1(t, err)
	notes(t, s.agent, 10, start)
	seal := sealLoose(t, s.agent, start.Add(8*day))
	ledger, err := s.Ledger(t.Context(), 1)
	must1(t, err)
	head := ferry.Head{Writer: s.agent.ID(), Epoch: 1, Seq: ledger[0].Seq, ID32: ledger[0].ID.String()[:32]}
	if ledger[0].Type != ferry.TypeSeal || seal.Records != 10 {
		t.Fatalf("the last record is a %s, sealed %+v", ledger[0].Type, seal)
	}
	behind := head
	behind.Seq--
	for i, tt := range []struct {
		saw     []ferry.Head
		removed int
	}{{nil, 0}, {[]ferry.Head{behind}, 0}, {[]ferry.Head{head}, 10}} {
		must1(t, s.PutBeat(lynx, ferry.Beat{Epoch: 1, Boot: 1, Counter: int64(i + 1), Saw: tt.saw}))
		if r := sealLoose(t, s.agent, start.Add(8*day)); r.Removed != tt.removed {
			t.Errorf("when lynx saw %v: %+v, want %d removed", tt.saw, r, tt.removed)
		}
	}
}

// A pack of this machine that is deleted, cut or changed comes back with the very same bytes.
func TestPackComesBack(t *testing.T) {
	s := newSite(t)
	_, err := s.master.Admit(t.Context(), start, testMember(testKey(t, "lynx"), "lynx"))
	must1(t, err)
	notes(t, s.agent, 10, start)
	r := sealLoose(t, s.agent, start.Add(8*day))
	name := filepath.Join(s.cfg.Folder, r.Pack)
	want, err := os.ReadFile(name)
	must1(t, err)
	for what, harm := range map[string]func() error{
		"deleted":          func() error { return os.Remove(name) },
		"cut":              func() error { return os.Truncate(name, 100) },
		"the folder empty": func() error { return os.RemoveAll(filepath.Join(s.cfg.Folder, "w")) },
	} {
		must1(t, harm())
		if _, err := os.Stat(filepath.Dir(name)); err == nil {
			touch(t, filepath.Dir(name))
		}
		s.refresh(t)
		s.refresh(t)
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes are back, want %d (%v)", what, len(got), len(want), err)
		}
	}
	// While the pack is not what the store gives, loose files stay.
	must1(t, os.WriteFile(name, bytes.Replace(want, []byte("note"), []byte("Note"), 1), 0o644))
	if r := sealLoose(t, s.agent, start.Add(40*day)); r.Removed != 0 {
		t.Errorf("with a pack that was changed: %+v", r)
	}
	wantLoose := glob(t, s.cfg.Folder, "w", string(s.agent.ID()), "t", "*.fr")
	if len(wantLoose) == 0 {
		t.Error("the loose files are gone")
	}
}

// A pack is opened once, whatever a carrier does to the directory around it, and in a new process too.
func TestPackReadOnce(t *testing.T) {
	s := newSite(t)
	m := machine(t, s, channel.Limits{})
	notes(t, s.agent, 10, start)
	seal := sealLoose(t, s.agent, start.Add(8*day))
	sealLoose(t, s.agent, start.Add(40*day))
	carry(t, s.cfg.Folder, m.cfg.Folder)
	var opened []string
	note := func(name string) { opened = append(opened, name) }
	m.Opened(note)
	if r := m.refresh(t); r.New != 11 {
		t.Errorf("from the pack and the seal: %+v", r)
	}
	if want := []string{seal.Pack}; !cmp.Equal(want, packsIn(opened)) {
		t.Errorf("opened %v, want %v", packsIn(opened), want)
	}
	opened = nil
	touch(t, filepath.Dir(filepath.Join(m.cfg.Folder, seal.Pack)))
	m.refresh(t)
	must1(t, m.Close())
	c, err := channel.Open(t.Context(), m.cfg, s.ID())
	must1(t, err)
	m.Channel = c
	m.Opened(note)
	touch(t, filepath.Dir(filepath.Join(m.cfg.Folder, seal.Pack)))
	m.refresh(t)
	if len(packsIn(opened)) != 0 {
		t.Errorf("opened again: %v", opened)
	}
}

func packsIn(names []string) (out []string) {
	for _, n := range names {
		if strings.HasSuffix(n, ".fp") {
			out = append(out, n)
		}
	}
	return out
}

// A damaged pack is named and stops nothing; a pack in which one record is forged gives the others.
func TestOddPacks(t *testing.T) {
	s := newSite(t)
	p := s.penOf(t, "agent")
	var good [][]byte
	for range 3 {
		good = append(good, p.write(t, &ferry.Note{Kind: "x", Text: "y"}).data)
	}
	forged := bytes.Clone(good[2])
	forged[len(forged)-3] ^= 1
	dir := filepath.Join(s.cfg.Folder, "w", string(s.agent.ID()), "p")
	must1(t, os.MkdirAll(dir, 0o755))
	name := func(from, to, fill string) string {
		return "0001-000000000" + from + "-000000000" + to + "-" + strings.Repeat(fill, 32) + ".fp"
	}
	whole := channel.PackFile(good)
	for n, data := range map[string][]byte{
		name("1", "3", "a"): channel.PackFile([][]byte{good[0], good[1], forged}),
		name("1", "3", "b"): whole[:len(whole)-20],
		name("1", "3", "c"): bytes.Replace(whole, []byte("end 3"), []byte("end 4"), 1),
		name("5", "6", "d"): channel.PackFile([][]byte{p.write(t, &ferry.Note{Kind: "x"}).data}),
		name("1", "1", "e"): nil,
		"notes.txt":         []byte("hello"),
	} {
		must1(t, os.WriteFile(filepath.Join(dir, n), data, 0o644))
	}
	r := s.refresh(t)
	wantRejected(t, r.Rejected, map[string]string{
		name("1", "3", "a"): "record 3 of the pack: ", name("1", "3", "b"): "truncated", name("1", "3", "c"): "malformed",
		name("1", "1", "e"): "truncated", "notes.txt": "not the name of a pack",
	})
	if r.New != 2 || r.Parked != 1 {
		t.Errorf("new %d, parked %d, want 2 and 1", r.New, r.Parked)
	}
	must1(t, os.WriteFile(filepath.Join(dir, name("1", "3", "f")), whole, 0o644))
	touch(t, dir)
	if r := s.refresh(t); r.New != 2 || r.Parked != 0 {
		t.Errorf("with the gap filled: new %d, parked %d, want 2 and 0", r.New, r.Parked)
	}
}

// Of the records of the master the root record keeps its file, which is how a machine that comes later finds the channel.
func TestSealMaster(t *testing.T) {
	s := newSite(t)
	notes(t, s.agent, 1, start) // it writes here: nobody else has to have the seal
	notes(t, s.master, 300, start)
	if r, err := s.master.SealFull(t.Context(), start); err != nil || r.Records != 302 || r.Removed != 301 {
		t.Fatalf("sealed: %+v, %v; want 302 records in the pack and 301 files gone", r, err)
	}
	if r, err := s.master.SealFull(t.Context(), start.Add(40*day)); err != nil || r.Pack != "" {
		t.Errorf("sealed again: %+v, %v", r, err)
	}
	root := glob(t, s.cfg.Folder, "w", string(s.master.ID()), "t", "0001-0000000001-*.fr")
	if len(root) != 1 {
		t.Fatalf("the root record has %d files", len(root))
	}
	wantIntact(t, s)
	fresh := machine(t, s, channel.Limits{})
	if got, want := digestOf(t, fresh), digestOf(t, s); got.Digest != want.Digest || !got.OK {
		t.Errorf("a fresh machine: %d records, %+v, want %d", got.Records, got.Problems, want.Records)
	}
	must1(t, os.Remove(root[0]))
	if r := s.refresh(t); r.Republished != 1 {
		t.Errorf("without the root record: %+v", r)
	}
	wantIntact(t, s)
}

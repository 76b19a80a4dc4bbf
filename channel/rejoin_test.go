package channel_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

func (s *site) rejoins(t *testing.T) []channel.RejoinRequest {
	t.Helper()
	r, err := s.RejoinRequests(t.Context())
	must1(t, err)
	return r
}

func (s *site) rule(t *testing.T, b ferry.Body) ferry.RecordID {
	t.Helper()
	added, err := s.master.Update(t.Context(), start, func(tx *channel.Tx) error {
		_, err := tx.Add(b)
		return err
	})
	must1(t, err)
	return added[0]
}

func TestRejoin(t *testing.T) {
	s := newSite(t)
	next := testKey(t, "next")
	if got := s.rejoins(t); len(got) != 0 {
		t.Errorf("before anybody asks: %+v", got)
	}
	want := channel.RejoinRequest{Channel: s.ID(), Member: s.agent.ID(), Nonce: strings.Repeat("5a", 32), Machine: "box", Version: "1"}
	must1(t, channel.PutRejoin(s.cfg.Folder, want, next))
	want.Key = next.Public().String()
	if diff := cmp.Diff([]channel.RejoinRequest{want}, s.rejoins(t)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	id := s.rule(t, &ferry.Readmit{Writer: s.agent.ID(), Epoch: 2, Key: want.Key, Keep: ferry.Cut{Epoch: 1}, Nonce: want.Nonce})
	if got := s.rejoins(t); len(got) != 0 {
		t.Errorf("after the answer: %+v", got)
	}
	admissions, err := s.Admissions(t.Context(), s.agent.ID())
	must1(t, err)
	if n := len(admissions); n != 2 || admissions[1].ID != id {
		t.Errorf("admissions: %+v", admissions)
	}
	w, err := s.Writer(next)
	must1(t, err)
	if w.ID() != s.agent.ID() {
		t.Errorf("the next key is that of %s, want %s", w.ID(), s.agent.ID())
	}
	must1(t, channel.DropRejoin(s.cfg.Folder, want))
	must1(t, channel.DropRejoin(s.cfg.Folder, want))
}

// What its own key has not signed, or is about nobody here, is no request.
func TestOddRejoinRequests(t *testing.T) {
	s := newSite(t)
	next, other := testKey(t, "next"), testKey(t, "other")
	good := channel.RejoinRequest{Channel: s.ID(), Member: s.agent.ID(), Key: next.Public().String(), Nonce: strings.Repeat("5a", 32)}
	file := func(key sign.Key, kind string, change func(r *channel.RejoinRequest)) []byte {
		r := good
		change(&r)
		body, err := sign.EncodeJSON(r)
		must1(t, err)
		data, err := sign.SealNote(key, kind, body)
		must1(t, err)
		return data
	}
	const kind = "application/vnd.ferry.rejoin.v1"
	nothing := func(*channel.RejoinRequest) {}
	dir := filepath.Join(s.cfg.Folder, "j", s.ID().String()[:16])
	must1(t, os.MkdirAll(dir, 0o755))
	name := filepath.Join(dir, string(next.Public().WriterID())+".fj")
	for what, data := range map[string][]byte{
		"by another key":      file(other, kind, nothing),
		"of another kind":     file(next, sign.TypeJoin, nothing),
		"for another channel": file(next, kind, func(r *channel.RejoinRequest) { r.Channel[0] ^= 1 }),
		"of nobody":           file(next, kind, func(r *channel.RejoinRequest) { r.Member = ferry.WriterID(other.Public().WriterID()) }),
		"of no writer":        file(next, kind, func(r *channel.RejoinRequest) { r.Member = "../../x" }),
		"under another name":  file(other, kind, func(r *channel.RejoinRequest) { r.Key = other.Public().String() }),
		"with a short nonce":  file(next, kind, func(r *channel.RejoinRequest) { r.Nonce = "5a" }),
		"garbage":             []byte("hello"),
		"empty":               nil,
	} {
		must1(t, os.WriteFile(name, data, 0o644))
		if got := s.rejoins(t); len(got) != 0 {
			t.Errorf("%s: %+v", what, got)
		}
	}
	must1(t, os.WriteFile(name, file(next, kind, nothing), 0o644))
	if got := s.rejoins(t); len(got) != 1 {
		t.Errorf("requests: %+v", got)
	}
	for what, r := range map[string]channel.RejoinRequest{
		"no member": {Channel: s.ID(), Nonce: good.Nonce}, "no channel": {Member: good.Member, Nonce: good.Nonce},
		"no nonce": {Channel: s.ID(), Member: good.Member}, "too large": {Channel: s.ID(), Member: good.Member, Nonce: good.Nonce, Version: strings.Repeat("x", 4<<10)},
	} {
		if err := channel.PutRejoin(s.cfg.Folder, r, next); err == nil {
			t.Errorf("%s: it is written", what)
		}
	}
}

func TestRecover(t *testing.T) {
	dir := t.TempDir()
	recovery, next := testKey(t, "recovery"), testKey(t, "queen")
	s := &site{cfg: channel.Config{Folder: filepath.Join(dir, "folder"), State: filepath.Join(dir, "state"), Judge: judge}}
	c, err := channel.Found(t.Context(), s.cfg, channel.FoundSpec{
		Project: "demo", Master: ferry.Member{Name: "esteban", Machine: "box"}, Key: testKey(t, "master"), Now: start,
		Recovery: []sign.PublicKey{recovery.Public()},
	})
	must1(t, err)
	t.Cleanup(func() { must1(t, c.Close()) })
	s.Channel = c
	s.master = s.writer(t, "master")
	id := s.issue(t, order("t-one"))
	roster, err := s.Roster(t.Context())
	must1(t, err)
	before := roster.Root()
	root := *before.Body.(*ferry.Root)
	links, err := s.Chain(t.Context(), s.master.ID(), 1)
	must1(t, err)
	last := links[len(links)-1]
	root.Generation, root.Version, root.Prev = 1, 1, before.ID
	root.Keep = ferry.Cut{Epoch: 1, Seq: int64(last.Seq), ID: last.ID}
	root.Master = testMember(next, "queen")
	if _, err := s.Recover(t.Context(), channel.RecoverSpec{Root: root, Key: next, Recovery: testKey(t, "thief"), Now: start}); err == nil {
		t.Error("a root that no recovery key has signed is written")
	}
	_, err = s.Recover(t.Context(), channel.RecoverSpec{Root: root, Key: next, Recovery: recovery, Now: start})
	must1(t, err)
	if m, err := s.Master(t.Context()); err != nil || m.Name != "queen" {
		t.Errorf("the master is %s (%v)", m.Name, err)
	}
	s.wantState(t, id, ferry.StateOpen)
	if _, err := s.master.Issue(t.Context(), start, order("t-two")); err == nil {
		t.Error("the old master still gives orders")
	}
	w, err := s.Writer(next)
	must1(t, err)
	if _, err := w.Issue(t.Context(), start, order("t-three")); err != nil {
		t.Errorf("the next master's order: %v", err)
	}
}

// An archive says everything, and the same on every machine.
func TestArchive(t *testing.T) {
	s := newSite(t)
	s.finish(t, s.issue(t, order("t-one")), 0)
	s.issue(t, order("t-two"))
	whole, err := s.Verify(t.Context())
	must1(t, err)
	var a, b bytes.Buffer
	n, err := s.Archive(t.Context(), &a)
	must1(t, err)
	s.reopen(t)
	_, err = s.Archive(t.Context(), &b)
	must1(t, err)
	if n != whole.Records || !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Errorf("%d records of %d, and the same file again: %v", n, whole.Records, bytes.Equal(a.Bytes(), b.Bytes()))
	}
	got, err := channel.VerifyArchive(t.Context(), bytes.NewReader(a.Bytes()), s.ID(), judge)
	must1(t, err)
	if diff := cmp.Diff(whole, got); diff != "" {
		t.Errorf("verified (-store +archive):\n%s", diff)
	}
	wrong := s.ID()
	wrong[0] ^= 1
	if got, err := channel.VerifyArchive(t.Context(), bytes.NewReader(a.Bytes()), wrong, judge); err != nil || got.OK {
		t.Errorf("under another channel's id: %+v, %v", got, err)
	}
	bad := bytes.Replace(a.Bytes(), []byte("t-two"), []byte("t-too"), 1)
	if got, err := channel.VerifyArchive(t.Context(), bytes.NewReader(bad), s.ID(), judge); err != nil || got.OK {
		t.Errorf("with a changed record: %+v, %v", got, err)
	}
}

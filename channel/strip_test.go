package channel_test

import (
	"bytes"
	"fmt"
	"io/fs"
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

const secret = "hunter2-hunter2"

// leak issues an order with a secret, and a result with it by the worker.
func leak(t *testing.T, s *site, label string) (id, result ferry.RecordID) {
	t.Helper()
	o := order(label)
	o.Text = "use " + secret
	id = s.issue(t, o)
	_, begun, err := s.agent.Begin(t.Context(), start, channel.BeginSpec{Order: id, Attempt: 1, Start: ferry.Start{Engine: "codex", Sandbox: "none"}})
	must1(t, err)
	added, err := s.agent.Update(t.Context(), start, func(tx *channel.Tx) error {
		_, err := tx.Add(&ferry.Result{Order: id, Start: begun, Attempt: 1, Revision: 1, Answer: "I used " + secret})
		return err
	})
	must1(t, err)
	return id, added[0]
}

// clear writes the redaction of what leak wrote.
func clean(t *testing.T, s *site, ids ...ferry.RecordID) {
	t.Helper()
	bodies := map[ferry.RecordID]ferry.Body{}
	for _, id := range ids {
		rec, ok, err := s.Record(t.Context(), id)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		switch b := rec.Body.(type) {
		case *ferry.Order:
			o := *b
			o.Text = "use [redacted]"
			bodies[id] = &o
		case *ferry.Result:
			r := *b
			r.Answer = "I used [redacted]"
			bodies[id] = &r
		case *ferry.Note:
			bodies[id] = &ferry.Note{Kind: b.Kind, Text: "[redacted]"}
		default:
			t.Fatalf("%T", b)
		}
	}
	_, err := s.master.Redact(t.Context(), start, "a secret", bodies)
	must1(t, err)
}

// holders lists the files below directories that hold the secret.
func holders(t *testing.T, dirs ...string) []string {
	t.Helper()
	var out []string
	for _, dir := range dirs {
		must1(t, filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(name)
			if bytes.Contains(data, []byte(secret)) {
				out = append(out, name)
			}
			return err
		}))
	}
	return out
}

func wantGone(t *testing.T, when string, sites ...*site) {
	t.Helper()
	for _, s := range sites {
		if left := holders(t, s.cfg.State, s.cfg.Folder); len(left) > 0 {
			t.Errorf("%s: the secret is still in %v", when, left)
		}
	}
}

// sealAll packs what the writers of the site have, as after a week.
func (s *site) sealAll(t *testing.T, now time.Time) {
	t.Helper()
	for _, w := range []*channel.Writer{s.master, s.agent} {
		sealLoose(t, w, now)
	}
	s.refresh(t)
}

// After a redaction no file of any machine holds what was taken out: neither the store, nor the index, loose files, packs or
// relays. Everybody has the same state, and so has a machine that comes later, a verifier of the folder, and an archive.
func TestRedactedBytesGo(t *testing.T) {
	for _, packed := range []bool{false, true} {
		t.Run(fmt.Sprintf("packed=%v", packed), func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			id, result := leak(t, s, "first")
			if packed {
				s.sealAll(t, start.Add(8*day))
				s.sealAll(t, start.Add(40*day))
			}
			m := member(t, s, "moth")
			off := machine(t, s, channel.Limits{})
			must1(t, off.Close())
			relayer(t, s, m)
			if len(holders(t, s.cfg.State)) == 0 || len(holders(t, filepath.Join(m.cfg.Folder, "w", string(m.agent.ID()), "r"))) == 0 {
				t.Fatal("nothing leaked")
			}
			clean(t, s, id, result)
			s.refresh(t)
			s.sealAll(t, start.Add(41*day))
			for range 3 {
				bring(t, filepath.Join(s.cfg.Folder, "w", string(s.master.ID())), filepath.Join(m.cfg.Folder, "w", string(s.master.ID())))
				m.refresh(t)
			}
			wantGone(t, "the master's machine", s)
			if left := holders(t, m.cfg.State, filepath.Join(m.cfg.Folder, "w", string(m.agent.ID()))); len(left) > 0 {
				t.Errorf("the member's machine: the secret is still in %v", left)
			}
			want := digestOf(t, s)
			if !want.OK {
				t.Errorf("the master's machine: %+v", want.Problems)
			}
			for _, lost := range []string{"", "index.db"} {
				if lost != "" {
					must1(t, os.Remove(filepath.Join(s.cfg.State, lost)))
				}
				s.reopen(t)
				if got := digestOf(t, s); !got.OK || got.Digest != want.Digest {
					t.Errorf("without %q after a restart: %+v", lost, got.Problems)
				}
				wantGone(t, "after a restart", s)
			}
			if got := s.task(t, id); got.Order.Text != "use [redacted]" || got.Results[0].Result.Answer != "I used [redacted]" || got.State != ferry.StateDone {
				t.Errorf("the order reads %q, %q, %s", got.Order.Text, got.Results[0].Result.Answer, got.State)
			}
			late := machine(t, s, channel.Limits{})
			if got := digestOf(t, late); !got.OK || got.Digest != want.Digest || got.Records != want.Records {
				t.Errorf("a machine that came later: %d records, %+v", got.Records, got.Problems)
			}
			back, err := channel.Open(t.Context(), off.cfg, s.ID())
			must1(t, err)
			off.Channel = back
			carry(t, s.cfg.Folder, off.cfg.Folder)
			off.refresh(t)
			if got := digestOf(t, off); !got.OK || got.Digest != want.Digest {
				t.Errorf("a machine that was off: %+v", got.Problems)
			}
			wantGone(t, "afterwards", late, off)
			if v, err := channel.VerifyDir(t.Context(), s.cfg.Folder, s.ID(), judge); err != nil || !v.OK || v.Digest != want.Digest {
				t.Errorf("the folder alone: %+v, %v", v.Problems, err)
			}
			var archive bytes.Buffer
			if _, err := s.Archive(t.Context(), &archive); err != nil || bytes.Contains(archive.Bytes(), []byte(secret)) {
				t.Errorf("the archive holds the secret (%v)", err)
			}
			if v, err := channel.VerifyArchive(t.Context(), &archive, s.ID(), judge); err != nil || !v.OK || v.Digest != want.Digest {
				t.Errorf("the archive: %+v, %v", v.Problems, err)
			}
		})
	}
}

// relayer makes a member relay the files of the site's writers.
func relayer(t *testing.T, s, m *site) {
	t.Helper()
	m.refresh(t)
	move := clockOf(m)
	for _, w := range []ferry.WriterID{s.master.ID(), s.agent.ID()} {
		must1(t, os.RemoveAll(filepath.Join(m.cfg.Folder, "w", string(w))))
	}
	m.refresh(t)
	move(time.Hour)
	if r := m.refresh(t); r.Relayed == 0 {
		t.Fatalf("nothing is relayed: %+v", r)
	}
}

// bareFile gives the bare form of a record file.
func bareFile(t *testing.T, file []byte) []byte {
	t.Helper()
	u, err := sign.ParseHeader(file)
	must1(t, err)
	return append(bytes.Clone(u.Top()), '\n')
}

// Whoever strips bodies off delays the records, and takes nothing away: they come in when the whole files are there, and a
// statement without its body never does.
func TestStrippedBodies(t *testing.T) {
	s := newSite(t)
	id := s.issue(t, order("first"))
	s.finish(t, id, 0)
	_, err := s.master.Admit(t.Context(), start, testMember(testKey(t, "lynx"), "lynx"))
	must1(t, err)
	_, err = s.master.Note(t.Context(), start, ferry.Note{Kind: "x", Text: "after"})
	must1(t, err)
	m := machine(t, s, channel.Limits{})
	digest := digestOf(t, m).Digest
	late := &site{cfg: channel.Config{Folder: filepath.Join(t.TempDir(), "folder"), State: filepath.Join(t.TempDir(), "state"), Judge: judge}}
	carry(t, s.cfg.Folder, late.cfg.Folder)
	refused := 0
	for _, name := range glob(t, late.cfg.Folder, "w", "*", "t", "*.fr") {
		data, err := os.ReadFile(name)
		must1(t, err)
		if u, err := sign.ParseHeader(data); err == nil && u.Header().Type != "root" {
			must1(t, os.WriteFile(name, bareFile(t, data), 0o644))
		}
	}
	c, err := channel.Open(t.Context(), late.cfg, s.ID())
	must1(t, err)
	late.Channel = c
	t.Cleanup(func() { must1(t, late.Close()) })
	for range 3 {
		for _, r := range late.refresh(t).Rejected {
			if strings.Contains(r.Reason, "without its body") {
				refused++
			}
		}
	}
	if v := digestOf(t, late); refused != 2 || v.Records != 1 {
		t.Errorf("%d statements without a body are refused, want 2; %d records are taken in, want 1", refused, v.Records)
	}
	bring(t, s.cfg.Folder, late.cfg.Folder)
	for range 2 {
		late.refresh(t)
	}
	if v := digestOf(t, late); !v.OK || v.Digest != digest {
		t.Errorf("with the whole files: %+v", v.Problems)
	}
	for name, bare := range map[string]bool{"bare": true, "whole": false} {
		r := channel.NewReplica(channel.ReplicaSpec{ID: s.ID(), Judge: judge})
		must1(t, s.Raw(t.Context(), func(file []byte) error {
			if bare {
				r.Add(bareFile(t, file))
			}
			r.Add(bytes.Clone(file))
			return nil
		}))
		if got, _ := r.Digest(); got != digest {
			t.Errorf("%s: the digest of a replica is %s, want %s", name, got, digest)
		}
	}
}

// What a crash leaves of a body that was half overwritten is overwritten again by the next process, in the store and from there
// in an index that is built anew.
func TestTornPunch(t *testing.T) {
	s := newSite(t)
	id, result := leak(t, s, "first")
	clean(t, s, id, result)
	want := s.task(t, id)
	must1(t, s.Close())
	killedAt(t, s, "strip", "noted")
	log := filepath.Join(s.cfg.State, "store.log")
	data, err := os.ReadFile(log)
	must1(t, err)
	at := bytes.Index(data, []byte(secret))
	copy(data[at-4:at+8], make([]byte, 12))
	must1(t, os.WriteFile(log, data, 0o600))
	must1(t, os.Remove(filepath.Join(s.cfg.State, "index.db")))
	c, err := channel.Open(t.Context(), s.cfg, s.ID())
	must1(t, err)
	s.Channel = c
	s.reopen(t)
	s.refresh(t)
	s.refresh(t)
	wantGone(t, "after a torn write", s)
	if diff := cmp.Diff(want, s.task(t, id)); diff != "" {
		t.Errorf("the order (-want +got):\n%s", diff)
	}
	wantIntact(t, s)
	if left := glob(t, s.cfg.State, "store.punch"); len(left) > 0 {
		t.Error("the file that says what is punched is still there")
	}
}

// A bare record whose redaction ceases to count has no effect; the whole one takes its place where a file of it turns up, and
// has its effect again.
func TestWholeForBare(t *testing.T) {
	for _, packed := range []bool{false, true} {
		t.Run(fmt.Sprintf("packed=%v", packed), func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			text := order("first")
			text.Text = "use " + secret
			writer := testKey(t, "moth")
			_, err := s.master.Admit(t.Context(), start, testMember(writer, "moth", ferry.GrantOrder))
			must1(t, err)
			moth := s.writer(t, "moth")
			id, err := moth.Issue(t.Context(), start, text)
			must1(t, err)
			if packed {
				notes(t, moth, 3, start)
				sealLoose(t, moth, start.Add(8*day))
				sealLoose(t, moth, start.Add(40*day))
			}
			before := filepath.Join(t.TempDir(), "before")
			must1(t, os.CopyFS(before, os.DirFS(s.cfg.Folder)))
			// Two machines write under the master's key: one redacts, the other says something else with the same number.
			twin := filepath.Join(t.TempDir(), "twin")
			must1(t, os.CopyFS(twin, os.DirFS(s.cfg.State)))
			other := &site{cfg: channel.Config{Folder: filepath.Join(t.TempDir(), "folder"), State: twin, Judge: judge}}
			must1(t, os.CopyFS(other.cfg.Folder, os.DirFS(s.cfg.Folder)))
			c, err := channel.Open(t.Context(), other.cfg, s.ID())
			must1(t, err)
			other.Channel = c
			t.Cleanup(func() { must1(t, other.Close()) })
			other.master = other.writer(t, "master")
			clean(t, s, id)
			s.refresh(t)
			sealLoose(t, moth, start.Add(41*day))
			s.refresh(t)
			wantGone(t, "after the redaction", s)
			_, err = other.master.Note(t.Context(), start, ferry.Note{Kind: "x", Text: "the same number"})
			must1(t, err)
			late := machine(t, s, channel.Limits{})
			bring(t, filepath.Join(other.cfg.Folder, "w", string(s.master.ID())), filepath.Join(late.cfg.Folder, "w", string(s.master.ID())))
			for range 2 {
				late.refresh(t)
			}
			if all, err := late.Tasks(t.Context(), channel.Filter{}); err != nil || len(all) != 0 {
				t.Fatalf("%d orders with a redaction that is forked off, %v", len(all), err)
			}
			bring(t, filepath.Join(before, "w", string(moth.ID())), filepath.Join(late.cfg.Folder, "w", string(moth.ID())))
			touch(t, filepath.Join(late.cfg.Folder, "w", string(moth.ID()), "t"))
			for range 2 {
				late.refresh(t)
			}
			for _, lost := range []string{"", "index.db"} {
				if lost != "" {
					must1(t, late.Close())
					must1(t, os.Remove(filepath.Join(late.cfg.State, lost)))
					c, err := channel.Open(t.Context(), late.cfg, s.ID())
					must1(t, err)
					late.Channel = c
					late.refresh(t)
				}
				if got := late.task(t, id); got.State != ferry.StateOpen || got.Order.Text != text.Text {
					t.Errorf("without %q: the order is %s, %q", lost, got.State, got.Order.Text)
				}
				for _, p := range digestOf(t, late).Problems {
					if p.Kind == channel.ProblemIndex || p.Kind == channel.ProblemStore {
						t.Errorf("without %q: %+v", lost, p)
					}
				}
			}
		})
	}
}

// A kill at any step of taking bodies out leaves a store from which everything follows, and the next process goes on.
func TestKilledWhileStripping(t *testing.T) {
	for _, step := range []string{"noted", "punched", "stripped", "copy", "scrubbed", "packed anew", "appended", "indexed", "old pack"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			id, result := leak(t, s, "first")
			other, also := leak(t, s, "second")
			before := s.task(t, id).State
			if step != "copy" { // packed records have no files of their own here
				s.sealAll(t, start.Add(8*day))
			}
			clean(t, s, id, result, other, also)
			must1(t, s.Close())
			killedAt(t, s, "strip", step)
			c, err := channel.Open(t.Context(), s.cfg, s.ID())
			must1(t, err)
			s.Channel = c
			s.reopen(t)
			if v := digestOf(t, s); !v.OK {
				t.Errorf("after the kill: %+v", v.Problems)
			}
			s.refresh(t)
			s.sealAll(t, start.Add(9*day))
			wantGone(t, "after the kill", s)
			if got := s.task(t, id); got.State != before || got.Order.Text != "use [redacted]" {
				t.Errorf("the order is %s, %q", got.State, got.Order.Text)
			}
			if got, want := digestOf(t, machine(t, s, channel.Limits{})), digestOf(t, s); !got.OK || got.Digest != want.Digest {
				t.Errorf("a fresh machine: %+v", got.Problems)
			}
			if packs := glob(t, s.cfg.Folder, "w", "*", "p", "*.fp"); len(packs) != 2 {
				t.Errorf("%d packs, want one for each writer", len(packs))
			}
		})
	}
}

package channel_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

// penOf continues the chain of a writer of a site, as the same key on another machine would.
func (s *site) penOf(t *testing.T, name string) *pen {
	t.Helper()
	p := &pen{key: testKey(t, name), channel: s.ID()}
	ledger, err := s.Ledger(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range ledger {
		if a, ok := e.Body.(*ferry.Admit); ok && a.Member.Key == p.key.Public().String() && p.seq == 0 {
			p.prev = e.ID
		}
		if e.Writer == ferry.WriterID(p.key.Public().WriterID()) {
			p.seq, p.prev = e.Seq, e.ID
		}
	}
	return p
}

// foreign admits a member that writes on another machine, and gives its pen.
func (s *site) foreign(t *testing.T, name string, grants ...ferry.Grant) *pen {
	t.Helper()
	key := testKey(t, name)
	in, err := s.master.Admit(t.Context(), start, testMember(key, name, grants...))
	must1(t, err)
	return &pen{key: key, channel: s.ID(), prev: in}
}

func (p *pen) id() ferry.WriterID { return ferry.WriterID(p.key.Public().WriterID()) }

func TestHostileFolder(t *testing.T) {
	s := newSite(t)
	id := s.issue(t, order("first"))
	p := s.foreign(t, "moth", ferry.GrantWork)
	dir := filepath.Join(s.cfg.Folder, "w", string(p.id()), "t")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	name := func(seq int, fill string) string {
		return fmt.Sprintf("0001-%010d-%s.fr", seq, strings.Repeat(fill, 32))
	}
	note := func(p *pen) []byte {
		return p.seal(t, sign.Header{Type: "note"}, []byte(`{"order":"","kind":"x","text":"y"}`)).data
	}
	good := note(p)
	flipped := bytes.Clone(good)
	flipped[len(flipped)-3] ^= 1
	foreign := *p
	foreign.channel[0] ^= 1
	ahead := *p
	ahead.seq, ahead.prev[0] = p.seq+7, ahead.prev[0]^1
	stranger := &pen{key: testKey(t, "stranger"), channel: s.ID(), prev: p.prev}
	plain := map[string][]byte{
		"0001-0000000001-" + strings.Repeat("0", 32) + ".sync-conflict-20261130-120000-ABCDEF7.fr": good,
		"notes.txt":   []byte("hello"),
		name(20, "a"): bytes.Repeat([]byte("x"), sign.MaxRecord+1),
		name(21, "b"): good[:len(good)-4],
		name(22, "c"): nil,
		name(23, "d"): flipped,
		name(24, "e"): note(&foreign),
		name(25, "f"): note(stranger),
		name(26, "0"): []byte("garbage\n"),
		name(27, "1"): note(&ahead),
	}
	for n, data := range plain {
		if err := os.WriteFile(filepath.Join(dir, n), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for n, target := range map[string]string{name(30, "2"): "/etc/passwd", name(31, "3"): "notes.txt"} {
		if err := os.Symlink(target, filepath.Join(dir, n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, name(32, "4")), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, name(33, "5")), 0o755); err != nil {
		t.Fatal(err)
	}
	unknown := toFile(t, note(stranger))
	deliver(t, s.cfg.Folder, unknown)
	for _, n := range []string{"UPPER", "ab\ncd"} {
		if err := os.MkdirAll(filepath.Join(s.cfg.Folder, "w", n), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r, err := s.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantRejected(t, r.Rejected, map[string]string{
		".sync-conflict-": "conflict copy", "notes.txt": "not the name of a record", name(20, "a"): "larger", name(21, "b"): "truncated",
		name(22, "c"): "truncated", name(23, "d"): "signature", name(24, "e"): "channel", name(25, "f"): "directory of another",
		name(26, "0"): "malformed", name(30, "2"): "symlink", name(31, "3"): "symlink", name(32, "4"): "special file",
		name(33, "5"): "special file", filepath.Dir(filepath.Dir(unknown.path)): "unknown writer", "UPPER": "not the name of a writer",
		"ab\ncd": "not the name of a writer",
	})
	if r.New != 0 || r.Parked != 1 {
		t.Errorf("new %d, parked %d, want 0 and 1", r.New, r.Parked)
	}
	snap, err := s.Snapshot(t.Context())
	if err != nil || len(snap.Rejected) != len(r.Rejected) {
		t.Errorf("the snapshot names %d rejected files (%v), the report %d", len(snap.Rejected), err, len(r.Rejected))
	}
	if again, err := s.Refresh(t.Context()); err != nil || len(again.Rejected) != 0 || again.Parked != 1 {
		t.Errorf("a second look reports %+v, %v", again, err)
	}
	s.finish(t, id, 0)
	s.wantState(t, id, ferry.StateDone)
	if v, err := s.Verify(t.Context()); err != nil || v.OK {
		t.Errorf("verify finds nothing wrong: %+v, %v", v, err)
	}
}

func wantRejected(t *testing.T, got []channel.Rejected, want map[string]string) {
	t.Helper()
	for name, reason := range want {
		if !slices.ContainsFunc(got, func(r channel.Rejected) bool {
			return strings.Contains(r.Name, name) && strings.Contains(r.Reason, reason)
		}) {
			t.Errorf("%q is not rejected with %q", name, reason)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d names are rejected, want %d:\n%+v", len(got), len(want), got)
	}
}

// What this version cannot read is kept in its chain and has no effect, and the ledger says why.
func TestWithoutEffect(t *testing.T) {
	s := newSite(t)
	id := s.issue(t, order("first"))
	later := s.issue(t, order("later"))
	p := s.foreign(t, "moth", ferry.GrantWork)
	bodies := []struct{ typ, body, why string }{
		{"weather", `{"order":"` + id.String() + `"}`, "does not know the type"},
		{"cancel", `{"order":"` + id.String() + `"}`, "grant dispatch"},
		{"claim", `{"order":"` + id.String() + `","attempt":1,"attempt":2}`, "twice"},
		{"claim", `not json`, "json"},
		{"claim", `{"attempt":1}`, "names no order"},
		{"note", `{"order":"","kind":"x","text":"y","later":"field"}`, ""},
	}
	for _, b := range bodies {
		f := p.seal(t, sign.Header{Type: b.typ}, []byte(b.body))
		p.seq, p.prev = p.seq+1, f.id
		deliver(t, s.cfg.Folder, f)
	}
	needy := p.seal(t, sign.Header{Type: "claim", Need: []string{"claim.9"}}, []byte(`{"order":"`+later.String()+`","attempt":{"n":1.5}}`))
	p.seq, p.prev = p.seq+1, needy.id
	deliver(t, s.cfg.Folder, needy)
	if r, err := s.Refresh(t.Context()); err != nil || r.New != len(bodies)+1 || len(r.Rejected) != 0 {
		t.Fatalf("refresh: %+v, %v", r, err)
	}
	s.wantState(t, id, ferry.StateOpen)
	ledger, err := s.Ledger(t.Context(), len(bodies)+1)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range ledger {
		why := "newer ferry"
		if i < len(bodies) {
			why = bodies[i].why
		}
		if e.Counted != (why == "") || !strings.Contains(e.Why, why) {
			t.Errorf("record %d (%s): counted %v, why %q, want %q", i, e.Type, e.Counted, e.Why, why)
		}
	}
	s.wantState(t, later, ferry.StateBlocked)
	deliver(t, s.cfg.Folder, p.write(t, &ferry.Claim{Order: id, Attempt: 1})) // the chain goes on behind them
	if _, err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wantState(t, id, ferry.StateClaimed)
	wantIntact(t, s)
}

// A genuine record under a name that is not its own is taken by its content, and named.
func TestWrongName(t *testing.T) {
	s := newSite(t)
	id := s.issue(t, order("first"))
	f := s.penOf(t, "master").write(t, &ferry.Cancel{Order: id})
	f.path = filepath.Join(filepath.Dir(f.path), "0001-0000000099-"+strings.Repeat("9", 32)+".fr")
	deliver(t, s.cfg.Folder, f)
	r, err := s.Refresh(t.Context())
	if err != nil || r.New != 1 {
		t.Errorf("refresh: %+v, %v", r, err)
	}
	wantRejected(t, r.Rejected, map[string]string{"0000000099": "not its own"})
	s.wantState(t, id, ferry.StateCancelled)
}

// Deleting, damaging or hiding files changes no state, and the own files come back.
func TestFolderComesBack(t *testing.T) {
	s := newSite(t)
	id := s.issue(t, order("first"))
	s.finish(t, id, 0)
	tests := map[string]func(t *testing.T, dir string, files []string){
		"one deleted": func(t *testing.T, dir string, files []string) { must1(t, os.Remove(files[0])) },
		"one cut":     func(t *testing.T, dir string, files []string) { must1(t, os.Truncate(files[0], 10)) },
		"one a symlink": func(t *testing.T, dir string, files []string) {
			must1(t, os.Remove(files[0]))
			must1(t, os.Symlink("/etc/passwd", files[0]))
		},
		"all deleted":        func(t *testing.T, dir string, _ []string) { must1(t, os.RemoveAll(dir)) },
		"the folder emptied": func(t *testing.T, _ string, _ []string) { must1(t, os.RemoveAll(filepath.Join(s.cfg.Folder, "w"))) },
	}
	for name, harm := range tests {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(s.cfg.Folder, "w", string(s.agent.ID()), "t")
			files, err := filepath.Glob(filepath.Join(dir, "*.fr"))
			if err != nil || len(files) == 0 {
				t.Fatal(files, err)
			}
			harm(t, dir, files)
			must1(t, os.MkdirAll(dir, 0o755))
			touch(t, dir)
			s.wantState(t, id, ferry.StateDone)
			r, err := s.Refresh(t.Context())
			if err != nil || r.Republished == 0 {
				t.Errorf("refresh: %+v, %v", r, err)
			}
			wantIntact(t, s)
		})
	}
}

// touch makes a change of a directory visible on filesystems with a coarse clock.
func touch(t *testing.T, dir string) {
	t.Helper()
	must1(t, os.Chtimes(dir, time.Time{}, time.Now().Add(-time.Hour)))
}

func must1(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFolderNotWritable(t *testing.T) {
	s := newSite(t)
	s.issue(t, order("before"))
	moved := s.cfg.Folder + "-away"
	must1(t, os.Rename(s.cfg.Folder, moved))
	id, err := s.master.Issue(t.Context(), start, order("meanwhile"))
	if !errors.Is(err, channel.ErrUnpublished) || id.IsZero() {
		t.Fatalf("issue without a folder: %v, %v", id, err)
	}
	s.wantState(t, id, ferry.StateOpen)
	if r, err := s.Refresh(t.Context()); err != nil || len(r.Rejected) == 1 && !strings.Contains(r.Rejected[0].Reason, "cannot be opened") {
		t.Errorf("refresh without a folder: %+v, %v", r, err)
	}
	must1(t, os.Rename(moved, s.cfg.Folder))
	if r, err := s.Refresh(t.Context()); err != nil || r.Republished != 1 {
		t.Errorf("refresh with the folder back: %+v, %v", r, err)
	}
	snap, err := s.Snapshot(t.Context())
	if err != nil || len(snap.Rejected) != 0 {
		t.Errorf("the snapshot still names %+v, %v", snap.Rejected, err)
	}
	wantIntact(t, s)
}

func TestFoundAndOpenRefuse(t *testing.T) {
	s := newSite(t)
	other := channel.Config{Folder: s.cfg.Folder, State: filepath.Join(t.TempDir(), "state"), Judge: judge}
	spec := channel.FoundSpec{Project: "demo", Master: ferry.Member{Name: "eve", Machine: "box"}, Key: testKey(t, "eve"), Now: start}
	if _, err := channel.Found(t.Context(), other, spec); !errors.Is(err, channel.ErrOtherChannel) || !strings.Contains(err.Error(), s.ID().String()) {
		t.Errorf("found in a folder that is taken: %v", err)
	}
	var wrong ferry.RecordID
	wrong[0] = 1
	if _, err := channel.Open(t.Context(), other, wrong); !errors.Is(err, channel.ErrOtherChannel) || !strings.Contains(err.Error(), s.ID().String()) {
		t.Errorf("open with another id: %v", err)
	}
	empty := other
	empty.Folder = t.TempDir()
	if _, err := channel.Open(t.Context(), empty, s.ID()); !errors.Is(err, channel.ErrNoRoot) {
		t.Errorf("open an empty folder: %v", err)
	}
	// A machine that has only the id and the folder gets everything.
	c, err := channel.Open(t.Context(), other, s.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	id := s.issue(t, order("first"))
	if _, err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Task(t.Context(), "first"); err != nil || got.ID != id {
		t.Errorf("the other machine has %v, %v", got.ID, err)
	}
	// Found again with the same key goes on with the same channel.
	again := spec
	again.Key, again.Master.Name = testKey(t, "master"), "esteban"
	d, err := channel.Found(t.Context(), s.cfg, again)
	if err != nil || d.ID() != s.ID() {
		t.Fatalf("found again: %v", err)
	}
	must1(t, d.Close())
}

func TestFindOrders(t *testing.T) {
	s := newSite(t)
	var ids []ferry.RecordID
	for i := range 20 {
		ids = append(ids, s.issue(t, order(fmt.Sprintf("t-%d", i))))
	}
	for i, id := range ids {
		for _, ref := range []string{fmt.Sprintf("t-%d", i), id.String()[:12], id.String()} {
			if got, err := s.Task(t.Context(), ref); err != nil || got.ID != id {
				t.Errorf("Task(%q) = %s, %v, want %s", ref, got.ID.Short(), err, id.Short())
			}
		}
	}
	for _, ref := range []string{"", "t-", ids[0].String()[:3], strings.ToUpper(ids[0].String()), "../x", strings.Repeat("a", 70)} {
		if _, err := s.Task(t.Context(), ref); !errors.Is(err, channel.ErrNoOrder) {
			t.Errorf("Task(%q): %v, want ErrNoOrder", ref, err)
		}
	}
	// The same label from two machines that had not heard of each other is told apart by id.
	p := s.penOf(t, "master")
	o := order("t-3")
	twin := p.write(t, &o)
	deliver(t, s.cfg.Folder, twin)
	if _, err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Task(t.Context(), "t-3"); !errors.Is(err, channel.ErrAmbiguous) || !strings.Contains(err.Error(), twin.id.String()[:12]) {
		t.Errorf("Task(twice) = %v", err)
	}
	if got, err := s.Tasks(t.Context(), channel.Filter{States: []ferry.State{ferry.StateOpen}, Limit: 5}); err != nil || len(got) != 5 {
		t.Errorf("Tasks(limit 5) = %d, %v", len(got), err)
	}
}

func TestQuestions(t *testing.T) {
	s := newSite(t)
	ctx := t.Context()
	id := s.issue(t, order("first"))
	ask := ferry.Question{Order: id, Key: "target", Text: "which branch?", Options: []ferry.Option{{Name: "main", Text: "main"}, {Name: "dev", Text: "dev"}}}
	q, err := s.agent.Ask(ctx, start, ask)
	must1(t, err)
	if again, err := s.agent.Ask(ctx, start, ask); err != nil || again != q {
		t.Errorf("asked again: %s, %v, want %s", again.Short(), err, q.Short())
	}
	open, err := s.Questions(ctx)
	if err != nil || len(open) != 1 || open[0].ID != q || open[0].Task.ID != id {
		t.Errorf("questions: %+v, %v", open, err)
	}
	if _, err := s.master.Answer(ctx, start, ferry.Answer{Order: id, Question: q, Option: "other"}); err == nil || !strings.Contains(err.Error(), "main") {
		t.Errorf("an answer that is not offered: %v", err)
	}
	_, err = s.master.Answer(ctx, start, ferry.Answer{Order: id, Question: q, Option: "dev"})
	must1(t, err)
	if open, err := s.Questions(ctx); err != nil || len(open) != 0 {
		t.Errorf("questions after the answer: %+v, %v", open, err)
	}
	if _, err := s.master.Answer(ctx, start, ferry.Answer{Order: id, Question: q, Option: "dev"}); err == nil {
		t.Error("answered twice")
	}
}

// One write sees what it added itself.
func TestUpdateSeesItself(t *testing.T) {
	s := newSite(t)
	boom := errors.New("changed my mind")
	_, err := s.master.Update(t.Context(), start, func(tx *channel.Tx) error {
		a := order("a")
		id, err := tx.Add(&a)
		if err != nil {
			return err
		}
		b := order("b", id)
		if _, err := tx.Add(&b); err != nil {
			return err
		}
		got, err := tx.Find("b")
		if err != nil || got.State != ferry.StateBlocked {
			t.Errorf("b is %s, %v", got.State, err)
		}
		if _, err := tx.Add(&ferry.Cancel{Order: id}); err != nil {
			return err
		}
		if got, err := tx.Find(id.String()[:10]); err != nil || got.State != ferry.StateCancelled {
			t.Errorf("a is %s, %v", got.State, err)
		}
		if got, err := tx.Find("b"); err != nil || !strings.Contains(got.Hold, "cancelled") {
			t.Errorf("b is %s: %s, %v", got.State, got.Hold, err)
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatal(err)
	}
	if all, err := s.Tasks(t.Context(), channel.Filter{}); err != nil || len(all) != 0 {
		t.Errorf("an update that was given up left %d orders (%v)", len(all), err)
	}
	wantIntact(t, s)
}

func TestWatch(t *testing.T) {
	s := newSite(t)
	wake, err := s.Watch(t.Context())
	must1(t, err)
	wait := func(what string) {
		t.Helper()
		select {
		case _, ok := <-wake:
			if !ok {
				t.Fatalf("%s: the channel is closed", what)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: no wake-up", what)
		}
	}
	s.issue(t, order("first"))
	wait("an own write")
	newcomer := testKey(t, "newcomer")
	in, err := s.master.Admit(t.Context(), start, testMember(newcomer, "newcomer", ferry.GrantWork))
	must1(t, err)
	p := &pen{key: newcomer, channel: s.ID(), prev: in}
	deliver(t, s.cfg.Folder, p.write(t, &ferry.Note{Kind: "x", Text: "hello"}))
	for { // wake-ups of the admission come first
		wait("a writer that was not there before")
		if r, err := s.Refresh(t.Context()); err != nil || r.New > 0 {
			must1(t, err)
			break
		}
	}
}

package channel_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

// A writer that sends too much in a day is read on the next; the others are not held up, and packs do not count.
func TestQuota(t *testing.T) {
	s := newSite(t)
	m := machine(t, s, channel.Limits{Records: 10})
	clockOf(m)
	notes(t, s.agent, 25, start)
	bring(t, s.cfg.Folder, m.cfg.Folder)
	name := "w/" + string(s.agent.ID()) + "/t"
	r := m.refresh(t)
	wantRejected(t, r.Rejected, map[string]string{name: "10 records"})
	if r.New != 10 {
		t.Errorf("on the first day: %+v", r)
	}
	id := s.issue(t, order("first"))
	bring(t, s.cfg.Folder, m.cfg.Folder)
	if r := m.refresh(t); r.New != 1 || len(r.Rejected) != 0 {
		t.Errorf("another writer on that day: %+v", r)
	}
	m.wantState(t, id, ferry.StateOpen)
	must1(t, m.Close())
	c, err := channel.Open(t.Context(), m.cfg, s.ID())
	must1(t, err)
	m.Channel = c
	if r := m.refresh(t); r.New != 0 {
		t.Errorf("in another process on that day: %+v", r)
	}
	clockOf(m)(24 * time.Hour)
	if r := m.refresh(t); r.New != 10 {
		t.Errorf("on the second day: %+v", r)
	}
	sealLoose(t, s.agent, start.Add(8*day))
	bring(t, s.cfg.Folder, m.cfg.Folder)
	if r := m.refresh(t); r.New != 5 {
		t.Errorf("what came in a pack: %+v, want the other 5", r)
	}
}

// Without room those who govern are read, so that a member can be shut out, and the others when there is room.
func TestNoRoom(t *testing.T) {
	s := newSite(t)
	for what, tt := range map[string]struct {
		limits channel.Limits
		why    string
	}{
		"the folder is too large": {channel.Limits{FolderBytes: 1}, "more than the limit of 0 MiB"},
		"the disk is full":        {channel.Limits{FreePercent: 101, FreeBytes: 1 << 62}, "disk"},
	} {
		m := machine(t, s, channel.Limits{})
		notes(t, s.agent, 10, start)
		_, err := s.agent.Update(t.Context(), start, func(tx *channel.Tx) error {
			for range 20 {
				if _, err := tx.Add(&ferry.Note{Kind: "x", Text: strings.Repeat("x", 60<<10)}); err != nil {
					return err
				}
			}
			return nil
		})
		must1(t, err)
		if tt.limits.FolderBytes > 0 { // it is known after a look
			bring(t, s.cfg.Folder, m.cfg.Folder)
			m.refresh(t)
		}
		must1(t, m.Close())
		m.cfg.Limits = tt.limits
		c, err := channel.Open(t.Context(), m.cfg, s.ID())
		must1(t, err)
		m.Channel = c
		id := s.issue(t, order(strings.ReplaceAll(what, " ", "-")))
		notes(t, s.agent, 1, start)
		bring(t, s.cfg.Folder, m.cfg.Folder)
		r := m.refresh(t)
		want := map[string]string{".": tt.why}
		if tt.limits.FolderBytes > 0 {
			want["w/"+string(s.agent.ID())+"/t"] = "waits: "
		}
		wantRejected(t, r.Rejected, want)
		if r.New != 1 {
			t.Errorf("%s: %+v, want the order and not the note", what, r)
		}
		m.wantState(t, id, ferry.StateOpen)
		must1(t, m.Close())
		m.cfg.Limits = channel.Limits{}
		if m.Channel, err = channel.Open(t.Context(), m.cfg, s.ID()); err != nil {
			t.Fatal(err)
		}
		if r := m.refresh(t); r.New == 0 {
			t.Errorf("%s: the note is not taken in afterwards: %+v", what, r)
		}
		if r := m.refresh(t); len(r.Rejected) != 0 {
			t.Errorf("%s, afterwards: %+v", what, r)
		}
	}
}

// Files with good names that are too large for what they call themselves are named, and neither use up the room of the
// folder nor are opened: whoever put them there is shut out all the same.
func TestFilesLargerThanTheFolder(t *testing.T) {
	s := newSite(t)
	m := machine(t, s, channel.Limits{})
	agent := "w/" + string(s.agent.ID())
	master := "w/" + string(s.master.ID())
	names := []string{
		agent + "/t/0001-0000009000-" + hex32 + ".fr", agent + "/p/0001-0000009001-0000009002-" + hex32 + ".fp",
		master + "/t/0001-0000009000-" + hex32 + ".fr", agent + "/beat",
	}
	want := map[string]string{}
	for _, name := range names {
		sparse(t, filepath.Join(m.cfg.Folder, name), 6<<30)
		want[name] = "larger than"
	}
	wantRejected(t, m.refresh(t).Rejected, want)
	s.rule(t, &ferry.Revoke{Writer: s.agent.ID(), Reason: "it fills the folder"})
	bring(t, filepath.Join(s.cfg.Folder, master), filepath.Join(m.cfg.Folder, master))
	if r := m.refresh(t); r.New != 1 || len(r.Rejected) != 0 {
		t.Errorf("the revocation: %+v", r)
	}
	members, err := m.Members(t.Context())
	must1(t, err)
	if slices.ContainsFunc(members, func(m ferry.Member) bool { return m.Writer == s.agent.ID() }) {
		t.Error("the member is not shut out")
	}
	v, err := m.Verify(t.Context())
	must1(t, err)
	for _, name := range names[:3] {
		if !slices.ContainsFunc(v.Problems, func(p channel.Problem) bool {
			return p.Kind == channel.ProblemFile && strings.HasPrefix(p.Detail, name+": ") && strings.Contains(p.Detail, "larger than")
		}) {
			t.Errorf("verify does not name %s: %+v", name, v.Problems)
		}
	}
}

func sparse(t *testing.T, name string, size int64) {
	t.Helper()
	must1(t, os.MkdirAll(filepath.Dir(name), 0o755))
	f, err := os.Create(name)
	must1(t, err)
	must1(t, errors.Join(f.Truncate(size), f.Close()))
}

// A member that uses up the room of the folder waits; the master and the members that hold little do not.
func TestBiggestWriterWaits(t *testing.T) {
	s := newSite(t)
	m := machine(t, s, channel.Limits{FolderBytes: 1 << 20})
	big := func(n int) {
		_, err := s.agent.Update(t.Context(), start, func(tx *channel.Tx) error {
			for range n {
				if _, err := tx.Add(&ferry.Note{Kind: "x", Text: strings.Repeat("x", 60<<10)}); err != nil {
					return err
				}
			}
			return nil
		})
		must1(t, err)
	}
	big(30)
	bring(t, s.cfg.Folder, m.cfg.Folder)
	r := m.refresh(t)
	if r.New < 17 || r.New > 18 {
		t.Errorf("%d records of 60 KiB came in, want as many as the limit of 1 MiB holds and one more", r.New)
	}
	wantRejected(t, r.Rejected, map[string]string{"w/" + string(s.agent.ID()) + "/t": "waits: 1 MiB"})
	other := s.foreign(t, "other", ferry.GrantWork)
	id := s.issue(t, order("first"))
	bring(t, s.cfg.Folder, m.cfg.Folder)
	deliver(t, m.cfg.Folder, other.seal(t, sign.Header{Type: "note"}, []byte(`{"order":"","kind":"x","text":"y"}`)))
	r = m.refresh(t)
	wantRejected(t, r.Rejected, map[string]string{".": "more than the limit of 1 MiB"})
	if r.New != 3 {
		t.Errorf("%+v, want the admission, the order and the note of another member", r)
	}
	m.wantState(t, id, ferry.StateOpen)
	s.rule(t, &ferry.Revoke{Writer: s.agent.ID(), Reason: "it fills the folder"})
	bring(t, s.cfg.Folder, m.cfg.Folder)
	if r := m.refresh(t); r.New != 1 {
		t.Errorf("the revocation: %+v", r)
	}
}

// Nothing that anybody can put into the folder stops a pass, changes a state or is opened twice.
func TestNothingStopsAPass(t *testing.T) {
	s := newSite(t)
	id := s.issue(t, order("first"))
	s.finish(t, id, 0)
	m := machine(t, s, channel.Limits{})
	want := digestOf(t, m).Digest
	before := heap()
	junk := flood(t, s, m.cfg.Folder)
	var opened map[string]int
	m.Opened(func(name string) { opened[name]++ })
	total := map[string]int{}
	passes := 0
	for ; passes < 10; passes++ {
		opened = map[string]int{}
		m.refresh(t)
		for name, n := range opened {
			total[name] += n
		}
		if len(opened) == 0 {
			break
		}
		if len(opened) > 2*4096+64+3 {
			t.Errorf("pass %d opens %d files", passes, len(opened))
		}
	}
	if len(total) > junk.records+64*passes || len(total) < junk.records {
		t.Errorf("%d files were opened in %d passes, of %d that may be records", len(total), passes, junk.records)
	}
	for name, n := range total {
		if n != 1 {
			t.Fatalf("%s was opened %d times", name, n)
		}
	}
	if after := heap(); after > before+64<<20 {
		t.Errorf("the passes keep %d MiB", (after-before)>>20)
	}
	if got := digestOf(t, m); got.Digest != want {
		t.Error("the state is another one")
	}
	second := s.issue(t, order("second"))
	bring(t, filepath.Join(s.cfg.Folder, "w", string(s.master.ID())), filepath.Join(m.cfg.Folder, "w", string(s.master.ID())))
	m.refresh(t)
	m.wantState(t, second, ferry.StateOpen)
	snap, err := m.Snapshot(t.Context())
	must1(t, err)
	if len(snap.Rejected) > 66*8 {
		t.Errorf("%d names are kept as rejected", len(snap.Rejected))
	}
}

// heap gives the bytes that are in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// junkCount says what flood made.
type junkCount struct {
	records int // files whose names are those of records of a member
}

// flood fills a folder with what is no record: in the directories of a member, of strangers and beside them.
func flood(t *testing.T, s *site, folder string) junkCount {
	t.Helper()
	agent := filepath.Join(folder, "w", string(s.agent.ID()))
	p := s.penOf(t, "agent")
	good := p.seal(t, sign.Header{Type: "note"}, []byte(`{"order":"","kind":"x","text":"y"}`)).data
	stranger := &pen{key: testKey(t, "stranger"), channel: s.ID(), prev: p.prev}
	foreign := stranger.seal(t, sign.Header{Type: "note"}, []byte(`{}`)).data
	forged := bytes.Clone(good)
	forged[len(forged)-2] ^= 1
	fill := [][]byte{nil, []byte("x"), forged, foreign, good[:len(good)/2], bytes.Repeat([]byte("{"), 1000), []byte("ferry-record 1\n")}
	var count junkCount
	for i := range 6000 {
		name := filepath.Join(agent, "t", fmt.Sprintf("0001-%010d-%032x.fr", 100+i%2000, i))
		must1(t, os.WriteFile(name, fill[i%len(fill)], 0o644))
		count.records++
	}
	names := []string{"aux", "a b", "-rf", "ab\ncd", "x\x1b[2J", strings.Repeat("n", 255), "beat", "w", "UPPER", "é", "e\u0301", "con.fr."}
	for i := range 3000 {
		name := filepath.Join(agent, "t", fmt.Sprintf("%.200s-%d", names[i%len(names)], i))
		must1(t, os.WriteFile(name, fill[i%len(fill)], 0o644))
	}
	deep := agent
	for range 60 {
		deep = filepath.Join(deep, "d")
	}
	must1(t, os.MkdirAll(deep, 0o755))
	for i, dir := range []string{"t", "p", "r"} {
		must1(t, os.MkdirAll(filepath.Join(agent, dir), 0o755))
		record := fmt.Sprintf("0001-%010d-%032x.fr", 9000+i, i)
		for name, make := range map[string]func(string) error{
			"0001-0000009100-" + hex32 + ".fr":            func(n string) error { return os.Symlink("/etc/passwd", n) },
			"0001-0000009101-" + hex32 + ".fr":            func(n string) error { return unix.Mkfifo(n, 0o644) },
			"0001-0000009102-" + hex32 + ".fr":            func(n string) error { return os.Mkdir(n, 0o755) },
			"0001-0000009103-" + hex32 + ".fr":            func(n string) error { return os.WriteFile(n, nil, 0) },
			"0001-0000009001-0000009002-" + hex32 + ".fp": func(n string) error { return os.Symlink(agent, n) },
			record: func(n string) error {
				f, err := os.Create(n)
				if err != nil {
					return err
				}
				defer f.Close()
				return f.Truncate(4 << 30) // sparse
			},
		} {
			must1(t, make(filepath.Join(agent, dir, name)))
			if dir == "t" && strings.HasSuffix(name, ".fr") && name != record { // that is refused by its size
				count.records++
			}
			if dir == "p" && strings.HasSuffix(name, ".fp") {
				count.records++
			}
		}
	}
	for i := range 500 {
		k := fmt.Sprintf("stranger %d", i)
		pen := &pen{key: testKey(t, k), channel: s.ID(), prev: p.prev}
		deliver(t, folder, pen.seal(t, sign.Header{Type: "note"}, []byte(`{}`)))
		deliver(t, folder, file{path: "w/" + strings.ToUpper(string(pen.key.Public().WriterID())) + "/t/x"})
		deliver(t, folder, file{path: fmt.Sprintf("%d.txt", i)})
	}
	deliver(t, folder, file{path: "w/" + strings.ToUpper(string(s.agent.ID())) + "/beat", data: good})
	return count
}

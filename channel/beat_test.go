package channel_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

func TestBeats(t *testing.T) {
	s := newSite(t)
	m := machine(t, s, channel.Limits{})
	agent := testKey(t, "agent")
	name := filepath.Join("w", string(s.agent.ID()), "beat")
	from, to := filepath.Join(s.cfg.Folder, name), filepath.Join(m.cfg.Folder, name)
	beat := ferry.Beat{Epoch: 1, Boot: 2, Counter: 7, Seq: 3, ID: s.ID(), Slots: 1, Saw: []ferry.Head{{Writer: s.master.ID(), Epoch: 1, Seq: 2, ID32: hex32}}}
	must1(t, s.PutBeat(agent, beat))
	send := func() {
		data, err := os.ReadFile(from)
		must1(t, err)
		must1(t, os.MkdirAll(filepath.Dir(to), 0o755))
		must1(t, os.WriteFile(to, data, 0o644))
	}
	want := func(what string, b ferry.Beat) {
		t.Helper()
		if r := m.refresh(t); len(r.Rejected) != 0 {
			t.Errorf("%s: %+v", what, r.Rejected)
		}
		if diff := cmp.Diff(map[ferry.WriterID]ferry.Beat{s.agent.ID(): b}, m.Beats()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	last := func(what string, at time.Time) {
		t.Helper()
		got, err := m.Traces(t.Context(), s.agent.ID(), 1)
		if must1(t, err); !got.Last.Equal(at) {
			t.Errorf("%s: the agent was there at %s, want %s", what, got.Last, at)
		}
	}
	send()
	written := start.Add(-time.Hour)
	must1(t, os.Chtimes(to, written, written))
	want("the first beat", beat)
	last("only a beat", written)
	reads := 0
	m.Opened(func(string) { reads++ })
	want("nothing new", beat)
	if reads != 0 {
		t.Errorf("%d files are opened while the beat is the same", reads)
	}
	old, err := os.ReadFile(to)
	must1(t, err)
	next := beat
	next.Boot, next.Counter, next.Paused = 3, 1, true
	must1(t, s.PutBeat(agent, next))
	send()
	written = start.Add(time.Hour)
	must1(t, os.Chtimes(to, written, written))
	want("a later boot", next)
	must1(t, os.WriteFile(to, old, 0o644))
	want("an old one put back", next)
	last("an old one put back", written)
	must1(t, os.Remove(to))
	want("a moment without", next)

	if err := s.PutBeat(testKey(t, "stranger"), beat); !errors.Is(err, channel.ErrNotMember) {
		t.Errorf("a beat of a stranger: %v", err)
	}
	beat.Lines = []string{strings.Repeat("x", 9<<10)}
	if err := s.PutBeat(agent, beat); err == nil || !strings.Contains(err.Error(), "8192") {
		t.Errorf("a beat that is too large: %v", err)
	}
}

// What is no beat of the writer is named and changes nothing.
func TestOddBeats(t *testing.T) {
	s := newSite(t)
	agent, stranger := testKey(t, "agent"), testKey(t, "stranger")
	dir := filepath.Join(s.cfg.Folder, "w", string(s.agent.ID()))
	name := filepath.Join(dir, "beat")
	note := func(k sign.Key, payloadType, body string) []byte {
		data, err := sign.SealNote(k, payloadType, []byte(body))
		must1(t, err)
		return data
	}
	body := func(channel, writer, rest string) string {
		return `{"channel":"` + channel + `","writer":"` + writer + `",` + rest + `}`
	}
	id, w := s.ID().String(), string(s.agent.ID())
	file := func(data []byte) func() error {
		return func() error { return os.WriteFile(name, data, 0o644) }
	}
	must1(t, os.MkdirAll(dir, 0o755))
	for what, tt := range map[string]struct {
		put func() error
		why string
	}{
		"empty":              {file(nil), "truncated"},
		"garbage":            {file([]byte("hello\n")), "malformed"},
		"too large":          {file(make([]byte, 9<<10)), "larger"},
		"of a stranger":      {file(note(stranger, sign.TypeBeat, body(id, w, `"epoch":1`))), "signature"},
		"a join request":     {file(note(agent, sign.TypeJoin, body(id, w, `"epoch":1`))), "not a beat"},
		"of another channel": {file(note(agent, sign.TypeBeat, body(strings.Repeat("0a", 32), w, `"epoch":1`))), "another channel"},
		"of another writer":  {file(note(agent, sign.TypeBeat, body(id, string(s.master.ID()), `"epoch":1`))), "another channel or writer"},
		"of a coming epoch":  {file(note(agent, sign.TypeBeat, body(id, w, `"epoch":2`))), "epoch 2"},
		"of epoch 0":         {file(note(agent, sign.TypeBeat, body(id, w, `"boot":2`))), "epoch 0"},
		"not JSON":           {file(note(agent, sign.TypeBeat, "x")), "json"},
		"a number twice":     {file(note(agent, sign.TypeBeat, body(id, w, `"epoch":1,"epoch":1`))), "twice"},
		"a symlink":          {func() error { return os.Symlink("/etc/passwd", name) }, "symlink"},
		"a directory":        {func() error { return os.Mkdir(name, 0o755) }, "special file"},
		"a pipe":             {func() error { return unix.Mkfifo(name, 0o644) }, "special file"},
	} {
		must1(t, os.RemoveAll(name))
		s.refresh(t)
		must1(t, tt.put())
		r := s.refresh(t)
		wantRejected(t, r.Rejected, map[string]string{"beat": tt.why})
		if r := s.refresh(t); len(r.Rejected) != 0 {
			t.Errorf("%s is reported twice: %+v", what, r.Rejected)
		}
		if len(s.Beats()) != 0 {
			t.Errorf("%s: %+v", what, s.Beats())
		}
	}
	must1(t, os.RemoveAll(name))
	must1(t, s.PutBeat(agent, ferry.Beat{Epoch: 1, Boot: 1, Counter: 1}))
	must1(t, os.WriteFile(filepath.Join(dir, "beat.sync-conflict-20261130-120000-ABCDEF7"), []byte("x"), 0o644))
	must1(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("x"), 0o644))
	wantRejected(t, s.refresh(t).Rejected, map[string]string{"beat.sync-conflict": "two machines", "notes.txt": "not a name of the format"})
	if len(s.Beats()) != 1 {
		t.Errorf("beats: %+v", s.Beats())
	}
	// A writer that has signed one number twice is not listened to.
	p := s.penOf(t, "agent")
	a := *p
	deliver(t, s.cfg.Folder, a.write(t, &ferry.Note{Kind: "x", Text: "one"}))
	deliver(t, s.cfg.Folder, p.write(t, &ferry.Note{Kind: "x", Text: "other"}))
	s.refresh(t)
	if len(s.Beats()) != 0 {
		t.Errorf("the beat of a forked writer: %+v", s.Beats())
	}
}

// Beats, packs, relays and requests to join wake a watcher, also in directories that are made meanwhile.
func TestWatchFolder(t *testing.T) {
	s := newSite(t)
	notes(t, s.agent, 1, start)
	wake, err := s.Watch(t.Context())
	must1(t, err)
	agent, master := string(s.agent.ID()), string(s.master.ID())
	for _, name := range []string{
		"w/" + agent + "/beat", "w/" + agent + "/p/x", "w/" + agent + "/r/" + master + "/t/x", "j/0123456789abcdef/x",
	} {
		// The directories on the way wake too, a few times at most; the file does at every write.
		for range 10 {
			deliver(t, s.cfg.Folder, file{path: name})
			select {
			case <-wake:
			case <-time.After(10 * time.Second):
				t.Fatalf("%s: no wake-up", name)
			}
		}
	}
}

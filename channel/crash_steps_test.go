package channel_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
)

// crashDoEnv names what a process does that kills itself at a step of it.
const crashDoEnv = "FERRY_TEST_CRASH_DO"

var crashWork = map[string]func(*channel.Channel) error{
	"refresh": func(c *channel.Channel) error {
		_, err := c.Refresh(context.Background())
		return err
	},
	"strip": func(c *channel.Channel) error {
		if _, err := c.Refresh(context.Background()); err != nil {
			return err
		}
		for _, name := range []string{"master", "agent"} {
			w, err := c.Writer(testKey(fatal{}, name))
			if err != nil {
				return err
			}
			if _, err := w.SealLoose(context.Background(), start.Add(9*day)); err != nil {
				return err
			}
		}
		return nil
	},
	"seal":   func(c *channel.Channel) error { return sealAs(c, start.Add(8*day)) },
	"remove": func(c *channel.Channel) error { return sealAs(c, start.Add(40*day)) },
	"relay": func(c *channel.Channel) error {
		now := time.Now()
		c.SetClock(func() time.Time { now = now.Add(time.Hour); return now })
		for range 3 {
			if _, err := c.Refresh(context.Background()); err != nil {
				return err
			}
		}
		return nil
	},
}

func sealAs(c *channel.Channel, now time.Time) error {
	w, err := c.Writer(testKey(fatal{}, "agent"))
	if err != nil {
		return err
	}
	_, err = w.SealLoose(context.Background(), now)
	return err
}

// killedAt runs something in a process that is killed at a step of it.
func killedAt(t *testing.T, s *site, do, step string) {
	t.Helper()
	err := helperCommand(t, s, crashEnv+"="+step, crashDoEnv+"="+do).Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the process ended with %v, want SIGKILL", err)
	}
}

func storeSize(t *testing.T, s *site) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(s.cfg.State, "store.log"))
	must1(t, err)
	return info.Size()
}

// A kill between any two steps of reading the folder, twice in a row, loses nothing, and nothing is taken twice: the store
// is as long as that of a machine that read in peace.
func TestKilledWhileIngesting(t *testing.T) {
	for _, step := range []string{"taken", "ingested", "listed"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			m, calm := machine(t, s, channel.Limits{}), machine(t, s, channel.Limits{})
			must1(t, m.Close())
			for round := range 2 {
				id := s.issue(t, order(fmt.Sprintf("o-%d", round)))
				s.finish(t, id, 0)
				for _, to := range []*site{m, calm} {
					bring(t, s.cfg.Folder, to.cfg.Folder)
					past(t, to.cfg.Folder)
				}
				killedAt(t, m, "refresh", step)
				calm.refresh(t)
			}
			c, err := channel.Open(t.Context(), m.cfg, s.ID())
			must1(t, err)
			m.Channel = c
			m.refresh(t)
			if r := m.refresh(t); r.New != 0 || len(r.Rejected) != 0 {
				t.Errorf("the pass after it: %+v", r)
			}
			want := digestOf(t, calm)
			if got := digestOf(t, m); !got.OK || got.Digest != want.Digest || got.Records != want.Records {
				t.Errorf("%d records, %+v, want %d", got.Records, got.Problems, want.Records)
			}
			if got, want := storeSize(t, m), storeSize(t, calm); got != want {
				t.Errorf("the store has %d bytes, want %d", got, want)
			}
		})
	}
}

// past makes the directories of a folder old, so that a pass can settle them.
func past(t *testing.T, folder string) {
	t.Helper()
	must1(t, filepath.WalkDir(folder, func(name string, e os.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		at := time.Now().Add(-time.Hour)
		return os.Chtimes(name, at, at)
	}))
}

// A batch that the kernel only wrote in part is cut off, and what was in it is read from the folder again.
func TestTornIngest(t *testing.T) {
	s := newSite(t)
	m := machine(t, s, channel.Limits{})
	before := storeSize(t, m)
	id := s.issue(t, order("first"))
	s.finish(t, id, 0)
	bring(t, s.cfg.Folder, m.cfg.Folder)
	must1(t, m.Close())
	killedAt(t, m, "refresh", "taken")
	log := filepath.Join(m.cfg.State, "store.log")
	whole, err := os.ReadFile(log)
	must1(t, err)
	index, err := os.ReadFile(filepath.Join(m.cfg.State, "index.db"))
	must1(t, err)
	want := digestOf(t, s)
	for _, n := range []int64{1, 5, 30, (int64(len(whole)) - before) / 2, int64(len(whole)) - before - 1} {
		must1(t, os.WriteFile(log, whole[:before+n], 0o600))
		must1(t, os.WriteFile(filepath.Join(m.cfg.State, "index.db"), index, 0o600))
		for range 2 {
			c, err := channel.Open(t.Context(), m.cfg, s.ID())
			must1(t, err)
			m.Channel = c
			m.refresh(t)
			if got := digestOf(t, m); !got.OK || got.Digest != want.Digest {
				t.Errorf("torn after %d bytes: %+v", n, got.Problems)
			}
			must1(t, m.Close())
		}
		if got, want := storeSize(t, m), storeSize(t, s); got != want {
			t.Errorf("torn after %d bytes: the store has %d, want %d", n, got, want)
		}
	}
	c, err := channel.Open(t.Context(), m.cfg, s.ID())
	must1(t, err)
	m.Channel = c
}

// A kill at any step of sealing, twice in a row, leaves loose files, a pack or both: everybody can read everything at any
// time, and the next call goes on.
func TestKilledWhileSealing(t *testing.T) {
	for _, tt := range []struct {
		do    string
		steps []string
	}{
		{"seal", []string{"packed", "pack", "verified", "signed", "appended", "indexed", "file", "published"}},
		{"remove", []string{"removed"}},
	} {
		for _, step := range tt.steps {
			t.Run(tt.do+"/"+step, func(t *testing.T) {
				t.Parallel()
				s := newSite(t)
				_, err := s.master.Admit(t.Context(), start, testMember(testKey(t, "lynx"), "lynx"))
				must1(t, err)
				notes(t, s.agent, 10, start)
				records := 13
				if tt.do == "remove" {
					sealLoose(t, s.agent, start.Add(8*day))
					records++
				}
				for range 2 {
					killedAt(t, s, tt.do, step)
					v, err := channel.VerifyDir(t.Context(), s.cfg.Folder, s.ID(), judge)
					if err != nil || !v.OK || v.Records < records {
						t.Fatalf("the folder after the kill: %d records, %+v, %v", v.Records, v.Problems, err)
					}
					if sealed := step == "appended" || step == "indexed" || step == "file" || step == "published"; sealed {
						break // the second call has nothing to seal
					}
				}
				s.reopen(t)
				sealLoose(t, s.agent, start.Add(8*day))
				if r := sealLoose(t, s.agent, start.Add(40*day)); tt.do == "seal" && r.Removed < 10 {
					t.Errorf("afterwards: %+v", r)
				}
				s.refresh(t)
				dir := filepath.Join(s.cfg.Folder, "w", string(s.agent.ID()))
				if packs, loose := glob(t, dir, "p", "*"), glob(t, dir, "t", "*.fr"); len(packs) != 1 || len(loose) != 1 {
					t.Errorf("%d packs and %d loose files, want one pack and its seal", len(packs), len(loose))
				}
				wantIntact(t, s)
				if got, want := digestOf(t, machine(t, s, channel.Limits{})), digestOf(t, s); got.Digest != want.Digest || !got.OK {
					t.Errorf("a fresh machine: %+v", got.Problems)
				}
			})
		}
	}
}

// A pack that stands half written under its name, as a carrier or a filesystem without links may leave it, is written whole;
// one that is damaged after its loose files went comes back from the store.
func TestDamagedPack(t *testing.T) {
	s := newSite(t)
	notes(t, s.agent, 10, start)
	must1(t, s.Close())
	killedAt(t, s, "seal", "pack")
	name := glob(t, s.cfg.Folder, "w", "*", "p", "*.fp")[0]
	whole, err := os.ReadFile(name)
	must1(t, err)
	must1(t, os.Truncate(name, 300))
	c, err := channel.Open(t.Context(), s.cfg, s.ID())
	must1(t, err)
	s.Channel = c
	s.reopen(t)
	if r := sealLoose(t, s.agent, start.Add(8*day)); r.Records != 10 {
		t.Errorf("over a pack that is half written: %+v", r)
	}
	sealLoose(t, s.agent, start.Add(40*day))
	for what, data := range map[string][]byte{"cut": whole[:len(whole)/2], "empty": nil, "a byte changed": flipped(whole, len(whole)/2)} {
		for range 2 {
			must1(t, os.WriteFile(name, data, 0o644))
			touch(t, filepath.Dir(name))
			s.reopen(t)
			s.refresh(t)
			s.refresh(t)
			if got, err := os.ReadFile(name); err != nil || string(got) != string(whole) {
				t.Errorf("%s: the pack is not back: %d bytes, %v", what, len(got), err)
			}
		}
	}
	wantIntact(t, s)
}

// A loose file of this machine that somebody changed comes back, in the process that wrote it and in another.
func TestChangedRecord(t *testing.T) {
	s := newSite(t)
	notes(t, s.agent, 3, start)
	name := glob(t, s.cfg.Folder, "w", string(s.agent.ID()), "t", "*.fr")[1]
	whole, err := os.ReadFile(name)
	must1(t, err)
	for range 2 {
		for what, data := range map[string][]byte{"cut": whole[:len(whole)/2], "empty": nil, "a byte changed": flipped(whole, len(whole)-3)} {
			must1(t, os.WriteFile(name, data, 0o644))
			touch(t, filepath.Dir(name))
			s.refresh(t)
			if got, err := os.ReadFile(name); err != nil || string(got) != string(whole) {
				t.Errorf("%s: the record is not back: %d bytes, %v", what, len(got), err)
			}
			if r := s.refresh(t); r.Republished != 0 {
				t.Errorf("%s: written again when it was back", what)
			}
		}
		s.reopen(t)
	}
	wantIntact(t, s)
}

func flipped(data []byte, at int) []byte {
	out := append([]byte{}, data...)
	out[at] ^= 1
	return out
}

// A member that is killed while it relays goes on at its next start, and nothing is written twice.
func TestKilledWhileRelaying(t *testing.T) {
	s := newSite(t)
	id := s.issue(t, order("first"))
	s.finish(t, id, 0)
	m := member(t, s, "moth")
	must1(t, m.Close())
	must1(t, os.RemoveAll(filepath.Join(m.cfg.Folder, "w", string(s.agent.ID()))))
	for range 2 {
		killedAt(t, m, "relay", "put")
	}
	dir := filepath.Join(m.cfg.Folder, "w", string(m.agent.ID()), "r", string(s.agent.ID()), "t")
	if n := len(glob(t, dir, "*.fr")); n != 2 {
		t.Errorf("%d files are relayed after two kills, want 2", n)
	}
	c, err := channel.Open(t.Context(), m.cfg, s.ID())
	must1(t, err)
	m.Channel = c
	move := clockOf(m)
	m.refresh(t)
	move(time.Hour)
	if r := m.refresh(t); r.Relayed != 2 {
		t.Errorf("the rest: %+v, want 2 relayed", r)
	}
	move(time.Hour)
	if r := m.refresh(t); r.Relayed != 0 || len(r.Rejected) != 0 {
		t.Errorf("afterwards: %+v", r)
	}
	machine(t, m, channel.Limits{}).wantState(t, id, ferry.StateDone)
}

// An old copy of the whole state directory signs no number twice, however often it is started; it says so, and goes on when
// the master has given it another key.
func TestBackupPutBack(t *testing.T) {
	s := newSite(t)
	m := member(t, s, "moth")
	backup := filepath.Join(t.TempDir(), "state")
	must1(t, m.Close())
	must1(t, os.CopyFS(backup, os.DirFS(m.cfg.State)))
	reopen := func() {
		c, err := channel.Open(t.Context(), m.cfg, s.ID())
		must1(t, err)
		m.Channel = c
		m.agent = m.writer(t, "moth")
	}
	reopen()
	notes(t, m.agent, 3, start)
	bring(t, m.cfg.Folder, s.cfg.Folder)
	s.refresh(t)
	must1(t, m.Close())
	must1(t, os.RemoveAll(m.cfg.State))
	must1(t, os.CopyFS(m.cfg.State, os.DirFS(backup)))
	for range 2 {
		reopen()
		for range 2 {
			_, err := m.agent.Note(t.Context(), start, ferry.Note{Kind: "x", Text: "again"})
			wantLost(t, err)
			_, err = m.agent.SealLoose(t.Context(), start.Add(8*day))
			wantLost(t, err)
		}
		must1(t, m.Close())
	}
	if n := len(glob(t, m.cfg.Folder, "w", string(m.agent.ID()), "t", "*.fr")); n != 4 {
		t.Errorf("%d files of the writer, want the 4 from before", n)
	}
	next := testKey(t, "moth again")
	last, err := s.Ledger(t.Context(), 1)
	must1(t, err)
	_, err = s.master.Update(t.Context(), start, func(tx *channel.Tx) error {
		_, err := tx.Add(&ferry.Readmit{
			Writer: m.agent.ID(), Epoch: 2, Key: next.Public().String(), Keep: ferry.Cut{Epoch: 1, Seq: 4, ID: last[0].ID},
		})
		return err
	})
	must1(t, err)
	bring(t, s.cfg.Folder, m.cfg.Folder)
	reopen()
	m.refresh(t)
	w, err := m.Writer(next)
	must1(t, err)
	notes(t, w, 2, start)
	bring(t, m.cfg.Folder, s.cfg.Folder)
	s.refresh(t)
	wantIntact(t, s)
	if got, want := digestOf(t, m), digestOf(t, s); got.Digest != want.Digest || !got.OK {
		t.Errorf("the machine: %+v", got.Problems)
	}
}

func wantLost(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, channel.ErrLost) || !strings.Contains(err.Error(), "ferry channel rejoin") {
		t.Errorf("a write from an old copy: %v", err)
	}
}

// A beat of which only a part has arrived is named, and what is known of its writer stands, also in the next process.
func TestTornBeat(t *testing.T) {
	s := newSite(t)
	m := machine(t, s, channel.Limits{})
	key := testKey(t, "agent")
	dir := filepath.Join("w", string(s.agent.ID()))
	must1(t, os.MkdirAll(filepath.Join(m.cfg.Folder, dir), 0o755))
	put := func(n int64, size int) {
		t.Helper()
		must1(t, s.PutBeat(key, ferry.Beat{Epoch: 1, Boot: 1, Counter: n}))
		data, err := os.ReadFile(filepath.Join(s.cfg.Folder, dir, "beat"))
		must1(t, err)
		if size < 0 {
			size += len(data) + 1
		}
		must1(t, os.WriteFile(filepath.Join(m.cfg.Folder, dir, "beat"), data[:size], 0o644))
	}
	put(1, -1)
	m.refresh(t)
	for i, size := range []int{0, 1, 40, 200, -2} {
		put(int64(i+2), size)
		m.refresh(t)
		if b := m.Beats()[s.agent.ID()]; b.Counter != 1 {
			t.Errorf("a beat cut to %d: the counter is %d, want 1", size, b.Counter)
		}
	}
	must1(t, m.Close())
	c, err := channel.Open(t.Context(), m.cfg, s.ID())
	must1(t, err)
	m.Channel = c
	m.refresh(t)
	if n := len(m.Beats()); n != 0 {
		t.Errorf("%d beats are known after a start with a torn one", n)
	}
	put(9, -1)
	m.refresh(t)
	if b := m.Beats()[s.agent.ID()]; b.Counter != 9 {
		t.Errorf("the counter is %d, want 9", b.Counter)
	}
}

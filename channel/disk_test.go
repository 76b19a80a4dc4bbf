//go:build linux

package channel_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
)

// smallDisk mounts a filesystem of 4 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,mode=0700"); err != nil {
		t.Skipf("mounting a small filesystem needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill takes all the space, and gives it back.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "filler")
	f, err := os.Create(name)
	must1(t, err)
	defer f.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
	return func() { must1(t, os.Remove(name)) }
}

// siteOn makes a site with its folder and its state in given places.
func siteOn(t *testing.T, folder, state string) *site {
	t.Helper()
	s := &site{cfg: channel.Config{Folder: folder, State: state, Judge: judge}}
	c, err := channel.Found(t.Context(), s.cfg, channel.FoundSpec{
		Project: "demo", Master: ferry.Member{Name: "esteban", Machine: "box"}, Key: testKey(t, "master"), Now: start,
	})
	must1(t, err)
	s.Channel = c
	t.Cleanup(func() { must1(t, c.Close()) })
	s.master = s.writer(t, "master")
	return s
}

func big(label string) ferry.Order {
	o := order(label)
	o.Text = strings.Repeat("x", 60<<10)
	return o
}

func TestStateDiskFull(t *testing.T) {
	disk := smallDisk(t)
	s := siteOn(t, filepath.Join(t.TempDir(), "folder"), filepath.Join(disk, "state"))
	s.issue(t, order("before"))
	free := fill(t, disk)
	// The pages that the files own already take some records yet.
	var err error
	for n := 0; err == nil && n < 200; n++ {
		_, err = s.master.Issue(t.Context(), start, big("big-"+strings.Repeat("x", n%50)+string(rune('a'+n/50))))
	}
	if err == nil {
		t.Fatal("a full disk takes everything")
	}
	free()
	id := s.issue(t, order("after"))
	s.wantState(t, id, ferry.StateOpen)
	wantIntact(t, s)
}

func TestFolderDiskFull(t *testing.T) {
	disk := smallDisk(t)
	s := siteOn(t, filepath.Join(disk, "folder"), filepath.Join(t.TempDir(), "state"))
	free := fill(t, disk)
	id, err := s.master.Issue(t.Context(), start, big("full"))
	if !errors.Is(err, channel.ErrUnpublished) || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("issue into a full folder: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(disk, "folder", "w", "*", "t", ".*")); err != nil || len(left) > 0 {
		t.Errorf("half written: %v, %v", left, err)
	}
	free()
	s.wantState(t, id, ferry.StateOpen)
	wantIntact(t, s)
}

func TestFolderReadOnly(t *testing.T) {
	disk := smallDisk(t)
	s := siteOn(t, filepath.Join(disk, "folder"), filepath.Join(t.TempDir(), "state"))
	must1(t, unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	id, err := s.master.Issue(t.Context(), start, order("first"))
	if !errors.Is(err, channel.ErrUnpublished) || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("issue into a read-only folder: %v", err)
	}
	must1(t, unix.Mount("", disk, "", unix.MS_REMOUNT, ""))
	s.wantState(t, id, ferry.StateOpen)
	wantIntact(t, s)
}

// A pack for which there is no room leaves no trace, in the folder or in the chain, and is written when there is.
func TestSealDiskFull(t *testing.T) {
	disk := smallDisk(t)
	s := siteOn(t, filepath.Join(disk, "folder"), filepath.Join(t.TempDir(), "state"))
	_, err := s.master.Update(t.Context(), start, func(tx *channel.Tx) error {
		for range 10 {
			if _, err := tx.Add(&ferry.Note{Kind: "x", Text: strings.Repeat("x", 10<<10)}); err != nil {
				return err
			}
		}
		return nil
	})
	must1(t, err)
	free := fill(t, disk)
	for range 2 {
		r, err := s.master.SealLoose(t.Context(), start.Add(40*day))
		if !errors.Is(err, unix.ENOSPC) || r.Removed != 0 {
			t.Errorf("a pack on a full disk: %+v, %v", r, err)
		}
		for _, pattern := range []string{"*", ".*"} {
			if left := glob(t, disk, "folder", "w", "*", "p", pattern); len(left) > 0 {
				t.Errorf("half written: %v", left)
			}
		}
		if last, err := s.Ledger(t.Context(), 1); err != nil || last[0].Type == ferry.TypeSeal {
			t.Errorf("the last record is a %s (%v): of a pack that there is not", last[0].Type, err)
		}
	}
	free()
	if r := sealLoose(t, s.master, start.Add(40*day)); r.Records != 11 || r.Removed != 10 {
		t.Errorf("with room again: %+v, want 11 records packed and the files of all but the root record removed", r)
	}
	wantIntact(t, s)
}

// What cannot be taken into the store for want of room, or because nothing can be written, is taken in later.
func TestIngestWithoutRoom(t *testing.T) {
	for _, what := range []string{"full", "read-only"} {
		t.Run(what, func(t *testing.T) {
			disk := smallDisk(t)
			s := newSite(t)
			folder := filepath.Join(t.TempDir(), "folder")
			carry(t, s.cfg.Folder, folder)
			m := &site{cfg: channel.Config{Folder: folder, State: filepath.Join(disk, "state"), Judge: judge}}
			c, err := channel.Open(t.Context(), m.cfg, s.ID())
			must1(t, err)
			m.Channel = c
			t.Cleanup(func() { must1(t, m.Close()) })
			m.refresh(t)
			for i := range 20 {
				s.issue(t, big("big-"+string(rune('a'+i))))
			}
			carry(t, s.cfg.Folder, folder)
			free := func() { must1(t, unix.Mount("", disk, "", unix.MS_REMOUNT, "")) }
			if what == "full" {
				free = fill(t, disk)
			} else {
				// The store is open; what a remounted disk refuses is the next that opens it.
				must1(t, m.Close())
				must1(t, unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
			}
			for range 2 {
				if what == "full" {
					_, err = m.Refresh(t.Context())
				} else if c, err = channel.Open(t.Context(), m.cfg, s.ID()); err == nil {
					_, err = c.Refresh(t.Context())
					must1(t, c.Close())
				}
				if err == nil {
					t.Error("a disk that takes nothing takes everything")
				}
			}
			free()
			if what != "full" {
				c, err = channel.Open(t.Context(), m.cfg, s.ID())
				must1(t, err)
				m.Channel = c
			}
			m.refresh(t)
			if got, want := digestOf(t, m), digestOf(t, s); !got.OK || got.Digest != want.Digest {
				t.Errorf("afterwards: %d records, %+v, want %d", got.Records, got.Problems, want.Records)
			}
		})
	}
}

// A beat that cannot be written is an error and leaves the one before; a later one goes through.
func TestBeatDisk(t *testing.T) {
	disk := smallDisk(t)
	s := siteOn(t, filepath.Join(disk, "folder"), filepath.Join(t.TempDir(), "state"))
	master := testKey(t, "master")
	beat := func(n int64) error { return s.PutBeat(master, ferry.Beat{Epoch: 1, Boot: 1, Counter: n}) }
	must1(t, beat(1))
	name := filepath.Join(disk, "folder", "w", string(s.master.ID()), "beat")
	before, err := os.ReadFile(name)
	must1(t, err)
	for want, breaks := range map[error]func() (mend func()){
		unix.ENOSPC: func() func() { return fill(t, disk) },
		unix.EROFS: func() func() {
			must1(t, unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
			return func() { must1(t, unix.Mount("", disk, "", unix.MS_REMOUNT, "")) }
		},
	} {
		mend := breaks()
		for range 2 {
			if err := beat(2); !errors.Is(err, want) {
				t.Errorf("a beat: %v, want %v", err, want)
			}
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != string(before) {
			t.Errorf("%v: the beat before is gone: %d bytes, %v", want, len(got), err)
		}
		mend()
	}
	must1(t, beat(2))
	if left := glob(t, disk, "folder", "w", "*", ".*"); len(left) > 0 {
		t.Errorf("half written: %v", left)
	}
}

// What cannot be relayed, because the folder takes nothing, is an error of nobody and relayed later.
func TestRelayReadOnly(t *testing.T) {
	disk := smallDisk(t)
	s := newSite(t)
	notes(t, s.agent, 5, start)
	m := member(t, s, "moth")
	must1(t, m.Close())
	folder := filepath.Join(disk, "folder")
	carry(t, m.cfg.Folder, folder)
	m.cfg.Folder = folder
	c, err := channel.Open(t.Context(), m.cfg, s.ID())
	must1(t, err)
	m.Channel = c
	must1(t, os.RemoveAll(filepath.Join(folder, "w", string(s.agent.ID()))))
	move := clockOf(m)
	m.refresh(t)
	must1(t, unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	for range 2 {
		move(time.Hour)
		if r := m.refresh(t); r.Relayed != 0 {
			t.Errorf("relayed into a folder that takes nothing: %+v", r)
		}
	}
	must1(t, unix.Mount("", disk, "", unix.MS_REMOUNT, ""))
	if r := m.refresh(t); r.Relayed != 5 {
		t.Errorf("when it takes something again: %+v, want 5 relayed", r)
	}
}

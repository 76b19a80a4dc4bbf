//go:build linux

package channel_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

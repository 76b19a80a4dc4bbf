//go:build linux

package worker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/ferrytest"
	"github.com/ferry-fleet/ferry/worker"
)

// TestDiskFullUnderARun lets an engine fill the disk that its tree is on. Nothing counts as a failure of the order, what
// holds it is in the status, and when there is room again it is done.
func TestDiskFullUnderARun(t *testing.T) {
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=24m,mode=0700"); err != nil {
		t.Skipf("mounting a small filesystem needs root: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	m := ferrytest.New(t, files)
	cfg := config(m, "wisp", m.Engine("greedy", `
dd if=/dev/zero of=filler bs=1M 2>/dev/null; dd if=/dev/zero of=filler2 bs=1 2>/dev/null
echo done
`))
	cfg.Runs, cfg.MinDisk = disk, 0.05
	r := start(m, cfg)
	m.Order("t-full", func(o *ferry.Order) { o.Checks = []string{"sh check.sh"} })
	m.Eventually("a hold that names the disk", 30*time.Second, func() bool {
		s, err := worker.ReadStatus(r.cfg.Status)
		return err == nil && len(s.Running) == 0 && strings.Contains(s.Stopped, "disk")
	})
	m.Engine("greedy", fix)
	full, err := filepath.Glob(filepath.Join(disk, "*", "tree", "work", "filler*"))
	m.Must(err)
	for _, f := range full {
		m.Must(os.Remove(f))
	}
	task := reaches(m, "t-full", ferry.StateDone)
	if task.Failures != 0 || len(task.Attempts) != 2 || task.Revision != 1 {
		t.Errorf("%d failures, %d results, attempts %+v", task.Failures, task.Revision, task.Attempts)
	}
	r.noSurvivors()
}

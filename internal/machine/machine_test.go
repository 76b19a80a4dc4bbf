package machine_test

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry/internal/machine"
)

func TestFacts(t *testing.T) {
	if load, err := machine.Load1(); err != nil || load < 0 {
		t.Errorf("Load1 = %v, %v", load, err)
	}
	mem, err := machine.Here().MemoryAvailable()
	if runtime.GOOS == "linux" && (err != nil || mem < 1<<20) || err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("MemoryAvailable = %d, %v", mem, err)
	}
	first, err := machine.BootID()
	if second, _ := machine.BootID(); err != nil || first == "" || first != second || strings.TrimSpace(first) != first {
		t.Errorf("BootID = %q, then %q, %v", first, second, err)
	}
	if machine.User() == "" {
		t.Error("User is empty")
	}
	if name := machine.Name(); name != machine.Label(name) {
		t.Errorf("Name = %q is not a label", name)
	}
}

func TestBoottimeGoesOn(t *testing.T) {
	first, start := machine.Boottime(), time.Now()
	for time.Since(start) < 2*time.Millisecond {
	}
	if d := machine.Boottime() - first; first <= 0 || d < time.Millisecond {
		t.Errorf("Boottime went from %v on by %v", first, d)
	}
}

func TestDiskFree(t *testing.T) {
	free, fraction, err := machine.DiskFree(t.TempDir())
	if err != nil || free < 0 || fraction < 0 || fraction > 1 {
		t.Errorf("DiskFree = %d, %v, %v", free, fraction, err)
	}
	if _, _, err := machine.DiskFree(os.DevNull + "/missing"); err == nil {
		t.Error("DiskFree of a path below a device succeeded")
	}
	if _, _, err := machine.DiskFree(t.TempDir() + "/missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("DiskFree of a missing path = %v", err)
	}
}

func TestLabel(t *testing.T) {
	for host, want := range map[string]string{
		"wisp": "wisp", "Wisp.example.org": "wisp", "Anna's MacBook Pro": "anna-s-macbook-pro", "": "machine", "...": "machine",
		"--a--b--": "a-b", "日本": "machine", "a\nb": "a-b", "../x": "machine", strings.Repeat("x", 100): strings.Repeat("x", 32),
		strings.Repeat("x", 31) + "-y": strings.Repeat("x", 31),
	} {
		if got := machine.Label(host); got != want {
			t.Errorf("Label(%q) = %q, want %q", host, got, want)
		}
	}
}

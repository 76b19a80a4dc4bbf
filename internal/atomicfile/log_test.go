package atomicfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

func TestLogAppends(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log := openLog(t, path)
	for i, part := range []string{"one", "", "three"} {
		off, err := log.Append([]byte(part))
		if want := []int64{0, 3, 3}[i]; err != nil || off != want {
			t.Errorf("Append(%q) = %d, %v, want %d", part, off, err, want)
		}
	}
	if err := log.Sync(); err != nil {
		t.Fatal(err)
	}
	wantContent(t, path, "onethree")
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode = %v, %v", info.Mode(), err)
	}
	// Another process may have appended under its lock.
	if off, err := openLog(t, path).Append([]byte("four")); off != 8 || err != nil {
		t.Errorf("Append through another handle = %d, %v, want 8", off, err)
	}
	if off, err := log.Append([]byte("five")); off != 12 || err != nil {
		t.Errorf("Append after another handle = %d, %v, want 12", off, err)
	}
	buf := make([]byte, 4)
	if _, err := log.ReadAt(buf, 8); err != nil || string(buf) != "four" {
		t.Errorf("ReadAt = %q, %v", buf, err)
	}
}

func TestLogOverwrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	put(t, path, "one secret two")
	log := openLog(t, path)
	if err := log.Overwrite(4, []byte("------")); err != nil {
		t.Fatal(err)
	}
	wantContent(t, path, "one ------ two")
	for off, data := range map[int64]string{-1: "x", 12: "xyz", 15: "x"} {
		if err := log.Overwrite(off, []byte(data)); err == nil {
			t.Errorf("%q at %d was written", data, off)
		}
	}
	if off, err := log.Append([]byte(" three")); off != 14 || err != nil {
		t.Errorf("Append after Overwrite = %d, %v, want 14", off, err)
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	put(t, path, "another file, as long as the first")
	if err := log.Overwrite(0, []byte("x")); !errors.Is(err, atomicfile.ErrDiffers) {
		t.Errorf("over the file that took its place: %v", err)
	}
	wantContent(t, path, "another file, as long as the first")
}

func TestLogTruncatesOnlyWhenAsked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	put(t, path, "good|torn")
	log := openLog(t, path)
	if size, err := log.Size(); size != 9 || err != nil {
		t.Errorf("Size = %d, %v, want 9: opening must not cut", size, err)
	}
	for _, size := range []int64{-1, 10} {
		if err := log.Truncate(size); err == nil {
			t.Errorf("Truncate(%d) succeeded", size)
		}
	}
	if err := log.Truncate(5); err != nil {
		t.Fatal(err)
	}
	if off, err := log.Append([]byte("new")); off != 5 || err != nil {
		t.Errorf("Append after Truncate = %d, %v", off, err)
	}
	wantContent(t, path, "good|new")
}

func TestLogRefusesOddPaths(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "file"), "")
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"fifo", "link"} {
		if _, err := atomicfile.OpenLog(filepath.Join(dir, path)); !errors.Is(err, atomicfile.ErrNotRegular) {
			t.Errorf("OpenLog(%s) = %v, want ErrNotRegular", path, err)
		}
	}
	for _, path := range []string{"", ".", "missing/log"} {
		if _, err := atomicfile.OpenLog(filepath.Join(dir, path)); err == nil {
			t.Errorf("OpenLog(%q) succeeded", path)
		}
	}
}

func openLog(t *testing.T, path string) *atomicfile.Log {
	t.Helper()
	log, err := atomicfile.OpenLog(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return log
}

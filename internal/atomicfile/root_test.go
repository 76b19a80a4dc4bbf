package atomicfile_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// hostileFolder is a folder with one good file and everything that must not be read.
func hostileFolder(t *testing.T) string {
	t.Helper()
	base := t.TempDir()
	put(t, filepath.Join(base, "outside"), "secret")
	dir := filepath.Join(base, "root")
	if err := os.MkdirAll(filepath.Join(dir, "w", "good"), 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "w", "good", "file"), "content")
	for name, target := range map[string]string{
		"abs": filepath.Join(base, "outside"), "up": "../outside", "inside": "w/good/file", "dirlink": "w/good", "updir": "..",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRootReadsPlainFilesOnly(t *testing.T) {
	dir := hostileFolder(t)
	root := openRoot(t, dir)
	data, info, err := root.ReadFile("w/good/file", 100)
	if err != nil || string(data) != "content" || info.Size() != 7 {
		t.Errorf("ReadFile = %q, %v, %v", data, info, err)
	}
	if _, _, err := root.ReadFile("w/good/file", 6); !errors.Is(err, atomicfile.ErrTooLarge) {
		t.Errorf("ReadFile with a small cap = %v, want ErrTooLarge", err)
	}
	if _, _, err := root.ReadFile("w/missing", 6); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadFile of a missing file = %v, want ErrNotExist", err)
	}
	for _, rel := range []string{
		"abs", "up", "inside", "fifo", "w", "dirlink/file", "updir/outside", "../outside", "/etc/passwd", "w/../w/good/file",
		"w//good/file", "./w/good/file", "w/good/file/", "", ".", "w/good/file\x00",
	} {
		if data, _, err := root.ReadFile(rel, 1<<20); err == nil {
			t.Errorf("ReadFile(%q) = %q, want an error", rel, data)
		}
	}
}

func TestRootWritesBeneathOnly(t *testing.T) {
	dir := hostileFolder(t)
	root := openRoot(t, dir)
	for _, rel := range []string{"dirlink/new", "updir/new", "../new", "/new", ".", ""} {
		if err := root.Create(rel, []byte("x"), 0o600); err == nil {
			t.Errorf("Create(%q) succeeded", rel)
		}
		if err := root.Write(rel, []byte("x"), 0o600); err == nil {
			t.Errorf("Write(%q) succeeded", rel)
		}
		if err := root.MkdirAll(rel, 0o700); err == nil {
			t.Errorf("MkdirAll(%q) succeeded", rel)
		}
		if err := root.Remove(rel); err == nil {
			t.Errorf("Remove(%q) succeeded", rel)
		}
	}
	for range 2 {
		if err := root.MkdirAll("w/me/t", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := root.Create("w/me/t/a", []byte("record"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := root.Write("w/me/beat", []byte("beat"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := root.Create("w/me/t/a", []byte("other"), 0o600); !errors.Is(err, atomicfile.ErrDiffers) {
		t.Errorf("Create over another file = %v, want ErrDiffers", err)
	}
	if info, err := root.Stat("w/me/t/a"); err != nil || info.Size() != 6 {
		t.Errorf("Stat = %v, %v", info, err)
	}
	wantContent(t, filepath.Join(dir, "w/me/t/a"), "record")
	for range 2 {
		if err := root.Remove("w/me/t/a"); err != nil {
			t.Errorf("Remove = %v", err)
		}
	}
	wantNames(t, filepath.Join(dir, "w/me"), "beat", "t")
	wantNames(t, filepath.Join(dir, "w/me/t"))
	wantContent(t, filepath.Join(dir, "../outside"), "secret")
}

func TestRootReadDirIsBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range 20 {
		put(t, filepath.Join(dir, fmt.Sprintf("%02d", i)), "")
	}
	root := openRoot(t, dir)
	for _, tt := range []struct {
		max, want int
		more      bool
	}{{0, 0, true}, {5, 5, true}, {19, 19, true}, {20, 20, false}, {5000, 20, false}} {
		entries, more, err := root.ReadDir(".", tt.max)
		if err != nil || len(entries) != tt.want || more != tt.more {
			t.Errorf("ReadDir(max %d) = %d names, more %v, %v", tt.max, len(entries), more, err)
		}
	}
	hostile := openRoot(t, hostileFolder(t))
	for _, rel := range []string{"dirlink", "updir", "..", "fifo", "w/good/file", "missing"} {
		if _, _, err := hostile.ReadDir(rel, 10); err == nil {
			t.Errorf("ReadDir(%q) succeeded", rel)
		}
	}
}

// A symlink put in place of a directory between two calls must never be followed.
func TestRootIgnoresSwappedDirectory(t *testing.T) {
	dir := hostileFolder(t)
	root := openRoot(t, dir)
	swap, stop := filepath.Join(dir, "w", "swap"), make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Mkdir(swap, 0o700)
			_ = os.Remove(swap)
			_ = os.Symlink("../..", swap)
			_ = os.Remove(swap)
		}
	}()
	for i := range 2000 {
		if data, _, err := root.ReadFile("w/swap/outside", 100); err == nil {
			t.Errorf("read %q through a swapped directory", data)
			break
		}
		if i%20 == 0 { // a write waits for the disk, a read does not
			_ = root.Create("w/swap/new", []byte("x"), 0o600)
		}
	}
	close(stop)
	<-done
	if _, err := os.Lstat(filepath.Join(dir, "..", "new")); err == nil {
		t.Error("a file was created outside of the root")
	}
	_ = os.RemoveAll(swap)
}

func openRoot(t *testing.T, dir string) *atomicfile.Root {
	t.Helper()
	root, err := atomicfile.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

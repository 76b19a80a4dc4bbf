package atomicfile_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

func TestWriteReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "beat")
	for _, want := range []string{"one", "", "a longer second version"} {
		if err := atomicfile.Write(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		wantContent(t, path, want)
	}
	wantNames(t, filepath.Dir(path), "beat")
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode = %v, %v, want 0600", info.Mode(), err)
	}
}

func TestWriteTakesLongNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("n", 255))
	if err := atomicfile.Write(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantContent(t, path, "x")
}

func TestWriteReplacesSymlinkItself(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	put(t, target, "kept")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(link, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantContent(t, target, "kept")
	wantContent(t, link, "new")
}

func TestCreate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "record")
	if err := atomicfile.Create(path, []byte("bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Create(path, []byte("bytes"), 0o600); err != nil {
		t.Errorf("second Create with the same bytes: %v", err)
	}
	for _, other := range []string{"byteX", "byte", "bytes and more", ""} {
		if err := atomicfile.Create(path, []byte(other), 0o600); !errors.Is(err, atomicfile.ErrDiffers) {
			t.Errorf("Create with %q = %v, want ErrDiffers", other, err)
		}
	}
	wantContent(t, path, "bytes")
	wantNames(t, dir, "record")
}

func TestCreateNeverFollows(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "elsewhere"), "data")
	for name, make := range map[string]func(path string) error{
		"symlink":          func(p string) error { return os.Symlink("elsewhere", p) },
		"dangling symlink": func(p string) error { return os.Symlink("nowhere", p) },
		"fifo":             func(p string) error { return unix.Mkfifo(p, 0o600) },
		"directory":        func(p string) error { return os.Mkdir(p, 0o700) },
	} {
		path := filepath.Join(dir, name)
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		if err := atomicfile.Create(path, []byte("data"), 0o600); !errors.Is(err, atomicfile.ErrDiffers) {
			t.Errorf("Create at a %s = %v, want ErrDiffers", name, err)
		}
	}
}

func TestCreateHasOneWinner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ref")
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for i := range 8 {
		wg.Go(func() {
			err := atomicfile.Create(path, fmt.Appendf(nil, "writer %d", i), 0o600)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if !errors.Is(err, atomicfile.ErrDiffers) {
				t.Errorf("Create = %v", err)
			}
		})
	}
	wg.Wait()
	if won != 1 {
		t.Errorf("%d writers created the same path, want 1", won)
	}
}

func TestBadPathsAreRefused(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"", ".", "/", dir + "/", dir + "/..", filepath.Join(dir, "missing", "file"), dir + "/a\x00b"} {
		if err := atomicfile.Write(path, nil, 0o600); err == nil {
			t.Errorf("Write(%q) succeeded", path)
		}
		if err := atomicfile.Create(path, nil, 0o600); err == nil {
			t.Errorf("Create(%q) succeeded", path)
		}
	}
	if err := atomicfile.Write(dir, []byte("x"), 0o600); err == nil {
		t.Error("Write over a directory succeeded")
	}
	wantNames(t, dir)
}

func TestMkdirAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b", "c")
	for range 2 {
		if err := atomicfile.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
		t.Errorf("Stat = %v, %v", info, err)
	}
	put(t, filepath.Join(dir, "file"), "")
	if err := atomicfile.MkdirAll(filepath.Join(dir, "file", "x"), 0o700); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("MkdirAll below a file = %v, want ENOTDIR", err)
	}
}

func TestReadBounded(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "four"), "four")
	put(t, filepath.Join(dir, "empty"), "")
	if err := os.Symlink("four", filepath.Join(dir, "symlink")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	sparse := filepath.Join(dir, "sparse")
	put(t, sparse, "")
	if err := os.Truncate(sparse, 4<<30); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path string
		max  int64
		want string
		err  error
	}{
		{"four", 4, "four", nil},
		{"four", 100, "four", nil},
		{"four", 3, "", atomicfile.ErrTooLarge},
		{"empty", 0, "", nil},
		{"symlink", 100, "", atomicfile.ErrNotRegular},
		{"fifo", 100, "", atomicfile.ErrNotRegular},
		{".", 100, "", atomicfile.ErrNotRegular},
		{"/dev/zero", 100, "", atomicfile.ErrNotRegular},
		{"sparse", 1 << 20, "", atomicfile.ErrTooLarge},
		{"missing", 100, "", fs.ErrNotExist},
	} {
		path := tt.path
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		got, err := atomicfile.ReadBounded(path, tt.max)
		if !errors.Is(err, tt.err) || string(got) != tt.want {
			t.Errorf("ReadBounded(%s, %d) = %q, %v, want %q, %v", tt.path, tt.max, got, err, tt.want, tt.err)
		}
	}
	// Files in /proc say size 0 and have content.
	if got, err := atomicfile.ReadBounded("/proc/self/status", 1<<20); err == nil && len(got) == 0 {
		t.Error("ReadBounded trusted a size of zero")
	}
}

func TestRemoveTemps(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "odd [name]*")
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, atomicfile.TempPrefix+"X.tmp"), "half")
	put(t, filepath.Join(dir, "kept"), "")
	if n, err := atomicfile.RemoveTemps(dir); n != 1 || err != nil {
		t.Errorf("RemoveTemps = %d, %v, want 1", n, err)
	}
	wantNames(t, dir, "kept")
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func wantContent(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v, want %q", path, got, err, want)
	}
}

func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s contains %q, want %q", dir, got, want)
	}
}

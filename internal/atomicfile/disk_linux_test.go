package atomicfile

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func mountTmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("a small filesystem can be mounted by root only (%v); TestFileSizeLimit covers the same steps", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

func TestFullDisk(t *testing.T) {
	dir := mountTmpfs(t, "size=32k")
	if code := checkNoRoom(dir, make([]byte, 100_000)); code != 0 {
		t.Errorf("step %d of checkNoRoom failed", code)
	}
}

func TestReadOnlyFilesystem(t *testing.T) {
	dir := mountTmpfs(t, "size=32k")
	if err := Write(filepath.Join(dir, "file"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"Write":    Write(filepath.Join(dir, "file"), []byte("new"), 0o600),
		"Create":   Create(filepath.Join(dir, "new"), []byte("new"), 0o600),
		"MkdirAll": MkdirAll(filepath.Join(dir, "a", "b"), 0o700),
	} {
		if !errors.Is(err, unix.EROFS) {
			t.Errorf("%s on a read-only filesystem = %v, want EROFS", name, err)
		}
	}
	if _, err := OpenLog(filepath.Join(dir, "log")); !errors.Is(err, unix.EROFS) {
		t.Errorf("OpenLog = %v, want EROFS", err)
	}
	if got, err := ReadBounded(filepath.Join(dir, "file"), 10); string(got) != "old" || err != nil {
		t.Errorf("ReadBounded = %q, %v", got, err)
	}
}

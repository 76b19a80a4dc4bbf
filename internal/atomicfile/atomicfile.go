// Package atomicfile owns every file that ferry writes for itself.
//
// It promises whole-or-nothing: after a crash, a kill or a full disk a path holds the old bytes or all of the new ones, and
// what a call reported as written is on the disk. Reads are bounded and open regular files only, so that a FIFO, a device
// or a file of any size in a hostile folder cannot stop or exhaust the reader. [Root] does the same beneath one directory
// without ever following a symlink.
//
// It never interprets the bytes, never follows a symlink as the last element of a path it reads, and never replaces a file
// unless asked to by [Write].
//
// The steps of a write, in order; a crash between any two leaves the old state or the new one:
//
//	temporary file in the same directory → write → fsync → rename (Write) or link (Create) → fsync of the directory
package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// TempPrefix starts the name of every temporary file. Syncthing never carries a name with this beginning, so an unfinished
// file in a synced folder stays on the machine that was writing it.
const TempPrefix = ".syncthing.ferry-"

// ErrDiffers reports that a create-only write found the path taken by something with other bytes.
var ErrDiffers = errors.New("exists with different content")

// ErrNotRegular reports that a path is a symlink, a directory, a FIFO, a device or a socket where a plain file was wanted.
var ErrNotRegular = errors.New("not a regular file")

// ErrTooLarge reports that a file holds more bytes than the reader allows.
var ErrTooLarge = errors.New("larger than allowed")

// Write makes path hold exactly data, replacing what was there. The umask applies to perm. A symlink at path is replaced,
// not followed.
func Write(path string, data []byte, perm fs.FileMode) error {
	return steps{}.atPath(path, func(s steps, d *os.File, base string) error { return s.replace(d, base, data, perm) }, "write")
}

// Create makes path hold exactly data if nothing is there. A path that already holds the same bytes is success, anything
// else at the path is ErrDiffers, and it is left as it was.
func Create(path string, data []byte, perm fs.FileMode) error {
	return steps{}.atPath(path, func(s steps, d *os.File, base string) error { return s.create(d, base, data, perm) }, "create")
}

// MkdirAll makes path and its missing parents, and makes each of them durable. An existing directory is success.
func MkdirAll(path string, perm fs.FileMode) error {
	path = filepath.Clean(path)
	info, err := os.Stat(path)
	if err == nil {
		if info.IsDir() {
			return nil
		}
		return fmt.Errorf("make directory %s: %w", path, unix.ENOTDIR)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("make directory: %w", err)
	}
	parent := filepath.Dir(path)
	if err := MkdirAll(parent, perm); err != nil {
		return err
	}
	if err := os.Mkdir(path, perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make directory: %w", err)
	}
	return syncPath(parent)
}

// ReadBounded reads a regular file of at most max bytes. It does not wait for a FIFO, and does not follow a symlink at path.
func ReadBounded(path string, max int64) ([]byte, error) {
	fd, err := openRetry(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, notFollowed(err))
	}
	data, _, err := readRegular(os.NewFile(uintptr(fd), path), max)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}

// RemoveTemps removes the temporary files that a killed process left in dir, and says how many. The caller makes sure that
// nobody else is writing there.
func RemoveTemps(dir string) (int, error) {
	left, err := filepath.Glob(filepath.Join(globEscape(dir), TempPrefix+"*"))
	if err != nil {
		return 0, fmt.Errorf("remove temporary files in %s: %w", dir, err)
	}
	for i, path := range left {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return i, fmt.Errorf("remove temporary file: %w", err)
		}
	}
	return len(left), nil
}

func globEscape(dir string) string {
	var out bytes.Buffer
	for i := 0; i < len(dir); i++ {
		if bytes.IndexByte([]byte(`*?[\`), dir[i]) >= 0 {
			out.WriteByte('\\')
		}
		out.WriteByte(dir[i])
	}
	return out.String()
}

func syncPath(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	defer d.Close()
	return syncDir(d)
}

// syncDir makes the names in d durable. Some network filesystems cannot, and say so with EINVAL or ENOTSUP; there is
// nothing more to be done on them.
func syncDir(d *os.File) error {
	err := d.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

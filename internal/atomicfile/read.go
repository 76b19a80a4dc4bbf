package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// readRegular reads and closes f. The size is checked before anything is allocated, and again by reading one byte more
// than allowed, because the file may grow meanwhile.
func readRegular(f *os.File, max int64) ([]byte, fs.FileInfo, error) {
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, ErrNotRegular
	}
	if info.Size() > max {
		return nil, nil, ErrTooLarge
	}
	data := make([]byte, 0, min(info.Size(), max)+1)
	for {
		n, err := f.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if int64(len(data)) > max {
			return nil, nil, ErrTooLarge
		}
		if errors.Is(err, io.EOF) {
			return data, info, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if len(data) == cap(data) {
			grown := make([]byte, len(data), min(2*int64(cap(data)), max+1))
			copy(grown, data)
			data = grown
		}
	}
}

// openRetry is openat, repeated when a signal interrupts it.
func openRetry(dir int, path string, flags int, perm uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, path, flags, perm)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// notFollowed names what the system reports as ELOOP under O_NOFOLLOW (ENXIO for a socket).
func notFollowed(err error) error {
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return errors.Join(ErrNotRegular, err)
	}
	return err
}

package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrTorn reports that an earlier append or sync did not finish, so the end of the log is not known to be good. Truncate
// to the last offset that is known to be good, or open the log again and read it.
var ErrTorn = errors.New("end of log is torn")

// Log is a file that only grows. What was appended is changed by Overwrite alone; a torn tail, left by a crash or a full disk,
// stays until Truncate is called. Its methods are safe for concurrent use in one process; several processes that append need a
// lock of their own around Append and Sync.
type Log struct {
	mu   sync.Mutex
	file *os.File
	torn bool
}

// OpenLog opens the log at path, and creates it empty, readable by its owner only, where it is missing.
func OpenLog(path string) (*Log, error) {
	flags := unix.O_RDWR | unix.O_APPEND | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := openRetry(unix.AT_FDCWD, path, flags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		fd, err = openRetry(unix.AT_FDCWD, path, flags|unix.O_CREAT, 0o600)
		if err == nil {
			err = syncPath(filepath.Dir(path))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open log %s: %w", path, notFollowed(err))
	}
	f := os.NewFile(uintptr(fd), path)
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = ErrNotRegular
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open log %s: %w", path, err)
	}
	return &Log{file: f}, nil
}

// Append adds data to the end and returns the offset where it begins. It is durable after the next Sync. When it fails,
// part of data may stand at the end; every later Append is refused with ErrTorn until Truncate.
func (l *Log) Append(data []byte) (off int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.torn {
		return 0, fmt.Errorf("append to %s: %w", l.file.Name(), ErrTorn)
	}
	off, err = l.size()
	if err != nil {
		return 0, fmt.Errorf("append to %s: %w", l.file.Name(), err)
	}
	if n, err := l.file.Write(data); err != nil {
		l.torn = n > 0
		return 0, fmt.Errorf("append to %s: %w", l.file.Name(), err)
	}
	return off, nil
}

// Sync makes everything appended so far durable. After a failed Sync the kernel may have dropped the data, so the log
// counts as torn.
func (l *Log) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()

	if err := l.file.Sync(); err != nil {
		l.torn = true
		return fmt.Errorf("sync %s: %w", l.file.Name(), err)
	}
	return nil
}

// Size returns the number of bytes in the log, a torn tail included.
func (l *Log) Size() (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size()
}

func (l *Log) size() (int64, error) {
	info, err := l.file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// ReadAt reads from the log at an offset, like io.ReaderAt.
func (l *Log) ReadAt(p []byte, off int64) (int, error) { return l.file.ReadAt(p, off) }

// Overwrite puts data in the place of as many bytes at an offset, durably. It never makes a log longer. A crash can leave a part
// of the old bytes there: the caller must be able to do it again.
func (l *Log) Overwrite(off int64, data []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	have, err := l.size()
	if err == nil && (off < 0 || off+int64(len(data)) > have) {
		err = fmt.Errorf("size is %d: %w", have, fs.ErrInvalid)
	}
	if err == nil {
		err = l.overwrite(off, data)
	}
	if err != nil {
		return fmt.Errorf("overwrite %s at %d: %w", l.file.Name(), off, err)
	}
	return nil
}

// overwrite opens the file once more, because what is written to one that is open for appending goes to its end.
func (l *Log) overwrite(off int64, data []byte) error {
	fd, err := openRetry(unix.AT_FDCWD, l.file.Name(), unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return notFollowed(err)
	}
	f := os.NewFile(uintptr(fd), l.file.Name())
	defer f.Close()
	mine, err := l.file.Stat()
	if err != nil {
		return err
	}
	there, err := f.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(mine, there) {
		return fmt.Errorf("another file took its place: %w", ErrDiffers)
	}
	if _, err := f.WriteAt(data, off); err != nil {
		return err
	}
	return f.Sync()
}

// Truncate cuts the log to size, durably, and makes it usable again after a torn append. It never makes a log longer.
func (l *Log) Truncate(size int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	have, err := l.size()
	if err == nil && (size < 0 || size > have) {
		err = fmt.Errorf("size is %d: %w", have, fs.ErrInvalid)
	}
	if err == nil {
		err = l.file.Truncate(size)
	}
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("truncate %s to %d: %w", l.file.Name(), size, err)
	}
	l.torn = false
	return nil
}

// Close closes the file. It does not sync.
func (l *Log) Close() error { return l.file.Close() }

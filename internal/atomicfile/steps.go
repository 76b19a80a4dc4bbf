package atomicfile

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// steps carries out one write. Everything happens relative to an open directory, so that renaming or replacing a parent
// during the write cannot move it elsewhere. at is called between the steps; the tests kill the process there.
type steps struct {
	at       func(step string)
	noUnname bool // use a named temporary file even where the system has unnamed ones
}

func (s steps) reached(step string) {
	if s.at != nil {
		s.at(step)
	}
}

func (s steps) atPath(path string, do func(steps, *os.File, string) error, verb string) error {
	base := filepath.Base(path)
	if path == "" || base == "." || base == ".." || base == "/" || strings.HasSuffix(path, "/") {
		return fmt.Errorf("%s %q: %w", verb, path, unix.EINVAL)
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, path, err)
	}
	defer d.Close()
	if err := do(s, d, base); err != nil {
		return fmt.Errorf("%s %s: %w", verb, path, err)
	}
	return nil
}

func (s steps) replace(d *os.File, base string, data []byte, perm fs.FileMode) error {
	temp, err := s.writeTemp(d, data, perm)
	if err != nil {
		return err
	}
	fd := int(d.Fd())
	if err := unix.Renameat(fd, temp, fd, base); err != nil {
		discard(d, temp)
		return err
	}
	s.reached("named")
	return syncDir(d)
}

func (s steps) create(d *os.File, base string, data []byte, perm fs.FileMode) error {
	err := s.createNew(d, base, data, perm)
	if errors.Is(err, fs.ErrExist) {
		if err := sameContent(d, base, data); err != nil {
			return err
		}
		return syncDir(d)
	}
	if err != nil {
		return err
	}
	s.reached("named")
	return syncDir(d)
}

func (s steps) createNew(d *os.File, base string, data []byte, perm fs.FileMode) error {
	if !s.noUnname {
		f, err := openUnnamed(d, perm)
		if err == nil {
			defer f.Close()
			s.reached("opened")
			if err := s.fill(f, data); err != nil {
				return err
			}
			err := linkUnnamed(f, d, base)
			if err == nil || errors.Is(err, fs.ErrExist) {
				return err
			}
			// A system that has unnamed files but no /proc to link them from takes the other way.
		}
	}
	temp, err := s.writeTemp(d, data, perm)
	if err != nil {
		return err
	}
	fd := int(d.Fd())
	err = unix.Linkat(fd, temp, fd, base, 0)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) {
		// FAT and some network filesystems have no hard links.
		err = renameNoReplace(d, temp, base)
		if err == nil {
			return nil
		}
	}
	discard(d, temp)
	return err
}

// writeTemp leaves data, durable, under a temporary name in d.
func (s steps) writeTemp(d *os.File, data []byte, perm fs.FileMode) (string, error) {
	temp := TempPrefix + rand.Text() + ".tmp"
	fd, err := openRetry(int(d.Fd()), temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(perm.Perm()))
	if err != nil {
		return "", err
	}
	s.reached("opened")
	f := os.NewFile(uintptr(fd), filepath.Join(d.Name(), temp))
	err = s.fill(f, data)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		discard(d, temp)
		return "", err
	}
	return temp, nil
}

func (s steps) fill(f *os.File, data []byte) error {
	if _, err := f.Write(data); err != nil {
		return err
	}
	s.reached("written")
	if err := f.Sync(); err != nil {
		return err
	}
	s.reached("synced")
	return nil
}

// discard removes a temporary file after another error, which is the one worth reporting.
func discard(d *os.File, temp string) { _ = unix.Unlinkat(int(d.Fd()), temp, 0) }

func sameContent(d *os.File, base string, data []byte) error {
	fd, err := openRetry(int(d.Fd()), base, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDiffers, notFollowed(err))
	}
	have, _, err := readRegular(os.NewFile(uintptr(fd), base), int64(len(data)))
	if errors.Is(err, ErrTooLarge) || errors.Is(err, ErrNotRegular) {
		return fmt.Errorf("%w: %w", ErrDiffers, err)
	}
	if err != nil {
		return err
	}
	if !bytes.Equal(have, data) {
		return ErrDiffers
	}
	return nil
}

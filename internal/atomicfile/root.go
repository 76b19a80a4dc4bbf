package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Root is a directory whose content others may write. Every path is relative to it, uses slashes, and may not contain a
// symlink, "..", "." or an empty element: such a path is refused, whatever it points to.
type Root struct {
	dir *os.File
}

// OpenRoot opens dir, which is named by the caller and may itself be reached through symlinks.
func OpenRoot(dir string) (*Root, error) {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("open root: %w", err)
	}
	return &Root{dir: d}, nil
}

// Close releases the directory.
func (r *Root) Close() error { return r.dir.Close() }

// ReadFile reads the regular file rel of at most max bytes, and returns what the open file said about itself.
func (r *Root) ReadFile(rel string, max int64) ([]byte, fs.FileInfo, error) {
	f, err := r.open(rel, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, nil, fmt.Errorf("read %q: %w", rel, err)
	}
	data, info, err := readRegular(f, max)
	if err != nil {
		return nil, nil, fmt.Errorf("read %q: %w", rel, err)
	}
	return data, info, nil
}

// ReadDir returns at most maxNames entries of the directory rel ("." for the root itself), sorted by name, and reports
// whether there are more. Which ones are left out then is up to the filesystem.
func (r *Root) ReadDir(rel string, maxNames int) (entries []fs.DirEntry, more bool, err error) {
	d, err := r.openDir(rel)
	if err != nil {
		return nil, false, fmt.Errorf("list %q: %w", rel, err)
	}
	defer d.Close()
	// One name more than wanted is read, to know whether there are more.
	for len(entries) <= maxNames {
		part, err := d.ReadDir(min(1024, maxNames+1-len(entries)))
		entries = append(entries, part...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, false, fmt.Errorf("list %q: %w", rel, err)
		}
	}
	if len(entries) > maxNames {
		entries, more = entries[:maxNames], true
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, more, nil
}

// Stat describes the file or directory rel without following a symlink in any place.
func (r *Root) Stat(rel string) (fs.FileInfo, error) {
	f, err := r.open(rel, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("stat %q: %w", rel, err)
	}
	defer f.Close()
	return f.Stat()
}

// Write is like the function Write, beneath the root.
func (r *Root) Write(rel string, data []byte, perm fs.FileMode) error {
	return r.put("write", rel, func(d *os.File, base string) error { return steps{}.replace(d, base, data, perm) })
}

// Create is like the function Create, beneath the root.
func (r *Root) Create(rel string, data []byte, perm fs.FileMode) error {
	return r.put("create", rel, func(d *os.File, base string) error { return steps{}.create(d, base, data, perm) })
}

// Remove removes the file rel, or whatever else that is not a directory stands under its name. An absent file is success.
func (r *Root) Remove(rel string) error {
	return r.put("remove", rel, func(d *os.File, base string) error {
		if err := unix.Unlinkat(int(d.Fd()), base, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return syncDir(d)
	})
}

// RemoveDir removes the directory rel, which must be empty. An absent one is success.
func (r *Root) RemoveDir(rel string) error {
	return r.put("remove directory", rel, func(d *os.File, base string) error {
		if err := unix.Unlinkat(int(d.Fd()), base, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return syncDir(d)
	})
}

// MkdirAll makes the directory rel and its missing parents beneath the root, each of them durable.
func (r *Root) MkdirAll(rel string, perm fs.FileMode) error {
	elems, err := elements(rel)
	if err != nil {
		return fmt.Errorf("make directory %q: %w", rel, err)
	}
	for i := range elems {
		part := path.Join(elems[:i+1]...)
		err := r.put("make directory", part, func(d *os.File, base string) error {
			err := unix.Mkdirat(int(d.Fd()), base, uint32(perm.Perm()))
			if errors.Is(err, fs.ErrExist) {
				return nil
			}
			if err != nil {
				return err
			}
			return syncDir(d)
		})
		if err != nil {
			return err
		}
	}
	d, err := r.openDir(rel)
	if err != nil {
		return fmt.Errorf("make directory %q: %w", rel, err)
	}
	return d.Close()
}

func (r *Root) put(verb, rel string, do func(d *os.File, base string) error) error {
	d, base, err := r.parent(rel)
	if err != nil {
		return fmt.Errorf("%s %q: %w", verb, rel, err)
	}
	defer d.Close()
	if err := do(d, base); err != nil {
		return fmt.Errorf("%s %q: %w", verb, rel, err)
	}
	return nil
}

func (r *Root) parent(rel string) (*os.File, string, error) {
	if _, err := elements(rel); err != nil {
		return nil, "", err
	}
	d, err := r.openDir(path.Dir(rel))
	return d, path.Base(rel), err
}

func (r *Root) openDir(rel string) (*os.File, error) {
	if rel == "." {
		fd, err := openRetry(int(r.dir.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return named(fd, r.dir.Name(), err)
	}
	return r.open(rel, unix.O_RDONLY|unix.O_DIRECTORY)
}

func (r *Root) open(rel string, flags int) (*os.File, error) {
	if _, err := elements(rel); err != nil {
		return nil, err
	}
	return openBelow(r.dir, rel, flags)
}

func openBelow(d *os.File, rel string, flags int) (*os.File, error) {
	fd, err := openBeneath(d, rel, flags|unix.O_NOFOLLOW)
	return named(fd, filepath.Join(d.Name(), filepath.FromSlash(rel)), notFollowed(err))
}

func named(fd int, name string, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// walkBeneath opens rel one element at a time, each relative to the directory before it, so that a symlink put in place
// during the walk is refused like one that was there before.
func walkBeneath(d *os.File, rel string, flags int) (int, error) {
	elems, err := elements(rel)
	if err != nil {
		return -1, err
	}
	at, opened := int(d.Fd()), -1
	defer func() {
		if opened >= 0 {
			unix.Close(opened)
		}
	}()
	for _, elem := range elems[:len(elems)-1] {
		next, err := openRetry(at, elem, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if opened >= 0 {
			unix.Close(opened)
		}
		opened = next
		if err != nil {
			return -1, err
		}
		at = next
	}
	return openRetry(at, elems[len(elems)-1], flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// elements splits rel and refuses what is not a plain relative path.
func elements(rel string) ([]string, error) {
	elems := strings.Split(rel, "/")
	for _, elem := range elems {
		if elem == "" || elem == "." || elem == ".." || strings.IndexByte(elem, 0) >= 0 {
			return nil, fmt.Errorf("path leaves the folder or is not plain: %w", fs.ErrInvalid)
		}
	}
	return elems, nil
}

package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// update moves one checkout from the old commit of a landing to the new one. It works on a copy of the index while it
// holds the index lock by a hard link of a file of its own: after a crash the lock can be told from one of the person's.
//
// After a crash, files that were written already are adopted first.
//
//	ferry-lock-<order>    what index.lock is linked to while ferry holds it
//	ferry-index-<order>   the copy, which becomes the index in one rename
func (g *Gate) update(ctx context.Context, l landing, c checkout, crashed bool) error {
	mark := filepath.Join(c.Git, "ferry-lock-"+l.Order)
	lock, temp := filepath.Join(c.Git, "index.lock"), filepath.Join(c.Git, "ferry-index-"+l.Order)
	if err := takeLock(mark, lock); err != nil {
		return err
	}
	err := g.updateLocked(ctx, l, c, crashed)
	for _, path := range []string{temp, temp + ".lock", lock, mark} {
		if removeErr := os.Remove(path); removeErr != nil && !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	return err
}

// takeLock takes the index lock, or finds that a landing that crashed holds it still.
func takeLock(mark, lock string) error {
	f, err := os.OpenFile(mark, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	ours, err := f.Stat()
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	err = os.Link(mark, lock)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	there, statErr := os.Lstat(lock)
	if statErr == nil && os.SameFile(ours, there) {
		return nil
	}
	return errors.Join(fmt.Errorf("%s is held by another git process; end it, or remove the file if there is none", lock), os.Remove(mark))
}

func (g *Gate) updateLocked(ctx context.Context, l landing, c checkout, crashed bool) error {
	temp := filepath.Join(c.Git, "ferry-index-"+l.Order)
	for _, stale := range []string{temp, temp + ".lock"} {
		if err := os.Remove(stale); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	index := filepath.Join(c.Git, "index")
	if err := copyFile(index, temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	in := call{dir: c.Git, tree: c.Dir, index: temp}
	if crashed {
		if err := g.adopt(ctx, in, l); err != nil {
			return err
		}
	}
	if _, err := g.git.run(ctx, in, "read-tree", "-m", "-u", string(l.Old), string(l.New)); err != nil {
		return err
	}
	if err := syncFile(temp); err != nil {
		return err
	}
	return os.Rename(temp, index)
}

// adopt tells the index about files that a crashed landing has written already, so that they do not look like changes of
// the person's. A file with any other content stays a change, which the merge then refuses to touch.
func (g *Gate) adopt(ctx context.Context, in call, l landing) error {
	entries, err := g.rawDiff(ctx, string(l.Old), string(l.New))
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, p := range slices.Sorted(maps.Keys(entries)) {
		fields := strings.Fields(strings.TrimPrefix(entries[p], ":"))
		if len(fields) != 5 {
			return fmt.Errorf("git diff-tree gave the entry %q", entries[p])
		}
		wantMode, wantID := fields[1], fields[3]
		mode, id, err := g.fileAt(ctx, in, p)
		if err != nil {
			return err
		}
		if mode == wantMode && (id == wantID || mode == noMode) {
			fmt.Fprintf(&list, "%s %s\t%s\x00", strings.TrimPrefix(mode, "00000"), wantID, p)
		}
	}
	in.in = strings.NewReader(list.String())
	_, err = g.git.run(ctx, in, "update-index", "-z", "--index-info")
	return err
}

// noMode is the mode of what is not there.
const noMode = "000000"

// fileAt returns the mode and the blob id that a file of a checkout would have in git, and noMode for none.
func (g *Gate) fileAt(ctx context.Context, in call, p string) (mode, id string, err error) {
	full := filepath.Join(in.tree, p)
	info, err := os.Lstat(full)
	if errors.Is(err, fs.ErrNotExist) {
		return noMode, "", nil
	}
	if err != nil {
		return "", "", err
	}
	args := []string{"hash-object", "--", full}
	switch {
	case info.Mode().Type() == fs.ModeSymlink:
		target, err := os.Readlink(full)
		if err != nil {
			return "", "", err
		}
		mode, args, in.in = "120000", []string{"hash-object", "--no-filters", "--stdin"}, strings.NewReader(target)
	case !info.Mode().IsRegular():
		return "", "", nil
	case info.Mode()&0o100 != 0:
		mode = "100755"
	default:
		mode = "100644"
	}
	out, err := g.git.run(ctx, in, args...)
	return mode, strings.TrimSpace(out), err
}

func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// Retire removes a tree whose last snapshot is reachable from its ref. A tree that was never snapshotted is refused with
// ErrNotSaved. What cannot be removed is moved aside and reported. Retiring twice is success.
func (g *Gate) Retire(ctx context.Context, t *Tree) error {
	if _, err := os.Lstat(t.dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	commit, ref, ok, err := t.Saved()
	if err != nil {
		return fmt.Errorf("retire: %w", err)
	}
	if !ok {
		return fmt.Errorf("retire %s: %w", t.dir, ErrNotSaved)
	}
	there, found, err := g.git.resolve(ctx, g.dir, ref)
	if err != nil {
		return fmt.Errorf("retire %s: %w", t.dir, err)
	}
	if !found || there != commit {
		return fmt.Errorf("retire %s: %w: %s does not name %s", t.dir, ErrNotSaved, ref, commit)
	}
	return discard(t.dir)
}

// Discard removes a run's directory in which no engine was ever started, such as one that a crash left half made. A
// directory that holds a tree with a private repository that an engine may have used must be retired instead.
func Discard(dir string) error { return discard(dir) }

func discard(dir string) error {
	// The engine's files go first and ferry's own memory last, so that a crash in between leaves what can be retired again.
	for _, name := range []string{"work", "repo.git", "snap", "host"} {
		if err := removeTree(filepath.Join(dir, name)); err != nil {
			return moveAside(dir, err)
		}
	}
	if err := removeTree(dir); err != nil {
		return moveAside(dir, err)
	}
	return nil
}

// moveAside frees the name of a run's directory when something in it cannot be removed.
func moveAside(dir string, cause error) error {
	for n := range 1000 {
		aside := dir + ".left-" + strconv.Itoa(n)
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			if err := os.Rename(dir, aside); err != nil {
				return fmt.Errorf("remove %s: %w (and move it aside: %v)", dir, cause, err)
			}
			return fmt.Errorf("remove %s: %w; the rest is in %s", dir, cause, aside)
		}
	}
	return fmt.Errorf("remove %s: %w", dir, cause)
}

// removeTree removes a directory that an engine may have shaped: without read or write permission, or nested so deep that
// its path is too long to be opened. Directories are moved up to one level before they are emptied, so that depth costs
// neither stack nor path length. It never follows a symlink. A directory that is not there is success.
func removeTree(dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return os.Remove(dir)
	}
	trash, err := os.MkdirTemp(filepath.Dir(dir), ".trash-")
	if err != nil {
		return err
	}
	r := remover{trash: trash}
	if err := r.take(dir); err != nil {
		return errors.Join(err, os.Remove(trash))
	}
	for len(r.waiting) > 0 {
		last := r.waiting[len(r.waiting)-1]
		r.waiting = r.waiting[:len(r.waiting)-1]
		if err := r.empty(last); err != nil {
			return err
		}
	}
	return os.Remove(trash)
}

// remover empties directories one level at a time.
type remover struct {
	trash   string
	count   int
	waiting []string
}

// take moves a directory into the trash. The mode comes first: a directory without write permission cannot be moved.
func (r *remover) take(dir string) error {
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	r.count++
	to := filepath.Join(r.trash, strconv.Itoa(r.count))
	if err := os.Rename(dir, to); err != nil {
		return err
	}
	r.waiting = append(r.waiting, to)
	return nil
}

func (r *remover) empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		p := filepath.Join(dir, e.Name())
		if e.IsDir() {
			err = r.take(p)
		} else {
			err = os.Remove(p)
		}
		if err != nil {
			return err
		}
	}
	return os.Remove(dir)
}

package worktree

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

// lockWait is how long a lock of a ref may stay as it is before it counts as left behind: git holds one for the moment
// of a rename.
const lockWait = 2 * time.Second

// unlocked runs a git command that writes a ref of ferry's own in the git directory dir. A git that was killed leaves
// the ref's lock file behind, and no later git would ever write that ref; a lock that fails the command and is the same
// file after lockWait is taken away, and the command runs again. It is not for refs that a person's git writes.
func unlocked(ctx context.Context, dir, ref string, run func() error) error {
	err := run()
	if err == nil {
		return nil
	}
	lock := filepath.Join(dir, filepath.FromSlash(ref)) + ".lock"
	before, statErr := os.Lstat(lock)
	if statErr != nil {
		return err
	}
	wait := time.NewTimer(lockWait)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return err
	case <-wait.C:
	}
	after, statErr := os.Lstat(lock)
	if statErr == nil && os.SameFile(before, after) && before.ModTime().Equal(after.ModTime()) {
		if err := os.Remove(lock); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return run()
}

package worktree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/ferry-fleet/ferry/internal/process"
)

// Scratch makes a directory below dir for files of the moment. Its name says which process it belongs to, so that
// SweepScratch finds what a killed one left.
func Scratch(dir, name string) (string, error) {
	pid := os.Getpid()
	made, err := os.MkdirTemp(dir, fmt.Sprintf("%s-%d-%d-", name, pid, process.StartMark(pid)))
	if err != nil {
		return "", fmt.Errorf("make a scratch directory: %w", err)
	}
	return made, nil
}

// SweepScratch removes the scratch directories below dir whose processes are gone. Others that use dir are left alone, and
// so is every directory that Scratch did not make.
func SweepScratch(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	failed := []error{err}
	for _, e := range entries {
		if e.IsDir() && abandoned(e.Name()) {
			failed = append(failed, removeTree(filepath.Join(dir, e.Name())))
		}
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("sweep %s: %w", dir, err)
	}
	return nil
}

// abandoned reports whether a name is one of Scratch and its process is gone. A pid alone may belong to another by now.
func abandoned(name string) bool {
	parts := strings.Split(name, "-")
	if len(parts) < 4 {
		return false
	}
	parts = parts[len(parts)-3:]
	pid, err := strconv.Atoi(parts[0])
	start, startErr := strconv.ParseUint(parts[1], 10, 64)
	if err != nil || startErr != nil || pid <= 0 {
		return false
	}
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || process.StartMark(pid) != start
}

package worktree

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// checkout is a work tree of the person's repository that has a branch checked out.
type checkout struct {
	Dir string `json:"dir"`
	Git string `json:"git"` // its own git directory, where its index is
}

// landing is the journal of one landing: what must be finished once the refs have moved.
type landing struct {
	Order     string       `json:"order"`
	Branch    string       `json:"branch"`
	Old       ferry.Commit `json:"old"`
	New       ferry.Commit `json:"new"`
	Checkouts []checkout   `json:"checkouts"`
}

// landingDir holds the journals, in the gate.
const landingDir = "landing"

func (g *Gate) journalFile(l landing) string {
	return filepath.Join(g.dir, landingDir, l.Order+".json")
}

// lockLanding lets one landing or repair at a time work on the journals. The lock ends with the process that holds it.
func (g *Gate) lockLanding(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(g.dir, landingDir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	wait := time.NewTicker(5 * time.Millisecond)
	defer wait.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil // closing is what unlocks
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock landings: %w", err), f.Close())
		}
		select {
		case <-wait.C:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for another landing: %w", context.Cause(ctx)), f.Close())
		}
	}
}

func (g *Gate) journal(l landing) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return atomicfile.Write(g.journalFile(l), data, 0o600)
}

func (g *Gate) forget(l landing) error {
	if err := os.Remove(g.journalFile(l)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// checkoutsOf returns the work trees of the person's repository, linked ones too, that have the branch checked out. A
// branch in the middle of a rebase or bisect there is ErrCheckedOut, because git will want to move it itself.
func (g *Gate) checkoutsOf(ctx context.Context, branch string) ([]checkout, error) {
	args := []string{"worktree", "list", "--porcelain"}
	separator := "\n"
	if g.git.atLeast(2, 36) {
		args, separator = append(args, "-z"), "\x00"
	}
	out, err := g.git.run(ctx, call{dir: g.common}, args...)
	if err != nil {
		return nil, err
	}
	var list []checkout
	for block := range strings.SplitSeq(out, separator+separator) {
		var dir, on string
		gone := false
		for line := range strings.SplitSeq(block, separator) {
			key, value, _ := strings.Cut(line, " ")
			switch key {
			case "worktree":
				dir = value
			case "branch":
				on = strings.TrimPrefix(value, "refs/heads/")
			case "bare", "prunable":
				gone = true
			}
		}
		if dir == "" || gone {
			continue
		}
		git, err := gitDirOf(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed by hand: nothing there can be wrong
		}
		if err != nil {
			return nil, err
		}
		if on == branch {
			list = append(list, checkout{Dir: dir, Git: git})
		} else if why := inProgress(git, branch); why != "" {
			return nil, fmt.Errorf("%w: a %s of it is unfinished in %s", ErrCheckedOut, why, dir)
		}
	}
	return list, nil
}

// gitDirOf returns the git directory of a work tree of the person's.
func gitDirOf(dir string) (string, error) {
	path := filepath.Join(dir, ".git")
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		return path, err
	}
	data, err := atomicfile.ReadBounded(path, 64<<10)
	if err != nil {
		return "", err
	}
	to, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "gitdir: ")
	if !ok {
		return "", fmt.Errorf("read %s: not a pointer to a git directory", path)
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(dir, to)
	}
	return to, nil
}

// inProgress says which unfinished operation of a work tree has taken hold of the branch, "" for none.
func inProgress(git, branch string) string {
	for name, file := range map[string]string{
		"rebase": "rebase-merge/head-name", "am or rebase": "rebase-apply/head-name", "bisect": "BISECT_START",
	} {
		data, err := atomicfile.ReadBounded(filepath.Join(git, file), 64<<10)
		if err == nil && strings.TrimPrefix(strings.TrimSpace(string(data)), "refs/heads/") == branch {
			return name
		}
	}
	return ""
}

// checkClean refuses a checkout that has changes to tracked files, or in which the landing would overwrite a file that
// git does not know. The dry run is the same merge that follow makes.
func (g *Gate) checkClean(ctx context.Context, c checkout, old, commit ferry.Commit) error {
	out, err := g.git.discover(ctx, c.Dir, "status", "--porcelain=v2", "-z", "--untracked-files=no", "--no-renames", "--ignore-submodules=all")
	if err != nil {
		return err
	}
	var b Base
	if err := b.parse(out); err != nil {
		return err
	}
	if b.Dirty {
		return fmt.Errorf("%w: %s: commit or stash %s", ErrDirty, c.Dir, shortList(b.DirtyPaths))
	}
	for _, name := range []string{"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply"} {
		if _, err := os.Lstat(filepath.Join(c.Git, name)); err == nil {
			return fmt.Errorf("%w: %s: an unfinished operation (%s)", ErrDirty, c.Dir, name)
		}
	}
	if _, err := os.Lstat(filepath.Join(c.Git, "index.lock")); err == nil {
		return fmt.Errorf("%w: %s: another git process is at work (%s)", ErrDirty, c.Dir, filepath.Join(c.Git, "index.lock"))
	}
	_, err = g.git.run(ctx, call{dir: c.Git, tree: c.Dir}, "read-tree", "-m", "-u", "--dry-run", string(old), string(commit))
	var ge *gitError
	if !errors.As(err, &ge) {
		return err
	}
	if m := inTheWay().FindStringSubmatch(ge.said); m != nil {
		return fmt.Errorf("%w: %s", ErrInTheWay, visible(filepath.Join(c.Dir, m[1]+m[2])))
	}
	return fmt.Errorf("%w: %s: %v", ErrDirty, c.Dir, err)
}

// inTheWay matches how git says that it would lose a file or a directory that it does not know.
func inTheWay() *regexp.Regexp {
	return regexp.MustCompile(`(?:Untracked working tree file '(.+)' would be |Updating '(.+)' would lose untracked files)`)
}

func shortList(paths []string) string {
	const most = 5
	var shown []string
	for _, p := range paths[:min(most, len(paths))] {
		shown = append(shown, visible(p))
	}
	text := strings.Join(shown, ", ")
	if len(paths) > most {
		text += fmt.Sprintf(" and %d more", len(paths)-most)
	}
	return text
}

// follow brings the checkouts of a landed branch along and then forgets the journal.
func (g *Gate) follow(ctx context.Context, l landing, crashed bool) error {
	for _, c := range l.Checkouts {
		if err := g.update(ctx, l, c, crashed); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrCheckout, c.Dir, err)
		}
	}
	return g.forget(l)
}

// RepairCheckout finishes what a crash left between a landing and its checkouts. It returns how many landings it
// finished; with nothing to do it reads one directory and runs no git.
func (g *Gate) RepairCheckout(ctx context.Context) (int, error) {
	entries, err := os.ReadDir(filepath.Join(g.dir, landingDir))
	if err != nil {
		return 0, fmt.Errorf("repair checkouts: %w", err)
	}
	if !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasSuffix(e.Name(), ".json") }) {
		return 0, nil
	}
	unlock, err := g.lockLanding(ctx)
	if err != nil {
		return 0, fmt.Errorf("repair checkouts: %w", err)
	}
	defer unlock()
	done := 0
	var failed []error
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		if err := g.repair(ctx, filepath.Join(g.dir, landingDir, e.Name())); err != nil {
			failed = append(failed, fmt.Errorf("repair checkout: %w", err))
			continue
		}
		done++
	}
	return done, errors.Join(failed...)
}

func (g *Gate) repair(ctx context.Context, path string) error {
	data, err := atomicfile.ReadBounded(path, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another process has finished it
	}
	if err != nil {
		return err
	}
	var l landing
	if err := json.Unmarshal(data, &l); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	order, err := ferry.ParseRecordID(l.Order)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	commit, landed, err := g.Landed(ctx, order)
	if err != nil {
		return err
	}
	if !landed || commit != l.New {
		return g.forget(l) // the crash came before the refs moved: nothing has landed
	}
	var still []checkout
	for _, c := range l.Checkouts {
		head, err := g.git.run(ctx, call{dir: c.Git}, "symbolic-ref", "--quiet", "HEAD")
		if exitCode(err) < 0 {
			return err
		}
		if strings.TrimSpace(head) == "refs/heads/"+l.Branch {
			still = append(still, c)
		}
	}
	l.Checkouts = still
	return g.follow(ctx, l, true)
}

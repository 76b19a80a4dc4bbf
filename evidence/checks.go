package evidence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/process"
	"github.com/ferry-fleet/ferry/internal/redact"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// DefaultCheckTimeout is how long one check may run where nothing else is said.
const DefaultCheckTimeout = 15 * time.Minute

// ChecksSpec says which commands to run on which commit, and in which box.
type ChecksSpec struct {
	Gate     *worktree.Gate
	Commands []string
	Commit   ferry.Commit
	// Dir is a scratch directory of this call alone; it is made when missing, emptied before and after each check,
	// and removed at the end.
	Dir string
	// Box is the template: level, network ("none" when empty), binds, environment, limits and mark are used as they
	// are; tree and state are filled in.
	Box box.Spec
	// Timeout ends one check; zero is DefaultCheckTimeout.
	Timeout time.Duration
	// Redactor cleans the output; nil knows only the patterns of common secrets.
	Redactor *redact.Redactor
	// Cache is what `prepare` downloaded; the zero value is none.
	Cache Cache
}

// RunChecks runs every command as `sh -c` on a fresh export of the commit, in
// a fresh box with empty build caches, one after the other, all of them even
// when one fails. A check that fails or runs too long is a Check; an error
// means that ferry itself could not run one, which says nothing of the commit.
func RunChecks(ctx context.Context, spec ChecksSpec) ([]ferry.Check, error) {
	spec = spec.withDefaults()
	defer os.Remove(spec.Dir) // where it is not empty, something is there that no check of this call made
	var out []ferry.Check
	for i, command := range spec.Commands {
		dir := filepath.Join(spec.Dir, strconv.Itoa(i+1))
		if err := removeTree(dir); err != nil {
			return nil, fmt.Errorf("run check `%s`: clear %s: %w", clip(command), dir, err)
		}
		c, err := spec.one(ctx, command, dir)
		if cleared := removeTree(dir); err == nil && cleared != nil {
			err = fmt.Errorf("clear %s: %w", dir, cleared)
		}
		if err != nil {
			return nil, fmt.Errorf("run check `%s` on %s: %w", clip(command), spec.Commit.Short(), err)
		}
		out = append(out, c)
	}
	return out, nil
}

func (s ChecksSpec) withDefaults() ChecksSpec {
	if s.Timeout <= 0 {
		s.Timeout = DefaultCheckTimeout
	}
	if s.Redactor == nil {
		s.Redactor = redact.New(nil)
	}
	if s.Box.Net == "" {
		s.Box.Net = "none"
	}
	return s
}

// one exports the commit to dir and runs one command there.
func (s ChecksSpec) one(ctx context.Context, command, dir string) (ferry.Check, error) {
	work, caches := filepath.Join(dir, "work"), filepath.Join(dir, "cache")
	for _, d := range []string{dir, caches} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return ferry.Check{}, err
		}
	}
	if err := s.Gate.Export(ctx, s.Commit, work); err != nil {
		return ferry.Check{}, err
	}
	if err := s.Cache.copyBuild(caches); err != nil {
		return ferry.Check{}, err
	}
	b := s.Box
	b.Work, b.WorkReadOnly, b.State = work, false, filepath.Join(dir, "box")
	b.Binds = slices.Concat([]box.Bind{{Host: caches, Write: true}, s.Gate.Bind()}, s.Cache.Binds(), b.Binds)
	b.Env = s.Cache.Environ(b.Env, caches)
	end, err := runBoxed(ctx, boxed{Box: b, Command: command, Timeout: s.Timeout, Redactor: s.Redactor})
	if err != nil {
		return ferry.Check{}, err
	}
	return ferry.Check{
		Command: command, Exit: end.exit, Tail: end.tail, Reason: end.reason, Millis: end.wall.Milliseconds(),
	}, nil
}

type boxed struct {
	Box      box.Spec
	Command  string
	Timeout  time.Duration
	Redactor *redact.Redactor
}

type ended struct {
	exit   int64
	tail   string
	reason string
	wall   time.Duration
}

// errCheckTimeout is the cause of a context that a check's clock has ended.
var errCheckTimeout = errors.New("the check's clock ran out")

// runBoxed runs one shell command in its box and keeps the end of its output.
func runBoxed(ctx context.Context, s boxed) (e ended, err error) {
	cmd, err := s.Box.Command([]string{"/bin/sh", "-c", s.Command})
	if err != nil {
		return ended{}, err
	}
	defer func() {
		if closed := cmd.Close(); err == nil {
			err = closed
		}
	}()
	keep := process.NewKeep(tailHead, ferry.MaxCheckTail-tailHead-tailGap)
	out := s.Redactor.Writer(keep)
	cmd.Spec.Stdout, cmd.Spec.Stderr = out, out
	run, cancel := context.WithTimeoutCause(ctx, s.Timeout, errCheckTimeout)
	defer cancel()
	exit, err := process.Run(run, cmd.Spec)
	timedOut := err != nil && errors.Is(context.Cause(run), errCheckTimeout) && ctx.Err() == nil
	if err != nil && !timedOut {
		return ended{}, err
	}
	if err := out.Close(); err != nil {
		return ended{}, err
	}
	e = ended{exit: int64(exit.Code), tail: bounded(string(keep.Bytes()), ferry.MaxCheckTail), wall: exit.Wall}
	switch {
	case timedOut:
		e.exit, e.reason = -1, fmt.Sprintf("it still ran after %s", s.Timeout)
	case exit.OOM:
		e.exit, e.reason = -1, "it used more memory than its box may"
	case exit.Code < 0:
		e.reason = exit.String()
	case exit.Code != 0:
		e.reason = Hint(e.tail)
	}
	return e, nil
}

// The tail of a check keeps a little of its beginning, where compilers report
// first, and leaves room for the line that counts what was left out.
const (
	tailHead = 512
	tailGap  = 64
)

// bounded makes valid, visible text of at most most bytes out of what a
// program printed; the end is what is kept.
func bounded(s string, most int) string {
	s = redact.Visible(strings.ToValidUTF8(s, "�"))
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[len(s)-most:], "")
}

// withEnv adds the entries of more whose names env does not hold. Those for
// which wins reports true take the place of what env holds.
func withEnv(env, more []string, wins func(entry string) bool) []string {
	won := map[string]bool{}
	for _, e := range more {
		if name, _, _ := strings.Cut(e, "="); wins(e) {
			won[name] = true
		}
	}
	var out []string
	have := map[string]bool{}
	for _, e := range env {
		if name, _, _ := strings.Cut(e, "="); !won[name] {
			have[name] = true
			out = append(out, e)
		}
	}
	for _, e := range more {
		if name, _, _ := strings.Cut(e, "="); !have[name] {
			out = append(out, e)
		}
	}
	return out
}

// removeTree removes dir whatever modes a check gave to what is in it.
func removeTree(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			return os.Chmod(path, 0o700) // before it is read, so that it can be
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(dir)
}

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
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/internal/box"
)

// SnapSpec says what to take and under which ref to keep it.
type SnapSpec struct {
	Tree *Tree
	// Ref is created and never moved: refs/ferry/attempts/<order>/<attempt>/<run>.
	Ref string
	// Parent is the commit that the snapshot follows; "" means the tree's base.
	Parent ferry.Commit
	// Message is the commit message; the subjects of the engine's own commits are added to it.
	Message string
	// Hide takes out of those subjects what may not be shown; nil takes out nothing.
	Hide func(string) string
	// Agent and When are written into the commit, so that the same files give the same commit again.
	Agent ferry.AgentName
	When  time.Time
	// Level is the box that git reads the files in; Mark names its processes for a sweep after a crash.
	Level  box.Level
	Mark   string
	Limits Limits
}

// Snap is what a snapshot found.
type Snap struct {
	// Commit is the parent itself when nothing has Changed.
	Commit  ferry.Commit
	Tree    ferry.Commit
	Changed bool
	// Skipped names what was left out, each as "path: why". It holds at most some two hundred lines.
	Skipped []string
	// Subjects are the first lines of the engine's own commits, oldest first.
	Subjects []string
}

// snapTime bounds one snapshot, whatever the tree holds.
const snapTime = 10 * time.Minute

// Snapshot keeps the files of a tree as one commit under a create-only ref of the gate. It may only be called when no
// process of the run lives. Repeating it with the same spec over the same files gives the same commit and is success.
func (g *Gate) Snapshot(ctx context.Context, spec SnapSpec) (Snap, error) {
	snap, err := g.snapshot(ctx, spec)
	if err != nil {
		dir := ""
		if spec.Tree != nil {
			dir = spec.Tree.dir
		}
		return snap, fmt.Errorf("snapshot %s: %w", dir, err)
	}
	return snap, nil
}

func (g *Gate) snapshot(ctx context.Context, spec SnapSpec) (Snap, error) {
	if spec.Tree == nil || badRef(spec.Ref) || !strings.HasPrefix(spec.Ref, "refs/ferry/") {
		return Snap{}, fmt.Errorf("a tree and a ref below refs/ferry/ are needed, not %q", spec.Ref)
	}
	if spec.Parent == "" {
		spec.Parent = spec.Tree.Base()
	}
	if _, err := ferry.ParseCommit(string(spec.Parent)); err != nil {
		return Snap{}, err
	}
	spec.Limits = spec.Limits.withDefaults()
	ctx, cancel := context.WithTimeoutCause(ctx, snapTime, fmt.Errorf("a snapshot may take %s", snapTime))
	defer cancel()

	s := &shot{gate: g, spec: spec, dir: filepath.Join(spec.Tree.dir, "snap"), refused: map[string]string{}}
	snap, err := s.take(ctx)
	if err != nil {
		return Snap{}, err
	}
	if err := g.keep(ctx, spec.Ref, snap.Commit); err != nil {
		return Snap{}, err
	}
	data, err := json.Marshal(saved{Ref: spec.Ref, Commit: snap.Commit})
	if err != nil {
		return Snap{}, err
	}
	if err := atomicfile.Write(spec.Tree.savedFile(), data, 0o600); err != nil {
		return Snap{}, err
	}
	return snap, nil
}

// saved remembers the last snapshot of a tree, so that Retire can prove that nothing is lost.
type saved struct {
	Ref    string       `json:"ref"`
	Commit ferry.Commit `json:"commit"`
}

// take walks the tree, and lets git make a commit of it. What git's checks refuse is left out by name and the rest is
// tried again: one hostile file must not cost the others. Git names only the first that it refuses; from the fourth try
// on all files of the kinds that it judges by their content are left out.
func (s *shot) take(ctx context.Context) (Snap, error) {
	const patience, tries = 4, 8
	for try := 1; ; try++ {
		snap, err := s.once(ctx)
		var refused *refusedError
		if err == nil || !errors.As(err, &refused) || try == tries {
			return snap, err
		}
		before := len(s.refused)
		for path, id := range s.ids {
			if why, ok := refused.objects[id]; ok {
				s.refused[path] = "refused by git: " + why
			} else if try >= patience && isJudged(filepath.Base(path)) {
				s.refused[path] = "refused by git: one of many such files"
			}
		}
		if len(s.refused) == before {
			return snap, err
		}
	}
}

// once is one try.
func (s *shot) once(ctx context.Context) (Snap, error) {
	if err := s.list(ctx); err != nil {
		return Snap{}, err
	}
	if len(s.fresh)+len(s.changed)+len(s.gone) == 0 && s.spec.Parent == s.spec.Tree.Base() {
		return s.unchanged(ctx)
	}
	if err := s.prepare(); err != nil {
		return Snap{}, err
	}
	defer s.clean()
	made, err := s.run(ctx)
	if err != nil {
		return Snap{}, err
	}
	if made.commit == s.spec.Parent {
		return s.unchanged(ctx)
	}
	if err := s.admit(ctx, made); err != nil {
		return Snap{}, err
	}
	return Snap{Commit: made.commit, Tree: made.tree, Changed: true, Skipped: s.walk.skipped.all(), Subjects: made.subjects}, nil
}

func (s *shot) unchanged(ctx context.Context) (Snap, error) {
	tree, found, err := s.gate.git.resolve(ctx, s.gate.dir, string(s.spec.Parent)+"^{tree}")
	if err != nil {
		return Snap{}, err
	}
	if !found {
		return Snap{}, fmt.Errorf("read %s: %w", s.spec.Parent, ErrUnknownRef)
	}
	return Snap{Commit: s.spec.Parent, Tree: tree, Skipped: s.walk.skipped.all()}, nil
}

// refusedError is a pack that git's strict checks refused, with the objects they named.
type refusedError struct {
	cause   error
	objects map[ferry.Commit]string
}

func (e *refusedError) Error() string { return e.cause.Error() }
func (e *refusedError) Unwrap() error { return e.cause }

var fsckLine = regexp.MustCompile(`object ([0-9a-f]{40,64}): ([A-Za-z]+)`)

// admit takes the pack into the gate, and makes sure that its commit is the one that was asked for.
func (s *shot) admit(ctx context.Context, made made) error {
	pack, err := os.OpenFile(filepath.Join(s.dir, "out", "pack"), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer pack.Close()
	g := s.gate
	most := s.spec.Limits.TotalBytes + int64(s.spec.Limits.Files)*1024
	_, err = g.git.run(ctx, call{dir: g.dir, in: pack}, "index-pack", "--strict", "--fix-thin", "--stdin",
		fmt.Sprintf("--max-input-size=%d", most))
	var ge *gitError
	if errors.As(err, &ge) {
		refused := &refusedError{cause: err, objects: map[ferry.Commit]string{}}
		for _, m := range fsckLine.FindAllStringSubmatch(ge.said, -1) {
			refused.objects[ferry.Commit(m[1])] = m[2]
		}
		return refused
	}
	if err != nil {
		return err
	}
	raw, err := g.git.run(ctx, call{dir: g.dir}, "cat-file", "commit", string(made.commit))
	if err != nil {
		return err
	}
	if want := fmt.Sprintf("tree %s\nparent %s\nauthor ", made.tree, s.spec.Parent); !strings.HasPrefix(raw, want) {
		return fmt.Errorf("the commit %s is not the one that was made", made.commit)
	}
	return nil
}

// keep creates a ref of the gate, or finds it at the same commit.
func (g *Gate) keep(ctx context.Context, ref string, commit ferry.Commit) error {
	err := unlocked(ctx, g.dir, ref, func() error {
		in := strings.NewReader("create " + ref + " " + string(commit) + "\n")
		_, err := g.git.run(ctx, call{dir: g.dir, in: in}, "update-ref", "--stdin")
		return err
	})
	if err == nil {
		return nil
	}
	there, found, resolveErr := g.git.resolve(ctx, g.dir, ref)
	switch {
	case resolveErr != nil:
		return resolveErr
	case !found:
		return err
	case there != commit:
		return fmt.Errorf("keep %s as %s: %w: %s", commit, ref, ErrRefExists, there)
	}
	return nil
}

// IsBranchName reports whether a branch may have that name. What git reads as an expression, such as main^{} or main@{1}, is
// none.
func IsBranchName(name string) bool { return !badRef("refs/heads/" + name) }

// badRef refuses what git refuses as a ref name, and a little more.
func badRef(ref string) bool {
	if !strings.HasPrefix(ref, "refs/") || strings.HasSuffix(ref, "/") || len(ref) > 400 {
		return true
	}
	for part := range strings.SplitSeq(ref, "/") {
		if part == "" || part[0] == '.' || part[0] == '-' || strings.HasSuffix(part, ".") || strings.HasSuffix(part, ".lock") || part == "@" {
			return true
		}
	}
	if strings.Contains(ref, "..") || strings.Contains(ref, "@{") {
		return true
	}
	return strings.ContainsFunc(ref, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r) })
}

// Saved returns the commit and the ref of the last snapshot of a tree, and whether there is one.
func (t *Tree) Saved() (commit ferry.Commit, ref string, ok bool, err error) {
	data, err := atomicfile.ReadBounded(t.savedFile(), 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", false, nil
	}
	if err != nil {
		return "", "", false, fmt.Errorf("read snapshot of %s: %w", t.dir, err)
	}
	var s saved
	if err := json.Unmarshal(data, &s); err != nil {
		return "", "", false, fmt.Errorf("read snapshot of %s: %w", t.dir, err)
	}
	return s.Commit, s.Ref, true, nil
}

package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/internal/box"
)

// GateSpec says which gate to open for which repository.
type GateSpec struct {
	// Dir is the gate's directory in ferry's state; it is created when missing.
	Dir string
	// Repo is the person's repository: a work tree, a directory in one, or a bare repository.
	Repo string
	// Git is the git program; "" means the first one in the usual places.
	Git string
	Log *slog.Logger
}

// Gate is ferry's bare repository of one project, and the way to the person's repository. Its methods may be used by
// several goroutines and processes at the same time.
type Gate struct {
	dir    string
	git    program
	common string // the person's common git directory
	top    string // the person's work tree that was named, "" for a bare repository
	format string // sha1 or sha256
	log    *slog.Logger
}

// OpenGate opens the gate of a repository and creates it when it is missing. It refuses what is not a git repository, a
// repository without a commit, and a git that is too old.
func OpenGate(ctx context.Context, spec GateSpec) (*Gate, error) {
	if spec.Log == nil {
		spec.Log = slog.New(slog.DiscardHandler)
	}
	dir, err := filepath.Abs(spec.Dir)
	if err != nil {
		return nil, fmt.Errorf("open gate: %w", err)
	}
	if strings.ContainsAny(dir, "\n\x00") {
		return nil, fmt.Errorf("open gate %q: the path may not hold a line break", dir)
	}
	g := &Gate{dir: dir, log: spec.Log}
	if g.git, err = findGit(ctx, spec.Git); err != nil {
		return nil, fmt.Errorf("open gate: %w", err)
	}
	if err := g.findRepository(ctx, spec.Repo); err != nil {
		return nil, err
	}
	if err := g.create(ctx); err != nil {
		return nil, fmt.Errorf("open gate %s: %w", dir, err)
	}
	return g, nil
}

// findRepository asks git where the person's repository is, and whether it holds a commit.
func (g *Gate) findRepository(ctx context.Context, repo string) error {
	repo, err := filepath.Abs(repo)
	if err != nil {
		return fmt.Errorf("open repository: %w", err)
	}
	if info, err := os.Stat(repo); err != nil || !info.IsDir() {
		return fmt.Errorf("open repository %s: %w: no such directory", repo, ErrNotRepository)
	}
	out, err := g.git.discover(ctx, repo, "rev-parse", "--path-format=absolute", "--git-common-dir", "--is-bare-repository",
		"--is-inside-work-tree", "--show-object-format")
	if err != nil {
		hint := "run `git init` and `git commit` there, or name another directory"
		if strings.Contains(err.Error(), "dubious ownership") {
			hint = "it belongs to another user; run ferry as that user"
		}
		return fmt.Errorf("open repository %s: %w (%v): %s", repo, ErrNotRepository, err, hint)
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(lines) != 4 {
		return fmt.Errorf("open repository %s: %w: git answers %q", repo, ErrNotRepository, out)
	}
	g.common, g.format = filepath.Clean(lines[0]), lines[3]
	if lines[2] == "true" {
		top, err := g.git.discover(ctx, repo, "rev-parse", "--path-format=absolute", "--show-toplevel")
		if err != nil {
			return fmt.Errorf("open repository %s: %w", repo, err)
		}
		g.top = strings.TrimSuffix(top, "\n")
	} else if lines[1] != "true" {
		return fmt.Errorf("open repository %s: %w: it is inside a git directory, not a work tree", repo, ErrNotRepository)
	}
	found, err := g.git.run(ctx, call{dir: g.common}, "rev-list", "-n", "1", "--all", "HEAD")
	if err != nil && exitCode(err) < 0 {
		return fmt.Errorf("open repository %s: %w", repo, err)
	}
	if strings.TrimSpace(found) != "" {
		return nil
	}
	// An unborn HEAD makes the first question an error, though other branches may hold commits.
	found, err = g.git.run(ctx, call{dir: g.common}, "rev-list", "-n", "1", "--all")
	if err != nil {
		return fmt.Errorf("open repository %s: %w", repo, err)
	}
	if strings.TrimSpace(found) == "" {
		return fmt.Errorf("open repository %s: %w", repo, ErrEmptyRepository)
	}
	return nil
}

// create makes the gate beside its final place and moves it there whole, so that a crash never leaves half a gate.
func (g *Gate) create(ctx context.Context) error {
	if _, err := os.Lstat(filepath.Join(g.dir, "HEAD")); err == nil {
		return g.checkFormat()
	}
	if err := atomicfile.MkdirAll(filepath.Dir(g.dir), 0o700); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(filepath.Dir(g.dir), ".gate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if _, err := g.git.run(ctx, call{dir: temp}, "init", "--quiet", "--bare", "--template=", "--object-format="+g.format); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(temp, "info"), 0o700); err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(temp, "info", "attributes"), []byte(rawAttributes), 0o600); err != nil {
		return err
	}
	if err := atomicfile.MkdirAll(filepath.Join(temp, landingDir), 0o700); err != nil {
		return err
	}
	err = os.Rename(temp, g.dir)
	if errors.Is(err, fs.ErrExist) {
		return g.checkFormat() // another process was quicker
	}
	return err
}

// checkFormat refuses a gate whose objects are named with another hash than the person's repository.
func (g *Gate) checkFormat() error {
	config, err := atomicfile.ReadBounded(filepath.Join(g.dir, "config"), 1<<20)
	if err != nil {
		return err
	}
	if strings.Contains(strings.ToLower(string(config)), "sha256") != (g.format == "sha256") {
		return fmt.Errorf("the gate was made for another object format than %s; move it away and try again", g.format)
	}
	return nil
}

// discover runs git in a directory of the person's and lets it find the repository.
func (p program) discover(ctx context.Context, dir string, args ...string) (string, error) {
	return p.output(ctx, []string{p.path, "-C", dir}, call{tree: "/"}, args)
}

// Dir returns the gate's directory, a bare repository that may be read with gitfacts.
func (g *Gate) Dir() string { return g.dir }

// Objects returns the absolute path of the gate's objects.
func (g *Gate) Objects() string { return filepath.Join(g.dir, "objects") }

// Bind returns what a box must see to use a repository that borrows the gate's objects.
func (g *Gate) Bind() box.Bind { return box.Bind{Host: g.Objects()} }

// Base is the commit that work starts from, and what the person's checkout holds beside it.
type Base struct {
	// Branch is the branch's name; "" when Detached.
	Branch   string
	Commit   ferry.Commit
	Detached bool
	// Dirty reports changes to tracked files of the person's checkout; a run does not see them. DirtyPaths names up to
	// 100 of them, and Untracked up to 100 files that git does not know and does not ignore.
	Dirty      bool
	DirtyPaths []string
	Untracked  []string
}

// Base returns the commit of the person's HEAD, or of the branch, tag or commit that ref names. It changes neither
// their checkout nor their index.
func (g *Gate) Base(ctx context.Context, ref string) (Base, error) {
	var b Base
	if err := g.status(ctx, &b); err != nil {
		return b, fmt.Errorf("read the checkout %s: %w", g.top, err)
	}
	if ref == "" {
		if b.Commit == "" {
			return b, fmt.Errorf("HEAD of %s: %w", g.common, ErrEmptyRepository)
		}
		return b, nil
	}
	b.Branch, b.Detached = strings.TrimPrefix(ref, "refs/heads/"), false
	commit, found, err := g.git.resolve(ctx, g.common, "refs/heads/"+b.Branch+"^{commit}")
	if err != nil {
		return b, fmt.Errorf("read branch %q: %w", b.Branch, err)
	}
	if !found && !strings.HasPrefix(ref, "-") {
		b.Branch, b.Detached = "", true
		if commit, found, err = g.git.resolve(ctx, g.common, ref+"^{commit}"); err != nil {
			return b, fmt.Errorf("read %q: %w", ref, err)
		}
	}
	if !found {
		return b, fmt.Errorf("read %q in %s: %w", ref, g.common, ErrUnknownRef)
	}
	b.Commit = commit
	return b, nil
}

// status fills b from the person's checkout. A bare repository has a HEAD but nothing that can be dirty.
func (g *Gate) status(ctx context.Context, b *Base) error {
	if g.top == "" {
		out, err := g.git.run(ctx, call{dir: g.common}, "symbolic-ref", "--quiet", "HEAD")
		if exitCode(err) < 0 {
			return err
		}
		b.Branch = strings.TrimPrefix(strings.TrimSpace(out), "refs/heads/")
		b.Detached = b.Branch == ""
		commit, found, err := g.git.resolve(ctx, g.common, "HEAD^{commit}")
		if found {
			b.Commit = commit
		}
		return err
	}
	out, err := g.git.discover(ctx, g.top, "status", "--porcelain=v2", "-z", "--branch", "--untracked-files=normal",
		"--no-renames", "--ignore-submodules=all")
	if err != nil {
		return err
	}
	return b.parse(out)
}

// parse reads `git status --porcelain=v2 -z --branch`.
func (b *Base) parse(out string) error {
	const most = 100
	for _, line := range nulFields(out) {
		kind, rest, _ := strings.Cut(line, " ")
		switch kind {
		case "#":
			name, value, _ := strings.Cut(rest, " ")
			switch {
			case name == "branch.oid" && value != "(initial)":
				commit, err := ferry.ParseCommit(value)
				if err != nil {
					return err
				}
				b.Commit = commit
			case name == "branch.head":
				if b.Detached = value == "(detached)"; !b.Detached {
					b.Branch = value
				}
			}
		case "1", "u":
			b.Dirty = true
			fields := map[string]int{"1": 8, "u": 10}[kind]
			if parts := strings.SplitN(line, " ", fields+1); len(parts) == fields+1 && len(b.DirtyPaths) < most {
				b.DirtyPaths = append(b.DirtyPaths, parts[fields])
			}
		case "?":
			if len(b.Untracked) < most {
				b.Untracked = append(b.Untracked, rest)
			}
		}
	}
	return nil
}

func baseRef(commit ferry.Commit) string { return "refs/ferry/bases/" + string(commit) }

// Import brings commit and its history from the person's repository into the gate, checked strictly, and pins it there.
// It costs nothing when the commit is there already.
func (g *Gate) Import(ctx context.Context, commit ferry.Commit) error {
	if _, err := ferry.ParseCommit(string(commit)); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	if g.pinned(ctx, commit) {
		return nil
	}
	c := call{dir: g.dir}
	for _, fault := range tolerated {
		c.set = append(c.set, "fetch.fsck."+fault+"=ignore")
	}
	err := unlocked(ctx, g.dir, baseRef(commit), func() error {
		_, err := g.git.run(ctx, c, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--update-shallow", "--no-auto-gc",
			"--end-of-options", g.common, string(commit)+":"+baseRef(commit))
		return err
	})
	if err != nil && !g.pinned(ctx, commit) {
		return fmt.Errorf("import %s from %s: %w", commit, g.common, err)
	}
	return nil
}

// pinned reports whether the commit has its base ref. The loose file is looked for first because it costs no process.
func (g *Gate) pinned(ctx context.Context, commit ferry.Commit) bool {
	if _, err := os.Lstat(filepath.Join(g.dir, filepath.FromSlash(baseRef(commit)))); err == nil {
		return true
	}
	_, found, err := g.git.resolve(ctx, g.dir, baseRef(commit))
	return err == nil && found
}

// Has reports whether the gate holds the commit.
func (g *Gate) Has(ctx context.Context, commit ferry.Commit) bool {
	_, err := g.git.run(ctx, call{dir: g.dir}, "cat-file", "-e", string(commit)+"^{commit}")
	return err == nil
}

package worktree

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/internal/box"
)

// What a tree's commits say about who made them, when the engine sets nothing else.
const (
	agentName  = "ferry agent"
	agentEmail = "agent@ferry.invalid"
)

// TreeSpec says where to make a tree and what to check out.
type TreeSpec struct {
	// Dir is the run's directory; it must not exist or be empty.
	Dir string
	// Commit is what the tree begins with; the gate must hold it.
	Commit ferry.Commit
}

// Tree is the git worktree of one run.
type Tree struct {
	dir  string
	memo memo
}

// memo is what ferry remembers about a tree, out of reach of the engine.
type memo struct {
	Base    ferry.Commit `json:"base"`
	Objects string       `json:"objects"` // borrowed
}

// NewTree makes a tree with one git process: the private repository is written as files, and git only checks out. A
// directory that is half made by a crash is no tree; Retire removes it.
func (g *Gate) NewTree(ctx context.Context, spec TreeSpec) (*Tree, error) {
	dir, err := filepath.Abs(spec.Dir)
	if err != nil {
		return nil, fmt.Errorf("make tree: %w", err)
	}
	if _, err := ferry.ParseCommit(string(spec.Commit)); err != nil {
		return nil, fmt.Errorf("make tree %s: %w", dir, err)
	}
	t := &Tree{dir: dir, memo: memo{Base: spec.Commit, Objects: g.Objects()}}
	if err := t.makeDirs(); err != nil {
		return nil, fmt.Errorf("make tree %s: %w", dir, err)
	}
	if err := g.fillRepository(t); err != nil {
		return nil, fmt.Errorf("make tree %s: %w", dir, err)
	}
	if err := g.checkout(ctx, spec.Commit, t.Work(), t.index()); err != nil {
		return nil, fmt.Errorf("make tree %s: %w", dir, err)
	}
	if err := t.finish(); err != nil {
		return nil, fmt.Errorf("make tree %s: %w", dir, err)
	}
	return t, nil
}

func (t *Tree) makeDirs() error {
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("the directory is not empty: %w", fs.ErrExist)
	}
	for _, d := range []string{"host", "work", "repo.git/objects/info", "repo.git/objects/pack", "repo.git/refs/heads",
		"repo.git/refs/tags", "repo.git/info", "repo.git/worktrees/work"} {
		if err := os.MkdirAll(filepath.Join(t.dir, d), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// fillRepository writes the private repository. Every path in it is relative, so that it is the same repository at
// <run>/repo.git and at /repo.git in a box.
func (g *Gate) fillRepository(t *Tree) error {
	repo := t.Repo()
	files := map[string]string{
		filepath.Join(repo, "HEAD"):                           "ref: refs/heads/ferry\n",
		filepath.Join(repo, "config"):                         g.config(true),
		filepath.Join(repo, "info", "attributes"):             rawAttributes,
		filepath.Join(repo, "objects", "info", "alternates"):  g.Objects() + "\n",
		filepath.Join(repo, "refs", "heads", "ferry"):         string(t.memo.Base) + "\n",
		filepath.Join(repo, "worktrees", "work", "HEAD"):      "ref: refs/heads/ferry\n",
		filepath.Join(repo, "worktrees", "work", "commondir"): "../..\n",
		filepath.Join(repo, "worktrees", "work", "gitdir"):    "../../../work/.git\n",
		filepath.Join(repo, "worktrees", "work", "locked"):    "in use by a run\n",
	}
	if err := g.copyShallow(files, repo); err != nil {
		return err
	}
	return writeAll(files)
}

// copyShallow lets a repository that borrows the gate's objects know where the history was cut, if it was.
func (g *Gate) copyShallow(files map[string]string, repo string) error {
	shallow, err := atomicfile.ReadBounded(filepath.Join(g.dir, "shallow"), 16<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	files[filepath.Join(repo, "shallow")] = string(shallow)
	return err
}

// config is the configuration of a repository that ferry makes for others.
func (g *Gate) config(bare bool) string {
	version, extension := 0, ""
	if g.format == "sha256" {
		version, extension = 1, "[extensions]\n\tobjectFormat = sha256\n"
	}
	return fmt.Sprintf(`[core]
	repositoryFormatVersion = %d
	bare = %t
	logAllRefUpdates = true
	hooksPath = /dev/null
	fsmonitor = false
	untrackedCache = false
	attributesFile = /dev/null
[user]
	name = %s
	email = %s
[commit]
	gpgSign = false
[tag]
	gpgSign = false
[gc]
	auto = 0
[maintenance]
	auto = false
%s`, version, bare, agentName, agentEmail, extension)
}

// checkout writes the files of a commit to dir, which is empty, and the index that goes with them. Attributes are off.
func (g *Gate) checkout(ctx context.Context, commit ferry.Commit, dir, index string) error {
	_, err := g.git.run(ctx, call{dir: g.dir, tree: dir, index: index, set: []string{"core.bare=false"}},
		"read-tree", "--reset", "-u", "--end-of-options", string(commit))
	return err
}

// finish writes the engine's index, the pointer to the private repository, and last the memo that makes it a tree.
func (t *Tree) finish() error {
	index, err := atomicfile.ReadBounded(t.index(), indexLimit)
	if err != nil {
		return err
	}
	data, err := json.Marshal(t.memo)
	if err != nil {
		return err
	}
	if err := writeAll(map[string]string{
		filepath.Join(t.Repo(), "worktrees", "work", "index"): string(index),
		filepath.Join(t.Work(), ".git"):                       pointer,
	}); err != nil {
		return err
	}
	return atomicfile.Write(t.memoFile(), data, 0o600)
}

// pointer is the content of the .git file of every tree.
const pointer = "gitdir: ../repo.git/worktrees/work\n"

// OpenTree opens a tree that NewTree made, after a restart.
func OpenTree(dir string) (*Tree, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open tree: %w", err)
	}
	t := &Tree{dir: dir}
	data, err := atomicfile.ReadBounded(t.memoFile(), 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open tree %s: %w", dir, ErrBroken)
	}
	if err != nil {
		return nil, fmt.Errorf("open tree %s: %w", dir, err)
	}
	if err := json.Unmarshal(data, &t.memo); err != nil {
		return nil, fmt.Errorf("open tree %s: %w: %v", dir, ErrBroken, err)
	}
	if _, err := ferry.ParseCommit(string(t.memo.Base)); err != nil {
		return nil, fmt.Errorf("open tree %s: %w: %v", dir, ErrBroken, err)
	}
	return t, nil
}

// Dir returns the run's directory.
func (t *Tree) Dir() string { return t.dir }

// Work returns the directory that the engine works in.
func (t *Tree) Work() string { return filepath.Join(t.dir, "work") }

// Repo returns the private repository.
func (t *Tree) Repo() string { return filepath.Join(t.dir, "repo.git") }

// Base returns the commit that the tree began with.
func (t *Tree) Base() ferry.Commit { return t.memo.Base }

// Binds returns what a box must see beside Work: the private repository, writable, and the borrowed objects.
func (t *Tree) Binds() []box.Bind {
	return []box.Bind{
		{Host: t.Repo(), Path: "/repo.git", Write: true},
		{Host: t.memo.Objects},
	}
}

func (t *Tree) host(name string) string { return filepath.Join(t.dir, "host", name) }
func (t *Tree) memoFile() string        { return t.host("tree.json") }
func (t *Tree) savedFile() string       { return t.host("saved.json") }
func (t *Tree) index() string           { return t.host("index") }

// Export writes the files of a commit to dir, which must not exist or be empty, with a git repository of their own at
// that commit. The repository borrows the gate's objects: a box shows them read-only with Bind. Nothing else is shared.
func (g *Gate) Export(ctx context.Context, commit ferry.Commit, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if err := g.export(ctx, commit, dir); err != nil {
		return fmt.Errorf("export %s to %s: %w", commit.Short(), dir, err)
	}
	return nil
}

func (g *Gate) export(ctx context.Context, commit ferry.Commit, dir string) error {
	if _, err := ferry.ParseCommit(string(commit)); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		return errors.Join(err, fmt.Errorf("the directory is not empty: %w", fs.ErrExist))
	}
	repo := filepath.Join(dir, ".git")
	for _, d := range []string{"objects/info", "objects/pack", "refs/heads", "refs/tags", "info"} {
		if err := os.MkdirAll(filepath.Join(repo, d), 0o700); err != nil {
			return err
		}
	}
	files := map[string]string{
		filepath.Join(repo, "HEAD"):                          "ref: refs/heads/ferry\n",
		filepath.Join(repo, "config"):                        g.config(false),
		filepath.Join(repo, "info", "attributes"):            rawAttributes,
		filepath.Join(repo, "objects", "info", "alternates"): g.Objects() + "\n",
		filepath.Join(repo, "refs", "heads", "ferry"):        string(commit) + "\n",
	}
	if err := g.copyShallow(files, repo); err != nil {
		return err
	}
	if err := writeAll(files); err != nil {
		return err
	}
	return g.checkout(ctx, commit, dir, filepath.Join(repo, "index"))
}

// writeAll writes files that did not exist. They need no fsync: a tree is known by its memo, which is written last.
func writeAll(files map[string]string) error {
	for path, content := range files {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = f.WriteString(content)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

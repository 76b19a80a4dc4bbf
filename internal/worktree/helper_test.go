package worktree_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

var when = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// person is a person's repository with a first commit, and the gate that ferry keeps for it.
type person struct {
	t    testing.TB
	dir  string
	gate *worktree.Gate
	head ferry.Commit
	root string
}

// git runs the machine's git as a person does, without the configuration of this machine's user.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=maintenance.auto", "GIT_CONFIG_VALUE_0=false", "GIT_CONFIG_KEY_1=core.fsync", "GIT_CONFIG_VALUE_1=none",
		"GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func newPerson(t testing.TB, files map[string]string) *person {
	t.Helper()
	root := t.TempDir()
	p := &person{t: t, root: root, dir: filepath.Join(root, "project")}
	git(t, root, "init", "-q", "-b", "main", "project")
	if files == nil {
		files = map[string]string{"README.md": "hello\n", "src/a.go": "package a\n", "src/b.go": "package a\n\nvar B = 1\n"}
	}
	for name, content := range files {
		write(t, filepath.Join(p.dir, name), content)
	}
	p.commit("first")
	p.gate = p.open()
	return p
}

// in gives the person for a subtest, which fails by itself.
func (p *person) in(t testing.TB) *person {
	q := *p
	q.t = t
	return &q
}

func (p *person) open() *worktree.Gate {
	p.t.Helper()
	gate, err := worktree.OpenGate(context.Background(), worktree.GateSpec{Dir: filepath.Join(p.root, "state", "gate.git"), Repo: p.dir})
	if err != nil {
		p.t.Fatal(err)
	}
	return gate
}

func (p *person) commit(message string) ferry.Commit {
	p.t.Helper()
	git(p.t, p.dir, "add", "-A")
	git(p.t, p.dir, "commit", "-q", "-m", message)
	p.head = ferry.Commit(git(p.t, p.dir, "rev-parse", "HEAD"))
	return p.head
}

func (p *person) tree(name string) *worktree.Tree {
	p.t.Helper()
	if err := p.gate.Import(context.Background(), p.head); err != nil {
		p.t.Fatal(err)
	}
	tree, err := p.gate.NewTree(context.Background(), worktree.TreeSpec{Dir: filepath.Join(p.root, "runs", name), Commit: p.head})
	if err != nil {
		p.t.Fatal(err)
	}
	return tree
}

func snapSpec(tree *worktree.Tree, level box.Level) worktree.SnapSpec {
	name := filepath.Base(tree.Dir())
	return worktree.SnapSpec{Tree: tree, Ref: "refs/ferry/attempts/" + strings.Repeat("a", 64) + "/1/" + name,
		Message: "Work on t-first", Agent: "wisp", When: when, Level: level}
}

func (p *person) snapshot(spec worktree.SnapSpec) worktree.Snap {
	p.t.Helper()
	snap, err := p.gate.Snapshot(context.Background(), spec)
	if err != nil {
		p.t.Fatal(err)
	}
	return snap
}

// listing is what a commit holds, as "mode path" lines.
func (p *person) listing(commit ferry.Commit) string {
	p.t.Helper()
	var lines []string
	for _, entry := range strings.Split(git(p.t, p.gate.Dir(), "ls-tree", "-r", "-z", string(commit)), "\x00") {
		if meta, name, ok := strings.Cut(entry, "\t"); ok {
			lines = append(lines, fmt.Sprintf("%s %q", strings.Fields(meta)[0], name))
		}
	}
	return strings.Join(lines, "\n")
}

func (p *person) show(commit ferry.Commit, path string) string {
	p.t.Helper()
	return git(p.t, p.gate.Dir(), "show", string(commit)+":"+path)
}

// fingerprint is a hash over every file, link, mode and modification time below a directory.
func fingerprint(t testing.TB, dir string) string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%q %v", path, info.Mode())
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %x %v", sha256.Sum256(data), info.ModTime())
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:])
}

// levels are the boxes that this machine can build; "none" is always one.
func levels(t testing.TB) []box.Level {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		return []box.Level{box.LevelNone}
	}
	if testing.Short() {
		return []box.Level{box.LevelBwrap}
	}
	return []box.Level{box.LevelBwrap, box.LevelNone}
}

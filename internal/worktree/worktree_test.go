package worktree_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

func TestOpenGateRefuses(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	empty := filepath.Join(root, "empty")
	git(t, root, "init", "-q", empty)
	if err := os.Mkdir(filepath.Join(root, "plain"), 0o755); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(root, "oldgit")
	if err := os.WriteFile(old, []byte("#!/bin/sh\necho git version 2.20.1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		spec worktree.GateSpec
		want error
		says string
	}{
		{"no directory", worktree.GateSpec{Repo: filepath.Join(root, "none")}, worktree.ErrNotRepository, "no such directory"},
		{"no repository", worktree.GateSpec{Repo: filepath.Join(root, "plain")}, worktree.ErrNotRepository, "git init"},
		{"no commit", worktree.GateSpec{Repo: empty}, worktree.ErrEmptyRepository, "git commit"},
		{"inside .git", worktree.GateSpec{Repo: filepath.Join(empty, ".git")}, worktree.ErrNotRepository, "inside a git directory"},
		{"old git", worktree.GateSpec{Repo: empty, Git: old}, worktree.ErrOldGit, "2.20"},
		{"no git", worktree.GateSpec{Repo: empty, Git: filepath.Join(root, "nothing")}, worktree.ErrNoGit, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.spec.Dir = filepath.Join(root, "gate.git")
			_, err := worktree.OpenGate(t.Context(), tt.spec)
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("OpenGate() = %v, want %v with %q", err, tt.want, tt.says)
			}
			if _, err := os.Lstat(tt.spec.Dir); err == nil {
				t.Error("a refused repository left a gate behind")
			}
		})
	}
}

func TestBase(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	git(t, p.dir, "branch", "side")
	write(t, filepath.Join(p.dir, "README.md"), "changed\n")
	write(t, filepath.Join(p.dir, "new file"), "x")
	before := fingerprint(t, p.dir)
	got, err := p.gate.Base(t.Context(), "")
	want := worktree.Base{Branch: "main", Commit: p.head, Dirty: true, DirtyPaths: []string{"README.md"}, Untracked: []string{"new file"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Base(HEAD): %v\n%s", err, diff)
	}
	if got, err := p.gate.Base(t.Context(), "side"); err != nil || got.Branch != "side" || got.Commit != p.head || got.Detached {
		t.Errorf("Base(side) = %+v, %v", got, err)
	}
	if got, err := p.gate.Base(t.Context(), string(p.head)); err != nil || !got.Detached || got.Commit != p.head {
		t.Errorf("Base(commit) = %+v, %v", got, err)
	}
	for _, ref := range []string{"nothing", "--all", "-x", "HEAD:README.md"} {
		if got, err := p.gate.Base(t.Context(), ref); !errors.Is(err, worktree.ErrUnknownRef) {
			t.Errorf("Base(%q) = %+v, %v; want ErrUnknownRef", ref, got, err)
		}
	}
	if after := fingerprint(t, p.dir); after != before {
		t.Error("Base changed the person's repository")
	}
	git(t, p.dir, "checkout", "-q", "--detach", "-f")
	if got, err := p.gate.Base(t.Context(), ""); err != nil || !got.Detached || got.Branch != "" {
		t.Errorf("Base(detached HEAD) = %+v, %v", got, err)
	}
}

func TestImportUnreachableAndTwice(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	write(t, filepath.Join(p.dir, "later"), "x")
	lost := p.commit("later")
	git(t, p.dir, "reset", "-q", "--hard", "HEAD~1") // the commit is in no branch any more
	for range 2 {
		if err := p.gate.Import(t.Context(), lost); err != nil {
			t.Fatal(err)
		}
	}
	if !p.gate.Has(t.Context(), lost) {
		t.Error("the gate does not hold the commit")
	}
	missing := ferry.Commit(strings.Repeat("12", 20))
	if err := p.gate.Import(t.Context(), missing); err == nil || p.gate.Has(t.Context(), missing) {
		t.Errorf("Import(missing) = %v", err)
	}
}

func TestTreeWorksWithGitOnTheHostAndAfterRestart(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	tree := p.tree("r1")
	if got := git(t, tree.Work(), "status", "--porcelain"); got != "" {
		t.Errorf("a new tree is not clean: %s", got)
	}
	if got := git(t, tree.Work(), "symbolic-ref", "HEAD"); got != "refs/heads/ferry" {
		t.Errorf("HEAD = %s", got)
	}
	if got := git(t, tree.Work(), "remote"); got != "" {
		t.Errorf("remotes: %s", got)
	}
	write(t, filepath.Join(tree.Work(), "x"), "1")
	git(t, tree.Work(), "add", "x")
	git(t, tree.Work(), "commit", "-q", "-m", "engine works")
	git(t, tree.Work(), "gc", "-q")
	again, err := worktree.OpenTree(tree.Dir())
	if err != nil || again.Base() != p.head || again.Work() != tree.Work() {
		t.Errorf("OpenTree() = %+v, %v", again, err)
	}
	if _, err := worktree.OpenTree(t.TempDir()); !errors.Is(err, worktree.ErrBroken) {
		t.Errorf("OpenTree(empty) = %v", err)
	}
	if _, err := p.gate.NewTree(t.Context(), worktree.TreeSpec{Dir: tree.Dir(), Commit: p.head}); err == nil {
		t.Error("NewTree took a directory that is in use")
	}
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	for _, level := range levels(t) {
		t.Run(string(level), func(t *testing.T) {
			p := newPerson(t, map[string]string{
				"README.md": "hello\n", "src/a.go": "package a\n", "src/b.go": "b\n", "gone": "x", "becomes/dir": "f", "run.sh": "#!/bin/sh\n",
				".gitignore": "*.log\n/build/\n", "kept.log": "forced\n",
			})
			git(t, p.dir, "add", "-f", "kept.log")
			p.commit("ignored but tracked")
			tree := p.tree("r1")
			w := tree.Work()
			write(t, filepath.Join(w, "README.md"), "HELLO\n") // same size
			write(t, filepath.Join(w, "kept.log"), "changed\n")
			write(t, filepath.Join(w, "new/deep/file"), "new\n")
			write(t, filepath.Join(w, "debug.log"), "ignored\n")
			write(t, filepath.Join(w, "build/out"), "ignored\n")
			write(t, filepath.Join(w, "src/build/out"), "kept: the pattern is anchored\n")
			git(t, w, "add", "README.md")
			git(t, w, "commit", "-q", "-m", "say hello\n\nlouder", "-m", "more")
			git(t, w, "checkout", "-q", "-b", "other")
			git(t, w, "commit", "-q", "--allow-empty", "-m", "second \x1b[31mred")
			must(t, os.Remove(filepath.Join(w, "gone")))
			must(t, os.RemoveAll(filepath.Join(w, "becomes")))
			write(t, filepath.Join(w, "becomes"), "a file\n")
			must(t, os.Remove(filepath.Join(w, "src/b.go")))
			write(t, filepath.Join(w, "src/b.go/x"), "a directory\n")
			must(t, os.Chmod(filepath.Join(w, "run.sh"), 0o755))
			must(t, os.Symlink("README.md", filepath.Join(w, "link")))
			before := fingerprint(t, p.dir)

			spec := snapSpec(tree, level)
			snap := p.snapshot(spec)
			want := strings.Join([]string{`100644 ".gitignore"`, `100644 "README.md"`, `100644 "becomes"`, `100644 "kept.log"`, `120000 "link"`,
				`100644 "new/deep/file"`, `100755 "run.sh"`, `100644 "src/a.go"`, `100644 "src/b.go/x"`, `100644 "src/build/out"`}, "\n")
			if diff := cmp.Diff(want, p.listing(snap.Commit)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if got := p.show(snap.Commit, "README.md"); got != "HELLO" {
				t.Errorf("README.md = %q", got)
			}
			if diff := cmp.Diff([]string{"say hello", "second ?[31mred"}, snap.Subjects); diff != "" {
				t.Errorf("subjects (-want +got):\n%s", diff)
			}
			if len(snap.Skipped) > 0 || !snap.Changed {
				t.Errorf("snap = %+v", snap)
			}
			message := git(t, p.gate.Dir(), "log", "-1", "--format=%P %an %cn %ad%n%B", "--date=iso", string(snap.Commit))
			if diff := cmp.Diff(string(p.head)+" ferry (wisp) ferry (wisp) 2026-01-02 03:04:05 +0000\nWork on t-first\n\nThe engine's own commits:\n- say hello\n- second ?[31mred", message); diff != "" {
				t.Errorf("commit (-want +got):\n%s", diff)
			}
			if again := p.snapshot(spec); again.Commit != snap.Commit {
				t.Errorf("a second snapshot is %s, not %s", again.Commit, snap.Commit)
			}
			write(t, filepath.Join(w, "more"), "x")
			if _, err := p.gate.Snapshot(t.Context(), spec); !errors.Is(err, worktree.ErrRefExists) {
				t.Errorf("another snapshot under the same ref = %v", err)
			}
			if fingerprint(t, p.dir) != before {
				t.Error("the run touched the person's repository")
			}
			git(t, p.gate.Dir(), "fsck", "--strict")
		})
	}
}

func TestSnapshotOfNothingKeepsTheParent(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	tree := p.tree("r1")
	snap := p.snapshot(snapSpec(tree, levels(t)[0]))
	if snap.Changed || snap.Commit != p.head || string(snap.Tree) != git(t, p.dir, "rev-parse", "HEAD^{tree}") {
		t.Errorf("snap = %+v", snap)
	}
	write(t, filepath.Join(tree.Work(), "README.md"), "hello\n") // touched, same bytes
	if snap := p.snapshot(snapSpec(tree, levels(t)[0])); snap.Changed || snap.Commit != p.head {
		t.Errorf("snap of touched files = %+v", snap)
	}
	must(t, os.RemoveAll(tree.Work()))
	must(t, os.Mkdir(tree.Work(), 0o700))
	spec := snapSpec(tree, levels(t)[0])
	spec.Ref += "-empty"
	if snap := p.snapshot(spec); !snap.Changed || p.listing(snap.Commit) != "" {
		t.Errorf("snap of an emptied tree = %+v", snap)
	}
}

func TestExportIsCleanAndItsOwn(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	tree := p.tree("r1")
	write(t, filepath.Join(tree.Work(), "x y"), "1")
	snap := p.snapshot(snapSpec(tree, levels(t)[0]))
	dir := filepath.Join(p.root, "check")
	must(t, p.gate.Export(t.Context(), snap.Commit, dir))
	if got := git(t, dir, "status", "--porcelain"); got != "" {
		t.Errorf("status: %s", got)
	}
	if got := git(t, dir, "rev-parse", "HEAD"); got != string(snap.Commit) {
		t.Errorf("HEAD = %s", got)
	}
	if got := git(t, dir, "diff", "--name-only", "HEAD~1"); got != "x y" {
		t.Errorf("diff = %q", got)
	}
	if err := p.gate.Export(t.Context(), snap.Commit, dir); err == nil {
		t.Error("Export took a directory that is in use")
	}
}

func TestRetire(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	tree := p.tree("r1")
	write(t, filepath.Join(tree.Work(), "a/b"), "1")
	if err := p.gate.Retire(t.Context(), tree); !errors.Is(err, worktree.ErrNotSaved) {
		t.Fatalf("Retire before a snapshot = %v", err)
	}
	spec := snapSpec(tree, levels(t)[0])
	snap := p.snapshot(spec)
	git(t, p.gate.Dir(), "update-ref", "-d", spec.Ref)
	if err := p.gate.Retire(t.Context(), tree); !errors.Is(err, worktree.ErrNotSaved) {
		t.Fatalf("Retire without its ref = %v", err)
	}
	git(t, p.gate.Dir(), "update-ref", spec.Ref, string(snap.Commit))
	must(t, os.Chmod(filepath.Join(tree.Work(), "a"), 0))
	for range 2 {
		must(t, p.gate.Retire(t.Context(), tree))
	}
	if left, err := filepath.Glob(filepath.Join(p.root, "runs", "*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if !p.gate.Has(context.Background(), snap.Commit) {
		t.Error("the commit is gone with its tree")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

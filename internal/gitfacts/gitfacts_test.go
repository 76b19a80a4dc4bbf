package gitfacts_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/gitfacts"
)

// repo is a real repository made by git.
type repo struct {
	t   *testing.T
	dir string
}

func newRepo(t *testing.T) *repo {
	r := &repo{t: t, dir: filepath.Join(t.TempDir(), "r")}
	r.gitIn(filepath.Dir(r.dir), "", "init", "-q", "-b", "main", "r")
	return r
}

func (r *repo) git(args ...string) string { r.t.Helper(); return r.gitIn(r.dir, "", args...) }

func (r *repo) gitIn(dir, stdin string, args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=a@example.com",
		"GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

func (r *repo) write(name, content string) {
	r.t.Helper()
	p := filepath.Join(r.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(content), 0o644)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *repo) commit(message string) ferry.Commit {
	r.t.Helper()
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", message)
	return ferry.Commit(r.git("rev-parse", "HEAD"))
}

func (r *repo) open() *gitfacts.Repo {
	r.t.Helper()
	f, err := gitfacts.Open(filepath.Join(r.dir, ".git"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := f.Close(); err != nil {
			r.t.Error(err)
		}
	})
	return f
}

// change makes two commits that differ in every way that files can.
func (r *repo) change() (base, commit ferry.Commit) {
	r.t.Helper()
	var long []string
	for i := range 40 {
		long = append(long, fmt.Sprintf("line %d", i))
	}
	r.write("long", strings.Join(long, "\n")+"\n")
	r.write("gone", "1\n2\n")
	r.write("mode", "#!/bin/sh\n")
	r.write("kind", "text\n")
	r.write("dir/sub/same", "same\n")
	r.write("dir/file", "a\nb")
	r.write("swap", "a file\n")
	r.write("bin", "a\x00b")
	r.write("moved", "the same content in another place\n")
	base = r.commit("base")
	long[2], long[20], long[22] = "changed", "changed too", "and this"
	r.write("long", strings.Join(slices.Insert(long, 38, "inserted"), "\n")+"\n")
	for _, name := range []string{"gone", "kind", "swap", "moved"} {
		if err := os.Remove(filepath.Join(r.dir, name)); err != nil {
			r.t.Fatal(err)
		}
	}
	r.write("dir/file", "a\nb\nc")
	r.write("swap/now/a", "directory\n")
	r.write("bin", "a\x00c")
	r.write("new name\twith tab", "x\n")
	r.write("elsewhere", "the same content in another place\n")
	if err := errors.Join(os.Chmod(filepath.Join(r.dir, "mode"), 0o755), os.Symlink("long", filepath.Join(r.dir, "kind"))); err != nil {
		r.t.Fatal(err)
	}
	return base, r.commit("change")
}

// TestChangesAreGits compares every field with what the git program says.
func TestChangesAreGits(t *testing.T) {
	r := newRepo(t)
	base, commit := r.change()
	files, truncated, err := r.open().Changes(t.Context(), base, commit, 1000)
	if err != nil || truncated {
		t.Fatal(truncated, err)
	}
	var raw, numstat []string
	for _, f := range files {
		orZero := func(s, zero string) string {
			if s == "" {
				return zero
			}
			return s
		}
		none := strings.Repeat("0", 40)
		raw = append(raw, fmt.Sprintf(":%s %s %s %s %s %q", orZero(f.ModeOld, "000000"), orZero(f.ModeNew, "000000"),
			orZero(string(f.OldBlob), none), orZero(string(f.NewBlob), none), f.Status, f.Path))
		counts := fmt.Sprintf("%d %d", f.Added, f.Deleted)
		if f.Binary {
			counts = "- -"
		}
		numstat = append(numstat, fmt.Sprintf("%s %q", counts, f.Path))
	}
	var wantRaw, wantNumstat []string
	fields := strings.Split(strings.TrimSuffix(r.git("diff-tree", "-r", "-z", "--raw", "--no-renames", string(base), string(commit)), "\x00"), "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		wantRaw = append(wantRaw, fmt.Sprintf("%s %q", fields[i], fields[i+1]))
	}
	for _, line := range strings.Split(strings.TrimSuffix(r.git("diff-tree", "-r", "-z", "--numstat", "--no-renames", string(base), string(commit)), "\x00"), "\x00") {
		parts := strings.SplitN(line, "\t", 3)
		wantNumstat = append(wantNumstat, fmt.Sprintf("%s %s %q", parts[0], parts[1], parts[2]))
	}
	if diff := cmp.Diff(wantRaw, raw); diff != "" {
		t.Errorf("entries (-git +ours):\n%s", diff)
	}
	if diff := cmp.Diff(wantNumstat, numstat); diff != "" {
		t.Errorf("counts (-git +ours):\n%s", diff)
	}
	few, truncated, err := r.open().Changes(t.Context(), base, commit, 3)
	if len(few) != 3 || !truncated || err != nil {
		t.Errorf("Changes with a limit = %d, %v, %v", len(few), truncated, err)
	}
}

// TestPatchApplies gives the patch to git, which must arrive at the same tree.
func TestPatchApplies(t *testing.T) {
	r := newRepo(t)
	r.write(".gitattributes", "* -diff\n") // would hide everything
	base, commit := r.change()
	patch, truncated, err := r.open().Patch(t.Context(), base, commit, 1<<20)
	if err != nil || truncated {
		t.Fatal(truncated, err)
	}
	if !strings.Contains(patch, "+changed too\n") || !strings.Contains(patch, "Binary files a/bin and b/bin differ\n") {
		t.Errorf("patch:\n%s", patch)
	}
	r.git("checkout", "-q", string(base))
	r.git("rm", "-q", "--cached", "bin") // binary content is not in the patch
	text := patch[:strings.Index(patch, "diff --git a/bin")] + patch[strings.Index(patch, "diff --git a/dir"):]
	r.gitIn(r.dir, text, "apply", "--cached", "--whitespace=nowarn", "-")
	r.git("update-index", "--add", "--cacheinfo", "100644,"+r.git("rev-parse", string(commit)+":bin")+",bin")
	if got, want := r.git("write-tree"), r.git("rev-parse", string(commit)+"^{tree}"); got != want {
		t.Errorf("the patch leads to %s, not %s:\n%s", got, want, text)
	}
	cut, truncated, err := r.open().Patch(t.Context(), base, commit, 100)
	if len(cut) > 102 || !truncated || err != nil {
		t.Errorf("cut patch: %d bytes, %v, %v", len(cut), truncated, err)
	}
}

func TestContent256(t *testing.T) {
	r := newRepo(t)
	r.write("b", "gone\n")
	r.write("same", "same\n")
	base := r.commit("base")
	r.write("a", "new\n")
	if err := os.Remove(filepath.Join(r.dir, "b")); err != nil {
		t.Fatal(err)
	}
	commit := r.commit("change")
	want := fmt.Sprintf("%x", sha256.Sum256([]byte(fmt.Sprintf("100644 %x a\x00000000 %064d b\x00", sha256.Sum256([]byte("new\n")), 0))))
	if got, err := r.open().Content256(t.Context(), base, commit); got != want || err != nil {
		t.Errorf("Content256 = %s, %v; want %s", got, err, want)
	}
	if got, err := r.open().Content256(t.Context(), base, base); got != fmt.Sprintf("%x", sha256.Sum256(nil)) || err != nil {
		t.Errorf("Content256 of nothing = %s, %v", got, err)
	}
}

// looks is a context that ends when it has been asked a number of times.
type looks struct {
	context.Context
	left *int
}

func (l looks) Err() error {
	if *l.left--; *l.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestACancelledContextEndsEveryLoop ends each question at each of its steps.
func TestACancelledContextEndsEveryLoop(t *testing.T) {
	r := newRepo(t)
	base, commit := r.change()
	facts := r.open()
	questions := map[string]func(context.Context) error{
		"Changes":    func(ctx context.Context) error { _, _, err := facts.Changes(ctx, base, commit, 1000); return err },
		"Content256": func(ctx context.Context) error { _, err := facts.Content256(ctx, base, commit); return err },
		"BadEntries": func(ctx context.Context) error { _, err := facts.BadEntries(ctx, base, commit, 1000); return err },
	}
	for name, ask := range questions {
		steps := 0
		for {
			left := steps
			err := ask(looks{context.Background(), &left})
			if err == nil {
				break
			}
			if steps++; !errors.Is(err, context.Canceled) {
				t.Fatalf("%s ended at step %d: %v", name, steps, err)
			}
		}
		if steps < 10 { // more than one for each changed file
			t.Errorf("%s looks at its context %d times", name, steps)
		}
	}
}

func TestReadsPacksAlternatesAndWhatArrivesLater(t *testing.T) {
	r := newRepo(t)
	base, commit := r.change()
	r.git("gc", "-q", "--aggressive") // packed with deltas, refs packed, commit graph written
	borrower := filepath.Join(t.TempDir(), "borrower.git")
	r.gitIn("/", "", "clone", "-q", "--bare", "--shared", r.dir, borrower)
	f, err := gitfacts.Open(borrower)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want, _, err := r.open().Changes(t.Context(), base, commit, 1000)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := f.Changes(t.Context(), base, commit, 1000)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("through alternates: %v\n%s", err, diff)
	}
	r.write("later", "x\n")
	later := r.commit("later")
	if _, err := f.Tree(later); err != nil {
		t.Errorf("a loose object that arrived later: %v", err)
	}
	r.write("packed", "x\n")
	packed := r.commit("packed")
	r.git("repack", "-q", "-a", "-d")
	if tree, err := f.Tree(packed); err != nil || string(tree) != r.git("rev-parse", "HEAD^{tree}") {
		t.Errorf("a pack that arrived later: %s, %v", tree, err)
	}
	if data, err := f.Blob(ferry.Commit(r.git("rev-parse", string(commit)+":dir/file")), 100); string(data) != "a\nb\nc" || err != nil {
		t.Errorf("after a repack: %q, %v", data, err)
	}
}

// TestPacksAreJoinedMeanwhile reads from a pack that the open repository knows and that is gone: joined with others, as
// maintenance does it.
func TestPacksAreJoinedMeanwhile(t *testing.T) {
	r := newRepo(t)
	var blobs []string
	for i := range 3 {
		r.write("file", strings.Repeat("x", i+1))
		r.commit("one")
		r.git("repack", "-q", "-d")
		blobs = append(blobs, r.git("rev-parse", "HEAD:file"))
	}
	f := r.open()
	for i, blob := range blobs {
		if data, err := f.Blob(ferry.Commit(blob), 100); err != nil || string(data) != strings.Repeat("x", i+1) {
			t.Errorf("blob %d = %q, %v", i, data, err)
		}
		r.write("file", strings.Repeat("y", i+1))
		r.commit("more")
		r.git("repack", "-q", "-a", "-d", "-f")
	}
}

func TestBlob(t *testing.T) {
	r := newRepo(t)
	_, commit := r.change()
	f := r.open()
	id := func(path string) ferry.Commit { return ferry.Commit(r.git("rev-parse", string(commit)+":"+path)) }
	tests := []struct {
		name string
		id   ferry.Commit
		max  int64
		want string
		err  error
	}{
		{"a file", id("dir/file"), 5, "a\nb\nc", nil},
		{"too large", id("dir/file"), 4, "", gitfacts.ErrTooLarge},
		{"a symlink", id("kind"), 100, "long", nil},
		{"unknown", ferry.Commit(strings.Repeat("1", 40)), 100, "", gitfacts.ErrMissing},
		{"a tree", id("dir"), 100, "", gitfacts.ErrMissing},
	}
	for _, tt := range tests {
		got, err := f.Blob(tt.id, tt.max)
		if string(got) != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: Blob(%s, %d) = %q, %v; want %q, %v", tt.name, tt.id, tt.max, got, err, tt.want, tt.err)
		}
	}
	if _, err := f.Blob("../x", 100); err == nil {
		t.Error("Blob(../x) was answered")
	}
	if _, err := f.Tree(ferry.Commit(strings.Repeat("1", 40))); !errors.Is(err, gitfacts.ErrMissing) {
		t.Errorf("Tree(unknown) = %v", err)
	}
}

func TestReplaceRefsAndGraftsAreIgnored(t *testing.T) {
	r := newRepo(t)
	base, commit := r.change()
	want, err := r.open().Content256(t.Context(), base, commit)
	if err != nil {
		t.Fatal(err)
	}
	r.git("replace", "-f", string(commit), string(base))
	r.write(".git/info/grafts", string(commit)+"\n")
	if got, err := r.open().Content256(t.Context(), base, commit); got != want || err != nil {
		t.Errorf("Content256 = %s, %v", got, err)
	}
	if h, err := r.open().Walk(base, commit); err != nil || !h.Linear || len(h.Commits) != 1 {
		t.Errorf("Walk = %+v, %v", h, err)
	}
}

func TestWalk(t *testing.T) {
	r := newRepo(t)
	base := r.commit("base")
	one, two := r.commit("one"), r.commit("two")
	r.git("checkout", "-q", "-b", "side", string(one))
	side := r.commit("side")
	r.git("merge", "-q", "--no-ff", "-m", "merge", string(two))
	merge := ferry.Commit(r.git("rev-parse", "HEAD"))
	r.git("checkout", "-q", "--orphan", "root")
	root := r.commit("root")
	f := r.open()
	tests := []struct {
		name   string
		commit ferry.Commit
		want   []ferry.Commit
		why    string
	}{
		{"itself", base, nil, ""},
		{"two commits", two, []ferry.Commit{one, two}, ""},
		{"merge", merge, []ferry.Commit{merge}, "is a merge"},
		{"root", root, []ferry.Commit{root}, "is a root"},
	}
	for _, tt := range tests {
		h, err := f.Walk(base, tt.commit)
		var got []ferry.Commit
		for _, e := range h.Commits {
			got = append(got, e.Commit)
		}
		if err != nil || cmp.Diff(tt.want, got) != "" || h.Linear != (tt.why == "") || !strings.Contains(h.Why, tt.why) {
			t.Errorf("%s: Walk = %+v, %v", tt.name, h, err)
		}
	}
	if h, err := f.Walk(side, two); err != nil || h.Linear {
		t.Errorf("Walk past the base = %+v, %v", h, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	if _, err := gitfacts.Open(t.TempDir()); err == nil {
		t.Error("an empty directory was opened")
	}
	r := &repo{t: t, dir: filepath.Join(t.TempDir(), "r")}
	r.gitIn("/", "", "init", "-q", "--object-format=sha256", r.dir)
	if _, err := gitfacts.Open(filepath.Join(r.dir, ".git")); !errors.Is(err, gitfacts.ErrObjectFormat) {
		t.Errorf("sha256: %v", err)
	}
}

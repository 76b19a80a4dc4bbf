package worktree_test

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// beside is another machine of the person: a clone of the remote with a gate of its own.
func (p *person) beside(name string) *person {
	p.t.Helper()
	dir, _ := p.origin()
	root := filepath.Join(p.root, name)
	must(p.t, os.Mkdir(root, 0o755))
	git(p.t, root, "clone", "-q", "--no-local", dir, "project")
	o := &person{t: p.t, root: root, dir: filepath.Join(root, "project"), head: p.head}
	o.gate = o.open()
	return o
}

const writer = ferry.WriterID("wispwispwispwispwispwispwi")

func TestAnAttemptTravelsByTheRemote(t *testing.T) {
	t.Parallel()
	p := newPerson(t, map[string]string{"a": "1\n"})
	dir, canary := p.origin()
	made := p.work("r1", map[string]string{"a": "2\n"})
	ref := worktree.AttemptRef(order(1), 1, writer, "r1")
	if want := "refs/ferry/attempts/" + order(1).String() + "/1-wispwisp-r1"; ref != want {
		t.Fatalf("AttemptRef() = %s, want %s", ref, want)
	}
	for range 2 { // its answer was lost
		must(t, p.remote(nil).Carry(t.Context(), ref, made))
	}
	if got := git(t, dir, "for-each-ref", "--format=%(refname) %(objectname)", "refs/ferry"); got != ref+" "+string(made) {
		t.Errorf("the remote holds %s", got)
	}
	if err := p.remote(nil).Carry(t.Context(), ref, p.head); !errors.Is(err, worktree.ErrRefExists) || !strings.Contains(err.Error(), ref) {
		t.Errorf("Carry() of another commit = %v", err)
	}
	for _, bad := range []string{"refs/heads/main", "refs/ferry/../heads/x", "main", ""} {
		if err := p.remote(nil).Carry(t.Context(), bad, made); err == nil {
			t.Errorf("Carry() to %q is taken", bad)
		}
	}

	o := p.beside("other")
	if err := o.gate.Obtain(t.Context(), nil, made, ref); !errors.Is(err, worktree.ErrAbsent) {
		t.Errorf("Obtain() without a remote = %v", err)
	}
	if o.gate.Keeps(t.Context(), made) {
		t.Error("the other gate has it before it was fetched")
	}
	must(t, o.gate.Obtain(t.Context(), o.remote(nil), made, worktree.BaseRef(made), ref))
	if !o.gate.Keeps(t.Context(), made) || o.show(made, "a") != "2" {
		t.Error("the other gate has not got it")
	}
	if got := git(t, o.dir, "for-each-ref", "refs/ferry"); got != "" {
		t.Errorf("the person's repository got %s", got)
	}
	if data, err := os.ReadFile(canary); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a hook or a setting was run: %s %v", data, err)
	}
}

func TestBringRefusesARefThatLeadsElsewhere(t *testing.T) {
	t.Parallel()
	p := newPerson(t, map[string]string{"a": "1\n"})
	dir, _ := p.origin()
	made := p.work("r1", map[string]string{"a": "2\n"})
	other := p.work("r2", map[string]string{"a": "3\n"})
	ref, right := worktree.AttemptRef(order(1), 1, writer, "r1"), worktree.AttemptRef(order(1), 2, writer, "r9")
	must(t, p.remote(nil).Carry(t.Context(), ref, other))
	o := p.beside("other")
	err := o.remote(nil).Bring(t.Context(), made, ref)
	if !errors.Is(err, worktree.ErrRefExists) || !strings.Contains(err.Error(), ref) || o.gate.Has(t.Context(), other) {
		t.Errorf("Bring() by a ref at another commit = %v", err)
	}
	if err := o.remote(nil).Bring(t.Context(), made, right); !errors.Is(err, worktree.ErrAbsent) {
		t.Errorf("Bring() of what is not there = %v", err)
	}
	if err := o.remote(nil).Bring(t.Context(), made, "refs/heads/main"); err == nil {
		t.Error("Bring() by a branch is taken")
	}
	must(t, p.remote(nil).Carry(t.Context(), right, made))
	must(t, o.remote(nil).Bring(t.Context(), made, ref, right))
	r := o.remote(nil)
	must(t, os.Rename(dir, dir+".away"))
	must(t, r.Bring(t.Context(), made, ref)) // it is here
	if err := r.Bring(t.Context(), other, ref); !errors.Is(err, worktree.ErrRemote) || errors.Is(err, worktree.ErrAbsent) {
		t.Errorf("Bring() from a remote that is gone = %v", err)
	}
}

// TestBringRefusesWhatGitRefuses offers a commit whose tree git's strict checks do not let in.
func TestBringRefusesWhatGitRefuses(t *testing.T) {
	t.Parallel()
	p := newPerson(t, map[string]string{"a": "1\n"})
	dir, _ := p.origin()
	blob := git(t, p.dir, "hash-object", "-w", "a")
	id := git(t, p.dir, "hash-object", "-t", "tree", "-w", "--literally", rawTree(t, p, blob))
	bad := ferry.Commit(git(t, p.dir, "commit-tree", "-m", "bad", "-p", string(p.head), id))
	git(t, dir, "-c", "core.hooksPath=/dev/null", "-c", "transfer.fsckObjects=false", "fetch", "-q", p.dir, string(bad)+":"+worktree.BaseRef(bad))
	o := p.beside("other")
	for range 2 {
		if err := o.remote(nil).Bring(t.Context(), bad); err == nil || o.gate.Keeps(t.Context(), bad) {
			t.Errorf("Bring() = %v, want it refused", err)
		}
	}
}

// rawTree writes a raw tree object with one file called .git.
func rawTree(t *testing.T, p *person, blob string) string {
	t.Helper()
	id, err := hex.DecodeString(blob)
	must(t, err)
	raw := append([]byte("100644 .git\x00"), id...)
	path := filepath.Join(p.root, "raw")
	must(t, os.WriteFile(path, raw, 0o644))
	return path
}

func TestHolds(t *testing.T) {
	t.Parallel()
	p := newPerson(t, map[string]string{"a": "1\n"})
	p.origin()
	first := p.head
	holds := func(c ferry.Commit) bool {
		t.Helper()
		ok, err := p.remote(nil).Holds(t.Context(), c)
		must(t, err)
		return ok
	}
	write(t, filepath.Join(p.dir, "a"), "2\n")
	second := p.commitQuietly("second")
	if !holds(first) || holds(second) {
		t.Errorf("Holds() = %v, %v; want only what was pushed", holds(first), holds(second))
	}
	must(t, p.gate.Import(t.Context(), second))
	must(t, p.remote(nil).Carry(t.Context(), worktree.BaseRef(second), second))
	if !holds(second) {
		t.Error("Holds() = false after the base was carried")
	}
	git(t, p.dir, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "push", "-q", p.root+"/origin.git", "HEAD:main")
	if !holds(first) {
		t.Error("Holds() = false of what a branch contains")
	}
}

// commitQuietly commits without the hooks that leave a canary.
func (p *person) commitQuietly(message string) ferry.Commit {
	p.t.Helper()
	git(p.t, p.dir, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "commit", "-q", "-a", "-m", message)
	return ferry.Commit(git(p.t, p.dir, "rev-parse", "HEAD"))
}

func TestRefsOf(t *testing.T) {
	t.Parallel()
	a, b := ferry.Commit(strings.Repeat("a", 40)), ferry.Commit(strings.Repeat("b", 40))
	task := &ferry.Task{ID: order(1), Attempts: []ferry.Attempt{
		{N: 1, Holder: writer, Runs: []ferry.Run{{Run: "r1", Commit: a}, {Run: "r2", Commit: b}}},
		{N: 2, Holder: "galegalegalegalegalegalega", Runs: []ferry.Run{{Run: "r3", Commit: b}}},
	}}
	want := []string{
		"refs/ferry/attempts/" + order(1).String() + "/2-galegale-r3", "refs/ferry/attempts/" + order(1).String() + "/1-wispwisp-r2", "refs/ferry/base/" + string(b),
	}
	if diff := cmp.Diff(want, worktree.RefsOf(task, b)); diff != "" {
		t.Errorf("RefsOf() (-want +got):\n%s", diff)
	}
	for range 100 {
		task.Attempts = append(task.Attempts, task.Attempts[1])
	}
	if n := len(worktree.RefsOf(task, b)); n != 32 {
		t.Errorf("RefsOf() names %d refs", n)
	}
}

func TestMissingWords(t *testing.T) {
	t.Parallel()
	m := worktree.Missing{What: "its base", Commit: ferry.Commit(strings.Repeat("a", 40)), Push: "push it there"}
	for _, tt := range []struct {
		remote string
		err    error
		want   string
	}{
		{"", worktree.ErrAbsent, "set [land] remote in .ferry/agent.toml"},
		{"origin", worktree.ErrAbsent, "and not on origin: push it there"},
		{"origin", worktree.ErrRefExists, "origin gives another commit in its place"},
		{"origin", worktree.ErrRemote, "cannot be fetched: "},
	} {
		m.Remote = tt.remote
		if got := m.Words(tt.err); !strings.HasPrefix(got, "its base "+m.Commit.Short()+" is not on this machine") || !strings.Contains(got, tt.want) {
			t.Errorf("Words(%v) = %q, want %q in it", tt.err, got, tt.want)
		}
	}
}

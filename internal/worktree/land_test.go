package worktree_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// work makes a snapshot in which each of the files has the content; "" removes it.
func (p *person) work(name string, files map[string]string) ferry.Commit {
	p.t.Helper()
	tree := p.tree(name)
	for path, content := range files {
		if content == "" {
			must(p.t, os.Remove(filepath.Join(tree.Work(), path)))
			continue
		}
		write(p.t, filepath.Join(tree.Work(), path), content)
	}
	return p.snapshot(snapSpec(tree, box.LevelNone)).Commit
}

func (p *person) squash(commit, onto ferry.Commit) worktree.Squashed {
	p.t.Helper()
	s, err := p.gate.Squash(p.t.Context(), worktree.SquashSpec{Commit: commit, Onto: onto, Message: "Do it", Author: "Wisp <wisp@example.com>", When: when})
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func order(n byte) ferry.RecordID { return ferry.RecordID{n, 0xab} }

func TestBranchFollowsAndNeverForces(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	first := p.work("r1", map[string]string{"x": "1"})
	must(t, p.gate.Branch(t.Context(), "ferry/t-first-0a0b0c0d", first))
	must(t, p.gate.Branch(t.Context(), "ferry/t-first-0a0b0c0d", first))
	if got := git(t, p.dir, "show", "ferry/t-first-0a0b0c0d:x"); got != "1" {
		t.Errorf("x = %q", got)
	}
	other := p.work("r2", map[string]string{"y": "1"})
	if err := p.gate.Branch(t.Context(), "ferry/t-first-0a0b0c0d", other); !errors.Is(err, worktree.ErrDiverged) {
		t.Errorf("diverged: %v", err)
	}
	if err := p.gate.Branch(t.Context(), "main", first); !errors.Is(err, worktree.ErrCheckedOut) {
		t.Errorf("checked out: %v", err)
	}
	git(t, p.dir, "worktree", "add", "-q", filepath.Join(p.root, "linked"), "ferry/t-first-0a0b0c0d")
	if err := p.gate.Branch(t.Context(), "ferry/t-first-0a0b0c0d", other); !errors.Is(err, worktree.ErrCheckedOut) {
		t.Errorf("checked out in a linked worktree: %v", err)
	}
	for _, name := range []string{"", "-x", "a..b", "a b", "a.lock", "x/.y", "../x", "@{u}", "a\nb"} {
		if err := p.gate.Branch(t.Context(), name, first); err == nil {
			t.Errorf("Branch(%q) was accepted", name)
		}
	}
}

func TestSquash(t *testing.T) {
	t.Parallel()
	p := newPerson(t, map[string]string{"a": "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "b": "b\n", ".gitattributes": "* merge=union\n"})
	clean := p.work("clean", map[string]string{"b": "B\n", "new": "n\n"})
	both := p.work("both", map[string]string{"a": "one\n2\n3\n4\n5\n6\n7\n8\n9\n"})
	clash := p.work("clash", map[string]string{"a": "1\n2\n3\n4\n5\n6\n7\n8\nother\n"})
	write(t, filepath.Join(p.dir, "a"), "1\n2\n3\n4\n5\n6\n7\n8\nnine\n")
	onto := p.commit("the target moves")

	s := p.squash(clean, onto)
	if len(s.Conflicts)+len(s.Differs) > 0 || s.Commit == "" {
		t.Fatalf("squash = %+v", s)
	}
	got := git(t, p.gate.Dir(), "log", "-1", "--format=%P|%an <%ae>|%cn|%B", string(s.Commit))
	if want := string(onto) + "|Wisp <wisp@example.com>|ferry|Do it"; got != want {
		t.Errorf("commit = %q, want %q", got, want)
	}
	if p.show(s.Commit, "a") != "1\n2\n3\n4\n5\n6\n7\n8\nnine" || p.show(s.Commit, "new") != "n" {
		t.Error("the merged tree lost a side")
	}
	if again := p.squash(clean, onto); again.Commit != s.Commit {
		t.Error("the same squash gives another commit")
	}
	if s := p.squash(both, onto); s.Commit != "" || cmp.Diff([]string{"a"}, s.Differs) != "" {
		t.Errorf("both sides changed a file: %+v", s)
	}
	if s := p.squash(clash, onto); s.Commit != "" || cmp.Diff([]string{"a"}, s.Conflicts) != "" {
		t.Errorf("a conflict: %+v (merge=union of the tree must not be obeyed)", s)
	}
	_, err := p.gate.Squash(t.Context(), worktree.SquashSpec{Commit: p.head, Onto: onto, When: when})
	if !errors.Is(err, worktree.ErrNoChange) {
		t.Errorf("nothing to merge: %v", err)
	}
}

func TestLandMovesBranchAndCheckout(t *testing.T) {
	t.Parallel()
	p := newPerson(t, map[string]string{"a": "1\n", "b": "1\n", "dir/c": "1\n"})
	old := p.head
	done := p.squash(p.work("r1", map[string]string{"a": "2\n", "b": "", "new/x": "n\n"}), old).Commit
	write(t, filepath.Join(p.dir, "untracked"), "mine\n")
	spec := worktree.LandSpec{Branch: "main", Old: old, New: done, Order: order(1)}
	must(t, p.gate.Land(t.Context(), spec))
	if got := git(t, p.dir, "status", "--porcelain"); got != "?? untracked" {
		t.Errorf("status = %q", got)
	}
	if got := git(t, p.dir, "rev-parse", "HEAD", "main"); got != string(done)+"\n"+string(done) {
		t.Errorf("HEAD = %s", got)
	}
	if got, ok, err := p.gate.Landed(t.Context(), order(1)); got != done || !ok || err != nil {
		t.Errorf("Landed = %v %v %v", got, ok, err)
	}
	if _, ok, err := p.gate.Landed(t.Context(), order(2)); ok || err != nil {
		t.Errorf("Landed(other) = %v %v", ok, err)
	}
	err := p.gate.Land(t.Context(), spec)
	var landed *worktree.LandedError
	if !errors.Is(err, worktree.ErrAlreadyLanded) || !errors.As(err, &landed) || landed.Commit != done {
		t.Errorf("a second landing = %v", err)
	}
	spec.Order = order(2)
	if err := p.gate.Land(t.Context(), spec); !errors.Is(err, worktree.ErrMoved) {
		t.Errorf("landing from an old tip = %v", err)
	}
	spec.Old, spec.New = done, old
	if err := p.gate.Land(t.Context(), spec); !errors.Is(err, worktree.ErrDiverged) {
		t.Errorf("landing backwards = %v", err)
	}
	if n, err := p.gate.RepairCheckout(t.Context()); n != 0 || err != nil {
		t.Errorf("RepairCheckout = %d, %v", n, err)
	}
}

func TestLandRefusesWhatItWouldOverwrite(t *testing.T) {
	t.Parallel()
	p := newPerson(t, map[string]string{"a": "1\n", "b": "1\n"})
	done := p.squash(p.work("r1", map[string]string{"a": "2\n", "new": "n\n"}), p.head).Commit
	linked := filepath.Join(p.root, "linked")
	git(t, p.dir, "checkout", "-q", "-b", "elsewhere")
	git(t, p.dir, "worktree", "add", "-q", linked, "main")
	tests := []struct {
		name  string
		dirty func(t *testing.T)
		clean func(t *testing.T)
		want  error
	}{
		{"changed file", func(t *testing.T) { write(t, filepath.Join(linked, "b"), "mine\n") },
			func(t *testing.T) { git(t, linked, "checkout", "-q", "b") }, worktree.ErrDirty},
		{"staged file", func(t *testing.T) { write(t, filepath.Join(linked, "s"), "s"); git(t, linked, "add", "s") },
			func(t *testing.T) { git(t, linked, "rm", "-qf", "s") }, worktree.ErrDirty},
		{"untracked file in the way", func(t *testing.T) { write(t, filepath.Join(linked, "new"), "mine\n") },
			func(t *testing.T) { must(t, os.Remove(filepath.Join(linked, "new"))) }, worktree.ErrInTheWay},
		{"untracked directory in the way", func(t *testing.T) { write(t, filepath.Join(linked, "new", "x"), "mine\n") },
			func(t *testing.T) { must(t, os.RemoveAll(filepath.Join(linked, "new"))) }, worktree.ErrInTheWay},
		{"index lock", func(t *testing.T) { write(t, filepath.Join(p.dir, ".git/worktrees/linked/index.lock"), "") },
			func(t *testing.T) { must(t, os.Remove(filepath.Join(p.dir, ".git/worktrees/linked/index.lock"))) }, worktree.ErrDirty},
		{"unfinished merge", func(t *testing.T) { write(t, filepath.Join(p.dir, ".git/worktrees/linked/MERGE_HEAD"), string(done)) },
			func(t *testing.T) { must(t, os.Remove(filepath.Join(p.dir, ".git/worktrees/linked/MERGE_HEAD"))) }, worktree.ErrDirty},
		{"rebase elsewhere", func(t *testing.T) { write(t, filepath.Join(p.dir, ".git/rebase-merge/head-name"), "refs/heads/main\n") },
			func(t *testing.T) { must(t, os.RemoveAll(filepath.Join(p.dir, ".git/rebase-merge"))) }, worktree.ErrCheckedOut},
	}
	spec := worktree.LandSpec{Branch: "main", Old: p.head, New: done, Order: order(1)}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.dirty(t)
			before := fingerprint(t, linked)
			if err := p.gate.Land(t.Context(), spec); !errors.Is(err, tt.want) {
				t.Errorf("Land = %v, want %v", err, tt.want)
			}
			if fingerprint(t, linked) != before || git(t, p.dir, "rev-parse", "main") != string(p.head) {
				t.Error("a refused landing changed something")
			}
			tt.clean(t)
		})
	}
	must(t, p.gate.Land(t.Context(), spec))
	if got := git(t, linked, "status", "--porcelain"); got != "" {
		t.Errorf("the linked worktree did not follow: %q", got)
	}
	if got := git(t, p.dir, "status", "--porcelain"); got != "" {
		t.Errorf("the main checkout, on another branch: %q", got)
	}
}

func TestOrdersLandOnceWhenManyTry(t *testing.T) {
	t.Parallel()
	p := newPerson(t, map[string]string{"a": "1\n"})
	git(t, p.dir, "checkout", "-q", "--detach")
	commits := []ferry.Commit{}
	for _, name := range []string{"r1", "r2", "r3", "r4"} {
		commits = append(commits, p.work(name, map[string]string{"a": name + "\n"}))
	}
	gates := []*worktree.Gate{p.gate, p.open(), p.open(), p.open()}
	errs := make([]error, len(commits))
	var wg sync.WaitGroup
	for i := range commits {
		wg.Go(func() {
			errs[i] = gates[i].Land(t.Context(), worktree.LandSpec{Branch: "main", Old: p.head, New: commits[i], Order: order(1)})
		})
	}
	wg.Wait()
	landed := 0
	for _, err := range errs {
		switch {
		case err == nil:
			landed++
		case !errors.Is(err, worktree.ErrAlreadyLanded):
			t.Errorf("Land = %v", err)
		}
	}
	if landed != 1 {
		t.Errorf("%d landings of one order", landed)
	}
}

// journal is what Land writes before it moves the refs; a crash leaves it there.
func (p *person) journal(spec worktree.LandSpec, gitDir string) {
	p.t.Helper()
	data, err := json.Marshal(map[string]any{"order": spec.Order.String(), "branch": spec.Branch, "old": spec.Old, "new": spec.New,
		"checkouts": []map[string]string{{"dir": p.dir, "git": gitDir}}})
	must(p.t, err)
	write(p.t, filepath.Join(p.gate.Dir(), "landing", spec.Order.String()+".json"), string(data))
}

func TestRepairCheckoutAfterACrash(t *testing.T) {
	t.Parallel()
	files := map[string]string{"changed": "1\n", "gone": "1\n", "same": "1\n", "half/way": "1\n"}
	steps := []struct {
		name  string
		crash func(t *testing.T, p *person, spec worktree.LandSpec)
		want  string // git status afterwards
		lands bool
	}{
		{"before the refs moved", func(*testing.T, *person, worktree.LandSpec) {}, "", false},
		{"after the refs moved", func(t *testing.T, p *person, spec worktree.LandSpec) { p.moveRefs(spec) }, "", true},
		{"with the lock held and half the files written", func(t *testing.T, p *person, spec worktree.LandSpec) {
			p.moveRefs(spec)
			mark := filepath.Join(p.dir, ".git", "ferry-lock-"+spec.Order.String())
			write(t, mark, "")
			must(t, os.Link(mark, filepath.Join(p.dir, ".git", "index.lock")))
			write(t, filepath.Join(p.dir, ".git", "ferry-index-"+spec.Order.String()), "torn")
			write(t, filepath.Join(p.dir, "changed"), "2\n")
			write(t, filepath.Join(p.dir, "new/file"), "2\n")
			must(t, os.Remove(filepath.Join(p.dir, "gone")))
		}, "", true},
		{"with everything done but the journal", func(t *testing.T, p *person, spec worktree.LandSpec) {
			p.moveRefs(spec)
			git(t, p.dir, "reset", "-q", "--hard", string(spec.New))
		}, "", true},
		{"and the person has gone to another branch", func(t *testing.T, p *person, spec worktree.LandSpec) {
			git(t, p.dir, "checkout", "-q", "-b", "other")
			p.moveRefs(spec)
		}, "", true},
	}
	for i, tt := range steps {
		t.Run(tt.name, func(t *testing.T) {
			p := newPerson(t, files)
			done := p.squash(p.work("r1", map[string]string{"changed": "2\n", "gone": "", "new/file": "2\n", "half/way": "2\n"}), p.head).Commit
			spec := worktree.LandSpec{Branch: "main", Old: p.head, New: done, Order: order(byte(i))}
			must(t, p.gate.Branch(t.Context(), "copy", done)) // the objects have arrived
			p.journal(spec, filepath.Join(p.dir, ".git"))
			tt.crash(t, p, spec)
			if n, err := p.gate.RepairCheckout(t.Context()); n != 1 || err != nil {
				t.Fatalf("RepairCheckout = %d, %v", n, err)
			}
			if got := git(t, p.dir, "status", "--porcelain"); got != tt.want {
				t.Errorf("status = %q, want %q", got, tt.want)
			}
			if got := git(t, p.dir, "rev-parse", "main") == string(done); got != tt.lands {
				t.Errorf("landed = %v, want %v", got, tt.lands)
			}
			left, err := filepath.Glob(filepath.Join(p.dir, ".git", "*ferry*"))
			if locks, _ := filepath.Glob(filepath.Join(p.dir, ".git", "*.lock")); err != nil || len(left)+len(locks) > 0 {
				t.Errorf("left behind: %v %v %v", left, locks, err)
			}
			if n, err := p.gate.RepairCheckout(t.Context()); n != 0 || err != nil {
				t.Errorf("a second repair = %d, %v", n, err)
			}
		})
	}
}

// moveRefs is the transaction of a landing without what follows it.
func (p *person) moveRefs(spec worktree.LandSpec) {
	p.t.Helper()
	git(p.t, p.dir, "update-ref", "refs/ferry/landed/"+spec.Order.String(), string(spec.New))
	git(p.t, p.dir, "update-ref", "refs/heads/main", string(spec.New))
}

func TestRepairKeepsThePersonsChanges(t *testing.T) {
	t.Parallel()
	p := newPerson(t, map[string]string{"a": "1\n"})
	done := p.squash(p.work("r1", map[string]string{"a": "2\n"}), p.head).Commit
	spec := worktree.LandSpec{Branch: "main", Old: p.head, New: done, Order: order(1)}
	must(t, p.gate.Branch(t.Context(), "copy", done))
	p.journal(spec, filepath.Join(p.dir, ".git"))
	p.moveRefs(spec)
	write(t, filepath.Join(p.dir, "a"), "mine\n")
	if _, err := p.gate.RepairCheckout(t.Context()); !errors.Is(err, worktree.ErrCheckout) {
		t.Errorf("RepairCheckout over a change of the person's = %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(p.dir, "a")); err != nil || string(data) != "mine\n" {
		t.Errorf("a = %q, %v", data, err)
	}
	write(t, filepath.Join(p.dir, ".git/index.lock"), "")
	if _, err := p.gate.RepairCheckout(t.Context()); err == nil || !strings.Contains(err.Error(), "held by another git process") {
		t.Errorf("RepairCheckout under a foreign lock = %v", err)
	}
	if _, err := os.Lstat(filepath.Join(p.dir, ".git/index.lock")); err != nil {
		t.Error("a lock of the person's was removed")
	}
}

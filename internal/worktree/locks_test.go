package worktree_test

import (
	"context"
	"path/filepath"
	"testing"
)

// TestLockOfAKilledGit leaves the lock files behind that a killed git leaves, for each ref that ferry writes by itself.
func TestLockOfAKilledGit(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	lock := func(dir, ref string) { write(t, filepath.Join(dir, filepath.FromSlash(ref))+".lock", "") }
	lock(p.gate.Dir(), "refs/ferry/bases/"+string(p.head))
	tree := p.tree("r1") // imports the base
	write(t, filepath.Join(tree.Work(), "README.md"), "changed\n")
	spec := snapSpec(tree, levels(t)[0])
	lock(p.gate.Dir(), spec.Ref)
	snap := p.snapshot(spec)
	if !snap.Changed {
		t.Fatalf("snap = %+v", snap)
	}
	lock(filepath.Join(p.dir, ".git"), "refs/heads/ferry/t-first-12345678")
	if err := p.gate.Branch(context.Background(), "ferry/t-first-12345678", snap.Commit); err != nil {
		t.Error(err)
	}
	must(t, p.gate.Retire(t.Context(), tree))
}

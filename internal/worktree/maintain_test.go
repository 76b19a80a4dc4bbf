package worktree_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMaintainJoinsPacksUnderABorrowingTree gives the gate many packs, joins
// them while a tree borrows their objects, and takes a snapshot of that tree.
func TestMaintainJoinsPacksUnderABorrowingTree(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	tree := p.tree("r1")
	var blobs []string
	for i := range 60 {
		file := filepath.Join(p.root, fmt.Sprint("blob", i))
		write(t, file, fmt.Sprint("content ", i))
		blobs = append(blobs, git(t, p.gate.Dir(), "hash-object", "-w", file))
		list := filepath.Join(p.root, "list")
		write(t, list, blobs[i]+"\n")
		git(t, p.root, "-C", p.gate.Dir(), "-c", "alias.pack=!git pack-objects -q objects/pack/pack <"+list, "pack")
		must(t, os.Remove(filepath.Join(p.gate.Objects(), blobs[i][:2], blobs[i][2:])))
	}
	must(t, p.gate.Maintain(t.Context()))
	packs, err := filepath.Glob(filepath.Join(p.gate.Objects(), "pack", "*.pack"))
	must(t, err)
	if len(packs) > 3 {
		t.Errorf("%d packs are left", len(packs))
	}
	for i, blob := range blobs {
		if got := git(t, p.gate.Dir(), "cat-file", "blob", blob); got != fmt.Sprint("content ", i) {
			t.Errorf("blob %d is %q: what no ref reaches was dropped", i, got)
		}
	}
	write(t, filepath.Join(tree.Work(), "README.md"), "changed\n")
	if snap := p.snapshot(snapSpec(tree, levels(t)[0])); !snap.Changed || !strings.Contains(p.listing(snap.Commit), "README.md") {
		t.Errorf("snapshot after joining: %+v", snap)
	}
}

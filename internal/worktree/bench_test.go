package worktree_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/ferry-fleet/ferry/internal/worktree"
)

// benchPerson is a small warm repository: 100 files.
func benchPerson(b *testing.B) *person {
	b.Helper()
	files := map[string]string{}
	for i := range 100 {
		files[fmt.Sprintf("pkg%d/file%d.go", i%10, i)] = fmt.Sprintf("package pkg%d\n\n// File %d.\n", i%10, i)
	}
	p := newPerson(b, files)
	must(b, p.gate.Import(context.Background(), p.head))
	return p
}

func BenchmarkNewTree(b *testing.B) {
	p := benchPerson(b)
	n := 0
	for b.Loop() {
		n++
		_, err := p.gate.NewTree(b.Context(), worktree.TreeSpec{Dir: filepath.Join(p.root, "runs", fmt.Sprint(n)), Commit: p.head})
		must(b, err)
	}
}

func BenchmarkSnapshot(b *testing.B) {
	for _, level := range levels(b) {
		b.Run(string(level), func(b *testing.B) {
			p := benchPerson(b)
			tree := p.tree("r1")
			n := 0
			for b.Loop() {
				n++
				write(b, filepath.Join(tree.Work(), "pkg1/file1.go"), fmt.Sprint(n))
				write(b, filepath.Join(tree.Work(), "new"), fmt.Sprint(n))
				spec := snapSpec(tree, level)
				spec.Ref += fmt.Sprint("-", n)
				p.snapshot(spec)
			}
		})
	}
}

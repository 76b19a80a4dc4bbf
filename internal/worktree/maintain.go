package worktree

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxPacks is how many packs the gate may have before Maintain joins them. Every snapshot that changed something adds
// one, and git looks through all of them for an object.
const maxPacks = 50

// Maintain keeps the cost of a run from growing with the runs before it: it joins the packs of the gate when there are
// many. Nothing is dropped, not even what no ref reaches. It may run while trees borrow the gate's objects: git looks
// again for an object whose pack is gone.
func (g *Gate) Maintain(ctx context.Context) error {
	packs, err := g.packs()
	if err != nil || packs <= maxPacks {
		return err
	}
	if _, err := g.git.run(ctx, call{dir: g.dir}, "repack", "-a", "-d", "-k", "-q"); err != nil {
		return fmt.Errorf("maintain %s: %w", g.dir, err)
	}
	return nil
}

func (g *Gate) packs() (int, error) {
	entries, err := os.ReadDir(filepath.Join(g.Objects(), "pack"))
	if err != nil {
		return 0, fmt.Errorf("maintain %s: %w", g.dir, err)
	}
	n := 0
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".pack") {
			n++
		}
	}
	return n, nil
}

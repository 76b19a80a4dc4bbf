package worktree_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry/internal/process"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

func TestSweepScratch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mine, err := worktree.Scratch(dir, "merge-0395d6895e35")
	if err != nil {
		t.Fatal(err)
	}
	pid := os.Getpid()
	again := fmt.Sprintf("merge-0395d6895e35-%d-%d-1", pid, process.StartMark(pid)+1) // another process had this pid before
	kept := []string{filepath.Base(mine), "merge-x", "probe-1", "a-b-c-d", fmt.Sprintf("merge-%d--1", pid)}
	for _, name := range append([]string{again, "merge-0395d6895e35-999999999-7-1"}, kept[1:]...) {
		if err := os.MkdirAll(filepath.Join(dir, name, "deep"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	must(t, os.Chmod(filepath.Join(dir, again, "deep"), 0))
	must(t, worktree.SweepScratch(dir))
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	left, want := map[string]bool{}, map[string]bool{}
	for _, e := range entries {
		left[e.Name()] = true
	}
	for _, name := range kept {
		want[name] = true
	}
	if d := cmp.Diff(want, left); d != "" {
		t.Errorf("left (-want +got):\n%s", d)
	}
	must(t, worktree.SweepScratch(filepath.Join(dir, "nosuch")))
}

func TestIsBranchName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"main", "release/2.0", "a-b", "ünïcode"} {
		if !worktree.IsBranchName(name) {
			t.Errorf("%q is refused", name)
		}
	}
	for _, name := range []string{"", "-x", "main^{}", "main~1", "main@{1}", "@", "a..b", "a b", "a:b", "a.lock", "a/", "/a", "a//b", "a\n", ":/fix", "main^"} {
		if worktree.IsBranchName(name) {
			t.Errorf("%q is taken", name)
		}
	}
}

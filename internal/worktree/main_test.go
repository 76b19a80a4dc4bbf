package worktree_test

import (
	"os"
	"testing"

	"github.com/ferry-fleet/ferry/internal/box"
)

func TestMain(m *testing.M) {
	box.Main()
	os.Exit(m.Run())
}

package fleettests_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/ferry-fleet/ferry/internal/ferrytest"
)

// binary is the ferry that every machine of every test runs.
var binary string

func TestMain(m *testing.M) {
	os.Exit(ferrytest.Main(m, func(ctx context.Context, dir string) error {
		binary = filepath.Join(dir, "ferry")
		return ferrytest.Build(ctx, binary)
	}))
}

package worker_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/ferrytest"
	"github.com/ferry-fleet/ferry/worker"
)

// A worker says in the channel what its ferry can do, and again only when that is something else.
func TestIntroduction(t *testing.T) {
	m := ferrytest.New(t, files)
	cfg := config(m, "wisp", m.Engine("e", "true\n"))
	have := ferry.Inventory{Features: ferry.Features(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	have.Engines = []ferry.EngineSeen{{
		Name: "script", Kind: "cli", Tier: "build", State: "unknown", Class: "medium", Can: []string{"text", "code"}, Price: ferry.PriceSeen{Source: "unknown"},
	}}
	for _, tt := range []struct {
		version string
		slots   int
		records int // in the chain of the worker
	}{
		{"", 2, 0}, {"v1.2.3", 2, 1}, {"v1.2.3", 2, 1}, {"v1.2.4", 2, 2}, {"v1.2.4", 3, 3}, {"", 3, 3},
	} {
		cfg.Version, cfg.MaxParallel = tt.version, tt.slots
		if tt.version != "" {
			have.Version, have.Slots = tt.version, int64(tt.slots)
		}
		w, err := worker.New(cfg)
		m.Must(err)
		pass(t, time.Now(), w)
		pass(t, time.Now(), w)
		got, err := m.Channel.Traces(t.Context(), cfg.Writer.ID(), 1)
		m.Must(err)
		links, err := m.Channel.Chain(t.Context(), cfg.Writer.ID(), 1)
		m.Must(err)
		if len(links) != tt.records {
			t.Errorf("version %q with %d slots: %d records, want %d", tt.version, tt.slots, len(links), tt.records)
		}
		if diff := cmp.Diff(have, got.Have); diff != "" && tt.records > 0 {
			t.Errorf("version %q (-want +got):\n%s", tt.version, diff)
		}
	}
}

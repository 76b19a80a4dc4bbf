package engines_test

import (
	"testing"

	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/engines/enginetest"
	"github.com/ferry-fleet/ferry/internal/box"
)

// BenchmarkOutput measures how fast the output of an engine goes through the
// parser, the redactor and the bounds, process start included.
func BenchmarkOutput(b *testing.B) {
	const size = 4 << 20
	cfg := engines.Config{
		Name: "scripted", Kind: engines.KindCLI,
		Command:     enginetest.Script(b, b.TempDir(), "my-agent", enginetest.Step{Shell: "yes 'one of many lines of ordinary output, 64 bytes in all, no more' | head -c 4194304"}),
		Credentials: map[string]string{"SCRIPTED_API_KEY": enginetest.Secret},
	}
	req := engines.Request{
		Engine: cfg, Contract: engines.ContractOf(cfg.Command), Prompt: "do it", Environ: []string{"PATH=/usr/bin:/bin"},
		Box: box.Spec{Level: box.LevelNone, Net: box.NetOpen, Work: b.TempDir()},
	}
	b.SetBytes(size)
	for b.Loop() {
		if got := engines.Run(b.Context(), req); got.Err != nil || got.Fault != nil {
			b.Fatalf("fault %v, err %v", got.Fault, got.Err)
		}
	}
}

package engines_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/engines/enginetest"
	"github.com/ferry-fleet/ferry/internal/box"
)

const (
	piTurn     = `{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"toolUse","usage":{"input":1000,"output":100,"cost":{"total":0.4}}}}`
	claudeTurn = `{"type":"assistant","message":{"id":"m%d","content":[{"type":"text","text":"on it"}],"usage":{"input_tokens":100000,"output_tokens":10000}}}`
)

// TestLimit ends a run in the middle when its engine says that it has used what it may, and keeps what it wrote.
func TestLimit(t *testing.T) {
	for name, tt := range map[string]struct {
		cli   string
		lines []string
		limit engines.Amount
		in    float64 // dollars for a million tokens
		out   float64
		why   string
		cost  int64
	}{
		"dollars that pi tells": {"pi", []string{piTurn, piTurn, piTurn}, engines.Amount{MicroUSD: 1_000_000}, 0, 0, "the run has used $1.20 of $1.00", 1_200_000},
		"tokens that pi tells":  {"pi", []string{piTurn, piTurn}, engines.Amount{Tokens: 2_000}, 0, 0, "the run has used 2200 tokens of 2000 tokens", 800_000},
		"dollars by the list": {"claude", []string{strings.Replace(claudeTurn, "%d", "1", 1), strings.Replace(claudeTurn, "%d", "2", 1)},
			engines.Amount{MicroUSD: 1_500_000}, 5, 50, "the run has used $2.00 of $1.50", 2_000_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := []enginetest.Step{{Write: "half.txt", Content: "half"}}
			for _, l := range tt.lines {
				steps = append(steps, enginetest.Step{Print: l})
			}
			req := request(t, box.LevelNone, tt.cli, append(steps, enginetest.Step{Hang: true})...)
			req.Limit = tt.limit
			if tt.in > 0 {
				req.Engine.Declared.CostPerMTokIn, req.Engine.Declared.CostPerMTokOut = &tt.in, &tt.out
			}
			got := engines.Run(t.Context(), req)
			if got.Ended != engines.EndedLimit || got.Over != tt.why || got.Fault != nil || got.Err != nil {
				t.Errorf("ended %s, over %q, fault %v, %v; want limit, %q", got.Ended, got.Over, got.Fault, got.Err, tt.why)
			}
			if got.Usage.CostMicroUSD != tt.cost {
				t.Errorf("cost %d, want %d", got.Usage.CostMicroUSD, tt.cost)
			}
			if got.Duration > 20*time.Second {
				t.Errorf("it took %s", got.Duration)
			}
		})
	}
}

// TestLimitAtTheEnd lets an engine end by itself that tells at its end what it used.
func TestLimitAtTheEnd(t *testing.T) {
	req := request(t, box.LevelNone, "codex",
		enginetest.Step{Print: `{"type":"item.completed","item":{"type":"agent_message","text":"done"}}`},
		enginetest.Step{Print: `{"type":"turn.completed","usage":{"input_tokens":100,"output_tokens":10}}`})
	req.Limit = engines.Amount{Tokens: 50}
	if got := engines.Run(t.Context(), req); got.Ended != engines.EndedExited || got.Over != "" || got.Text != "done" {
		t.Errorf("ended %s, over %q, text %q; want exited, nothing, done", got.Ended, got.Over, got.Text)
	}
}

// TestNoLimit lets an engine that tells a lot run to its end.
func TestNoLimit(t *testing.T) {
	req := request(t, box.LevelNone, "pi", enginetest.Step{Print: piTurn}, enginetest.Step{Print: piTurn})
	if got := engines.Run(t.Context(), req); got.Ended != engines.EndedExited || got.Usage.CostMicroUSD != 800_000 {
		t.Errorf("ended %s, cost %d; want exited, 800000", got.Ended, got.Usage.CostMicroUSD)
	}
}

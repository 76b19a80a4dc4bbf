package worker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/internal/ferrytest"
	"github.com/ferry-fleet/ferry/worker"
)

// finished puts n orders with a result each into the channel, as the agent.
func finished(m *ferrytest.Machine, agent ferry.AgentName, n int) {
	m.T.Helper()
	w := m.Agent(agent)
	for i := range n {
		id := m.Order(fmt.Sprintf("t-old-%05d", i), nil)
		_, err := w.Update(m.T.Context(), time.Now(), func(tx *channel.Tx) error {
			claim, err := tx.Add(&ferry.Claim{Order: id, Attempt: 1})
			if err != nil {
				return err
			}
			start, err := tx.Add(&ferry.Start{Order: id, Attempt: 1, Claim: claim, Engine: "script", Sandbox: "bwrap"})
			if err != nil {
				return err
			}
			_, err = tx.Add(&ferry.Result{Order: id, Attempt: 1, Start: start, Answer: "an answer"})
			return err
		})
		m.Must(err)
	}
}

// BenchmarkPass is one pass over a channel in which nothing is new, with that
// many finished orders: the cost must not grow with them.
func BenchmarkPass(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			m := ferrytest.New(b, files)
			cfg := config(m, "wisp", m.Engine("fix", fix))
			finished(m, "wisp", n)
			w, err := worker.New(cfg)
			m.Must(err)
			m.Must(w.Pass(b.Context(), time.Now()))
			for b.Loop() {
				if err := w.Pass(b.Context(), time.Now()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOrderToEngine is the time from an order's being signed until the
// engine's process has begun, with a worker that waits for it. The script of
// the engine writes the time of its own beginning.
func BenchmarkOrderToEngine(b *testing.B) {
	m := ferrytest.New(b, files)
	cfg := config(m, "wisp", m.Engine("clock", "date +%s%N >began; echo done\n"))
	r := start(m, cfg)
	m.Eventually("the worker is up", 10*time.Second, func() bool {
		_, err := os.Stat(cfg.Status)
		return err == nil
	})
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		label := fmt.Sprintf("t-%05d", i)
		from := time.Now()
		m.Order(label, nil)
		task := reaches(m, label, ferry.StateDone)
		nano, err := strconv.ParseInt(strings.TrimSpace(gateFile(m, task.StandingResult().Result.Commit, "began")), 10, 64)
		m.Must(err)
		took = append(took, time.Unix(0, nano).Sub(from))
	}
	slices.Sort(took)
	at := func(p int) float64 { return float64(took[len(took)*p/100].Microseconds()) / 1000 }
	b.ReportMetric(at(50), "p50-ms")
	b.ReportMetric(at(95), "p95-ms")
	r.stop()
	m.Must(os.RemoveAll(filepath.Join(m.State, "worker-wisp")))
}

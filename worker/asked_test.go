package worker_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/ferrytest"
	"github.com/ferry-fleet/ferry/worker"
)

// asking waits until a question with such a key is open about an order.
func asking(m *ferrytest.Machine, label, key string) ferry.Open {
	m.T.Helper()
	var out ferry.Open
	m.Eventually("a question "+key, 30*time.Second, func() bool {
		for _, q := range m.Task(label).Questions {
			if strings.HasPrefix(q.Question.Key, key) {
				out = q
				return true
			}
		}
		return false
	})
	return out
}

func (r *running) status() worker.Status {
	s, err := worker.ReadStatus(r.cfg.Status)
	if err != nil {
		return worker.Status{}
	}
	return s
}

// becomes waits until the worker says an engine is in a state.
func (r *running) becomes(engine int, state string) {
	r.m.T.Helper()
	r.m.Eventually("the engine is "+state, 30*time.Second, func() bool {
		s := r.status()
		return len(s.Engines) > engine && s.Engines[engine].State == state
	})
}

// TestAskedAboutAnEngine: the master is asked about an engine that keeps failing and about an order that none is left for.
// The orders go on meanwhile; the answers take effect on the worker that asked, and outlive it.
func TestAskedAboutAnEngine(t *testing.T) {
	m := ferrytest.New(t, files)
	cfg := config(m, "wisp", named(m, "only", outOfCredit))
	cfg.Desk, cfg.AlertAfter = filepath.Join(filepath.Dir(cfg.Runs), "desk.json"), 1
	r := start(m, cfg)
	id := m.Order("t-asked", nil)
	alert := asking(m, "t-asked", "engine-alert-here-wisp-only-")
	for _, want := range []string{"Engine only of wisp on here", "1 times in a row: credit: ", "Orders: t-asked", "expected back at"} {
		if !strings.Contains(alert.Question.Text, want) {
			t.Errorf("the question is %q, want %q in it", alert.Question.Text, want)
		}
	}
	stuck := asking(m, "t-asked", "order-stuck-here-wisp")
	if task := m.Task("t-asked"); task.State != ferry.StateOpen || !task.Next.Claimable {
		t.Errorf("the order is %s (%s), want it open for others", task.State, task.Hold)
	}
	answer := func(q ferry.Open, option string) {
		t.Helper()
		_, err := m.Operator.Answer(t.Context(), time.Now(), ferry.Answer{Order: id, Question: q.ID, Option: option})
		m.Must(err)
	}
	answer(alert, "block")
	r.becomes(0, "blocked")
	r.stop()
	r = start(m, cfg)
	r.becomes(0, "blocked")
	m.Engine("only", fix) // it is mended
	answer(stuck, "retry")
	reaches(m, "t-asked", ferry.StateDone)
	r.becomes(0, "up")
	r.stop()
}

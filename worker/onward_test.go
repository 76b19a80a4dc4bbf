package worker_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/internal/ferrytest"
	"github.com/ferry-fleet/ferry/worker"
)

// named gives a scripted engine a name of its own.
func named(m *ferrytest.Machine, name, script string) engines.Config {
	c := m.Engine(name, script)
	c.Name = ferry.EngineName(name)
	return c
}

const outOfCredit = "echo 'ERROR: 402 Insufficient credits' >&2; exit 1\n"

// notes gives the texts of the notes of a kind about an order.
func notes(m *ferrytest.Machine, order ferry.RecordID, kind string) []string {
	m.T.Helper()
	entries, err := m.Channel.Records(m.T.Context(), order)
	m.Must(err)
	var out []string
	for _, e := range entries {
		if n, ok := e.Body.(*ferry.Note); ok && n.Kind == kind && e.Counted {
			out = append(out, n.Text)
		}
	}
	return out
}

// TestNextEngineGoesOnFromWhatTheFirstLeft is an order whose engine dies in the middle of it: the second goes on from its
// commit, in the same attempt, and nothing counts against the order.
func TestNextEngineGoesOnFromWhatTheFirstLeft(t *testing.T) {
	m := ferrytest.New(t, files)
	cfg := config(m, "wisp", named(m, "first", "echo half >half.txt\n"+outOfCredit))
	cfg.Engines = append(cfg.Engines, named(m, "second", "test -e half.txt && echo 42 >answer.txt; echo done\n"), named(m, "third", fix))
	r := start(m, cfg)
	id := m.Order("t-half", func(o *ferry.Order) { o.Checks = []string{"sh check.sh"} })
	task := reaches(m, "t-half", ferry.StateDone)
	a := task.Attempts[0]
	if len(task.Attempts) != 1 || task.Failures != 0 || len(a.Runs) != 2 {
		t.Fatalf("%d attempts, %d failures, runs %+v; want one attempt of two runs", len(task.Attempts), task.Failures, a.Runs)
	}
	if a.Runs[0].Engine != "first" || a.Runs[0].Outcome != ferry.OutcomeFault || a.Runs[1].Engine != "second" || a.Runs[1].Outcome != ferry.OutcomeDone {
		t.Errorf("runs = %+v, want first with a fault and second done", a.Runs)
	}
	if got := task.StandingResult().Result.Engine; got != "second" {
		t.Errorf("the result is of %q", got)
	}
	log := m.Git("log", "--format=%B", task.Branch())
	if !strings.Contains(log, "Ferry-Engine: first") || !strings.Contains(log, "Ferry-Engine: second") {
		t.Errorf("the branch holds\n%s\nwant a commit of each engine", log)
	}
	said := notes(m, id, "engine-fault")
	if len(said) != 1 || !strings.Contains(said[0], "engine first failed: the order goes on with engine second; it rests until ") || !strings.Contains(said[0], "; credit: ") {
		t.Errorf("notes = %q", said)
	}
	m.Order("t-after", nil) // the first rests
	task = reaches(m, "t-after", ferry.StateDone)
	if got := task.Attempts[0].Begun.Engine; got != "second" {
		t.Errorf("the next order began with %q", got)
	}
	r.stop()
	r.noSurvivors()
}

// TestNoEngineIsLeft gives the order back with the name of each engine and why, and never goes through more engines than
// allowed.
func TestNoEngineIsLeft(t *testing.T) {
	m := ferrytest.New(t, files)
	cfg := config(m, "wisp", named(m, "e1", outOfCredit))
	for _, n := range []string{"e2", "e3"} {
		cfg.Engines = append(cfg.Engines, named(m, n, outOfCredit))
	}
	cfg.MaxEngines = 2
	start(m, cfg)
	id := m.Order("t-stuck", nil)
	var task ferry.Task
	m.Eventually("the first attempt is over", 30*time.Second, func() bool {
		task = m.Task("t-stuck")
		return len(task.Attempts) > 0 && task.Attempts[0].Stop != nil
	})
	stop := task.Attempts[0].Stop
	if stop.Reason.Counts() || !strings.HasPrefix(stop.Note, "released: 2 engines have failed it") || !strings.Contains(stop.Note, "e1: credit") || !strings.Contains(stop.Note, "e2: credit") {
		t.Errorf("stop = %+v", stop)
	}
	if len(task.Attempts[0].Runs) != 2 {
		t.Errorf("%d engines were tried, want 2", len(task.Attempts[0].Runs))
	}
	m.Eventually("the third has failed it too", 30*time.Second, func() bool {
		task = m.Task("t-stuck")
		return len(task.Attempts) == 2 && task.Attempts[1].Stop != nil
	})
	if stop = task.Attempts[1].Stop; !strings.HasPrefix(stop.Note, "released: no engine is left for it: e3: credit") || !strings.Contains(stop.Note, "e1: engine e1 rests until") {
		t.Errorf("stop = %+v", stop)
	}
	if task.State != ferry.StateOpen || task.Failures != 0 {
		t.Errorf("state %s with %d failures, want open and 0", task.State, task.Failures)
	}
	if said := notes(m, id, "engine-fault"); len(said) != 3 {
		t.Errorf("%d notes, want one for each engine: %q", len(said), said)
	}
}

// stand gives an engine on a shelf.
func stand(name string, edit func(*worker.Stand)) worker.Stand {
	s := worker.Stand{Engine: engines.Config{Name: ferry.EngineName(name), Kind: engines.KindCLI, Command: name, Args: []string{"{prompt}"}}}
	if edit != nil {
		edit(&s)
	}
	s.Profile = engines.ProfileOf(s.Engine)
	return s
}

func TestChoose(t *testing.T) {
	tier := func(x engines.Tier) func(*worker.Stand) { return func(s *worker.Stand) { s.Engine.Tier = x } }
	text := func(s *worker.Stand) {
		s.Engine.Kind, s.Engine.Command, s.Engine.Args = engines.KindHTTP, "", nil
		s.Engine.BaseURL, s.Engine.Model = "http://localhost:1/v1", "m"
	}
	asked := func(p engines.Proof) func(*worker.Stand) {
		return func(s *worker.Stand) { s.Engine.BaseURL, s.Proof = "http://localhost:1/v1", p }
	}
	rests := func(until time.Time) func(*worker.Stand) {
		return func(s *worker.Stand) {
			s.Health = engines.Health{Failures: 1, Until: until, Class: engines.FaultEndpoint, Reason: "status 503"}
		}
	}
	tests := []struct {
		name   string
		stands []worker.Stand
		order  ferry.Order
		tried  []ferry.EngineName
		want   ferry.EngineName
		left   map[ferry.EngineName]string
	}{
		{name: "the first", stands: []worker.Stand{stand("a", nil), stand("b", nil)}, want: "a"},
		{name: "the first was tried", stands: []worker.Stand{stand("a", nil), stand("b", nil)}, tried: []ferry.EngineName{"a"}, want: "b", left: map[ferry.EngineName]string{"a": "failed this attempt"}},
		{name: "a judge builds when no builder is left", stands: []worker.Stand{stand("j", tier("judge")), stand("b", nil)}, tried: []ferry.EngineName{"b"}, want: "j"},
		{name: "a builder goes before a judge", stands: []worker.Stand{stand("j", tier("judge")), stand("b", nil)}, want: "b"},
		{name: "a chore engine never builds", stands: []worker.Stand{stand("c", tier("chore"))}, left: map[ferry.EngineName]string{"c": "is for chore work"}},
		{name: "a chore goes to a chore engine", stands: []worker.Stand{stand("b", nil), stand("c", tier("chore"))}, order: ferry.Order{Tier: "chore"}, want: "c"},
		{name: "a chore climbs", stands: []worker.Stand{stand("b", nil)}, order: ferry.Order{Tier: "chore"}, want: "b"},
		{name: "an endpoint edits nothing", stands: []worker.Stand{stand("h", text), stand("b", nil)}, want: "b", left: map[ferry.EngineName]string{"h": "does not do code"}},
		{name: "an endpoint reviews", stands: []worker.Stand{stand("h", text), stand("b", nil)}, order: ferry.Order{Kind: "review"}, tried: []ferry.EngineName{"b"}, want: "h"},
		{name: "a review of files needs code", stands: []worker.Stand{stand("h", text), stand("b", nil)}, order: ferry.Order{Kind: "review", Touches: []string{"a"}}, want: "b"},
		{name: "nothing but endpoints", stands: []worker.Stand{stand("h", text)}, want: "h"},
		{name: "no engine makes images", stands: []worker.Stand{stand("b", nil)}, order: ferry.Order{Kind: "image"}, left: map[ferry.EngineName]string{"b": "does not do image"}},
		{name: "said needs win", stands: []worker.Stand{stand("b", nil)}, order: ferry.Order{Needs: []string{"vision"}}, left: map[ferry.EngineName]string{"b": "does not do vision"}},
		{name: "a context that is too small", stands: []worker.Stand{stand("b-32k", nil), stand("b", nil)}, order: ferry.Order{MinContextK: 100}, want: "b", left: map[ferry.EngineName]string{"b-32k": "32k tokens"}},
		{name: "it rests", stands: []worker.Stand{stand("a", rests(noon.Add(time.Hour))), stand("b", nil)}, want: "b", left: map[ferry.EngineName]string{"a": "endpoint: status 503"}},
		{name: "its rest is over and nobody saw it answer", stands: []worker.Stand{stand("a", rests(noon))}, left: map[ferry.EngineName]string{"a": "is asked whether it answers"}},
		{name: "it answered after its rest", stands: []worker.Stand{stand("a", func(s *worker.Stand) {
			rests(noon)(s)
			s.Proof = engines.Proof{State: engines.StateUp, At: noon}
		})}, want: "a"},
		{name: "it cannot be asked after its rest", stands: []worker.Stand{stand("a", func(s *worker.Stand) {
			rests(noon)(s)
			s.Proof = engines.Proof{State: engines.StateUnknown, Proof: engines.ProofNone, At: noon}
		})}, want: "a"},
		{name: "reachable goes behind proven", stands: []worker.Stand{
			stand("a", asked(engines.Proof{State: engines.StateUnknown, Proof: engines.ProofReachable})),
			stand("b", asked(engines.Proof{State: engines.StateUp})),
		}, want: "b"},
		{name: "unprobed is not held against", stands: []worker.Stand{stand("a", nil), stand("b", asked(engines.Proof{State: engines.StateUp}))}, want: "a"},
		{name: "a run proves it too", stands: []worker.Stand{
			stand("a", func(s *worker.Stand) {
				asked(engines.Proof{State: engines.StateUnknown, Proof: engines.ProofReachable, At: noon})(s)
				s.Worked = noon.Add(1)
			}),
			stand("b", asked(engines.Proof{State: engines.StateUp})),
		}, want: "a"},
		{name: "reachable is better than nothing", stands: []worker.Stand{stand("a", asked(engines.Proof{State: engines.StateUnknown, Proof: engines.ProofReachable}))}, want: "a"},
		{name: "found down", stands: []worker.Stand{stand("a", asked(engines.Proof{State: engines.StateDown, Reason: "no such host"}))}, left: map[ferry.EngineName]string{"a": "no such host"}},
		{name: "blocked", stands: []worker.Stand{stand("a", func(s *worker.Stand) { s.Blocked = "the master blocks it" })}, left: map[ferry.EngineName]string{"a": "the master blocks it"}},
		{name: "out of budget", stands: []worker.Stand{stand("a", func(s *worker.Stand) { s.Spent = "engine a has used 3 requests of 3" })}, left: map[ferry.EngineName]string{"a": "3 requests"}},
		{name: "cannot run", stands: []worker.Stand{stand("a", func(s *worker.Stand) { s.Engine.Unusable = "secret A is not set" })}, left: map[ferry.EngineName]string{"a": "secret A is not set"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := worker.Choose(worker.Search{Stands: tt.stands, Need: worker.NeedOf(&tt.order), Tried: tt.tried, Now: noon})
			if c.Engine.Name != tt.want {
				t.Errorf("Choose() = %q, want %q; left %+v", c.Engine.Name, tt.want, c.Left)
			}
			for _, l := range c.Left {
				if want, ok := tt.left[l.Engine]; ok && !strings.Contains(l.Why, want) {
					t.Errorf("%s is left out because %q, want %q in it", l.Engine, l.Why, want)
				}
			}
			for n := range tt.left {
				if !slices.ContainsFunc(c.Left, func(l worker.Left) bool { return l.Engine == n }) {
					t.Errorf("%s is not left out", n)
				}
			}
		})
	}
}

// TestRouterChoosesOnlyAmongThoseThatMay: a router cannot get at an engine that was left out.
func TestRouterChoosesOnlyAmongThoseThatMay(t *testing.T) {
	stands := []worker.Stand{stand("a", func(s *worker.Stand) { s.Blocked = "no" }), stand("b", nil), stand("c", nil)}
	for i, want := range map[int]ferry.EngineName{0: "b", 1: "c", -1: "b", 2: "b"} {
		var seen []string
		c := worker.Choose(worker.Search{Stands: stands, Now: noon, Route: func(_ worker.Need, may []worker.Stand) int {
			for _, s := range may {
				seen = append(seen, string(s.Engine.Name))
			}
			return i
		}})
		if c.Engine.Name != want || fmt.Sprint(seen) != "[b c]" {
			t.Errorf("router that says %d: %q of %v, want %q", i, c.Engine.Name, seen, want)
		}
	}
}

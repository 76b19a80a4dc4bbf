package worker_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/internal/ferrytest"
	"github.com/ferry-fleet/ferry/worker"
)

// TestBudgetMovesOrdersOn: an engine that has used up its week gets no more orders, also after a restart; the next takes them,
// and without a next they wait, with the reason.
func TestBudgetMovesOrdersOn(t *testing.T) {
	m := ferrytest.New(t, files)
	cfg := config(m, "wisp", named(m, "cheap", fix))
	cfg.Engines = append(cfg.Engines, named(m, "dear", fix))
	cfg.Engines[0].WeeklyRequests, cfg.Engines[1].WeeklyRequests = 1, 1
	cfg.Spend = filepath.Join(filepath.Dir(cfg.Runs), engines.SpendFile)
	r := start(m, cfg)
	m.Order("t-1", nil)
	if task := reaches(m, "t-1", ferry.StateDone); task.Attempts[0].Begun.Engine != "cheap" {
		t.Errorf("the first order went to %s", task.Attempts[0].Begun.Engine)
	}
	r.stop()
	r = start(m, cfg)
	m.Order("t-2", nil)
	if task := reaches(m, "t-2", ferry.StateDone); task.Attempts[0].Begun.Engine != "dear" {
		t.Errorf("the second order went to %s", task.Attempts[0].Begun.Engine)
	}
	m.Order("t-3", nil)
	m.Eventually("the third waits for Monday", 30*time.Second, func() bool {
		s := r.status()
		return len(s.Holds) == 1 && strings.Contains(s.Holds[0].Reason, "engine cheap has used 1 request of 1 request this week") &&
			strings.Contains(s.Holds[0].Reason, "engine dear has used")
	})
	r.becomes(0, "exhausted")
}

// fleetOfChance is a handful of engines, whose faults and costs come by chance.
type fleetOfChance struct {
	r      *rand.Rand
	now    time.Time
	stands []worker.Stand
	ledger engines.Ledger
	runs   int
}

func newFleetOfChance(seed uint64) *fleetOfChance {
	f := &fleetOfChance{r: rand.New(rand.NewPCG(seed, 1)), now: noon}
	for i := range 1 + f.r.IntN(6) {
		f.stands = append(f.stands, stand(fmt.Sprintf("e%d", i), func(s *worker.Stand) {
			s.Engine.Tier = []engines.Tier{engines.TierChore, engines.TierBuild, engines.TierJudge}[f.r.IntN(3)]
			s.Engine.WeeklyRequests = int64(f.r.IntN(8)) // 0 is no limit
			s.Engine.WeeklyUSD = float64(f.r.IntN(4)) * 3
		}))
	}
	return f
}

// ask gives what a run asks of the ledger.
func (f *fleetOfChance) ask(c engines.Config) engines.Ask {
	p := engines.CapPrice(c)
	f.runs++
	return engines.Ask{
		Run: fmt.Sprint(f.runs), Order: "o", Accounts: []engines.Account{engines.AccountOf(c)},
		Least: engines.Estimate("", p), Most: engines.Worst(c.Kind, "", p),
	}
}

// attempt takes an order through its engines, and gives those that were tried and whether one has done it.
func (f *fleetOfChance) attempt(t *testing.T, need worker.Need, most int) (tried []ferry.EngineName, done bool) {
	t.Helper()
	for len(tried) < most {
		stands := slices.Clone(f.stands)
		for i := range stands {
			if _, d := f.ledger.Reserve(f.now, f.ask(stands[i].Engine)); !d.OK {
				stands[i].Spent, stands[i].Opens = d.Why, d.Until
			}
		}
		c := worker.Choose(worker.Search{Stands: stands, Need: need, Tried: tried, Now: f.now})
		if len(c.Left) < len(f.stands) == (c.Engine.Name == "") {
			t.Fatalf("chose %q, and %d of %d are left out", c.Engine.Name, len(c.Left), len(f.stands))
		}
		if c.Engine.Name == "" {
			return tried, false
		}
		i := slices.IndexFunc(f.stands, func(s worker.Stand) bool { return s.Engine.Name == c.Engine.Name })
		s := &f.stands[i]
		if s.Health.Resting(f.now) || slices.Contains(tried, s.Engine.Name) {
			t.Fatalf("%s was chosen, which rests or was tried", s.Engine.Name)
		}
		ask := f.ask(s.Engine)
		l, d := f.ledger.Reserve(f.now, ask)
		if !d.OK {
			t.Fatalf("%s was chosen, and may not run: %s", s.Engine.Name, d.Why)
		}
		f.now = f.now.Add(time.Duration(f.r.IntN(3600)) * time.Second)
		used := engines.Amount{Requests: 1}
		if d.Limit.MicroUSD > 0 {
			used.MicroUSD = f.r.Int64N(d.Limit.MicroUSD + 1)
		}
		f.ledger, _ = l.Settle(f.now, ask.Run, used)
		tried = append(tried, s.Engine.Name)
		if f.r.IntN(2) == 0 {
			s.Health, s.Worked = s.Health.Worked(), f.now
			return tried, true
		}
		s.Health = s.Health.Fail(f.now, engines.Fault{Class: []engines.Class{engines.FaultCredit, engines.FaultRate, engines.FaultSilent}[f.r.IntN(3)]})
	}
	return tried, false
}

// TestFaultsOfChance takes orders through 10,000 sequences of faults: none is lost, none goes through more engines than allowed
// or twice through one, and nothing that is spent passes a budget.
func TestFaultsOfChance(t *testing.T) {
	for seed := range uint64(10_000) {
		f := newFleetOfChance(seed)
		need := worker.NeedOf(&ferry.Order{Tier: []string{"", "chore", "judge"}[f.r.IntN(3)]})
		most := 1 + f.r.IntN(4)
		done := false
		for range 12 {
			var tried []ferry.EngineName
			if tried, done = f.attempt(t, need, most); len(tried) > most {
				t.Fatalf("seed %d: tried %v, at most %d are allowed", seed, tried, most)
			}
			for i := range f.stands {
				s := &f.stands[i]
				acc := engines.AccountOf(s.Engine)
				used := f.ledger.Used(f.now, acc.Name)
				if l := acc.Limit; l.Requests > 0 && used.Requests > l.Requests || l.MicroUSD > 0 && used.MicroUSD > l.MicroUSD {
					t.Fatalf("seed %d: %s has used %+v of %+v", seed, s.Engine.Name, used, l)
				}
				if !s.Health.Resting(f.now) && s.Health.Failures > 0 { // it is asked, and answers
					s.Proof = engines.Proof{State: engines.StateUp, At: f.now}
				}
			}
			f.now = f.now.Add(time.Duration(f.r.IntN(6*3600)) * time.Second)
			if done {
				break
			}
		}
		if done {
			continue
		}
		// It is still there: a week later every engine is rested and has its budget again.
		f.now = f.now.Add(8 * 24 * time.Hour)
		for i := range f.stands {
			f.stands[i].Proof = engines.Proof{State: engines.StateUp, At: f.now}
		}
		c := worker.Choose(worker.Search{Stands: f.stands, Need: need, Now: f.now})
		climbs := map[engines.Tier]int{engines.TierChore: 0, engines.TierBuild: 1, engines.TierJudge: 2}
		able := slices.ContainsFunc(f.stands, func(s worker.Stand) bool { return climbs[s.Engine.Tier] >= climbs[need.Tier] })
		if (c.Engine.Name != "") != able {
			t.Fatalf("seed %d: a week later it goes to %q, and an engine for it is there: %v", seed, c.Engine.Name, able)
		}
	}
}

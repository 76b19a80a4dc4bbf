package sim_test

import (
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry/internal/ferrytest/sim"
)

// harmless are faults that give no order a reason to be started twice.
const harmless = "wall,drift,repeat,remote,lost-answer,flood,cancel"

func parse(t *testing.T, s string) sim.Faults {
	t.Helper()
	f, err := sim.ParseFaults(s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// seeds gives n, or a tenth of it where the race detector or a person in a hurry asks for less.
func seeds(n uint64) uint64 {
	if testing.Short() {
		return n / 10
	}
	return n
}

// corpus holds seeds that once found something, by the faults that could be drawn then. They run first.
func corpus(t *testing.T) map[sim.Faults][]uint64 {
	return map[sim.Faults][]uint64{
		sim.AllFaults &^ parse(t, "disk,half,overdue,authority"): {
			121, 241, 1127, 1133, 1271, 2146, 2940, 779, 5926, 7051, 7372, 7912, 8375, 8576, 22517,
		},
		sim.AllFaults: {53, 94, 122, 131},
	}
}

func TestCorpus(t *testing.T) {
	for allowed, list := range corpus(t) {
		for _, seed := range list {
			r := sim.Run(seed, sim.Swarm(seed, allowed), nil)
			for _, v := range r.Violations {
				t.Errorf("seed %d: %s\nagain: %s", seed, v, r.Replay())
			}
		}
	}
}

// In every world the invariants hold; and over all of them everything was seen that they are about.
func TestSwarm(t *testing.T) {
	var total sim.Stats
	n := seeds(500)
	sim.Batch{
		First: 1, N: n, Workers: runtime.GOMAXPROCS(0),
		Scenario: func(seed uint64) sim.Scenario { return sim.Swarm(seed, sim.AllFaults) },
		Each: func(r sim.Report) bool {
			total.Add(&r.Stats)
			for _, v := range r.Violations {
				t.Errorf("seed %d, %s, faults %s: %s\nagain: %s", r.Seed, r.Scenario.Name, r.Scenario.Faults, v, r.Replay())
			}
			return !t.Failed()
		},
	}.Run()
	if t.Failed() || testing.Short() {
		return
	}
	for i, name := range sim.SightNames() {
		if total.Sights[i] == 0 {
			t.Errorf("%d seeds never showed: %s", n, name)
		}
	}
}

// The rules are what makes the invariants hold: without any one of them, one is broken.
func TestMutants(t *testing.T) {
	mutants := sim.Mutants()
	if testing.Short() { // those that a few seeds catch
		mutants = []sim.Mutant{sim.MutantNoSettle, sim.MutantNoFence, sim.MutantLeaseOnMain}
	}
	for _, m := range mutants {
		if m == sim.MutantMinByTime {
			continue // TestWallClocks
		}
		t.Run(string(m), func(t *testing.T) {
			allowed := sim.AllFaults &^ parse(t, "clone,byzantine")
			switch m {
			case sim.MutantNoSettle:
				allowed = parse(t, harmless) // a second start is wrong only where no fault explains it
			case sim.MutantLapseBoot:
				allowed = parse(t, "crash,write,partition,one-way,tail") // among all faults it takes about 900 seeds
			}
			caught := false
			sim.Batch{
				First: 1, N: 2000, Workers: runtime.GOMAXPROCS(0),
				Scenario: func(seed uint64) sim.Scenario {
					sc := sim.Swarm(seed, allowed)
					sc.Mutant = m
					if m == sim.MutantLapseBoot {
						sc.Workers, sc.Orders = 4, 16 // many starts to be wrong about
					}
					return sc
				},
				Each: func(r sim.Report) bool {
					if caught = len(r.Violations) > 0; caught {
						t.Logf("caught by seed %d: %s", r.Seed, r.Violations[0])
					}
					return !caught
				},
			}.Run()
			if !caught {
				t.Errorf("2000 seeds did not notice")
			}
		})
	}
}

func TestSameSeedSameWorld(t *testing.T) {
	for seed := range uint64(12) {
		sc := sim.Swarm(seed, sim.AllFaults)
		a, b := sim.Run(seed, sc, nil), sim.Run(seed, sc, nil)
		if a.Digest != b.Digest {
			t.Errorf("seed %d: two runs differ", seed)
		}
		if diff := cmp.Diff(a.Stats, b.Stats); diff != "" {
			t.Errorf("seed %d: %s", seed, diff)
		}
	}
}

// I13: what the wall clocks of the machines show changes nothing, though they are years apart. A mutant that lets the
// earliest claim win is found by it.
func TestWallClocks(t *testing.T) {
	differs := func(m sim.Mutant, n uint64) (seed uint64, ok bool) {
		for seed := range n {
			sc := sim.Swarm(seed, parse(t, "tail,loss,repeat,torn,deaf,partition,one-way,relay,crash,suspend,drift,remote,lost-answer,cancel,send-back"))
			sc.Mutant, sc.WallSeed = m, 1
			sc.Reviewers = 2 // an operator who reviews names others' records, whose dates then are in the ids of orders
			a := sim.Run(seed, sc, nil)
			sc.WallSeed = 2
			if b := sim.Run(seed, sc, nil); a.Digest != b.Digest {
				return seed, true
			}
		}
		return 0, false
	}
	if seed, ok := differs(sim.MutantNone, seeds(60)); ok {
		t.Errorf("seed %d: other wall clocks, another trace", seed)
	}
	seed, ok := differs(sim.MutantMinByTime, 200)
	if !ok {
		t.Errorf("200 seeds did not notice %s", sim.MutantMinByTime)
	}
	t.Logf("%s is caught by seed %d", sim.MutantMinByTime, seed)
}

// On the same seeds, the rule of the oldest claim starts most orders several times, and ferry's each once.
func TestPeerRule(t *testing.T) {
	calm := sim.Scenario{Name: "calm", Workers: 4, Reviewers: 2, Orders: 12, Delay: sim.Scenarios()[0].Delay, Liveness: true}
	for _, peer := range []bool{false, true} {
		sc := calm
		sc.Peer = peer
		var total sim.Stats
		sim.Batch{First: 1, N: 20, Workers: runtime.GOMAXPROCS(0), Scenario: func(uint64) sim.Scenario { return sc }, Each: func(r sim.Report) bool {
			total.Add(&r.Stats)
			return true
		}}.Run()
		perOrder := float64(total.Starts) / float64(total.Started)
		if total.Started != 240 || total.Violations > 0 || peer != (perOrder > 1.3) || !peer && total.Starts != total.Started {
			t.Errorf("peer %v: %d of 240 orders started, %.3f starts each, %d violations", peer, total.Started, perOrder, total.Violations)
		}
	}
}

func TestParseFaults(t *testing.T) {
	for _, name := range append(sim.FaultNames(), "all", "none", "crash,suspend") {
		f, err := sim.ParseFaults(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name != "all" && f.String() != name {
			t.Errorf("%s reads as %s", name, f)
		}
	}
	if _, err := sim.ParseFaults("crash,bug"); err == nil {
		t.Error("an unknown fault is read")
	}
}

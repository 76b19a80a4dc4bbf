package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Faults is a set of kinds of faults.
type Faults uint32

// The kinds of faults, by the names that FaultNames gives them.
const (
	faultTail       Faults = 1 << iota // some files take very long
	faultLoss                          // a transfer fails and is tried again after a while
	faultRepeat                        // files turn up twice, as conflict copies
	faultTorn                          // a file is seen before it is whole, or missing for a moment
	faultDeaf                          // a change of the folder is not noticed before the next poll
	faultPartition                     // machines are cut off from others
	faultOneWay                        // the same in one direction
	faultRelay                         // some pairs of machines have no link at all
	faultDelete                        // a device deletes files of others
	faultRollback                      // a device puts old versions of files back
	faultFlood                         // a stranger writes into the folder
	faultCrash                         // processes and machines die, some for good
	faultWrite                         // a machine dies in the middle of a write
	faultSuspend                       // machines sleep
	faultWall                          // wall clocks are years off, and jump
	faultDrift                         // clocks run fast or slow
	faultRemote                        // the git remote is away for a while
	faultLostAnswer                    // a push happens and its answer is lost
	faultClone                         // two machines run with one key
	faultByzantine                     // a member breaks the rules
	faultCancel                        // the operator takes orders back
	faultFail                          // engines fail
	faultSendBack                      // reviewers send results back
	faultDisk                          // a disk has no room for a while
	faultHalf                          // a file is published in part
	faultOverdue                       // orders name a time, and who may dispatch ends what runs over it
	faultAuthority                     // the master writes policies, a delegation with few uses, and the next root
	lastFault
)

// AllFaults are all kinds together.
const AllFaults = lastFault - 1

// FaultNames lists the names of the kinds of faults.
func FaultNames() []string {
	return []string{
		"tail", "loss", "repeat", "torn", "deaf", "partition", "one-way", "relay", "delete", "rollback", "flood", "crash", "write",
		"suspend", "wall", "drift", "remote", "lost-answer", "clone", "byzantine", "cancel", "fail", "send-back",
		"disk", "half", "overdue", "authority",
	}
}

// ParseFaults reads names joined by commas; "all" and "none" are sets too.
func ParseFaults(s string) (Faults, error) {
	switch s {
	case "all":
		return AllFaults, nil
	case "none", "":
		return 0, nil
	}
	var f Faults
	for name := range strings.SplitSeq(s, ",") {
		i := slices.Index(FaultNames(), strings.TrimSpace(name))
		if i < 0 {
			return 0, fmt.Errorf("fault %q: want all, none, or some of %s", name, strings.Join(FaultNames(), ","))
		}
		f |= 1 << i
	}
	return f, nil
}

// String gives the names, joined by commas.
func (f Faults) String() string {
	var names []string
	for i, name := range FaultNames() {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ",")
}

// Delay is the time that a file takes from one folder to another.
type Delay struct{ Min, Max time.Duration }

// Scenario is one kind of world. The zero values of its rates are drawn from the seed.
type Scenario struct {
	Name      string
	Workers   int // members that work
	Reviewers int // members that review and land
	Both      int // members that do both
	Orders    int
	Delay     Delay
	Faults    Faults
	Allowed   Faults // what Faults was drawn from, in a swarm
	Liveness  bool   // faults end, and then every order has to
	Peer      bool   // the workers follow the rule of the oldest claim
	Mutant    Mutant
	WallSeed  uint64 // another one gives other wall clocks in the same world

	rates
}

// rates say how often each fault strikes: probabilities of single steps, and mean times between strikes in the world.
type rates struct {
	tail, loss, repeat, torn, deaf, write, lostAnswer, fail, sendBack, half float64
	partition, crash, suspend, delete, rollback, flood, remote, wall, disk  time.Duration
	gone                                                                    float64 // of the crashes: for good
	poll                                                                    time.Duration
	issue                                                                   time.Duration // all orders are given within it
	until                                                                   instant       // when faults end
}

// Swarm draws the scenario of a seed: its machines, a subset of the allowed faults and their rates. Every second seed is
// about liveness.
func Swarm(seed uint64, allowed Faults) Scenario {
	r := rand.New(rand.NewPCG(seed, 'w'))
	sc := Scenario{Name: "swarm, safety", Liveness: seed%2 == 1}
	if sc.Liveness {
		sc.Name = "swarm, liveness"
	}
	sc.Workers, sc.Reviewers, sc.Both = 1+r.IntN(4), 1+r.IntN(2), r.IntN(2)
	sc.Orders = 4 + r.IntN(5)
	if r.IntN(8) == 0 {
		sc.Orders = 9 + r.IntN(12)
	}
	sc.Delay.Min = 20*time.Millisecond + time.Duration(r.Int64N(int64(500*time.Millisecond)))
	sc.Delay.Max = sc.Delay.Min + time.Duration(r.Int64N(int64(3*time.Second)))
	if r.IntN(6) == 0 {
		sc.Delay.Max += time.Duration(r.Int64N(int64(15 * time.Second)))
	}
	sc.Faults = drawFaults(r, 0, firstFaults) | drawFaults(rand.New(rand.NewPCG(seed, 'x')), firstFaults, len(FaultNames()))
	sc.Faults &= allowed
	sc.Allowed = allowed
	sc.rates = drawRates(r)
	return sc
}

// firstFaults is how many kinds of faults are drawn together. Those after them have a source of their own, so that a seed
// without them makes the world that it made before there were any.
const firstFaults = 23

func drawFaults(r *rand.Rand, from, to int) (f Faults) {
	density := r.Float64()
	for i := from; i < to; i++ {
		if r.Float64() < density {
			f |= 1 << i
		}
	}
	return f
}

// fill gives a scenario that was written down the rates that it leaves open.
func (sc Scenario) fill(seed uint64) Scenario {
	if sc.poll == 0 {
		sc.rates = drawRates(rand.New(rand.NewPCG(seed, 'f')))
	}
	return sc
}

func drawRates(r *rand.Rand) rates {
	between := func(low, high time.Duration) time.Duration { return low + time.Duration(r.Int64N(int64(high-low))) }
	return rates{
		tail: 0.01 + 0.06*r.Float64(), loss: 0.01 + 0.06*r.Float64(), repeat: 0.2 * r.Float64(), torn: 0.1 * r.Float64(),
		deaf: 0.3 * r.Float64(), write: 0.02 * r.Float64(), lostAnswer: 0.15 * r.Float64(), fail: 0.15 * r.Float64(),
		sendBack:  0.25 * r.Float64(),
		partition: between(2*time.Minute, 10*time.Minute), crash: between(3*time.Minute, 15*time.Minute),
		suspend: between(3*time.Minute, 15*time.Minute), delete: between(time.Minute, 5*time.Minute),
		rollback: between(time.Minute, 5*time.Minute), flood: between(5*time.Second, time.Minute),
		remote: between(3*time.Minute, 10*time.Minute), wall: between(time.Minute, 10*time.Minute),
		gone: 0.15 * r.Float64(), poll: between(time.Second, 10*time.Second), issue: between(time.Minute, 8*time.Minute),
		until: between(15*time.Minute, 25*time.Minute), disk: between(3*time.Minute, 12*time.Minute), half: 0.1 * r.Float64(),
	}
}

// hit draws whether a fault strikes at this step. Where the fault is off, nothing is drawn.
func (w *world) hit(f Faults, p float64) bool {
	return w.faulty(f) && w.rng.Float64() < p
}

func (w *world) faulty(f Faults) bool {
	return w.sc.Faults&f != 0 && w.time.now < w.sc.until
}

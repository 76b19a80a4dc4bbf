package engines_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/engines"
)

func TestMonday(t *testing.T) {
	for now, want := range map[string]string{
		"2026-11-30T00:00:00Z":      "2026-11-30",
		"2026-11-29T23:59:59Z":      "2026-11-23",
		"2026-12-06T23:59:59.9Z":    "2026-11-30",
		"2026-12-07T00:00:00Z":      "2026-12-07",
		"2026-11-30T01:00:00+02:00": "2026-11-23", // it is Sunday in UTC
		"2026-11-29T23:00:00-05:00": "2026-11-30",
		"1970-01-01T00:00:00Z":      "1969-12-29",
		"1901-01-01T12:00:00Z":      "1900-12-31",
		"9999-12-31T12:00:00Z":      "9999-12-27",
	} {
		at, err := time.Parse(time.RFC3339, now)
		if err != nil {
			t.Fatal(err)
		}
		got := engines.Monday(at)
		if got.Format(time.DateOnly) != want || got.Weekday() != time.Monday || got.Hour() != 0 {
			t.Errorf("Monday(%s) = %s, want %s", now, got, want)
		}
	}
}

func TestEstimateAndWorst(t *testing.T) {
	p := dollars(5, 25)
	for size, want := range map[string]int64{"small": 40_000, "medium": 135_000, "large": 490_000, "": 135_000} {
		got := engines.Estimate(size, p)
		if got.MicroUSD != want || got.Requests != 1 {
			t.Errorf("Estimate(%q) = %+v, want %d", size, got, want)
		}
		if worst := engines.Worst(engines.KindHTTP, size, p); worst != got {
			t.Errorf("an http engine is called once: %+v, want %+v", worst, got)
		}
		if worst := engines.Worst(engines.KindCLI, size, p); worst.MicroUSD < 7*got.MicroUSD || worst.Requests != 1 {
			t.Errorf("an agent's run is many calls: %+v for %q", worst, size)
		}
	}
	if got := engines.Worst(engines.KindCLI, "large", zero("local")); got.MicroUSD != 0 {
		t.Errorf("a local run costs %d", got.MicroUSD)
	}
}

func TestMeter(t *testing.T) {
	usage := func(in, out int64) ferry.Usage { return ferry.Usage{TokensIn: in, TokensOut: out} }
	said := func(micro int64) ferry.Usage { return ferry.Usage{CostMicroUSD: micro, CostSource: "engine"} }
	for _, tt := range []struct {
		name  string
		limit engines.Amount
		told  []ferry.Usage
		want  string // in the reason of the last; those before give none
	}{
		{"no limit", engines.Amount{}, []ferry.Usage{usage(1e12, 1e12)}, ""},
		{"below", engines.Amount{MicroUSD: 3_000_001}, []ferry.Usage{usage(500_000, 0), usage(1_200_000, 0)}, ""},
		{"money", engines.Amount{MicroUSD: 3_000_000}, []ferry.Usage{usage(500_000, 0), usage(1_200_000, 0)}, "$3.00 of $3.00"},
		{"tokens", engines.Amount{Tokens: 100}, []ferry.Usage{usage(60, 39), usage(60, 40)}, "100 tokens of 100 tokens"},
		{"money that the engine tells", engines.Amount{MicroUSD: 50}, []ferry.Usage{said(49), said(50)}, "$0.00"},
		{"a request is no reason to stop", engines.Amount{Requests: 1}, []ferry.Usage{usage(1, 1)}, ""},
		{"what is told as less counts as before", engines.Amount{Tokens: 100}, []ferry.Usage{usage(99, 0), usage(1, 0), usage(0, 0)}, ""},
	} {
		m := engines.Meter{Limit: tt.limit, Price: dollars(2.5, 15)}
		for i, u := range tt.told {
			why := m.Told(u, 0)
			if i < len(tt.told)-1 && why != "" {
				t.Errorf("%s: stopped early: %s", tt.name, why)
			}
			if i == len(tt.told)-1 && (!strings.Contains(why, tt.want) || (why == "") != (tt.want == "")) {
				t.Errorf("%s: %q, want %q", tt.name, why, tt.want)
			}
		}
	}
	begun := engines.Meter{Limit: engines.Amount{Tokens: 100}}
	begun.Told(usage(100, 0), 0)
	if why := begun.Told(usage(1, 0), 0); !strings.Contains(why, "100 tokens of 100") {
		t.Errorf("an engine that counts anew has given something back: %q", why)
	}
	m := engines.Meter{Limit: engines.Amount{Time: time.Minute}}
	if why := m.Told(ferry.Usage{}, 59*time.Second); why != "" {
		t.Errorf("stopped early: %s", why)
	}
	if why := m.Told(ferry.Usage{}, time.Minute); !strings.Contains(why, "1m0s of 1m0s") {
		t.Errorf("time: %q", why)
	}
}

func TestUsedByStaysInBounds(t *testing.T) {
	u := ferry.Usage{Requests: math.MaxInt64, TokensIn: math.MaxInt64, TokensOut: math.MaxInt64, CostMicroUSD: math.MaxInt64, CostSource: "engine"}
	got := engines.UsedBy(u, engines.Price{}, math.MaxInt64)
	const most = 1<<53 - 1
	if diff := cmp.Diff(engines.Amount{Requests: 1, Tokens: most, MicroUSD: most, Time: most}, got); diff != "" {
		t.Error(diff)
	}
	u = ferry.Usage{TokensIn: -1, TokensOut: math.MinInt64, CostMicroUSD: -1, CostSource: "engine"}
	if diff := cmp.Diff(engines.Amount{Requests: 1}, engines.UsedBy(u, engines.Price{}, -1)); diff != "" {
		t.Error(diff)
	}
}

func TestShare(t *testing.T) {
	const a, b, c = ferry.WriterID("a"), ferry.WriterID("b"), ferry.WriterID("c")
	grant := func(to ferry.WriterID, n int64) engines.Allotment { return engines.Allotment{To: to, MicroUSD: n} }
	gift := func(from, to ferry.WriterID, n int64) engines.Allotment {
		return engines.Allotment{From: from, To: to, MicroUSD: n}
	}
	for _, tt := range []struct {
		name string
		cap  int64
		all  []engines.Allotment
		want map[ferry.WriterID]int64
	}{
		{"nothing is allotted", 10, nil, map[ferry.WriterID]int64{a: 0}},
		{"each its own", 10, []engines.Allotment{grant(a, 6), grant(b, 4)}, map[ferry.WriterID]int64{a: 6, b: 4, c: 0}},
		{"more than the cap", 10, []engines.Allotment{grant(a, 6), grant(b, 6), grant(c, 1)}, map[ferry.WriterID]int64{a: 6, b: 4, c: 0}},
		{"a second one adds", 10, []engines.Allotment{grant(a, 2), grant(b, 4), grant(a, 3)}, map[ferry.WriterID]int64{a: 5, b: 4}},
		{"no cap", 0, []engines.Allotment{grant(a, 6)}, map[ferry.WriterID]int64{a: 0}},
		{"below 0", 10, []engines.Allotment{grant(a, -6), grant(b, 12)}, map[ferry.WriterID]int64{a: 0, b: 10}},
		{"a gift", 10, []engines.Allotment{grant(a, 6), gift(a, b, 2)}, map[ferry.WriterID]int64{a: 4, b: 2}},
		{"a gift of what it was given", 10, []engines.Allotment{gift(b, c, 2), gift(a, b, 2), grant(a, 6)}, map[ferry.WriterID]int64{a: 4, b: 0, c: 2}},
		{"a gift of what it does not have", 10, []engines.Allotment{grant(a, 6), gift(a, b, 7)}, map[ferry.WriterID]int64{a: 0, b: 0}},
		{"a gift of what nobody is known to have given it", 10, []engines.Allotment{grant(a, 6), gift(b, c, 2)}, map[ferry.WriterID]int64{a: 6, b: 0, c: 0}},
		{"gifts wait for the ones before them", 10, []engines.Allotment{grant(a, 3), gift(a, b, 4), gift(a, c, 1)}, map[ferry.WriterID]int64{a: 0, b: 0, c: 0}},
		{"a gift to itself", 10, []engines.Allotment{grant(a, 6), gift(a, a, 6)}, map[ferry.WriterID]int64{a: 6}},
		{"a gift below 0", 10, []engines.Allotment{grant(a, 6), grant(b, 2), gift(a, b, -2)}, map[ferry.WriterID]int64{a: 6, b: 2}},
		{"a circle", 10, []engines.Allotment{grant(a, 6), gift(a, b, 6), gift(b, a, 6)}, map[ferry.WriterID]int64{a: 6, b: 0}},
	} {
		f := engines.FleetCap{MicroUSD: tt.cap, Allotments: tt.all}
		for me, want := range tt.want {
			if got := f.Share(me); got != want {
				t.Errorf("%s: share of %s = %d, want %d", tt.name, me, got, want)
			}
		}
		if got := f.Left(a, 1); got != max(0, f.Share(a)-1) {
			t.Errorf("%s: Left(a, 1) = %d of %d", tt.name, got, f.Share(a))
		}
	}
}

// Machines that hear of each other late or never use what they may, and give it
// away: the fleet's cap holds at every moment.
func TestFleetCapHoldsWhileCutOff(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		n, limit := 2+r.IntN(4), r.Int64N(1000)
		w := &fleet{r: r, limit: limit}
		w.chains = make([][]engines.Allotment, n+1) // the master's is the last
		for range n {
			m := machine{knows: make([]int, n+1)}
			w.machines = append(w.machines, m)
		}
		for range 60 {
			w.step()
			total := int64(0)
			for _, m := range w.machines {
				total += m.used
			}
			if total > limit {
				t.Fatalf("seed %d: the fleet used %d of %d", seed, total, limit)
			}
		}
	}
}

type machine struct {
	used  int64
	knows []int // how much of each chain
}

type fleet struct {
	r        *rand.Rand
	limit    int64
	chains   [][]engines.Allotment
	machines []machine
}

func writer(i int) ferry.WriterID { return ferry.WriterID(fmt.Sprintf("w%d", i)) }

// seen gives the cap as machine i knows it, the chains in any mixture.
func (f *fleet) seen(i int) engines.FleetCap {
	out := engines.FleetCap{MicroUSD: f.limit}
	for _, c := range f.r.Perm(len(f.chains)) {
		out.Allotments = append(out.Allotments, f.chains[c][:f.machines[i].knows[c]]...)
	}
	return out
}

func (f *fleet) step() {
	n := len(f.machines)
	i, j := f.r.IntN(n), f.r.IntN(n)
	left := f.seen(i).Left(writer(i), f.machines[i].used)
	switch f.r.IntN(4) {
	case 0: // the master allots, and may allot too much
		f.chains[n] = append(f.chains[n], engines.Allotment{To: writer(i), MicroUSD: f.r.Int64N(f.limit + 1)})
	case 1: // a machine hears more of a chain
		c := f.r.IntN(n + 1)
		if k := f.machines[i].knows[c]; k < len(f.chains[c]) {
			f.machines[i].knows[c] = k + 1 + f.r.IntN(len(f.chains[c])-k)
		}
	case 2:
		f.machines[i].used += f.r.Int64N(left + 1)
	case 3:
		f.chains[i] = append(f.chains[i], engines.Allotment{From: writer(i), To: writer(j), MicroUSD: f.r.Int64N(left + 1)})
		f.machines[i].knows[i] = len(f.chains[i])
	}
}

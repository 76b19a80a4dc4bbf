package engines

import (
	"fmt"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
)

// Amount is what a run uses, and, as a limit, what may be used at most. In a
// limit 0 is no limit.
type Amount struct {
	// Requests are runs of the engine, whatever number of turns the model took in one.
	Requests int64         `json:"requests,omitempty"`
	Tokens   int64         `json:"tokens,omitempty"`
	MicroUSD int64         `json:"micro_usd,omitempty"`
	Time     time.Duration `json:"time_ns,omitempty"`
}

// maxAmount bounds every part of an amount, so that no sum turns negative and
// JSON holds it exactly.
const maxAmount = 1<<53 - 1

func part(n int64) int64 { return min(max(n, 0), maxAmount) }

func (a Amount) bounded() Amount {
	return Amount{part(a.Requests), part(a.Tokens), part(a.MicroUSD), time.Duration(part(int64(a.Time)))}
}

// plus adds two bounded amounts.
func (a Amount) plus(b Amount) Amount {
	return Amount{a.Requests + b.Requests, a.Tokens + b.Tokens, a.MicroUSD + b.MicroUSD, a.Time + b.Time}.bounded()
}

// parts lists the parts of an amount beside the same parts of another.
func (a *Amount) parts() []*int64 {
	return []*int64{&a.Requests, &a.Tokens, &a.MicroUSD, (*int64)(&a.Time)}
}

// partNames are in the order of parts.
var partNames = []string{"requests", "tokens", "dollars", "time"}

// shown writes one part for a person.
func shown(i int, n int64) string {
	switch partNames[i] {
	case "dollars":
		return fmt.Sprintf("$%.2f", float64(n)/1e6)
	case "time":
		return time.Duration(n).Round(time.Second).String()
	}
	if n == 1 {
		return "1 " + strings.TrimSuffix(partNames[i], "s")
	}
	return fmt.Sprintf("%d %s", n, partNames[i])
}

// UsedBy gives what a run used, for Meter and Ledger. p is the engine's CapPrice.
func UsedBy(u ferry.Usage, p Price, elapsed time.Duration) Amount {
	cost, _ := Cost(u, p)
	return Amount{Requests: 1, Tokens: part(part(u.TokensIn) + part(u.TokensOut)), MicroUSD: cost, Time: elapsed}.bounded()
}

// callTokens are what one call about a piece of work reads and writes.
func callTokens(size string) ferry.Usage {
	switch size {
	case SizeSmall:
		return ferry.Usage{Requests: 1, TokensIn: 3_000, TokensOut: 1_000}
	case SizeLarge:
		return ferry.Usage{Requests: 1, TokensIn: 48_000, TokensOut: 10_000}
	}
	return ferry.Usage{Requests: 1, TokensIn: 12_000, TokensOut: 3_000}
}

// runTokens are what an agent reads and writes until it is through: it sends the
// conversation again with every turn.
func runTokens(size string) ferry.Usage {
	switch size {
	case SizeSmall:
		return ferry.Usage{Requests: 1, TokensIn: 700_000, TokensOut: 10_000}
	case SizeLarge:
		return ferry.Usage{Requests: 1, TokensIn: 1_200_000, TokensOut: 60_000}
	}
	return ferry.Usage{Requests: 1, TokensIn: 900_000, TokensOut: 30_000}
}

// Estimate gives what one call about work of a size costs by the list: what
// engines are compared by, and the least that a run has to be able to spend. An
// unknown size is medium.
func Estimate(size string, p Price) Amount { return UsedBy(callTokens(size), p, 0) }

// Worst gives what a run about work of a size is expected to use at most: what is
// set aside for it. It is a bound only where a Meter holds the run to it.
func Worst(kind Kind, size string, p Price) Amount {
	if kind == KindHTTP {
		return UsedBy(callTokens(size), p, 0)
	}
	return UsedBy(runTokens(size), p, 0)
}

// Meter holds one run to its limit while its usage streams in. Limit is
// Decision.Limit, Price the engine's CapPrice. It is for one goroutine.
type Meter struct {
	Limit Amount
	Price Price

	used Amount
}

// Told takes what the run has used so far, as a sum from its beginning, and says
// which limit is reached, "" while none is. A sum that is smaller than one before
// is not believed: an engine that begins to count again has not given anything
// back.
func (m *Meter) Told(u ferry.Usage, elapsed time.Duration) (why string) {
	told := UsedBy(u, m.Price, elapsed)
	limits := m.Limit.parts()
	for i, now := range told.parts() {
		used := m.used.parts()[i]
		*used = max(*used, *now)
		// A run has begun with its one request, and may end with it.
		if limit := *limits[i]; i > 0 && limit > 0 && *used >= limit && why == "" {
			why = fmt.Sprintf("the run has used %s of %s", shown(i, *used), shown(i, limit))
		}
	}
	return why
}

// OrderCap is what one order may use in all its attempts, and what those before
// have used. A run is settled once its result counts in Used, so that it counts in
// one of the two at any moment.
type OrderCap struct {
	Cap  Amount
	Used Amount
}

// Allotment is a share of the fleet's cap in money for one week. Those of the
// master have no From; of any other it is the writer of the record. A member gives
// away no more than Left says.
type Allotment struct {
	From     ferry.WriterID `json:"from,omitempty"`
	To       ferry.WriterID `json:"to"`
	MicroUSD int64          `json:"micro_usd"`
}

// FleetCap is one cap of the fleet for one week, with the allotments that this
// machine knows of: the master's in the order of its chain, those of each member
// in the order of that member's. How different writers' mix does not matter.
type FleetCap struct {
	MicroUSD   int64
	Allotments []Allotment
}

// Share gives what one machine may use in the week. All shares together never
// pass the cap: the master's allotments count in their order as far as the cap
// reaches, and what a member gives away counts for the receiver only as far as
// the giver is known to have it. So a machine that is cut off knows less than
// there is, never more, and the total holds without asking anybody. A machine
// without an allotment has 0.
func (f FleetCap) Share(me ferry.WriterID) int64 {
	has := map[ferry.WriterID]int64{}
	given := map[ferry.WriterID][]Allotment{}
	left := part(f.MicroUSD)
	for _, a := range f.Allotments {
		if a.From == "" {
			n := min(part(a.MicroUSD), left)
			left -= n
			has[a.To] += n
			continue
		}
		given[a.From] = append(given[a.From], a)
	}
	// A gift that is not covered waits for one to its giver, with those behind
	// it. Only its own gifts take from a member, so the order of turns does not
	// change the end.
	for moved := true; moved; {
		moved = false
		for from, gifts := range given {
			for len(gifts) > 0 && part(gifts[0].MicroUSD) <= has[from] {
				n := part(gifts[0].MicroUSD)
				has[from] -= n
				has[gifts[0].To] += n
				gifts, moved = gifts[1:], true
			}
			given[from] = gifts
		}
	}
	// What this machine has signed away is gone, whether or not it is known here
	// what covered it.
	for _, a := range given[me] {
		has[me] -= min(part(a.MicroUSD), has[me])
	}
	return has[me]
}

// Left gives what one machine may still use of its share, or give away, after
// what it has used and set aside.
func (f FleetCap) Left(me ferry.WriterID, used int64) int64 { return max(0, f.Share(me)-part(used)) }

// Monday gives the beginning of a moment's week: Monday 00:00 UTC.
func Monday(now time.Time) time.Time { return time.Unix(week(now), 0).UTC() }

const (
	weekSecs    = 7 * 24 * 60 * 60
	firstMonday = 4 * 24 * 60 * 60 // 5 January 1970
)

// week gives the Unix time of a week's beginning.
func week(now time.Time) int64 {
	n := now.Unix()
	into := (n - firstMonday) % weekSecs
	if into < 0 {
		into += weekSecs
	}
	return n - into
}

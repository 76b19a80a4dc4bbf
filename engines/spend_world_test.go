package engines_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry/engines"
)

// world is an agent with one ledger, and a model of it that is written another
// way: a list of what was used and when.
type world struct {
	t        *testing.T
	seed     uint64
	r        *rand.Rand
	now      time.Time
	back     bool // the clock has been set back
	disk     engines.Ledger
	ledger   engines.Ledger
	limits   []engines.Account
	orders   map[string]engines.OrderCap
	open     map[string]engines.Decision
	of       map[string]engines.Ask
	reserved map[string]engines.Amount
	spent    []bill
	runs     int
}

type bill struct {
	week    time.Time
	account string
	amount  engines.Amount
}

func newWorld(t *testing.T, seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 2))
	w := &world{
		t: t, seed: seed, r: r, now: wednesday.Add(time.Duration(r.Int64N(int64(14 * 24 * time.Hour)))),
		orders: map[string]engines.OrderCap{}, open: map[string]engines.Decision{}, of: map[string]engines.Ask{},
		reserved: map[string]engines.Amount{},
	}
	for i := range 1 + r.IntN(3) {
		a := engines.Account{Name: fmt.Sprint("engine ", i), Limit: engines.Amount{Requests: r.Int64N(6), MicroUSD: r.Int64N(3) * 1000}}
		if r.IntN(3) == 0 {
			share := r.Int64N(1500)
			a.Share = &share
		}
		w.limits = append(w.limits, a)
	}
	for i := range 2 {
		w.orders[fmt.Sprint("t-", i)] = engines.OrderCap{Cap: engines.Amount{MicroUSD: r.Int64N(2) * 1500, Tokens: r.Int64N(2) * 3000}}
	}
	w.write()
	return w
}

// write keeps the ledger as the file would; crash writes and reads it.
func (w *world) write() { w.disk = w.ledger }

// reserve asks for a run of some engines; the file may not be written.
func (w *world) reserve() {
	w.runs++
	order := fmt.Sprint("t-", w.r.IntN(2))
	a := engines.Ask{Run: fmt.Sprint("r", w.runs), Order: order, Cap: w.orders[order]}
	a.Accounts = append(a.Accounts, w.limits[w.r.IntN(len(w.limits))])
	if last := w.limits[len(w.limits)-1]; last.Name != a.Accounts[0].Name && w.r.IntN(2) == 0 {
		a.Accounts = append(a.Accounts, last)
	}
	a.Least = engines.Amount{Requests: 1, Tokens: w.r.Int64N(100), MicroUSD: 1 + w.r.Int64N(100)}
	a.Most = engines.Amount{Requests: 1, Tokens: 1 + w.r.Int64N(2000), MicroUSD: 1 + w.r.Int64N(1000)}
	next, d := w.ledger.Reserve(w.now, a)
	if !d.OK {
		if d.Why == "" {
			w.t.Fatal("a refusal without a reason")
		}
		return
	}
	if w.r.IntN(10) == 0 {
		return // the disk was full: the run does not begin
	}
	w.ledger = next
	w.write()
	w.open[a.Run], w.of[a.Run], w.reserved[a.Run] = d, a, d.Reserved
}

// end settles a run that was held to its limit, or that had a fault and used
// nothing; or nobody knows what it used.
func (w *world) end(kind int) {
	runs := slices.Sorted(maps.Keys(w.open))
	if len(runs) == 0 {
		return
	}
	run := runs[w.r.IntN(len(runs))]
	reserved := w.open[run].Reserved
	used := engines.Amount{Requests: 1, Tokens: w.r.Int64N(reserved.Tokens + 1), MicroUSD: w.r.Int64N(reserved.MicroUSD + 1)}
	switch kind {
	case 0:
		w.ledger, _ = w.ledger.Settle(w.now, run, used)
	case 1:
		used = engines.Amount{}
		w.ledger, _ = w.ledger.Settle(w.now, run, used)
	case 2:
		used = reserved
		w.ledger, _ = w.ledger.Forfeit(w.now, run)
	}
	w.bill(run, used)
	if w.r.IntN(4) > 0 {
		w.write()
		return
	}
	w.lose(run)
}

func (w *world) bill(run string, used engines.Amount) {
	a := w.of[run]
	for _, acc := range a.Accounts {
		w.spent = append(w.spent, bill{engines.Monday(w.now), acc.Name, used})
	}
	o := w.orders[a.Order]
	o.Used.Tokens += used.Tokens
	o.Used.MicroUSD += used.MicroUSD
	w.orders[a.Order] = o
	delete(w.open, run)
}

// lose crashes before the settlement of a run was written: then it counts in full.
func (w *world) lose(run string) {
	w.spent = w.spent[:len(w.spent)-len(w.of[run].Accounts)]
	for _, acc := range w.of[run].Accounts {
		w.spent = append(w.spent, bill{engines.Monday(w.now), acc.Name, w.reserved[run]})
	}
	w.crash()
}

// crash starts the agent again from its file.
func (w *world) crash() {
	l := reread(w.t, w.disk)
	for _, run := range slices.Sorted(maps.Keys(w.open)) {
		w.bill(run, w.open[run].Reserved)
	}
	w.ledger = l.Recover(w.now)
	w.write()
}

// clock moves on, mostly; and now and then back.
func (w *world) clock() {
	step := time.Duration(w.r.Int64N(int64(5 * 24 * time.Hour)))
	if w.r.IntN(8) > 0 {
		w.now = w.now.Add(step)
		return
	}
	w.now, w.back = w.now.Add(-step), true
	for i, b := range w.spent {
		if b.week.After(engines.Monday(w.now)) {
			w.spent[i].week = engines.Monday(w.now)
		}
	}
	w.crash() // as a machine that is set right is started again
}

func (w *world) check() {
	for _, acc := range w.limits {
		var want engines.Amount
		for _, b := range w.spent {
			if b.account == acc.Name && b.week.Equal(engines.Monday(w.now)) {
				want.Requests += b.amount.Requests
				want.Tokens += b.amount.Tokens
				want.MicroUSD += b.amount.MicroUSD
			}
		}
		used, open := w.ledger.Used(w.now, acc.Name), w.ledger.Reserved(acc.Name)
		if used != want {
			w.t.Fatalf("seed %d: %s has used %+v, want %+v", w.seed, acc.Name, used, want)
		}
		if min(used.Requests, used.Tokens, used.MicroUSD, open.Requests, open.Tokens, open.MicroUSD) < 0 {
			w.t.Fatalf("seed %d: %s is below 0: %+v, %+v", w.seed, acc.Name, used, open)
		}
		if w.back {
			continue // two weeks count as one then, which together may be over
		}
		limit := acc.Limit.MicroUSD
		if acc.Share != nil && (limit == 0 || *acc.Share < limit) {
			limit = *acc.Share
		}
		if n := used.MicroUSD + open.MicroUSD; (limit > 0 || acc.Share != nil) && n > limit {
			w.t.Fatalf("seed %d: %s has used and set aside %d of %d", w.seed, acc.Name, n, limit)
		}
		if n := used.Requests + open.Requests; acc.Limit.Requests > 0 && n > acc.Limit.Requests {
			w.t.Fatalf("seed %d: %s has used and set aside %d requests of %d", w.seed, acc.Name, n, acc.Limit.Requests)
		}
	}
	for id, o := range w.orders {
		if o.Cap.MicroUSD > 0 && o.Used.MicroUSD > o.Cap.MicroUSD || o.Cap.Tokens > 0 && o.Used.Tokens > o.Cap.Tokens {
			w.t.Fatalf("seed %d: order %s used %+v of %+v", w.seed, id, o.Used, o.Cap)
		}
	}
}

// Whatever happens in whatever order, no cap is passed, nothing is negative, each
// week begins at 0, and the ledger says what a list of the bills says.
func TestSpendNeverPassesACap(t *testing.T) {
	ran := 0
	for seed := range uint64(10_000) {
		w := newWorld(t, seed)
		for range 16 {
			step := w.r.IntN(12)
			switch {
			case step < 5:
				w.reserve()
			case step < 8:
				w.end(step - 5)
			case step < 9:
				w.crash()
			default:
				w.clock()
			}
			w.check()
		}
		ran += len(w.spent)
	}
	if ran < 10_000 {
		t.Errorf("only %d bills in all: the test tests little", ran)
	}
}

package engines_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry/engines"
)

// wednesday is in the week of Monday, 30 November 2026.
var wednesday = time.Date(2026, 12, 2, 12, 0, 0, 0, time.UTC)

func usd(n float64) engines.Amount { return engines.Amount{Requests: 1, MicroUSD: int64(n * 1e6)} }

// runOf is a run of engine e, limited to 5 dollars and 10 requests a week, that
// may need 2 dollars and at least 0.5.
func runOf(run string) engines.Ask {
	return engines.Ask{
		Run: run, Order: "t-1", Least: usd(0.5), Most: usd(2),
		Accounts: []engines.Account{{Name: "engine e", Limit: engines.Amount{Requests: 10, MicroUSD: 5_000_000}}},
	}
}

func reserve(t *testing.T, l engines.Ledger, now time.Time, a engines.Ask) engines.Ledger {
	t.Helper()
	next, d := l.Reserve(now, a)
	if !d.OK {
		t.Fatalf("reserve %s: %s", a.Run, d.Why)
	}
	return reread(t, next)
}

// reread gives the ledger as it is after its file was written and read.
func reread(t *testing.T, l engines.Ledger) engines.Ledger {
	t.Helper()
	data, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	out, err := engines.ParseLedger(data)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func settle(t *testing.T, l engines.Ledger, now time.Time, run string, used engines.Amount) engines.Ledger {
	t.Helper()
	next, ok := l.Settle(now, run, used)
	if !ok {
		t.Fatalf("settle %s: it is not open", run)
	}
	return reread(t, next)
}

func TestReserveSettle(t *testing.T) {
	l := reserve(t, engines.Ledger{}, wednesday, runOf("r1"))
	if got := l.Reserved("engine e"); got != usd(2) {
		t.Errorf("reserved %+v", got)
	}
	l = reserve(t, l, wednesday, runOf("r2"))
	// One dollar is left: enough to begin, and the run is held to it.
	next, d := l.Reserve(wednesday, runOf("r3"))
	if want := (engines.Decision{OK: true, Reserved: usd(1), Limit: usd(1)}); d != want {
		t.Errorf("the third run: %+v, want %+v", d, want)
	}
	_, d = next.Reserve(wednesday, runOf("r4"))
	if d.OK || !d.Until.IsZero() || !strings.Contains(d.Why, "engine e has used $0.00 of $5.00 this week and set $5.00 aside") {
		t.Errorf("nothing is left, and may come back: %+v", d)
	}
	l = settle(t, settle(t, next, wednesday, "r1", usd(0.25)), wednesday, "r2", usd(2))
	if got, want := l.Used(wednesday, "engine e"), (engines.Amount{Requests: 2, MicroUSD: 2_250_000}); got != want {
		t.Errorf("used %+v, want %+v", got, want)
	}
	if again, ok := l.Settle(wednesday, "r1", usd(1)); ok || again.Used(wednesday, "engine e") != l.Used(wednesday, "engine e") {
		t.Error("a run was settled twice")
	}
	if _, d := l.Reserve(wednesday, runOf("r3")); d.OK || !strings.Contains(d.Why, "already") {
		t.Errorf("an open run can reserve again: %+v", d)
	}
}

func TestExhaustedUntilMonday(t *testing.T) {
	l := settle(t, reserve(t, engines.Ledger{}, wednesday, runOf("r1")), wednesday, "r1", usd(5))
	monday := time.Date(2026, 12, 7, 0, 0, 0, 0, time.UTC)
	_, d := l.Reserve(wednesday, runOf("r2"))
	if d.OK || !d.Until.Equal(monday) || !strings.Contains(d.Why, "exhausted until Monday, 7 December 00:00 UTC, or raise its weekly limit") {
		t.Errorf("at its limit: %+v", d)
	}
	until, why, ok := l.Exhausted(monday.Add(-time.Nanosecond), runOf("").Accounts[0])
	if !ok || !until.Equal(monday) || why != d.Why {
		t.Errorf("just before Monday: %v %q %v", until, why, ok)
	}
	if _, _, ok := l.Exhausted(monday, runOf("").Accounts[0]); ok {
		t.Error("on Monday it is exhausted still")
	}
	if _, d := l.Reserve(monday, runOf("r2")); !d.OK {
		t.Errorf("on Monday: %s", d.Why)
	}
	requests := runOf("r")
	requests.Accounts[0].Limit = engines.Amount{Requests: 1}
	if _, d := l.Reserve(wednesday, requests); d.OK || !strings.Contains(d.Why, "1 request of 1 request this week") {
		t.Errorf("no request is left: %+v", d)
	}
}

func TestReserveRefusals(t *testing.T) {
	share := func(n int64) func(*engines.Ask) { return func(a *engines.Ask) { a.Accounts[0].Share = &n } }
	order := func(capped, used engines.Amount) func(*engines.Ask) {
		return func(a *engines.Ask) { a.Cap = engines.OrderCap{Cap: capped, Used: used} }
	}
	for _, tt := range []struct {
		name  string
		set   func(*engines.Ask)
		want  string         // in the reason
		limit engines.Amount // where there is no reason
	}{
		{"within all", func(*engines.Ask) {}, "", usd(2)},
		{"no limit, so nothing for the meter", func(a *engines.Ask) { a.Accounts[0].Limit = engines.Amount{} }, "", engines.Amount{}},
		{"nothing is expected, so what is left is the limit", func(a *engines.Ask) { a.Least, a.Most = usd(0), usd(0) }, "", usd(5)},
		{"no share", share(0), "engine e has no share of the fleet's cap on this machine this week: the master allots one", engines.Amount{}},
		{"a small share", share(1_000_000), "", usd(1)},
		{"too small a share", share(400_000), "$0.40 this week: that is too little for one more run; wait for a run to end or for Monday, or have the master allot", engines.Amount{}},
		{"a share above the limit", share(9_000_000), "", usd(2)},
		{"order's cap", order(engines.Amount{MicroUSD: 3_000_000}, usd(2.4)), "", engines.Amount{Requests: 1, MicroUSD: 600_000}},
		{"order's cap is reached", order(engines.Amount{MicroUSD: 3_000_000}, usd(3)), "order t-1 has used $3.00 of its cap of $3.00", engines.Amount{}},
		{"order's cap is near", order(engines.Amount{MicroUSD: 3_000_000}, usd(2.6)), "a run may need $0.50: give it a higher cap, or cancel it", engines.Amount{}},
		{"order's tokens", order(engines.Amount{Tokens: 100}, engines.Amount{Tokens: 90}), "", engines.Amount{Requests: 1, Tokens: 10, MicroUSD: 2_000_000}},
		{"order's tokens are used", order(engines.Amount{Tokens: 100}, engines.Amount{Tokens: 100}), "100 tokens", engines.Amount{}},
		{"order's time", order(engines.Amount{Time: time.Hour}, engines.Amount{Time: time.Minute}), "", engines.Amount{Requests: 1, Time: 59 * time.Minute, MicroUSD: 2_000_000}},
		{"order's time is used", order(engines.Amount{Time: time.Hour}, engines.Amount{Time: time.Hour}), "1h0m0s", engines.Amount{}},
		{"a second account", func(a *engines.Ask) {
			a.Accounts = append(a.Accounts, engines.Account{Name: "role build", Limit: engines.Amount{MicroUSD: 700_000}})
		}, "", engines.Amount{Requests: 1, MicroUSD: 700_000}},
		{"nothing is expected, and the tighter account is the limit", func(a *engines.Ask) {
			a.Least, a.Most = usd(0), usd(0)
			a.Accounts = append(a.Accounts, engines.Account{Name: "role build", Limit: engines.Amount{MicroUSD: 3_000_000}})
		}, "", usd(3)},
		{"an account twice", func(a *engines.Ask) { a.Accounts = append(a.Accounts, a.Accounts[0]) }, "twice", engines.Amount{}},
		{"no name", func(a *engines.Ask) { a.Run = "" }, "no name", engines.Amount{}},
		{"a long name", func(a *engines.Ask) { a.Order = strings.Repeat("x", 200) }, "no name", engines.Amount{}},
		{"amounts below 0", func(a *engines.Ask) { a.Least, a.Most = usd(-1), usd(-1) }, "", usd(5)},
	} {
		a := runOf("r")
		tt.set(&a)
		next, d := engines.Ledger{}.Reserve(wednesday, a)
		if d.OK != (tt.want == "") || !strings.Contains(d.Why, tt.want) || d.Limit != tt.limit {
			t.Errorf("%s: %+v, want the limit %+v, or %q", tt.name, d, tt.limit, tt.want)
		}
		if got := len(next.Open()); got != map[bool]int{true: 1, false: 0}[d.OK] {
			t.Errorf("%s: %d runs are open", tt.name, got)
		}
	}
}

func TestOrderCapCountsRunsThatLast(t *testing.T) {
	a := runOf("r1")
	a.Cap.Cap.MicroUSD = 2_200_000
	l := reserve(t, engines.Ledger{}, wednesday, a)
	a.Run = "r2"
	if _, d := l.Reserve(wednesday, a); d.OK {
		t.Errorf("the order's cap was set aside twice: %+v", d)
	}
	a.Order = "t-2"
	if _, d := l.Reserve(wednesday, a); !d.OK {
		t.Errorf("another order: %s", d.Why)
	}
}

// A run that lasts past Monday holds its reservation, and counts when it ends.
func TestRunOverMonday(t *testing.T) {
	l := reserve(t, engines.Ledger{}, wednesday, runOf("r1"))
	after := wednesday.AddDate(0, 0, 7)
	if got := l.Reserved("engine e"); got != usd(2) {
		t.Errorf("reserved %+v", got)
	}
	l = settle(t, l, after, "r1", usd(1.5))
	if before, now := l.Used(wednesday.AddDate(0, 0, -7), "engine e"), l.Used(after, "engine e"); now != usd(1.5) {
		t.Errorf("used %+v and %+v", before, now)
	}
}

func TestRecoverCountsReservations(t *testing.T) {
	l := reserve(t, reserve(t, engines.Ledger{}, wednesday, runOf("r1")), wednesday, runOf("r2"))
	l = reread(t, l.Recover(wednesday, "r2"))
	if l.Used(wednesday, "engine e") != usd(2) || l.Reserved("engine e") != usd(2) {
		t.Errorf("used %+v, reserved %+v", l.Used(wednesday, "engine e"), l.Reserved("engine e"))
	}
	if _, ok := l.Forfeit(wednesday, "r1"); ok {
		t.Error("a run was forfeited twice")
	}
	if l = l.Recover(wednesday); len(l.Open()) != 0 || l.Used(wednesday, "engine e").MicroUSD != 4_000_000 {
		t.Errorf("after all crashed: %+v", l)
	}
}

func TestClockSetBackGivesNothingBack(t *testing.T) {
	ahead := wednesday.AddDate(10, 0, 0)
	l := settle(t, reserve(t, engines.Ledger{}, wednesday, runOf("r1")), wednesday, "r1", usd(2))
	l = settle(t, reserve(t, l, ahead, runOf("r2")), ahead, "r2", usd(1))
	if got := l.Used(ahead, "engine e"); got != usd(1) {
		t.Errorf("ahead: %+v", got)
	}
	if got, want := l.Used(wednesday, "engine e"), (engines.Amount{Requests: 2, MicroUSD: 3_000_000}); got != want {
		t.Errorf("back again: %+v, want %+v", got, want)
	}
	// It does not haunt the weeks up to the wrong one.
	l = settle(t, reserve(t, l, wednesday, runOf("r3")), wednesday, "r3", usd(0))
	if got := l.Used(wednesday.AddDate(0, 0, 7), "engine e"); got != (engines.Amount{}) {
		t.Errorf("a week later: %+v", got)
	}
}

// Of the weeks before only those are kept that a clock can be set back to.
func TestOldWeeksAreForgotten(t *testing.T) {
	l, size := engines.Ledger{}, 0
	for i := range 12 {
		now := wednesday.AddDate(0, 0, 7*i)
		run := fmt.Sprintf("r%02d", i)
		l = settle(t, reserve(t, l, now, runOf(run)), now, run, usd(1))
		data, err := l.Encode()
		if err != nil || i >= 4 && len(data) != size {
			t.Fatalf("after %d weeks: %d bytes, %d before, %v", i+1, len(data), size, err)
		}
		size = len(data)
	}
}

func TestLedgerIsBounded(t *testing.T) {
	l, now := engines.Ledger{}, wednesday
	refused := 0
	for i := range 700 {
		a := runOf(fmt.Sprintf("%d%s", i, strings.Repeat("r", 120)))
		a.Order = strings.Repeat("o", 128)
		a.Accounts[0] = engines.Account{Name: fmt.Sprintf("%d%s", i, strings.Repeat("a", 120))}
		next, d := l.Reserve(now, a)
		if !d.OK {
			refused++
			continue
		}
		l = next
		if i%3 > 0 {
			l, _ = l.Settle(now, a.Run, usd(math.MaxInt32))
		}
		now = now.Add(time.Hour)
	}
	data, err := l.Encode()
	if err != nil || len(data) > engines.MaxLedger || refused == 0 {
		t.Fatalf("%d bytes, %d refused, %v", len(data), refused, err)
	}
	reread(t, l)
	open := engines.Ledger{}
	for i := range 257 {
		next, d := open.Reserve(now, engines.Ask{Run: fmt.Sprint("r", i), Order: "o"})
		if d.OK != (i < 256) {
			t.Fatalf("run %d: %+v", i, d)
		}
		open = next
	}
}

func TestParseLedgerRefuses(t *testing.T) {
	monday := engines.Monday(wednesday).Unix()
	for name, text := range map[string]string{
		"nothing": "", "no JSON": "{", "another version": `{"version":2}`, "no version": `{}`,
		"an unknown field": `{"version":1,"more":1}`, "more": `{"version":1}{}`,
		"no Monday":             fmt.Sprintf(`{"version":1,"weeks":[{"week":%d}]}`, monday+1),
		"a week twice":          fmt.Sprintf(`{"version":1,"weeks":[{"week":%d},{"week":%d}]}`, monday, monday),
		"below 0":               fmt.Sprintf(`{"version":1,"weeks":[{"week":%d,"accounts":{"e":{"micro_usd":-1}}}]}`, monday),
		"beyond all bounds":     fmt.Sprintf(`{"version":1,"weeks":[{"week":%d,"accounts":{"e":{"tokens":9007199254740993}}}]}`, monday),
		"no name":               fmt.Sprintf(`{"version":1,"weeks":[{"week":%d,"accounts":{"":{}}}]}`, monday),
		"a run twice":           `{"version":1,"open":[{"run":"r","order":"o"},{"run":"r","order":"o"}]}`,
		"a run without order":   `{"version":1,"open":[{"run":"r"}]}`,
		"a run without a name":  `{"version":1,"open":[{"order":"o"}]}`,
		"a reservation below 0": `{"version":1,"open":[{"run":"r","order":"o","amount":{"requests":-1}}]}`,
		"too large":             `{"version":1}` + strings.Repeat(" ", engines.MaxLedger),
		"too many weeks": fmt.Sprintf(`{"version":1,"weeks":[{"week":%d},{"week":%d},{"week":%d},{"week":%d},{"week":%d}]}`,
			monday, monday+604800, monday+2*604800, monday+3*604800, monday+4*604800),
	} {
		l, err := engines.ParseLedger([]byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), "spend.json: ") || !strings.Contains(err.Error(), "move it away") {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(0, len(l.Open())); diff != "" {
			t.Errorf("%s: a part was read", name)
		}
	}
}

func FuzzParseLedger(f *testing.F) {
	l := engines.Ledger{}
	for i, run := range []string{"r1", "r2"} {
		l, _ = l.Reserve(wednesday.AddDate(0, 0, 7*i), runOf(run))
	}
	l, _ = l.Settle(wednesday, "r1", usd(1))
	data, err := l.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := engines.ParseLedger(data)
		if err != nil {
			return
		}
		a := runOf("fuzz")
		next, d := l.Reserve(wednesday, a)
		used, open := next.Used(wednesday, "engine e"), next.Reserved("engine e")
		if d.OK && (used.MicroUSD+open.MicroUSD > 5_000_000 || used.Requests+open.Requests > 10) {
			t.Errorf("used %+v and reserved %+v of 5 dollars", used, open)
		}
		reread(t, next.Recover(wednesday))
	})
}

package engines

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// SpendFile is the name of an agent's ledger in its state directory.
const SpendFile = "spend.json"

// The bounds of a ledger. MaxLedger is how large its file can be.
const (
	MaxLedger    = 2 << 20
	maxOpen      = 256
	maxAccounts  = 256
	maxPerRun    = 8
	maxSpendName = 128
	// maxWeeks is the present week, with those that a clock can be set back to.
	maxWeeks = 4
)

// Ledger is what an agent's runs on this machine have used in this week, and what
// is set aside for those that run. It is a value: every method gives the ledger
// after it and leaves its own as it was. The caller keeps one ledger for each
// agent, writes what Encode gives to SpendFile before it acts on what Reserve
// allowed, and after Settle:
//
//	Reserve → write → run, held by a Meter → Settle or Forfeit → write
//
// So a crash at any point leaves the reservation in the file, and Recover counts
// it in full: what a run used that nobody saw the end of cannot be known. The zero
// Ledger is empty.
type Ledger struct {
	weeks []weekRow // by time, the present one at the end
	open  []Open
}

// weekRow is what was used in one week, by account.
type weekRow struct {
	Week     int64             `json:"week"` // its Monday, in Unix time
	Accounts map[string]Amount `json:"accounts,omitempty"`
}

// Open is what is set aside for a run that has not been settled.
type Open struct {
	Run      string   `json:"run"`
	Order    string   `json:"order"`
	Accounts []string `json:"accounts"`
	Amount   Amount   `json:"amount"`
}

// Account is what runs are charged to from one Monday 00:00 UTC to the next: an
// engine, or a role of the fleet's policy.
type Account struct {
	Name  string // as a person knows it: "engine deepseek", "role build"
	Limit Amount
	// Share is this machine's share of a cap of the fleet, in millionths of a dollar, and nil where there is none. A
	// share of 0 lets nothing run.
	Share *int64
}

// AccountOf gives the account of an engine with its weekly limits.
func AccountOf(c Config) Account {
	return Account{Name: "engine " + string(c.Name), Limit: Amount{Requests: c.WeeklyRequests, MicroUSD: micro(c.WeeklyUSD)}}
}

// Ask is what a run asks of a ledger.
type Ask struct {
	Run      string // the run's own id, never used twice
	Order    string
	Accounts []Account
	Cap      OrderCap
	// Least is what the run must be able to use to be begun at all, as Estimate gives it; Most is what is set aside for
	// it where there is so much, as Worst gives it.
	Least, Most Amount
}

// Decision says whether a run may begin, and how far it may go.
type Decision struct {
	OK bool
	// Why says what stands in the way and what can be done.
	Why string
	// Until is when the account opens again; zero where time alone does not help.
	Until time.Time
	// Reserved is what was set aside.
	Reserved Amount
	// Limit is for the run's Meter. Where a part is limited of which nothing was set aside, it is what is left.
	Limit Amount
}

// present gives the ledger with the week of now at its end. A clock that was set
// back takes with it what was counted in the weeks that are then to come: money
// that was spent is not given back by a clock, and what a clock that ran ahead
// left behind is found again.
func (l Ledger) present(now time.Time) Ledger {
	at := week(now)
	row := weekRow{Week: at, Accounts: map[string]Amount{}}
	var weeks []weekRow
	for _, w := range l.weeks {
		if w.Week < at && len(w.Accounts) > 0 {
			weeks = append(weeks, w)
		}
		if w.Week < at {
			continue
		}
		for name, a := range w.Accounts {
			row.Accounts[name] = row.Accounts[name].plus(a)
		}
	}
	weeks = append(weeks, row)
	return Ledger{weeks: weeks[max(0, len(weeks)-maxWeeks):], open: slices.Clone(l.open)}
}

func (l Ledger) row() weekRow { return l.weeks[len(l.weeks)-1] }

// Used gives what an account has used in the week of now.
func (l Ledger) Used(now time.Time, account string) Amount {
	return l.present(now).row().Accounts[account]
}

// Reserved gives what is set aside of an account. A run that lasts past Monday
// 00:00 keeps its reservation, and counts in the week in which it ends.
func (l Ledger) Reserved(account string) Amount {
	return l.reserved(func(o Open) bool { return slices.Contains(o.Accounts, account) })
}

func (l Ledger) reserved(of func(Open) bool) (sum Amount) {
	for _, o := range l.open {
		if of(o) {
			sum = sum.plus(o.Amount)
		}
	}
	return sum
}

// Open lists the runs that have not been settled, in the order in which they
// began.
func (l Ledger) Open() []Open { return slices.Clone(l.open) }

// Exhausted reports whether an account has reached its limit by what was used,
// with the moment at which it opens again. What is only set aside does not
// exhaust it.
func (l Ledger) Exhausted(now time.Time, a Account) (until time.Time, why string, exhausted bool) {
	r := room{limit: a.limit(), used: l.Used(now, a.Name)}
	i, ok := r.reached()
	if !ok && (a.Share == nil || *a.Share > 0) {
		return time.Time{}, "", false
	}
	until = Monday(now).Add(weekSecs * time.Second)
	return until, a.refusal(i, r, until), true
}

// limit gives the account's limit with the share in it.
func (a Account) limit() Amount {
	limit := a.Limit.bounded()
	if a.Share != nil && (limit.MicroUSD == 0 || *a.Share < limit.MicroUSD) {
		limit.MicroUSD = part(*a.Share)
	}
	return limit
}

func (a Account) refusal(i int, r room, until time.Time) string {
	if a.Share != nil && *a.Share <= 0 {
		return a.Name + " has no share of the fleet's cap on this machine this week: the master allots one"
	}
	limit, used, open := *r.limit.parts()[i], *r.used.parts()[i], *r.open.parts()[i]
	more := "raise its weekly limit"
	if partNames[i] == "dollars" && a.Share != nil && limit == part(*a.Share) {
		more = "have the master allot this machine more"
	}
	text := fmt.Sprintf("%s has used %s of %s this week", a.Name, shown(i, used), shown(i, limit))
	if open > 0 {
		text += fmt.Sprintf(" and set %s aside for runs that last", shown(i, open))
	}
	if used >= limit {
		return text + ": exhausted until Monday, " + until.Format("2 January 15:04 MST") + ", or " + more
	}
	return text + ": that is too little for one more run; wait for a run to end or for Monday, or " + more
}

// room is one limit, with what is used and set aside of it.
type room struct {
	limit, used, open Amount
}

// reached finds a limited part of which nothing is left by what was used.
func (r room) reached() (int, bool) {
	for i, limit := range r.limit.parts() {
		if *limit > 0 && *r.used.parts()[i] >= *limit {
			return i, true
		}
	}
	return 0, false
}

// fit lowers most to what is left, and tells the limit of the run. It reports the
// first part of which less than least is left, or nothing.
func (r room) fit(least, most, limit *Amount) (i int, ok bool) {
	for i, lim := range r.limit.parts() {
		if *lim == 0 {
			continue
		}
		left := max(0, *lim-*r.used.parts()[i]-*r.open.parts()[i])
		if left == 0 || left < *least.parts()[i] {
			return i, false
		}
		m, to := most.parts()[i], limit.parts()[i]
		*m = min(*m, left)
		// The tightest limit holds the run; what was set aside holds it more.
		if *to == 0 || left < *to {
			*to = left
		}
	}
	return 0, true
}

// Reserve sets aside what a run may use, at most Ask.Most and no more than each of
// its accounts and its order has left. It refuses a run that could not use
// Ask.Least. The ledger that it gives with a refusal is its own.
func (l Ledger) Reserve(now time.Time, a Ask) (Ledger, Decision) {
	next := l.present(now)
	if why := next.admits(a); why != "" {
		return l, Decision{Why: why}
	}
	least, most, limit := a.Least.bounded(), a.Most.bounded(), Amount{}
	for _, acc := range a.Accounts {
		if until, why, ok := next.Exhausted(now, acc); ok {
			return l, Decision{Why: why, Until: until}
		}
		r := room{limit: acc.limit(), used: next.row().Accounts[acc.Name], open: next.Reserved(acc.Name)}
		if i, ok := r.fit(&least, &most, &limit); !ok {
			return l, Decision{Why: acc.refusal(i, r, Monday(now))}
		}
	}
	order := room{limit: a.Cap.Cap.bounded(), used: a.Cap.Used.bounded(), open: next.reserved(func(o Open) bool { return o.Order == a.Order })}
	if i, ok := order.fit(&least, &most, &limit); !ok {
		return l, Decision{Why: fmt.Sprintf("order %s has used %s of its cap of %s, and a run may need %s: give it a higher cap, or cancel it",
			a.Order, shown(i, *order.used.parts()[i]), shown(i, *order.limit.parts()[i]), shown(i, *least.parts()[i]))}
	}
	for i, m := range most.parts() {
		if to := limit.parts()[i]; *to > 0 && *m > 0 {
			*to = *m
		}
	}
	names := make([]string, len(a.Accounts))
	for i, acc := range a.Accounts {
		names[i] = acc.Name
	}
	next.open = append(next.open, Open{Run: a.Run, Order: a.Order, Accounts: names, Amount: most})
	return next, Decision{OK: true, Reserved: most, Limit: limit}
}

// admits says why an ask cannot be written down, or "".
func (l Ledger) admits(a Ask) string {
	known := map[string]bool{}
	for _, w := range l.weeks {
		for name := range w.Accounts {
			known[name] = true
		}
	}
	for _, o := range l.open {
		if o.Run == a.Run {
			return fmt.Sprintf("run %s has a reservation already: settle it first", a.Run)
		}
		for _, name := range o.Accounts {
			known[name] = true
		}
	}
	names := []string{a.Run, a.Order}
	seen := map[string]bool{}
	for _, acc := range a.Accounts {
		if seen[acc.Name] {
			return fmt.Sprintf("the run is charged to %q twice", cut(acc.Name, 60))
		}
		seen[acc.Name], known[acc.Name] = true, true
		names = append(names, acc.Name)
	}
	switch {
	case slices.ContainsFunc(names, func(s string) bool { return s == "" || len(s) > maxSpendName }):
		return fmt.Sprintf("a run, order or account has no name, or one of more than %d bytes", maxSpendName)
	case len(l.open) >= maxOpen:
		return fmt.Sprintf("%d runs are open, which is the limit: wait for one to end", len(l.open))
	case len(a.Accounts) > maxPerRun || len(known) > maxAccounts:
		return fmt.Sprintf("too many accounts: a run has at most %d, a ledger %d", maxPerRun, maxAccounts)
	}
	return ""
}

// Settle takes back a run's reservation and counts what it used. What a run that
// no Meter could hold used beyond its reservation counts as well. It reports
// whether the run was open: the second time changes nothing.
func (l Ledger) Settle(now time.Time, run string, used Amount) (Ledger, bool) {
	i := slices.IndexFunc(l.open, func(o Open) bool { return o.Run == run })
	if i < 0 {
		return l, false
	}
	next := l.present(now)
	for _, name := range next.open[i].Accounts {
		next.row().Accounts[name] = next.row().Accounts[name].plus(used.bounded())
	}
	next.open = slices.Delete(next.open, i, i+1)
	return next, true
}

// Forfeit settles a run of which nobody knows what it used: all that was set
// aside counts.
func (l Ledger) Forfeit(now time.Time, run string) (Ledger, bool) {
	i := slices.IndexFunc(l.open, func(o Open) bool { return o.Run == run })
	if i < 0 {
		return l, false
	}
	return l.Settle(now, run, l.open[i].Amount)
}

// Recover forfeits every open run but those that are known to be alive. It is for
// the start of a worker: what was open then has crashed with the one before.
func (l Ledger) Recover(now time.Time, alive ...string) Ledger {
	l = l.present(now)
	for _, o := range l.Open() {
		if !slices.Contains(alive, o.Run) {
			l, _ = l.Forfeit(now, o.Run) // it is open: it was just listed
		}
	}
	return l
}

// spendFile is how a ledger is written.
type spendFile struct {
	Version int       `json:"version"`
	Weeks   []weekRow `json:"weeks,omitempty"`
	Open    []Open    `json:"open,omitempty"`
}

const spendVersion = 1

// Encode gives the content of SpendFile.
func (l Ledger) Encode() ([]byte, error) {
	out, err := json.Marshal(spendFile{Version: spendVersion, Weeks: l.weeks, Open: l.open})
	if err != nil {
		return nil, fmt.Errorf("encode ledger: %w", err) // unreachable: it holds strings and numbers
	}
	return append(out, '\n'), nil
}

// ParseLedger reads what Encode gave. Of a file that it cannot read in full it
// gives nothing: a ledger that has forgotten a part would let that part be spent
// again.
func ParseLedger(data []byte) (Ledger, error) {
	l, err := parseLedger(data)
	if err != nil {
		return Ledger{}, fmt.Errorf("%s: %w; what was used this week is not known: repair it, or move it away to begin the week at 0", SpendFile, err)
	}
	return l, nil
}

func parseLedger(data []byte) (Ledger, error) {
	if len(data) > MaxLedger {
		return Ledger{}, fmt.Errorf("%d bytes, the limit is %d", len(data), MaxLedger)
	}
	var f spendFile
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return Ledger{}, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Ledger{}, errors.New("something follows the ledger")
	}
	if f.Version != spendVersion {
		return Ledger{}, fmt.Errorf("version %d, this ferry reads %d", f.Version, spendVersion)
	}
	if err := f.check(); err != nil {
		return Ledger{}, err
	}
	return Ledger{weeks: f.Weeks, open: f.Open}, nil
}

func (f spendFile) check() error {
	accounts, runs := map[string]bool{}, map[string]bool{}
	for i, w := range f.Weeks {
		if week(time.Unix(w.Week, 0)) != w.Week || i > 0 && w.Week <= f.Weeks[i-1].Week {
			return errors.New("the weeks do not follow each other")
		}
		for name, a := range w.Accounts {
			accounts[name] = true
			if a != a.bounded() {
				return fmt.Errorf("an amount of %q is out of range", cut(name, 60))
			}
		}
	}
	for _, o := range f.Open {
		if runs[o.Run] || o.Amount != o.Amount.bounded() || o.Order == "" || len(o.Order) > maxSpendName || len(o.Accounts) > maxPerRun {
			return fmt.Errorf("the reservation of run %q cannot be", cut(o.Run, 60))
		}
		runs[o.Run] = true
		for _, name := range o.Accounts {
			accounts[name] = true
		}
	}
	if len(f.Weeks) > maxWeeks || len(f.Open) > maxOpen || len(accounts) > maxAccounts {
		return errors.New("more weeks, runs or accounts than a ledger holds")
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(accounts)), slices.Collect(maps.Keys(runs))) {
		if name == "" || len(name) > maxSpendName {
			return errors.New("a run or account has no name, or too long a one")
		}
	}
	return nil
}

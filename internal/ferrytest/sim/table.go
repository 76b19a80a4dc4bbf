package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Table collects the figures of runs by the names of their scenarios.
type Table struct {
	names []string
	rows  map[string]*Stats
}

// NewTable makes an empty table.
func NewTable() *Table { return &Table{rows: map[string]*Stats{}} }

// Add adds a run.
func (t *Table) Add(r *Report) {
	row := t.rows[r.Scenario.Name]
	if row == nil {
		row = &Stats{}
		t.rows[r.Scenario.Name] = row
		t.names = append(t.names, r.Scenario.Name)
	}
	row.Add(&r.Stats)
}

// Total adds up the rows.
func (t *Table) Total() Stats {
	var all Stats
	for _, name := range t.names {
		all.Add(t.rows[name])
	}
	return all
}

// Err gives an error when an invariant did not hold.
func (t *Table) Err() error {
	if n := t.Total().Violations; n > 0 {
		return fmt.Errorf("%d violations", n)
	}
	return nil
}

// Head gives the first two lines of the table, in Markdown.
func (t *Table) Head() string {
	head := []string{
		"scenario", "seeds", "orders", "ended", "starts/order", "double starts", "wasted", "longest overlap", "lapses", "second results",
		"CAS refusals", "order→start p50/p99 s", "violations",
	}
	return fmt.Sprintf("| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
}

// Row gives the line of a scenario.
func (t *Table) Row(name string) string {
	row := t.rows[name]
	if row == nil {
		row = &Stats{}
	}
	return fmt.Sprintf("| %s | %s |\n", name, strings.Join(row.cells(), " | "))
}

// Names gives the names of the scenarios, in the order in which they were added.
func (t *Table) Names() []string { return slices.Clone(t.names) }

// Seen says how often each of the sights was seen.
func (t *Table) Seen() string {
	var b strings.Builder
	all := t.Total()
	b.WriteString("seen: ")
	for i, name := range SightNames() {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %d", name, all.Sights[i])
	}
	fmt.Fprintf(&b, "\n%d events, %d records\n", all.Events, all.Records)
	return b.String()
}

func (s *Stats) cells() []string {
	wasted := 0.0
	if s.Engine > 0 {
		wasted = 100 * s.Wasted.Seconds() / s.Engine.Seconds()
	}
	return []string{
		fmt.Sprint(s.Runs), fmt.Sprint(s.Orders), fmt.Sprint(s.Ended), fmt.Sprintf("%.3f", float64(s.Starts)/float64(max(s.Started, 1))),
		fmt.Sprint(s.Doubles), fmt.Sprintf("%.3f %%", wasted), fmt.Sprintf("%.0f s", s.Longest.Seconds()), fmt.Sprint(s.Lapses),
		fmt.Sprint(s.Second), fmt.Sprint(s.Refused), fmt.Sprintf("%.1f / %.1f", s.wait(50).Seconds(), s.wait(99).Seconds()),
		fmt.Sprint(s.Violations),
	}
}

// Scenarios are the rows of the table in docs/performance.md: four workers, two that review and land, and twelve orders, unless
// the name says otherwise.
func Scenarios() []Scenario {
	const carrier = faultTail | faultLoss | faultRepeat | faultTorn | faultDeaf
	const everything = AllFaults &^ (faultClone | faultByzantine)
	quick, slow := Delay{50 * time.Millisecond, 2 * time.Second}, Delay{50 * time.Millisecond, 15 * time.Second}
	base := Scenario{Workers: 4, Reviewers: 2, Orders: 12, Delay: quick, Liveness: true}
	row := func(name string, d Delay, f Faults) Scenario {
		sc := base
		sc.Name, sc.Delay, sc.Faults = name, d, f
		return sc
	}
	peer := func(sc Scenario) Scenario {
		sc.Name, sc.Peer = "the peer's rule, "+sc.Name, true
		return sc
	}
	two, eight := row("everything, 2 workers", quick, everything), row("everything, 8 workers", quick, everything)
	two.Workers, two.Orders = 2, 6
	eight.Workers, eight.Orders = 8, 20
	calm, far := row("no faults, D up to 2 s", quick, 0), row("no faults, D up to 15 s", slow, 0)
	return []Scenario{
		peer(calm), peer(far), calm, far,
		row("slow, lossy and repeating carrier", quick, carrier),
		row("crashes, some for good", quick, faultCrash|faultWrite),
		row("sleeps", quick, faultSuspend),
		row("partitions", quick, faultPartition|faultOneWay),
		row("a member that breaks the rules", quick, faultByzantine),
		row("two machines with one key", quick, faultClone),
		row("everything but the last two", quick, everything), two, eight,
	}
}

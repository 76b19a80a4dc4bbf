// Command run simulates fleets: it runs seeds of the simulation in parallel,
// prints what came of them, and ends with 1 when an invariant did not hold,
// with 2 when a flag is wrong.
// scripts/simulate starts it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/ferry-fleet/ferry/internal/ferrytest/sim"
)

func main() {
	o, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "simulate:", err)
		os.Exit(2)
	}
	err = run(o, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "simulate:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	seeds, seed uint64
	workers     int
	faults      string
	mutant      string
	scenario    string
	trace       bool
	table       bool
}

func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("simulate", flag.ContinueOnError)
	fs.Uint64Var(&o.seeds, "seeds", 500, "how many `seeds` to run, for -table of each scenario")
	fs.Uint64Var(&o.seed, "seed", 1, "the first `seed`")
	fs.IntVar(&o.workers, "workers", runtime.NumCPU(), "how many worlds run at the same `time`")
	fs.StringVar(&o.faults, "faults", "all", "the faults that may be drawn: all, none, or a `list` of "+strings.Join(sim.FaultNames(), ","))
	fs.StringVar(&o.mutant, "mutant", "", "leave out a `rule`, and expect a violation: "+mutants())
	fs.StringVar(&o.scenario, "scenario", "", "run the one of -table with this `name` in place of the swarm")
	fs.BoolVar(&o.trace, "trace", false, "print what happens in each world")
	fs.BoolVar(&o.table, "table", false, "run the scenarios of docs/performance.md in place of the swarm")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("%q: want flags only; -h lists them", fs.Arg(0))
	}
	if o.mutant != "" && !slices.Contains(sim.Mutants(), sim.Mutant(o.mutant)) {
		return o, fmt.Errorf("-mutant %s: want one of %s", o.mutant, mutants())
	}
	if _, err := sim.ParseFaults(o.faults); err != nil {
		return o, err
	}
	_, err := find(o.scenario)
	return o, err
}

func mutants() string {
	var names []string
	for _, m := range sim.Mutants() {
		names = append(names, string(m))
	}
	return strings.Join(names, ", ")
}

func run(o options, out io.Writer) error {
	faults, err := sim.ParseFaults(o.faults)
	if err != nil {
		return err
	}
	named, err := find(o.scenario)
	if err != nil {
		return err
	}
	scenario := func(seed uint64) sim.Scenario {
		sc := named
		if o.scenario == "" {
			sc = sim.Swarm(seed, faults)
		}
		sc.Mutant = sim.Mutant(o.mutant)
		return sc
	}
	if o.trace {
		return trace(o, scenario, out)
	}
	table := sim.NewTable()
	if o.table {
		fmt.Fprint(out, table.Head())
		for _, sc := range sim.Scenarios() {
			sc.Mutant = sim.Mutant(o.mutant)
			batch(o, func(uint64) sim.Scenario { return sc }, table, out)
			fmt.Fprint(out, table.Row(sc.Name))
		}
	} else {
		batch(o, scenario, table, out)
		fmt.Fprint(out, table.Head())
		for _, name := range slices.Sorted(slices.Values(table.Names())) {
			fmt.Fprint(out, table.Row(name))
		}
	}
	fmt.Fprintf(out, "\n%s", table.Seen())
	return table.Err()
}

// find gives the scenario with a name, or none for none.
func find(name string) (sim.Scenario, error) {
	var names []string
	for _, sc := range sim.Scenarios() {
		if sc.Name == name {
			return sc, nil
		}
		names = append(names, fmt.Sprintf("%q", sc.Name))
	}
	if name != "" {
		return sim.Scenario{}, fmt.Errorf("-scenario %q: want one of %s", name, strings.Join(names, ", "))
	}
	return sim.Scenario{}, nil
}

func batch(o options, scenario func(uint64) sim.Scenario, table *sim.Table, out io.Writer) {
	sim.Batch{First: o.seed, N: o.seeds, Workers: o.workers, Scenario: scenario, Each: func(r sim.Report) bool {
		table.Add(&r)
		for _, v := range r.Violations {
			fmt.Fprintf(out, "seed %d, %s, faults %s: %s\n  again: %s\n", r.Seed, r.Scenario.Name, r.Scenario.Faults, v, r.Replay())
		}
		return true
	}}.Run()
}

// trace runs the seeds one after the other and prints what happens.
func trace(o options, scenario func(uint64) sim.Scenario, out io.Writer) error {
	failed := 0
	for seed := o.seed; seed < o.seed+o.seeds; seed++ {
		sc := scenario(seed)
		fmt.Fprintf(out, "seed %d, %s, faults %s\n", seed, sc.Name, sc.Faults)
		failed += len(sim.Run(seed, sc, out).Violations)
	}
	if failed > 0 {
		return fmt.Errorf("%d violations", failed)
	}
	return nil
}

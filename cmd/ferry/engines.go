package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/worker"
)

// enginesShape answers `ferry engines`.
type enginesShape struct {
	Engines []fleetEngine `json:"engines"`
}

// fleetEngine is one engine of one agent. Where the agent's ferry tells nothing of its engines, only Agent and Machine are
// known.
type fleetEngine struct {
	Agent   string           `json:"agent"`
	Machine string           `json:"machine"`
	Here    bool             `json:"here"` // the worker of this machine says it now; else it is what the fleet was last told
	Known   bool             `json:"known"`
	Engine  ferry.EngineSeen `json:"engine"`
}

func (a *app) enginesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "engines",
		Short: "the engines of the fleet: which are up, what they can do and cost",
		Long: `Engines lists every engine of every agent, as its worker last told the fleet, and
those of this machine as the worker sees them now. An engine is up only when it
has just answered: "reachable only" and "unprobed" say what is known instead. A
row of ? is an agent whose ferry does not tell.`,
		Example: "  ferry engines\n  ferry engines probe claude",
		Args:    exactly(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.listEngines(cmd.Context()) },
	}
	a.jsonFlag(cmd)
	cmd.AddCommand(a.probeCommand())
	return cmd
}

func (a *app) listEngines(ctx context.Context) error {
	return a.with(ctx, func(p *project) error {
		shape, err := p.fleetEngines(ctx)
		if err != nil {
			return err
		}
		return a.print(shape, func(w io.Writer) { a.enginesText(w, &shape) })
	})
}

func (p *project) fleetEngines(ctx context.Context) (enginesShape, error) {
	shape := enginesShape{Engines: []fleetEngine{}}
	roster, err := p.channel.Roster(ctx)
	if err != nil {
		return shape, err
	}
	members, err := p.channel.Members(ctx)
	if err != nil {
		return shape, err
	}
	all, up := p.workers()
	for _, m := range members {
		if !slices.Contains(m.Grants, ferry.GrantWork) {
			continue
		}
		traces, err := p.channel.Traces(ctx, m.Writer, roster.Epoch(m.Writer))
		if err != nil {
			return shape, err
		}
		row := fleetEngine{Agent: string(m.Name), Machine: m.Machine}
		if len(traces.Have.Engines) == 0 {
			shape.Engines = append(shape.Engines, row)
		}
		i := slices.IndexFunc(all, func(s worker.Status) bool { return s.Writer == m.Writer })
		for _, e := range traces.Have.Engines {
			row.Known, row.Engine, row.Here = true, e, false
			if i >= 0 && up[i] {
				row.live(all[i].Engines)
			}
			shape.Engines = append(shape.Engines, row)
		}
	}
	return shape, nil
}

// live takes over what a worker of this machine says of the engine now.
func (f *fleetEngine) live(all []worker.EngineStatus) {
	i := slices.IndexFunc(all, func(s worker.EngineStatus) bool { return s.Name == string(f.Engine.Name) })
	if i < 0 {
		return
	}
	s := all[i]
	f.Here = true
	f.Engine.State, f.Engine.Proof, f.Engine.Reason, f.Engine.Until = s.State, s.Proof, s.Reason, ""
	if !s.Until.IsZero() {
		f.Engine.Until = s.Until.UTC().Format(time.RFC3339)
	}
}

func (a *app) enginesText(w io.Writer, shape *enginesShape) {
	if len(shape.Engines) == 0 {
		fmt.Fprintln(w, "the channel knows no agent: `ferry enable --agent NAME` makes one")
		return
	}
	var rows [][]string
	for _, f := range shape.Engines {
		who := f.Agent + " on " + f.Machine
		e := f.Engine
		if !f.Known {
			rows = append(rows, []string{"?", who, "?", "?", "?", "?", "?", "?", "?", "it does not tell of its engines"})
			continue
		}
		rows = append(rows, []string{
			string(e.Name), who, stateOf(&e), e.Tier, cmp.Or(e.Paid, "?"), e.Class, strings.Join(e.Can, ","), priceOf(e.Price), spentOf(&e), whyOf(&e),
		})
	}
	a.table(w, []string{"engine", "agent", "state", "tier", "paid", "class", "can", "price", "this week", "why"}, rows)
}

func stateOf(e *ferry.EngineSeen) string {
	if e.Proof == "" {
		return e.State
	}
	return e.State + ", " + e.Proof
}

// priceOf writes what an engine costs, and who says so.
func priceOf(p ferry.PriceSeen) string {
	if p.Source == engines.PriceUnknown {
		return "?"
	}
	dollars := func(micro int64) string { return fmt.Sprintf("$%.4g", float64(micro)/1e6) }
	var parts []string
	if p.PerCall > 0 {
		parts = append(parts, dollars(p.PerCall)+" a call")
	}
	if p.PerMTokIn+p.PerMTokOut > 0 {
		parts = append(parts, dollars(p.PerMTokIn)+"/"+dollars(p.PerMTokOut)+" a Mtok")
	}
	if len(parts) == 0 {
		parts = []string{"$0"}
	}
	return strings.Join(parts, ", ") + " (" + p.Source + ")"
}

func spentOf(e *ferry.EngineSeen) string {
	var parts []string
	if e.Requests > 0 {
		parts = append(parts, fmt.Sprintf("%d runs", e.Requests))
	}
	if e.MicroUSD > 0 {
		parts = append(parts, fmt.Sprintf("$%.2f", float64(e.MicroUSD)/1e6))
	}
	if e.Verified+e.Refuted > 0 {
		parts = append(parts, fmt.Sprintf("%d verified, %d refuted", e.Verified, e.Refuted))
	}
	return strings.Join(parts, ", ")
}

func whyOf(e *ferry.EngineSeen) string {
	if e.Until == "" {
		return e.Reason
	}
	at, err := time.Parse(time.RFC3339, e.Until)
	if err != nil {
		return e.Reason
	}
	return "until " + at.Local().Format("Jan 2 15:04") + ": " + e.Reason
}

func (a *app) probeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "probe NAME",
		Short: "ask one engine of this agent now whether it answers",
		Long: `Probe asks the engine for the smallest answer and shows what was proven. A program
without an endpoint is only looked for: running it would be a paid request. It
exits with 1 unless the engine is up. It changes nothing that a worker knows.`,
		Example: `  ferry engines probe claude`,
		Args:    exactly("NAME"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.probeEngine(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVar(&a.agent, "agent", "", "of the agent called `NAME`")
	a.jsonFlag(cmd)
	return cmd
}

// probeShape answers `ferry engines probe`.
type probeShape struct {
	Engine string `json:"engine"`
	Model  string `json:"model"`
	Kind   string `json:"kind"`

	engines.Proof
}

func (a *app) probeEngine(ctx context.Context, name string) error {
	return a.with(ctx, func(p *project) error {
		all, err := p.readyEngines()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(e readyEngine) bool { return string(e.Name) == name })
		if i < 0 {
			var names []string
			for _, e := range all {
				names = append(names, string(e.Name))
			}
			return misuse("the engines are: "+strings.Join(names, ", "), "probe %s: no such engine in %s", clip(name, 64), p.files[0])
		}
		proof, err := p.probeNow(ctx, all[i].Config)
		if err != nil {
			return err
		}
		shape := probeShape{Engine: name, Model: all[i].Model, Kind: string(all[i].Kind), Proof: proof}
		err = a.print(shape, func(w io.Writer) {
			fmt.Fprintf(w, "%s is %s\n", name, proof.State)
			field(w, "proof", proof.Proof)
			field(w, "why", proof.Reason)
			if proof.Balance != nil {
				field(w, "balance", proof.Balance.String())
			}
		})
		if err == nil && proof.State != engines.StateUp {
			err = &failure{class: classNotReady, code: 1, quiet: true}
		}
		return err
	})
}

// probeNow probes an engine in an empty directory and in the agent's box.
func (p *project) probeNow(ctx context.Context, c engines.Config) (engines.Proof, error) {
	red, err := p.redactor()
	if err != nil {
		return engines.Proof{}, err
	}
	place := engines.Request{Environ: os.Environ(), Redact: red}
	if c.Kind == engines.KindCLI && c.BaseURL != "" {
		level, _, err := p.level(ctx)
		if err != nil {
			return engines.Proof{}, err
		}
		scratch, err := p.state.scratchDir()
		if err != nil {
			return engines.Proof{}, err
		}
		dir, err := os.MkdirTemp(scratch, "probe-")
		if err != nil {
			return engines.Proof{}, fmt.Errorf("probe engine %s: %w", c.Name, err)
		}
		defer func() { _ = os.RemoveAll(dir) }() // it holds nothing but the probe's prompt
		place.Box, place.PromptDir = p.engineBox(level), filepath.Join(dir, "in")
		place.Box.Work, place.Box.State, place.Box.Mark = filepath.Join(dir, "work"), filepath.Join(dir, "box"), filepath.Base(dir)
		err = errors.Join(atomicfile.MkdirAll(place.Box.Work, 0o700), atomicfile.MkdirAll(place.PromptDir, 0o700))
		if err != nil {
			return engines.Proof{}, fmt.Errorf("probe engine %s: %w", c.Name, err)
		}
	}
	done := p.app.busy("asking engine " + string(c.Name))
	defer done()
	return engines.Probe(ctx, engines.ProbeDeps{Place: place, Now: p.app.now}, c), nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry/internal/box"
)

func (a *app) doctorCommand() *cobra.Command {
	var fix, tries, keys bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "is this machine ready to work, and what is missing",
		Long: `Doctor tries everything that a run needs and says what to do about what is
missing: for an engine, which line of agent.toml. It also looks whether a model
server answers on this machine. It exits with 1 when this machine is not ready.`,
		Example: `  ferry doctor
  ferry doctor --sandbox
  ferry doctor --fix --json
  ferry doctor --keys          # every key of agent.toml`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if keys {
				return a.printKeys()
			}
			return a.doctor(cmd.Context(), fix, tries)
		},
	}
	cmd.Flags().BoolVar(&fix, "fix", false, "mend what ferry can mend: file modes, git's ignore line, an unfinished checkout, the rest of an engine")
	cmd.Flags().BoolVar(&tries, "sandbox", false, "show every try of the sandbox")
	cmd.Flags().BoolVar(&keys, "keys", false, "only list every key of agent.toml, with its values and its default")
	cmd.Flags().StringVar(&a.agent, "agent", "", "the agent called `NAME`, where this project has several")
	a.jsonFlag(cmd)
	return cmd
}

// doctor is one examination.
type doctor struct {
	a     *app
	state state
	at    place
	p     *project // nil when the channel cannot be opened
	fix   bool
	look  *http.Client // for model servers of this machine
	shape doctorShape
}

func (d *doctor) say(name, status, detail, fix string) {
	if status == statusOK {
		fix = ""
	}
	d.shape.Checks = append(d.shape.Checks, checkShape{Name: name, Status: status, Detail: detail, Fix: fix})
}

// sayErr says that something does not work, with the remedy that its error has.
func (d *doctor) sayErr(ctx context.Context, name string, err error, fix string) {
	f := explain(ctx, err)
	if f.next != "" {
		fix = f.next
	}
	d.say(name, statusFail, f.Error(), fix)
}

func (a *app) doctor(ctx context.Context, fix, tries bool) error {
	d := &doctor{a: a, fix: fix, look: lookClient(), shape: doctorShape{Checks: []checkShape{}}}
	if err := d.examine(ctx); err != nil {
		return err
	}
	if tries {
		if err := d.sandboxTries(ctx); err != nil {
			return err
		}
	}
	d.shape.OK = true
	for _, c := range d.shape.Checks {
		d.shape.OK = d.shape.OK && c.Status != statusFail
	}
	if err := a.print(d.shape, func(w io.Writer) { d.text(w) }); err != nil {
		return err
	}
	if !d.shape.OK {
		return &failure{class: classNotReady, code: 1, quiet: true}
	}
	return nil
}

// examine runs every check. One that needs what another found broken is left
// out.
func (d *doctor) examine(ctx context.Context) (err error) {
	if d.state, err = stateDir(); err != nil {
		return err
	}
	d.checkState()
	d.checkMachine()
	if d.at, err = d.a.findProject(d.state); err != nil {
		d.sayErr(ctx, "config", err, "")
		return nil
	}
	d.say("config", statusOK, d.at.files[0], "")
	p := &project{place: d.at, app: d.a, state: d.state}
	if p.repo, err = d.a.repoOf(d.at.dir); err != nil {
		return err
	}
	d.checkRepository(ctx, p)
	d.checkCredentials()
	d.checkEngines(ctx, p)
	d.checkLocalModels(ctx)
	d.checkRest(p)
	d.checkSandbox(ctx, p)
	if d.p, err = d.a.openUnread(ctx); err != nil {
		d.sayErr(ctx, "channel", err, "")
		return nil
	}
	defer func() { err = errors.Join(err, d.p.close()) }()
	d.checkChannel(ctx)
	d.checkKeys(ctx)
	d.checkClock(ctx)
	d.checkWorker()
	return ctx.Err()
}

// sandboxTries runs the probe of every level and shows each try.
func (d *doctor) sandboxTries(ctx context.Context) error {
	dir, err := d.state.scratchDir()
	if err != nil {
		return err
	}
	defer d.a.busy("trying every sandbox")()
	for _, level := range []box.Level{box.LevelBwrap, box.LevelLandlock} {
		for _, net := range []box.Net{box.NetOpen, box.NetNone} {
			r := box.Probe(ctx, box.ProbeSpec{Level: level, Net: net, State: dir})
			for _, t := range r.Tries {
				d.shape.Tries = append(d.shape.Tries, tryShape{Level: string(level), Net: string(net), Name: t.Name, Want: t.Want, Got: t.Got, OK: t.OK})
			}
		}
	}
	return ctx.Err()
}

func (d *doctor) text(w io.Writer) {
	var rows [][]string
	for _, c := range d.shape.Checks {
		rows = append(rows, []string{c.Status, c.Name, c.Detail})
	}
	d.a.table(w, []string{"", "check", "found"}, rows)
	for _, c := range d.shape.Checks {
		if c.Fix != "" {
			fmt.Fprintf(w, "%s: ", c.Name)
			fmt.Fprintln(w, indent(c.Fix)[2:])
		}
	}
	if len(d.shape.Tries) > 0 {
		fmt.Fprintln(w)
		rows = nil
		for _, t := range d.shape.Tries {
			status := statusOK
			if !t.OK {
				status = statusFail
			}
			rows = append(rows, []string{status, t.Level, t.Net, t.Name, t.Want, t.Got})
		}
		d.a.table(w, []string{"", "level", "net", "try", "wanted", "got"}, rows)
	}
	if d.shape.OK {
		fmt.Fprintln(w, "\nready")
		return
	}
	fmt.Fprintln(w, "\nnot ready")
}

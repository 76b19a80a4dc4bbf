package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/flock"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/machine"
	"github.com/ferry-fleet/ferry/internal/redact"
	"github.com/ferry-fleet/ferry/internal/worktree"
	"github.com/ferry-fleet/ferry/worker"
)

// minDisk is the share of the disk that must stay free for new work, as the
// channel's own floor (5 %).
const minDisk = 0.05

func (a *app) agentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "agent",
		Short:   "the worker of this machine",
		Example: "  ferry agent run\n  ferry agent status",
		RunE:    a.family,
	}
	cmd.AddCommand(a.agentRunCommand(), a.agentStatusCommand())
	return cmd
}

func (a *app) agentRunCommand() *cobra.Command {
	var once, dry, all bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "work: claim orders, run the engine, hand in what was checked",
		Long: `Run works until it is interrupted. Every order is done in a tree and a sandbox
of its own; your checkout is never touched. When it is interrupted it keeps
what the engine has done so far and gives the order back.`,
		Example: `  ferry agent run                 # until Ctrl-C
  ferry agent run --once          # one look, then wait for what it started
  ferry agent run --dry-run       # say what it would do, and why not`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			mode := runMode{once: once, dry: dry}
			if all {
				return a.runAll(cmd.Context(), mode)
			}
			return a.runAgent(cmd.Context(), mode)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&once, "once", false, "one pass, then wait for what it started")
	f.BoolVar(&dry, "dry-run", false, "print the plan and do nothing")
	f.BoolVar(&all, "all-projects", false, "work for every project of this machine")
	f.StringVar(&a.agent, "agent", "", "work as `NAME`, another agent of this project")
	cmd.MarkFlagsMutuallyExclusive("once", "dry-run")
	return cmd
}

type runMode struct{ once, dry bool }

// runAll runs one worker for each registered project.
func (a *app) runAll(ctx context.Context, mode runMode) error {
	s, err := stateDir()
	if err != nil {
		return err
	}
	all := s.registry()
	if len(all) == 0 {
		return faultf(classNoProject, "run `ferry enable` in a git repository", "this machine knows no project")
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, r := range all {
		one := *a
		one.project, one.dir = r.Name, ""
		group.Go(func() error {
			if err := one.runAgent(ctx, mode); err != nil {
				return fmt.Errorf("project %s: %w", r.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (a *app) runAgent(ctx context.Context, mode runMode) error {
	return a.with(ctx, func(p *project) error {
		if !mode.dry {
			unlock, err := p.onlyWorker()
			if err != nil {
				return err
			}
			defer unlock()
		}
		w, about, err := p.worker(ctx, mode)
		if err != nil && ctx.Err() != nil {
			return ctx.Err() // what was cut off blames git, or the sandbox
		}
		if err != nil {
			return err
		}
		switch {
		case mode.dry:
			return p.preview(ctx, w)
		case mode.once:
			if err := w.Pass(ctx, a.now()); err != nil {
				return err
			}
			return w.Drain(ctx)
		}
		fmt.Fprintln(a.err, about)
		return w.Run(ctx)
	})
}

// onlyWorker makes sure that one process works for the agent.
func (p *project) onlyWorker() (unlock func(), err error) {
	path := strings.TrimSuffix(p.state.worker(p.config.ChannelID, p.config.Agent), ".json") + ".lock"
	if err := atomicfile.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	lock := flock.New(path)
	ok, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if !ok {
		return nil, faultf(classConfig, "`ferry agent status` shows it; another agent is made by `ferry enable --agent NAME`",
			"%s already works for %s in another process", p.config.Agent, p.config.Project)
	}
	return func() { _ = lock.Close() }, nil // the lock goes with the process in any case
}

// worker builds the worker of this project's agent.
func (p *project) worker(ctx context.Context, mode runMode) (*worker.Worker, string, error) {
	watch := worker.NewWatch(p.governor(!mode.once), p.app.system, p.app.now())
	writer, err := p.agentWriter()
	if err != nil {
		return nil, "", err
	}
	list, err := p.runnable()
	if err != nil {
		return nil, "", err
	}
	level, report, err := p.level(ctx)
	if err != nil {
		return nil, "", err
	}
	gate, err := p.Gate(ctx)
	if err != nil {
		return nil, "", err
	}
	cfg, err := p.workerConfig(writer, gate, level)
	if err != nil {
		return nil, "", err
	}
	cfg.Engines, cfg.Probe, cfg.Governor = list, report.Hash, watch
	w, err := worker.New(cfg)
	about := fmt.Sprintf("%s works for %s: %s, sandbox %s, %d at a time. Ctrl-C stops it and keeps the work.",
		p.config.Agent, p.config.Project, enginesLine(list), level, p.config.MaxParallel)
	return w, about, err
}

// runnable gives the engines of this project's agent. One whose program is not
// there is left out of the work with the reason; where none can run, the error
// is what is wrong with the first.
func (p *project) runnable() ([]engines.Config, error) {
	list, err := p.engines()
	if err != nil {
		return nil, err
	}
	var missing error
	for i := range list {
		c := &list[i]
		if c.Kind != engines.KindCLI || c.Check() != nil {
			continue
		}
		if _, err := engines.Resolve(c.Command, environ("PATH")); err != nil {
			c.Unusable = err.Error()
			missing = cmp.Or(missing, err)
		}
	}
	switch {
	case slices.ContainsFunc(list, func(c engines.Config) bool { return c.Check() == nil }):
		return list, nil
	case missing != nil:
		return nil, fault(classEngine, "install it, or name another command in "+p.files[0]+"; `ferry doctor` checks it", missing)
	}
	_, _, err = p.engine()
	return nil, err
}

// enginesLine names the engines in order of preference.
func enginesLine(list []engines.Config) string {
	names := make([]string, len(list))
	for i, c := range list {
		names[i] = string(c.Name)
	}
	if len(names) == 1 {
		return "engine " + names[0]
	}
	return "engines " + strings.Join(names, ", ")
}

func (p *project) workerConfig(writer *channel.Writer, gate *worktree.Gate, level box.Level) (worker.Config, error) {
	id, agent := p.config.ChannelID, p.config.Agent
	red, err := p.redactor()
	if err != nil {
		return worker.Config{}, err
	}
	runs := p.state.runsOf(id, agent)
	for _, dir := range []string{runs, p.caches(), filepath.Dir(p.state.health(id, agent)), filepath.Dir(p.state.desk(id, agent))} {
		if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
			return worker.Config{}, err
		}
	}
	return worker.Config{
		Agent: agent, Machine: machine.Name(), Version: version().Version, Channel: p.channel, Writer: writer, Gate: gate,
		Box: p.engineBox(level), ChecksBox: p.checkBox(level), Prepare: p.config.Box.Prepare, Caches: p.caches(),
		Runs: runs, Health: p.state.health(id, agent), Status: p.state.worker(id, agent), Pause: p.state.pauseFile(),
		Desk: p.state.desk(id, agent), Spend: p.state.spend(id, agent), AlertAfter: p.config.AlertAfter, MaxEngines: p.config.MaxEngines,
		MaxParallel: p.config.MaxParallel, Poll: p.config.Poll, Timeout: p.config.Timeout, CheckTimeout: p.config.CheckTimeout,
		Local: func() []ferry.AgentName { return p.state.agents(id) },
		Remote: func(ctx context.Context, push bool) (*worktree.Remote, error) {
			return p.travels(ctx, gate, workerTime, push)
		},
		MinDisk: minDisk, Redactor: red, Log: p.app.workLog(red),
	}, nil
}

// governor gives when this machine begins nothing. Who asks for one pass is at
// the machine, and wants it: a person's presence then says nothing.
func (p *project) governor(presence bool) worker.Governor {
	g := p.config.Governor
	return worker.Governor{
		Window: (*worker.Window)(g.ClaimWindow), Presence: presence && *g.PauseWhileActive, BusyCPU: *g.BusyCPU, MinRAM: int64(*g.MinFreeRAM) << 20,
	}
}

// health is where a worker remembers the failures of its engines.
func (s state) health(id ferry.RecordID, n ferry.AgentName) string {
	return filepath.Join(s.workers(id), "health", string(n)+".json")
}

// desk is where a worker remembers what it asked about its engines, and which
// of them an answer keeps out.
func (s state) desk(id ferry.RecordID, n ferry.AgentName) string {
	return filepath.Join(s.workers(id), "engines", string(n)+".json")
}

// spend is where a worker remembers what its engines have used this week.
func (s state) spend(id ferry.RecordID, n ferry.AgentName) string {
	return filepath.Join(s.workers(id), "engines", string(n)+"."+engines.SpendFile)
}

// workLog is the worker's log: what a person who runs a fleet wants to see.
func (a *app) workLog(red *redact.Redactor) *slog.Logger {
	level := slog.LevelInfo
	if a.verbose {
		level = slog.LevelDebug
	}
	return a.logTo(level, red)
}

// preview prints the plan of one pass.
func (p *project) preview(ctx context.Context, w *worker.Worker) error {
	steps, err := w.Preview(ctx, p.app.now())
	if err != nil {
		return err
	}
	out := p.app.out
	if len(steps) == 0 {
		_, err := fmt.Fprintln(out, "nothing to do")
		return err
	}
	var failed error
	for _, s := range steps {
		_, err := io.WriteString(out, fmt.Sprintf("%-8s %-20s %s\n", s.Do, s.Label, s.Reason))
		failed = errors.Join(failed, err)
	}
	return failed
}

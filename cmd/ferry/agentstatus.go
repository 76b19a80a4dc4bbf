package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry/worker"
)

type agentStatusShape struct {
	Agents []agentShape `json:"agents"`
}

type agentShape struct {
	Agent  string       `json:"agent"`
	Alive  bool         `json:"alive"`
	Worker *workerShape `json:"worker"`
	Rests  string       `json:"rests"` // why it would not use its engine, where it does not run
	Held   string       `json:"held"`  // why this machine begins nothing new
}

func (a *app) agentStatusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "which agents are alive here, and what each holds",
		Long:    `Status lists the agents of this machine. It exits with 1 when none of them is alive.`,
		Example: `  ferry agent status --json`,
		Args:    exactly(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.agentStatus(cmd.Context()) },
	}
	cmd.Flags().StringVar(&a.agent, "agent", "", "only the agent called `NAME`")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) agentStatus(ctx context.Context) error {
	return a.with(ctx, func(p *project) error {
		shape := agentStatusShape{Agents: []agentShape{}}
		alive := false
		all, up := p.workers()
		for _, n := range p.state.agents(p.config.ChannelID) {
			if a.agent != "" && string(n) != a.agent {
				continue
			}
			s := agentShape{Agent: string(n)}
			for i := range all {
				if all[i].Agent == n {
					s.Alive, s.Worker = up[i], &workerShape{Status: all[i], Alive: up[i]}
				}
			}
			if !s.Alive && n == p.config.Agent {
				s.Rests = p.resting()
			}
			s.Held = p.heldHere(&s)
			alive = alive || s.Alive
			shape.Agents = append(shape.Agents, s)
		}
		err := a.print(shape, func(w io.Writer) {
			for _, s := range shape.Agents {
				if s.Alive {
					a.workerText(w, s.Worker)
					continue
				}
				fmt.Fprintf(w, "%s does not run: `ferry agent run --agent %s`\n", s.Agent, s.Agent)
				if s.Rests != "" {
					fmt.Fprintln(w, indent(s.Rests))
				}
				if s.Held != "" {
					fmt.Fprintln(w, indent("would begin nothing new: "+s.Held))
				}
			}
		})
		if err == nil && !alive {
			err = &failure{class: classNotReady, code: 1, quiet: true}
		}
		return err
	})
}

// heldHere gives why an agent begins nothing new on this machine: what its
// worker says, and where none runs, what one would find. How busy the processor
// is takes a while to measure, so that only a worker knows it.
func (p *project) heldHere(s *agentShape) string {
	if s.Alive {
		return s.Worker.Stopped
	}
	if s.Agent != string(p.config.Agent) {
		return "" // another agent has settings of its own
	}
	now := p.app.now()
	_, reason := worker.NewWatch(p.governor(true), p.app.system, now).Held(now, cmp.Or(p.config.Poll, 10*time.Second))
	return reason
}

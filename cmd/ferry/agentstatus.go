package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry/internal/redact"
)

type agentStatusShape struct {
	Agents []agentShape `json:"agents"`
}

type agentShape struct {
	Agent  string       `json:"agent"`
	Alive  bool         `json:"alive"`
	Worker *workerShape `json:"worker"`
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
				if why := p.resting(); why != "" && s.Agent == string(p.config.Agent) {
					fmt.Fprintln(w, indent(redact.Visible(why)))
				}
			}
		})
		if err == nil && !alive {
			err = &failure{class: classNotReady, code: 1, quiet: true}
		}
		return err
	})
}

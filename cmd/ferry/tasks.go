package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
)

func (a *app) tasksCommand() *cobra.Command {
	var states []string
	var limit int
	cmd := &cobra.Command{
		Use:   "tasks",
		Short: "all orders with their states, newest first",
		Example: `  ferry channel tasks
  ferry channel tasks --state awaiting_review --state failed --json`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.tasks(cmd.Context(), states, limit) },
	}
	cmd.Flags().StringSliceVar(&states, "state", nil, "only orders in this `STATE` (may be repeated)")
	cmd.Flags().IntVar(&limit, "limit", 200, "at most `N` orders")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) tasks(ctx context.Context, names []string, limit int) error {
	states, err := parseStates(names)
	if err != nil {
		return err
	}
	if limit < 1 {
		return misuse("give a number of 1 or more", "--limit %d: nothing would be shown", limit)
	}
	return a.with(ctx, func(p *project) error {
		tasks, err := p.channel.Tasks(ctx, channel.Filter{States: states, Limit: limit})
		if err != nil {
			return err
		}
		members, err := p.people(ctx)
		if err != nil {
			return err
		}
		shape := tasksShape{Tasks: []taskShape{}}
		running := make([]*ferry.Task, len(tasks))
		for i := range tasks {
			running[i] = &tasks[i]
		}
		p.holdStale(running...)
		for i := range tasks {
			shape.Tasks = append(shape.Tasks, taskOf(&tasks[i], members))
		}
		return a.print(shape, func(w io.Writer) { a.taskTable(w, shape.Tasks, a.now()) })
	})
}

func parseStates(names []string) ([]ferry.State, error) {
	var out []ferry.State
	for _, n := range names {
		s := ferry.State(n)
		if !slices.Contains(ferry.States(), s) {
			var all []string
			for _, s := range ferry.States() {
				all = append(all, string(s))
			}
			return nil, misuse("the states are: "+strings.Join(all, ", "), "--state %q: there is no such state", clip(n, 40))
		}
		out = append(out, s)
	}
	return out, nil
}

// maxHold bounds a hold in a table, in bytes; `status --why` gives all of it.
const maxHold = 160

func (a *app) taskTable(w io.Writer, tasks []taskShape, now time.Time) {
	if len(tasks) == 0 {
		fmt.Fprintln(w, "no orders: `ferry channel order --task \"…\"` issues one")
		return
	}
	var rows [][]string
	for _, t := range tasks {
		who := cmp.Or(t.Holder, t.To)
		try := ""
		if t.Attempt > 0 {
			try = strconv.FormatInt(t.Attempt, 10)
		}
		rows = append(rows, []string{t.Label, t.ID[:8], t.State, who, try, t.Engine, age(now, t.CreatedAt), clip(t.Hold, maxHold)})
	}
	a.table(w, []string{"order", "id", "state", "agent", "try", "engine", "age", "waits for"}, rows)
}

// age gives a time before now in one unit. A clock ahead of ours reads "now".
func age(now, t time.Time) string {
	d := now.Sub(t)
	switch {
	case t.IsZero():
		return ""
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// stateLine gives a task's state with what it waits for.
func stateLine(t *ferry.Task) string {
	if t.Hold == "" {
		return string(t.State)
	}
	return string(t.State) + " (" + t.Hold + ")"
}

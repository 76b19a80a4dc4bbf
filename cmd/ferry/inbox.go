package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
)

func (a *app) inboxCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "inbox",
		Short:   "what waits for you",
		Example: `  ferry channel inbox`,
		Args:    exactly(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.inbox(cmd.Context()) },
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) inbox(ctx context.Context) error {
	return a.with(ctx, func(p *project) error {
		items, err := p.inboxItems(ctx)
		if err != nil {
			return err
		}
		return a.print(inboxShape{Items: items}, func(w io.Writer) {
			if len(items) == 0 {
				fmt.Fprintln(w, "nothing waits for you")
				return
			}
			var rows [][]string
			for _, i := range items {
				rows = append(rows, []string{i.Label, i.Kind, i.Why, age(a.now(), i.At), i.Next})
			}
			a.table(w, []string{"order", "what", "why", "age", "next"}, rows)
		})
	})
}

// inboxItems lists what waits for a person: results to review and approve,
// failures, and questions, oldest first.
func (p *project) inboxItems(ctx context.Context) ([]inboxItem, error) {
	waiting, err := p.waiting(ctx)
	if err != nil {
		return nil, err
	}
	items := []inboxItem{}
	for i := range waiting {
		items = append(items, needs(&waiting[i])...)
	}
	return items, nil
}

// waiting gives the tasks that a person may have to look at, oldest first.
func (p *project) waiting(ctx context.Context) ([]ferry.Task, error) {
	tasks, err := p.channel.Tasks(ctx, channel.Filter{States: []ferry.State{ferry.StateAwaitingReview, ferry.StateAccepted, ferry.StateFailed}})
	if err != nil {
		return nil, err
	}
	asking, err := p.channel.Questions(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range asking {
		if !slices.ContainsFunc(tasks, func(t ferry.Task) bool { return t.ID == q.Task.ID }) {
			tasks = append(tasks, q.Task)
		}
	}
	slices.SortStableFunc(tasks, func(a, b ferry.Task) int { return a.IssuedAt.Compare(b.IssuedAt) })
	return tasks, nil
}

// needs gives what one task wants from a person.
func needs(t *ferry.Task) []inboxItem {
	var items []inboxItem
	label := string(t.Order.Label)
	at := t.IssuedAt
	add := func(kind, why, next string) {
		items = append(items, inboxItem{Order: t.ID.String(), Label: label, Kind: kind, Why: why, Next: next, At: at.UTC()})
	}
	if !t.State.Final() {
		for _, q := range t.Questions {
			var names []string
			for _, o := range q.Question.Options {
				names = append(names, o.Name)
			}
			at = q.At
			add("question", q.Question.Text, "ferry channel answer "+q.ID.Short()+" "+strings.Join(names, "|"))
		}
	}
	at = t.IssuedAt
	why, waits := t.NeedsPerson()
	switch {
	case !waits:
	case t.State == ferry.StateAwaitingReview && t.Order.NeedsReview:
		add("review", resultWhy(t, why), "ferry channel review "+label+" --accept | --send-back --notes …")
	case t.State == ferry.StateAwaitingReview:
		add("approval", resultWhy(t, "a result waits for the master's approval"), "ferry channel approve "+label)
	case t.State == ferry.StateAccepted:
		add("approval", resultWhy(t, why), "ferry channel approve "+label)
	case t.State == ferry.StateFailed:
		add("failed", why, "ferry channel retry "+label+" | cancel "+label)
	}
	return items
}

// resultWhy adds what the evidence says of the result that waits.
func resultWhy(t *ferry.Task, why string) string {
	o := t.StandingResult()
	if o == nil {
		return why
	}
	return fmt.Sprintf("%s (revision %d, %s, %s)", why, o.Result.Revision, o.Evidence.Status, checksLine(o.Result.Checks))
}

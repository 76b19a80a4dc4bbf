package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/internal/redact"
)

func (a *app) showCommand() *cobra.Command {
	var diff bool
	cmd := &cobra.Command{
		Use:   "show ORDER",
		Short: "one order whole: text, attempts, results, reviews, records",
		Long: `Show prints everything that is known of an order. With --diff it prints the
change of the result that stands, else of the last one, as a patch; what another
machine made is fetched from the remote.`,
		Example: `  ferry channel show t-first
  ferry channel show t-first --diff`,
		Args: exactly("ORDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if diff {
				return a.showDiff(cmd.Context(), args[0])
			}
			return a.show(cmd.Context(), args[0])
		},
	}
	cmd.Flags().BoolVar(&diff, "diff", false, "the change alone, as a patch")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) show(ctx context.Context, ref string) error {
	return a.with(ctx, func(p *project) error {
		t, err := p.channel.Task(ctx, ref)
		if err != nil {
			return err
		}
		members, err := p.people(ctx)
		if err != nil {
			return err
		}
		ledger, err := p.channel.Records(ctx, t.ID)
		if err != nil {
			return err
		}
		p.holdStale(&t)
		shape := showOf(&t, members, ledger)
		return a.print(shape, func(w io.Writer) { a.showText(w, &shape) })
	})
}

func (a *app) showText(w io.Writer, s *showShape) {
	t := &s.Task
	fmt.Fprintf(w, "%s  %s  %s\n", t.Label, t.ID[:16], stateWords(t.State, t.Hold))
	field(w, "issued by", t.IssuedBy+", "+t.CreatedAt.Local().Format("2006-01-02 15:04:05"))
	field(w, "agent", t.To)
	field(w, "kind", strings.TrimSpace(t.Kind+" "+t.Size))
	field(w, "from", ferry.Commit(t.Base).Short())
	field(w, "lands on", t.Target)
	field(w, "branch", t.Branch)
	field(w, "landed", ferry.Commit(t.Landed).Short())
	field(w, "asks for", asksFor(t))
	field(w, "touches", strings.Join(t.Touches, ", "))
	for _, c := range t.Checks {
		field(w, "check", c)
	}
	field(w, "attached", strings.Join(t.Attachments, ", "))
	fmt.Fprintf(w, "\n%s\n", indent(t.Text))
	for i := range s.Attempts {
		attemptText(w, &s.Attempts[i])
	}
	for i := range s.Results {
		resultText(w, &s.Results[i])
	}
	for _, r := range s.Reviews {
		fmt.Fprintf(w, "\nreview of revision %d by %s: %s\n", r.Revision, r.Reviewer, reviewWord(r.Decision))
		if r.Notes != "" {
			fmt.Fprintln(w, indent(r.Notes))
		}
	}
	for i := range s.Questions {
		questionText(w, &s.Questions[i])
	}
	if len(s.Ledger) > 0 {
		fmt.Fprintln(w, "\nrecords")
		a.ledgerTable(w, s.Ledger)
	}
}

func stateWords(state, hold string) string {
	if hold == "" {
		return state
	}
	return state + " — " + oneLine(hold)
}

func field(w io.Writer, name, value string) {
	if value != "" {
		fmt.Fprintf(w, "  %-10s %s\n", name, oneLine(value))
	}
}

func asksFor(t *wholeShape) string {
	var asks []string
	if t.RequiresReview {
		asks = append(asks, "review")
	}
	if t.RequiresApproval {
		asks = append(asks, "approval")
	}
	return strings.Join(asks, ", ")
}

// oneLine makes what is printed as part of one line stay there: a name or a
// text of somebody else may hold line feeds, and what follows them would look
// as if ferry said it.
func oneLine(s string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(redact.Visible(s))
}

// indentLine is indent for what has to stay one line.
func indentLine(s string) string { return "  " + oneLine(s) }

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(redact.Visible(s), "\n"), "\n", "\n  ")
}

func attemptText(w io.Writer, at *attemptShape) {
	fmt.Fprintf(w, "\nattempt %d by %s", at.N, at.Holder)
	if at.Stop != "" {
		fmt.Fprintf(w, ": %s%s", at.Stop, oneLine(colon(at.Note)))
	}
	fmt.Fprintln(w)
	for _, r := range at.Runs {
		line := "run " + r.Run + " " + r.Engine + " " + r.Outcome + colon(r.Reason)
		if u := usageLine(r.Usage); u != "" {
			line += " (" + u + ")"
		}
		fmt.Fprintln(w, indentLine(line))
	}
}

func usageLine(u usageShape) string {
	var parts []string
	if u.TokensIn+u.TokensOut > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens in, %d out", u.TokensIn, u.TokensOut))
	}
	if u.CostUSD > 0 {
		parts = append(parts, fmt.Sprintf("$%.4f by the %s", u.CostUSD, u.CostSource))
	}
	return strings.Join(parts, ", ")
}

func resultText(w io.Writer, r *resultShape) {
	fmt.Fprintf(w, "\nrevision %d by %s: %s%s\n", r.Revision, r.Agent, r.Evidence.Status, map[bool]string{true: ", stands"}[r.Standing])
	for _, reason := range r.Evidence.Reasons {
		fmt.Fprintln(w, indentLine("- "+reason))
	}
	field(w, "commit", ferry.Commit(r.Commit).Short())
	field(w, "sandbox", r.Sandbox)
	for _, f := range r.Files {
		fmt.Fprintln(w, indentLine(fmt.Sprintf("%s %s  +%d -%d", f.Status, f.Path, f.Added, f.Deleted)))
	}
	for _, c := range r.Checks {
		fmt.Fprintln(w, indentLine(fmt.Sprintf("check %s: exit %d%s", c.Command, c.Exit, colon(c.Reason))))
		if c.Exit != 0 && c.Tail != "" {
			fmt.Fprintln(w, indent(indent(c.Tail)))
		}
	}
	if r.Answer != "" {
		fmt.Fprintln(w, "  the engine says:")
		fmt.Fprintln(w, indent(indent(r.Answer)))
	}
}

func reviewWord(decision string) string {
	switch ferry.Decision(decision) {
	case ferry.DecisionKeep:
		return "accepted"
	case ferry.DecisionChanges:
		return "sent back"
	}
	return "denied"
}

func questionText(w io.Writer, q *questionShape) {
	fmt.Fprintf(w, "\nquestion %s\n%s\n", q.ID[:8], indent(q.Text))
	for _, o := range q.Options {
		fmt.Fprintln(w, indentLine(fmt.Sprintf("ferry channel answer %.8s %s   # %s", q.ID, o.Name, o.Text)))
	}
}

func (a *app) ledgerCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "log [ORDER]",
		Short: "the signed records, newest last",
		Example: `  ferry channel log
  ferry channel log t-first --json`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref := ""
			if len(args) == 1 {
				ref = args[0]
			}
			return a.ledger(cmd.Context(), ref, limit)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 100, "at most `N` records, the newest")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) ledger(ctx context.Context, ref string, limit int) error {
	if limit < 1 {
		return misuse("give a number of 1 or more", "--limit %d: nothing would be shown", limit)
	}
	return a.with(ctx, func(p *project) error {
		entries, err := p.entries(ctx, ref, limit)
		if err != nil {
			return err
		}
		members, err := p.people(ctx)
		if err != nil {
			return err
		}
		shape := ledgerShape{Records: recordsOf(entries, members)}
		return a.print(shape, func(w io.Writer) { a.ledgerTable(w, shape.Records) })
	})
}

func (p *project) entries(ctx context.Context, ref string, limit int) ([]channel.Entry, error) {
	if ref == "" {
		return p.channel.Ledger(ctx, limit)
	}
	t, err := p.channel.Task(ctx, ref)
	if err != nil {
		return nil, err
	}
	entries, err := p.channel.Records(ctx, t.ID)
	return entries[max(0, len(entries)-limit):], err
}

func (a *app) ledgerTable(w io.Writer, records []recordShape) {
	var rows [][]string
	for _, r := range records {
		text := r.Says
		if !r.Counted {
			text = "not counted" + colon(r.Why) + " | " + text
		}
		rows = append(rows, []string{r.Time.Local().Format("2006-01-02 15:04:05"), r.ID[:8], r.Writer, r.Type, text})
	}
	a.table(w, []string{"time", "id", "writer", "type", "what"}, rows)
}

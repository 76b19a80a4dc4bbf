package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// orderFlags are the flags of `channel order`, as typed.
type orderFlags struct {
	task, taskFile, id, to, kind, size, target, timeout, capUSD string
	touches, checks, dependsOn, attach, tags                    []string
	maxAttempts                                                 int64
	review, approval, land                                      bool
}

func (a *app) orderCommand() *cobra.Command {
	var f orderFlags
	cmd := &cobra.Command{
		Use:   "order (--task TEXT | --task-file FILE)",
		Short: "issue a signed order",
		Long: `Order signs an order and puts it into the channel. The work begins from the
commit your checkout is at; uncommitted changes are not part of it. It lands on
the branch that is checked out, or on --target.`,
		Example: `  ferry channel order --id t-first --task "fix the failing test" --check "go test ./..." --requires-review
  ferry channel order --task-file plan.md --touches "docs/**" --depends-on t-first
  git diff | ferry channel order --task-file - --kind review --size small`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.order(cmd.Context(), &f, cmd.InOrStdin()) },
	}
	f.register(cmd)
	a.jsonFlag(cmd)
	return cmd
}

func (f *orderFlags) register(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringVar(&f.task, "task", "", "what is to be done")
	s.StringVar(&f.taskFile, "task-file", "", "read the text from `FILE` (\"-\" is standard input)")
	s.StringVar(&f.id, "id", "", "`LABEL` of the order; made from the text when missing")
	s.StringVar(&f.to, "to", "", "the only `AGENT` that may take it")
	s.StringVar(&f.kind, "kind", "", "kind of work: "+strings.Join(ferry.Kinds(), ", "))
	s.StringVar(&f.size, "size", "", "small, medium or large")
	s.StringArrayVar(&f.touches, "touches", nil, "`GLOB` that the change must stay inside (may be repeated)")
	s.StringArrayVar(&f.checks, "check", nil, "`CMD` that must pass in a clean checkout, run by sh -c (may be repeated)")
	s.StringArrayVar(&f.dependsOn, "depends-on", nil, "label or id of an `ORDER` that must be done first (may be repeated)")
	s.BoolVar(&f.review, "requires-review", false, "the result must be reviewed")
	s.BoolVar(&f.approval, "requires-approval", false, "the result needs the master's key")
	s.StringArrayVar(&f.attach, "attach", nil, "text `FILE` that travels with the order (may be repeated)")
	s.StringArrayVar(&f.tags, "tag", nil, "a tag (may be repeated)")
	s.StringVar(&f.timeout, "timeout", "", "longest run: seconds, or 30m")
	s.StringVar(&f.capUSD, "cap-usd", "", "most dollars to spend on it, by what the engine reports: a run is ended when it has used as much")
	s.Int64Var(&f.maxAttempts, "max-attempts", ferry.DefaultMaxAttempts, fmt.Sprintf("attempts that may fail, 1 to %d", ferry.MaxAttempts))
	s.BoolVar(&f.land, "land", false, "land by itself once the master has accepted it")
	s.StringVar(&f.target, "target", "", "`BRANCH` it lands on (default: the one checked out)")
}

func (a *app) order(ctx context.Context, f *orderFlags, stdin io.Reader) error {
	o, err := f.order(stdin)
	if err != nil {
		return err
	}
	return a.with(ctx, func(p *project) error {
		w, err := p.operator()
		if err != nil {
			return err
		}
		o.Project = p.config.Project
		if err := p.dependencies(ctx, o, f.dependsOn); err != nil {
			return err
		}
		if err := p.refuseSecrets(o); err != nil {
			return err
		}
		if err := p.begin(ctx, o, f.target); err != nil {
			return err
		}
		if err := o.Check(); err != nil {
			return misuse("`ferry channel order --help` says what each flag takes", "%w", err)
		}
		id, err := w.Issue(ctx, a.now(), *o)
		if err := a.published(err); err != nil {
			return err
		}
		t, err := p.channel.Task(ctx, id.String())
		if err != nil {
			return err
		}
		a.adviseIssued(ctx, p, &t)
		shape := issuedShape{ID: id.String(), State: string(t.State), Label: string(o.Label), Base: string(o.Base)}
		return a.print(shape, func(w io.Writer) {
			fmt.Fprintf(w, "%s %s is %s, from %s\n", o.Label, id.Short(), stateLine(&t), o.Base.Short())
		})
	})
}

// order makes the order that the flags describe, without what the project adds.
func (f *orderFlags) order(stdin io.Reader) (*ferry.Order, error) {
	text, err := f.text(stdin)
	if err != nil {
		return nil, err
	}
	o := &ferry.Order{
		Label: ferry.Label(f.id), Text: text, Kind: f.kind, Size: f.size,
		Tags: f.tags, To: ferry.AgentName(f.to), Touches: f.touches, Checks: f.checks,
		NeedsReview: f.review, NeedsApproval: f.approval, Land: f.land, MaxAttempts: f.maxAttempts,
	}
	if f.id == "" {
		o.Label = labelFor(text)
	}
	if f.maxAttempts < 1 {
		return nil, misuse(fmt.Sprintf("give 1 to %d", ferry.MaxAttempts), "--max-attempts %d: the order would never be tried", f.maxAttempts)
	}
	if f.timeout != "" {
		d, err := parseDuration(f.timeout)
		if err != nil || d < time.Second {
			return nil, misuse("give seconds, or a duration like 30m", "--timeout %q: no duration of at least one second", clip(f.timeout, 40))
		}
		o.TimeoutSecs = int64(d / time.Second)
	}
	if f.capUSD != "" {
		if o.CapMicroUSD, err = parseDollars(f.capUSD); err != nil {
			return nil, misuse("give dollars, like 2 or 0.50", "--cap-usd: %w", err)
		}
	}
	if o.Attachments, err = attachments(f.attach); err != nil {
		return nil, err
	}
	if err := o.Check(); err != nil {
		return nil, misuse("`ferry channel order --help` says what each flag takes", "%w", err)
	}
	return o, nil
}

// text gives the order's text from the one flag that may give it.
func (f *orderFlags) text(stdin io.Reader) (string, error) {
	switch {
	case f.task != "" && f.taskFile != "":
		return "", misuse("give one of them", "--task and --task-file: the text can only come from one")
	case f.taskFile != "":
		return readText(f.taskFile, stdin, ferry.MaxOrderText, "put long material into a file of the repository, or --attach it")
	case strings.TrimSpace(f.task) == "":
		return "", misuse("say what is to be done: --task \"…\", or --task-file FILE", "order: there is no text")
	}
	return f.task, nil
}

// labelFor makes a label out of the first words of the text and four letters
// that no other order has.
func labelFor(text string) ferry.Label {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	words := strings.Split(cleanName(line, "order"), "-")
	base := strings.Join(words[:min(len(words), 5)], "-")
	return ferry.Label(clipName(base, 40) + "-" + string(ferry.NewRunID())[:4])
}

func clipName(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.Trim(s, "-")
}

// dependencies turns the labels or ids of --depends-on into ids.
func (p *project) dependencies(ctx context.Context, o *ferry.Order, refs []string) error {
	for _, ref := range refs {
		if ferry.Label(ref) == o.Label {
			return misuse("leave it out", "--depends-on %s: an order cannot depend on itself", ref)
		}
		t, err := p.channel.Task(ctx, ref)
		if errors.Is(err, channel.ErrNoOrder) || errors.Is(err, channel.ErrAmbiguous) {
			return misuse("`ferry channel tasks` lists the orders", "--depends-on: %w", err)
		}
		if err != nil {
			return fmt.Errorf("--depends-on: %w", err)
		}
		o.DependsOn = append(o.DependsOn, t.ID)
	}
	return nil
}

// begin fills in where the work begins and where it lands, and warns about
// what the run will not see.
func (p *project) begin(ctx context.Context, o *ferry.Order, target string) error {
	done := p.app.busy("reading the repository")
	defer done()
	gate, err := p.Gate(ctx)
	if err != nil {
		return err
	}
	base, err := gate.Base(ctx, "")
	if err != nil {
		return err
	}
	o.Base, o.Target = base.Commit, base.Branch
	if target != "" {
		if err := checkTarget(ctx, gate, target); err != nil {
			return err
		}
		o.Target = target
	}
	if o.Target == "" {
		return misuse("name the branch it lands on: --target BRANCH", "order %s: no branch is checked out (HEAD is detached at %s)", o.Label, base.Commit.Short())
	}
	p.app.warnDirty(base)
	if err := gate.Import(ctx, base.Commit); err != nil {
		return fmt.Errorf("order %s: %w", o.Label, err)
	}
	p.carryBase(ctx, gate, base.Commit)
	return nil
}

func checkTarget(ctx context.Context, gate *worktree.Gate, target string) error {
	b, err := gate.Base(ctx, "refs/heads/"+target)
	if err != nil || b.Commit == "" {
		return misuse("`git branch` lists them", "--target %s: there is no such branch", clip(target, 80))
	}
	return nil
}

// refuseSecrets keeps what looks like a secret out of the channel, where it
// would be signed, copied to other machines and never taken back.
func (p *project) refuseSecrets(o *ferry.Order) error {
	r, err := p.redactor()
	if err != nil {
		return err
	}
	texts := append([]string{o.Text}, o.Checks...)
	for _, f := range o.Attachments {
		texts = append(texts, f.Text)
	}
	for _, text := range texts {
		if hits := r.Find(text); len(hits) > 0 {
			return misuse("`ferry secret set NAME` seals it, and an engine that names it in agent.toml gets it, as in env = { NAME = \"secret:NAME\" }",
				"order %s: it holds what looks like a secret (%s), and orders are copied to every machine", o.Label, hits[0].Kind)
		}
	}
	return nil
}

// note hides what looks like a secret in a person's remark.
func (p *project) note(text string) (string, error) {
	r, err := p.redactor()
	if err != nil {
		return "", err
	}
	return r.String(text), nil
}

// warnDirty names what is in the checkout and not in the commit.
func (a *app) warnDirty(b worktree.Base) {
	const most = 5
	paths := b.DirtyPaths
	if len(paths) == 0 {
		return
	}
	more := ""
	if len(paths) > most {
		more = fmt.Sprintf(" and %d more", len(paths)-most)
		paths = paths[:most]
	}
	a.warn("warning: uncommitted changes are not part of the order: %s%s (commit them first if it needs them)", strings.Join(paths, ", "), more)
}

// adviseIssued says what keeps an order from being taken, where this machine
// can tell.
func (a *app) adviseIssued(ctx context.Context, p *project, t *ferry.Task) {
	if s, ok, err := p.state.paused(); err == nil && ok {
		a.warn("this machine is paused%s: `ferry resume` lets its workers begin", because(s.Reason))
	}
	if c, k, err := p.engine(); err == nil && t.Order.CapMicroUSD > 0 && c.Command != "" && !reportsCost(k) {
		a.warn("warning: --cap-usd: %s reports neither cost nor tokens, so the cap stops nothing that it does; --timeout and --max-attempts do", c.Command)
	}
	if t.To == "" {
		return
	}
	members, err := p.channel.Members(ctx)
	var names []string
	for _, m := range members {
		names = append(names, string(m.Name))
	}
	to := string(t.To)
	if err == nil && !slices.Contains(names, to) {
		did := ""
		if best, ok := nearest(to, names); ok {
			did = "; did you mean " + best + "?"
		}
		a.warn("warning: %s is not a member of the channel yet%s", to, did)
	}
}

// reportsCost reports whether what a run cost can be read from the engine, or reckoned from its tokens.
func reportsCost(k engines.Contract) bool {
	return k.Name == "claude" || k.Name == "codex" || k.Name == "pi"
}

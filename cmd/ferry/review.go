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
	"github.com/ferry-fleet/ferry/land"
)

func (a *app) reviewCommand() *cobra.Command {
	var accept, sendBack bool
	var notes, notesFile string
	cmd := &cobra.Command{
		Use:   "review ORDER (--accept | --send-back --notes TEXT)",
		Short: "accept a result, or send it back with what is to change",
		Long: `Review speaks about exactly the result that stands now. A result that is sent back
is taken up again from the branch it left, with your notes.`,
		Example: `  ferry channel review t-first --send-back --notes "cover the error path"
  ferry channel review t-first --accept`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if accept == sendBack {
				return misuse("give one of them", "review %s: --accept or --send-back", clip(args[0], 64))
			}
			text, err := notesOf(notes, notesFile, cmd.InOrStdin())
			if err != nil {
				return err
			}
			if sendBack && strings.TrimSpace(text) == "" {
				return misuse("say what is to change: --notes \"…\" or --notes-file FILE", "review %s --send-back: there are no notes", clip(args[0], 64))
			}
			d := ferry.DecisionKeep
			if sendBack {
				d = ferry.DecisionChanges
			}
			return a.judge(cmd.Context(), args[0], land.ReviewSpec{Decision: d, Notes: text}, land.Review)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&accept, "accept", false, "keep the result")
	f.BoolVar(&sendBack, "send-back", false, "have it changed, as the notes say")
	f.StringVar(&notes, "notes", "", "what you say about it")
	f.StringVar(&notesFile, "notes-file", "", "read the notes from `FILE` (\"-\" is standard input)")
	a.jsonFlag(cmd)
	return cmd
}

// notesOf gives the notes from the one flag that may give them.
func notesOf(notes, file string, stdin io.Reader) (string, error) {
	if notes != "" && file != "" {
		return "", misuse("give one of them", "--notes and --notes-file: the notes can only come from one")
	}
	if file != "" {
		return readText(file, stdin, maxNotes)
	}
	return notes, checkNotes(notes)
}

func (a *app) approveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "approve ORDER",
		Short:   "put the master's key on the result that stands",
		Example: `  ferry channel approve t-first`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.judge(cmd.Context(), args[0], land.ReviewSpec{}, land.Approve)
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) denyCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:     "deny ORDER --reason TEXT",
		Short:   "refuse an order's work for good; retry opens it again",
		Example: `  ferry channel deny t-first --reason "we keep the old parser"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return misuse("say why: --reason \"…\"", "deny %s: there is no reason", clip(args[0], 64))
			}
			if err := checkNotes(reason); err != nil {
				return err
			}
			return a.judge(cmd.Context(), args[0], land.ReviewSpec{Decision: ferry.DecisionReject, Notes: reason}, land.Review)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, told to whoever asks")
	a.jsonFlag(cmd)
	return cmd
}

// judge says one thing about the result that stands.
func (a *app) judge(ctx context.Context, ref string, s land.ReviewSpec,
	say func(context.Context, *channel.Writer, land.ReviewSpec) (land.Said, error)) error {
	return a.with(ctx, func(p *project) error {
		w, err := p.operator()
		if err != nil {
			return err
		}
		master, err := p.channel.Master(ctx)
		if err != nil {
			return err
		}
		s.Order, s.Master, s.Now = ref, master.Writer, a.now()
		said, err := say(ctx, w, s)
		if err != nil {
			return err
		}
		if !said.Decision.Allowed {
			return refused(said.Decision)
		}
		if err := a.acted(ctx, p, said.Order, said.Record); err != nil {
			return err
		}
		if s.Decision == ferry.DecisionKeep {
			a.landsByItself(ctx, p, said.Order)
		}
		return nil
	})
}

// refused turns a refusal into an error with what to do next.
func refused(d land.Decision) error {
	return faultf(classRefused, d.Next, "%s", d.Reason)
}

// landsByItself lands an order that asked for it, now that it was accepted.
// What keeps it from that is a warning: the review counts.
func (a *app) landsByItself(ctx context.Context, p *project, id ferry.RecordID) {
	t, err := p.channel.Task(ctx, id.String())
	if err != nil || !t.Order.Land || t.Landed != nil {
		return
	}
	out, err := p.land(ctx, &t, "", false)
	switch {
	case err != nil:
		a.warn("warning: %s did not land by itself: %v", t.Order.Label, err)
	case !out.Landed():
		a.warn("warning: %s does not land by itself: %s; %s", t.Order.Label, out.Decision.Reason, out.Decision.Next)
	default:
		a.warn("%s landed on %s as %s", t.Order.Label, out.Target, out.Commit.Short())
	}
}

func (a *app) landCommand() *cobra.Command {
	var into string
	cmd := &cobra.Command{
		Use:   "land ORDER",
		Short: "move the result onto its branch, as one commit",
		Long: `Land squashes the result that stands onto the order's branch, runs the order's
checks again where that branch has moved on, and moves the branch and the
order's own ref in one transaction. Each order lands once. A checkout of the
branch follows when it is clean.`,
		Example: `  ferry channel land t-first
  ferry channel land t-first --into release`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.land(cmd.Context(), args[0], into) },
	}
	cmd.Flags().StringVar(&into, "into", "", "land on this `BRANCH` instead")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) land(ctx context.Context, ref, into string) error {
	return a.with(ctx, func(p *project) error {
		t, err := p.channel.Task(ctx, ref)
		if err != nil {
			return err
		}
		done := a.busy("landing " + string(t.Order.Label))
		out, err := p.land(ctx, &t, into, true)
		done()
		if err != nil {
			return err
		}
		if out.Warning != "" {
			a.warn("warning: %s", out.Warning)
		}
		if !out.Landed() {
			return refused(out.Decision)
		}
		after, err := p.channel.Task(ctx, t.ID.String())
		if err != nil {
			return err
		}
		shape := landedShape{actedShape: actedOf(&after, out.Record), Target: out.Target, Old: string(out.Old), Commit: string(out.Commit)}
		if l := after.Landed; l != nil {
			shape.Target, shape.Old, shape.Commit = l.Target, string(l.Old), string(l.Commit)
			shape.Record = after.LandedID.String()
		}
		return a.print(shape, func(w io.Writer) { fmt.Fprintln(w, redact.Visible(out.Decision.Reason)) })
	})
}

// land puts the landing together: the same checks in the same box as the
// worker's.
func (p *project) land(ctx context.Context, t *ferry.Task, into string, explicit bool) (land.Outcome, error) {
	w, err := p.operator()
	if err != nil {
		return land.Outcome{}, err
	}
	gate, err := p.Gate(ctx)
	if err != nil {
		return land.Outcome{}, err
	}
	r, err := p.redactor()
	if err != nil {
		return land.Outcome{}, err
	}
	s := land.Spec{
		Channel: p.channel, Writer: w, Gate: gate, Order: t.ID.String(), Into: into, Explicit: explicit,
		Journal: p.state.landings(p.config.ChannelID), Redactor: r, Now: p.app.now(),
	}
	if len(t.Order.Checks) > 0 {
		level, _, err := p.level(ctx)
		if err != nil {
			return land.Outcome{}, err
		}
		s.Checks = p.checkSpec(level, gate, r)
		if s.Checks.Dir, err = p.state.scratchDir(); err != nil {
			return land.Outcome{}, err
		}
	}
	return land.Land(ctx, s)
}

package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry"
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
		Args: exactly("ORDER"),
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
		return readText(file, stdin, maxNotes, intoRepository)
	}
	return notes, checkNotes(notes)
}

func (a *app) approveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "approve ORDER",
		Short:   "put the master's key on the result that stands",
		Example: `  ferry channel approve t-first`,
		Args:    exactly("ORDER"),
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
		Use:   "deny ORDER --reason TEXT",
		Short: "refuse an order's work until somebody retries it",
		Long: "Deny takes the order out of everybody's hands: no worker takes it up again and\n" +
			"nothing of it lands, until `ferry channel retry ORDER` opens it again. To end an\n" +
			"order for good, cancel it, or interrupt it with kill.",
		Example: `  ferry channel deny t-first --reason "we keep the old parser"`,
		Args:    exactly("ORDER"),
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
	say func(context.Context, land.ReviewSpec) (land.Said, error)) error {
	return a.with(ctx, func(p *project) error {
		var err error
		if s.Writer, err = p.operator(); err != nil {
			return err
		}
		if s.Gate, err = p.Gate(ctx); err != nil {
			return err
		}
		if s.Redactor, err = p.redactor(); err != nil {
			return err
		}
		s.Fetch = p.fetches(s.Gate)
		s.Channel, s.Order, s.Now = p.channel, ref, a.now()
		said, err := say(ctx, s)
		if err != nil {
			return err
		}
		if said.Warning != "" {
			a.warn("warning: %s", said.Warning)
		}
		if !said.Decision.Allowed {
			return refused(said.Decision)
		}
		if err := a.acted(ctx, p, said.Order, said.Record); err != nil {
			return err
		}
		if s.Decision != ferry.DecisionChanges && s.Decision != ferry.DecisionReject {
			a.landsByItself(ctx, p, said.Order)
		}
		return nil
	})
}

// refused turns a refusal into an error with what to do next.
func refused(d land.Decision) error {
	return faultf(classRefused, d.Next, "%s", d.Reason)
}

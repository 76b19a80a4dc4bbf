package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
)

// act does one thing to one order under the operator's key, and says where
// the order stands after it. f gets the note without secrets.
func (a *app) act(ctx context.Context, ref, note string, f func(w *channel.Writer, t ferry.Task, note string) (ferry.RecordID, error)) error {
	return a.with(ctx, func(p *project) error {
		w, err := p.operator()
		if err != nil {
			return err
		}
		t, err := p.channel.Task(ctx, ref)
		if err != nil {
			return err
		}
		if note, err = p.note(note); err != nil {
			return err
		}
		record, err := f(w, t, note)
		if err := a.published(err); err != nil {
			return err
		}
		return a.acted(ctx, p, t.ID, record)
	})
}

// acted reads the order again and prints where it stands.
func (a *app) acted(ctx context.Context, p *project, id, record ferry.RecordID) error {
	t, err := p.channel.Task(ctx, id.String())
	if err != nil {
		return err
	}
	shape := actedOf(&t, record)
	return a.print(shape, func(w io.Writer) { fmt.Fprintf(w, "%s is %s\n", shape.Label, stateLine(&t)) })
}

func actedOf(t *ferry.Task, record ferry.RecordID) actedShape {
	s := actedShape{ID: t.ID.String(), Label: string(t.Order.Label), State: string(t.State), Hold: t.Hold}
	if !record.IsZero() {
		s.Record = record.String()
	}
	return s
}

func (a *app) interruptCommand() *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use:   "interrupt ORDER kill|pause|resume|steer",
		Short: "stop, pause, resume or steer an order, also while it runs",
		Long: `Kill ends the order for good; what was done so far is kept in the gate
repository, under refs/ferry/attempts. Pause freezes the engine and its clocks;
resume lets it go on. Steer stops the run, keeps its work, and begins again with
your note.`,
		Example: `  ferry channel interrupt t-first steer --note "leave the public API alone"
  ferry channel interrupt t-first kill`,
		Args:      exactly("ORDER", "the action"),
		ValidArgs: []string{"kill", "pause", "resume", "steer"},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.interrupt(cmd.Context(), args[0], ferry.Action(args[1]), note)
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "what the engine, or the ledger, is told")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) interrupt(ctx context.Context, ref string, action ferry.Action, note string) error {
	switch action {
	case ferry.ActionKill, ferry.ActionPause, ferry.ActionResume:
	case ferry.ActionSteer:
		if strings.TrimSpace(note) == "" {
			return misuse("say what the engine is to be told: --note \"…\"", "steer %s: there is no note", ref)
		}
	default:
		return misuse("it is one of kill, pause, resume, steer", "interrupt %s %s: there is no such action", ref, clip(string(action), 40))
	}
	if err := checkNotes(note); err != nil {
		return err
	}
	return a.act(ctx, ref, note, func(w *channel.Writer, t ferry.Task, note string) (ferry.RecordID, error) {
		in := ferry.Interrupt{Order: t.ID, Action: action, Note: note}
		switch {
		case t.State.Final():
			return ferry.RecordID{}, faultf(classRefused, "issue a new order", "%s is %s for good", t.Order.Label, t.State)
		case action != ferry.ActionKill && action != ferry.ActionResume && t.StandingResult() != nil:
			return ferry.RecordID{}, faultf(classRefused, "`ferry channel review "+string(t.Order.Label)+" --send-back --notes …` has it changed",
				"%s is %s: nothing runs that %s could reach", t.Order.Label, t.State, action)
		case action == ferry.ActionResume && !t.Paused:
			return ferry.RecordID{}, faultf(classRefused, "`ferry status --why "+string(t.Order.Label)+"` says what it waits for", "%s is not paused", t.Order.Label)
		case action == ferry.ActionResume:
			in.Seen = t.Pauses
		}
		return w.Interrupt(ctx, a.now(), in)
	})
}

func checkNotes(notes string) error {
	if len(notes) > maxNotes {
		return misuse("put long material into a file of the repository", "notes of %d bytes: the limit is %d", len(notes), maxNotes)
	}
	return nil
}

func (a *app) cancelCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:     "cancel ORDER",
		Short:   "take an order back",
		Example: `  ferry channel cancel t-first --reason "done by hand"`,
		Args:    exactly("ORDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkNotes(reason); err != nil {
				return err
			}
			return a.act(cmd.Context(), args[0], reason, func(w *channel.Writer, t ferry.Task, reason string) (ferry.RecordID, error) {
				if t.State.Final() {
					return ferry.RecordID{}, faultf(classRefused, "there is nothing left to cancel; `ferry channel show "+string(t.Order.Label)+"` says how it ended", "%s is %s for good", t.Order.Label, t.State)
				}
				return w.Cancel(cmd.Context(), a.now(), ferry.Cancel{Order: t.ID, Reason: reason})
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, kept in the ledger")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) retryCommand() *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use:   "retry ORDER",
		Short: "forgive an order's failures and let it be tried again",
		Long: `Retry forgives the failures that are known now: failed attempts, refuted results
and a denial. The next attempt begins from what the last one left.`,
		Example: `  ferry channel retry t-first`,
		Args:    exactly("ORDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkNotes(note); err != nil {
				return err
			}
			return a.act(cmd.Context(), args[0], note, func(w *channel.Writer, t ferry.Task, note string) (ferry.RecordID, error) {
				switch {
				case t.State.Final():
					return ferry.RecordID{}, faultf(classRefused, "issue a new order", "%s is %s for good", t.Order.Label, t.State)
				case len(t.Next.Failed) == 0:
					return ferry.RecordID{}, faultf(classRefused, "`ferry status --why "+string(t.Order.Label)+"` says what it waits for",
						"%s is %s and has no failure to forgive", t.Order.Label, t.State)
				}
				return w.Interrupt(cmd.Context(), a.now(), ferry.Interrupt{
					Order: t.ID, Action: ferry.ActionRetry, Note: note, Seen: t.Next.Failed,
				})
			})
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "why, kept in the ledger")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) answerCommand() *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use:     "answer QUESTION OPTION",
		Short:   "answer a question",
		Long:    `Answer takes the beginning of a question's id, as the inbox shows it, or the order's label where only one question is open.`,
		Example: `  ferry channel answer 3f2a9c01 retry`,
		Args:    exactly("QUESTION", "OPTION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkNotes(note); err != nil {
				return err
			}
			return a.answer(cmd.Context(), args[0], args[1], note)
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "a remark, kept in the ledger")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) answer(ctx context.Context, ref, option, note string) error {
	return a.with(ctx, func(p *project) error {
		w, err := p.operator()
		if err != nil {
			return err
		}
		t, q, err := p.question(ctx, ref)
		if err != nil {
			return err
		}
		var names []string
		found := false
		for _, o := range q.Question.Options {
			names = append(names, o.Name)
			found = found || o.Name == option
		}
		if !found {
			return misuse("the options are: "+strings.Join(names, ", "), "answer %s %s: the question has no such option", q.ID.Short(), clip(option, 40))
		}
		if note, err = p.note(note); err != nil {
			return err
		}
		record, err := w.Answer(ctx, a.now(), ferry.Answer{Order: t.ID, Question: q.ID, Option: option, Note: note})
		if err := a.published(err); err != nil {
			return err
		}
		return a.acted(ctx, p, t.ID, record)
	})
}

// question finds an open question by the beginning of its id, or by the order
// when that has just one.
func (p *project) question(ctx context.Context, ref string) (ferry.Task, ferry.Open, error) {
	asking, err := p.channel.Questions(ctx)
	if err != nil {
		return ferry.Task{}, ferry.Open{}, err
	}
	var found []channel.OpenQuestion
	for _, q := range asking {
		byID := len(ref) >= 4 && strings.HasPrefix(q.ID.String(), strings.ToLower(ref))
		if byID || string(q.Task.Order.Label) == ref {
			found = append(found, q)
		}
	}
	switch len(found) {
	case 1:
		return found[0].Task, found[0].Open, nil
	case 0:
		return ferry.Task{}, ferry.Open{}, faultf(classNotFound, "`ferry channel inbox` lists them", "question %q: no open question has this id or order", clip(ref, 64))
	}
	var ids []string
	for _, m := range found {
		ids = append(ids, m.ID.Short())
	}
	return ferry.Task{}, ferry.Open{}, faultf(classAmbiguous, "name one of "+strings.Join(ids, ", "), "question %q: %d open questions match", clip(ref, 64), len(found))
}

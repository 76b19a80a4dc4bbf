package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/internal/redact"
	"github.com/ferry-fleet/ferry/land"
)

// landsByItself lands an order that asked for it, now that it was accepted.
// What keeps it from that is a warning: the review counts.
func (a *app) landsByItself(ctx context.Context, p *project, id ferry.RecordID) {
	t, err := p.channel.Task(ctx, id.String())
	if err != nil || !t.Order.Land || t.Landed != nil || t.Order.NeedsApproval && t.Approve.IsZero() {
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
		Args: exactly("ORDER"),
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
	s, err := p.landSpec(ctx, w)
	if err != nil {
		return land.Outcome{}, err
	}
	s.Order, s.Into, s.Explicit = t.ID.String(), into, explicit
	if len(t.Order.Checks) > 0 {
		level, _, err := p.level(ctx)
		if err != nil {
			return land.Outcome{}, err
		}
		s.Checks = p.checkSpec(level, s.Gate, s.Redactor)
		s.Prepare = p.prepareSpec(level, s.Gate, s.Redactor)
		if s.Checks.Dir, err = p.state.scratchDir(); err != nil {
			return land.Outcome{}, err
		}
	}
	return land.Land(ctx, s)
}

// landSpec is what every landing of this project has in common.
func (p *project) landSpec(ctx context.Context, w *channel.Writer) (land.Spec, error) {
	gate, err := p.Gate(ctx)
	if err != nil {
		return land.Spec{}, err
	}
	r, err := p.redactor()
	return land.Spec{
		Channel: p.channel, Writer: w, Gate: gate, Journal: p.state.landings(p.config.ChannelID), Redactor: r, Now: p.app.now(),
	}, err
}

// unfinished is the age from which a remembered landing belongs to a process
// that is gone.
const unfinished = time.Minute

// repair completes landings that a crash left between the branch and the
// record. What it cannot do is a warning: the next command tries again.
func (p *project) repair(ctx context.Context) {
	entries, err := os.ReadDir(p.state.landings(p.config.ChannelID))
	if err != nil {
		return // there is no such directory before the first landing
	}
	old := slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		info, err := e.Info()
		return err == nil && p.app.now().Sub(info.ModTime()) > unfinished
	})
	w, err := p.operator()
	if !old || err != nil {
		return // without the operator's key the record is not ours to write
	}
	s, err := p.landSpec(ctx, w)
	if err == nil {
		_, err = land.Repair(ctx, s)
	}
	if err != nil {
		p.app.warn("warning: %v", err)
	}
}

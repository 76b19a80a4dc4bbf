package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/internal/redact"
	"github.com/ferry-fleet/ferry/internal/worktree"
	"github.com/ferry-fleet/ferry/land"
)

// landsByItself lands an order that asked for it, now that it was accepted.
// What keeps it from that is a warning: the review counts.
func (a *app) landsByItself(ctx context.Context, p *project, id ferry.RecordID) {
	t, err := p.channel.Task(ctx, id.String())
	if err != nil || !t.Order.Land || t.Landed != nil || t.Order.NeedsApproval && t.Approve.IsZero() {
		return
	}
	out, err := p.land(ctx, &t, landOptions{})
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
	o := landOptions{explicit: true}
	cmd := &cobra.Command{
		Use:   "land ORDER",
		Short: "move the result onto its branch, as one commit",
		Long: `Land squashes the result that stands onto the order's branch, runs the order's
checks again where that branch has moved on, and moves the branch and the
order's own ref in one transaction. Each order lands once. A checkout of the
branch follows when it is clean.

With remote under [land] in agent.toml it is pushed there first: a fast-forward
of the branch, which is never forced, and the order's own ref, in one
transaction.`,
		Example: `  ferry channel land t-first
  ferry channel land t-first --into release`,
		Args: exactly("ORDER"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.land(cmd.Context(), args[0], o) },
	}
	cmd.Flags().StringVar(&o.into, "into", "", "land on this `BRANCH` instead")
	cmd.Flags().BoolVar(&o.accept, "accept-remote", false, "take the remote as it is: at another place, or with a branch that was rewound")
	a.jsonFlag(cmd)
	return cmd
}

// landOptions are what a landing is told beside the order.
type landOptions struct {
	into     string
	explicit bool // a person typed it
	accept   bool // the remote as it is
}

func (a *app) land(ctx context.Context, ref string, o landOptions) error {
	return a.with(ctx, func(p *project) error {
		t, err := p.channel.Task(ctx, ref)
		if err != nil {
			return err
		}
		done := a.busy("landing " + string(t.Order.Label))
		out, err := p.land(ctx, &t, o)
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
		shape := landedShape{actedShape: actedOf(&after, out.Record), Target: out.Target, Old: string(out.Old), Commit: string(out.Commit), Remote: out.Remote}
		if l := after.Landed; l != nil {
			shape.Target, shape.Old, shape.Commit = l.Target, string(l.Old), string(l.Commit)
			shape.Record = after.LandedID.String()
		}
		return a.print(shape, func(w io.Writer) { fmt.Fprintln(w, redact.Visible(out.Decision.Reason)) })
	})
}

// land puts the landing together: the same checks in the same box as the
// worker's.
func (p *project) land(ctx context.Context, t *ferry.Task, o landOptions) (land.Outcome, error) {
	w, err := p.operator()
	if err != nil {
		return land.Outcome{}, err
	}
	s, err := p.landSpec(ctx, w)
	if err != nil {
		return land.Outcome{}, err
	}
	if s.Remote, err = p.remote(ctx, s.Gate, worktree.RemoteSpec{Accept: o.accept}); err != nil {
		return land.Outcome{}, err
	}
	s.Fetch = p.fetches(s.Gate)
	s.Order, s.Into, s.Explicit = t.ID.String(), o.into, o.explicit
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

// remote gives the remote that landings are pushed to; nil when none is set.
func (p *project) remote(ctx context.Context, gate *worktree.Gate, s worktree.RemoteSpec) (*worktree.Remote, error) {
	if s.Name = p.config.Land.Remote; s.Name == "" {
		return nil, nil
	}
	s.Env = os.Environ()
	r, err := gate.Remote(ctx, s)
	switch {
	case errors.Is(err, worktree.ErrRemoteChanged):
		return nil, fault(classRefused, "if it has moved there, `ferry channel land ORDER --accept-remote`", err)
	case errors.Is(err, worktree.ErrRemoteURL):
		return nil, fault(classConfig, "set remote under [land] in "+p.files[0]+" right, or take it out", err)
	}
	return r, err
}

// repairTime bounds how long a command that is about something else waits for
// the remote of an unfinished landing.
const repairTime = 10 * time.Second

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
		s.Remote, err = p.remote(ctx, s.Gate, worktree.RemoteSpec{Timeout: repairTime})
	}
	if err == nil {
		_, err = land.Repair(ctx, s)
	}
	if err != nil {
		p.app.warn("warning: %v", err)
	}
}

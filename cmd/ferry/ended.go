package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/ferry-fleet/ferry"
)

// ended says how an order ended, by whom, and with which commit; "" where it
// goes on.
func (p *project) ended(ctx context.Context, t *ferry.Task, people []ferry.Member) (string, error) {
	switch t.State {
	case ferry.StateLanded, ferry.StateCancelled, ferry.StateKilled, ferry.StateFailed:
	case ferry.StateDone, ferry.StateAccepted, ferry.StateApproved:
		o := t.StandingResult()
		if o == nil {
			return "", nil
		}
		return fmt.Sprintf("it is %s: revision %d of %s, commit %s", t.State, o.Result.Revision, name(people, o.Writer), o.Result.Commit.Short()), nil
	default:
		return "", nil
	}
	entries, err := p.channel.Records(ctx, t.ID)
	if err != nil {
		return "", err
	}
	for _, e := range slices.Backward(entries) {
		if !e.Counted {
			continue
		}
		by := name(people, e.Writer) + ", " + e.Time.Local().Format("2006-01-02 15:04")
		switch b := e.Body.(type) {
		case *ferry.Landed:
			if t.State == ferry.StateLanded && e.ID == t.LandedID {
				return fmt.Sprintf("it has landed on %s as %s, by %s", b.Target, b.Commit.Short(), by), nil
			}
		case *ferry.Cancel:
			if t.State == ferry.StateCancelled {
				return fmt.Sprintf("it was cancelled by %s%s", by, colon(b.Reason)), nil
			}
		case *ferry.Interrupt:
			if t.State == ferry.StateKilled && b.Action == ferry.ActionKill {
				return fmt.Sprintf("it was killed by %s%s", by, colon(b.Note)), nil
			}
		case *ferry.Verdict:
			if t.State == ferry.StateFailed && b.Decision == ferry.DecisionReject {
				return fmt.Sprintf("it was denied by %s%s", by, colon(b.Notes)), nil
			}
		}
	}
	return "it is " + string(t.State), nil
}

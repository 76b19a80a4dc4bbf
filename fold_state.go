package ferry

import (
	"fmt"
	"slices"
	"strings"
)

// state applies the table of docs/task-states.md: the first row that matches.
func (f *fold) state() {
	t := &f.t
	f.t.State, f.t.Hold = f.row()
	hold := f.waits()
	switch t.State {
	case StateOpen:
		if hold != "" {
			t.State, t.Hold = StateBlocked, hold
		}
	case StateOffered, StateClaimed, StateChangesRequested, StateRefuted:
		t.Hold = hold
	case StateRunning:
		if t.Paused {
			t.Hold = "paused: `ferry channel interrupt " + f.ref() + " resume` lets it go on"
		}
	}
	switch t.State {
	case StateOpen, StateOffered, StateChangesRequested, StateRefuted:
		t.Next.Claimable = hold == ""
	case StateRunning, StateClaimed:
		t.Next.Takeover = hold == ""
	}
	if len(t.Opaque) > 0 && !t.State.Final() {
		t.Hold = f.newer()
	}
}

func (f *fold) row() (State, string) {
	t := &f.t
	last := t.LatestResult()
	standing := t.StandingResult()
	open := standing == nil
	switch {
	case t.Landed != nil:
		return StateLanded, ""
	case f.cancel:
		return StateCancelled, f.reason
	case f.kill:
		return StateKilled, f.reason
	case len(f.denied) > 0:
		return StateFailed, "denied: " + f.reason + "; `ferry channel retry " + f.ref() + "` opens it again"
	case open && t.Live.IsZero() && t.Failures >= f.h.Order.Attempts():
		return StateFailed, f.usedUp(last)
	case open && !t.Live.IsZero():
		return StateRunning, ""
	case open && !t.LiveClaim.IsZero():
		return StateClaimed, ""
	case open && t.To != "" && f.untouched():
		return StateOffered, ""
	case open && last != nil && last.Decision == DecisionChanges && last.Evidence.Status != EvidenceRefuted:
		return StateChangesRequested, ""
	case open && last != nil && last.Evidence.Status == EvidenceRefuted && t.Attempt == last.Result.Attempt:
		return StateRefuted, ""
	case open:
		return StateOpen, ""
	case !t.Approve.IsZero():
		return StateApproved, ""
	case standing.Decision == DecisionKeep:
		if f.h.Order.NeedsApproval {
			return StateAccepted, "waits for the master: `ferry channel approve " + f.ref() + "`"
		}
		return StateAccepted, ""
	case f.h.Order.NeedsReview || f.h.Order.NeedsApproval:
		return StateAwaitingReview, "waits for a review: `ferry channel review " + f.ref() + " --accept` or `--send-back --notes …`"
	}
	return StateDone, ""
}

// untouched reports whether no attempt has begun but such as were retired.
func (f *fold) untouched() bool {
	return !slices.ContainsFunc(f.t.Attempts, func(a Attempt) bool { return a.Stop == nil || a.Stop.Reason != StopRetired })
}

// newer words what only a newer ferry can read: no decision about the order is safe without it.
func (f *fold) newer() string {
	return "needs a newer ferry: " + strings.Join(f.t.Opaque, ", ") + "; install it, `ferry version` says what is here"
}

func (f *fold) ref() string { return string(f.h.Order.Label) }

// usedUp words the end of an order that no attempt could do.
func (f *fold) usedUp(last *Outturn) string {
	why := ""
	if last != nil && len(last.Evidence.Reasons) > 0 {
		why = " (last: " + strings.Join(last.Evidence.Reasons, "; ") + ")"
	} else if n := len(f.t.Attempts); n > 0 && f.t.Attempts[n-1].Stop != nil {
		why = " (last: " + f.t.Attempts[n-1].Stop.Note + ")"
	}
	return fmt.Sprintf("%d of %d attempts are used up%s; `ferry channel retry %s` opens it again",
		f.t.Failures, f.h.Order.Attempts(), why, f.ref())
}

// waits gives the reason why no attempt may begin now, or "".
func (f *fold) waits() string {
	if len(f.t.Opaque) > 0 {
		return f.newer()
	}
	if l := f.t.Unbacked; l != nil {
		return fmt.Sprintf("landed on %s as %s, by a result that does not count here: wait if it has not arrived; else the master types `ferry channel land %s`, which looks whether it is there and says so",
			l.Target, l.Commit.Short(), f.ref())
	}
	for _, id := range f.h.Order.DependsOn {
		label, s, known := f.v.Depend(id)
		switch {
		case !known:
			return "waits for the order " + id.Short() + ", which has not arrived here"
		case s.MeetsDependency():
		case s.Final() || s == StateFailed:
			return fmt.Sprintf("waits for %s, which is %s: `ferry channel retry %s`, or cancel this order", label, s, label)
		default:
			return fmt.Sprintf("waits for %s, which is %s", label, s)
		}
	}
	if i := slices.IndexFunc(f.t.Questions, func(q Open) bool { return !q.Question.Aside }); i >= 0 {
		q := f.t.Questions[i]
		return fmt.Sprintf("waits for an answer: %s `ferry channel answer %s OPTION`", q.Question.Text, q.ID.Short())
	}
	if f.t.Paused {
		return "paused: `ferry channel interrupt " + f.ref() + " resume` lets it go on"
	}
	return ""
}

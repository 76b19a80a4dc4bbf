package land

import (
	"fmt"
	"strings"

	"github.com/ferry-fleet/ferry"
)

// MaxNotes is the size in bytes up to which a verdict carries notes.
const MaxNotes = 16 << 10

// Ask is what a reviewer wants to say.
type Ask struct {
	Actor    ferry.WriterID
	Master   bool // the actor is the channel's master
	Decision ferry.Decision
	Notes    string
	// Result is the result that was read; zero means the one that stands.
	Result ferry.RecordID
}

// DecideReview says whether the verdict may be given. It is pure.
func DecideReview(t *ferry.Task, a Ask) Decision {
	for _, look := range []func(*ferry.Task, Ask) *Decision{askedWell, askedInTime, askedOfResult} {
		if d := look(t, a); d != nil {
			return *d
		}
	}
	return Decision{Allowed: true, Code: CodeAccepted, Reason: "the verdict may be given"}
}

func askedWell(t *ferry.Task, a Ask) *Decision {
	empty := strings.TrimSpace(a.Notes) == ""
	switch {
	case len(a.Notes) > MaxNotes:
		return refuse(CodeNotes, fmt.Sprintf("the notes have %d bytes, the limit is %d", len(a.Notes), MaxNotes), "put long material into a file of the repository and name it")
	case a.Decision == ferry.DecisionChanges && empty:
		return refuse(CodeNotes, "a result is sent back with what is to be changed", cmd(t, "review", "--send-back --notes \"…\""))
	case a.Decision == ferry.DecisionReject && empty:
		return refuse(CodeNotes, "an order is denied with the reason", cmd(t, "deny", "--reason \"…\""))
	case a.Decision == ferry.DecisionReject && !a.Master:
		return refuse(CodeNotMaster, "only the master of the channel denies an order", cmd(t, "review", "--send-back --notes \"…\""))
	}
	return nil
}

func askedInTime(t *ferry.Task, a Ask) *Decision {
	label := string(t.Order.Label)
	switch {
	case t.Landed != nil:
		return refuse(CodeAlreadyLanded, fmt.Sprintf("%s has landed on %s as %s: there is nothing left to review", label, t.Landed.Target, t.Landed.Commit.Short()), "issue a new order that changes or reverts it")
	case t.State == ferry.StateCancelled:
		return refuse(CodeCancelled, label+" is cancelled"+because(t.Hold), "issue a new order")
	case t.State == ferry.StateKilled:
		return refuse(CodeKilled, label+" was killed"+because(t.Hold), "issue a new order")
	case t.State == ferry.StateFailed && (a.Decision != ferry.DecisionReject || strings.HasPrefix(t.Hold, "denied")):
		return refuse(CodeFailed, label+" has failed"+because(t.Hold), cmd(t, "retry", "")+" opens it again")
	}
	return nil
}

func askedOfResult(t *ferry.Task, a Ask) *Decision {
	if a.Decision == ferry.DecisionReject {
		return nil // it may name the order alone
	}
	o := t.StandingResult()
	if o == nil {
		return decideState(t, Facts{})
	}
	switch {
	case !a.Result.IsZero() && a.Result != o.ID:
		return refuse(CodeWrongResult, fmt.Sprintf("the result %s was read, and %s is the one that stands now", a.Result.Short(), o.ID.Short()), cmd(t, "show", "")+" shows it")
	case a.Actor == o.Writer:
		return refuse(CodeOwnWork, "the result is this writer's own work, and nobody judges that", "let the person review it: "+cmd(t, "review", "--accept"))
	case o.Evidence.Status == ferry.EvidenceRefuted:
		return refutedBy(t, o.Evidence)
	case a.Decision == ferry.DecisionKeep && o.Decision == ferry.DecisionKeep && saidBefore(o, a.Actor):
		return refuse(CodeAccepted, fmt.Sprintf("the result of %s is accepted already", t.Order.Label), cmd(t, "land", "")+" lands it")
	}
	return nil
}

func saidBefore(o *ferry.Outturn, w ferry.WriterID) bool {
	for _, v := range o.Verdicts {
		if v.Writer == w && v.Decision == ferry.DecisionKeep {
			return true
		}
	}
	return false
}

// DecideApprove says whether the master's key may be given. It is pure.
func DecideApprove(t *ferry.Task, a Ask) Decision {
	if !a.Master {
		return *refuse(CodeNotMaster, "only the master of the channel approves", "let the master type "+cmd(t, "approve", ""))
	}
	a.Decision = ferry.DecisionChanges // whatever may be judged at all may be approved
	for _, look := range []func(*ferry.Task, Ask) *Decision{askedInTime, askedOfResult} {
		if d := look(t, a); d != nil {
			return *d
		}
	}
	switch {
	case t.Order.NeedsReview && t.StandingResult().Decision != ferry.DecisionKeep:
		return *refuse(CodeNeedsReview, fmt.Sprintf("%s asks for a review first, and its result is not accepted", t.Order.Label), cmd(t, "review", "--accept"))
	case !t.Approve.IsZero():
		return *refuse(CodeAccepted, fmt.Sprintf("the result of %s is approved already", t.Order.Label), cmd(t, "land", "")+" lands it")
	}
	return Decision{Allowed: true, Code: CodeAccepted, Reason: "the approval may be given"}
}

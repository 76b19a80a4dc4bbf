package land

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/redact"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// Code is the stable name of a decision, for `--json` and for tests.
type Code string

// The codes. CodeLand allows; CodeAlreadyLanded says that there is nothing
// left to do; every other refuses.
const (
	CodeLand          Code = "land"
	CodeAlreadyLanded Code = "already-landed"
	CodeCancelled     Code = "cancelled"
	CodeKilled        Code = "killed"
	CodeFailed        Code = "failed"
	CodeNoResult      Code = "no-result"
	CodeSentBack      Code = "sent-back"
	CodeRefuted       Code = "refuted"
	CodeNoChange      Code = "no-change"
	CodeOwnWork       Code = "own-work"
	CodeNoGrant       Code = "no-grant"
	CodeNeedsReview   Code = "needs-review"
	CodeNeedsApproval Code = "needs-approval"
	CodeNotAsked      Code = "not-asked"
	CodeUnsandboxed   Code = "unsandboxed"
	CodeUnverified    Code = "unverified"
	CodeNoTarget      Code = "no-target"
	CodeDirty         Code = "dirty-checkout"
	CodeConflict      Code = "conflict"
	CodeChecks        Code = "checks-failed"
	CodeDiffers       Code = "differs"
	CodeAbsent        Code = "absent"
	CodeMoved         Code = "target-moved"
	CodeAccepted      Code = "accepted"
	CodeNotMaster     Code = "not-the-master"
	CodeNotes         Code = "notes"
	CodeWrongResult   Code = "another-result"
	CodeElsewhere     Code = "landed-elsewhere"
	CodeUnpushed      Code = "unpushed"
	CodeRewound       Code = "remote-rewound"
	CodeNewer         Code = "needs-newer-ferry"
	CodeRequires      Code = "requires"
	CodeBehind        Code = "behind"
)

// Decision is an answer with its reason, and what to type next.
type Decision struct {
	Allowed bool   `json:"allowed"`
	Code    Code   `json:"code"`
	Reason  string `json:"reason,omitempty"`
	Next    string `json:"next,omitempty"`
}

// Error gives the reason and the next step in one line, so that a refusal can
// be printed as an error.
func (d Decision) Error() string {
	if d.Next == "" {
		return d.Reason
	}
	return d.Reason + "; " + d.Next
}

// Facts are what Decide needs beside the task. A field that is not known yet
// refuses nothing, but Target is always asked for.
type Facts struct {
	Actor    ferry.WriterID // who lands
	May      bool           // the roster lets the actor land: the master, or the grant `land`
	Explicit bool           // a person typed `land`; else the order asked for it
	Target   string         // the branch it would land on
	Requires []string       // features that the policies in force ask of the ferry that made the result
	Waits    string         // why what the policies govern has to wait on this machine
	NoBranch bool           // the person's repository has no such branch
	Dirty    []string       // checkouts of the target with uncommitted changes
	// Evidence is what this machine makes of the result after asking git again; empty means not asked yet.
	Evidence ferry.Evidence
}

// Decide says whether the task may land now. It is pure; the first refusal in
// the order of the code is the answer.
func Decide(t *ferry.Task, f Facts) Decision {
	for _, look := range []func(*ferry.Task, Facts) *Decision{decideState, decideEvidence, decideKeys, decideArrived, decideAlone, decideTarget} {
		if d := look(t, f); d != nil {
			return *d
		}
	}
	return Decision{Allowed: true, Code: CodeLand, Reason: fmt.Sprintf("%s may land on %s", t.Order.Label, f.Target)}
}

// refuse makes a refusal. An order's own hold may end with the next step,
// which is said once.
func refuse(code Code, reason, next string) *Decision {
	return &Decision{Code: code, Reason: strings.TrimSuffix(reason, "; "+next), Next: next}
}

// cmd words a command of ferry for the order.
func cmd(t *ferry.Task, verb, rest string) string {
	return strings.TrimSpace("`ferry channel "+verb+" "+string(t.Order.Label)+" "+rest) + "`"
}

// orderAgain words the way out of a target that has moved on: every attempt
// of an order begins from the order's own base, so that none could take the
// target in.
func orderAgain(t *ferry.Task, target string) string {
	again, err := ferry.ParseLabel(string(t.Order.Label) + "-again")
	if err != nil {
		again = "LABEL"
	}
	return fmt.Sprintf("every attempt of an order begins from the same commit, so order it again: %s, then, with %s checked out, `ferry channel order --id %s --task …`; or merge its branch %s by hand",
		cmd(t, "cancel", "--reason \""+target+" has moved on\""), target, again, t.Branch())
}

// decideState looks at what the order is and which of its results stands.
func decideState(t *ferry.Task, _ Facts) *Decision {
	label := string(t.Order.Label)
	if t.Landed != nil {
		return refuse(CodeAlreadyLanded, fmt.Sprintf("%s has landed on %s as %s", label, t.Landed.Target, t.Landed.Commit.Short()), cmd(t, "receipt", "")+" shows how")
	}
	switch t.State {
	case ferry.StateCancelled:
		return refuse(CodeCancelled, label+" is cancelled"+because(t.Hold), "issue a new order")
	case ferry.StateKilled:
		return refuse(CodeKilled, label+" was killed"+because(t.Hold), "issue a new order")
	case ferry.StateFailed:
		return refuse(CodeFailed, label+" has failed"+because(t.Hold), cmd(t, "retry", "")+" opens it again")
	}
	if len(t.Opaque) > 0 {
		return refuse(CodeNewer, fmt.Sprintf("%s has records that only a newer ferry can read: %s", label, strings.Join(t.Opaque, ", ")), "install it, then "+cmd(t, "land", ""))
	}
	if t.StandingResult() != nil {
		return nil
	}
	last := t.LatestResult()
	switch {
	case last == nil && !t.Live.IsZero():
		return refuse(CodeNoResult, label+" is still being worked on", "`ferry log -f "+label+"` follows it")
	case last == nil:
		return refuse(CodeNoResult, label+" has no result yet ("+string(t.State)+because(t.Hold)+")", "`ferry status --why "+label+"` says what it waits for")
	case last.Evidence.Status == ferry.EvidenceRefuted:
		return refutedBy(t, last.Evidence)
	}
	return refuse(CodeSentBack, label+" was sent back and the next attempt has not handed in a result", "`ferry status --why "+label+"` says what it waits for")
}

func refutedBy(t *ferry.Task, e ferry.Evidence) *Decision {
	return refuse(CodeRefuted, fmt.Sprintf("the result of %s is refuted: %s", t.Order.Label, strings.Join(e.Reasons, "; ")),
		"refuted work cannot be accepted or landed; the next attempt is told why")
}

func because(hold string) string {
	if hold == "" {
		return ""
	}
	return ": " + hold
}

// decideEvidence looks at what git says of the standing result.
func decideEvidence(t *ferry.Task, f Facts) *Decision {
	o := t.StandingResult()
	for _, e := range []ferry.Evidence{o.Evidence, f.Evidence} {
		if e.Status == ferry.EvidenceRefuted {
			return refutedBy(t, e)
		}
	}
	if lacks := without(f.Requires, o.Result.Features); len(lacks) > 0 {
		return refuse(CodeRequires, fmt.Sprintf("the result of %s was made by a ferry without %s, which the policy in force requires", t.Order.Label, strings.Join(lacks, ", ")),
			"update ferry on the machine of the agent, then "+cmd(t, "review", "--send-back --notes \"made by an old ferry\""))
	}
	if o.Result.FilesTotal == 0 {
		return refuse(CodeNoChange, fmt.Sprintf("the result of %s is an answer in text: it changes no file", t.Order.Label), cmd(t, "show", "")+" prints it")
	}
	return nil
}

// without gives those of want that are not in have.
func without(want, have []string) []string {
	var lacks []string
	for _, w := range want {
		if !slices.Contains(have, w) {
			lacks = append(lacks, w)
		}
	}
	return lacks
}

// decideKeys looks at review and approval. A verdict or approval by the
// writer of the result never counts: Fold leaves it out.
func decideKeys(t *ferry.Task, f Facts) *Decision {
	o := t.StandingResult()
	switch {
	case f.Actor == o.Writer:
		return refuse(CodeOwnWork, "the result is this writer's own work, and nobody lands that", "let the person land it: "+cmd(t, "land", ""))
	case !f.May:
		return refuse(CodeNoGrant, "this writer has no grant to land in this channel", "let the person land it: "+cmd(t, "land", ""))
	case t.Order.NeedsReview && o.Decision != ferry.DecisionKeep:
		return refuse(CodeNeedsReview, fmt.Sprintf("%s asks for a review and its result is not accepted", t.Order.Label), cmd(t, "review", "--accept")+" or "+cmd(t, "review", "--send-back --notes …"))
	case t.Order.NeedsApproval && t.Approve.IsZero():
		return refuse(CodeNeedsApproval, fmt.Sprintf("%s asks for the master's approval", t.Order.Label), cmd(t, "approve", ""))
	}
	return nil
}

// decideArrived holds every landing while what decides about it has not all
// arrived.
func decideArrived(t *ferry.Task, f Facts) *Decision {
	if f.Waits == "" {
		return nil
	}
	return refuse(CodeBehind, fmt.Sprintf("%s cannot land yet: %s", t.Order.Label, f.Waits), cmd(t, "land", "")+" once it has arrived; what never comes holds nothing up for more than ten minutes")
}

// decideAlone holds what lands without a person to a stricter rule.
func decideAlone(t *ferry.Task, f Facts) *Decision {
	if f.Explicit {
		return nil
	}
	o := t.StandingResult()
	e := o.Evidence
	if f.Evidence.Status != "" {
		e = f.Evidence
	}
	person := cmd(t, "land", "")
	switch {
	case !t.Order.Land:
		return refuse(CodeNotAsked, fmt.Sprintf("%s does not ask to land by itself", t.Order.Label), person)
	case o.Decision != ferry.DecisionKeep:
		return refuse(CodeNeedsReview, fmt.Sprintf("%s lands by itself once its result is accepted", t.Order.Label), cmd(t, "review", "--accept"))
	case o.Result.Sandbox.Level == "none" || o.Result.Sandbox.Level == "":
		return refuse(CodeUnsandboxed, "the result was made without a sandbox and does not land by itself", person)
	case e.Status != ferry.EvidenceVerified:
		return refuse(CodeUnverified, "the result is "+string(e.Status)+" and does not land by itself: "+strings.Join(e.Reasons, "; "), person)
	}
	return nil
}

// notABranch refuses what git takes for an expression, and what it could never take.
func notABranch(t *ferry.Task, target string) *Decision {
	return refuse(CodeNoTarget, fmt.Sprintf("%s is not the name of a branch: a landing moves a branch, not a commit or an expression", redact.Visible(target)), cmd(t, "land", "--into BRANCH"))
}

// decideTarget looks at where it would land.
func decideTarget(t *ferry.Task, f Facts) *Decision {
	into := cmd(t, "land", "--into BRANCH")
	switch {
	case f.Target == "":
		return refuse(CodeNoTarget, fmt.Sprintf("%s names no branch to land on", t.Order.Label), into)
	case !worktree.IsBranchName(f.Target):
		return notABranch(t, f.Target)
	case f.NoBranch:
		return refuse(CodeNoTarget, "there is no branch "+f.Target+" in this repository", into+", or make it with `git branch`")
	case strings.HasPrefix(f.Target, "ferry/"):
		return refuse(CodeNoTarget, f.Target+" is a branch of ferry's own, which only runs may move", into)
	case len(f.Dirty) > 0:
		return refuse(CodeDirty, fmt.Sprintf("the checkout of %s has uncommitted changes: %s", f.Target, strings.Join(f.Dirty, ", ")), "commit or stash them, then "+cmd(t, "land", ""))
	}
	return nil
}

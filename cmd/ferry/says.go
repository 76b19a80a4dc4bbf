package main

import (
	"fmt"
	"strings"

	"github.com/ferry-fleet/ferry"
)

// says puts what a record says into one line.
func says(b ferry.Body) string {
	switch b := b.(type) {
	case *ferry.Root:
		if !b.Prev.IsZero() {
			return fmt.Sprintf("root of generation %d, version %d: the master is %s on %s", b.Generation, b.Version, b.Master.Name, b.Master.Machine)
		}
		return fmt.Sprintf("founds the channel of %s; the master is %s", b.Project, b.Master.Name)
	case *ferry.Admit:
		return fmt.Sprintf("admits %s on %s", b.Member.Name, b.Member.Machine) + grantsLine(b.Member.Grants)
	case *ferry.Revoke, *ferry.Readmit, *ferry.Delegate, *ferry.Invite, *ferry.Retire, *ferry.Reassign:
		return saysOfMembers(b)
	case *ferry.Order:
		return clip(firstLine(b.Text), 120)
	case *ferry.Claim:
		return fmt.Sprintf("takes attempt %d", b.Attempt)
	case *ferry.Start:
		return fmt.Sprintf("begins attempt %d with %s, sandbox %s", b.Attempt, b.Engine, b.Sandbox)
	case *ferry.Run:
		return "run " + string(b.Run) + " " + string(b.Outcome) + colon(b.Reason)
	case *ferry.Stop:
		return "stops: " + string(b.Reason) + colon(b.Note)
	case *ferry.Result:
		return fmt.Sprintf("hands in revision %d: %d files, %s", b.Revision, b.FilesTotal, checksLine(b.Checks))
	case *ferry.Verdict:
		return map[ferry.Decision]string{
			ferry.DecisionKeep: "accepts", ferry.DecisionChanges: "sends back", ferry.DecisionReject: "denies",
		}[b.Decision] + colon(firstLine(b.Notes))
	case *ferry.Approve:
		return "approves " + b.Commit.Short()
	case *ferry.Landed:
		return fmt.Sprintf("landed %s on %s", b.Commit.Short(), b.Target)
	case *ferry.Cancel:
		return "cancels" + colon(b.Reason)
	case *ferry.Interrupt:
		return string(b.Action) + colon(firstLine(b.Note))
	case *ferry.Question:
		return "asks: " + firstLine(b.Text)
	case *ferry.Answer:
		return "answers " + b.Option + colon(firstLine(b.Note))
	case *ferry.Redact:
		return fmt.Sprintf("takes texts out of %d records", len(b.Records)) + colon(firstLine(b.Reason))
	case *ferry.Note:
		return b.Kind + colon(firstLine(b.Text))
	}
	return ""
}

// saysOfMembers puts into one line what a record says about who takes part.
func saysOfMembers(b ferry.Body) string {
	switch b := b.(type) {
	case *ferry.Revoke:
		return fmt.Sprintf("shuts out %s after its record %d", b.Writer[:8], b.Keep.Seq) + colon(firstLine(b.Reason))
	case *ferry.Readmit:
		return fmt.Sprintf("gives %s its key of epoch %d", b.Writer[:8], b.Epoch)
	case *ferry.Delegate:
		if len(b.Scopes) == 0 {
			return fmt.Sprintf("ends the delegation of %s", b.To[:8])
		}
		return fmt.Sprintf("lets %s act for the master until %s: %s", b.To[:8], b.NotAfter, strings.Join(wordsOf(b.Scopes), ", "))
	case *ferry.Invite:
		return "invites a member" + grantsLine(b.Grants) + ", until " + b.NotAfter
	case *ferry.Retire:
		return "gives back what a worker held" + colon(firstLine(b.Reason))
	case *ferry.Reassign:
		if b.To == "" {
			return "gives it to any agent" + colon(firstLine(b.Reason))
		}
		return fmt.Sprintf("gives it to %s", b.To) + colon(firstLine(b.Reason))
	}
	return ""
}

func colon(s string) string {
	if s == "" {
		return ""
	}
	return ": " + clip(s, 120)
}

func grantsLine(grants []ferry.Grant) string {
	if len(grants) == 0 {
		return ""
	}
	var words []string
	for _, g := range grants {
		words = append(words, string(g))
	}
	return " to " + strings.Join(words, ", ")
}

// checksLine sums up checks: "2 of 3 checks pass".
func checksLine(checks []ferry.Check) string {
	if len(checks) == 0 {
		return "no checks"
	}
	pass := 0
	for _, c := range checks {
		if c.Exit == 0 {
			pass++
		}
	}
	if pass == len(checks) {
		return "all checks pass"
	}
	return fmt.Sprintf("%d of %d checks pass", pass, len(checks))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

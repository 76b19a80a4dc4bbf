package land_test

import (
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/land"
)

func TestDecideReview(t *testing.T) {
	keep, changes, reject := ferry.DecisionKeep, ferry.DecisionChanges, ferry.DecisionReject
	tests := []struct {
		name     string
		decision ferry.Decision
		edit     func(*ferry.Task, *land.Ask)
		allowed  bool
		code     land.Code
	}{
		{"accept", keep, func(*ferry.Task, *land.Ask) {}, true, land.CodeAccepted},
		{"send back", changes, func(*ferry.Task, *land.Ask) {}, true, land.CodeAccepted},
		{"send back what was accepted", changes, func(t *ferry.Task, _ *land.Ask) { t.Results[0].Decision = keep }, true, land.CodeAccepted},
		{"deny", reject, func(*ferry.Task, *land.Ask) {}, true, land.CodeAccepted},
		{"deny without a result", reject, func(t *ferry.Task, _ *land.Ask) { t.Results, t.Standing = nil, ferry.RecordID{} }, true, land.CodeAccepted},
		{"accept an answer", keep, func(t *ferry.Task, _ *land.Ask) {
			t.Results[0].Result.FilesTotal, t.Results[0].Evidence.Status = 0, ferry.EvidenceNone
		}, true, land.CodeAccepted},
		{"the result that was read", keep, func(t *ferry.Task, a *land.Ask) { a.Result = t.Standing }, true, land.CodeAccepted},
		{"another result was read", keep, func(_ *ferry.Task, a *land.Ask) { a.Result = ferry.RecordID{5} }, false, land.CodeWrongResult},
		{"deny by a reviewer", reject, func(_ *ferry.Task, a *land.Ask) { a.Master = false }, false, land.CodeNotMaster},
		{"deny without a reason", reject, func(_ *ferry.Task, a *land.Ask) { a.Notes = " " }, false, land.CodeNotes},
		{"deny twice", reject, func(t *ferry.Task, _ *land.Ask) { t.State, t.Hold = ferry.StateFailed, "denied: no" }, false, land.CodeFailed},
		{"send back without notes", changes, func(_ *ferry.Task, a *land.Ask) { a.Notes = "" }, false, land.CodeNotes},
		{"too long notes", changes, func(_ *ferry.Task, a *land.Ask) { a.Notes = strings.Repeat("x", land.MaxNotes+1) }, false, land.CodeNotes},
		{"own work", keep, func(_ *ferry.Task, a *land.Ask) { a.Actor = agent }, false, land.CodeOwnWork},
		{"refuted", keep, func(t *ferry.Task, _ *land.Ask) { t.Standing, t.Results[0].Evidence = ferry.RecordID{}, refuted("x") }, false, land.CodeRefuted},
		{"nothing to review", keep, func(t *ferry.Task, _ *land.Ask) { t.Results, t.Standing = nil, ferry.RecordID{} }, false, land.CodeNoResult},
		{"sent back already", changes, func(t *ferry.Task, _ *land.Ask) { t.Standing, t.Results[0].Decision = ferry.RecordID{}, changes }, false, land.CodeSentBack},
		{"landed", changes, func(t *ferry.Task, _ *land.Ask) { t.Landed = &ferry.Landed{} }, false, land.CodeAlreadyLanded},
		{"cancelled", keep, func(t *ferry.Task, _ *land.Ask) { t.State = ferry.StateCancelled }, false, land.CodeCancelled},
		{"killed", keep, func(t *ferry.Task, _ *land.Ask) { t.State = ferry.StateKilled }, false, land.CodeKilled},
		{"denied", keep, func(t *ferry.Task, _ *land.Ask) { t.State = ferry.StateFailed }, false, land.CodeFailed},
		{"accepted by the same writer", keep, func(t *ferry.Task, _ *land.Ask) {
			t.Results[0].Decision, t.Results[0].Verdicts = keep, []ferry.Review{{Writer: operator, Decision: keep}}
		}, false, land.CodeAccepted},
		{"accepted by another", keep, func(t *ferry.Task, _ *land.Ask) {
			t.Results[0].Decision, t.Results[0].Verdicts = keep, []ferry.Review{{Writer: "reviewer", Decision: keep}}
		}, true, land.CodeAccepted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			task, _ := ready()
			ask := land.Ask{Actor: operator, Master: true, Decision: tt.decision, Notes: "cover the error path"}
			tt.edit(task, &ask)
			d := land.DecideReview(task, ask)
			if d.Allowed != tt.allowed || d.Code != tt.code || !d.Allowed && (d.Reason == "" || d.Next == "") {
				t.Errorf("DecideReview() = %+v, want allowed %v, code %s and words", d, tt.allowed, tt.code)
			}
		})
	}
}

func TestDecideApprove(t *testing.T) {
	tests := []struct {
		name string
		edit func(*ferry.Task, *land.Ask)
		code land.Code // of the refusal; "" allows
	}{
		{"done", func(*ferry.Task, *land.Ask) {}, ""},
		{"accepted", func(t *ferry.Task, _ *land.Ask) {
			t.Order.NeedsReview, t.Results[0].Decision = true, ferry.DecisionKeep
		}, ""},
		{"not the master", func(_ *ferry.Task, a *land.Ask) { a.Master = false }, land.CodeNotMaster},
		{"not reviewed", func(t *ferry.Task, _ *land.Ask) { t.Order.NeedsReview = true }, land.CodeNeedsReview},
		{"own work", func(_ *ferry.Task, a *land.Ask) { a.Actor = agent }, land.CodeOwnWork},
		{"approved already", func(t *ferry.Task, _ *land.Ask) { t.Approve = ferry.RecordID{3} }, land.CodeAccepted},
		{"refuted", func(t *ferry.Task, _ *land.Ask) { t.Results[0].Evidence = refuted("x") }, land.CodeRefuted},
		{"landed", func(t *ferry.Task, _ *land.Ask) { t.Landed = &ferry.Landed{} }, land.CodeAlreadyLanded},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			task, _ := ready()
			ask := land.Ask{Actor: operator, Master: true}
			tt.edit(task, &ask)
			d := land.DecideApprove(task, ask)
			if d.Allowed != (tt.code == "") || !d.Allowed && d.Code != tt.code {
				t.Errorf("DecideApprove() = %+v, want code %q", d, tt.code)
			}
		})
	}
}

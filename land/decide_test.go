package land_test

import (
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/land"
)

const (
	operator = ferry.WriterID("operator")
	agent    = ferry.WriterID("agent")
)

// ready gives a task that may land, and the facts by which it may.
func ready() (*ferry.Task, land.Facts) {
	id := ferry.RecordID{1}
	t := &ferry.Task{
		ID: ferry.RecordID{9}, Order: &ferry.Order{Label: "t-1", Target: "main"}, State: ferry.StateDone, Standing: id,
		Results: []ferry.Outturn{{
			ID: id, Writer: agent, Evidence: ferry.Evidence{Status: ferry.EvidenceVerified},
			Result: &ferry.Result{FilesTotal: 1, Sandbox: ferry.Sandbox{Level: "bwrap"}},
		}},
	}
	return t, land.Facts{Actor: operator, May: true, Explicit: true, Target: "main"}
}

func refuted(reason string) ferry.Evidence {
	return ferry.Evidence{Status: ferry.EvidenceRefuted, Reasons: []string{reason}}
}

func TestDecide(t *testing.T) {
	alone := func(t *ferry.Task, f *land.Facts) {
		f.Explicit = false
		t.Order.Land = true
		t.Results[0].Decision = ferry.DecisionKeep
	}
	tests := []struct {
		name string
		edit func(*ferry.Task, *land.Facts)
		code land.Code
		next string
	}{
		{"done", func(*ferry.Task, *land.Facts) {}, land.CodeLand, ""},
		{"accepted", func(t *ferry.Task, _ *land.Facts) {
			t.Order.NeedsReview, t.Results[0].Decision = true, ferry.DecisionKeep
		}, land.CodeLand, ""},
		{"approved", func(t *ferry.Task, _ *land.Facts) { t.Order.NeedsApproval, t.Approve = true, ferry.RecordID{3} }, land.CodeLand, ""},
		{"landed already", func(t *ferry.Task, _ *land.Facts) {
			t.Landed, t.State = &ferry.Landed{Target: "main"}, ferry.StateLanded
		}, land.CodeAlreadyLanded, "receipt t-1"},
		{"a newer ferry's records", func(t *ferry.Task, _ *land.Facts) { t.Opaque = []string{"result with claim.2"} }, land.CodeNewer, "install it"},
		{"an old ferry's result", func(t *ferry.Task, f *land.Facts) {
			f.Requires, t.Results[0].Result.Features = []string{"claim.1", "land.2"}, []string{"claim.1"}
		}, land.CodeRequires, "--send-back"},
		{"a result with what is required", func(t *ferry.Task, f *land.Facts) {
			f.Requires, t.Results[0].Result.Features = []string{"claim.1"}, []string{"claim.1", "land.1"}
		}, land.CodeLand, ""},
		{"something of the authority is missing", func(_ *ferry.Task, f *land.Facts) { f.Waits = "wisp has seen record 4" }, land.CodeBehind, "land t-1"},
		{"cancelled", func(t *ferry.Task, _ *land.Facts) { t.State = ferry.StateCancelled }, land.CodeCancelled, "new order"},
		{"killed", func(t *ferry.Task, _ *land.Facts) { t.State = ferry.StateKilled }, land.CodeKilled, "new order"},
		{"denied", func(t *ferry.Task, _ *land.Facts) { t.State = ferry.StateFailed }, land.CodeFailed, "retry t-1"},
		{"used up", func(t *ferry.Task, _ *land.Facts) {
			t.State, t.Hold = ferry.StateFailed, "1 of 1 attempts are used up; `ferry channel retry t-1` opens it again"
		}, land.CodeFailed, "retry t-1"},
		{"running", func(t *ferry.Task, _ *land.Facts) {
			t.Results, t.Standing, t.Live = nil, ferry.RecordID{}, ferry.RecordID{7}
		}, land.CodeNoResult, "log -f t-1"},
		{"open", func(t *ferry.Task, _ *land.Facts) { t.Results, t.Standing = nil, ferry.RecordID{} }, land.CodeNoResult, "--why t-1"},
		{"latest refuted", func(t *ferry.Task, _ *land.Facts) {
			t.Standing, t.Results[0].Evidence = ferry.RecordID{}, refuted("a check failed")
		}, land.CodeRefuted, "cannot be accepted or landed"},
		{"refuted here", func(_ *ferry.Task, f *land.Facts) { f.Evidence = refuted("paths that may not land") }, land.CodeRefuted, ""},
		{"sent back", func(t *ferry.Task, _ *land.Facts) {
			t.Standing, t.Results[0].Decision = ferry.RecordID{}, ferry.DecisionChanges
		}, land.CodeSentBack, "--why"},
		{"an answer", func(t *ferry.Task, _ *land.Facts) { t.Results[0].Result.FilesTotal = 0 }, land.CodeNoChange, "show t-1"},
		{"own work", func(_ *ferry.Task, f *land.Facts) { f.Actor = agent }, land.CodeOwnWork, "land t-1"},
		{"no grant", func(_ *ferry.Task, f *land.Facts) { f.May = false }, land.CodeNoGrant, "land t-1"},
		{"review missing", func(t *ferry.Task, _ *land.Facts) { t.Order.NeedsReview = true }, land.CodeNeedsReview, "`ferry channel review t-1 --accept`"},
		{"approval does not replace the review", func(t *ferry.Task, _ *land.Facts) {
			t.Order.NeedsReview, t.Approve = true, ferry.RecordID{3}
		}, land.CodeNeedsReview, "--send-back"},
		{"approval missing", func(t *ferry.Task, _ *land.Facts) {
			t.Order.NeedsApproval, t.Results[0].Decision = true, ferry.DecisionKeep
		}, land.CodeNeedsApproval, "`ferry channel approve t-1`"},
		{"no target", func(_ *ferry.Task, f *land.Facts) { f.Target = "" }, land.CodeNoTarget, "--into BRANCH"},
		{"unknown target", func(_ *ferry.Task, f *land.Facts) { f.NoBranch = true }, land.CodeNoTarget, "--into BRANCH"},
		{"ferry's own branch", func(_ *ferry.Task, f *land.Facts) { f.Target = "ferry/t-1-00112233" }, land.CodeNoTarget, ""},
		{"dirty checkout", func(_ *ferry.Task, f *land.Facts) { f.Dirty = []string{"a.go"} }, land.CodeDirty, "commit or stash"},
		{"unsandboxed by a person", func(t *ferry.Task, _ *land.Facts) { t.Results[0].Result.Sandbox.Level = "none" }, land.CodeLand, ""},
		{"unverified by a person", func(t *ferry.Task, _ *land.Facts) {
			t.Results[0].Evidence.Status = ferry.EvidenceUnverified
		}, land.CodeLand, ""},
		{"by itself", alone, land.CodeLand, ""},
		{"by itself, not asked", func(t *ferry.Task, f *land.Facts) { alone(t, f); t.Order.Land = false }, land.CodeNotAsked, "land t-1"},
		{"by itself, not accepted", func(t *ferry.Task, f *land.Facts) { alone(t, f); t.Results[0].Decision = "" }, land.CodeNeedsReview, "--accept"},
		{"by itself, unsandboxed", func(t *ferry.Task, f *land.Facts) { alone(t, f); t.Results[0].Result.Sandbox.Level = "none" }, land.CodeUnsandboxed, "land t-1"},
		{"by itself, unverified", func(t *ferry.Task, f *land.Facts) {
			alone(t, f)
			t.Results[0].Evidence.Status = ferry.EvidenceUnverified
		}, land.CodeUnverified, "land t-1"},
		{"by itself, unverified here", func(t *ferry.Task, f *land.Facts) {
			alone(t, f)
			f.Evidence.Status = ferry.EvidenceUnverified
		}, land.CodeUnverified, "land t-1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			task, facts := ready()
			tt.edit(task, &facts)
			d := land.Decide(task, facts)
			if d.Code != tt.code || d.Allowed != (tt.code == land.CodeLand) || !strings.Contains(d.Next, tt.next) {
				t.Errorf("Decide() = %+v, want code %s and next %q", d, tt.code, tt.next)
			}
			if d.Reason == "" || d.Next != "" && strings.Contains(d.Reason, d.Next) {
				t.Errorf("the reason is %q, the next step is %q", d.Reason, d.Next)
			}
		})
	}
}

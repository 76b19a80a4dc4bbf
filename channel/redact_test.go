package channel_test

import (
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry"
)

// Everybody reads what the master has put in the place of a text, and nothing else about the record changes.
func TestRedact(t *testing.T) {
	s := newSite(t)
	o := order("first")
	o.Text = "use the password hunter2"
	id := s.issue(t, o)
	result := s.finish(t, id, 0)
	verdict, err := s.master.Verdict(t.Context(), start, ferry.Verdict{Order: id, Result: result, Decision: ferry.DecisionChanges, Notes: "hunter2 is in it"})
	must1(t, err)
	before := s.task(t, id)
	clean := o
	clean.Text = "use the password [taken out]"
	redaction, err := s.master.Redact(t.Context(), start, "a secret", map[ferry.RecordID]ferry.Body{
		id:      &clean,
		verdict: &ferry.Verdict{Order: id, Result: result, Decision: ferry.DecisionChanges, Notes: "it is in it"},
	})
	must1(t, err)
	for _, lost := range []bool{false, true} {
		if lost {
			s.reopen(t)
		}
		after := s.task(t, id)
		if after.Order.Text != clean.Text || after.State != before.State || after.Results[0].Verdicts[0].Notes != "it is in it" {
			t.Errorf("the order reads %q, %s, %+v", after.Order.Text, after.State, after.Results[0].Verdicts)
		}
		ledger, err := s.Records(t.Context(), id)
		must1(t, err)
		for _, e := range ledger {
			if o, is := e.Body.(*ferry.Order); is && strings.Contains(o.Text, "hunter2") {
				t.Error("the ledger shows what was taken out")
			}
		}
		wantIntact(t, s)
	}
	for name, b := range map[string]map[ferry.RecordID]ferry.Body{
		"another decision": {verdict: &ferry.Verdict{Order: id, Result: result, Decision: ferry.DecisionKeep}},
		"another order":    {verdict: &ferry.Verdict{Order: result, Result: result, Decision: ferry.DecisionChanges}},
		"another label":    {id: func() *ferry.Order { o := clean; o.Label = "second"; return &o }()},
		"a statement":      {s.ID(): &ferry.Note{Kind: "x", Text: "y"}},
		"a redaction":      {redaction: &ferry.Redact{Reason: "x"}},
		"what is not here": {ferry.RecordID{1}: &ferry.Note{Kind: "x", Text: "y"}},
	} {
		if _, err := s.master.Redact(t.Context(), start, "x", b); err == nil {
			t.Errorf("%s: redacted", name)
		}
	}
	if _, err := s.agent.Redact(t.Context(), start, "x", map[ferry.RecordID]ferry.Body{id: &o}); err == nil || !strings.Contains(err.Error(), "master") {
		t.Errorf("a redaction by a worker: %v", err)
	}
}

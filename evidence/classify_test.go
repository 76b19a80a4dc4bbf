package evidence_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/evidence"
)

const (
	commitA = ferry.Commit("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	commitB = ferry.Commit("bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb")
	commitC = ferry.Commit("cccccccccccccccccccccccccccccccccccccccc")
)

// good gives an order and a result that is verified.
func good() (*ferry.Order, *ferry.Result) {
	o := &ferry.Order{Label: "t-1", Text: "fix it", Base: commitA, Checks: []string{"go test ./..."}}
	r := &ferry.Result{
		Revision: 1, Base: commitA, From: commitA, Commit: commitB, Tree: commitC,
		Files: []ferry.File{{Path: "pkg/a.go", Status: "M"}}, FilesTotal: 1,
		Checks:  []ferry.Check{{Command: "go test ./..."}},
		Sandbox: ferry.Sandbox{Level: "bwrap", Net: "open"},
	}
	return o, r
}

func nothing(r *ferry.Result) {
	r.Commit, r.Files, r.FilesTotal = r.From, nil, 0
}

func TestClassify(t *testing.T) {
	tests := []struct {
		name   string
		edit   func(*ferry.Order, *ferry.Result)
		want   ferry.EvidenceStatus
		reason string
	}{
		{"all holds", func(*ferry.Order, *ferry.Result) {}, ferry.EvidenceVerified, "1 check passed on 1 changed file"},
		{"inside touches", func(o *ferry.Order, _ *ferry.Result) { o.Touches = []string{"pkg"} }, ferry.EvidenceVerified, "inside"},
		{"a check failed", func(_ *ferry.Order, r *ferry.Result) { r.Checks[0].Exit = 1 }, ferry.EvidenceRefuted, "`go test ./...` failed with exit 1"},
		{"a check was ended", func(_ *ferry.Order, r *ferry.Result) {
			r.Checks[0].Exit, r.Checks[0].Reason = -1, "still ran after 5m0s"
		}, ferry.EvidenceRefuted, "still ran after 5m0s"},
		{"a check is missing", func(_ *ferry.Order, r *ferry.Result) { r.Checks = nil }, ferry.EvidenceRefuted, "names 1 check and 0 checks ran"},
		{"another check", func(_ *ferry.Order, r *ferry.Result) { r.Checks[0].Command = "true" }, ferry.EvidenceRefuted, "`true` ran in its place"},
		{"a check too many", func(o *ferry.Order, _ *ferry.Result) { o.Checks = nil }, ferry.EvidenceRefuted, "names 0 checks and 1 check ran"},
		{"says done, did nothing", func(_ *ferry.Order, r *ferry.Result) { nothing(r); r.Answer = "All done!" }, ferry.EvidenceRefuted, "changed nothing and the order asks for a change"},
		{"refused its own edits", func(_ *ferry.Order, r *ferry.Result) { nothing(r); r.Facts.Denied = []string{"Write a.go"} }, ferry.EvidenceRefuted, "refused edits: Write a.go"},
		{"no change, touches ask", func(o *ferry.Order, r *ferry.Result) {
			nothing(r)
			o.Checks, r.Checks = nil, nil
			o.Touches = []string{"docs"}
		}, ferry.EvidenceRefuted, "changed nothing"},
		{"no change, kind asks", func(o *ferry.Order, r *ferry.Result) { nothing(r); o.Checks, r.Checks = nil, nil; o.Kind = "docs" }, ferry.EvidenceRefuted, "changed nothing"},
		{"undone by itself", func(_ *ferry.Order, r *ferry.Result) { r.Files, r.FilesTotal = nil, 0 }, ferry.EvidenceRefuted, "undoes itself"},
		{"finds the work of an interrupted run", func(_ *ferry.Order, r *ferry.Result) { r.From = r.Commit }, ferry.EvidenceVerified, ""},
		{"sent back and did nothing", func(_ *ferry.Order, r *ferry.Result) { r.From, r.Revision = r.Commit, 2 }, ferry.EvidenceRefuted, "nothing changed since the earlier result"},
		{"a question answered", func(o *ferry.Order, r *ferry.Result) { nothing(r); o.Checks, r.Checks = nil, nil; r.Answer = "42" }, ferry.EvidenceNone, "the answer is the result"},
		{"an answer without a sandbox", func(o *ferry.Order, r *ferry.Result) {
			nothing(r)
			o.Checks, r.Checks, r.Answer, r.Sandbox.Level = nil, nil, "42", "none"
		}, ferry.EvidenceNone, ""},
		{"an answer, and work that was left out", func(o *ferry.Order, r *ferry.Result) {
			nothing(r)
			o.Checks, r.Checks, r.Answer = nil, nil, "done"
			r.Facts.Skipped = []string{"d/d: path too long"}
		}, ferry.EvidenceUnverified, "left out of the commit: d/d: path too long"},
		{"an answer and a socket", func(o *ferry.Order, r *ferry.Result) {
			nothing(r)
			o.Checks, r.Checks, r.Answer = nil, nil, "done"
			r.Facts.Skipped = []string{"s: socket"}
		}, ferry.EvidenceNone, ""},
		{"nothing but what was left out", func(_ *ferry.Order, r *ferry.Result) {
			nothing(r)
			r.Facts.Skipped = []string{".GIT: nested git repository", ".ferry: ferry's own directory"}
		}, ferry.EvidenceRefuted, "left out of the commit: .GIT: nested git repository, .ferry: ferry's own directory"},
		{"neither change nor answer", func(o *ferry.Order, r *ferry.Result) { nothing(r); o.Checks, r.Checks = nil, nil }, ferry.EvidenceRefuted, "answered nothing"},
		{"outside touches by the facts", func(o *ferry.Order, r *ferry.Result) {
			o.Touches = []string{"pkg"}
			r.Facts.Outside = []string{"far/b.go"}
		}, ferry.EvidenceRefuted, "far/b.go"},
		{"outside touches by the files", func(o *ferry.Order, _ *ferry.Result) { o.Touches = []string{"docs/**"} }, ferry.EvidenceRefuted, "pkg/a.go"},
		{"a bad path by the facts", func(_ *ferry.Order, r *ferry.Result) { r.Facts.BadPaths = []string{"x/.git: belongs to git"} }, ferry.EvidenceRefuted, "may not land: x/.git"},
		{"a bad path by the files", func(_ *ferry.Order, r *ferry.Result) { r.Files[0].Path = "x/.git/config" }, ferry.EvidenceRefuted, "may not land: x/.git/config"},
		{"a secret", func(_ *ferry.Order, r *ferry.Result) { r.Facts.Secrets = []string{"a.env: aws-key"} }, ferry.EvidenceRefuted, "a.env: aws-key; take it out"},
		{"no check", func(o *ferry.Order, r *ferry.Result) { o.Checks, r.Checks = nil, nil }, ferry.EvidenceUnverified, "names no check"},
		{"no sandbox", func(_ *ferry.Order, r *ferry.Result) { r.Sandbox.Level = "none" }, ferry.EvidenceUnverified, "without a sandbox"},
		{"sandbox not told", func(_ *ferry.Order, r *ferry.Result) { r.Sandbox.Level = "" }, ferry.EvidenceUnverified, "without a sandbox"},
		{"an edited test by the facts", func(_ *ferry.Order, r *ferry.Result) { r.Facts.CheckEdit = []string{"b_test.go"} }, ferry.EvidenceUnverified, "files that the checks run, read them first: b_test.go"},
		{"an edited test by the files", func(_ *ferry.Order, r *ferry.Result) { r.Files[0].Path = "pkg/a_test.go" }, ferry.EvidenceUnverified, "pkg/a_test.go"},
		{"a new test", func(_ *ferry.Order, r *ferry.Result) { r.Files[0] = ferry.File{Path: "pkg/a_test.go", Status: "A"} }, ferry.EvidenceVerified, ""},
		{"a nested repository", func(_ *ferry.Order, r *ferry.Result) { r.Facts.Skipped = []string{"dep: a repository of its own"} }, ferry.EvidenceUnverified, "left out of the commit: dep"},
		{"a socket left behind", func(_ *ferry.Order, r *ferry.Result) {
			r.Facts.Skipped = []string{"run/s: socket", "p: FIFO", ".ferry: ferry's own directory"}
		}, ferry.EvidenceVerified, ""},
		{"a cut list", func(_ *ferry.Order, r *ferry.Result) { r.FilesTotal = 900 }, ferry.EvidenceUnverified, "900 files, 1 in the record"},
		{"cut by the facts", func(_ *ferry.Order, r *ferry.Result) { r.Facts.Cut = true }, ferry.EvidenceUnverified, "too large"},
		{"another base", func(_ *ferry.Order, r *ferry.Result) { r.Base = commitC }, ferry.EvidenceUnverified, "measured against cccccccccccc"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, r := good()
			tt.edit(o, r)
			got := evidence.Classify(o, r)
			if got.Status != tt.want || !strings.Contains(strings.Join(got.Reasons, "\n"), tt.reason) {
				t.Errorf("Classify() = %s %q, want %s with %q", got.Status, got.Reasons, tt.want, tt.reason)
			}
			if len(got.Reasons) == 0 {
				t.Error("no reason is given")
			}
		})
	}
}

func TestClassifyNamesEveryReason(t *testing.T) {
	o, r := good()
	r.Checks[0].Exit = 2
	r.Facts.Secrets = []string{"a: k"}
	o.Touches = []string{"docs"}
	for i := range 9 {
		r.Facts.Outside = append(r.Facts.Outside, fmt.Sprintf("f%d", i))
	}
	got := evidence.Classify(o, r)
	if len(got.Reasons) != 3 || !strings.Contains(got.Reasons[1], "10 changed files are outside") || !strings.Contains(got.Reasons[1], "and 5 more") {
		t.Errorf("Reasons = %q", got.Reasons)
	}
	if e := evidence.Classify(nil, r); e.Status != ferry.EvidenceUnverified {
		t.Errorf("Classify(nil) = %v", e)
	}
}

//go:build engines

package enginetests_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry/internal/modelserver"
)

const (
	notes    = "Add a test that counts to five."
	fiveFile = "count_five_test.go"
	fiveTest = `package pflag

import "testing"

func TestCountToFive(t *testing.T) {
	var n int
	if err := setUpCount(&n).Parse([]string{"-vvvvv"}); err != nil || n != 5 {
		t.Errorf("n = %d, err %v", n, err)
	}
}
`
)

var (
	mend    = modelserver.Step{Do: modelserver.DoShell, Cmd: "sed -i 's/[*]i + 2/*i + 1/' " + broken}
	sayDone = modelserver.Step{Do: modelserver.DoText, Text: "All done."}
	addFive = modelserver.Step{Do: modelserver.DoWrite, Path: fiveFile, Content: fiveTest}
)

// eachCLI runs a test for every CLI that ferry knows, some at the same time.
func eachCLI(t *testing.T, test func(t *testing.T, cli string)) {
	t.Parallel()
	for _, cli := range []string{"claude", "codex", "pi"} {
		t.Run(cli, func(t *testing.T) {
			t.Parallel()
			test(t, cli)
		})
	}
}

func script(steps ...modelserver.Step) modelserver.Script { return modelserver.Script{Steps: steps} }

// TestLoop takes one order the whole way: edit, check, send back, second
// attempt, accept, land.
func TestLoop(t *testing.T) {
	eachCLI(t, func(t *testing.T, cli string) {
		s := script(mend, sayDone)
		s.Scenes = []modelserver.Scene{{When: notes, Steps: []modelserver.Step{addFive, sayDone}}}
		p := newPerson(t, cli, s)
		p.enable()
		p.prepare()
		p.doctor()
		p.order()
		p.work()
		first := p.verified(1, broken)
		p.ferry(0, "channel", "review", "t-fix", "--send-back", "--notes", notes)
		p.work()
		// The second attempt begins from the branch: the first one's work is in it.
		second := p.verified(2, broken, fiveFile)
		if p.git("merge-base", "--is-ancestor", first, second); first == second {
			t.Error("the second attempt left no commit")
		}
		p.ferry(0, "channel", "review", "t-fix", "--accept")
		p.ferry(0, "channel", "land", "t-fix")
		p.landed(second)
	})
}

// doctor must find nothing that fails.
func (p *person) doctor() {
	p.Helper()
	var got struct {
		OK     bool
		Checks []struct{ Name, Status, Detail string }
	}
	p.json(&got, "doctor", "--json")
	for _, c := range got.Checks {
		if c.Status == "fail" || c.Status == "warn" && (c.Name == "login" || c.Name == "sandbox") {
			p.Errorf("doctor: %+v", c)
		}
	}
	if !got.OK {
		p.Error("doctor is not content")
	}
}

// verified wants a revision that stands, changes these files and was checked,
// and gives its commit.
func (p *person) verified(revision int, files ...string) string {
	p.Helper()
	s := p.show()
	if s.Task.State != "awaiting_review" || len(s.Results) != revision {
		p.Fatalf("%s with %d results, want awaiting_review with %d: %+v", s.Task.State, len(s.Results), revision, s)
	}
	r := s.Results[revision-1]
	if r.Evidence.Status != "verified" || !r.Standing || r.Answer != sayDone.Text {
		p.Errorf("revision %d: %+v", revision, r)
	}
	var changed []string
	for _, f := range r.Files {
		changed = append(changed, f.Path)
	}
	if d := cmp.Diff(files, changed); d != "" {
		p.Errorf("revision %d: files (-want +got):\n%s", revision, d)
	}
	if len(r.Checks) != 1 || r.Checks[0].Command != check || r.Checks[0].Exit != 0 || !strings.HasPrefix(r.Checks[0].Tail, "ok") {
		p.Errorf("revision %d: checks %+v", revision, r.Checks)
	}
	if r.Usage.TokensIn != 200 || r.Usage.TokensOut != 20 {
		p.Errorf("revision %d: usage %+v, want 200 tokens in and 20 out", revision, r.Usage)
	}
	if !strings.HasPrefix(r.Branch, "ferry/t-fix-") || p.git("rev-parse", r.Branch) != r.Commit {
		p.Errorf("revision %d: branch %q is not at %s", revision, r.Branch, r.Commit)
	}
	if got := p.git("status", "--porcelain"); got != "" {
		p.Errorf("the checkout was touched:\n%s", got)
	}
	return r.Commit
}

// landed wants the work in the person's checkout and its way in the channel.
func (p *person) landed(work string) {
	p.Helper()
	s := p.show()
	head := p.git("rev-parse", branch)
	if s.Task.State != "landed" || s.Task.Landed != head || p.git("rev-parse", head+"^{tree}") != p.git("rev-parse", work+"^{tree}") {
		p.Errorf("%s at %s, the branch is at %s", s.Task.State, s.Task.Landed, head)
	}
	if got := p.git("rev-list", "--count", branch); got != "3" {
		p.Errorf("%s commits, want 3: an order lands as one", got)
	}
	if got := p.git("status", "--porcelain"); got != "" {
		p.Errorf("the checkout did not follow:\n%s", got)
	}
	if _, err := command(p.Context(), 0, p.Repo, p.Env, "sh", "-c", check); err != nil {
		p.Error(err)
	}
	var verify struct {
		OK       bool
		Records  int
		Problems []any
	}
	p.json(&verify, "channel", "verify", "--json")
	if !verify.OK || len(verify.Problems) > 0 {
		p.Errorf("verify: %+v", verify)
	}
	var receipt struct {
		OK       bool
		Commit   string
		Records  []struct{ Type string }
		Problems []string
	}
	p.json(&receipt, "channel", "receipt", "t-fix", "--json")
	var types []string
	for _, r := range receipt.Records {
		types = append(types, r.Type)
	}
	want := []string{"order", "claim", "start", "run", "result", "verdict", "claim", "start", "run", "result", "verdict", "landed"}
	if d := cmp.Diff(want, types); d != "" || !receipt.OK || receipt.Commit != head {
		p.Errorf("receipt %+v (-want +got):\n%s", receipt, d)
	}
}

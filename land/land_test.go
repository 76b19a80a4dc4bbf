package land_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/land"
)

var (
	broken = map[string]string{"add.sh": "echo $(($1 - $2))\n", "check.sh": "test \"$(sh add.sh 1 2)\" = 3\n", "README": "hello\n"}
	fixed  = map[string]string{"add.sh": "echo $(($1 + $2))\n"}
	better = map[string]string{"add.sh": "test $# = 2 || exit 1\necho $(($1 + $2))\n"}
)

func reviewed(o *ferry.Order) { o.NeedsReview = true }

func TestAcceptedWorkLandsInACleanCheckout(t *testing.T) {
	t.Parallel()
	f := newFleet(t, broken)
	old := ferry.Commit(f.git("rev-parse", "main"))
	id := f.order("t-1", reviewed)
	if got := f.work(id, fixed); got.State != ferry.StateAwaitingReview {
		t.Fatalf("state = %s %s, evidence %+v", got.State, got.Hold, got.LatestResult())
	}
	if out := f.land("t-1"); out.Decision.Code != land.CodeNeedsReview {
		t.Fatalf("Land() before the review = %+v", out.Decision)
	}
	said := f.review(ferry.DecisionKeep, "")
	if !said.Decision.Allowed || said.State != ferry.StateAccepted {
		t.Fatalf("Review() = %+v", said)
	}
	out := f.land("t-1")
	if out.Decision.Code != land.CodeLand || out.Old != old || len(out.Checks) != 0 {
		t.Fatalf("Land() = %+v", out)
	}
	if got := ferry.Commit(f.git("rev-parse", "main")); got != out.Commit || f.git("rev-parse", "main^") != string(old) {
		t.Errorf("main is at %s, the landing says %s", got, out.Commit)
	}
	if f.read("add.sh") != fixed["add.sh"] || f.git("status", "--porcelain") != "" {
		t.Errorf("the checkout did not follow: %q", f.git("status", "--porcelain"))
	}
	message := f.git("log", "-1", "--format=%B%an", "main")
	for _, want := range []string{"Fix add\n", "Order t-1, done by wisp with script.", "Ferry-Order: " + id.String(), "Ferry-Result: " + said.Result.String(), "Ferry-Verdict: " + said.Record.String(), "wisp"} {
		if !strings.Contains(message, want) {
			t.Errorf("the message %q does not hold %q", message, want)
		}
	}
	task := f.task(id)
	if task.State != ferry.StateLanded || task.Landed.Commit != out.Commit || task.LandedID != out.Record || task.Landed.Verdict != said.Record {
		t.Errorf("task = %s %+v", task.State, task.Landed)
	}
	if left, err := os.ReadDir(f.journal); err != nil || len(left) > 0 {
		t.Errorf("the journal holds %v, %v", left, err)
	}
	again := f.land("t-1")
	if again.Decision.Code != land.CodeAlreadyLanded || again.Commit != out.Commit || !again.Landed() || again.Record != out.Record {
		t.Errorf("Land() again = %+v", again)
	}
	if said := f.review(ferry.DecisionChanges, "too late"); said.Decision.Code != land.CodeAlreadyLanded {
		t.Errorf("Review() of landed work = %+v", said)
	}
}

func TestSentBackWorkBeginsAgainAndLands(t *testing.T) {
	t.Parallel()
	f := newFleet(t, broken)
	id := f.order("t-1", reviewed)
	first := f.work(id, fixed)
	said := f.review(ferry.DecisionChanges, "cover the error path")
	if !said.Decision.Allowed || said.State != ferry.StateChangesRequested {
		t.Fatalf("Review() = %+v", said)
	}
	if out := f.land("t-1"); out.Decision.Code != land.CodeSentBack {
		t.Errorf("Land() = %+v", out.Decision)
	}
	task := f.task(id)
	if task.Next.From != first.LatestResult().Result.Commit || !slices.Contains(task.Next.Notes, "cover the error path") || task.Next.Prefer != f.agent.ID() {
		t.Errorf("next = %+v", task.Next)
	}
	if second := f.work(id, better); second.Revision != 2 || second.State != ferry.StateAwaitingReview {
		t.Fatalf("second attempt: %s, %+v", second.State, second.LatestResult().Evidence)
	}
	read := f.asks(f.operator, ferry.DecisionKeep, "")
	read.Result = said.Result
	stale, err := land.Review(t.Context(), read)
	if err != nil || stale.Decision.Code != land.CodeWrongResult {
		t.Errorf("Review() of the earlier result = %+v, %v", stale, err)
	}
	f.review(ferry.DecisionKeep, "")
	if out := f.land("t-1"); out.Decision.Code != land.CodeLand || f.read("add.sh") != better["add.sh"] {
		t.Errorf("Land() = %+v", out)
	}
	if n := f.git("rev-list", "--count", "main"); n != "2" {
		t.Errorf("main has %s commits, want the base and one squashed commit", n)
	}
}

func TestRefutedWorkIsNeitherAcceptedNorLanded(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{"failing check": {"add.sh": "echo 4\n"}, "nothing done": nil} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, broken)
			id := f.order("t-1", nil)
			if got := f.work(id, files); got.State != ferry.StateRefuted {
				t.Fatalf("state = %s", got.State)
			}
			if said := f.review(ferry.DecisionKeep, ""); said.Decision.Code != land.CodeRefuted || !said.Record.IsZero() {
				t.Errorf("Review() = %+v", said)
			}
			if out := f.land("t-1"); out.Decision.Code != land.CodeRefuted {
				t.Errorf("Land() = %+v", out)
			}
			if said := f.approve(); said.Decision.Code != land.CodeRefuted {
				t.Errorf("Approve() = %+v", said)
			}
			if _, landed, err := f.gate.Landed(t.Context(), id); landed || err != nil {
				t.Errorf("Landed() = %v, %v", landed, err)
			}
		})
	}
}

func TestAnEditedCheckIsSeen(t *testing.T) {
	t.Parallel()
	f := newFleet(t, broken)
	id := f.order("t-1", func(o *ferry.Order) { o.Land = true })
	task := f.work(id, map[string]string{"check.sh": "true\n"})
	e := task.LatestResult().Evidence
	if e.Status != ferry.EvidenceUnverified || !strings.Contains(strings.Join(e.Reasons, " "), "check.sh") {
		t.Fatalf("evidence = %+v", e)
	}
	f.review(ferry.DecisionKeep, "")
	s := f.spec("t-1")
	s.Explicit = false
	if out, err := land.Land(t.Context(), s); err != nil || out.Decision.Code != land.CodeUnverified {
		t.Errorf("Land() by itself = %+v, %v", out.Decision, err)
	}
}

func TestAResultThatGitDoesNotConfirmIsRefused(t *testing.T) {
	t.Parallel()
	hide := func(r *ferry.Result) { // extra is outside what the order touches
		r.Files, r.Facts.Outside = slices.DeleteFunc(r.Files, func(f ferry.File) bool { return f.Path == "extra" }), nil
	}
	tests := []struct {
		name string
		edit func(*ferry.Result)
		code land.Code
	}{
		{"another digest", func(r *ferry.Result) { hide(r); r.Content = strings.Repeat("0", 64) }, land.CodeDiffers},
		{"another tree", func(r *ferry.Result) { hide(r); r.Tree = r.Commit }, land.CodeDiffers},
		{"a commit that is not here", func(r *ferry.Result) { hide(r); r.Commit = ferry.Commit(strings.Repeat("1", 40)) }, land.CodeAbsent},
		{"a file that is not counted", func(r *ferry.Result) { hide(r); r.FilesTotal = 1 }, land.CodeDiffers},
		{"a file that is not listed", hide, land.CodeRefuted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, broken)
			f.forge = tt.edit
			id := f.order("t-1", func(o *ferry.Order) { o.Touches = []string{"add.sh"} })
			if task := f.work(id, map[string]string{"add.sh": fixed["add.sh"], "extra": "x\n"}); task.State != ferry.StateDone {
				t.Fatalf("the forged result is seen as %s %+v", task.State, task.LatestResult().Evidence)
			}
			if said := f.review(ferry.DecisionKeep, ""); said.Decision.Code != tt.code || !said.Record.IsZero() {
				t.Errorf("Review() = %+v", said)
			}
			if out := f.land("t-1"); out.Decision.Code != tt.code {
				t.Errorf("Land() = %+v", out)
			}
		})
	}
}

func TestApprovalAndDenial(t *testing.T) {
	t.Parallel()
	f := newFleet(t, broken)
	id := f.order("t-1", func(o *ferry.Order) { o.NeedsReview, o.NeedsApproval = true, true })
	f.work(id, fixed)
	if said := f.approve(); said.Decision.Code != land.CodeNeedsReview {
		t.Errorf("Approve() before the review = %+v", said)
	}
	f.review(ferry.DecisionKeep, "")
	if out := f.land("t-1"); out.Decision.Code != land.CodeNeedsApproval {
		t.Errorf("Land() = %+v", out)
	}
	if said := f.approve(); !said.Decision.Allowed || said.State != ferry.StateApproved {
		t.Fatalf("Approve() = %+v", said)
	}
	if own, err := land.Review(t.Context(), f.asks(f.agent, ferry.DecisionKeep, "")); err != nil || own.Decision.Code != land.CodeOwnWork {
		t.Errorf("Review() by the agent itself = %+v, %v", own, err)
	}
	if denied := f.review(ferry.DecisionReject, "not wanted any more"); !denied.Decision.Allowed || denied.State != ferry.StateFailed {
		t.Errorf("deny = %+v", denied)
	}
	if out := f.land("t-1"); out.Decision.Code != land.CodeFailed || !strings.Contains(out.Decision.Error(), "not wanted any more") {
		t.Errorf("Land() of denied work = %+v", out)
	}
}

func TestMovedTarget(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		moved  map[string]string
		code   land.Code
		checks int
		files  []string
	}{
		{"another file", map[string]string{"README": "hello world\n"}, land.CodeLand, 1, nil},
		{"conflict", map[string]string{"add.sh": "echo $(($1 * $2))\n"}, land.CodeConflict, 0, []string{"add.sh"}},
		{"merges and breaks the check", map[string]string{"check.sh": "test \"$(sh add.sh 1 2)\" = 4\n"}, land.CodeChecks, 1, nil},
		{"the same change", fixed, land.CodeNoChange, 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, broken)
			id := f.order("t-1", nil)
			f.work(id, fixed)
			tip := f.commit(tt.moved)
			s := f.spec("t-1")
			out, err := land.Land(t.Context(), s)
			f.must(err)
			if left, err := os.ReadDir(s.Checks.Dir); err != nil && tt.checks > 0 || len(left) > 0 {
				t.Errorf("the checks of the merge left %v, %v", left, err)
			}
			if out.Decision.Code != tt.code || len(out.Checks) != tt.checks || !slices.Equal(out.Files, tt.files) {
				t.Fatalf("Land() = %+v, want %s, %d checks, files %q", out, tt.code, tt.checks, tt.files)
			}
			if tt.code == land.CodeLand {
				if f.read("README") != tt.moved["README"] || f.read("add.sh") != fixed["add.sh"] || out.Old != tip {
					t.Errorf("the merge is not both changes: %+v", out)
				}
				if got := f.task(id).Landed; len(got.Checks) != 1 || got.Checks[0].Exit != 0 {
					t.Errorf("the record holds no checks of the merge: %+v", got)
				}
				return
			}
			if got := ferry.Commit(f.git("rev-parse", "main")); got != tip {
				t.Errorf("main moved to %s", got)
			}
			if tt.code == land.CodeNoChange {
				return
			}
			task := f.task(id)
			for _, want := range []string{"`ferry channel cancel t-1 --reason \"main has moved on\"`", "`ferry channel order --id t-1-again --task …`", task.Branch()} {
				if next := out.Decision.Next; !strings.Contains(next, want) || strings.Contains(next, "send-back") || strings.HasSuffix(out.Decision.Reason, ": ") {
					t.Errorf("the refusal %q, next %q, lacks %s", out.Decision.Reason, next, want)
				}
			}
			f.followTheRemedy(id)
		})
	}
}

// followTheRemedy does what the refusal of a landing on a moved target says.
func (f *fleet) followTheRemedy(id ferry.RecordID) {
	f.t.Helper()
	_, err := f.operator.Cancel(f.t.Context(), f.now, ferry.Cancel{Order: id, Reason: "main has moved on"})
	f.must(err)
	again := f.order("t-1-again", func(o *ferry.Order) { o.Checks = []string{"true"} })
	f.work(again, better)
	if out := f.land("t-1-again"); out.Decision.Code != land.CodeLand {
		f.t.Errorf("Land() of the order given again = %+v", out)
	}
}

func TestTheMergeIsCheckedWithTheCachesOfTheTip(t *testing.T) {
	t.Parallel()
	f := newFleet(t, broken)
	id := f.order("t-1", func(o *ferry.Order) {
		o.Checks = []string{`test -z "$FERRY_CACHE" || grep -q world "$FERRY_CACHE/README"`}
	})
	f.work(id, fixed)
	f.commit(map[string]string{"README": "hello world\n"})
	s := f.spec("t-1")
	caches := filepath.Join(t.TempDir(), "caches")
	s.Prepare = evidence.PrepareSpec{Command: "cp README $FERRY_CACHE/", Dir: caches, Box: s.Checks.Box}
	if out, err := land.Land(t.Context(), s); err != nil || out.Decision.Code != land.CodeLand || len(out.Checks) != 1 {
		t.Errorf("Land() = %+v, %v", out, err)
	}
	if made, err := os.ReadDir(caches); err != nil || len(made) == 0 {
		t.Errorf("no cache was made: %v, %v", made, err)
	}
}

func TestAFileInTheWayIsNamed(t *testing.T) {
	t.Parallel()
	f := newFleet(t, broken)
	id := f.order("t-1", nil)
	f.work(id, map[string]string{"add.sh": fixed["add.sh"], "notes.txt": "the engine's\n"})
	f.write(f.repo, map[string]string{"notes.txt": "mine\n"})
	out := f.land("t-1")
	d := out.Decision
	if d.Code != land.CodeDirty || !strings.Contains(d.Reason, filepath.Join(f.repo, "notes.txt")) || !strings.Contains(d.Next, "move it away") {
		t.Errorf("Land() = %+v", d)
	}
	for _, word := range []string{"hint", "GIT_", "stash"} {
		if strings.Contains(d.Error(), word) {
			t.Errorf("the refusal says %s: %s", word, d.Error())
		}
	}
	if f.read("notes.txt") != "mine\n" {
		t.Error("the file of the person changed")
	}
	f.must(os.Remove(filepath.Join(f.repo, "notes.txt")))
	if out := f.land("t-1"); out.Decision.Code != land.CodeLand {
		t.Errorf("Land() after the remedy = %+v", out.Decision)
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	f := newFleet(t, broken)
	f.git("branch", "next")
	id := f.order("t-1", func(o *ferry.Order) { o.Target = "" })
	f.work(id, fixed)
	if out := f.land("t-1"); out.Decision.Code != land.CodeNoTarget {
		t.Errorf("Land() without a target = %+v", out)
	}
	s := f.spec("t-1")
	for into, says := range map[string]string{
		"nosuch": "there is no branch", "HEAD": "there is no branch", "-x": "is not the name of a branch", "main^{}": "is not the name of a branch", "main@{1}": "is not the name of a branch",
	} {
		s.Into = into
		if out, err := land.Land(t.Context(), s); err != nil || out.Decision.Code != land.CodeNoTarget || !strings.Contains(out.Decision.Reason, says) || !strings.Contains(out.Decision.Next, "--into BRANCH") {
			t.Errorf("Land(--into %s) = %+v, %v", into, out.Decision, err)
		}
	}
	f.write(f.repo, map[string]string{"README": "edited by the person\n"})
	s.Into = "main"
	if out, err := land.Land(t.Context(), s); err != nil || out.Decision.Code != land.CodeDirty || !strings.Contains(out.Decision.Error(), "README") {
		t.Errorf("Land() under a dirty checkout = %+v, %v", out.Decision, err)
	}
	s.Into = "next" // not checked out: the dirty checkout is of another branch
	out, err := land.Land(t.Context(), s)
	if err != nil || out.Decision.Code != land.CodeLand || f.git("rev-parse", "next") != string(out.Commit) {
		t.Errorf("Land(--into next) = %+v, %v", out, err)
	}
	if f.read("README") != "edited by the person\n" || f.read("add.sh") != broken["add.sh"] {
		t.Error("the checkout of another branch was touched")
	}
}

func TestTwoLandingsAtTheSameTime(t *testing.T) {
	t.Parallel()
	for commits, moved := range map[string]map[string]string{"2": nil, "3": {"README": "hello world\n"}} {
		t.Run(commits+" commits", func(t *testing.T) { landTwice(t, moved, commits) })
	}
}

// landTwice lands an order by two commands that share everything of their machine.
func landTwice(t *testing.T, moved map[string]string, commits string) {
	t.Helper()
	f := newFleet(t, broken)
	id := f.order("t-1", func(o *ferry.Order) { o.Checks = []string{"sleep 0.2; sh check.sh"} })
	f.work(id, fixed)
	if moved != nil {
		f.commit(moved)
	}
	var outs [2]land.Outcome
	var errs [2]error
	specs := [2]land.Spec{f.spec("t-1"), f.spec("t-1")}
	specs[1].Checks.Dir = specs[0].Checks.Dir
	var wg sync.WaitGroup
	for i := range specs {
		wg.Go(func() { outs[i], errs[i] = land.Land(t.Context(), specs[i]) })
	}
	wg.Wait()
	for i := range outs {
		if errs[i] != nil || !outs[i].Landed() {
			t.Errorf("Land() %d = %+v, %v", i, outs[i], errs[i])
		}
	}
	if outs[0].Commit != outs[1].Commit || f.git("rev-list", "--count", "main") != commits {
		t.Errorf("landed as %s and %s", outs[0].Commit, outs[1].Commit)
	}
	entries, err := f.ch.Records(t.Context(), id)
	f.must(err)
	if n := len(slices.DeleteFunc(entries, func(e channel.Entry) bool { return e.Type != ferry.TypeLanded })); n != 1 {
		t.Errorf("%d landed records", n)
	}
}

func TestReceipt(t *testing.T) {
	t.Parallel()
	f := newFleet(t, broken)
	id := f.order("t-1", reviewed)
	f.work(id, fixed)
	r, err := land.MakeReceipt(t.Context(), f.ch, f.gate, "t-1")
	if err != nil || r.OK || !strings.Contains(strings.Join(r.Problems, " "), "has not landed") {
		t.Errorf("receipt before landing = %+v, %v", r, err)
	}
	f.review(ferry.DecisionKeep, "good")
	f.commit(map[string]string{"README": "moved\n"})
	out := f.land("t-1")
	r, err = land.MakeReceipt(t.Context(), f.ch, f.gate, "t-1")
	f.must(err)
	if !r.OK || len(r.Problems) > 0 || r.Commit != out.Commit || r.Target != "main" || r.Order != id || r.Evidence.Status != ferry.EvidenceVerified {
		t.Errorf("receipt = %+v", r)
	}
	var types []ferry.Type
	for _, l := range r.Records {
		types = append(types, l.Type)
		if l.Name == "" || l.Says == "" || l.ID.IsZero() || l.Seq == 0 {
			t.Errorf("line = %+v", l)
		}
	}
	want := []ferry.Type{ferry.TypeOrder, ferry.TypeClaim, ferry.TypeStart, ferry.TypeResult, ferry.TypeVerdict, ferry.TypeLanded}
	if !slices.Equal(types, want) {
		t.Errorf("records = %v, want %v", types, want)
	}
	f.git("update-ref", "-d", "refs/ferry/landed/"+id.String())
	r, err = land.MakeReceipt(t.Context(), f.ch, f.gate, "t-1")
	if err != nil || r.OK {
		t.Errorf("receipt without the ref = %+v, %v", r.Problems, err)
	}
	f.must(os.RemoveAll(filepath.Join(f.repo, ".git", "refs", "ferry")))
}

package land_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/worktree"
	"github.com/ferry-fleet/ferry/land"
)

// afar is a fleet whose landings go to a bare repository, the remote `origin`. Every hook in it and in the person's
// repository leaves a canary.
type afar struct {
	*fleet
	origin string
	canary string
}

func newAfar(t *testing.T) *afar {
	t.Helper()
	f := newFleet(t, broken)
	a := &afar{fleet: f, origin: filepath.Join(f.m.Dir, "origin.git"), canary: filepath.Join(f.m.Dir, "canary")}
	f.git("clone", "-q", "--bare", f.repo, a.origin)
	f.git("remote", "add", "origin", a.origin)
	for _, repo := range []string{a.origin, filepath.Join(f.repo, ".git")} {
		for _, hook := range []string{"pre-receive", "update", "post-receive", "post-update", "reference-transaction", "pre-push", "post-checkout"} {
			f.must(os.MkdirAll(filepath.Join(repo, "hooks"), 0o755))
			f.must(os.WriteFile(filepath.Join(repo, "hooks", hook), []byte("#!/bin/sh\necho "+hook+" >> "+a.canary+"\n"), 0o755))
		}
	}
	t.Cleanup(func() {
		if ran, err := os.ReadFile(a.canary); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("hooks were run: %s %v", ran, err)
		}
	})
	return a
}

// at runs git on the bare repository without its hooks.
func (a *afar) at(args ...string) string {
	a.t.Helper()
	return a.git(append([]string{"-c", "core.hooksPath=/dev/null", "--git-dir=" + a.origin}, args...)...)
}

// elsewhere commits in another clone and pushes it.
func (a *afar) elsewhere(files map[string]string) ferry.Commit {
	a.t.Helper()
	dir := a.t.TempDir()
	a.git("clone", "-q", a.origin, dir)
	a.write(dir, files)
	a.git("-C", dir, "add", "-A")
	a.git("-C", dir, "commit", "-q", "-m", "elsewhere")
	a.at("fetch", "-q", dir, "main:main")
	return ferry.Commit(a.at("rev-parse", "main"))
}

func (a *afar) spec(label string) land.Spec {
	a.t.Helper()
	s := a.fleet.spec(label)
	var err error
	s.Remote, err = a.gate.Remote(a.t.Context(), worktree.RemoteSpec{Name: "origin"})
	a.must(err)
	return s
}

func (a *afar) land(edit func(*land.Spec)) land.Outcome {
	a.t.Helper()
	s := a.spec("t-1")
	if edit != nil {
		edit(&s)
	}
	out, err := land.Land(a.t.Context(), s)
	a.must(err)
	return out
}

// once checks that the order has landed once, here and there.
func (a *afar) once(id ferry.RecordID, commits string) {
	a.t.Helper()
	t := a.task(id)
	if t.State != ferry.StateLanded {
		a.t.Fatalf("state = %s", t.State)
	}
	want := string(t.Landed.Commit)
	if here, there := a.git("rev-parse", "main"), a.at("rev-parse", "main"); here != want || there != want {
		a.t.Errorf("landed as %s, main is at %s here and at %s there", want, here, there)
	}
	if n := a.at("rev-list", "--count", "main"); n != commits {
		a.t.Errorf("main has %s commits, want %s", n, commits)
	}
	if a.read("add.sh") != fixed["add.sh"] || a.git("status", "--porcelain") != "" {
		a.t.Errorf("the checkout did not follow: %s", a.git("status", "--porcelain"))
	}
	ref := "refs/ferry/landed/" + id.String()
	if here, there := a.git("rev-parse", ref), a.at("rev-parse", ref); here != want || there != want {
		a.t.Errorf("the landed ref is at %s here and at %s there", here, there)
	}
	if left, err := os.ReadDir(a.journal); err != nil && !errors.Is(err, os.ErrNotExist) || len(left) > 0 {
		a.t.Errorf("the journal holds %v, %v", left, err)
	}
}

func TestLandingOnARemote(t *testing.T) {
	t.Parallel()
	a := newAfar(t)
	id := a.order("t-1", nil)
	a.work(id, fixed)
	out := a.land(nil)
	if out.Decision.Code != land.CodeLand || out.Remote != "origin" || out.Warning != "" || !strings.Contains(out.Decision.Reason, "main of origin") {
		t.Fatalf("Land() = %+v", out)
	}
	a.once(id, "2")
	if out := a.land(nil); out.Decision.Code != land.CodeAlreadyLanded {
		t.Errorf("Land() again = %+v", out)
	}
}

func TestARemoteThatMovedOnIsMerged(t *testing.T) {
	t.Parallel()
	a := newAfar(t)
	id := a.order("t-1", nil)
	a.work(id, fixed)
	tip := a.elsewhere(map[string]string{"README": "hello world\n"})
	moved := false
	out, err := land.LandUntil(t.Context(), a.spec("t-1"), func(step string) {
		if step == "remembered" && !moved {
			moved = true // in the last moment, once more
			tip = a.elsewhere(map[string]string{"more": "x\n"})
		}
	})
	a.must(err)
	if out.Decision.Code != land.CodeLand || out.Old != tip || len(out.Checks) != 1 {
		t.Fatalf("Land() = %+v", out)
	}
	a.once(id, "4")
}

func TestWhatARemoteRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		do   func(a *afar)
		code land.Code
		next string
	}{
		{"commits that were not pushed", func(a *afar) {
			a.commit(map[string]string{"README": "mine\n"})
			a.must(os.Remove(a.canary)) // of the person's own git
		}, land.CodeUnpushed, "git push origin main"},
		{"a rewound branch", func(a *afar) {
			old := a.at("rev-parse", "main")
			a.elsewhere(map[string]string{"README": "x\n"})
			s := a.spec("t-1")
			_, err := s.Remote.Look(a.t.Context(), "main", ferry.RecordID{1})
			a.must(err)
			a.at("update-ref", "refs/heads/main", old)
		}, land.CodeRewound, "--accept-remote"},
		{"no such branch", func(a *afar) { a.at("branch", "-m", "main", "trunk") }, land.CodeNoTarget, "git push origin main"},
		{"a dirty checkout", func(a *afar) { a.write(a.repo, map[string]string{"README": "edited\n"}) }, land.CodeDirty, "commit or stash"},
		{"a file in the way", func(a *afar) { a.write(a.repo, map[string]string{"new": "mine\n"}) }, land.CodeDirty, "move it away"},
		{"a conflict", func(a *afar) { a.elsewhere(map[string]string{"add.sh": "echo 7\n"}) }, land.CodeConflict, "order it again"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newAfar(t)
			id := a.order("t-1", nil)
			a.work(id, map[string]string{"add.sh": fixed["add.sh"], "new": "x\n"})
			tt.do(a)
			before := a.at("for-each-ref") + a.git("rev-parse", "main")
			out := a.land(nil)
			if out.Decision.Code != tt.code || !strings.Contains(out.Decision.Next, tt.next) || out.Landed() {
				t.Errorf("Land() = %+v", out.Decision)
			}
			if a.at("for-each-ref")+a.git("rev-parse", "main") != before || a.task(id).Landed != nil {
				t.Error("something moved")
			}
		})
	}
}

func TestARemoteThatIsDown(t *testing.T) {
	t.Parallel()
	a := newAfar(t)
	id := a.order("t-1", nil)
	a.work(id, fixed)
	s := a.spec("t-1")
	away := func() { a.must(os.Rename(a.origin, a.origin+".away")) }
	back := func() { a.must(os.Rename(a.origin+".away", a.origin)) }
	away()
	if out, err := land.Land(t.Context(), s); !errors.Is(err, worktree.ErrRemote) || !strings.Contains(err.Error(), "nothing has moved") {
		t.Errorf("Land() = %+v, %v", out, err)
	}
	back()
	if _, err := land.LandUntil(t.Context(), s, func(step string) {
		if step == "remembered" {
			away()
		}
	}); !errors.Is(err, worktree.ErrRemote) {
		t.Errorf("Land() with a push that nobody answers = %v", err)
	}
	if n, err := land.Repair(t.Context(), s); n != 0 || !errors.Is(err, worktree.ErrRemote) {
		t.Errorf("Repair() while it is down = %d, %v", n, err)
	}
	if left, err := os.ReadDir(a.journal); err != nil || len(left) != 1 {
		t.Errorf("the landing is forgotten before the remote was asked: %v, %v", left, err)
	}
	back()
	if n, err := land.Repair(t.Context(), s); n != 0 || err != nil || a.task(id).Landed != nil {
		t.Errorf("Repair() = %d, %v", n, err)
	}
	if out := a.land(nil); out.Decision.Code != land.CodeLand {
		t.Errorf("Land() = %+v", out)
	}
	a.once(id, "2")
}

func TestACrashOnTheWayToARemote(t *testing.T) {
	t.Parallel()
	again := map[string]func(*afar){
		"land": func(a *afar) { a.lands() },
		"repair": func(a *afar) {
			_, err := land.Repair(a.t.Context(), a.spec(""))
			a.must(err)
			a.lands()
		},
	}
	for step, ways := range map[string][]string{"remembered": {"land"}, "pushed": {"land", "repair"}, "moved": {"repair"}, "recorded": {"land"}} {
		for _, name := range ways {
			t.Run(step+" then "+name, func(t *testing.T) {
				a := newAfar(t)
				id := a.order("t-1", nil)
				a.work(id, fixed)
				a.crash(step)
				again[name](a)
				a.once(id, "2")
			})
		}
	}
}

func TestACrashThatLosesTheJournal(t *testing.T) {
	t.Parallel()
	a := newAfar(t)
	id := a.order("t-1", nil)
	a.work(id, fixed)
	a.crash("pushed")
	a.must(os.RemoveAll(a.journal))
	a.must(os.Mkdir(a.journal, 0o700))
	if out := a.land(nil); out.Decision.Code != land.CodeAlreadyLanded || out.Record.IsZero() {
		t.Errorf("Land() = %+v", out)
	}
	a.once(id, "2")
	if got := a.task(id).Landed; got.Old != a.task(id).Order.Base || got.Target != "main" {
		t.Errorf("record = %+v", got)
	}
}

func TestABranchHereThatCannotFollow(t *testing.T) {
	t.Parallel()
	a := newAfar(t)
	id := a.order("t-1", nil)
	a.work(id, fixed)
	a.crash("pushed")
	a.write(a.repo, map[string]string{"README": "edited meanwhile\n"})
	out := a.land(nil)
	if out.Decision.Code != land.CodeAlreadyLanded || !strings.Contains(out.Warning, "git pull --ff-only origin main") {
		t.Fatalf("Land() = %+v", out)
	}
	if a.task(id).State != ferry.StateLanded || a.read("README") != "edited meanwhile\n" || a.git("rev-parse", "main") == string(out.Commit) {
		t.Errorf("state %s, README %q", a.task(id).State, a.read("README"))
	}
	a.git("-c", "core.hooksPath=/dev/null", "checkout", "-q", "README")
	a.git("-c", "core.hooksPath=/dev/null", "pull", "-q", "--ff-only", "origin", "main")
	a.once(id, "2")
}

func (a *afar) lands() {
	a.t.Helper()
	if out := a.land(nil); !out.Landed() {
		a.t.Fatalf("Land() = %+v", out)
	}
}

// TestAResultOfAnotherMachineIsFetched reviews and lands with a gate that has never seen the commit.
func TestAResultOfAnotherMachineIsFetched(t *testing.T) {
	t.Parallel()
	a := newAfar(t)
	id := a.order("t-1", nil)
	task := a.work(id, fixed)
	commit := task.StandingResult().Result.Commit
	made := a.gate
	var err error
	a.gate, err = worktree.OpenGate(t.Context(), worktree.GateSpec{Dir: filepath.Join(t.TempDir(), "gate.git"), Repo: a.repo})
	a.must(err)
	out, err := land.Land(t.Context(), a.spec("t-1"))
	a.must(err)
	if out.Decision.Code != land.CodeAbsent || !strings.Contains(out.Decision.Reason, "set [land] remote") {
		t.Errorf("Land() without a remote = %+v", out.Decision)
	}
	s := a.spec("t-1")
	s.Fetch = func(context.Context) (*worktree.Remote, error) { return s.Remote, nil }
	if out, err = land.Land(t.Context(), s); err != nil || out.Decision.Code != land.CodeAbsent || !strings.Contains(out.Decision.Reason, "the worker that made it pushes it") {
		t.Errorf("Land() before it was pushed = %+v, %v", out.Decision, err)
	}
	from, err := made.Remote(t.Context(), worktree.RemoteSpec{Name: "origin"})
	a.must(err)
	refs := worktree.RefsOf(&task, commit)
	a.at("update-ref", refs[0], "refs/heads/main")
	if out, err = land.Land(t.Context(), s); err != nil || out.Decision.Code != land.CodeAbsent || !strings.Contains(out.Decision.Reason, refs[0]) {
		t.Errorf("Land() of a ref that leads elsewhere = %+v, %v", out.Decision, err)
	}
	a.at("update-ref", "-d", refs[0])
	a.must(from.Carry(t.Context(), refs[0], commit))
	if out, err = land.Land(t.Context(), s); err != nil || !out.Landed() {
		t.Errorf("Land() = %+v, %v", out.Decision, err)
	}
	a.once(id, "2")
}

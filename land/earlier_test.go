package land_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/internal/worktree"
	"github.com/ferry-fleet/ferry/land"
	"github.com/ferry-fleet/ferry/sign"
)

// second is bob's machine: another clone, gate and store, with what the folder of the first holds.
func (a *afar) second(grants ...ferry.Grant) *afar {
	a.t.Helper()
	key, err := sign.GenerateKey(rand.Reader)
	a.must(err)
	public := key.Public()
	_, err = a.operator.Admit(a.t.Context(), a.now, ferry.Member{
		Writer: ferry.WriterID(public.WriterID()), Key: public.String(), Name: "bob", Machine: "there", Grants: grants,
	})
	a.must(err)
	f := *a.fleet
	b := &afar{fleet: &f, origin: a.origin, canary: a.canary}
	b.repo, b.journal = filepath.Join(a.m.Dir, "clone"), filepath.Join(a.t.TempDir(), "journal")
	a.git("clone", "-q", a.origin, b.repo)
	gateDir := filepath.Join(a.t.TempDir(), "gate.git")
	a.must(os.CopyFS(gateDir, os.DirFS(a.gate.Dir()))) // the work has arrived there as well
	b.gate, err = worktree.OpenGate(a.t.Context(), worktree.GateSpec{Dir: gateDir, Repo: b.repo})
	a.must(err)
	cfg := channel.Config{Folder: filepath.Join(a.t.TempDir(), "folder"), State: filepath.Join(a.t.TempDir(), "store"), Judge: evidence.Classify}
	a.must(os.CopyFS(cfg.Folder, os.DirFS(a.m.ChannelConfig().Folder)))
	b.ch, err = channel.Open(a.t.Context(), cfg, a.ch.ID())
	a.must(err)
	a.t.Cleanup(func() { a.must(b.ch.Close()) })
	_, err = b.ch.Refresh(a.t.Context())
	a.must(err)
	b.operator, err = b.ch.Writer(key)
	a.must(err)
	m := *a.m
	m.Folder, m.Repo = cfg.Folder, b.repo
	f.m = &m
	return b
}

// carry brings what the folders of two machines hold to both, which read it.
func carry(a, b *fleet) {
	a.t.Helper()
	carryFiles(a, b)
	for _, f := range []*fleet{a, b} {
		_, err := f.ch.Refresh(f.t.Context())
		f.must(err)
	}
}

func carryFiles(a, b *fleet) {
	a.t.Helper()
	for _, way := range [][2]*fleet{{a, b}, {b, a}} {
		from, to := way[0].m.Folder, way[1].m.Folder
		a.must(filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			rel, err := filepath.Rel(from, path)
			if err != nil {
				return err
			}
			dst := filepath.Join(to, rel)
			if _, err := os.Stat(dst); err == nil {
				return nil
			}
			data, err := os.ReadFile(path)
			if err == nil {
				err = os.MkdirAll(filepath.Dir(dst), 0o755)
			}
			if err != nil {
				return err
			}
			return os.WriteFile(dst, data, 0o644)
		}))
	}
}

// TestTwoMachinesLandOnce lands on two clones whose channels have not been synced.
func TestTwoMachinesLandOnce(t *testing.T) {
	t.Run("the record has to be written", func(t *testing.T) { twoLandOnce(t, false) })
	t.Run("the record has come", func(t *testing.T) { twoLandOnce(t, true) })
}

func twoLandOnce(t *testing.T, comes bool) {
	t.Parallel()
	a := newAfar(t)
	id := a.order("t-1", nil)
	a.work(id, fixed)
	b := a.second(ferry.GrantLand)
	out, err := land.LandUntil(t.Context(), b.spec("t-1"), func(step string) {
		if step == "remembered" { // the last moment before bob's push
			a.want(a.land(nil).Decision.Code == land.CodeLand)
			if comes {
				carryFiles(a.fleet, b.fleet)
			}
		}
	})
	a.must(err)
	if wrote := strings.Contains(out.Decision.Reason, "is written"); wrote == comes {
		t.Errorf("the record had come: %v, and Land() says %q", comes, out.Decision.Reason)
	}
	first := a.task(id).Landed.Commit
	if out.Decision.Code != land.CodeAlreadyLanded || out.Commit != first || !strings.Contains(out.Decision.Reason, "ada landed it before") {
		t.Errorf("Land() on the second machine = %+v", out)
	}
	carry(a.fleet, b.fleet)
	for _, f := range []*fleet{a.fleet, b.fleet} {
		if got := f.task(id); got.State != ferry.StateLanded || got.Landed.Commit != first || got.LandedID != a.task(id).LandedID {
			t.Errorf("state %s, landed %+v", got.State, got.Landed)
		}
	}
	a.once(id, "2")
}

// TestAnotherMachineRecordsWhatWasPushed kills a landing after its push, for good: whoever may land ends the order, and
// believes no more of the remote than the records confirm.
func TestAnotherMachineRecordsWhatWasPushed(t *testing.T) {
	t.Parallel()
	a := newAfar(t)
	id := a.order("t-1", reviewed)
	a.work(id, fixed)
	a.review(ferry.DecisionKeep, "")
	b, mark := a.second(ferry.GrantLand), "refs/ferry/landed/"+id.String()
	old := a.at("rev-parse", "main")
	a.crash("pushed")
	landed := a.at("rev-parse", "main")

	forged := func(name, ref, branch, says string) {
		t.Helper()
		a.at("update-ref", mark, ref)
		a.at("update-ref", "refs/heads/main", branch)
		s := b.spec("t-1")
		var err error
		s.Remote, err = b.gate.Remote(t.Context(), worktree.RemoteSpec{Name: "origin", Accept: true})
		a.must(err)
		out, err := land.Land(t.Context(), s)
		if err != nil || out.Decision.Code != land.CodeElsewhere || !strings.Contains(out.Decision.Reason, says) || !strings.Contains(out.Decision.Next, "git push origin --delete "+mark) {
			t.Errorf("Land() with %s = %+v, %v", name, out, err)
		}
		if b.task(id).Landed != nil {
			t.Fatalf("%s was recorded", name)
		}
	}
	forged("the mark alone", landed, old, "is not on main")
	forged("a mark on the base", old, landed, "is no landing of this order")
	message := a.at("log", "-1", "--format=%B", landed)
	other := a.at("-c", "user.name=x", "-c", "user.email=x", "commit-tree", "-p", old, "-m", message, old+"^{tree}")
	forged("the right words over another change", other, other, "changes something else")
	a.at("update-ref", mark, landed)
	a.at("update-ref", "refs/heads/main", landed)

	s := b.spec("t-1")
	s.Writer = a.agent
	s.Channel = a.ch
	if out, err := land.Land(t.Context(), s); err != nil || out.Landed() {
		t.Errorf("Land() by the agent = %+v, %v", out, err)
	}
	s = b.spec("t-1")
	var err error
	s.Remote, err = b.gate.Remote(t.Context(), worktree.RemoteSpec{Name: "origin", Accept: true})
	a.must(err)
	out, err := land.Land(t.Context(), s)
	if err != nil || out.Decision.Code != land.CodeAlreadyLanded || out.Commit != ferry.Commit(landed) || !strings.Contains(out.Decision.Reason, "main of origin") || !strings.Contains(out.Decision.Reason, "ada landed it before") {
		t.Fatalf("Land() on the second machine = %+v, %v", out, err)
	}
	got := b.task(id)
	if got.State != ferry.StateLanded || got.Landed.Old != ferry.Commit(old) || got.Landed.Verdict != got.Results[0].Verdict || got.Landed.Result != got.Standing || got.Landed.Content != got.Results[0].Result.Content {
		t.Errorf("task = %s %+v", got.State, got.Landed)
	}
	carry(a.fleet, b.fleet)
	if again := a.land(nil); again.Decision.Code != land.CodeAlreadyLanded || again.Record != out.Record {
		t.Errorf("Land() on the first machine = %+v", again)
	}
	b.once(id, "2")
}

// TestWhatWasPushedElsewhere takes over a landing on another branch than the order's, of an order that was cancelled
// before the record came.
func TestWhatWasPushedElsewhere(t *testing.T) {
	t.Parallel()
	a := newAfar(t)
	id := a.order("t-1", nil)
	a.work(id, fixed)
	a.at("branch", "release", "main")
	a.git("-c", "core.hooksPath=/dev/null", "branch", "release", "main")
	b := a.second(ferry.GrantLand)
	a.kill(func(c *lander) { c.After, c.Remote, c.Into = "pushed", "origin", "release" })
	_, err := a.operator.Cancel(t.Context(), a.now, ferry.Cancel{Order: id, Reason: "too slow"})
	a.must(err)
	carry(a.fleet, b.fleet)
	out, err := land.Land(t.Context(), b.spec("t-1"))
	if err != nil || out.Decision.Code != land.CodeAlreadyLanded || out.Target != "release" {
		t.Fatalf("Land() = %+v, %v", out, err)
	}
	if got := b.task(id); got.State != ferry.StateLanded || got.Landed.Target != "release" || string(got.Landed.Commit) != a.at("rev-parse", "release") {
		t.Errorf("task = %s %+v", got.State, got.Landed)
	}
}

// fork makes the agent's chain fork at its first record about the work, as a copy of the machine would.
func (f *fleet) fork(do func()) {
	f.t.Helper()
	cfg := f.m.ChannelConfig()
	was := cfg
	was.State, was.Folder = filepath.Join(f.t.TempDir(), "store"), filepath.Join(f.t.TempDir(), "folder")
	f.must(os.CopyFS(was.State, os.DirFS(cfg.State)))
	f.must(os.CopyFS(was.Folder, os.DirFS(cfg.Folder)))
	do()
	ch, err := channel.Open(f.t.Context(), was, f.ch.ID())
	f.must(err)
	defer ch.Close()
	key, err := sign.LoadKey(f.m.KeyPath("wisp"))
	f.must(err)
	w, err := ch.Writer(key)
	f.must(err)
	_, err = w.Note(f.t.Context(), f.now, ferry.Note{Kind: "x", Text: "the copy"})
	f.must(err)
	m := *f.m
	m.Folder = was.Folder
	copied := *f
	copied.m, copied.ch = &m, ch
	carry(f, &copied)
}

// TestAForkTakesNothingOffABranch lands a result whose writer is found to have forked afterwards.
func TestAForkTakesNothingOffABranch(t *testing.T) {
	t.Parallel()
	a := newAfar(t)
	id := a.order("t-1", reviewed)
	var b *afar
	var landed land.Outcome
	a.fork(func() {
		a.work(id, fixed)
		a.review(ferry.DecisionKeep, "")
		b = a.second(ferry.GrantLand)
		var err error
		landed, err = land.Land(t.Context(), b.spec("t-1"))
		a.must(err)
		a.want(landed.Decision.Code == land.CodeLand)
	})
	carry(a.fleet, b.fleet)
	for _, f := range []*fleet{a.fleet, b.fleet} {
		task := f.task(id)
		if task.State != ferry.StateBlocked || len(task.Results) != 0 || !strings.Contains(task.Hold, "`ferry channel land t-1`") || task.Next.Claimable {
			t.Fatalf("after the fork: %s %q, %+v", task.State, task.Hold, task.Results)
		}
	}
	if out, err := land.Land(t.Context(), b.spec("t-1")); err != nil || out.Decision.Code != land.CodeNotMaster {
		t.Errorf("Land() by bob = %+v, %v", out, err)
	}
	s := a.spec("t-1")
	s.Remote = nil
	if out, err := land.Land(t.Context(), s); err != nil || out.Decision.Code != land.CodeAbsent || !strings.Contains(out.Decision.Next, "git pull") {
		t.Errorf("Land() where it is not = %+v, %v", out, err)
	}
	out := a.land(nil)
	if out.Decision.Code != land.CodeAlreadyLanded || out.Commit != landed.Commit || !strings.Contains(out.Decision.Reason, "bob landed it before") || !strings.Contains(out.Decision.Reason, "on the master's word") {
		t.Fatalf("Land() by the master = %+v", out)
	}
	a.once(id, "2")
	r, err := land.MakeReceipt(t.Context(), a.ch, a.gate, "t-1")
	if err != nil || r.OK || !strings.Contains(strings.Join(r.Problems, " "), "the master's word alone") || r.Content == "" {
		t.Errorf("receipt = %+v, %v", r, err)
	}
	if _, err := land.MakeReceiptFile(t.Context(), a.ch, a.gate, "t-1"); err == nil || !strings.Contains(err.Error(), "the master's word alone") {
		t.Errorf("MakeReceiptFile() = %v", err)
	}
	carry(a.fleet, b.fleet)
	if got := b.task(id); got.State != ferry.StateLanded || got.Unbacked != nil {
		t.Errorf("on the second machine: %s %s", got.State, got.Hold)
	}
}

// TestAForkAfterAMastersLanding changes nothing: the master has said what landed.
func TestAForkAfterAMastersLanding(t *testing.T) {
	t.Parallel()
	f := newFleet(t, broken)
	id := f.order("t-1", nil)
	f.fork(func() {
		f.work(id, fixed)
		f.want(f.land("t-1").Decision.Code == land.CodeLand)
	})
	if got := f.task(id); got.State != ferry.StateLanded || len(got.Results) != 0 {
		t.Errorf("state %s %s, results %+v", got.State, got.Hold, got.Results)
	}
	if out := f.land("t-1"); out.Decision.Code != land.CodeAlreadyLanded {
		t.Errorf("Land() = %+v", out)
	}
}

// TestAnUnmarkedLandingIsAccepted has the commit of a lost landing on the branch, and no ref that marks it.
func TestAnUnmarkedLandingIsAccepted(t *testing.T) {
	t.Parallel()
	a := newAfar(t)
	id := a.order("t-1", nil)
	var b *afar
	a.fork(func() {
		a.work(id, fixed)
		b = a.second(ferry.GrantLand)
		out, err := land.Land(t.Context(), b.fleet.spec("t-1")) // in bob's clone alone
		a.must(err)
		a.want(out.Decision.Code == land.CodeLand)
	})
	carry(a.fleet, b.fleet)
	a.git("-c", "core.hooksPath=/dev/null", "pull", "-q", "--ff-only", b.repo, "main")
	out := a.fleet.land("t-1")
	if out.Decision.Code != land.CodeAlreadyLanded || a.task(id).State != ferry.StateLanded || a.task(id).Landed.Target != "main" {
		t.Errorf("Land() = %+v", out)
	}
	if got := a.git("rev-parse", "refs/ferry/landed/"+id.String()); got != string(out.Commit) {
		t.Errorf("the ref is at %s, want %s", got, out.Commit)
	}
}

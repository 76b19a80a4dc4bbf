package worker_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/internal/ferrytest"
	"github.com/ferry-fleet/ferry/internal/worktree"
	"github.com/ferry-fleet/ferry/worker"
)

// apart is a fleet of machines with one folder, and a clone of one bare repository for each.
type apart struct {
	t      *testing.T
	m      *ferrytest.Machine // the person's
	origin string
}

func newApart(t *testing.T) *apart {
	t.Helper()
	a := &apart{t: t, m: ferrytest.New(t, files)}
	a.origin = filepath.Join(a.m.Dir, "origin.git")
	a.m.Git("clone", "-q", "--bare", a.m.Repo, a.origin)
	a.m.Git("remote", "add", "origin", a.origin)
	return a
}

// worker makes a machine with a clone of its own, and the configuration of its worker.
func (a *apart) worker(name ferry.AgentName, script string) (*ferrytest.Machine, worker.Config) {
	a.t.Helper()
	m := a.m.Beside(string(name), "")
	m.Repo = filepath.Join(a.m.Dir, "clone-"+string(name))
	a.m.Git("clone", "-q", "--no-local", a.origin, m.Repo)
	var err error
	m.Gate, err = worktree.OpenGate(a.t.Context(), worktree.GateSpec{Dir: filepath.Join(m.State, "gate-of-clone.git"), Repo: m.Repo, Log: m.Log})
	m.Must(err)
	cfg := config(m, name, a.m.Engine(string(name), script))
	cfg.Timing = worker.Timing{Beat: 200 * time.Millisecond, Lapse: time.Minute}
	cfg.Remote = func(ctx context.Context, _ bool) (*worktree.Remote, error) {
		return m.Gate.Remote(ctx, worktree.RemoteSpec{Name: "origin"})
	}
	return m, cfg
}

// at runs git on the bare repository.
func (a *apart) at(args ...string) string {
	a.t.Helper()
	return a.m.Git(append([]string{"--git-dir=" + a.origin}, args...)...)
}

func (a *apart) away() { a.m.Must(os.Rename(a.origin, a.origin+".away")) }
func (a *apart) back() { a.m.Must(os.Rename(a.origin+".away", a.origin)) }

// says waits until the worker holds the order with these words.
func says(r *running, words ...string) {
	r.m.T.Helper()
	var holds []worker.HoldStatus
	r.m.Eventually("a hold that says "+strings.Join(words, " … "), 30*time.Second, func() bool {
		s, err := worker.ReadStatus(r.cfg.Status)
		holds = s.Holds
		return err == nil && slices.ContainsFunc(holds, func(h worker.HoldStatus) bool {
			return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(h.Reason, w) })
		})
	})
}

// TestWorkTravelsBetweenMachines orders on one machine, works on the second, and goes on with the third.
func TestWorkTravelsBetweenMachines(t *testing.T) {
	a := newApart(t)
	base := a.m.Commit(map[string]string{"later.txt": "x\n"}) // not on any branch of the remote
	r, err := a.m.Gate.Remote(t.Context(), worktree.RemoteSpec{Name: "origin"})
	a.m.Must(err)
	_, cfg := a.worker("gale", fix)
	first := start(a.m, cfg)
	id := a.m.Order("t-far", func(o *ferry.Order) { o.NeedsReview = true })
	says(first, "its base "+base.Short()+" is not on this machine, and not on origin: push it there")
	if task := a.m.Task("t-far"); len(task.Attempts)+len(task.Claims) != 0 {
		t.Fatalf("claimed though it cannot be begun: %+v", task)
	}
	a.m.Must(r.Carry(t.Context(), worktree.BaseRef(base), base))
	task := reaches(a.m, "t-far", ferry.StateAwaitingReview)
	made := task.StandingResult().Result
	if !slices.Equal(made.Features, ferry.Features()) {
		t.Errorf("features = %q", made.Features)
	}
	if a.m.Gate.Keeps(t.Context(), made.Commit) {
		t.Fatal("the commit is on the person's machine by itself")
	}
	a.m.Must(a.m.Gate.Obtain(t.Context(), r, made.Commit, worktree.RefsOf(&task, made.Commit)...))
	if got := gateFile(a.m, made.Commit, "answer.txt"); got != "42" {
		t.Errorf("answer.txt = %q", got)
	}
	first.stop()
	_, err = a.m.Operator.Verdict(t.Context(), time.Now(), ferry.Verdict{
		Order: id, Result: task.Standing, Decision: ferry.DecisionChanges, Notes: "more",
	})
	a.m.Must(err)
	third, cfg := a.worker("moon", "test \"$(cat answer.txt)\" = 42 && echo more >more.txt; echo done\n")
	start(third, cfg)
	a.m.Eventually("a second revision", 30*time.Second, func() bool {
		task = a.m.Task("t-far")
		return task.Revision == 2 && task.State == ferry.StateAwaitingReview
	})
	next := task.StandingResult().Result
	if next.From != made.Commit {
		t.Errorf("it began from %s, want %s", next.From.Short(), made.Commit.Short())
	}
	for _, o := range task.Results {
		refs := worktree.RefsOf(&task, o.Result.Commit)
		if got := a.at("rev-parse", refs[0]); got != string(o.Result.Commit) {
			t.Errorf("the remote has %s at %s, want %s", refs[0], got, o.Result.Commit)
		}
	}
	if heads := a.at("for-each-ref", "--format=%(refname)", "refs/heads"); heads != "refs/heads/main" {
		t.Errorf("the remote got branches: %s", heads)
	}
}

// TestPushIsOwed takes the remote away while the engine works: the result is handed in all the same, and the commit
// follows when the remote is back, also from the next process.
func TestPushIsOwed(t *testing.T) {
	a := newApart(t)
	m, cfg := a.worker("gale", "echo x >begun; while ! test -e go; do sleep 0.05; done; rm go begun; "+fix)
	r := start(m, cfg)
	a.m.Order("t-owed", nil)
	r.runsAndWrote("begun", "x")
	a.away()
	m.Write(r.tree(), map[string]string{"go": "x"})
	task := reaches(a.m, "t-owed", ferry.StateDone)
	commit := task.StandingResult().Result.Commit
	says(r, "its commit "+commit.Short()+" is not on the remote yet")
	r.stop()
	again := start(m, cfg)
	says(again, "its commit "+commit.Short()+" is not on the remote yet")
	a.back()
	ref := worktree.RefsOf(&task, commit)[0]
	m.Eventually("the commit is on the remote", 30*time.Second, func() bool {
		return a.at("for-each-ref", "--format=%(objectname)", ref) == string(commit)
	})
	m.Eventually("nothing is owed", 30*time.Second, func() bool {
		s, err := worker.ReadStatus(cfg.Status)
		return err == nil && len(s.Holds) == 0
	})
	if left, err := filepath.Glob(filepath.Join(cfg.Runs, "*", "owed.json")); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// TestWorkFromBeforeSomebodyJoined works while nothing is pushed anywhere, and then has somewhere to push to: what open
// orders need follows, also from an earlier process, and nothing of an order that has ended.
func TestWorkFromBeforeSomebodyJoined(t *testing.T) {
	a := newApart(t)
	m, cfg := a.worker("gale", fix)
	var joined atomic.Bool
	remote := cfg.Remote
	cfg.Remote = func(ctx context.Context, push bool) (*worktree.Remote, error) {
		if push && !joined.Load() {
			return nil, nil
		}
		return remote(ctx, push)
	}
	owed := func() int {
		left, err := filepath.Glob(filepath.Join(cfg.Runs, "*", "owed.json"))
		a.m.Must(err)
		return len(left)
	}
	r := start(m, cfg)
	id := a.m.Order("t-ended", nil)
	ended := reaches(a.m, "t-ended", ferry.StateDone)
	a.m.Order("t-early", nil)
	early := reaches(a.m, "t-early", ferry.StateDone)
	_, err := a.m.Operator.Cancel(t.Context(), time.Now(), ferry.Cancel{Order: id, Reason: "not needed"})
	a.m.Must(err)
	m.Eventually("what has ended is forgotten", 30*time.Second, func() bool { return owed() == 1 })
	r.stop()
	again := start(m, cfg)
	a.m.Order("t-late", nil)
	late := reaches(a.m, "t-late", ferry.StateDone)
	if got := a.at("for-each-ref", "--format=%(refname)"); got != "refs/heads/main" || owed() != 2 {
		t.Fatalf("before anybody joined %d are owed, and the remote got %s", owed(), got)
	}
	if s, err := worker.ReadStatus(cfg.Status); err != nil || len(s.Holds) > 0 {
		t.Errorf("what nobody needs is shown: %+v, %v", s.Holds, err)
	}
	joined.Store(true)
	for _, task := range []ferry.Task{early, late} {
		commit := task.StandingResult().Result.Commit
		ref := worktree.RefsOf(&task, commit)[0]
		m.Eventually(string(task.Order.Label)+" is on the remote", 30*time.Second, func() bool {
			return a.at("for-each-ref", "--format=%(objectname)", ref) == string(commit)
		})
	}
	m.Eventually("nothing is owed", 30*time.Second, func() bool { return owed() == 0 })
	if got := a.at("for-each-ref", "refs/ferry/attempts/"+ended.ID.String()); got != "" {
		t.Errorf("the remote got %s of an order that has ended", got)
	}
	again.stop()
}

// TestNoRemote holds an order whose base is on the other machine alone, and takes it up once the person has fetched it.
func TestNoRemote(t *testing.T) {
	a := newApart(t)
	m, cfg := a.worker("gale", fix)
	cfg.Remote = nil
	r := start(m, cfg)
	base := a.m.Commit(map[string]string{"later.txt": "x\n"})
	a.m.Order("t-alone", nil)
	says(r, "its base "+base.Short()+" is not on this machine: fetch it into this repository, or set [land] remote")
	m.Git("fetch", "-q", a.m.Repo, "main")
	reaches(a.m, "t-alone", ferry.StateDone)
	if got := a.at("for-each-ref", "--format=%(refname)"); got != "refs/heads/main" {
		t.Errorf("the remote got %s", got)
	}
}

// TestAForgedRefIsNamed puts another commit where the base should be.
func TestAForgedRefIsNamed(t *testing.T) {
	a := newApart(t)
	m, cfg := a.worker("gale", fix)
	base := a.m.Commit(map[string]string{"later.txt": "x\n"})
	ref := worktree.BaseRef(base)
	a.at("update-ref", ref, "refs/heads/main")
	r := start(m, cfg)
	a.m.Order("t-forged", nil)
	says(r, "origin gives another commit in its place", ref)
}

// TestWhatADeadWorkerLeftIsPushed kills a worker while its engine works: the next one pushes what was there.
func TestWhatADeadWorkerLeftIsPushed(t *testing.T) {
	a := newApart(t)
	m, cfg := a.worker("gale", fix)
	dying := &running{m: m, cfg: cfg}
	dying.cfg.Engines = []engines.Config{a.m.Engine("slow", "echo half >begun; sleep 300\n")}
	p := spawn(m, dying.cfg)
	a.m.Order("t-dead", nil)
	dying.runsAndWrote("begun", "half")
	m.Must(syscall.Kill(p.Pid(), syscall.SIGKILL))
	p.Wait()
	start(m, cfg)
	task := reaches(a.m, "t-dead", ferry.StateDone)
	left := task.Attempts[0].Runs[0].Commit
	ref := worktree.RefsOf(&task, left)[0]
	m.Eventually("it is on the remote", 30*time.Second, func() bool {
		return a.at("for-each-ref", "--format=%(objectname)", ref) == string(left)
	})
	if got := a.at("show", string(left)+":begun"); got != "half" {
		t.Errorf("the remote has %q", got)
	}
}

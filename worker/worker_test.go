package worker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/internal/ferrytest"
	"github.com/ferry-fleet/ferry/worker"
)

const fix = "echo 42 >answer.txt; echo fixed it\n"

func TestOrderBecomesCheckedCommit(t *testing.T) {
	m := ferrytest.New(t, files)
	before := m.Git("status", "--porcelain=v2", "--branch")
	start(m, config(m, "wisp", m.Engine("fix", fix)))
	m.Order("t-first", func(o *ferry.Order) { o.Checks = []string{"sh check.sh"} })
	task := reaches(m, "t-first", ferry.StateDone)
	r := task.StandingResult()
	if r.Evidence.Status != ferry.EvidenceVerified {
		t.Errorf("evidence = %+v, want verified", r.Evidence)
	}
	if len(r.Result.Files) != 1 || r.Result.Files[0].Path != "answer.txt" || r.Result.Answer == "" {
		t.Errorf("result = %+v, want answer.txt changed and the engine's words", r.Result)
	}
	if got := m.Git("show", task.Branch()+":answer.txt"); got != "42" {
		t.Errorf("the branch holds %q", got)
	}
	if after := m.Git("status", "--porcelain=v2", "--branch"); after != before {
		t.Errorf("the person's checkout changed:\n%s\nwas\n%s", after, before)
	}
}

func TestSentBackWorkBeginsFromTheBranchWithTheNotes(t *testing.T) {
	m := ferrytest.New(t, files)
	r := start(m, config(m, "wisp", m.Engine("fix", `
case $1 in
*"cover the error path"*) test "$(cat answer.txt)" = 42 && echo "error path" >more.txt ;;
*) echo 42 >answer.txt ;;
esac
echo done
`)))
	m.Order("t-first", func(o *ferry.Order) { o.Checks, o.NeedsReview = []string{"sh check.sh"}, true })
	task := reaches(m, "t-first", ferry.StateAwaitingReview)
	_, err := m.Operator.Verdict(t.Context(), time.Now(), ferry.Verdict{
		Order: task.ID, Result: task.Standing, Decision: ferry.DecisionChanges, Notes: "cover the error path",
	})
	m.Must(err)
	m.Eventually("a second revision", 30*time.Second, func() bool {
		task = m.Task("t-first")
		return task.Revision == 2 && task.State == ferry.StateAwaitingReview
	})
	if got := m.Git("show", task.Branch()+":more.txt"); got != "error path" {
		t.Errorf("the branch holds %q in more.txt", got)
	}
	if task.Failures != 0 {
		t.Errorf("a send-back counted as %d failures", task.Failures)
	}
	r.stop()
	r.noSurvivors()
}

func TestDoneButNothingChangedIsRefutedAndAsksOnce(t *testing.T) {
	m := ferrytest.New(t, files)
	start(m, config(m, "wisp", m.Engine("liar", "echo I fixed everything.\n")))
	m.Order("t-lie", func(o *ferry.Order) { o.Checks = []string{"sh check.sh"} })
	var task ferry.Task
	m.Eventually("a question", 30*time.Second, func() bool {
		task = m.Task("t-lie")
		return len(task.Questions) == 1
	})
	if task.State != ferry.StateRefuted || task.Revision != 2 || !strings.Contains(task.Hold, "no progress") {
		t.Errorf("state %s, revision %d, hold %q; want refuted twice and a question", task.State, task.Revision, task.Hold)
	}
}

func TestEngineFaultCountsNothingAndRestsTheEngine(t *testing.T) {
	m := ferrytest.New(t, files)
	r := start(m, config(m, "wisp", m.Engine("broke", "echo 'ERROR: 402 Insufficient credits' >&2; exit 1\n")))
	m.Order("t-broke", nil)
	var hold string
	m.Eventually("the worker holds the order", 30*time.Second, func() bool {
		s, err := worker.ReadStatus(r.cfg.Status)
		if err != nil || len(s.Holds) == 0 {
			return false
		}
		hold = s.Holds[0].Reason
		return strings.Contains(hold, "rests until")
	})
	task := m.Task("t-broke")
	if task.State != ferry.StateOpen || task.Failures != 0 || len(task.Attempts) != 1 {
		t.Errorf("state %s with %d failures and %d attempts, want open, 0 and 1", task.State, task.Failures, len(task.Attempts))
	}
	if !strings.Contains(hold, "402") {
		t.Errorf("hold %q does not name the fault", hold)
	}
	r.stop()
	if left, err := worker.Resting(r.cfg.Health, r.cfg.Engines, time.Now()); len(left) != 1 || left[0].Why != hold || err != nil {
		t.Errorf("Resting() = %+v, %v; want %q", left, err, hold)
	}
	for what, set := range map[string]func(c *engines.Config){
		"model": func(c *engines.Config) { c.Model = "another" }, "key": func(c *engines.Config) { c.Key = "another" },
		"place of the key": func(c *engines.Config) { c.KeyRef = "secret:X" }, "provider": func(c *engines.Config) { c.Provider = "x" },
		"wire": func(c *engines.Config) { c.Wire = "x" },
	} {
		other := r.cfg.Engines[0]
		set(&other)
		if left, err := worker.Resting(r.cfg.Health, []engines.Config{other}, time.Now()); len(left) != 0 || err != nil {
			t.Errorf("Resting() of another %s = %+v, %v", what, left, err)
		}
	}
	again := start(m, r.cfg) // what was learnt outlives the process
	m.Eventually("it still rests", 10*time.Second, func() bool {
		s, err := worker.ReadStatus(again.cfg.Status)
		return err == nil && len(s.Holds) == 1
	})
}

func TestKillEndsTheTree(t *testing.T) {
	m := ferrytest.New(t, files)
	r := start(m, config(m, "wisp", m.Engine("slow", "echo half >answer.txt; (setsid sleep 300 &) ; sleep 300\n")))
	id := m.Order("t-slow", nil)
	reaches(m, "t-slow", ferry.StateRunning)
	r.runsAndWrote("answer.txt", "half")
	at := time.Now()
	_, err := m.Operator.Interrupt(t.Context(), time.Now(), ferry.Interrupt{Order: id, Action: ferry.ActionKill, Note: "enough"})
	m.Must(err)
	m.Eventually("the attempt is closed", 10*time.Second, func() bool { return m.Task("t-slow").Live.IsZero() })
	t.Logf("killed and closed after %s", time.Since(at))
	task := m.Task("t-slow")
	if task.State != ferry.StateKilled {
		t.Errorf("state = %s", task.State)
	}
	if got := gateFile(m, task.Next.From, "answer.txt"); got != "half" {
		t.Errorf("the work that was there is %q, want it kept", got)
	}
	r.noSurvivors()
}

func TestPauseFreezesAndResumeGoesOn(t *testing.T) {
	m := ferrytest.New(t, files)
	r := start(m, config(m, "wisp", m.Engine("tick", "for i in $(seq 200); do echo $i >>ticks; sleep 0.05; test -e stop && break; done; echo 42 >answer.txt; echo done\n")))
	id := m.Order("t-tick", nil)
	reaches(m, "t-tick", ferry.StateRunning)
	r.runsAndWrote("ticks", "1")
	pause, err := m.Operator.Interrupt(t.Context(), time.Now(), ferry.Interrupt{Order: id, Action: ferry.ActionPause})
	m.Must(err)
	m.Eventually("frozen", 5*time.Second, func() bool {
		s, err := worker.ReadStatus(r.cfg.Status)
		return err == nil && len(s.Running) == 1 && s.Running[0].Frozen
	})
	file := filepath.Join(r.tree(), "ticks")
	size := func() int64 {
		info, err := os.Stat(file)
		m.Must(err)
		return info.Size()
	}
	// Frozen means that nothing is written for a time in which many ticks would have been.
	m.Eventually("no more ticks", 5*time.Second, func() bool {
		before := size()
		<-time.After(300 * time.Millisecond)
		return size() == before
	})
	_, err = m.Operator.Interrupt(t.Context(), time.Now(), ferry.Interrupt{Order: id, Action: ferry.ActionResume, Seen: []ferry.RecordID{pause}})
	m.Must(err)
	before := size()
	m.Eventually("ticks again", 5*time.Second, func() bool { return size() > before })
	m.Must(os.WriteFile(filepath.Join(r.tree(), "stop"), nil, 0o644))
	reaches(m, "t-tick", ferry.StateDone)
}

func TestSteerBeginsAgainWithTheNote(t *testing.T) {
	m := ferrytest.New(t, files)
	r := start(m, config(m, "wisp", m.Engine("steered", `
case $1 in
*"use the number 42"*) echo 42 >answer.txt; echo done ;;
*) echo 40 >answer.txt; sleep 300 ;;
esac
`)))
	id := m.Order("t-steer", func(o *ferry.Order) { o.Checks = []string{"sh check.sh"} })
	reaches(m, "t-steer", ferry.StateRunning)
	r.runsAndWrote("answer.txt", "40")
	_, err := m.Operator.Interrupt(t.Context(), time.Now(), ferry.Interrupt{Order: id, Action: ferry.ActionSteer, Note: "use the number 42"})
	m.Must(err)
	task := reaches(m, "t-steer", ferry.StateDone)
	a := task.Attempts[0]
	if len(task.Attempts) != 1 || len(a.Runs) != 2 || a.Runs[0].Outcome != ferry.OutcomeSteered || a.Runs[1].Outcome != ferry.OutcomeDone {
		t.Errorf("attempts = %+v, want one with a steered and a done run", task.Attempts)
	}
	if task.Failures != 0 || len(task.Steers) != 0 {
		t.Errorf("failures %d, steers left %d", task.Failures, len(task.Steers))
	}
	r.stop()
	r.noSurvivors()
}

func TestShutdownKeepsTheWorkAndTheNextWorkerGoesOn(t *testing.T) {
	m := ferrytest.New(t, files)
	r := start(m, config(m, "wisp", m.Engine("slow", "test -e begun && { echo 42 >answer.txt; echo done; exit; }; echo x >begun; sleep 300\n")))
	m.Order("t-slow", func(o *ferry.Order) { o.Checks = []string{"sh check.sh"} })
	reaches(m, "t-slow", ferry.StateRunning)
	r.runsAndWrote("begun", "x")
	r.stop()
	r.noSurvivors()
	task := m.Task("t-slow")
	if task.State != ferry.StateOpen || task.Failures != 0 || task.Attempts[0].Stop.Reason != ferry.StopShutdown {
		t.Fatalf("after the shutdown: %s, %d failures, %+v", task.State, task.Failures, task.Attempts)
	}
	start(m, r.cfg)
	task = reaches(m, "t-slow", ferry.StateDone)
	if got := m.Git("show", task.Branch()+":begun"); got != "x" {
		t.Errorf("the second attempt did not begin from what the first left: %q", got)
	}
}

func TestTimeoutCountsAndBacksOff(t *testing.T) {
	m := ferrytest.New(t, files)
	cfg := config(m, "wisp", m.Engine("slow", "echo working; while :; do echo busy; sleep 0.05; done\n"))
	cfg.Backoff = func(int) time.Duration { return time.Millisecond }
	start(m, cfg)
	m.Order("t-slow", func(o *ferry.Order) { o.TimeoutSecs, o.MaxAttempts = 1, 2 })
	task := reaches(m, "t-slow", ferry.StateFailed)
	if task.Failures != 2 || task.Attempts[0].Stop.Reason != ferry.StopTimeout || !strings.Contains(task.Hold, "2 of 2 attempts") {
		t.Errorf("failures %d, hold %q, %+v", task.Failures, task.Hold, task.Attempts[0].Stop)
	}
}

func TestPausedMachineBeginsNothing(t *testing.T) {
	m := ferrytest.New(t, files)
	cfg := config(m, "wisp", m.Engine("fix", fix))
	m.Must(os.WriteFile(cfg.Pause, []byte(`{"reason":"on battery"}`), 0o600))
	r := start(m, cfg)
	m.Order("t-wait", nil)
	m.Eventually("a hold", 10*time.Second, func() bool {
		s, err := worker.ReadStatus(r.cfg.Status)
		return err == nil && len(s.Holds) == 1 && strings.Contains(s.Holds[0].Reason, "on battery")
	})
	if task := m.Task("t-wait"); len(task.Attempts) != 0 {
		t.Errorf("it began all the same: %+v", task.Attempts)
	}
}

// TestSteerWhileTheTreeIsMade is a note that arrives before the engine runs:
// no fault of this machine, and the note is not lost.
func TestSteerWhileTheTreeIsMade(t *testing.T) {
	many := map[string]string{"answer.txt": "41\n"}
	for i := range 3000 {
		many[fmt.Sprintf("many/%04d", i)] = fmt.Sprint(i)
	}
	m := ferrytest.New(t, many)
	r := start(m, config(m, "wisp", m.Engine("told", "case $1 in *'use 42'*) echo 42 >answer.txt;; *) sleep 300;; esac; echo done\n")))
	id := m.Order("t-early", nil)
	m.Eventually("it begins", 20*time.Second, func() bool { return !m.Task("t-early").Live.IsZero() })
	_, err := m.Operator.Interrupt(t.Context(), time.Now(), ferry.Interrupt{Order: id, Action: ferry.ActionSteer, Note: "use 42"})
	m.Must(err)
	task := reaches(m, "t-early", ferry.StateDone)
	if len(task.Attempts) != 1 || task.Attempts[0].Stop != nil {
		t.Errorf("attempts = %+v, want one that ended with a result", task.Attempts)
	}
	if got := m.Git("show", task.Branch()+":answer.txt"); got != "42" {
		t.Errorf("the note was lost: answer %q", got)
	}
	r.stop()
	r.noSurvivors()
}

// TestUnreadableLeftoverDoesNotStopOthers takes the store of a dead run away:
// that run cannot be looked after, other orders can.
func TestUnreadableLeftoverDoesNotStopOthers(t *testing.T) {
	m := ferrytest.New(t, files)
	r := &running{m: m, cfg: config(m, "wisp", m.Engine("e", "case $1 in *t-left*) test -e x || { echo x >x; sleep 300; };; esac; echo done\n"))}
	p := spawn(m, r.cfg)
	m.Order("t-left", nil)
	r.runsAndWrote("x", "x")
	m.Must(syscall.Kill(p.Pid(), syscall.SIGKILL))
	p.Wait()
	memo := filepath.Join(filepath.Dir(r.tree()), "host", "tree.json")
	saved, err := os.ReadFile(memo)
	m.Must(err)
	m.Must(os.Remove(memo))
	m.Must(os.Mkdir(memo, 0o700)) // neither there nor readable
	r = start(m, r.cfg)
	m.Order("t-other", nil)
	reaches(m, "t-other", ferry.StateDone)
	m.Eventually("a hold that says so", 10*time.Second, func() bool {
		s, err := worker.ReadStatus(r.cfg.Status)
		return err == nil && len(s.Holds) == 1 && strings.Contains(s.Holds[0].Reason, "cannot be looked after")
	})
	m.Must(os.Remove(memo))
	m.Must(os.WriteFile(memo, saved, 0o600))
	r.stop()
	start(m, r.cfg)
	reaches(m, "t-left", ferry.StateDone)
}

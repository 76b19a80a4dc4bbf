package land_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/process"
	"github.com/ferry-fleet/ferry/internal/worktree"
	"github.com/ferry-fleet/ferry/land"
	"github.com/ferry-fleet/ferry/sign"
)

// lander describes a landing in a process of its own, which is killed after a step.
type lander struct {
	Folder, State, Gate, Repo, Key, Journal, Checks string
	Channel                                         ferry.RecordID
	Level                                           box.Level
	Remote                                          string
	Into                                            string
	After                                           string // the step
}

const landerEnv = "FERRY_TEST_LANDER"

// childLander is the main of that process. It comes back only when the landing did not come to the step.
func childLander() int {
	var c lander
	if err := json.Unmarshal([]byte(os.Getenv(landerEnv)), &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	out, err := c.land(context.Background())
	fmt.Fprintf(os.Stderr, "the landing did not come to the step %q: %+v, %v\n", c.After, out, err)
	return 1
}

func (c lander) land(ctx context.Context) (land.Outcome, error) {
	ch, err := channel.Open(ctx, channel.Config{Folder: c.Folder, State: c.State, Judge: evidence.Classify}, c.Channel)
	if err != nil {
		return land.Outcome{}, err
	}
	defer ch.Close()
	key, err := sign.LoadKey(c.Key)
	if err != nil {
		return land.Outcome{}, err
	}
	s := land.Spec{Channel: ch, Order: "t-1", Into: c.Into, Explicit: true, Journal: c.Journal, Now: now}
	s.Checks = checksIn(c.Checks, c.Level)
	if s.Writer, err = ch.Writer(key); err != nil {
		return land.Outcome{}, err
	}
	if s.Gate, err = worktree.OpenGate(ctx, worktree.GateSpec{Dir: c.Gate, Repo: c.Repo}); err != nil {
		return land.Outcome{}, err
	}
	if c.Remote != "" {
		if s.Remote, err = s.Gate.Remote(ctx, worktree.RemoteSpec{Name: c.Remote}); err != nil {
			return land.Outcome{}, err
		}
	}
	return land.LandUntil(ctx, s, func(step string) {
		if step == c.After {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		}
	})
}

// kill lands in another process and ends that by kill -9 after a step.
func (f *fleet) kill(edit func(*lander)) {
	f.t.Helper()
	cfg := f.m.ChannelConfig()
	c := lander{
		Folder: cfg.Folder, State: cfg.State, Gate: f.gate.Dir(), Repo: f.repo, Key: f.m.KeyPath("operator"), Journal: f.journal,
		Checks: f.scratch, Channel: f.ch.ID(), Level: f.level,
	}
	edit(&c)
	data, err := json.Marshal(c)
	f.must(err)
	self, err := os.Executable()
	f.must(err)
	exit, err := process.Run(f.t.Context(), process.Spec{
		Argv: []string{self}, Env: append(os.Environ(), landerEnv+"="+string(data)), Dir: f.m.Dir, Stdout: f.t.Output(), Stderr: f.t.Output(),
	})
	if err != nil || exit.Signal != syscall.SIGKILL.String() {
		f.t.Fatalf("the process that lands ended with %v, %v; want it killed after the step %q", exit, err, c.After)
	}
	_, err = f.ch.Refresh(f.t.Context())
	f.must(err)
}

// crash kills a landing in the repository here after a step.
func (f *fleet) crash(after string) {
	f.t.Helper()
	f.kill(func(c *lander) { c.After = after })
}

// crash kills a landing on the remote after a step.
func (a *afar) crash(after string) {
	a.t.Helper()
	a.kill(func(c *lander) { c.After, c.Remote = after, "origin" })
}

func TestACrashAfterTheBranchMoved(t *testing.T) {
	t.Parallel()
	byLand := func(f *fleet) { f.want(f.land("t-1").Decision.Code == land.CodeAlreadyLanded) }
	byRepair := func(f *fleet) {
		n, err := land.Repair(f.t.Context(), f.spec(""))
		f.must(err)
		f.want(n == 1)
	}
	for name, again := range map[string]func(*fleet){"next land": byLand, "repair": byRepair} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, broken)
			id := f.order("t-1", nil)
			f.work(id, fixed)
			f.crash("moved")
			tip := ferry.Commit(f.git("rev-parse", "main"))
			if got := f.task(id); got.State != ferry.StateDone || tip == got.Order.Base {
				t.Fatalf("after the crash: %s, main at %s", got.State, tip)
			}
			again(f)
			got := f.task(id)
			if got.State != ferry.StateLanded || got.Landed.Commit != tip || got.Landed.Old != got.Order.Base || got.Landed.Result != got.Standing {
				t.Errorf("task = %s %+v", got.State, got.Landed)
			}
			if n := f.git("rev-list", "--count", "main"); n != "2" {
				t.Errorf("main has %s commits", n)
			}
			if n, err := land.Repair(t.Context(), f.spec("")); n != 0 || err != nil {
				t.Errorf("Repair() with nothing to do = %d, %v", n, err)
			}
		})
	}
}

func TestACrashBeforeTheBranchMoved(t *testing.T) {
	t.Parallel()
	f := newFleet(t, broken)
	id := f.order("t-1", nil)
	f.work(id, fixed)
	f.crash("remembered")
	if n, err := land.Repair(t.Context(), f.spec("")); n != 0 || err != nil || f.task(id).State != ferry.StateDone {
		t.Errorf("Repair() = %d, %v, state %s", n, err, f.task(id).State)
	}
	if left, err := os.ReadDir(f.journal); err != nil || len(left) > 0 {
		t.Errorf("the journal holds %v, %v", left, err)
	}
	if out := f.land("t-1"); out.Decision.Code != land.CodeLand || f.git("rev-list", "--count", "main") != "2" {
		t.Errorf("Land() = %+v", out)
	}
}

func TestACrashAfterTheRecord(t *testing.T) {
	t.Parallel()
	f := newFleet(t, broken)
	id := f.order("t-1", nil)
	f.work(id, fixed)
	f.crash("recorded")
	if left, err := os.ReadDir(f.journal); err != nil || len(left) != 1 || f.task(id).State != ferry.StateLanded {
		t.Errorf("after the crash: state %s, journal %v, %v", f.task(id).State, left, err)
	}
	if n, err := land.Repair(t.Context(), f.spec("")); n != 0 || err != nil {
		t.Errorf("Repair() = %d, %v", n, err)
	}
	if left, err := os.ReadDir(f.journal); err != nil || len(left) > 0 || f.land("t-1").Decision.Code != land.CodeAlreadyLanded {
		t.Errorf("the journal holds %v, %v", left, err)
	}
}

func TestALandedRefWithoutAJournalIsRecorded(t *testing.T) {
	t.Parallel()
	f := newFleet(t, broken)
	id := f.order("t-1", nil)
	task := f.work(id, fixed)
	base := task.Order.Base
	sq, err := f.gate.Squash(t.Context(), worktree.SquashSpec{Commit: task.StandingResult().Result.Commit, Onto: base, Message: "x", When: f.now})
	f.must(err)
	mark := "refs/ferry/landed/" + id.String()
	f.git("fetch", "-q", f.gate.Dir(), string(task.StandingResult().Result.Commit))
	f.git("update-ref", mark, "FETCH_HEAD")
	out := f.land("t-1") // somebody's ref: it is not taken for a landing
	if out.Decision.Code != land.CodeElsewhere || !strings.Contains(out.Decision.Next, "git update-ref -d "+mark) || f.task(id).Landed != nil {
		t.Fatalf("Land() with a ref to another commit = %+v", out)
	}
	f.git("update-ref", "-d", mark)
	f.must(f.gate.Land(t.Context(), worktree.LandSpec{Branch: "main", Old: base, New: sq.Commit, Order: id}))
	if out = f.land("t-1"); out.Decision.Code != land.CodeElsewhere || f.task(id).Landed != nil {
		t.Errorf("Land() with a ref to a commit that names no order = %+v", out)
	}
	f.git("update-ref", "-d", mark)
	f.git("update-ref", "refs/heads/main", string(base))
	f.git("reset", "-q", "--hard")
	f.crash("moved")
	f.must(os.RemoveAll(f.journal))
	out = f.land("t-1")
	if out.Decision.Code != land.CodeAlreadyLanded || f.task(id).State != ferry.StateLanded || f.task(id).Landed.Old != base {
		t.Errorf("Land() = %+v", out)
	}
}

// TestChecksOfAKilledLandingAreSwept kills a landing while it checks the merge: the next one removes what it left.
func TestChecksOfAKilledLandingAreSwept(t *testing.T) {
	t.Parallel()
	f := newFleet(t, broken)
	id := f.order("t-1", nil)
	f.work(id, fixed)
	f.commit(map[string]string{"README": "hello world\n"})
	f.crash("checking")
	if left, err := os.ReadDir(f.scratch); err != nil || len(left) != 1 {
		t.Fatalf("the killed landing left %v, %v", left, err)
	}
	if out := f.land("t-1"); out.Decision.Code != land.CodeLand || out.Warning != "" {
		t.Errorf("Land() = %+v", out)
	}
	if left, err := os.ReadDir(f.scratch); err != nil || len(left) > 0 {
		t.Errorf("it still holds %v, %v", left, err)
	}
}

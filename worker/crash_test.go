package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"log/slog"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/ferrytest"
	"github.com/ferry-fleet/ferry/internal/process"
	"github.com/ferry-fleet/ferry/internal/worktree"
	"github.com/ferry-fleet/ferry/sign"
	"github.com/ferry-fleet/ferry/worker"
)

// child describes a worker that runs in a process of its own, so that the
// test can kill it.
type child struct {
	Folder, State, Gate, Repo, Key, Dir string
	ID                                  ferry.RecordID
	Agent                               ferry.AgentName
	Engine                              engines.Config
	Level                               box.Level
	Slots                               int
	Local                               []ferry.AgentName
	Timing                              worker.Timing
}

// childWorker is the main of that process.
func childWorker() int {
	var c child
	if err := json.Unmarshal([]byte(os.Getenv("FERRY_TEST_WORKER")), &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := c.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (c child) run(ctx context.Context) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ch, err := channel.Open(ctx, channel.Config{Folder: c.Folder, State: c.State, Judge: evidence.Classify, Log: log}, c.ID)
	if err != nil {
		return err
	}
	defer ch.Close()
	key, err := sign.LoadKey(c.Key)
	if err != nil {
		return err
	}
	writer, err := ch.Writer(key)
	if err != nil {
		return err
	}
	gate, err := worktree.OpenGate(ctx, worktree.GateSpec{Dir: c.Gate, Repo: c.Repo, Log: log})
	if err != nil {
		return err
	}
	limits := process.Limits{Pids: 512}
	w, err := worker.New(worker.Config{
		Agent: c.Agent, Machine: "here", Channel: ch, Writer: writer, Gate: gate, Engines: []engines.Config{c.Engine},
		Box: box.Spec{Level: c.Level, Net: box.NetOpen, Limits: limits}, ChecksBox: box.Spec{Level: c.Level, Net: box.NetNone, Limits: limits},
		Caches: filepath.Join(c.Dir, "caches"), Runs: filepath.Join(c.Dir, "runs"), Health: filepath.Join(c.Dir, "health.json"),
		Status: filepath.Join(c.Dir, "status.json"), Pause: filepath.Join(c.Dir, "pause.json"), MaxParallel: c.Slots,
		Timeout: time.Minute, CheckTimeout: time.Minute, Log: log, Local: func() []ferry.AgentName { return c.Local },
		Timing: c.Timing,
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// spawn starts a worker in a process of its own.
func spawn(m *ferrytest.Machine, cfg worker.Config) *process.Proc {
	m.T.Helper()
	cc := m.ChannelConfig()
	c := child{
		Folder: cc.Folder, State: cc.State, Gate: m.Gate.Dir(), Repo: m.Repo, Key: m.KeyPath(cfg.Agent), Dir: filepath.Dir(cfg.Runs),
		ID: m.Channel.ID(), Agent: cfg.Agent, Engine: cfg.Engines[0], Level: m.Level, Slots: cfg.MaxParallel, Local: m.Agents(), Timing: cfg.Timing,
	}
	b, err := json.Marshal(c)
	m.Must(err)
	self, err := os.Executable()
	m.Must(err)
	p, err := process.Start(process.Spec{
		Argv: []string{self}, Env: append(os.Environ(), "FERRY_TEST_WORKER="+string(b)), Stdout: m.T.Output(), Stderr: m.T.Output(),
	})
	m.Must(err)
	m.T.Cleanup(func() { m.Must(p.Kill()) })
	return p
}

// TestKill9InEachPhase kills the worker without warning in every phase of a
// run; the next worker must lose nothing, run nothing twice that had ended,
// and leave no process.
func TestKill9InEachPhase(t *testing.T) {
	tests := []struct {
		phase  worker.Phase
		engine string
		check  string
		runs   int // engine runs in all
	}{
		{worker.PhaseRunning, "echo run >>ran; echo x >kept; test $(wc -l <ran) -gt 1 || sleep 300; echo 42 >answer.txt; echo done\n", "sh check.sh", 2},
		{worker.PhaseKept, "echo run >>ran; echo x >kept; echo 42 >answer.txt; echo done\n", "test -e $FERRY_GATE || sleep 2; sh check.sh", 1},
	}
	for _, tt := range tests {
		t.Run(string(tt.phase), func(t *testing.T) {
			m := ferrytest.New(t, files)
			r := &running{m: m, cfg: config(m, "wisp", m.Engine("e", tt.engine))}
			p := spawn(m, r.cfg)
			m.Order("t-crash", func(o *ferry.Order) { o.Checks = []string{tt.check} })
			m.Eventually("phase "+string(tt.phase), 30*time.Second, func() bool {
				js, _ := worker.ReadJournals(r.cfg.Runs)
				if len(js) != 1 || js[0].Phase != tt.phase {
					return false
				}
				_, err := os.Stat(filepath.Join(r.cfg.Runs, string(js[0].Run), "tree", "work", "kept"))
				return err == nil
			})
			m.Must(syscall.Kill(p.Pid(), syscall.SIGKILL))
			p.Wait()
			start(m, r.cfg)
			task := reaches(m, "t-crash", ferry.StateDone)
			ran := m.Git("show", task.Branch()+":ran")
			if got := len(ran)/len("run\n") + 1; got != tt.runs {
				t.Errorf("the engine ran %d times (%q), want %d", got, ran, tt.runs)
			}
			if got := m.Git("show", task.Branch()+":kept"); got != "x" {
				t.Errorf("what the killed run had written is lost: %q", got)
			}
			if task.Failures != 0 {
				t.Errorf("the crash counted as %d failures", task.Failures)
			}
			r.noSurvivors()
		})
	}
}

// TestKill9AtRandom kills the worker again and again while it does orders.
func TestKill9AtRandom(t *testing.T) {
	m := ferrytest.New(t, files)
	r := &running{m: m, cfg: config(m, "wisp", m.Engine("e", "echo run >>ran; echo 42 >answer.txt; echo done\n"))}
	const orders = 4
	for i := range orders {
		m.Order(fmt.Sprintf("t-%d", i), func(o *ferry.Order) { o.Checks = []string{"sh check.sh"} })
	}
	open := func() (n int) {
		for i := range orders {
			if m.Task(fmt.Sprintf("t-%d", i)).State != ferry.StateDone {
				n++
			}
		}
		return n
	}
	kills := 0
	for wait := 150 * time.Millisecond; open() > 0 && kills < 25; wait += 61 * time.Millisecond {
		p := spawn(m, r.cfg)
		<-time.After(wait % (1300 * time.Millisecond))
		m.Must(syscall.Kill(p.Pid(), syscall.SIGKILL))
		p.Wait()
		kills++
	}
	start(m, r.cfg)
	for i := range orders {
		task := reaches(m, fmt.Sprintf("t-%d", i), ferry.StateDone)
		if task.Failures != 0 || task.Revision != 1 {
			t.Errorf("%s: %d failures, %d results", task.Order.Label, task.Failures, task.Revision)
		}
	}
	t.Logf("%d kills", kills)
	r.noSurvivors()
	report, err := m.Channel.Verify(t.Context())
	m.Must(err)
	if !report.OK {
		t.Errorf("the channel does not verify: %+v", report.Problems)
	}
}

// TestTwoAgentsNeverStartOneOrderTwice lets two workers in two processes take
// the same orders.
func TestTwoAgentsNeverStartOneOrderTwice(t *testing.T) {
	orders := 40
	if n, err := strconv.Atoi(os.Getenv("FERRY_SOAK_ORDERS")); err == nil {
		orders = n
	}
	m := ferrytest.New(t, files)
	engine := m.Engine("quick", "echo 42 >answer.txt; echo done\n")
	var agents []*running
	for _, name := range []ferry.AgentName{"wisp", "gale"} {
		r := &running{m: m, cfg: config(m, name, engine)}
		r.cfg.MaxParallel = 2
		agents = append(agents, r)
	}
	for i := range orders {
		m.Order(fmt.Sprintf("t-%03d", i), nil)
	}
	for _, r := range agents {
		spawn(m, r.cfg)
	}
	by := map[ferry.WriterID]int{}
	for i := range orders {
		var task ferry.Task
		m.Eventually(fmt.Sprintf("order %d done", i), 2*time.Minute, func() bool {
			task = m.Task(fmt.Sprintf("t-%03d", i))
			return task.State == ferry.StateDone
		})
		if len(task.Attempts) != 1 {
			t.Errorf("%s was started %d times", task.Order.Label, len(task.Attempts))
			for _, a := range task.Attempts {
				t.Logf("attempt %d of %s, fenced %v: stop %+v, runs %+v", a.N, a.Holder, a.Fenced, a.Stop, a.Runs)
			}
		}
		by[task.Attempts[0].Holder]++
	}
	t.Logf("soak: %d orders by two agents, %v", orders, by)
	if len(by) != 2 {
		t.Errorf("the work went to %v, want both agents to have some", by)
	}
}

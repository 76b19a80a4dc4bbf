package worker_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/ferrytest"
	"github.com/ferry-fleet/ferry/internal/process"
	"github.com/ferry-fleet/ferry/worker"
)

// files is the repository of these tests: a program whose check fails.
var files = map[string]string{"answer.txt": "41\n", "check.sh": "test \"$(cat answer.txt)\" = 42\n"}

// config gives the configuration of an agent's worker on the machine.
func config(m *ferrytest.Machine, agent ferry.AgentName, engine engines.Config) worker.Config {
	m.T.Helper()
	dir := filepath.Join(m.State, "worker-"+string(agent))
	m.Must(os.MkdirAll(filepath.Join(dir, "runs"), 0o700))
	limits := process.Limits{Pids: 512}
	return worker.Config{
		Agent: agent, Machine: "here", Channel: m.Channel, Writer: m.Agent(agent), Gate: m.Gate, Engines: []engines.Config{engine},
		Box:       box.Spec{Level: m.Level, Net: box.NetOpen, Limits: limits},
		ChecksBox: box.Spec{Level: m.Level, Net: box.NetNone, Limits: limits},
		Caches:    filepath.Join(dir, "caches"), Runs: filepath.Join(dir, "runs"), Health: filepath.Join(dir, "health.json"),
		Status: filepath.Join(dir, "status.json"), Pause: filepath.Join(m.State, "pause.json"), MaxParallel: 1,
		Timeout: time.Minute, CheckTimeout: time.Minute, Log: m.Log,
		Backoff: func(int) time.Duration { return 10 * time.Millisecond }, Local: m.Agents,
	}
}

// running is a worker whose Run goes on until stop is called.
type running struct {
	m    *ferrytest.Machine
	cfg  worker.Config
	stop func()
}

func start(m *ferrytest.Machine, cfg worker.Config) *running {
	m.T.Helper()
	w, err := worker.New(cfg)
	m.Must(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stopped := false
	r := &running{m: m, cfg: cfg, stop: func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			m.T.Error(err)
		}
	}}
	m.T.Cleanup(r.stop)
	return r
}

// reaches waits until the order is in the state.
func reaches(m *ferrytest.Machine, label string, want ferry.State) ferry.Task {
	m.T.Helper()
	var t ferry.Task
	m.Eventually(label+" becomes "+string(want), 30*time.Second, func() bool {
		t = m.Task(label)
		return t.State == want
	})
	return t
}

// journals gives the journals of a worker's runs.
func (r *running) journals() []*worker.Journal {
	r.m.T.Helper()
	js, err := worker.ReadJournals(r.cfg.Runs)
	r.m.Must(err)
	return js
}

// noSurvivors checks that no process of any run of the worker lives.
func (r *running) noSurvivors() {
	r.m.T.Helper()
	for _, j := range r.journals() {
		n, err := process.Sweep(string(j.Run))
		r.m.Must(err)
		if n > 0 {
			r.m.T.Errorf("run %s left %d processes", j.Run, n)
		}
	}
}

func TestMain(m *testing.M) {
	box.Main()
	if os.Getenv("FERRY_TEST_WORKER") != "" {
		os.Exit(childWorker())
	}
	os.Exit(m.Run())
}

// tree gives the tree of the one run that is not closed.
func (r *running) tree() string {
	r.m.T.Helper()
	for _, j := range r.journals() {
		if j.Phase != worker.PhaseClosed {
			return filepath.Join(r.cfg.Runs, string(j.Run), "tree", "work")
		}
	}
	r.m.T.Fatal("no run is open")
	return ""
}

// runsAndWrote waits until the engine has written a file that begins with text.
func (r *running) runsAndWrote(file, text string) {
	r.m.T.Helper()
	r.m.Eventually("the engine writes "+file, 20*time.Second, func() bool {
		for _, j := range r.journals() {
			b, err := os.ReadFile(filepath.Join(r.cfg.Runs, string(j.Run), "tree", "work", file))
			if err == nil && strings.HasPrefix(string(b), text) {
				return true
			}
		}
		return false
	})
}

// gateFile reads a file of a commit that is in the gate.
func gateFile(m *ferrytest.Machine, c ferry.Commit, file string) string {
	m.T.Helper()
	return m.Git("--git-dir="+m.Gate.Dir(), "show", string(c)+":"+file)
}

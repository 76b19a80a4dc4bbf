//go:build soak

package worker_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/ferrytest"
	"github.com/ferry-fleet/ferry/internal/process"
	"github.com/ferry-fleet/ferry/worker"
)

// setting reads a number that scripts/soak passes on.
func setting(t *testing.T, name string, def int) int {
	s := os.Getenv(name)
	if s == "" {
		return def
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: want a number from 1", name, s)
	}
	return n
}

// TestSoakKilledWorkers lets two agents in two processes do many orders while
// one or the other is killed without warning, or asked to stop, again and
// again. Every order must be done, once; no process may survive; no commit
// that a run left may be lost.
func TestSoakKilledWorkers(t *testing.T) {
	orders := setting(t, "FERRY_SOAK_ORDERS", 200)
	limit := time.Duration(setting(t, "FERRY_SOAK_MINUTES", 10)) * time.Minute
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("soak: seed %d", seed)
	m := ferrytest.New(t, files)
	engine := m.Engine("e", "echo run >>ran; (setsid sleep 120 &); echo 42 >answer.txt; sleep 0.2; echo done\n")
	var agents []*running
	for _, name := range []ferry.AgentName{"wisp", "gale"} {
		r := &running{m: m, cfg: config(m, name, engine)}
		r.cfg.MaxParallel = 2
		agents = append(agents, r)
	}
	for i := range orders {
		m.Order(fmt.Sprintf("t-%04d", i), func(o *ferry.Order) { o.Checks = []string{"sh check.sh"} })
	}
	begin := time.Now()
	procs := []*process.Proc{spawn(m, agents[0].cfg), spawn(m, agents[1].cfg)}
	kills, stops := 0, 0
	for time.Since(begin) < limit && left(m, orders) > 0 {
		<-time.After(time.Duration(2000+rng.IntN(6000)) * time.Millisecond)
		i := rng.IntN(2)
		if rng.IntN(3) == 0 {
			stops++
			m.Must(syscall.Kill(procs[i].Pid(), syscall.SIGTERM))
		} else {
			kills++
			m.Must(syscall.Kill(procs[i].Pid(), syscall.SIGKILL))
		}
		procs[i].Wait()
		procs[i] = spawn(m, agents[i].cfg)
	}
	m.Eventually("every order is done", limit, func() bool { return left(m, orders) == 0 })
	took := time.Since(begin)
	for _, p := range procs {
		m.Must(syscall.Kill(p.Pid(), syscall.SIGTERM))
		p.Wait()
	}
	t.Logf("soak: %d orders in %s, %d kill -9, %d stops", orders, took.Round(time.Second), kills, stops)
	audit(m, agents, orders)
}

func left(m *ferrytest.Machine, orders int) (n int) {
	for i := range orders {
		if m.Task(fmt.Sprintf("t-%04d", i)).State != ferry.StateDone {
			n++
		}
	}
	return n
}

// audit counts what must be zero.
func audit(m *ferrytest.Machine, agents []*running, orders int) {
	m.T.Helper()
	lost, twice, attempts := 0, 0, 0
	for i := range orders {
		task := m.Task(fmt.Sprintf("t-%04d", i))
		attempts += len(task.Attempts)
		if task.Revision != 1 || task.Failures != 0 {
			twice++
		}
		for _, a := range task.Attempts {
			for _, r := range a.Runs {
				if r.Commit != "" && !m.Gate.Has(m.T.Context(), r.Commit) {
					lost++
				}
			}
		}
	}
	survivors := 0
	for _, r := range agents {
		js, err := worker.ReadJournals(r.cfg.Runs)
		m.Must(err)
		for _, j := range js {
			n, err := process.Sweep(string(j.Run))
			m.Must(err)
			survivors += n
		}
	}
	report, err := m.Channel.Verify(m.T.Context())
	m.Must(err)
	m.T.Logf("soak: %d attempts; survivors %d; commits lost %d; orders with more than one result or a counted failure %d; channel ok %v with %d records",
		attempts, survivors, lost, twice, report.OK, report.Records)
	if survivors+lost+twice > 0 || !report.OK {
		m.T.Errorf("problems: %+v", report.Problems)
	}
}

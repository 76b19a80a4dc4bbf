package worker_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/internal/ferrytest"
	"github.com/ferry-fleet/ferry/sign"
	"github.com/ferry-fleet/ferry/worker"
)

// TestKill9BetweenClaimAndStart kills the worker twice while its claim settles: each time the next process gives that claim
// back, and the order is started once.
func TestKill9BetweenClaimAndStart(t *testing.T) {
	slow := worker.Timing{Beat: 2 * time.Second, Settle: time.Second, MaxSettle: time.Second, Lapse: time.Minute, Quiet: time.Minute}
	all, cfgs := machines(t, false, slow, "wisp", "gale")
	m := all[0]
	id := m.Order("t-claimed", nil)
	seen := map[ferry.RecordID]bool{}
	for range 2 {
		p := spawn(m, cfgs[0])
		m.Eventually("another claim", 30*time.Second, func() bool {
			task := m.Task("t-claimed")
			if len(task.Claims) != 1 || seen[task.Claims[0].ID] {
				return false
			}
			seen[task.Claims[0].ID] = true
			return true
		})
		m.Must(syscall.Kill(p.Pid(), syscall.SIGKILL))
		p.Wait()
	}
	cfgs[0].Timing.Settle, cfgs[0].Timing.MaxSettle = 50*time.Millisecond, 50*time.Millisecond
	start(m, cfgs[0])
	task := reaches(m, "t-claimed", ferry.StateDone)
	if len(task.Attempts) != 1 || task.Failures != 0 {
		t.Errorf("attempts %+v, %d failures; want one attempt", task.Attempts, task.Failures)
	}
	ledger, err := m.Channel.Records(t.Context(), id)
	m.Must(err)
	claims, back := 0, 0
	for _, e := range ledger {
		switch b := e.Body.(type) {
		case *ferry.Claim:
			claims++
		case *ferry.Stop:
			if seen[b.Claim] {
				back++
			}
		}
	}
	if claims != 3 || back != 2 {
		t.Errorf("%d claims, %d given back; want 3 and the 2 of the processes that died", claims, back)
	}
}

// TestKill9BetweenStartAndEngine is a start that is durable while nothing runs for it yet: the next processes, of which the
// first is killed as well, close it as an orphan and begin again, however far the run directory had come.
func TestKill9BetweenStartAndEngine(t *testing.T) {
	m := ferrytest.New(t, files)
	r := &running{m: m, cfg: config(m, "wisp", m.Engine("e", "echo run >>ran; echo 42 >answer.txt; echo done\n"))}
	r.cfg.MaxParallel = 4
	phases := map[string]worker.Phase{"no-directory": "", "no-journal": "", "made": worker.PhaseMade, "running": worker.PhaseRunning}
	for label, phase := range phases {
		id := m.Order(label, nil)
		_, begun, err := r.cfg.Writer.Begin(t.Context(), time.Now(), channel.BeginSpec{
			Order: id, Attempt: 1, Start: ferry.Start{Engine: "script", Sandbox: string(m.Level)},
		})
		m.Must(err)
		if label == "no-directory" {
			continue
		}
		base := m.Task(label).Order.Base
		j := worker.Journal{
			Run: ferry.NewRunID(), Order: id, Label: ferry.Label(label), Start: begun, Attempt: 1, N: 1, Engine: "script",
			Base: base, From: base, Phase: phase, Started: time.Now(),
		}
		dir := filepath.Join(r.cfg.Runs, string(j.Run))
		m.Must(os.MkdirAll(filepath.Join(dir, "in"), 0o700))
		if phase != "" {
			b, err := json.Marshal(j)
			m.Must(err)
			m.Must(os.WriteFile(filepath.Join(dir, worker.JournalFile), b, 0o600))
		}
	}
	p := spawn(m, r.cfg)
	m.Eventually("an orphan is closed", 30*time.Second, func() bool {
		for label := range phases {
			if m.Task(label).Attempts[0].Stop != nil {
				return true
			}
		}
		return false
	})
	m.Must(syscall.Kill(p.Pid(), syscall.SIGKILL))
	p.Wait()
	start(m, r.cfg)
	for label := range phases {
		task := reaches(m, label, ferry.StateDone)
		if n := len(task.Attempts); n < 2 || n > 3 || task.Attempts[0].Stop.Reason != ferry.StopOrphan || task.Failures != 0 || task.Revision != 1 {
			t.Errorf("%s: %d failures, %d results, attempts %+v; want an orphan and one result", label, task.Failures, task.Revision, task.Attempts)
		}
		if got := m.Git("show", task.Branch()+":answer.txt"); got != "42" {
			t.Errorf("%s: the branch holds %q", label, got)
		}
	}
	r.noSurvivors()
}

// TestWorkerOnABackup starts a worker twice on an old copy of its machine's store: it begins nothing, signs nothing and says
// why; with the key that the master gives it, it does the order.
func TestWorkerOnABackup(t *testing.T) {
	all, cfgs := machines(t, false, worker.Timing{Beat: 200 * time.Millisecond, Settle: 50 * time.Millisecond}, "wisp", "gale")
	m, gale := all[0], all[1]
	write(gale, cfgs[1].Writer, 1)
	m.Must(os.CopyFS(filepath.Join(m.Dir, "state-old", "store"), os.DirFS(gale.ChannelConfig().State)))
	write(gale, cfgs[1].Writer, 3)
	old := m.Beside("old", "")
	key, err := sign.LoadKey(gale.KeyPath("gale"))
	m.Must(err)
	id := m.Order("t-old", func(o *ferry.Order) { o.To = "gale" })
	for round := range 2 {
		r := start(old, onBackup(old, cfgs[1], key, fmt.Sprint("runs-", round)))
		m.Eventually("a hold that says what to do", 30*time.Second, func() bool {
			s, err := worker.ReadStatus(r.cfg.Status)
			if err != nil {
				return false
			}
			for _, h := range s.Holds {
				if h.Order == id {
					return strings.Contains(h.Reason, "ferry channel rejoin")
				}
			}
			return false
		})
		r.stop()
	}
	if n := len(inFolder(m, cfgs[1].Writer, "t", "*.fr")); n != 4 {
		t.Fatalf("%d records of the writer are in the folder, want the 4 from before", n)
	}
	_, err = m.Channel.Refresh(t.Context())
	m.Must(err)
	var last ferry.RecordID
	ledger, err := m.Channel.Ledger(t.Context(), 0)
	m.Must(err)
	for _, e := range ledger {
		if e.Writer == cfgs[1].Writer.ID() && e.Seq == 4 {
			last = e.ID
		}
	}
	next := newKey(m)
	_, err = m.Operator.Update(t.Context(), time.Now(), func(tx *channel.Tx) error {
		_, err := tx.Add(&ferry.Readmit{
			Writer: cfgs[1].Writer.ID(), Epoch: 2, Key: next.Public().String(), Keep: ferry.Cut{Epoch: 1, Seq: 4, ID: last},
		})
		return err
	})
	m.Must(err)
	_, err = old.Channel.Refresh(t.Context())
	m.Must(err)
	start(old, onBackup(old, cfgs[1], next, "runs-next"))
	if task := reaches(m, "t-old", ferry.StateDone); len(task.Attempts) != 1 {
		t.Errorf("attempts %+v", task.Attempts)
	}
	report, err := m.Channel.Verify(t.Context())
	m.Must(err)
	if !report.OK {
		t.Errorf("the channel does not verify: %+v", report.Problems)
	}
}

// onBackup makes a configuration like another one for the store of a machine.
func onBackup(m *ferrytest.Machine, cfg worker.Config, key sign.Key, name string) worker.Config {
	m.T.Helper()
	dir := filepath.Join(m.State, name)
	m.Must(os.MkdirAll(dir, 0o700))
	w, err := m.Channel.Writer(key)
	m.Must(err)
	cfg.Channel, cfg.Writer, cfg.Gate, cfg.Runs = m.Channel, w, m.Gate, dir
	cfg.Status, cfg.Health = filepath.Join(dir, "status.json"), filepath.Join(dir, "health.json")
	return cfg
}

func newKey(m *ferrytest.Machine) sign.Key {
	m.T.Helper()
	k, err := sign.GenerateKey(rand.Reader)
	m.Must(err)
	return k
}

package worker_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/ferrytest"
	"github.com/ferry-fleet/ferry/internal/process"
	"github.com/ferry-fleet/ferry/worker"
)

// machines makes a fleet on one folder, or with a folder for each: a worker's configuration for each name.
func machines(t *testing.T, apart bool, timing worker.Timing, names ...ferry.AgentName) (all []*ferrytest.Machine, cfgs []worker.Config) {
	t.Helper()
	first := ferrytest.New(t, files)
	for i, name := range names {
		m := first
		if i > 0 {
			folder := first.Folder
			if apart {
				folder = filepath.Join(first.Dir, "folder-"+string(name))
				ferrytest.Carry(first, &ferrytest.Machine{T: t, Folder: folder})
			}
			m = first.Beside(string(name), folder)
		}
		all = append(all, m)
	}
	for i, name := range names {
		admit(all, i, name)
		cfg := config(all[i], name, first.Engine("fix", fix))
		cfg.Timing, cfg.Machine = timing, string(name)+"-box"
		cfgs = append(cfgs, cfg)
	}
	ferrytest.Carry(all...)
	return all, cfgs
}

// admit lets the agent of a machine in, and carries that to it.
func admit(all []*ferrytest.Machine, i int, name ferry.AgentName) {
	all[i].NewAgent(name)
	ferrytest.Carry(all...)
}

// TestMachinesStartAnOrderOnce lets three machines on one folder take the same orders.
func TestMachinesStartAnOrderOnce(t *testing.T) {
	all, cfgs := machines(t, false, worker.Timing{Beat: 400 * time.Millisecond, MinSettle: time.Second, Lapse: time.Minute}, "wisp", "gale", "moon")
	m := all[0]
	for i := range all {
		start(all[i], cfgs[i])
	}
	const orders = 6
	for i := range orders {
		m.Order(fmt.Sprintf("t-%d", i), nil)
	}
	by := map[ferry.WriterID]int{}
	for i := range orders {
		task := reaches(m, fmt.Sprintf("t-%d", i), ferry.StateDone)
		if len(task.Attempts) != 1 {
			t.Errorf("%s was started %d times: %+v", task.Order.Label, len(task.Attempts), task.Attempts)
		}
		by[task.Attempts[0].Holder]++
	}
	t.Logf("%d orders by %v", orders, by)
}

// TestDeadMachine kills the machine that runs an order: after its silence another goes on with the next attempt.
func TestDeadMachine(t *testing.T) {
	timing := worker.Timing{Beat: 250 * time.Millisecond, MinSettle: 300 * time.Millisecond, Settle: 300 * time.Millisecond, Lapse: 3 * time.Second, Quiet: time.Minute}
	all, cfgs := machines(t, false, timing, "wisp", "gale", "moon")
	m := all[0]
	dying := &running{m: all[1], cfg: cfgs[1]}
	dying.cfg.Engines[0] = m.Engine("slow", "printf 'looking \\033[31maround\\n'; echo x >begun; sleep 300\n")
	p := spawn(all[1], dying.cfg)
	t.Cleanup(func() { sweep(dying) })
	m.Order("t-dead", nil)
	dying.runsAndWrote("begun", "x")
	start(m, cfgs[0])
	start(all[2], cfgs[2])
	m.Eventually("a hold that names the holder", 20*time.Second, func() bool {
		s, err := worker.ReadStatus(cfgs[0].Status)
		return err == nil && slices.ContainsFunc(s.Holds, func(h worker.HoldStatus) bool {
			return len(h.Reason) > 20 && h.Reason[:20] == "held by gale on here"
		})
	})
	m.Eventually("the last lines of its engine in its beat", 20*time.Second, func() bool {
		b := m.Channel.Beats()[dying.cfg.Writer.ID()]
		return slices.Equal(b.Lines, []string{"looking [31maround"}) && len(b.Running) == 1 && b.Slots == 0
	})
	m.Must(syscall.Kill(p.Pid(), syscall.SIGKILL))
	p.Wait()
	killed := time.Now()
	task := reaches(m, "t-dead", ferry.StateDone)
	t.Logf("done %s after the kill", time.Since(killed))
	if len(task.Attempts) != 2 || !task.Attempts[0].Fenced || task.Attempts[1].N != 2 || task.Failures != 0 {
		t.Errorf("attempts %+v, %d failures; want the first fenced and a second", task.Attempts, task.Failures)
	}
	if time.Since(killed) < timing.Lapse/2 {
		t.Errorf("it was taken over after %s, before the silence was over", time.Since(killed))
	}
}

func sweep(r *running) {
	for _, j := range r.journals() {
		_, err := process.Sweep(string(j.Run))
		r.m.Must(err)
	}
}

// TestPartitionEndsWithOneResult lets two machines that cannot hear each other do one order, and then joins their folders.
func TestPartitionEndsWithOneResult(t *testing.T) {
	all, cfgs := machines(t, true, worker.Timing{Beat: 200 * time.Millisecond, Lapse: time.Minute}, "wisp", "gale")
	all[0].Order("t-both", func(o *ferry.Order) { o.Checks = []string{"sh check.sh"} })
	ferrytest.Carry(all...)
	for i := range all {
		start(all[i], cfgs[i])
	}
	for _, m := range all {
		if task := reaches(m, "t-both", ferry.StateDone); len(task.Attempts) != 1 {
			t.Fatalf("attempts %+v, want that of one machine", task.Attempts)
		}
	}
	tasks := make([]ferry.Task, len(all))
	all[0].Eventually("both know both results", 20*time.Second, func() bool {
		ferrytest.Carry(all...)
		both := true
		for i, m := range all {
			tasks[i] = m.Task("t-both")
			both = both && len(tasks[i].Results) == 2
		}
		return both
	})
	for _, task := range tasks {
		if task.State != ferry.StateDone || len(task.Results) != 2 || task.Standing != tasks[0].Standing || task.Standing != task.Results[0].ID {
			t.Errorf("state %s, %d results, %s stands; want done, two, and the same everywhere", task.State, len(task.Results), task.Standing.Short())
		}
	}
}

// TestPartitionFencesOneRun joins the folders while both machines run the order: one of them stops, the other hands in.
func TestPartitionFencesOneRun(t *testing.T) {
	all, cfgs := machines(t, true, worker.Timing{Beat: 200 * time.Millisecond, Lapse: time.Minute}, "wisp", "gale")
	for i := range cfgs {
		cfgs[i].Engines[0] = all[0].Engine("until", "echo x >begun; while ! test -e go; do sleep 0.05; done; echo 42 >answer.txt; echo done\n")
	}
	all[0].Order("t-both", nil)
	ferrytest.Carry(all...)
	runs := make([]*running, 2)
	for i := range all {
		runs[i] = start(all[i], cfgs[i])
		runs[i].runsAndWrote("begun", "x")
	}
	var task ferry.Task
	all[0].Eventually("one of them stops", 30*time.Second, func() bool {
		ferrytest.Carry(all...)
		task = all[0].Task("t-both")
		return len(task.Attempts) == 2 && (task.Attempts[0].Stop != nil || task.Attempts[1].Stop != nil)
	})
	stopped, going := task.Attempts[0], task.Attempts[1]
	if stopped.Stop == nil {
		stopped, going = going, stopped
	}
	if stopped.Stop.Reason != ferry.StopFenced || going.Stop != nil || task.Live != going.Start {
		t.Fatalf("attempts %+v; want one fenced, and the other the holder", task.Attempts)
	}
	for _, r := range runs {
		if r.cfg.Writer.ID() == going.Holder {
			r.m.Write(r.tree(), map[string]string{"go": "x"})
		}
	}
	all[0].Eventually("done", 30*time.Second, func() bool {
		ferrytest.Carry(all...)
		task = all[0].Task("t-both")
		return task.State == ferry.StateDone
	})
	if len(task.Results) != 1 {
		t.Errorf("%d results, want one", len(task.Results))
	}
}

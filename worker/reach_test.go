package worker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/worker"
)

// awayTiming is that of the tests that move the folder away.
var awayTiming = worker.Timing{
	Beat: 300 * time.Millisecond, Settle: 400 * time.Millisecond, MinSettle: 400 * time.Millisecond, Lapse: 3 * time.Second, Quiet: time.Minute,
}

// holdsNamed waits until the status of a worker says why it begins nothing.
func (r *running) holdsNamed(part string) {
	r.m.T.Helper()
	r.m.Eventually("a status that says "+part, 20*time.Second, func() bool {
		s, err := worker.ReadStatus(r.cfg.Status)
		return err == nil && strings.Contains(s.Stopped, part)
	})
}

// TestFolderAway moves the folder away under two workers and gives each of them the same order: neither begins it, and when
// the folder is back it is started once.
func TestFolderAway(t *testing.T) {
	for _, before := range []string{"before the claims", "after the order"} {
		t.Run(before, func(t *testing.T) {
			all, cfgs := machines(t, false, awayTiming, "wisp", "gale")
			m := all[0]
			runs := []*running{start(all[0], cfgs[0]), start(all[1], cfgs[1])}
			m.Eventually("both are heard", 20*time.Second, func() bool {
				_, err := m.Channel.Refresh(t.Context())
				m.Must(err)
				return len(m.Channel.Beats()) == 2
			})
			away := func() { m.Must(os.Rename(m.Folder, m.Folder+".off")) }
			if before == "before the claims" {
				m.Order("t-away", nil)
				away() // both have it, or will see it: nobody has settled a claim
			} else {
				away()
				for _, r := range runs {
					r.holdsNamed("nothing is begun until it can")
				}
			}
			for _, r := range runs {
				r.holdsNamed("the folder " + m.Folder + " cannot be written")
			}
			quiet := time.NewTimer(5 * awayTiming.Settle)
			<-quiet.C
			for i, r := range runs {
				if left := r.journals(); len(left) != 0 {
					t.Errorf("%s began %d runs without a folder", cfgs[i].Agent, len(left))
				}
			}
			m.Must(os.Rename(m.Folder+".off", m.Folder))
			if before != "before the claims" {
				m.Order("t-away", nil)
			}
			task := reaches(m, "t-away", ferry.StateDone)
			if len(task.Attempts) != 1 || len(runs[0].journals())+len(runs[1].journals()) != 1 {
				t.Errorf("attempts %+v; want one", task.Attempts)
			}
		})
	}
}

// TestFolderAwayUnderARun: what runs is ended before others can take it for gone.
func TestFolderAwayUnderARun(t *testing.T) {
	all, cfgs := machines(t, false, awayTiming, "wisp", "gale")
	m := all[0]
	cfgs[0].Engines[0] = m.Engine("slow", "echo x >begun; sleep 300\n")
	r := start(m, cfgs[0])
	m.Order("t-run", func(o *ferry.Order) { o.To = "wisp" })
	r.runsAndWrote("begun", "x")
	m.Must(os.Rename(m.Folder, m.Folder+".off"))
	m.Eventually("the run is ended", 20*time.Second, func() bool {
		task := m.Task("t-run")
		return len(task.Attempts) == 1 && task.Attempts[0].Stop != nil
	})
	if stop := m.Task("t-run").Attempts[0].Stop; stop.Reason != ferry.StopFenced {
		t.Errorf("it stopped as %s", stop.Reason)
	}
	m.Must(os.Rename(m.Folder+".off", m.Folder))
	r.stop()
	r.noSurvivors()
}

// TestBeatBehindADirectory: a directory that stands in the place of the beat is named in the status.
func TestBeatBehindADirectory(t *testing.T) {
	all, cfgs := machines(t, false, awayTiming, "wisp", "gale")
	m := all[0]
	beat := filepath.Join(m.Folder, "w", string(cfgs[0].Writer.ID()), "beat")
	m.Must(os.MkdirAll(filepath.Join(beat, "kept"), 0o700))
	r := start(m, cfgs[0])
	r.holdsNamed("move it away")
	m.Must(os.RemoveAll(beat))
	m.Order("t-first", nil)
	reaches(m, "t-first", ferry.StateDone)
}

// TestShutOut takes the key of a running worker back: its status says so once, and what to do.
func TestShutOut(t *testing.T) {
	all, cfgs := machines(t, false, awayTiming, "wisp", "gale")
	m := all[0]
	r := start(all[1], cfgs[1])
	m.Eventually("it is heard", 20*time.Second, func() bool {
		_, err := m.Channel.Refresh(t.Context())
		m.Must(err)
		return len(m.Channel.Beats()) == 1
	})
	_, err := m.Operator.Update(t.Context(), time.Now(), func(tx *channel.Tx) error {
		_, err := tx.Add(&ferry.Revoke{Writer: cfgs[1].Writer.ID(), Reason: "it is gone"})
		return err
	})
	m.Must(err)
	r.holdsNamed("the master has taken this worker's key back")
	r.holdsNamed("`ferry channel rejoin gale`")
}

package worker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/internal/ferrytest"
	"github.com/ferry-fleet/ferry/worker"
)

// write makes a writer write so many records at once.
func write(m *ferrytest.Machine, w *channel.Writer, n int) {
	m.T.Helper()
	_, err := w.Update(m.T.Context(), time.Now(), func(tx *channel.Tx) error {
		for i := range n {
			if _, err := tx.Add(&ferry.Note{Kind: "x", Text: fmt.Sprint(i)}); err != nil {
				return err
			}
		}
		return nil
	})
	m.Must(err)
}

// inFolder gives the files of a kind that a writer has in the folder of a machine.
func inFolder(m *ferrytest.Machine, w *channel.Writer, dir, pattern string) []string {
	m.T.Helper()
	names, err := filepath.Glob(filepath.Join(m.Folder, "w", string(w.ID()), dir, pattern))
	m.Must(err)
	return names
}

// pass makes workers pass once, each at the same time.
func pass(t *testing.T, now time.Time, all ...*worker.Worker) {
	t.Helper()
	for _, w := range all {
		if err := w.Pass(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
}

// Two machines that work beside each other pack their records: when the other has said in its beat that it has the seal the
// loose files go, and a third machine that comes then reads everything from the pack.
func TestWorkersSeal(t *testing.T) {
	all, cfgs := machines(t, true, worker.Timing{}, "wisp", "gale")
	for i := range cfgs {
		cfgs[i].Seal = time.Nanosecond
		clock := time.Hour
		cfgs[i].Clock = func() worker.Clock { clock += 10 * time.Minute; return worker.Clock{Mono: clock, Boot: clock} }
		write(all[i], cfgs[i].Writer, 300)
	}
	workers := make([]*worker.Worker, len(all))
	for i := range cfgs {
		var err error
		workers[i], err = worker.New(cfgs[i])
		all[0].Must(err)
	}
	now := time.Now()
	pass(t, now, workers...)
	for i, m := range all {
		if packs, loose := inFolder(m, cfgs[i].Writer, "p", "*.fp"), inFolder(m, cfgs[i].Writer, "t", "*.fr"); len(packs) != 1 || len(loose) != 301 {
			t.Fatalf("%s: %d packs and %d loose files before anybody has the seal, want 1 and 301", cfgs[i].Agent, len(packs), len(loose))
		}
	}
	for range 2 { // the first pass reads the seals and says so, the second hears of it
		ferrytest.Carry(all...)
		pass(t, now, workers...)
	}
	for i, m := range all {
		if loose := inFolder(m, cfgs[i].Writer, "t", "*.fr"); len(loose) != 1 {
			t.Errorf("%s: %d loose files are left, want the seal alone", cfgs[i].Agent, len(loose))
		}
	}
	third := freshMachine(all, cfgs)
	want, err := all[0].Channel.Verify(t.Context())
	all[0].Must(err)
	got, err := third.Channel.Verify(t.Context())
	third.Must(err)
	if !want.OK || !got.OK || got.Records != want.Records || got.Digest != want.Digest || got.Records < 602 {
		t.Errorf("the third machine has %d records, digest %s, %+v; want %d, %s, %+v", got.Records, got.Digest, got.Problems, want.Records, want.Digest, want.Problems)
	}
}

// freshMachine makes a machine whose folder has what each of the others has of its own writer, as when the carrier has also
// brought what was removed.
func freshMachine(all []*ferrytest.Machine, cfgs []worker.Config) *ferrytest.Machine {
	folder := filepath.Join(all[0].Dir, "folder-third")
	for i, m := range all {
		for j := range cfgs {
			if i != j { // removals travel
				m.Must(os.RemoveAll(filepath.Join(m.Folder, "w", string(cfgs[j].Writer.ID()), "t")))
			}
		}
	}
	ferrytest.Carry(append(slices.Clone(all), &ferrytest.Machine{T: all[0].T, Folder: folder})...)
	return all[0].Beside("third", folder)
}

// What keeps a worker from packing is in its status, and its work goes on.
func TestSealFails(t *testing.T) {
	m := ferrytest.New(t, files)
	cfg := config(m, "wisp", m.Engine("fix", fix))
	write(m, cfg.Writer, 300)
	packs := filepath.Join(m.Folder, "w", string(cfg.Writer.ID()), "p")
	m.Must(os.WriteFile(packs, nil, 0o644)) // a file holds the name of the directory
	r := start(m, cfg)
	m.Order("t-first", nil)
	reaches(m, "t-first", ferry.StateDone)
	m.Eventually("a hold that says so", 20*time.Second, func() bool {
		s, err := worker.ReadStatus(r.cfg.Status)
		return err == nil && len(s.Holds) == 1 && strings.Contains(s.Holds[0].Reason, "cannot be packed")
	})
}

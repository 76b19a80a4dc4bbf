package fleettests_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// plan says what a test does to its fleet.
type plan struct {
	machines, orders int
	kills            int           // at most; 0 means as many as come
	busy             bool          // only workers that run something are killed
	pause            time.Duration // between two kills, and as much again at random
	work             time.Duration // how long workers are killed; as long again, nobody is
	lands            int           // how many of the orders land
}

// setting reads a number that scripts/soak passes on.
func setting(t *testing.T, name string, def uint64) uint64 {
	s := os.Getenv(name)
	if s == "" {
		return def
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: want a number from 1", name, s)
	}
	return n
}

func label(i int) string { return fmt.Sprintf("t-%04d", i) }

// run gives the orders, ends workers while they work, and counts everything at the end.
func (p plan) run(t *testing.T) {
	t.Helper()
	seed := setting(t, "FERRY_SOAK_SEED", uint64(time.Now().UnixNano()))
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("soak: %d machines, FERRY_SOAK_SEED=%d", p.machines, seed)
	f := newFleet(t, p.machines)
	begin := time.Now()
	for i := range p.orders {
		args := []string{"channel", "order", "--id", label(i), "--task", "write " + label(i) + ".txt", "--check", `test "$(tail -n 1 ` + label(i) + `.txt)" = done`}
		if i < p.lands {
			args = append(args, "--requires-review")
		}
		f.machines[0].Ferry(0, args...)
	}
	t.Logf("soak: %d orders given in %s", p.orders, time.Since(begin).Round(time.Second))
	begin = time.Now()
	for _, m := range f.machines {
		m.work()
	}
	kills := p.disturb(f, rng, begin)
	if kills[syscall.SIGKILL] == 0 {
		t.Error("no worker was killed")
	}
	calm := time.Now()
	for left := f.left(p.orders); left > 0; left = f.left(p.orders) {
		if time.Since(calm) > p.work {
			t.Fatalf("%d of %d orders are not done after %s with kills and %s without:\n%s", left, p.orders, calm.Sub(begin), p.work,
				f.machines[0].Ferry(0, "channel", "tasks"))
		}
		<-time.After(time.Second)
	}
	took := time.Since(begin)
	for _, m := range f.machines {
		m.end(syscall.SIGTERM)
	}
	if alive := f.survivors(); len(alive) > 0 {
		t.Errorf("processes of engines survive: %v", alive)
	}
	t.Logf("soak: %d orders in %s, %d kill -9, %d stops, the last %s without", p.orders, took.Round(time.Second),
		kills[syscall.SIGKILL], kills[syscall.SIGTERM], time.Since(calm).Round(time.Second))
	f.audit(p.orders)
	f.land(p.lands)
	f.verify()
}

// disturb ends one worker or another and starts it again, until the orders are done or the time is over.
func (p plan) disturb(f *fleet, rng *rand.Rand, begin time.Time) map[syscall.Signal]int {
	kills := map[syscall.Signal]int{}
	for n := 0; (p.kills == 0 || n < p.kills) && time.Since(begin) < p.work && f.left(p.orders) > 0; n++ {
		<-time.After(p.pause + time.Duration(rng.Int64N(int64(p.pause))))
		m, signal := f.machines[rng.IntN(len(f.machines))], syscall.SIGKILL
		if p.busy {
			if m = f.busy(); m == nil {
				break
			}
		}
		if n > 0 && rng.IntN(3) == 0 {
			signal = syscall.SIGTERM
		}
		m.end(signal)
		kills[signal]++
		m.work()
	}
	return kills
}

// left counts the orders that have no result yet.
func (f *fleet) left(orders int) int {
	f.Helper()
	var got struct{ Tasks []struct{ State string } }
	f.machines[0].JSON(&got, "channel", "tasks", "--state", "done", "--state", "awaiting_review", "--limit", strconv.Itoa(orders), "--json")
	return orders - len(got.Tasks)
}

// busy waits for a machine that runs an order; nil when none does.
func (f *fleet) busy() *computer {
	f.Helper()
	for range 100 {
		var got struct{ Tasks []struct{ Holder string } }
		f.machines[0].JSON(&got, "channel", "tasks", "--state", "running", "--json")
		for _, task := range got.Tasks {
			for _, m := range f.machines {
				if task.Holder == m.name {
					return m
				}
			}
		}
		<-time.After(100 * time.Millisecond)
	}
	return nil
}

// shown is what is read of `channel show --json`.
type shown struct {
	Task     struct{ ID, State, Landed string }
	Attempts []struct {
		N            int64
		Holder, Stop string
	}
	Results []struct{ Standing bool }
	Ledger  []struct {
		Type, Writer, Says string
		Time               time.Time
		Counted            bool
	}
}

// audit counts what must be one for every order, and how long what a killed worker held had to wait.
func (f *fleet) audit(orders int) {
	f.Helper()
	attempts, most, double := 0, 0, 0
	stops, by := map[string]int{}, map[string]int{}
	var waits []time.Duration
	for i := range orders {
		var s shown
		f.machines[0].JSON(&s, "channel", "show", label(i), "--json")
		if len(s.Results) != 1 || !s.Results[0].Standing {
			f.Errorf("%s has the results %+v, want one that stands", label(i), s.Results)
		}
		numbers := map[int64]bool{}
		for _, a := range s.Attempts {
			if numbers[a.N] {
				double++
				f.Errorf("%s was started twice as attempt %d", label(i), a.N)
			}
			numbers[a.N] = true
			if a.Stop != "" {
				stops[a.Stop]++
			}
		}
		attempts, most = attempts+len(s.Attempts), max(most, len(s.Attempts))
		if n := len(s.Attempts); n > 0 {
			by[s.Attempts[n-1].Holder]++
		}
		waits = append(waits, f.waits(&s)...)
	}
	f.Logf("soak: %d attempts for %d orders, %.2f starts per order, at most %d; double starts %d; stops %v; done by %v",
		attempts, orders, float64(attempts)/float64(orders), most, double, stops, by)
	if len(waits) > 0 {
		slices.Sort(waits)
		f.Logf("soak: %d orphans were stopped after their worker was started again: median %s, at most %s", len(waits),
			waits[len(waits)/2].Round(100*time.Millisecond), waits[len(waits)-1].Round(100*time.Millisecond))
	}
}

// waits gives how long after its start a worker has said of each orphan that it stops it.
func (f *fleet) waits(s *shown) (out []time.Duration) {
	for _, r := range s.Ledger {
		if r.Type != "stop" || !strings.HasPrefix(r.Says, "stops: orphan") {
			continue
		}
		for _, m := range f.machines {
			last := time.Time{}
			for _, at := range m.begun {
				if m.name == r.Writer && !at.After(r.Time) {
					last = at
				}
			}
			if !last.IsZero() {
				out = append(out, r.Time.Sub(last))
			}
		}
	}
	return out
}

// land accepts and lands the first orders, each by two commands at the same moment, and counts what the remote has.
func (f *fleet) land(orders int) {
	f.Helper()
	m := f.machines[0]
	for i := range orders {
		m.Ferry(0, "channel", "review", label(i), "--accept")
		var both sync.WaitGroup
		var landed [2]error
		for n := range landed {
			both.Go(func() {
				_, landed[n] = m.Try(0, "channel", "land", label(i))
			})
		}
		both.Wait()
		for _, err := range landed {
			if err != nil {
				f.Errorf("land %s twice at once: %v", label(i), err)
			}
		}
	}
	commits, err := strconv.Atoi(strings.TrimSpace(m.Run("git", "--git-dir="+f.remote, "rev-list", "--count", "main")))
	f.must(err)
	files := map[string]bool{}
	for name := range strings.FieldsSeq(m.Run("git", "--git-dir="+f.remote, "ls-tree", "--name-only", "main")) {
		files[name] = true
	}
	delete(files, "notes.txt")
	if commits != orders+1 || len(files) != orders {
		f.Errorf("the remote has %d commits after the first and the files %v, want %d of each", commits-1, slices.Sorted(maps.Keys(files)), orders)
	}
	f.Logf("soak: %d landed, %d commits on the remote", orders, commits-1)
}

// verify compares what all machines make of the channel.
func (f *fleet) verify() {
	f.Helper()
	first := ""
	for _, m := range f.machines {
		var got struct {
			OK      bool
			Records int
			Digest  string
		}
		m.JSON(&got, "channel", "verify", "--json")
		if first == "" {
			first = got.Digest
			f.Logf("soak: %d records, digest %s", got.Records, got.Digest)
		}
		if !got.OK || got.Digest != first || got.Digest == "" {
			f.Errorf("%s: verify %+v, want the digest %s", m.name, got, first)
		}
	}
	if !f.Failed() {
		f.Logf("soak: digest equal on %d machines", len(f.machines))
	}
}

// TestFleetKilled takes a few orders through on two machines whose workers are killed.
func TestFleetKilled(t *testing.T) {
	plan{machines: 2, orders: 6, kills: 2, busy: true, pause: 300 * time.Millisecond, work: 3 * time.Minute, lands: 2}.run(t)
}

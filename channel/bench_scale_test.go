package channel_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

// penOf goes on where the chain of a writer of the site ends.
func penOf(b *testing.B, s *site, name string) *pen {
	b.Helper()
	p := &pen{key: testKey(b, name), channel: s.ID()}
	ledger, err := s.Ledger(b.Context(), 0)
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range ledger {
		if e.Writer == ferry.WriterID(p.key.Public().WriterID()) {
			p.seq, p.prev = e.Seq, e.ID
		}
	}
	if p.seq == 0 { // its first record follows its admission
		p.prev = ledger[len(ledger)-1].ID
	}
	return p
}

// packed makes a site with n finished orders, five records each, that its folder holds in packs and its store not yet.
func packed(b *testing.B, n int) *site {
	b.Helper()
	s := newSite(b)
	master, agent := penOf(b, s, "master"), penOf(b, s, "agent")
	done := map[*pen][][]byte{}
	write := func(p *pen, body ferry.Body) ferry.RecordID {
		f := p.write(b, body)
		if done[p] = append(done[p], f.data); len(done[p]) == 4096 {
			putPack(b, s, p, done[p])
			done[p] = nil
		}
		return f.id
	}
	for i := range n {
		o := order(fmt.Sprintf("t-%d", i))
		id := write(master, &o)
		claim := write(agent, &ferry.Claim{Order: id, Attempt: 1})
		begun := write(agent, &ferry.Start{Order: id, Attempt: 1, Claim: claim, Engine: "codex", Sandbox: "none"})
		write(agent, &ferry.Run{Order: id, Start: begun, Attempt: 1, N: 1, Engine: "codex", Outcome: ferry.OutcomeDone})
		write(agent, &ferry.Result{Order: id, Start: begun, Attempt: 1, Revision: 1})
	}
	putPack(b, s, master, done[master])
	putPack(b, s, agent, done[agent])
	return s
}

// putPack puts the last records of a pen into the folder as one pack.
func putPack(b *testing.B, s *site, p *pen, records [][]byte) {
	b.Helper()
	if len(records) == 0 {
		return
	}
	data := channel.PackFile(records)
	sum := sha256.Sum256(data)
	name := fmt.Sprintf("w/%s/p/0001-%010d-%010d-%x.fp", p.key.Public().WriterID(), p.seq-uint64(len(records))+1, p.seq, sum[:16])
	deliver(b, s.cfg.Folder, file{path: name, data: data})
}

// elsewhere is a machine that has the folder of a site and nothing else.
func elsewhere(b *testing.B, s *site) *site {
	b.Helper()
	other := &site{cfg: channel.Config{Folder: s.cfg.Folder, State: filepath.Join(b.TempDir(), "state"), Judge: judge}}
	c, err := channel.Open(b.Context(), other.cfg, s.ID())
	if err != nil {
		b.Fatal(err)
	}
	other.Channel = c
	b.Cleanup(func() { _ = other.Close() })
	return other
}

// takeAll looks at the folder until nothing comes in any more.
func takeAll(b *testing.B, s *site) (records int) {
	b.Helper()
	for {
		r, err := s.Refresh(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if len(r.Rejected) > 0 {
			b.Fatalf("rejected: %v", r.Rejected[0])
		}
		if records += r.New; r.New == 0 {
			return records
		}
	}
}

// cost is what work took.
type cost struct{ wall, cpu time.Duration }

func measure(b *testing.B, work func()) cost {
	b.Helper()
	at, cpu := time.Now(), cpuTime(b)
	work()
	return cost{time.Since(at), cpuTime(b) - cpu}
}

// verifyBare verifies n signatures with as many cores as there are.
func verifyBare(b *testing.B, n int) cost {
	b.Helper()
	private := ed25519.NewKeyFromSeed(make([]byte, 32))
	message := make([]byte, 600)
	sig := ed25519.Sign(private, message)
	return measure(b, func() {
		var wg sync.WaitGroup
		for range runtime.GOMAXPROCS(0) {
			wg.Go(func() {
				for range n / runtime.GOMAXPROCS(0) {
					if !ed25519.Verify(private.Public().(ed25519.PublicKey), message, sig) {
						panic("a good signature does not hold")
					}
				}
			})
		}
		wg.Wait()
	})
}

// BenchmarkIngestPacks is a machine that joins late: 100,000 records from packs, verified, stored and folded. Its rate is
// compared with that of bare verifications on the same cores, half of them before and half of them after.
func BenchmarkIngestPacks(b *testing.B) {
	for _, records := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("records=%d", records), func(b *testing.B) { ingestPacks(b, records/5) })
	}
}

func ingestPacks(b *testing.B, orders int) {
	s := packed(b, orders)
	var bare, full cost
	records, verified := 0, 0
	for b.Loop() {
		before := verifyBare(b, orders/2)
		other := elsewhere(b, s)
		c := measure(b, func() { records += takeAll(b, other) })
		after := verifyBare(b, orders/2)
		full.wall, full.cpu = full.wall+c.wall, full.cpu+c.cpu
		bare.wall, bare.cpu = bare.wall+before.wall+after.wall, bare.cpu+before.cpu+after.cpu
		verified += orders
	}
	if records < 5*orders {
		b.Fatalf("took in %d records", records)
	}
	per := func(d time.Duration, n int) float64 { return float64(d.Nanoseconds()) / 1000 / float64(n) }
	b.ReportMetric(per(full.cpu, records), "cpu-µs/record")
	b.ReportMetric(per(bare.cpu, verified), "cpu-µs/verify")
	b.ReportMetric(100*per(bare.wall, verified)/per(full.wall, records), "%-of-raw-wall")
	b.ReportMetric(100*per(bare.cpu, verified)/per(full.cpu, records), "%-of-raw-cpu")
}

// BenchmarkRebuild is the index made again from the store, beside the opening of the channel with a whole index.
func BenchmarkRebuild(b *testing.B) {
	for _, records := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("records=%d", records), func(b *testing.B) { rebuild(b, records/5) })
	}
}

func rebuild(b *testing.B, orders int) {
	s := elsewhere(b, packed(b, orders))
	n := takeAll(b, s)
	open := func() {
		id := s.ID()
		c, err := channel.Open(b.Context(), s.cfg, id)
		if err != nil {
			b.Fatal(err)
		}
		s.Channel = c
		if _, err := s.Snapshot(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	var whole, cold cost
	times := 0
	for b.Loop() {
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		c := measure(b, open)
		cold.wall += c.wall
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		if err := os.Remove(filepath.Join(s.cfg.State, "index.db")); err != nil {
			b.Fatal(err)
		}
		c = measure(b, open)
		whole.wall, whole.cpu = whole.wall+c.wall, whole.cpu+c.cpu
		times++
	}
	b.ReportMetric(float64(n*times)/whole.cpu.Seconds(), "records/cpu-s")
	b.ReportMetric(float64(n*times)/whole.wall.Seconds(), "records/s")
	b.ReportMetric(cold.wall.Seconds()*1000/float64(times), "ms/cold-start")
}

// BenchmarkPassNothingNew is one look at the folder and at the tasks with nothing new.
func BenchmarkPassNothingNew(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("finished=%d", n), func(b *testing.B) {
			s := elsewhere(b, packed(b, n))
			takeAll(b, s)
			// A look when the folder has rested for a minute.
			s.SetClock(func() time.Time { return time.Now().Add(time.Minute) })
			takeAll(b, s)
			debug.FreeOSMemory() // what making the folder took would be given back during the passes
			cpu, passes := cpuTime(b), 0
			for b.Loop() {
				if _, err := s.Refresh(b.Context()); err != nil {
					b.Fatal(err)
				}
				if _, err := s.Snapshot(b.Context()); err != nil {
					b.Fatal(err)
				}
				passes++
			}
			b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/float64(passes), "cpu-µs/pass")
		})
	}
}

// BenchmarkPublish is one record: durable in the store, indexed, and a file in the folder.
func BenchmarkPublish(b *testing.B) {
	s := newSite(b)
	var took []time.Duration
	for b.Loop() {
		at := time.Now()
		if _, err := s.master.Note(b.Context(), start, ferry.Note{Kind: "remark", Text: "x"}); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(at))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkStranger is a pass while somebody who is no member fills the folder: 20,000 files in one directory, and 20,000
// directories. It shows the time of the pass and the memory that it leaves in use.
func BenchmarkStranger(b *testing.B) {
	s := newSite(b)
	p := &pen{key: testKey(b, "stranger"), channel: s.ID(), prev: s.ID()}
	n := ferry.Note{Kind: "remark", Text: "x"}
	for range 20_000 {
		deliver(b, s.cfg.Folder, p.write(b, &n))
	}
	for i := range 20_000 {
		dir := filepath.Join(s.cfg.Folder, "w", string(sign.PublicKey{byte(i), byte(i >> 8)}.WriterID()), "t")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
	}
	use := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse
	}
	before := use()
	for b.Loop() {
		if _, err := s.Refresh(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(max(use(), before)-before)/(1<<20), "MiB-kept")
}

package channel_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

// cpuTime is what this process has used, so that a busy machine does not change the figures.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// finished makes a site whose folder and store hold n finished orders, six records each.
func finished(b *testing.B, n int) *site {
	b.Helper()
	s := newSite(b)
	const each = 100
	for at := 0; at < n; at += each {
		var ids []ferry.RecordID
		_, err := s.master.Update(b.Context(), start, func(tx *channel.Tx) error {
			for i := range min(each, n-at) {
				o := order(fmt.Sprintf("t-%d", at+i))
				id, err := tx.Add(&o)
				if err != nil {
					return err
				}
				ids = append(ids, id)
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
		_, err = s.agent.Update(b.Context(), start, func(tx *channel.Tx) error {
			for _, id := range ids {
				if err := work(tx, id); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return s
}

func work(tx *channel.Tx, id ferry.RecordID) error {
	claim, err := tx.Add(&ferry.Claim{Order: id, Attempt: 1})
	if err != nil {
		return err
	}
	begun, err := tx.Add(&ferry.Start{Order: id, Attempt: 1, Claim: claim, Engine: "codex", Sandbox: "none"})
	if err != nil {
		return err
	}
	if _, err := tx.Add(&ferry.Run{Order: id, Start: begun, Attempt: 1, N: 1, Engine: "codex", Outcome: ferry.OutcomeDone}); err != nil {
		return err
	}
	_, err = tx.Add(&ferry.Result{Order: id, Start: begun, Attempt: 1, Revision: 1})
	return err
}

// BenchmarkIngest is what a record of a foreign machine costs, from the file to the task.
func BenchmarkIngest(b *testing.B) {
	s := finished(b, 200)
	n, cpu := 0, cpuTime(b)
	for b.Loop() {
		cfg := channel.Config{Folder: s.cfg.Folder, State: filepath.Join(b.TempDir(), "state"), Judge: judge}
		c, err := channel.Open(b.Context(), cfg, s.ID())
		if err != nil {
			b.Fatal(err)
		}
		r, err := c.Refresh(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		n += r.New
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/float64(n), "cpu-µs/record")
}

// BenchmarkVerifySignature is the least that a record can cost, to compare with.
func BenchmarkVerifySignature(b *testing.B) {
	key := testKey(b, "master")
	data, err := sign.Seal(key, sign.Header{Channel: [32]byte{1}, Prev: [32]byte{1}, Type: "note", Writer: key.Public().WriterID(), Epoch: 1, Seq: 2, Time: start}, []byte(`{}`))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := sign.Open(data, key.Public()); err != nil {
			b.Fatal(err)
		}
	}
}

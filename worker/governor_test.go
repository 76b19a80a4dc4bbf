package worker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry/internal/machine"
	"github.com/ferry-fleet/ferry/worker"
)

// midday is when the machines of these tests are looked at, in a zone that is an hour before UTC.
var midday = time.Date(2026, 7, 1, 12, 0, 0, 0, time.FixedZone("CET", 3600))

func TestGovernor(t *testing.T) {
	const mb = 1 << 20
	all := worker.Governor{Window: &worker.Window{From: 10 * 60, To: 14 * 60}, Presence: true, BusyCPU: 50, MinRAM: 1024 * mb}
	night := worker.Governor{Window: &worker.Window{From: 22 * 60, To: 6 * 60}}
	strict := worker.Governor{Presence: true}
	ago := func(d time.Duration) time.Time { return midday.Add(-d) }
	for _, tt := range []struct {
		name string
		rule worker.Governor
		in   worker.Facts
		held worker.Limit
		want worker.Limit
		says []string
	}{
		{name: "nothing is asked", in: worker.Facts{Input: ago(0), CPU: new(100.0), RAM: new(int64(0))}},
		{name: "nothing is known", rule: all},
		{name: "nothing is known, and all held", rule: all, held: worker.LimitPresence},

		{name: "outside the window", rule: night, want: worker.LimitWindow, says: []string{"claim_window", "it is 12:00", "again at 22:00"}},
		{name: "in the window", rule: worker.Governor{Window: &worker.Window{From: 12 * 60, To: 13 * 60}}},
		{name: "at its end", rule: worker.Governor{Window: &worker.Window{From: 11 * 60, To: 12 * 60}}, want: worker.LimitWindow, says: []string{"again at 11:00"}},
		{name: "over midnight, in it", rule: worker.Governor{Window: &worker.Window{From: 720, To: 6 * 60}}},
		{name: "over midnight, at its end", rule: worker.Governor{Window: &worker.Window{From: 22 * 60, To: 720}}, want: worker.LimitWindow},
		{name: "by UTC", rule: worker.Governor{Window: &worker.Window{From: 12 * 60, To: 13 * 60, UTC: true}}, want: worker.LimitWindow,
			says: []string{"it is 11:00 UTC", "again at 12:00 UTC"}},
		{name: "a window comes first", rule: worker.Governor{Window: night.Window, Presence: true, MinRAM: mb},
			in: worker.Facts{Input: ago(0), RAM: new(int64(0))}, want: worker.LimitWindow},

		{name: "somebody works", rule: all, in: worker.Facts{Input: ago(40 * time.Second), CPU: new(73.0)}, want: worker.LimitPresence,
			says: []string{"pause_while_active", "40 s ago", "73 % of the processor", "busy_cpu_percent is 50", "within 10s", "ends at 12:04:20"}},
		{name: "exactly as busy", rule: all, in: worker.Facts{Input: ago(0), CPU: new(50.0)}, want: worker.LimitPresence},
		{name: "somebody reads", rule: all, in: worker.Facts{Input: ago(0), CPU: new(49.9)}},
		{name: "somebody has left", rule: all, in: worker.Facts{Input: ago(5 * time.Minute), CPU: new(100.0)}},
		{name: "a load that is not known", rule: all, in: worker.Facts{Input: ago(0)}},
		{name: "whoever is there, with 0", rule: strict, in: worker.Facts{Input: ago(299 * time.Second)}, want: worker.LimitPresence, says: []string{"299 s ago; it"}},
		{name: "input of the future", rule: strict, in: worker.Facts{Input: ago(-time.Hour)}},
		{name: "input within the grain of the clock", rule: strict, in: worker.Facts{Input: ago(-8 * time.Second)}, want: worker.LimitPresence, says: []string{" 0 s ago"}},
		{name: "it held, and is a little less busy", rule: all, held: worker.LimitPresence, in: worker.Facts{Input: ago(0), CPU: new(41.0)},
			want: worker.LimitPresence, says: []string{"goes on below 40 %"}},
		{name: "it held, and is less busy", rule: all, held: worker.LimitPresence, in: worker.Facts{Input: ago(0), CPU: new(39.0)}},
		{name: "memory held, presence begins at its own edge", rule: all, held: worker.LimitRAM, in: worker.Facts{Input: ago(0), CPU: new(41.0)}},
		{name: "it held with a low edge", rule: worker.Governor{Presence: true, BusyCPU: 4}, held: worker.LimitPresence, in: worker.Facts{Input: ago(0), CPU: new(1.0)}},

		{name: "little memory", rule: all, in: worker.Facts{RAM: new(int64(500 * mb))}, want: worker.LimitRAM,
			says: []string{"min_free_ram_mb", "500 MB", "of the 1024", "within 10s"}},
		{name: "enough memory", rule: all, in: worker.Facts{RAM: new(int64(1024 * mb))}},
		{name: "it held, and there is a little more", rule: all, held: worker.LimitRAM, in: worker.Facts{RAM: new(int64(1100 * mb))},
			want: worker.LimitRAM, says: []string{"from 1152 MB"}},
		{name: "it held, and there is more", rule: all, held: worker.LimitRAM, in: worker.Facts{RAM: new(int64(1152 * mb))}},
		{name: "a person comes before memory", rule: all, in: worker.Facts{Input: ago(0), CPU: new(60.0), RAM: new(int64(0))}, want: worker.LimitPresence},
	} {
		tt.in.Now, tt.in.Next = midday, 10*time.Second
		got, reason := tt.rule.Decide(tt.in, tt.held)
		if got != tt.want || (got == "") != (reason == "") {
			t.Errorf("%s: %q (%s), want %q", tt.name, got, reason, tt.want)
		}
		for _, s := range tt.says {
			if !strings.Contains(reason, s) {
				t.Errorf("%s: %q does not say %q", tt.name, reason, s)
			}
		}
	}
}

// The processors are as busy as between two looks, and not for less than two seconds.
func TestWatch(t *testing.T) {
	s := machine.System{Proc: t.TempDir(), Dev: t.TempDir()}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stat, tty := filepath.Join(s.Proc, "stat"), filepath.Join(s.Dev, "tty1")
	write(stat, "cpu  0 0 0 1000\n")
	write(filepath.Join(s.Proc, "meminfo"), "MemAvailable: 2048 kB\n")
	write(tty, "")
	if err := os.Chtimes(tty, midday, midday); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(s.Dev, "pts"), 0o700); err != nil {
		t.Fatal(err)
	}
	w := worker.NewWatch(worker.Governor{Presence: true, BusyCPU: 50, MinRAM: 1 << 20}, s, midday)
	for _, step := range []struct {
		after time.Duration
		stat  string
		want  worker.Limit
	}{
		{0, "0 0 0 1000", ""},                                      // no time has passed
		{time.Second, "90 0 0 1010", worker.LimitPresence},         // 90 of 100
		{2 * time.Second, "90 0 0 9000", worker.LimitPresence},     // too short to be measured
		{4 * time.Second, "990 0 0 9100", ""},                      // 900 of 8990
		{14 * time.Second, "1590 0 0 9500", worker.LimitPresence},  // 600 of 1000
		{24 * time.Second, "2040 0 0 10050", worker.LimitPresence}, // 450 of 1000: it does not flap
		{34 * time.Second, "2390 0 0 10700", ""},                   // 350 of 1000
		{44 * time.Second, "2840 0 0 11250", ""},                   // 450 of 1000
		{5 * time.Minute, "99990 0 0 11250", ""},                   // nobody types
		{5*time.Minute + 10*time.Second, "nothing", ""},            // not known
		{-time.Hour, "999990 0 0 11250", ""},                       // the clock was set back
	} {
		write(stat, "cpu  "+step.stat+"\n")
		if got, reason := w.Held(midday.Add(step.after), 10*time.Second); got != step.want {
			t.Errorf("after %v: %q (%s), want %q", step.after, got, reason, step.want)
		}
	}
	write(filepath.Join(s.Proc, "meminfo"), "MemAvailable: 1000 kB\n")
	if got, reason := w.Held(midday.Add(time.Hour), 10*time.Second); got != worker.LimitRAM {
		t.Errorf("with little memory: %q (%s)", got, reason)
	}
}

func FuzzWindow(f *testing.F) {
	f.Add(1320, 360, int64(1782900000), false)
	f.Fuzz(func(t *testing.T, from, to int, unix int64, utc bool) {
		if from < 0 || to < 0 || from >= 1440 || to >= 1440 || from == to || unix < 0 || unix > 1<<33 {
			return
		}
		now := time.Unix(unix, 0).In(midday.Location())
		clock := now
		if utc {
			clock = now.UTC()
		}
		in := worker.Window{From: from, To: to, UTC: utc}
		minute := clock.Hour()*60 + clock.Minute()
		want := (minute-from+1440)%1440 < (to-from+1440)%1440
		if limit, reason := (worker.Governor{Window: &in}).Decide(worker.Facts{Now: now}, ""); (limit == "") != want {
			t.Errorf("%v at %v: %q (%s), want open %v", in, now, limit, reason, want)
		}
	})
}

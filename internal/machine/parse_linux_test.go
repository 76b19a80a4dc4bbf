package machine

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	if load, err := parseLoad("0.53 0.20 0.10 1/234 5678\n"); load != 0.53 || err != nil {
		t.Errorf("parseLoad = %v, %v", load, err)
	}
	if mem, err := parseMemory("MemTotal: 8 kB\nMemAvailable:    1234 kB\n"); mem != 1234<<10 || err != nil {
		t.Errorf("parseMemory = %v, %v", mem, err)
	}
	for _, bad := range []string{"", "x", "MemAvailable: x kB"} {
		if _, err := parseMemory(bad); err == nil {
			t.Errorf("parseMemory(%q) succeeded", bad)
		}
		if _, err := parseLoad(bad); err == nil {
			t.Errorf("parseLoad(%q) succeeded", bad)
		}
	}
}

func TestParseCPU(t *testing.T) {
	for _, tt := range []struct {
		text        string
		busy, total int64
	}{
		{"cpu  10 20 30 400 50 6 7 8 9 10\ncpu0 1 2 3 4\n", 81, 531},
		{"cpu  10 20 30 400\n", 60, 460},
		{"cpu  0 0 0 0 0 0 0 0 0 0", 0, 0},
	} {
		want := CPUTimes{Busy: tt.busy, Total: tt.total}
		if got, err := parseCPU(tt.text); got != want || err != nil {
			t.Errorf("parseCPU(%q) = %v, %v; want %v", tt.text, got, err, want)
		}
	}
	for _, bad := range []string{"", "cpu", "cpu 1 2 3", "cpu0 1 2 3 4", "cpu 1 2 x 4", "cpu 1 2 -3 4", "cpu 1 2 3 9223372036854775807"} {
		if got, err := parseCPU(bad); err == nil {
			t.Errorf("parseCPU(%q) = %v", bad, got)
		}
	}
}

func FuzzParseCPU(f *testing.F) {
	f.Add("cpu  10 20 30 400 50 6 7 8 9 10\n")
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := parseCPU(text); err == nil && (got.Busy < 0 || got.Busy > got.Total) {
			t.Errorf("parseCPU(%q) = %v", text, got)
		}
	})
}

func TestPercent(t *testing.T) {
	at := func(busy, total int64) CPUTimes { return CPUTimes{Busy: busy, Total: total} }
	for _, tt := range []struct {
		from, to CPUTimes
		want     float64
		ok       bool
	}{
		{at(10, 100), at(60, 200), 50, true}, {at(0, 0), at(10, 10), 100, true}, {at(10, 100), at(10, 200), 0, true},
		{at(10, 100), at(10, 100), 0, false}, {at(60, 200), at(10, 100), 0, false}, {at(60, 100), at(10, 200), 0, false},
	} {
		if got, ok := tt.to.Percent(tt.from); got != tt.want || ok != tt.ok {
			t.Errorf("from %v to %v: %v, %v; want %v, %v", tt.from, tt.to, got, ok, tt.want, tt.ok)
		}
	}
}

func TestLastInput(t *testing.T) {
	s := System{Proc: t.TempDir(), Dev: t.TempDir()}
	if at, err := s.LastInput(); err == nil {
		t.Errorf("LastInput without a terminal = %v", at)
	}
	base := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for name, read := range map[string]time.Time{
		"tty1": base, "pts/0": base.Add(time.Minute), "pts/12": base.Add(-time.Hour), // terminals
		"tty": base.Add(time.Hour), "ttyS0x": base.Add(time.Hour), "pts/ptmx": base.Add(time.Hour), "null": base.Add(time.Hour),
	} {
		path := filepath.Join(s.Dev, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, read, base.Add(2*time.Hour)); err != nil { // what is written there is no input
			t.Fatal(err)
		}
	}
	if at, err := s.LastInput(); err != nil || !at.Equal(base.Add(time.Minute)) {
		t.Errorf("LastInput = %v, %v", at, err)
	}
}

func TestFactsOfAnotherSystem(t *testing.T) {
	s := System{Proc: t.TempDir(), Dev: t.TempDir()}
	if n, err := s.MemoryAvailable(); err == nil {
		t.Errorf("MemoryAvailable = %d", n)
	}
	if c, err := s.CPUTimes(); err == nil {
		t.Errorf("CPUTimes = %v", c)
	}
	for name, text := range map[string]string{"meminfo": "MemTotal: 9 kB\nMemAvailable: 7 kB\n", "stat": "cpu  1 0 0 1\n"} {
		if err := os.WriteFile(filepath.Join(s.Proc, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.MemoryAvailable(); n != 7<<10 || err != nil {
		t.Errorf("MemoryAvailable = %d, %v", n, err)
	}
	if c, err := s.CPUTimes(); c.Busy != 1 || c.Total != 2 || err != nil {
		t.Errorf("CPUTimes = %v, %v", c, err)
	}
}

func TestCPUTimesHere(t *testing.T) {
	if c, err := Here().CPUTimes(); err != nil || c.Total <= 0 || c.Busy > c.Total {
		t.Errorf("CPUTimes = %v, %v", c, err)
	}
}

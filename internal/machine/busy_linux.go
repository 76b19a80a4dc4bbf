package machine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// maxFact bounds what is read of a file of the kernel, in bytes: what is needed is in its first lines.
const maxFact = 64 << 10

// mostTerminals bounds how many names of a directory are looked at. The kernel makes no more pseudo-terminals, unless it is
// told to.
const mostTerminals = 4096

// fact reads the beginning of a file of the kernel.
func (s System) fact(name string) (string, error) {
	f, err := os.Open(filepath.Join(s.Proc, name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFact))
	return string(b), err
}

// MemoryAvailable returns how many bytes programs can still take without swapping, by the kernel's estimate.
func (s System) MemoryAvailable() (int64, error) {
	text, err := s.fact("meminfo")
	if err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	return parseMemory(text)
}

// CPUTimes returns what the processors have done since the system started.
func (s System) CPUTimes() (CPUTimes, error) {
	text, err := s.fact("stat")
	if err != nil {
		return CPUTimes{}, fmt.Errorf("processor: %w", err)
	}
	return parseCPU(text)
}

// parseCPU reads the line of all cores: the ticks in user, nice, system, idle, iowait, irq, softirq and steal. What
// follows them is counted among the first two.
func parseCPU(text string) (CPUTimes, error) {
	const (
		kinds = 8
		most  = 1 << 59 // ticks of one kind, so that the sum does not overflow
	)
	line, _, _ := strings.Cut(text, "\n")
	rest, ok := strings.CutPrefix(line, "cpu ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 4 {
		return CPUTimes{}, fmt.Errorf("processor: read %.80q: it is not the line of all cores", line)
	}
	var ticks [kinds]int64
	for i, f := range fields[:min(len(fields), kinds)] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil || n < 0 || n > most {
			return CPUTimes{}, fmt.Errorf("processor: read %.80q: %.20q is no number of ticks", line, f)
		}
		ticks[i] = n
	}
	var t CPUTimes
	for i, n := range ticks {
		t.Total += n
		if i != 3 && i != 4 {
			t.Busy += n
		}
	}
	return t, nil
}

// LastInput returns when a program last read what was typed on a terminal: a console of the machine, or one of a login from
// elsewhere or of a window. The kernel notes it to 8 seconds. It does not see what is typed or moved in other windows, and
// a program that types for a person looks like one.
func (s System) LastInput() (time.Time, error) {
	var last time.Time
	var failed error
	for _, dir := range []struct{ name, prefix string }{{"", "tty"}, {"pts", ""}} {
		at, err := newestRead(filepath.Join(s.Dev, dir.name), dir.prefix)
		if at.After(last) {
			last = at
		}
		failed = errors.Join(failed, err)
	}
	if last.IsZero() {
		return last, fmt.Errorf("last input: %w", errors.Join(errors.ErrUnsupported, failed))
	}
	return last, nil
}

// newestRead gives the last time at which one of the files in a directory was read whose name is the prefix and a number.
func newestRead(dir, prefix string) (time.Time, error) {
	var last time.Time
	d, err := os.Open(dir)
	if err != nil {
		return last, err
	}
	defer d.Close()
	names, err := d.Readdirnames(mostTerminals)
	if err != nil && !errors.Is(err, io.EOF) {
		return last, err
	}
	for _, name := range names {
		number, ok := strings.CutPrefix(name, prefix)
		if _, err := strconv.ParseUint(number, 10, 31); !ok || err != nil {
			continue
		}
		var st syscall.Stat_t
		if syscall.Lstat(filepath.Join(dir, name), &st) != nil {
			continue // it was closed meanwhile
		}
		if at := time.Unix(st.Atim.Unix()); at.After(last) {
			last = at
		}
	}
	return last, nil
}

package machine

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Load1 returns the average number of runnable or blocked threads over the last minute.
func Load1() (float64, error) {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, fmt.Errorf("load: %w", err)
	}
	return parseLoad(string(data))
}

func parseLoad(text string) (float64, error) {
	first, _, _ := strings.Cut(text, " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0, fmt.Errorf("load: read %q: %w", text, err)
	}
	return load, nil
}

func parseMemory(text string) (int64, error) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("memory: read %q: %w", line, err)
			}
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("memory: /proc/meminfo has no MemAvailable")
}

// BootID returns an id that is another one after each start of the system.
func BootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// Boottime returns the time since the system started, suspended time included. It never goes back within one BootID.
func Boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("machine: this kernel has no boot clock: " + err.Error()) // Linux has it since 2.6.39, older than Go supports
	}
	return time.Duration(ts.Nano())
}

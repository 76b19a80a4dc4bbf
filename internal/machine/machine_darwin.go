package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Load1 returns the average number of runnable or blocked threads over the last minute.
func Load1() (float64, error) {
	// struct loadavg: three fixed-point numbers, and after padding their scale as a long.
	raw, err := unix.SysctlRaw("vm.loadavg")
	if err != nil || len(raw) < 24 {
		return 0, fmt.Errorf("load: %w", errors.Join(err, errors.ErrUnsupported))
	}
	scale := binary.LittleEndian.Uint64(raw[16:])
	return float64(binary.LittleEndian.Uint32(raw)) / float64(max(scale, 1)), nil
}

// BootID returns an id that is another one after each start of the system.
func BootID() (string, error) {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	return id, nil
}

// Boottime returns the time since the system started, suspended time included. It never goes back within one BootID.
func Boottime() time.Duration {
	const clockMonotonicRaw = 4 // it goes on while the system sleeps
	var ts unix.Timespec
	if err := unix.ClockGettime(clockMonotonicRaw, &ts); err != nil {
		panic("machine: this system has no monotonic clock: " + err.Error())
	}
	return time.Duration(ts.Nano())
}

package machine

import (
	"errors"
	"fmt"
	"time"
)

// MemoryAvailable reports errors.ErrUnsupported: the kernel gives no such estimate without a Mach call.
func (System) MemoryAvailable() (int64, error) {
	return 0, fmt.Errorf("memory: %w", errors.ErrUnsupported)
}

// CPUTimes reports errors.ErrUnsupported: the kernel gives them by a Mach call only.
func (System) CPUTimes() (CPUTimes, error) {
	return CPUTimes{}, fmt.Errorf("processor: %w", errors.ErrUnsupported)
}

// LastInput reports errors.ErrUnsupported: the system tells it to programs of the desktop only.
func (System) LastInput() (time.Time, error) {
	return time.Time{}, fmt.Errorf("last input: %w", errors.ErrUnsupported)
}

//go:build !linux

package box

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// installs says what would help.
const installs = "run ferry on Linux for a sandbox"

// Main returns at once: no level here has a helper.
func Main() {}

func (s Spec) bwrap([]string, string) (*Command, error) { return nil, unsupported(LevelBwrap) }

func (s Spec) landlock([]string, string) (*Command, error) { return nil, unsupported(LevelLandlock) }

func unsupported(level Level) error {
	return fmt.Errorf("sandbox %s needs Linux, this is %s", level, runtime.GOOS)
}

// Probe reports that there is no sandbox on this system; level none promises nothing and is OK.
func Probe(_ context.Context, spec ProbeSpec) Report {
	r := Report{Level: spec.Level, Net: spec.Net}
	if spec.Level != LevelNone {
		return r.failed(unsupported(spec.Level))
	}
	r.Tries = []Try{judge("hide anything", wantNotPromised, errors.New("no sandbox on "+runtime.GOOS))}
	return r.finish()
}

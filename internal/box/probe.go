package box

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
)

// What a try may be wanted to do, and what it did.
const (
	wantDenied      = "denied"
	wantWorks       = "works"
	wantNotPromised = "not promised"
	wantNotJudged   = "not judged"
)

// ProbeSpec says which box to prove. State is where the files of the probe live meanwhile.
type ProbeSpec struct {
	Level Level
	Net   Net
	State string
}

// Try is one thing that was really tried in the box. Want is "denied", "works", "not promised" or "not judged"; the
// last two are always OK.
type Try struct {
	Name, Want, Got string
	OK              bool
}

// Report is the proof of a box on this machine. Hash names it in records: it covers everything else but the errors'
// wording.
type Report struct {
	Level   Level
	Net     Net
	OK      bool
	Tries   []Try
	Version string
	Hash    string
}

// Failure names what went wrong, in one line; empty when the report is OK.
func (r Report) Failure() string {
	var bad []string
	for _, t := range r.Tries {
		if !t.OK {
			bad = append(bad, fmt.Sprintf("%s: wanted %s, got %s", t.Name, t.Want, t.Got))
		}
	}
	return strings.Join(bad, "; ")
}

// finish judges the whole.
func (r Report) finish() Report {
	h := sha256.New()
	fmt.Fprintf(h, "ferry box probe 1\n%s %s %s\n", r.Level, r.Net, r.Version)
	r.OK = len(r.Tries) > 0
	for _, t := range r.Tries {
		r.OK = r.OK && t.OK
		fmt.Fprintf(h, "%s|%s|%v\n", t.Name, t.Want, t.OK)
	}
	r.Hash = hex.EncodeToString(h.Sum(nil))
	return r
}

// failed is the report of a box that could not be tried at all.
func (r Report) failed(err error) Report {
	r.Tries = append(r.Tries, Try{Name: "run a program in the box", Want: wantWorks, Got: err.Error()})
	return r.finish()
}

// judge compares what a try did with what the level promises.
func judge(name, want string, got error) Try {
	t := Try{Name: name, Want: want, Got: wantWorks}
	if got != nil {
		t.Got = "denied (" + got.Error() + ")"
	}
	switch want {
	case wantDenied:
		t.OK = got != nil
	case wantWorks:
		t.OK = got == nil
	default:
		t.OK = true
	}
	return t
}

// Choose returns the level for want and the report that proves it. Empty and "auto" take bwrap where its probe
// passes, else landlock; a level by name is taken or refused, never replaced. The error says what to install or which
// line to add.
func Choose(ctx context.Context, want, state string) (Level, Report, error) {
	var tried []string
	for _, level := range candidates(want) {
		r := Probe(ctx, ProbeSpec{Level: level, Net: NetNone, State: state})
		if r.OK {
			return level, r, nil
		}
		if err := ctx.Err(); err != nil {
			return "", r, fmt.Errorf("choose a sandbox: %w", context.Cause(ctx))
		}
		tried = append(tried, fmt.Sprintf("%s: %s", level, withoutInstalls(r.Failure())))
	}
	if len(tried) == 0 {
		return "", Report{}, fmt.Errorf("sandbox %q: want auto, bwrap, landlock or none", want)
	}
	return "", Report{}, fmt.Errorf("no sandbox works here (%s): %s, or add the line sandbox = \"none\" to agent.toml"+
		" to run without one", strings.Join(tried, "; "), installs)
}

// withoutInstalls takes the remedy out of one failure of several: it is said once, after all of them.
func withoutInstalls(failure string) string {
	return strings.NewReplacer(": "+installs, "", ", or "+installs, "").Replace(failure)
}

func candidates(want string) []Level {
	switch want {
	case "", "auto":
		return []Level{LevelBwrap, LevelLandlock}
	case string(LevelBwrap), string(LevelLandlock), string(LevelNone):
		return []Level{Level(want)}
	}
	return nil
}

// probeDir makes the private directory of one probe.
func probeDir(state string) (string, error) {
	if err := absolute("state directory", state); err != nil {
		return "", err
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return "", err
	}
	return os.MkdirTemp(state, "probe-")
}

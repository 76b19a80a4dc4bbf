package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// ferryman is what a Ferryman's agent.toml says, in our words.
type ferryman struct {
	path  string // "" when there is none
	c     config
	taken []string // keys that were taken over
	left  []string // keys that have no meaning here
}

// readFerryman reads the flat `key = "value"` lines of a Ferryman's
// configuration. It is tolerant: what it does not understand is left, and
// named. A missing file is no error.
func readFerryman(path string) (ferryman, error) {
	data, err := atomicfile.ReadBounded(path, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return ferryman{}, nil
	}
	if err != nil {
		return ferryman{}, fmt.Errorf("read %s: %w", path, err)
	}
	f := ferryman{path: path}
	for line := range strings.Lines(string(data)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || strings.HasPrefix(name, "#") || name == "" {
			continue
		}
		if f.take(name, value) {
			f.taken = append(f.taken, name)
			continue
		}
		f.left = append(f.left, name)
	}
	slices.Sort(f.left)
	return f, nil
}

// take sets what a key means here, and reports whether it means anything.
func (f *ferryman) take(name, value string) bool {
	text := strings.Trim(value, `"'`)
	switch name {
	case "agent":
		n, err := ferry.ParseAgentName(cleanName(text, ""))
		if err != nil {
			return false
		}
		f.c.Agent = n
	case "command":
		f.c.Command = text
	case "model":
		f.c.Model = text
	case "args":
		return json.Unmarshal([]byte(value), &f.c.Args) == nil
	case "timeout_secs":
		return setDuration(&f.c.Timeout, text) == nil
	case "stall_secs":
		return setDuration(&f.c.Stall, text) == nil
	case "poll_secs":
		return setDuration(&f.c.Poll, text) == nil
	case "max_parallel":
		return setInt(&f.c.MaxParallel, text, 1, 64) == nil
	default:
		return false
	}
	return true
}

// takeOver uses what the Ferryman's configuration says where no flag says
// otherwise, and tells so.
func (e *enabling) takeOver() {
	if e.old.path == "" {
		return
	}
	email := e.c.Email
	project, folder := e.c.Project, e.c.Channel
	e.c = e.old.c
	e.c.Email, e.c.Project, e.c.Channel = email, project, folder
	if e.f.agent != "" {
		e.c.Agent = ""
	}
	if e.f.command != "" && e.f.command != e.c.Command {
		e.c.Args, e.c.Model = nil, ""
	}
	if len(e.old.taken) > 0 {
		e.found("%s: took over %s", e.old.path, strings.Join(e.old.taken, ", "))
	}
	if len(e.old.left) > 0 {
		e.found("%s: left %s, which mean nothing here", e.old.path, strings.Join(e.old.left, ", "))
	}
}

// durationText writes a duration the way agent.toml reads it.
func durationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// ferryman is what a Ferryman's agent.toml says, in our words.
type ferryman struct {
	path   string // "" when there is none
	c      config
	tables map[ferry.EngineName][]string // lines of our agent.toml, for each engine
	taken  []string                      // keys that were taken over
	left   []string                      // keys that have no meaning here
	other  []string                      // what is different here, in words
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
	if !utf8.Valid(data) {
		return ferryman{}, fmt.Errorf("read %s: it is no UTF-8 text, and nothing of it is taken over", path)
	}
	f := ferryman{path: path, tables: map[ferry.EngineName][]string{}}
	f.c.Where = map[string]lineOf{}
	for line := range strings.Lines(string(data)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || strings.HasPrefix(name, "#") || name == "" {
			continue
		}
		known, err := f.take(name, value)
		switch {
		case known && err == nil:
			f.taken = append(f.taken, name)
		case known:
			f.other = append(f.other, fmt.Sprintf("left %s: %v%s", name, err, remedy(err)))
		default:
			f.left = append(f.left, name)
		}
	}
	slices.Sort(f.left)
	f.agree()
	return f, nil
}

func remedy(err error) string {
	if h, ok := errors.AsType[*hinted](err); ok {
		return "; " + h.next
	}
	return ""
}

// ferrymanNames are the keys that are called otherwise here.
var ferrymanNames = map[string]string{"timeout_secs": "timeout", "stall_secs": "stall", "poll_secs": "poll"}

// ferrymanSame are the keys that mean the same here.
var ferrymanSame = []string{
	"command", "model", "args", "max_parallel", "engines", "max_engines_per_order", "engine_alert_after", "claim_grace_secs",
	"pause_while_active", "busy_cpu_percent", "min_free_ram_mb", "claim_window",
}

// take sets what a key means here. It reports whether it means anything, and
// why its value does not.
func (f *ferryman) take(name, value string) (known bool, err error) {
	if rest, ok := strings.CutPrefix(name, "engine."); ok {
		return f.takeEngine(rest, value)
	}
	if name == "agent" {
		n, err := ferry.ParseAgentName(cleanName(strings.Trim(value, `"'`), ""))
		if err == nil {
			f.c.Agent = n
		}
		return err == nil, nil
	}
	k, ok := configKey(cmp.Or(ferrymanNames[name], name))
	if !ok || ferrymanNames[name] == "" && !slices.Contains(ferrymanSame, name) {
		return false, nil
	}
	if k.name == "stall" && strings.Trim(value, `"'`) == "0" {
		return true, errors.New("silence always ends a run here, after 10 minutes where nothing else is said")
	}
	return true, k.set(&f.c, ferrymanValue(value))
}

// takeEngine reads engine.NAME.KEY, and keeps the line that agent.toml gets.
func (f *ferryman) takeEngine(name, value string) (known bool, err error) {
	at := strings.LastIndexByte(name, '.')
	if at < 0 {
		return false, nil
	}
	n, err := ferry.ParseEngineName(name[:at])
	if err != nil {
		return false, nil
	}
	all := engineKeys()
	i := slices.IndexFunc(all, func(k engineKey) bool { return k.name == name[at+1:] })
	if i < 0 {
		return false, nil
	}
	v := ferrymanValue(value)
	e := cmp.Or(f.c.Engine[n], &engineTable{})
	if err := all[i].set(e, v); err != nil {
		return true, err
	}
	if f.c.Engine == nil {
		f.c.Engine = map[ferry.EngineName]*engineTable{}
	}
	f.c.Engine[n] = e
	start := all[i].name + " = "
	f.tables[n] = slices.DeleteFunc(f.tables[n], func(line string) bool { return strings.HasPrefix(line, start) }) // the last one counts
	f.tables[n] = append(f.tables[n], start+tomlValue(v))
	return true, nil
}

// agree makes the list and the tables fit each other, as they must here.
func (f *ferryman) agree() {
	for _, n := range slices.Sorted(maps.Keys(f.c.Engine)) {
		if !slices.Contains(f.c.Engines, n) {
			f.other = append(f.other, fmt.Sprintf("left engine.%s: engines does not name it", n))
			delete(f.c.Engine, n)
			delete(f.tables, n)
			f.taken = slices.DeleteFunc(f.taken, func(key string) bool { return strings.HasPrefix(key, fmt.Sprintf("engine.%s.", n)) })
		}
	}
	f.c.Engines = slices.DeleteFunc(f.c.Engines, func(n ferry.EngineName) bool {
		gone := f.c.Engine[n] == nil && f.c.Command == ""
		if gone {
			f.other = append(f.other, fmt.Sprintf("left %s out of engines: nothing says what it runs", n))
		}
		return gone
	})
}

// ferrymanValue reads a value: a JSON list or object, else text in quotes or
// without.
func ferrymanValue(s string) any {
	switch {
	case strings.HasPrefix(s, "["):
		var list []any
		if json.Unmarshal([]byte(s), &list) == nil {
			return list
		}
	case strings.HasPrefix(s, "{"):
		var object map[string]any
		if json.Unmarshal([]byte(s), &object) == nil && object != nil {
			return object
		}
	}
	return strings.Trim(s, `"'`)
}

// tomlValue writes a value that ferrymanValue read and a key took.
func tomlValue(v any) string {
	switch v := v.(type) {
	case []any:
		out := make([]string, len(v))
		for i, e := range v {
			out[i] = quoted(fmt.Sprint(e))
		}
		return "[" + strings.Join(out, ", ") + "]"
	case map[string]any:
		out := map[string]string{}
		for name, e := range v {
			out[name] = fmt.Sprint(e)
		}
		return quotedTable(out)
	}
	return quoted(fmt.Sprint(v))
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
	for _, what := range e.old.other {
		e.found("%s: %s", e.old.path, what)
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

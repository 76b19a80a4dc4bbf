package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// maxConfig bounds the files of .ferry/.
const maxConfig = 1 << 20

// config is .ferry/agent.toml: who works here, with which engine, in which
// box. The zero value, with withDefaults, works.
type config struct {
	Project      string
	Agent        ferry.AgentName
	Channel      string // folder, absolute
	ChannelID    ferry.RecordID
	Email        string
	Command      string
	Args         []string
	Model        string
	Env          map[string]string
	Timeout      time.Duration
	Stall        time.Duration
	CheckTimeout time.Duration
	MaxParallel  int
	Poll         time.Duration
	Sandbox      string
	Bypass       *bool
	Box          boxConfig
	Land         landConfig

	Engines    []ferry.EngineName // in order of preference; none is one engine of the keys above
	Engine     map[ferry.EngineName]*engineTable
	MaxEngines int           // that one attempt of an order may go through
	AlertAfter int           // faults in a row after which the master is asked
	ClaimGrace time.Duration // beyond the timeout, after which a claim is stale
	Governor   governorConfig

	Where map[string]lineOf // of the keys of engines, by their dotted names
}

// governorConfig says when this machine begins nothing, whatever waits.
type governorConfig struct {
	PauseWhileActive *bool // somebody is at the keyboard
	BusyCPU          *int  // per cent of all cores from which somebody's work counts as such
	MinFreeRAM       *int  // MiB
	ClaimWindow      *claimWindow
}

// claimWindow is the part of a day in which work may begin, in minutes since
// midnight: From counts, To does not, and To before From lies on the next day.
type claimWindow struct {
	From, To int
	UTC      bool
}

// lineOf is a line of a config file.
type lineOf struct {
	file string
	line int
}

// landConfig is [land]: where landings go beside the repository here.
type landConfig struct {
	Remote string // name of a remote, or a URL, or a path
	Carry  *bool  // push what other machines need there; nil means yes
}

// boxConfig is [box]: what a run sees and may use beside its tree.
type boxConfig struct {
	RO       []string // host paths, read-only at the same place
	Login    []string // the engine's login files: it gets a private copy
	Env      []string // names of variables that it inherits
	Prepare  string   // command that fills the build caches, on the base commit
	Userns   bool
	Net      string // of engines
	CheckNet string // of checks
	Pids     int
	MemoryMB int
	DiskMB   int
}

// withDefaults fills what nobody set.
func (c config) withDefaults() config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.Timeout, time.Hour)
	def(&c.Stall, 10*time.Minute)
	def(&c.CheckTimeout, 15*time.Minute)
	def(&c.ClaimGrace, 2*time.Minute)
	count := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	count(&c.MaxParallel, 1)
	count(&c.MaxEngines, 3)
	count(&c.AlertAfter, 2)
	c.Governor = c.Governor.withDefaults()
	if c.Sandbox == "" {
		c.Sandbox = "auto"
	}
	c.Bypass = said(c.Bypass, true)
	if c.Box.Net == "" {
		c.Box.Net = "open"
	}
	if c.Box.CheckNet == "" {
		c.Box.CheckNet = "none"
	}
	count(&c.Box.Pids, 2048)
	count(&c.Box.DiskMB, 4096)
	return c
}

func (g governorConfig) withDefaults() governorConfig {
	g.PauseWhileActive = said(g.PauseWhileActive, true)
	g.BusyCPU = said(g.BusyCPU, 50)
	g.MinFreeRAM = said(g.MinFreeRAM, 1024)
	return g
}

// said gives what was said, or the default.
func said[T any](v *T, def T) *T {
	if v == nil {
		return &def
	}
	return v
}

// configError is a mistake in a config file, with the place to mend.
type configError struct {
	file string
	line int
	key  string
	why  string
	next string
}

// Error gives file:line, the key and what is wrong.
func (e *configError) Error() string {
	where := e.file
	if e.line > 0 {
		where = fmt.Sprintf("%s:%d", e.file, e.line)
	}
	if e.key == "" {
		return where + ": " + e.why
	}
	return fmt.Sprintf("%s: %s: %s", where, e.key, e.why)
}

// loadConfig reads the files in the given order, later ones over earlier
// ones. A file that is missing is an error for the first one only.
func loadConfig(files ...string) (config, error) {
	var c config
	for i, file := range files {
		data, err := atomicfile.ReadBounded(file, maxConfig)
		if errors.Is(err, fs.ErrNotExist) && i > 0 {
			continue
		}
		if err != nil {
			return c, fmt.Errorf("read %s: %w", file, err)
		}
		if err := parseConfig(&c, file, data); err != nil {
			return c, err
		}
	}
	if err := c.checkEngines(); err != nil {
		return c, err
	}
	if c.Channel != "" && !filepath.IsAbs(c.Channel) && len(files) > 0 {
		c.Channel = filepath.Join(filepath.Dir(filepath.Dir(files[0])), c.Channel)
	}
	return c, nil
}

// parseConfig reads one file into c. Unknown keys are refused with the
// nearest known one; quoted numbers and booleans are accepted.
func parseConfig(c *config, file string, data []byte) error {
	var tree map[string]any
	if err := toml.Unmarshal(data, &tree); err != nil {
		return syntaxError(file, err)
	}
	if c.Where == nil {
		c.Where = map[string]lineOf{}
	}
	p := configParser{c: c, file: file, lines: keyLines(data)}
	if err := p.table("", tree); err != nil {
		return err
	}
	if _, ok := tree["engines"]; ok {
		c.leave(file)
	}
	return nil
}

func syntaxError(file string, err error) error {
	e := &configError{file: file, why: strings.TrimPrefix(err.Error(), "toml: ")}
	if d, ok := errors.AsType[*toml.DecodeError](err); ok {
		e.line, _ = d.Position()
	}
	e.next = "it is TOML: strings in quotes, lists in [ ]; `ferry doctor` reads it again"
	return e
}

// keyLines finds the line of every key and table, by its dotted name.
func keyLines(data []byte) map[string]int {
	lines := map[string]int{}
	var p unstable.Parser
	p.Reset(data)
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		name, line := "", 0
		for it := e.Key(); it.Next(); {
			n := it.Node()
			if name != "" {
				name += "."
			}
			name += string(n.Data)
			line = p.Shape(n.Raw).Start.Line
		}
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = name
			lines[name] = line
		case unstable.KeyValue:
			if table != "" {
				name = table + "." + name
			}
			lines[name] = line
		}
	}
	return lines
}

type configParser struct {
	c     *config
	file  string
	lines map[string]int
}

func (p *configParser) table(prefix string, tree map[string]any) error {
	for _, name := range sortedKeys(tree) {
		full := prefix + name
		if full == "engine" {
			if err := p.engines(tree[name]); err != nil {
				return err
			}
			continue
		}
		if sub, ok := tree[name].(map[string]any); ok && (full == "box" || full == "land") {
			if err := p.table(full+".", sub); err != nil {
				return err
			}
			continue
		}
		k, ok := configKey(full)
		if !ok {
			return p.unknown(full)
		}
		p.note(full)
		if err := k.set(p.c, tree[name]); err != nil {
			return p.refused(full, err, k.want)
		}
	}
	return nil
}

// note keeps the line of a key for what is found out about it later.
func (p *configParser) note(name string) {
	p.c.Where[name] = lineOf{p.file, p.line(name)}
}

// line gives the line of a key or table. A table that is only in the names of
// others stands where the first of them does.
func (p *configParser) line(name string) int {
	first := p.lines[name]
	for key, line := range p.lines {
		if strings.HasPrefix(key, name+".") && (first == 0 || line < first) {
			first = line
		}
	}
	return first
}

func (p *configParser) mistake(key, why, next string) *configError {
	return &configError{file: p.file, line: p.line(key), key: key, why: why, next: next}
}

// refused says why a value is none, and what is wanted instead.
func (p *configParser) refused(key string, err error, want string) error {
	next := "want " + want
	if h, ok := errors.AsType[*hinted](err); ok {
		next = h.next
	}
	return p.mistake(key, err.Error(), next)
}

// mistakeAt is a mistake that shows when all files are read.
func (c *config) mistakeAt(key, why string) *configError {
	at := c.Where[key]
	return &configError{file: at.file, line: at.line, key: key, why: why}
}

func (p *configParser) unknown(name string) error {
	e := &configError{file: p.file, line: p.lines[name], key: name, why: "there is no such key"}
	var names []string
	for _, k := range configKeys() {
		names = append(names, k.name)
	}
	if short, in := strings.CutPrefix(name, "box."); in {
		return p.unknownInBox(e, short, names)
	}
	for _, k := range engineKeys() {
		if edits(k.name, name) <= 1 && !slices.Contains(names, k.name) {
			e.next = "did you mean `" + k.name + "` under [engine.NAME]?"
			return e
		}
	}
	if best, ok := nearest("box."+name, names); ok && edits("box."+name, best) <= 1 {
		e.next = "did you mean `" + strings.TrimPrefix(best, "box.") + "` under [box]?"
		return e
	}
	if best, ok := nearest(name, names); ok {
		e.next = "did you mean `" + best + "`?"
		return e
	}
	e.next = "the keys are: " + strings.Join(names, ", ")
	return e
}

// unknownInBox compares what follows "box." alone: the prefix would make any
// two keys look alike. What belongs above [box] is found as well.
func (p *configParser) unknownInBox(e *configError, name string, all []string) error {
	var inside, outside []string
	for _, k := range all {
		if short, ok := strings.CutPrefix(k, "box."); ok {
			inside = append(inside, short)
			continue
		}
		outside = append(outside, k)
	}
	if best, ok := nearest(name, inside); ok {
		e.next = "did you mean `box." + best + "`?"
		return e
	}
	if best, ok := nearest(name, outside); ok {
		e.next = "did you mean `" + best + "` above [box]?"
		return e
	}
	e.next = "the keys under [box] are: " + strings.Join(inside, ", ")
	return e
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/internal/box"
)

func (d *doctor) checkCredentials() {
	path := filepath.Join(d.at.dir, localDir, credentialsFile)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return
	}
	before := len(d.shape.Checks)
	d.checkMode("credentials", path, 0o600)
	if c := &d.shape.Checks[before]; c.Status == statusOK {
		c.Fix = "every cli engine gets all of it; `ferry secret set NAME` seals a value for the engines that name it"
	}
}

// checkEngines looks at every engine. While one of several can run, what is
// wrong with another is a warning.
func (d *doctor) checkEngines(ctx context.Context, p *project) {
	if p.config.Agent == "" {
		d.say("engine", statusOK, "no agent here: "+d.at.files[0]+" names none", "")
		return
	}
	all, err := p.readyEngines()
	if err != nil {
		d.sayErr(ctx, "engine", err, "")
		return
	}
	before := len(d.shape.Checks)
	works := 0
	for i := range all {
		name := "engine"
		if len(p.config.Engines) > 0 {
			name += " " + string(all[i].Name)
		}
		if d.checkEngine(ctx, p, name, &all[i]) {
			works++
		}
	}
	if works == 0 {
		return
	}
	for i := range d.shape.Checks[before:] {
		if c := &d.shape.Checks[before+i]; c.Status == statusFail {
			c.Status = statusWarn
		}
	}
}

// checkEngine looks at one engine and reports whether it can run.
func (d *doctor) checkEngine(ctx context.Context, p *project, name string, e *readyEngine) bool {
	if e.wrong != nil {
		where, key := d.place(p, e)
		detail := e.wrong.Error()
		if key != "" {
			detail = key + ": " + detail
		}
		fix := "mend it in " + where
		if e.Unusable != "" {
			fix = "set it and start the worker again, or name another in " + where
		}
		d.say(name, statusFail, where+": "+detail, fix)
		return false
	}
	if e.Kind == engines.KindHTTP {
		d.say(name, statusOK, e.Model+" at "+e.BaseURL, "")
		return true
	}
	in, err := engines.Resolve(e.Command, environ("PATH"))
	if err != nil {
		where, _ := d.place(p, &readyEngine{e.Config, &engines.Mistake{Key: "command", Err: err}})
		d.sayErr(ctx, name, fmt.Errorf("%s: %w", where, err), "install it, or name another command there")
		return false
	}
	return d.checkInstalled(ctx, p, name, &e.Config, in)
}

// place gives the file and the line to mend, and the key, where it is one's.
func (d *doctor) place(p *project, e *readyEngine) (where, key string) {
	where = d.at.files[len(d.at.files)-1]
	m, ok := errors.AsType[*engines.Mistake](e.wrong)
	if !ok {
		return where, ""
	}
	if at := p.config.at(e.Name, m.Key); at.line > 0 {
		where = fmt.Sprintf("%s:%d", at.file, at.line)
	}
	if len(p.config.Engines) == 0 {
		return where, m.Key
	}
	return where, "engine." + string(e.Name) + "." + m.Key
}

func (d *doctor) checkInstalled(ctx context.Context, p *project, name string, c *engines.Config, in engines.Installed) bool {
	k := engines.ContractOf(c.Command)
	detail := in.Path
	if c.Command != in.Path {
		detail = c.Command + ", " + in.Path
	}
	if !k.Known() {
		d.say(name, statusOK, detail, "")
		if slices.Equal(c.Args, k.Args) || len(c.Args) == 0 {
			d.say(strings.Replace(name, "engine", "contract", 1), statusWarn, k.Warning, "set args in agent.toml")
		}
		return true
	}
	done := d.a.busy("asking " + c.Command + " for its version")
	v, err := in.Version(ctx, engines.Environ(os.Environ(), *c, k, box.LevelNone))
	done()
	if err != nil {
		d.say(name, statusFail, err.Error(), "run `"+c.Command+" --version` yourself and mend what it says")
		return false
	}
	d.say(name, statusOK, detail+", "+v, "")
	d.checkLogin(p, k, c)
	return true
}

func (d *doctor) checkLogin(p *project, k engines.Contract, c *engines.Config) {
	if len(k.Login) == 0 {
		return
	}
	var there []string
	for _, path := range p.config.Box.Login {
		if _, err := os.Stat(path); err == nil {
			there = append(there, path)
		}
	}
	switch {
	case len(there) > 0:
		d.say("login", statusOK, strings.Join(there, ", "), "")
	case len(c.Credentials) > 0:
		d.say("login", statusOK, "a secret", "")
	default:
		d.say("login", statusWarn, c.Command+" has no login that a run would see",
			"log in with it and name the files in [box] login, or set its key with `ferry secret set NAME` and name it in env")
	}
}

// keyShape is one key of agent.toml.
type keyShape struct {
	Name    string `json:"name"`
	Wants   string `json:"wants"`
	Default string `json:"default"`
	Meaning string `json:"meaning"`
}

// keysShape answers doctor --keys.
type keysShape struct {
	Keys []keyShape `json:"keys"`
}

// allKeys lists every key of agent.toml, those of an engine under
// engine.NAME.
func allKeys() []keyText {
	var out []keyText
	for _, k := range configKeys() {
		out = append(out, k.keyText)
	}
	for _, k := range engineKeys() {
		k.name = "engine.NAME." + k.name
		out = append(out, k.keyText)
	}
	return out
}

func (a *app) printKeys() error {
	shape := keysShape{Keys: []keyShape{}}
	for _, k := range allKeys() {
		shape.Keys = append(shape.Keys, keyShape{k.name, k.want, k.def, k.what})
	}
	return a.print(shape, func(w io.Writer) {
		var rows [][]string
		for _, k := range shape.Keys {
			rows = append(rows, []string{k.Name, k.Wants, k.Default, k.Meaning})
		}
		a.table(w, []string{"key", "wants", "default", "meaning"}, rows)
	})
}

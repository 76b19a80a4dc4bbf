package main

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/internal/redact"
	"github.com/ferry-fleet/ferry/sign/secret"
)

// secrets is where this machine keeps sealed values.
func (s state) secrets() secret.Store { return secret.Open(filepath.Join(string(s), "secrets")) }

// references finds the values that agent.toml only names.
type references struct {
	sealed  secret.Store
	creds   map[string]string // of credentials.json, for a name that is not sealed
	environ func(string) string
}

// value gives what secret:NAME or env:NAME stands for, or what to type so that
// it stands for something.
func (r references) value(ref string) (string, error) {
	if name, ok := strings.CutPrefix(ref, fromEnv); ok {
		if v := r.environ(name); v != "" {
			return v, nil
		}
		return "", fmt.Errorf("the variable %s is not set where ferry runs", name)
	}
	name := strings.TrimPrefix(ref, fromSecret)
	v, err := r.sealed.Get(name)
	if err == nil {
		return v, nil
	}
	if v := r.creds[name]; v != "" {
		return v, nil
	}
	if errors.Is(err, secret.ErrNotSet) {
		return "", fmt.Errorf("secret %s is not set on this machine: run `ferry secret set %s`", name, name)
	}
	return "", err
}

// fill puts the values into an engine. A key or variable without one makes the
// engine unusable; the mistake names the first.
func (r references) fill(c *engines.Config) *engines.Mistake {
	var wrong []*engines.Mistake
	miss := func(key string, err error) { wrong = append(wrong, &engines.Mistake{Key: key, Err: err}) }
	if c.KeyRef != "" {
		v, err := r.value(c.KeyRef)
		if err != nil {
			miss("key", err)
		}
		c.Key = v
	}
	hidden := map[string]string{}
	if c.Kind == engines.KindCLI {
		maps.Copy(hidden, r.creds)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		ref := c.Env[name]
		if !isRef(ref) {
			continue
		}
		v, err := r.value(ref)
		if err != nil {
			miss("env", err)
		}
		hidden[name] = v
		delete(c.Env, name)
	}
	if len(hidden) > 0 {
		c.Credentials = hidden
	}
	if len(wrong) == 0 {
		return nil
	}
	c.Unusable = wrong[0].Error()
	return wrong[0]
}

// refs gives every reference of an engine, sorted.
func refs(c *engines.Config) []string {
	var out []string
	if c.KeyRef != "" {
		out = append(out, c.KeyRef)
	}
	for _, v := range c.Env {
		if isRef(v) {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// readyEngine is an engine with its values, and what is wrong with it, or nil.
type readyEngine struct {
	engines.Config
	wrong error
}

// readyEngines gives the engines of this project's agent in order of
// preference. What is wrong with one is no reason to leave the others.
func (p *project) readyEngines() ([]readyEngine, error) {
	creds, err := p.credentials()
	if err != nil {
		return nil, err
	}
	list, err := p.config.engineList()
	if err != nil {
		return nil, err
	}
	r := references{sealed: p.state.secrets(), creds: creds, environ: environ}
	out := make([]readyEngine, len(list))
	for i, c := range list {
		if m := r.fill(&c); m != nil {
			out[i] = readyEngine{c, m}
			continue
		}
		if err := c.Check(); err != nil {
			out[i] = readyEngine{c, errors.Unwrap(err)}
			continue
		}
		out[i] = readyEngine{c, nil}
	}
	return out, nil
}

// engines gives the engines of this project's agent in order of preference,
// with the values of their secrets. One that cannot run says why in Unusable,
// or in Check.
func (p *project) engines() ([]engines.Config, error) {
	all, err := p.readyEngines()
	if err != nil {
		return nil, err
	}
	out := make([]engines.Config, len(all))
	for i, e := range all {
		out[i] = e.Config
	}
	return out, nil
}

// engine gives the engine that does the work here: the first command that can.
// Where none can, the error is what is wrong with the first of all.
func (p *project) engine() (engines.Config, engines.Contract, error) {
	all, err := p.readyEngines()
	if err != nil {
		return engines.Config{}, engines.Contract{}, err
	}
	for _, e := range all {
		if e.Kind == engines.KindCLI && e.wrong == nil {
			return e.Config, engines.ContractOf(e.Command), nil
		}
	}
	first := all[0]
	if err = first.wrong; err == nil {
		err = errors.New("an endpoint answers in text and cannot edit files, and no engine here runs a command")
	}
	return first.Config, engines.ContractOf(first.Command), fault(classEngine, "`ferry doctor` names the line of agent.toml", fmt.Errorf("engine %s: %w", first.Name, err))
}

// redactor gives the redactor that knows this project's secrets: those of
// every engine, and whatever else credentials.json holds.
func (p *project) redactor() (*redact.Redactor, error) {
	all, err := p.engines()
	if err != nil {
		return nil, err
	}
	known := slices.Collect(maps.Values(p.creds))
	for _, c := range all {
		known = append(known, c.Secrets()...)
	}
	slices.Sort(known)
	return redact.New(slices.Compact(known)), nil
}

package main

import (
	"cmp"
	"maps"
	"net/url"
	"strings"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/engines"
)

// engineList gives the engines in order of preference, with everything that
// agent.toml says of each and no value of a secret yet. Without a list it is
// the one engine that the keys above the tables make.
func (c config) engineList() ([]engines.Config, error) {
	c = c.withDefaults()
	if err := c.checkEngines(); err != nil {
		return nil, err
	}
	if len(c.Engines) == 0 {
		return []engines.Config{c.inherit(engineName(c.Command), &engineTable{}).config()}, nil
	}
	out := make([]engines.Config, len(c.Engines))
	for i, n := range c.Engines {
		t := c.Engine[n]
		if t == nil {
			t = &engineTable{}
		}
		out[i] = c.inherit(n, t).config()
	}
	return out, nil
}

// wholeEngine is a table with what it takes from the keys above it.
type wholeEngine struct {
	engineTable
	name ferry.EngineName
	pass []string
}

// inherit fills in what a table does not say. A program of its own takes
// nothing of what belongs to the one above.
func (c *config) inherit(n ferry.EngineName, t *engineTable) *wholeEngine {
	e := &wholeEngine{engineTable: *t, name: n}
	e.Kind = cmp.Or(t.Kind, t.kind())
	e.Timeout, e.Stall = cmp.Or(t.Timeout, c.Timeout), cmp.Or(t.Stall, c.Stall)
	e.Net = cmp.Or(t.Net, c.Box.Net)
	e.Tier = cmp.Or(t.Tier, string(engines.TierBuild))
	if t.Paid == "" && t.local() {
		e.Paid = string(engines.PaidLocal)
	}
	if e.Kind != string(engines.KindCLI) {
		e.Env = maps.Clone(t.Env)
		return e
	}
	e.Bypass = said(t.Bypass, *c.Bypass)
	pass, set := boxEnv(c.Box.Env)
	e.pass, e.Env = pass, map[string]string{}
	for _, kv := range set {
		name, value, _ := strings.Cut(kv, "=")
		e.Env[name] = value
	}
	if t.Command == "" {
		e.Command, e.Model = c.Command, cmp.Or(t.Model, c.Model)
		if len(t.Args) == 0 {
			e.Args = c.Args
		}
		maps.Copy(e.Env, c.Env)
	}
	maps.Copy(e.Env, t.Env)
	return e
}

// kind tells a program from an endpoint where nobody said which it is.
func (t *engineTable) kind() string {
	if t.BaseURL != "" && t.Command == "" && len(t.Args) == 0 {
		return string(engines.KindHTTP)
	}
	return string(engines.KindCLI)
}

// gatewayPort is OmniRoute's: what it passes on is somebody's, wherever it runs.
const gatewayPort = "20128"

// local reports whether the endpoint is taken for a model of this machine or
// network, which nobody is paid for.
func (t *engineTable) local() bool {
	u, err := url.Parse(t.BaseURL)
	return err == nil && t.Provider == "" && u.Port() != gatewayPort && engines.LocalURL(t.BaseURL)
}

func (e *wholeEngine) config() engines.Config {
	return engines.Config{
		Name: e.name, Kind: engines.Kind(e.Kind), Command: e.Command, Args: e.Args, Model: e.Model, BaseURL: e.BaseURL,
		Effort: e.Effort, Env: e.Env, Pass: e.pass, Bypass: e.Bypass != nil && *e.Bypass, Timeout: e.Timeout, Stall: e.Stall,
		Provider: e.Provider, Wire: e.Wire, KeyRef: e.Key, Probe: e.Probe, Tier: engines.Tier(e.Tier), Paid: engines.Paid(e.Paid),
		WeeklyRequests: int64(e.WeeklyRequests), WeeklyUSD: e.WeeklyUSD, EffortArgs: e.EffortArgs, SupportsEffort: e.SupportsEffort,
		Declared: e.Declared, Net: e.Net,
	}
}

// at gives the line of agent.toml that says something of an engine, or that
// would: the key's own, else the table's, else the list's.
func (c *config) at(n ferry.EngineName, key string) lineOf {
	names := []string{"engine." + string(n) + "." + key, "engine." + string(n), key, "engines"}
	if t := c.Engine[n]; t == nil || key == "args" && len(t.Args) == 0 || key == "env" && t.Env == nil {
		names = []string{names[0], key, names[1], "engines"}
	}
	for _, name := range names {
		if at := c.Where[name]; at.line > 0 {
			return at
		}
	}
	return lineOf{}
}

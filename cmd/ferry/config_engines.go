package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/engines"
)

// maxEngines bounds the engines of one agent.
const maxEngines = 64

// engineTable is [engine.NAME] as it is written. A field that is nil or empty
// was not said.
type engineTable struct {
	Kind, Command, Model, BaseURL, Key, Provider, Wire string
	Tier, Paid, Probe, Effort, Net                     string
	Args, EffortArgs                                   []string
	Env                                                map[string]string
	WeeklyRequests                                     int
	WeeklyUSD                                          float64
	SupportsEffort                                     bool
	Timeout, Stall                                     time.Duration
	Bypass                                             *bool
	Declared                                           engines.Declared
}

// engineKey is one key of an engine's table.
type engineKey struct {
	keyText
	set func(e *engineTable, v any) error
}

// engineKeys lists every key of an engine's table, as configKeys does.
func engineKeys() []engineKey {
	text := func(at func(*engineTable) *string) func(*engineTable, any) error {
		return func(e *engineTable, v any) error { return setString(at(e), v) }
	}
	return []engineKey{
		{keyText{"kind", `"cli" or "http"`, "http with base_url and no command, else cli", "a program that takes a prompt, or a model behind an endpoint: one answer in text, which cannot edit files"},
			func(e *engineTable, v any) error { return setOneOf(&e.Kind, v, "cli", "http") }},
		{keyText{"command", "a name on PATH or an absolute path", "the one above the tables", "the program of a cli engine"}, text(func(e *engineTable) *string { return &e.Command })},
		{keyText{"args", `a list of strings, with "{prompt}" or "{prompt_file}" in it`, "those of the command", "`{model}`, `{base_url}` and `{effort}` are filled in too"},
			func(e *engineTable, v any) error { return setStrings(&e.Args, v) }},
		{keyText{"env", "a table of strings, or a JSON object in a string", "", "set for the program; a value may be `secret:NAME` or `env:NAME`"}, setEngineEnv},
		{keyText{"model", "a model's name", "", "for `{model}`, for the endpoint, and for who did what"}, text(func(e *engineTable) *string { return &e.Model })},
		{keyText{"base_url", "the address of an endpoint", "", "what an http engine asks; of a cli engine, what its probe looks at and a list in `net` lets through"}, text(func(e *engineTable) *string { return &e.BaseURL })},
		{keyText{"key", `"secret:NAME" or "env:NAME"`, "", "the endpoint's key, never the key itself"}, func(e *engineTable, v any) error { return setRef(&e.Key, v) }},
		{keyText{"provider", `a word like "openrouter"`, "told from base_url", "a vendor or gateway with ways of its own: deepseek, openrouter, omniroute, anthropic"}, func(e *engineTable, v any) error { return setWord(&e.Provider, v) }},
		{keyText{"wire", `"chat", "responses" or "anthropic"`, "told from provider", "how the endpoint is spoken to"}, func(e *engineTable, v any) error { return setOneOf(&e.Wire, v, "chat", "responses", "anthropic") }},
		{keyText{"tier", `"judge", "build" or "chore"`, "build", "the work that it is for; an order goes to its own tier first and only climbs"}, func(e *engineTable, v any) error { return setOneOf(&e.Tier, v, "judge", "build", "chore") }},
		{keyText{"paid", `"local", "free-tier", "prepaid" or "subscription"`, "local for a base_url of this machine or network, else unknown", "who pays for a run"},
			func(e *engineTable, v any) error {
				return setOneOf(&e.Paid, v, "local", "free-tier", "prepaid", "subscription")
			}},
		{keyText{"probe", `"chat" or "models"`, "chat", "how it is asked whether it is up: for one token, or for the list of its models, which proves less"}, func(e *engineTable, v any) error { return setOneOf(&e.Probe, v, "chat", "models") }},
		{keyText{"weekly_requests", "1 to 1000000000", "no limit", "runs of the engine, of however many turns, from one Monday 00:00 UTC to the next"}, func(e *engineTable, v any) error { return setInt(&e.WeeklyRequests, v, 1, 1_000_000_000) }},
		{keyText{"weekly_usd", "an amount above 0, to 1000000", "no limit", "US dollars from one Monday 00:00 UTC to the next"}, setWeeklyUSD},
		{keyText{"class", `"small", "medium" or "large"`, "guessed from the model", "the size of the model"}, func(e *engineTable, v any) error { return setOneOf(&e.Declared.Class, v, "small", "medium", "large") }},
		{keyText{"effort", `a word like "high"`, "", "for `{effort}` in args"}, func(e *engineTable, v any) error { return setWord(&e.Effort, v) }},
		{keyText{"effort_args", `a list of strings, with "{effort}" in them`, "", "added to args where a run is given an effort"}, func(e *engineTable, v any) error { return setStrings(&e.EffortArgs, v) }},
		{keyText{"supports_effort", "true or false", "false", "the endpoint takes a reasoning effort"}, func(e *engineTable, v any) error { return setBool(&e.SupportsEffort, v) }},
		{keyText{"modalities", "a list of: " + strings.Join(modalities(), ", "), "guessed", "what it takes in or makes"}, setModalities},
		{keyText{"strengths", `a list of words like "review"`, "guessed", "what it is good at"}, func(e *engineTable, v any) error { return setWords(&e.Declared.Strengths, v) }},
		{keyText{"context_k", "1 to 1000000", "guessed", "the context window, in thousands of tokens"}, setContext},
		{keyText{"cost_per_call_usd", "an amount, 0 to 1000000", "guessed", "US dollars for one call"}, func(e *engineTable, v any) error { return setCost(&e.Declared.CostPerCall, v) }},
		{keyText{"cost_per_mtok_in_usd", "an amount, 0 to 1000000", "guessed", "US dollars for a million tokens that it reads"}, func(e *engineTable, v any) error { return setCost(&e.Declared.CostPerMTokIn, v) }},
		{keyText{"cost_per_mtok_out_usd", "an amount, 0 to 1000000", "guessed", "US dollars for a million tokens that it writes"}, func(e *engineTable, v any) error { return setCost(&e.Declared.CostPerMTokOut, v) }},
		{keyText{"local", "true or false", "guessed from base_url", "nothing that it is given leaves this machine or network"}, func(e *engineTable, v any) error { return setSaid(&e.Declared.Local, v) }},
		{keyText{"timeout", `seconds, or "30m"`, "the one above the tables", "longest run"}, func(e *engineTable, v any) error { return setDuration(&e.Timeout, v) }},
		{keyText{"stall", `seconds without a byte of output, or "10m"`, "the one above the tables", "longest silence"}, func(e *engineTable, v any) error { return setDuration(&e.Stall, v) }},
		{keyText{"bypass", "true or false", "the one above the tables", "inside the box it asks nobody"}, func(e *engineTable, v any) error { return setSaid(&e.Bypass, v) }},
		{keyText{"net", `"open", "none", "allow" or "allow:host,host"`, "`net` of [box]", "what a run may reach: anything, nothing, what the command is known to need, or these hosts"}, setNet},
	}
}

// modalities are what an engine may take in or make.
func modalities() []string {
	return []string{"text", "code", "vision", "image", "video", "audio_in", "audio_out", "embed"}
}

func setEngineEnv(e *engineTable, v any) error {
	if s, ok := v.(string); ok {
		var object map[string]any
		if json.Unmarshal([]byte(s), &object) != nil || object == nil {
			return &hinted{why: "it is no JSON object of strings", next: `write env = { NAME = "value" }`}
		}
		v = object
	}
	env, err := envTable(v)
	if err != nil {
		return err
	}
	e.Env = env
	return nil
}

func setWeeklyUSD(e *engineTable, v any) error {
	n, err := amount(v)
	if err == nil && n == 0 {
		err = fmt.Errorf("0 would let nothing run")
	}
	if err != nil {
		return err
	}
	e.WeeklyUSD = n
	return nil
}

func setModalities(e *engineTable, v any) error {
	if err := setWords(&e.Declared.Modalities, v); err != nil {
		return err
	}
	for _, m := range e.Declared.Modalities {
		if !slices.Contains(modalities(), m) {
			return fmt.Errorf("%q is none of them", clip(m, 40))
		}
	}
	return nil
}

func setContext(e *engineTable, v any) error {
	var n int
	if err := setInt(&n, v, 1, 1_000_000); err != nil {
		return err
	}
	k := int64(n)
	e.Declared.ContextK = &k
	return nil
}

func setNet(e *engineTable, v any) error {
	s, ok := v.(string)
	if !ok || s == "" {
		return fmt.Errorf("%s is no setting of net", show(v))
	}
	if err := engines.CheckNet(s); err != nil {
		return err
	}
	e.Net = s
	return nil
}

// setEngines reads the list of engines, in order of preference.
func setEngines(c *config, v any) error {
	if _, table := v.(map[string]any); table {
		return &hinted{why: "it is a table", next: "write the list engines = [\"NAME\"], and a table [engine.NAME] for each"}
	}
	var names []string
	if err := setList(&names, v); err != nil {
		return err
	}
	if len(names) > maxEngines {
		return fmt.Errorf("it names %d engines, the limit is %d", len(names), maxEngines)
	}
	out := make([]ferry.EngineName, 0, len(names))
	for _, s := range names {
		n, err := ferry.ParseEngineName(s)
		if err != nil {
			return err
		}
		if slices.Contains(out, n) {
			return fmt.Errorf("it names %s twice", n)
		}
		out = append(out, n)
	}
	c.Engines = out
	return nil
}

// engines reads the tables [engine.NAME].
func (p *configParser) engines(v any) error {
	tree, ok := v.(map[string]any)
	if !ok {
		return p.mistake("engine", "it is no table", "write `command` for the program of one engine, or a table [engine.NAME] for each of several")
	}
	for _, name := range sortedKeys(tree) {
		full := "engine." + name
		n, err := ferry.ParseEngineName(name)
		if err != nil {
			return p.mistake(full, err.Error(), "")
		}
		keys, ok := tree[name].(map[string]any)
		if !ok {
			return p.mistake(full, "it is no table", "write [engine.NAME] with the keys below it, like "+full+".model = …")
		}
		if p.c.Engine == nil {
			p.c.Engine = map[ferry.EngineName]*engineTable{}
		}
		if p.c.Engine[n] == nil {
			p.c.Engine[n] = &engineTable{}
		}
		if err := p.engine(p.c.Engine[n], full, keys); err != nil {
			return err
		}
	}
	return nil
}

// engine reads one table.
func (p *configParser) engine(e *engineTable, full string, tree map[string]any) error {
	p.note(full)
	for _, name := range sortedKeys(tree) {
		key := full + "." + name
		all := engineKeys()
		i := slices.IndexFunc(all, func(k engineKey) bool { return k.name == name })
		if i < 0 {
			return p.unknownInEngine(full, name)
		}
		p.note(key)
		if err := all[i].set(e, tree[name]); err != nil {
			return p.refused(key, err, all[i].want)
		}
	}
	return nil
}

// unknownInEngine looks for the key that was meant in the tables of engines,
// then above them: what follows a table in the file belongs to the table.
func (p *configParser) unknownInEngine(table, name string) error {
	var inside, outside []string
	for _, k := range engineKeys() {
		inside = append(inside, k.name)
	}
	for _, k := range configKeys() {
		outside = append(outside, k.name)
	}
	next := "the keys of an engine are: " + strings.Join(inside, ", ")
	if best, ok := nearest(name, outside); ok {
		next = "did you mean `" + best + "` above [" + table + "]?"
	}
	if best, ok := nearest(name, inside); ok {
		next = "did you mean `" + table + "." + best + "`?"
	}
	return p.mistake(table+"."+name, "there is no such key", next)
}

// checkEngines refuses a list and tables that do not belong together: then a
// name is spelled wrong, and the work would go to another engine than meant.
func (c *config) checkEngines() error {
	var tables []string
	for n := range c.Engine {
		tables = append(tables, string(n))
	}
	slices.Sort(tables)
	for _, t := range tables {
		if slices.Contains(c.Engines, ferry.EngineName(t)) {
			continue
		}
		e := c.mistakeAt("engine."+t, "engines does not name it")
		e.next = fmt.Sprintf("add it: engines = %s", quotedList(append(words(c.Engines), t)))
		if best, ok := nearest(t, without(words(c.Engines), tables)); ok {
			e.next = fmt.Sprintf("did you mean [engine.%s]?", best)
		}
		return e
	}
	for _, n := range c.Engines {
		if c.Engine[n] != nil || c.Command != "" {
			continue
		}
		e := c.mistakeAt("engines", fmt.Sprintf("%s has no table [engine.%s], and there is no command that it could run", n, n))
		e.next = fmt.Sprintf("write [engine.%s] with command, or with base_url and model, or take it out of the list", n)
		return e
	}
	return nil
}

func words(names []ferry.EngineName) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = string(n)
	}
	return out
}

// without gives the names of all that are not in some.
func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) })
}

// leave drops the tables of another file that this file's list does not name:
// a second agent chooses from the engines of the first.
func (c *config) leave(file string) {
	for n := range c.Engine {
		at := c.Where["engine."+string(n)]
		if at.file != file && !slices.Contains(c.Engines, n) {
			delete(c.Engine, n)
		}
	}
}

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// secondAgent settles an agent beside the one of agent.toml: what differs
// goes into a file of its own.
func (e *enabling) secondAgent(ctx context.Context) error {
	n := ferry.AgentName(e.f.agent)
	path := agentConfig(e.repo.top, n)
	e.shape.AlreadyConfigured = isFile(path)
	c, err := loadConfig(e.file(configFile), path)
	if err != nil {
		return err
	}
	project, folder, email := e.c.Project, e.c.Channel, e.c.Email
	e.c, e.second = c, path
	e.c.Project, e.c.Channel, e.c.Email, e.c.Agent = project, folder, email, n
	if !e.shape.AlreadyConfigured {
		e.c.Sandbox = cmp.Or(e.f.sandbox, e.c.Sandbox)
		if e.f.command != "" && e.f.command != e.c.Command {
			e.c.Command, e.c.Args, e.c.Model, e.c.Env, e.c.Box.Login = e.f.command, nil, "", nil, nil
			e.c.Engines = nil
			e.describe(ctx)
		}
	}
	e.shape.Agent, e.shape.Engine = string(n), e.c.Command
	e.checkCommand()
	return nil
}

// writeConfig writes the configuration that is not there yet. One that a
// person wrote without a channel_id gets that line, and keeps all the rest.
func (e *enabling) writeConfig() error {
	path, text := e.file(configFile), e.configText()
	switch {
	case e.second != "":
		if isFile(e.second) {
			return nil
		}
		path, text = e.second, e.secondText()
		if err := atomicfile.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
	case e.had:
		if e.pinned {
			return nil
		}
		data, err := atomicfile.ReadBounded(path, maxConfig)
		if err != nil {
			return err
		}
		text = "channel_id = " + quoted(e.c.ChannelID.String()) + " # added by ferry enable\n" + string(data)
		e.found("%s, to which channel_id was added", path)
	}
	if err := atomicfile.Write(path, []byte(text), 0o600); err != nil {
		return err
	}
	e.shape.Files = append(e.shape.Files, path)
	return nil
}

// configText is a new agent.toml: what was found, and every other key as a
// comment with its default.
func (e *enabling) configText() string {
	c, def := &e.c, config{}.withDefaults()
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	opt := func(name, value string, set bool, what string) {
		if !set {
			name = "# " + name
		}
		if what != "" {
			what = " # " + what
		}
		line("%s = %s%s", name, value, what)
	}
	line("# Who works here, with which engine, in which box. `ferry doctor` checks this file.")
	line("# ferry reads it when it starts and does not change it. Keys and tokens do not go")
	line("# here: `ferry secret set NAME` keeps one, and secret:NAME stands for it here.\n")
	opt("project", quoted(c.Project), true, "")
	opt("agent", quoted(string(c.Agent)), c.Agent != "", "")
	opt("channel", quoted(c.Channel), true, "the folder that a carrier may move between machines")
	opt("channel_id", quoted(c.ChannelID.String()), true, "a folder with another channel is refused")
	opt("email", quoted(c.Email), c.Email != "", "")
	line("\n# The engine: one command for each run. {prompt} is the text of the order, {prompt_file}")
	line("# a file with it, {model} the model. It runs with nobody there to answer questions.")
	opt("command", quoted(c.Command), c.Command != "", "")
	opt("args", quotedList(c.Args), len(c.Args) > 0, "")
	opt("model", quoted(c.Model), c.Model != "", "for {model}, and for who did what")
	opt("env", "{ NAME = \"value\" }", false, "set for the engine")
	opt("bypass", "true", false, "inside the box the engine asks nobody; false keeps its own questions")
	opt("engines", quotedList(words(c.Engines)), len(c.Engines) > 0, "several, in order of preference, each with a table [engine.NAME]")
	line("\n# Clocks: seconds, or \"30m\".")
	opt("timeout", quoted(durationText(cmp.Or(c.Timeout, def.Timeout))), c.Timeout > 0, "longest run")
	opt("stall", quoted(durationText(cmp.Or(c.Stall, def.Stall))), c.Stall > 0, "longest silence of the engine")
	opt("check_timeout", quoted(durationText(def.CheckTimeout)), false, "longest check")
	opt("poll", quoted(durationText(cmp.Or(c.Poll, 10*time.Second))), c.Poll > 0, "look at the channel at least this often")
	opt("max_parallel", fmt.Sprint(cmp.Or(c.MaxParallel, def.MaxParallel)), c.MaxParallel > 0, "orders at a time")
	e.limitsText(opt)
	line("\n# auto takes bwrap where it works, else landlock. none protects nothing.")
	opt("sandbox", quoted(cmp.Or(c.Sandbox, def.Sandbox)), true, "")
	line("\n[box] # what a run sees beside its tree")
	e.boxText(opt)
	opt("prepare", quoted(cmp.Or(c.Box.Prepare, "make deps")), c.Box.Prepare != "", "fills build caches from the base commit, with the network on")
	opt("userns", "false", false, "user namespaces inside the box")
	opt("net", quoted(def.Box.Net), false, "of the engine: open or none")
	opt("check_net", quoted(def.Box.CheckNet), false, "of the checks: open or none")
	opt("pids", fmt.Sprint(def.Box.Pids), false, "")
	opt("memory_mb", "4096", false, "no cap when unset")
	opt("disk_mb", fmt.Sprint(def.Box.DiskMB), false, "largest file, and size of /tmp and home")
	for _, n := range c.Engines {
		if lines := e.old.tables[n]; len(lines) > 0 {
			line("\n[engine.%s]\n%s", tomlKey(n), strings.Join(lines, "\n"))
		}
	}
	return b.String()
}

// limitsText are the keys that say when and how far work goes.
func (e *enabling) limitsText(opt func(name, value string, set bool, what string)) {
	c, g, def := &e.c, &e.c.Governor, config{}.withDefaults()
	opt("max_engines_per_order", fmt.Sprint(cmp.Or(c.MaxEngines, def.MaxEngines)), c.MaxEngines > 0, "engines that one attempt goes through")
	opt("engine_alert_after", fmt.Sprint(cmp.Or(c.AlertAfter, def.AlertAfter)), c.AlertAfter > 0, "failures in a row, then the master is asked")
	opt("claim_grace_secs", quoted(durationText(cmp.Or(c.ClaimGrace, def.ClaimGrace))), c.ClaimGrace > 0, "of no effect: a claim without a live run is given back at once")
	opt("pause_while_active", fmt.Sprint(*cmp.Or(g.PauseWhileActive, def.Governor.PauseWhileActive)), g.PauseWhileActive != nil, "begin nothing while somebody types here")
	opt("busy_cpu_percent", fmt.Sprint(*cmp.Or(g.BusyCPU, def.Governor.BusyCPU)), g.BusyCPU != nil, "unless less of the processor is in use")
	opt("min_free_ram_mb", fmt.Sprint(*cmp.Or(g.MinFreeRAM, def.Governor.MinFreeRAM)), g.MinFreeRAM != nil, "begin nothing with less free memory")
	opt("claim_window", quoted(windowText(g.ClaimWindow)), g.ClaimWindow != nil, "hours in which work may begin")
}

// windowText writes a window as claim_window reads it; without one, an example.
func windowText(w *claimWindow) string {
	if w == nil {
		w = &claimWindow{From: 22 * 60, To: 6 * 60}
	}
	text := fmt.Sprintf("%02d:%02d-%02d:%02d", w.From/60, w.From%60, w.To/60, w.To%60)
	if w.UTC {
		text += " UTC"
	}
	return text
}

// tomlKey writes a name as a part of a key: with dots in it, in quotes.
func tomlKey(n ferry.EngineName) string {
	if strings.Contains(string(n), ".") {
		return quoted(string(n))
	}
	return string(n)
}

func (e *enabling) boxText(opt func(name, value string, set bool, what string)) {
	c := &e.c
	opt("ro", quotedList(c.Box.RO), len(c.Box.RO) > 0, "paths to show read-only")
	opt("login", quotedList(c.Box.Login), len(c.Box.Login) > 0, "login files: the engine gets copies")
	opt("env", quotedList(c.Box.Env), len(c.Box.Env) > 0, "NAME to inherit, or NAME=value; also for checks")
}

// secondText is the file of a second agent: what it has of its own.
func (e *enabling) secondText() string {
	c := &e.c
	var b strings.Builder
	opt := func(name, value string, set bool, what string) {
		if set {
			fmt.Fprintf(&b, "%s = %s # %s\n", name, value, what)
		}
	}
	fmt.Fprintf(&b, "# What %s has of its own; the rest is in ../%s.\n\n", c.Agent, configFile)
	if len(c.Engines) == 0 && len(c.Engine) > 0 {
		fmt.Fprintf(&b, "engines = [] # one, which is that of command\n")
	}
	fmt.Fprintf(&b, "agent = %s\ncommand = %s\nargs = %s\nmodel = %s\nenv = %s\nsandbox = %s\n\n[box]\n",
		quoted(string(c.Agent)), quoted(c.Command), quotedList(c.Args), quoted(c.Model), quotedTable(c.Env), quoted(cmp.Or(c.Sandbox, "auto")))
	e.boxText(opt)
	return b.String()
}

// quoted writes a TOML string.
func quoted(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic("ferry: a string that JSON cannot hold: " + err.Error())
	}
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007f`)
}

func quotedList(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = quoted(s)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func quotedTable(m map[string]string) string {
	var out []string
	for name, value := range m {
		out = append(out, quoted(name)+" = "+quoted(value))
	}
	slices.Sort(out)
	if len(out) == 0 {
		return "{}"
	}
	return "{ " + strings.Join(out, ", ") + " }"
}

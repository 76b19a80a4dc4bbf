package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
)

// keyText is what is told of a key: its name, the value that it wants, its
// default, and what it does.
type keyText struct{ name, want, def, what string }

// key is one key of agent.toml.
type key struct {
	keyText
	set func(c *config, v any) error
}

// configKeys lists every key above the tables of engines; the list of
// `ferry doctor --keys`, the documentation, the nearest-key hint and the
// parser read this table.
func configKeys() []key {
	return []key{
		{keyText{"project", "a-z, 0-9, dot, dash", "the directory's name", "the project's name"}, func(c *config, v any) error { return setName(&c.Project, v) }},
		{keyText{"agent", "a-z, 0-9, dash", "", "the agent's name"}, setAgent},
		{keyText{"channel", "a directory", "in the state directory", "the channel's folder"}, func(c *config, v any) error { return setString(&c.Channel, v) }},
		{keyText{"channel_id", "64 hex digits", "", "the channel's id; a folder with another channel is refused"}, setChannelID},
		{keyText{"email", "an e-mail address", "", "yours, for records"}, func(c *config, v any) error { return setString(&c.Email, v) }},
		{keyText{"command", "a name on PATH or an absolute path", "", "the engine's program, also of a cli engine below that names none"}, func(c *config, v any) error { return setString(&c.Command, v) }},
		{keyText{"args", `a list of strings, with "{prompt}" or "{prompt_file}" in it`, "those of the command", "its arguments"}, func(c *config, v any) error { return setStrings(&c.Args, v) }},
		{keyText{"model", "a model's name", "", "for `{model}`, and for who did what"}, func(c *config, v any) error { return setString(&c.Model, v) }},
		{keyText{"env", `a table of strings: env = { NAME = "value" }`, "", "set for the program; a value may be `secret:NAME` or `env:NAME`"}, setEnv},
		{keyText{"timeout", `seconds, or "30m"`, "1h", "longest run, where the order has no `--timeout`"}, func(c *config, v any) error { return setDuration(&c.Timeout, v) }},
		{keyText{"stall", `seconds without a byte of output, or "10m"`, "10m", "longest silence of a run"}, func(c *config, v any) error { return setDuration(&c.Stall, v) }},
		{keyText{"check_timeout", `seconds, or "15m"`, "15m", "longest run of one check, and of `prepare`"}, func(c *config, v any) error { return setDuration(&c.CheckTimeout, v) }},
		{keyText{"max_parallel", "1 to 64", "1", "orders at the same time"}, func(c *config, v any) error { return setInt(&c.MaxParallel, v, 1, 64) }},
		{keyText{"poll", `seconds, or "10s"`, "10s, or 2s without file notifications", "how often the worker looks by itself"}, func(c *config, v any) error { return setDuration(&c.Poll, v) }},
		{keyText{"sandbox", `"auto", "bwrap", "landlock" or "none"`, "auto", "how engines and checks are kept apart from the machine"}, func(c *config, v any) error {
			return setOneOf(&c.Sandbox, v, "auto", "bwrap", "landlock", "none")
		}},
		{keyText{"bypass", "true or false", "true", "inside the box the engine asks nobody"}, func(c *config, v any) error { return setSaid(&c.Bypass, v) }},
		{keyText{"engines", `a list of names: engines = ["nvidia", "claude"]`, "one engine, of the keys above", "the engines in order of preference, each with a table [engine.NAME]"}, setEngines},
		{keyText{"max_engines_per_order", "1 to 16", "3", "engines that one attempt goes through when they fail"}, func(c *config, v any) error { return setInt(&c.MaxEngines, v, 1, 16) }},
		{keyText{"engine_alert_after", "1 to 100", "2", "failures in a row of one engine, after which the master is asked"}, func(c *config, v any) error { return setInt(&c.AlertAfter, v, 1, 100) }},
		{keyText{"claim_grace_secs", `seconds, or "2m"`, "120", "read for the sake of older files: a claim without a live run is given back at once, so there is nothing to wait for"}, func(c *config, v any) error { return setDuration(&c.ClaimGrace, v) }},
		{keyText{"pause_while_active", "true or false", "true", "begin nothing while somebody types on a terminal of this machine, and 5 minutes more"}, func(c *config, v any) error { return setSaid(&c.Governor.PauseWhileActive, v) }},
		{keyText{"busy_cpu_percent", "0 to 100", "50", "with `pause_while_active`: begin work all the same while less of the processor is in use; 0 asks for the person alone"}, func(c *config, v any) error { return setNumber(&c.Governor.BusyCPU, v, 0, 100) }},
		{keyText{"min_free_ram_mb", "0 to 16777216", "1024", "begin nothing with less free memory; 0 does not look"}, func(c *config, v any) error { return setNumber(&c.Governor.MinFreeRAM, v, 0, 16<<20) }},
		{keyText{"claim_window", `"22:00-06:00", or "22:00-06:00 UTC"`, "any hour", "the hours in which work may begin; what runs goes on"}, setWindow},
		{keyText{"box.ro", "a list of absolute paths of what is needed, and of no more than that", "", "host paths, read-only at the same place"}, setShown},
		{keyText{"box.login", "a list of absolute paths", "", "login files: the engine gets private copies"}, func(c *config, v any) error { return setPaths(&c.Box.Login, v) }},
		{keyText{"box.env", "a list of names", "", "variables that pass by name, or `NAME=value`"}, func(c *config, v any) error { return setStrings(&c.Box.Env, v) }},
		{keyText{"box.prepare", "a command line", "", "fills the build caches, once on each base commit"}, func(c *config, v any) error { return setString(&c.Box.Prepare, v) }},
		{keyText{"box.userns", "true or false", "false", "allow user namespaces in the box"}, func(c *config, v any) error { return setBool(&c.Box.Userns, v) }},
		{keyText{"box.net", `"open" or "none"`, "open", "network of engines"}, func(c *config, v any) error { return setOneOf(&c.Box.Net, v, "open", "none") }},
		{keyText{"box.check_net", `"open" or "none"`, "none", "network of checks"}, func(c *config, v any) error { return setOneOf(&c.Box.CheckNet, v, "open", "none") }},
		{keyText{"box.pids", "16 to 100000", "2048", "most processes"}, func(c *config, v any) error { return setInt(&c.Box.Pids, v, 16, 100_000) }},
		{keyText{"box.memory_mb", "64 to 16777216", "no cap", "most memory"}, func(c *config, v any) error { return setInt(&c.Box.MemoryMB, v, 64, 16<<20) }},
		{keyText{"box.disk_mb", "16 to 16777216", "4096", "size of the temporary directory and home, and of one file"}, func(c *config, v any) error { return setInt(&c.Box.DiskMB, v, 16, 16<<20) }},
		{keyText{"land.remote", "the name of a remote of the repository, or an https or ssh URL, or a path", "", "where landings go beside the repository here"}, func(c *config, v any) error { return setString(&c.Land.Remote, v) }},
		{keyText{"land.carry", "true or false", "true", "push what other machines need there"}, func(c *config, v any) error { return setSaid(&c.Land.Carry, v) }},
	}
}

func configKey(name string) (key, bool) {
	for _, k := range configKeys() {
		if k.name == name {
			return k, true
		}
	}
	return key{}, false
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

func setString(to *string, v any) error {
	s, ok := v.(string)
	if !ok {
		return fmt.Errorf("%s is no string", show(v))
	}
	if strings.ContainsRune(s, 0) {
		return fmt.Errorf("it has a NUL byte in it")
	}
	*to = s
	return nil
}

func setOneOf(to *string, v any, names ...string) error {
	s, _ := v.(string)
	if !slices.Contains(names, s) {
		return fmt.Errorf("%s is none of %s", show(v), strings.Join(names, ", "))
	}
	*to = s
	return nil
}

func setName(to *string, v any) error {
	s, ok := v.(string)
	if !ok {
		return fmt.Errorf("%s is no string", show(v))
	}
	if err := checkProject(s); err != nil {
		return err
	}
	*to = s
	return nil
}

func setAgent(c *config, v any) error {
	s, ok := v.(string)
	if !ok {
		return fmt.Errorf("%s is no string", show(v))
	}
	n, err := ferry.ParseAgentName(s)
	if err != nil {
		return err
	}
	c.Agent = n
	return nil
}

func setChannelID(c *config, v any) error {
	s, _ := v.(string)
	id, err := ferry.ParseRecordID(s)
	if err != nil {
		return err
	}
	c.ChannelID = id
	return nil
}

func setStrings(to *[]string, v any) error {
	list, ok := v.([]any)
	if !ok {
		return fmt.Errorf("%s is no list", show(v))
	}
	out := []string{}
	for _, e := range list {
		s, ok := e.(string)
		if !ok {
			return fmt.Errorf("%s in the list is no string", show(e))
		}
		out = append(out, s)
	}
	*to = out
	return nil
}

func setPaths(to *[]string, v any) error {
	if err := setStrings(to, v); err != nil {
		return err
	}
	for i, s := range *to {
		p, err := absolute(s)
		if err != nil {
			return err
		}
		(*to)[i] = p
	}
	return nil
}

func setBool(to *bool, v any) error {
	switch v := v.(type) {
	case bool:
		*to = v
		return nil
	case string:
		if v == "true" || v == "false" {
			*to = v == "true"
			return nil
		}
	}
	return fmt.Errorf("%s is neither true nor false", show(v))
}

func setInt(to *int, v any, least, most int64) error {
	n, ok := v.(int64)
	if s, quoted := v.(string); quoted {
		i, err := strconv.ParseInt(s, 10, 64)
		n, ok = i, err == nil
	}
	if !ok {
		return fmt.Errorf("%s is no whole number", show(v))
	}
	if n < least || n > most {
		return fmt.Errorf("%d is not between %d and %d", n, least, most)
	}
	*to = int(n)
	return nil
}

func setDuration(to *time.Duration, v any) error {
	d, err := parseDuration(v)
	if err != nil {
		return err
	}
	if d < time.Second || d > 30*24*time.Hour {
		return fmt.Errorf("%s is not between 1 second and 30 days", show(v))
	}
	*to = d
	return nil
}

// parseDuration reads seconds as a number, bare or quoted, or Go's "30m".
func parseDuration(v any) (time.Duration, error) {
	switch v := v.(type) {
	case int64:
		return seconds(v)
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return seconds(n)
		}
		d, err := time.ParseDuration(v)
		if err == nil {
			return d, nil
		}
	}
	return 0, fmt.Errorf("%s is no duration", show(v))
}

func seconds(n int64) (time.Duration, error) {
	if n < 0 || n > 1<<31 {
		return 0, fmt.Errorf("%d seconds is out of range", n)
	}
	return time.Duration(n) * time.Second, nil
}

// show gives a value of a config file as an error names it.
func show(v any) string {
	if s, ok := v.(string); ok {
		return strconv.Quote(clip(s, 60))
	}
	return clip(fmt.Sprint(v), 60)
}

// clip cuts a text at n bytes, at a rune's edge.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

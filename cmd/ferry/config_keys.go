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

// key is one key of agent.toml: its name, what it wants, and how it is set.
type key struct {
	name string
	want string
	set  func(c *config, v any) error
}

// configKeys lists every key there is; the help, the nearest-key hint and the
// parser read this table.
func configKeys() []key {
	return []key{
		{"project", "the project's name: a-z, 0-9, dot, dash", func(c *config, v any) error { return setName(&c.Project, v) }},
		{"agent", "the agent's name: a-z, 0-9, dash", setAgent},
		{"channel", "the channel's folder", func(c *config, v any) error { return setString(&c.Channel, v) }},
		{"channel_id", "the channel's id: 64 hex digits", setChannelID},
		{"email", "an e-mail address", func(c *config, v any) error { return setString(&c.Email, v) }},
		{"command", "the engine's program", func(c *config, v any) error { return setString(&c.Command, v) }},
		{"args", `a list of strings, with "{prompt}" or "{prompt_file}" in it`, func(c *config, v any) error { return setStrings(&c.Args, v) }},
		{"model", "a model's name", func(c *config, v any) error { return setString(&c.Model, v) }},
		{"env", `a table of strings: env = { NAME = "value" }`, setEnv},
		{"timeout", `seconds, or "30m"`, func(c *config, v any) error { return setDuration(&c.Timeout, v) }},
		{"stall", `seconds without a byte of output, or "10m"`, func(c *config, v any) error { return setDuration(&c.Stall, v) }},
		{"check_timeout", `seconds, or "15m"`, func(c *config, v any) error { return setDuration(&c.CheckTimeout, v) }},
		{"max_parallel", "1 to 64", func(c *config, v any) error { return setInt(&c.MaxParallel, v, 1, 64) }},
		{"poll", `seconds, or "10s"`, func(c *config, v any) error { return setDuration(&c.Poll, v) }},
		{"sandbox", `"auto", "bwrap", "landlock" or "none"`, func(c *config, v any) error {
			return setOneOf(&c.Sandbox, v, "auto", "bwrap", "landlock", "none")
		}},
		{"bypass", "true or false", setBypass},
		{"box.ro", "a list of absolute paths of what is needed, and of no more than that", setShown},
		{"box.login", "a list of absolute paths", func(c *config, v any) error { return setPaths(&c.Box.Login, v) }},
		{"box.env", "a list of names", func(c *config, v any) error { return setStrings(&c.Box.Env, v) }},
		{"box.prepare", "a command line", func(c *config, v any) error { return setString(&c.Box.Prepare, v) }},
		{"box.userns", "true or false", func(c *config, v any) error { return setBool(&c.Box.Userns, v) }},
		{"box.net", `"open" or "none"`, func(c *config, v any) error { return setOneOf(&c.Box.Net, v, "open", "none") }},
		{"box.check_net", `"open" or "none"`, func(c *config, v any) error { return setOneOf(&c.Box.CheckNet, v, "open", "none") }},
		{"box.pids", "16 to 100000", func(c *config, v any) error { return setInt(&c.Box.Pids, v, 16, 100_000) }},
		{"box.memory_mb", "64 to 16777216", func(c *config, v any) error { return setInt(&c.Box.MemoryMB, v, 64, 16<<20) }},
		{"land.remote", "the name of a remote of the repository, or an https or ssh URL, or a path", func(c *config, v any) error { return setString(&c.Land.Remote, v) }},
		{"land.carry", "true or false", setCarry},
		{"box.disk_mb", "16 to 16777216", func(c *config, v any) error { return setInt(&c.Box.DiskMB, v, 16, 16<<20) }},
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

func setEnv(c *config, v any) error {
	table, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%s is no table", show(v))
	}
	env := map[string]string{}
	for name, e := range table {
		s, ok := e.(string)
		if !ok {
			return fmt.Errorf("%s = %s is no string", name, show(e))
		}
		env[name] = s
	}
	c.Env = env
	return nil
}

func setBypass(c *config, v any) error {
	var b bool
	if err := setBool(&b, v); err != nil {
		return err
	}
	c.Bypass = &b
	return nil
}

func setCarry(c *config, v any) error {
	var b bool
	if err := setBool(&b, v); err != nil {
		return err
	}
	c.Land.Carry = &b
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

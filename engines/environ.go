package engines

import (
	"maps"
	"slices"
	"strings"

	"github.com/ferry-fleet/ferry/internal/box"
)

// allowed are the names that any engine gets from the worker's environment.
var allowed = []string{
	"PATH", "LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TZ",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
	"http_proxy", "https_proxy", "no_proxy", "all_proxy",
}

// ownHome are the names that only make sense where the engine sees the person's
// own home directory.
var ownHome = []string{
	"HOME", "USER", "LOGNAME", "TMPDIR",
	"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR",
}

// fixed is what every headless engine is told.
var fixed = map[string]string{
	"TERM": "dumb", "CI": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1",
}

// Environ returns the environment of an engine, sorted: the allowed names of
// base, what the contract asks for, then the engine's own Env and Credentials.
// A secret of base never passes, whatever its name is listed in.
func Environ(base []string, c Config, k Contract, level box.Level) []string {
	out := maps.Clone(fixed)
	names := slices.Concat(allowed, k.Names, c.Pass)
	if level == box.LevelNone {
		names = slices.Concat(names, ownHome, k.HomeNames)
	}
	for _, kv := range base {
		name, value, ok := strings.Cut(kv, "=")
		if ok && slices.Contains(names, name) && !SecretName(name) {
			out[name] = value
		}
	}
	maps.Copy(out, k.Env)
	if k.bypasses(c, level) {
		maps.Copy(out, k.BypassEnv)
	}
	maps.Copy(out, c.Env)
	maps.Copy(out, c.Credentials)
	env := make([]string, 0, len(out))
	for name, value := range out {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

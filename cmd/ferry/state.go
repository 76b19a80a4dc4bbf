package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ferry-fleet/ferry"
)

// state is the machine's state directory; every path below it is made here.
//
//	keys/<channel12>/{operator,recovery,<agent>}.key
//	channels/<project>/                 default folder of a channel
//	store/<channel12>/                  verified records and their index
//	gate/<channel12>.git                gate repository
//	runs/<channel12>/<agent>/<run>/     output.log, run.json
//	workers/<channel12>/<agent>.json    what a worker is doing
//	landings/<channel12>/               landings whose record is not written yet
//	caches/<channel12>/                 what [box] prepare downloaded
//	projects/<name>.json                where a project is
//	secrets/{secrets.age,identity.key}  values that agent.toml names, sealed
//	pause.json                          this machine takes nothing new
type state string

// stateDir gives the state directory: $FERRY_STATE_DIR, else
// $XDG_STATE_HOME/ferry, else ~/.local/state/ferry.
func stateDir() (state, error) {
	if d := environ("FERRY_STATE_DIR"); d != "" {
		p, err := filepath.Abs(d)
		return state(p), err
	}
	if d := environ("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return state(filepath.Join(d, "ferry")), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fault(classConfig, "set HOME, or FERRY_STATE_DIR to a directory of yours", errors.New("state directory: neither FERRY_STATE_DIR nor HOME is set"))
	}
	return state(filepath.Join(home, ".local", "state", "ferry")), nil
}

// channel12 is how the state directory names a channel.
func channel12(id ferry.RecordID) string { return id.String()[:12] }

func (s state) keys(id ferry.RecordID) string {
	return filepath.Join(string(s), "keys", channel12(id))
}

func (s state) operatorKey(id ferry.RecordID) string {
	return filepath.Join(s.keys(id), "operator.key")
}

func (s state) recoveryKey(id ferry.RecordID) string {
	return filepath.Join(s.keys(id), "recovery.key")
}

func (s state) agentKey(id ferry.RecordID, n ferry.AgentName) string {
	return filepath.Join(s.keys(id), string(n)+".key")
}

func (s state) channel(project string) string {
	return filepath.Join(string(s), "channels", project)
}

func (s state) store(id ferry.RecordID) string {
	return filepath.Join(string(s), "store", channel12(id))
}

func (s state) gate(id ferry.RecordID) string {
	return filepath.Join(string(s), "gate", channel12(id)+".git")
}

func (s state) runs(id ferry.RecordID) string {
	return filepath.Join(string(s), "runs", channel12(id))
}

func (s state) runsOf(id ferry.RecordID, n ferry.AgentName) string {
	return filepath.Join(s.runs(id), string(n))
}

func (s state) workers(id ferry.RecordID) string {
	return filepath.Join(string(s), "workers", channel12(id))
}

func (s state) worker(id ferry.RecordID, n ferry.AgentName) string {
	return filepath.Join(s.workers(id), string(n)+".json")
}

// landings is where a landing remembers what it is about to record.
func (s state) landings(id ferry.RecordID) string {
	return filepath.Join(string(s), "landings", channel12(id))
}

func (s state) projects() string { return filepath.Join(string(s), "projects") }

func (s state) pauseFile() string { return filepath.Join(string(s), "pause.json") }

// scratch is where probes, checks of a landing and the like put their files.
func (s state) scratch() string { return filepath.Join(string(s), "scratch") }

// absolute makes a path of the configuration absolute: "~/" is the home.
func absolute(p string) (string, error) {
	if p == "~" || strings.HasPrefix(p, "~/") {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("%s: %w", p, err)
		}
		p = filepath.Join(home, strings.TrimPrefix(p[1:], "/"))
	}
	if !filepath.IsAbs(p) {
		return "", fmt.Errorf("%q is no absolute path", p)
	}
	return filepath.Clean(p), nil
}

// checkProject checks the grammar of a project's name.
func checkProject(s string) error {
	if _, err := ferry.ParseEngineName(s); err != nil || strings.Contains(s, "..") {
		return fmt.Errorf("project %q: want 1 to 64 of a-z, 0-9, dot, dash, underscore, beginning with a letter or digit", clip(s, 80))
	}
	return nil
}

// cleanName makes a name out of any text: what is no letter or digit becomes
// a dash. It gives def when nothing is left.
func cleanName(s, def string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(s) {
		ok := r >= 'a' && r <= 'z' || r >= '0' && r <= '9'
		switch {
		case ok:
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	out := strings.Trim(b.String(), "-")
	if len(out) > 48 {
		out = strings.Trim(out[:48], "-")
	}
	if out == "" {
		return def
	}
	return out
}

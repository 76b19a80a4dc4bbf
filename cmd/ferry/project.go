package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// The files of a project, below its root.
const (
	localDir        = ".ferry"
	configFile      = "agent.toml"
	credentialsFile = "credentials.json"
)

// place is a project found on disk, before anything of it is opened.
type place struct {
	dir    string // the directory that holds .ferry
	config config
	files  []string // the config files that were read
}

// registered is one entry of <state>/projects: how --project finds it.
type registered struct {
	Name    string         `json:"name"`
	Dir     string         `json:"dir"`
	Channel ferry.RecordID `json:"channel"`
	Since   time.Time      `json:"since"`
}

// findProject finds the project that the flags or the current directory mean,
// and reads its configuration.
func (a *app) findProject(s state) (place, error) {
	dir, err := a.projectDir(s)
	if err != nil {
		return place{}, err
	}
	files := []string{filepath.Join(dir, localDir, configFile)}
	if a.agent != "" {
		name, err := parseAgent(a.agent)
		if err != nil {
			return place{}, err
		}
		files = append(files, agentConfig(dir, name))
	}
	c, err := loadConfig(files...)
	if err != nil {
		return place{}, err
	}
	if a.agent != "" {
		c.Agent = ferry.AgentName(a.agent)
	}
	if c.ChannelID.IsZero() {
		return place{}, faultf(classConfig, "`ferry enable` writes it", "%s names no channel_id", files[0])
	}
	c = c.withDefaults()
	if c.Project == "" {
		c.Project = cleanName(filepath.Base(dir), "project")
	}
	if c.Channel == "" {
		c.Channel = s.channel(c.Project)
	}
	return place{dir: dir, config: c, files: files}, nil
}

// agentConfig is where a second agent of a project keeps what differs from
// agent.toml.
func agentConfig(dir string, n ferry.AgentName) string {
	return filepath.Join(dir, localDir, "agents", string(n)+".toml")
}

// parseAgent reads an agent's name. The names of the other key files are taken.
func parseAgent(s string) (ferry.AgentName, error) {
	n, err := ferry.ParseAgentName(s)
	if err != nil {
		return "", misuse("give it a name like wisp-codex", "%w", err)
	}
	if n == "operator" || n == "recovery" {
		return "", misuse("give it a name like wisp-codex", "agent %s: ferry uses this name itself", n)
	}
	return n, nil
}

func (a *app) projectDir(s state) (string, error) {
	if a.project != "" {
		return s.projectNamed(a.project)
	}
	start, err := a.start()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if isFile(filepath.Join(dir, localDir, configFile)) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	if _, main, ok := linkedTree(start); ok && isFile(filepath.Join(main, localDir, configFile)) {
		return main, nil
	}
	next := "run `ferry enable` in a git repository, or say where it is with -C DIR or --project NAME"
	if all := s.registry(); len(all) > 0 {
		var names []string
		for _, r := range all {
			names = append(names, r.Name)
		}
		next += " (this machine knows " + strings.Join(names, ", ") + ")"
	}
	return "", faultf(classNoProject, next, "no project here: neither %s nor a directory above it holds %s/%s", start, localDir, configFile)
}

// start gives the directory where the search for a project begins.
func (a *app) start() (string, error) {
	dir := a.dir
	if dir == "" {
		dir = "."
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("current directory: %w", err)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", misuse("-C wants a directory that exists", "%s: no such directory", dir)
	}
	return dir, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// projectNamed finds a project by the name it was enabled under.
func (s state) projectNamed(name string) (string, error) {
	var names []string
	for _, r := range s.registry() {
		if r.Name == name {
			return r.Dir, nil
		}
		names = append(names, r.Name)
	}
	next := "run `ferry enable --project " + name + "` in its repository"
	if best, ok := nearest(name, names); ok {
		next = "did you mean " + best + "?"
	}
	return "", faultf(classNoProject, next, "project %q: this machine does not know it", clip(name, 80))
}

// registry lists the projects of this machine by name. What cannot be read is
// left out: the registry only saves typing.
func (s state) registry() []registered {
	entries, err := os.ReadDir(s.projects())
	if err != nil {
		return nil
	}
	var out []registered
	for _, e := range entries {
		var r registered
		if readJSON(filepath.Join(s.projects(), e.Name()), &r) == nil && r.Name+".json" == e.Name() {
			out = append(out, r)
		}
	}
	return out
}

// register writes the project into the registry.
func (s state) register(r registered) error {
	if err := atomicfile.MkdirAll(s.projects(), 0o700); err != nil {
		return err
	}
	return saveJSON(filepath.Join(s.projects(), r.Name+".json"), r, 0o600)
}

// pauseState is pause.json: this machine takes nothing new.
type pauseState struct {
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

// paused reads pause.json; ok is false when the machine is not paused.
func (s state) paused() (p pauseState, ok bool, err error) {
	err = readJSON(s.pauseFile(), &p)
	if errors.Is(err, fs.ErrNotExist) {
		return p, false, nil
	}
	return p, err == nil, err
}

func readJSON(path string, v any) error {
	data, err := atomicfile.ReadBounded(path, maxConfig)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

func saveJSON(path string, v any, perm fs.FileMode) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return atomicfile.Write(path, append(data, '\n'), perm)
}

// agents lists the agents that this machine has keys for in a channel.
func (s state) agents(id ferry.RecordID) []ferry.AgentName {
	entries, err := os.ReadDir(s.keys(id))
	if err != nil {
		return nil
	}
	var out []ferry.AgentName
	for _, e := range entries {
		base, ok := strings.CutSuffix(e.Name(), ".key")
		n, err := ferry.ParseAgentName(base)
		if ok && err == nil && base != "operator" && base != "recovery" {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

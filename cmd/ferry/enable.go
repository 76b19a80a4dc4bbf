package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/machine"
)

// enableFlags are the flags of `enable`, as typed.
type enableFlags struct {
	agent, email, command, channel, sandbox string
}

func (a *app) enableCommand() *cobra.Command {
	var f enableFlags
	cmd := &cobra.Command{
		Use:   "enable",
		Short: "attach this git repository: key, channel, configuration",
		Long: `Enable makes this repository a project: it founds a channel of which you are the
master, makes a key for you and one for the agent, and writes .ferry/agent.toml
with what it knows of the engine. It asks nothing, changes nothing that is
there, and can be run again: with another --agent it adds a second agent.`,
		Example: `  ferry enable --email you@example.com --command codex
  ferry enable --agent wisp-claude --command claude`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.enable(cmd.Context(), f) },
	}
	s := cmd.Flags()
	s.StringVar(&f.agent, "agent", "", "name of the `AGENT` (default: machine and engine)")
	s.StringVar(&f.email, "email", "", "your e-mail address (default: git's user.email)")
	s.StringVar(&f.command, "command", "", "the engine's `CLI` (default: the first of codex, claude, pi that is installed)")
	s.StringVar(&f.channel, "channel", "", "`DIR` of the channel (default: in ferry's state directory)")
	s.StringVar(&f.sandbox, "sandbox", "", "auto, bwrap, landlock or none")
	a.jsonFlag(cmd)
	return cmd
}

// enabling is one call of enable.
type enabling struct {
	a       *app
	f       enableFlags
	state   state
	repo    repository
	had     bool   // there is an agent.toml already
	pinned  bool   // and it names the channel
	missing bool   // the engine that --command names is not on this machine
	second  string // file of a second agent, "" for the first
	c       config // what is configured, then what will be
	old     ferryman
	shape   enableShape
}

func (a *app) enable(ctx context.Context, f enableFlags) error {
	s, err := stateDir()
	if err != nil {
		return err
	}
	start, err := a.start()
	if err != nil {
		return err
	}
	e := &enabling{a: a, f: f, state: s, shape: enableShape{Files: []string{}, Found: []string{}, Warnings: []string{}}}
	if e.repo, err = findRepository(ctx, start); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{e.configured, e.names, e.engine, e.sandbox, e.room, e.register, e.join, e.write} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	e.shape.Enabled = true
	if err := a.print(e.shape, func(w io.Writer) { e.text(w) }); err != nil {
		return err
	}
	if e.missing {
		return &failure{class: classEngine, code: 1, quiet: true}
	}
	return nil
}

func (e *enabling) warn(format string, args ...any) {
	e.shape.Warnings = append(e.shape.Warnings, fmt.Sprintf(format, args...))
}

func (e *enabling) found(format string, args ...any) {
	e.shape.Found = append(e.shape.Found, fmt.Sprintf(format, args...))
}

func (e *enabling) file(name string) string { return filepath.Join(e.repo.top, localDir, name) }

// configured reads what is there: agent.toml, and a Ferryman's one.
func (e *enabling) configured(context.Context) error {
	c, err := loadConfig(e.file(configFile))
	switch {
	case err == nil:
		e.had, e.pinned, e.c = true, !c.ChannelID.IsZero(), c
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if e.repo.linked {
		e.found("a linked work tree: the project is that of %s", e.repo.top)
	}
	if e.had {
		return nil
	}
	if e.old, err = readFerryman(filepath.Join(e.repo.top, ".ferryman", configFile)); err != nil {
		e.warn("%v", err)
	}
	return nil
}

// names settles what the project, the agent and the channel are called.
func (e *enabling) names(ctx context.Context) error {
	if err := e.checkFlags(); err != nil {
		return err
	}
	if err := e.nameProject(); err != nil {
		return err
	}
	if e.c.Email == "" {
		e.c.Email = e.f.email
	}
	if e.c.Email == "" {
		e.c.Email, _ = gitLine(ctx, e.repo.top, "config", "user.email") // without one the record has none
	}
	want := e.f.channel
	if want != "" {
		dir, err := filepath.Abs(want)
		if err != nil {
			return fmt.Errorf("--channel %s: %w", want, err)
		}
		want = dir
	}
	if e.had && want != "" && e.c.Channel != "" && e.c.Channel != want {
		return faultf(classConfig, "edit channel in "+e.file(configFile)+" to move it", "--channel %s: this project's channel is %s", want, e.c.Channel)
	}
	e.c.Channel = cmp.Or(e.c.Channel, want, e.state.channel(e.c.Project))
	e.shape.Project, e.shape.Channel = e.c.Project, e.c.Channel
	return nil
}

func (e *enabling) checkFlags() error {
	if e.a.project != "" {
		if err := checkProject(e.a.project); err != nil {
			return misuse("give it a name like my-project", "%w", err)
		}
	}
	if e.f.agent != "" {
		if _, err := parseAgent(e.f.agent); err != nil {
			return err
		}
	}
	if err := e.checkCommandFlag(); err != nil {
		return err
	}
	if strings.ContainsAny(e.f.email, " \t\n\x00") || e.f.email != "" && !strings.Contains(e.f.email, "@") {
		return misuse("give an address like you@example.com", "--email %q: not an e-mail address", clip(e.f.email, 80))
	}
	switch e.f.sandbox {
	case "", "auto", "bwrap", "landlock", "none":
		return nil
	}
	return misuse("it is one of auto, bwrap, landlock, none", "--sandbox %q: there is no such level", clip(e.f.sandbox, 40))
}

// checkCommandFlag makes a path absolute, because the worker runs elsewhere,
// and refuses a whole command line.
func (e *enabling) checkCommandFlag() error {
	c := e.f.command
	if strings.Contains(c, "/") {
		path, err := filepath.Abs(c)
		if err != nil {
			return fmt.Errorf("--command %s: %w", c, err)
		}
		e.f.command = path
	}
	if strings.ContainsAny(c, " \t\n\x00") && !isFile(e.f.command) {
		return misuse("name the program alone, and put its flags into args in agent.toml", "--command %q: a command line is no program", clip(c, 80))
	}
	return nil
}

// nameProject chooses the project's name: no two directories of this machine
// have the same.
func (e *enabling) nameProject() error {
	if e.had && e.c.Project != "" {
		if e.a.project != "" && e.a.project != e.c.Project {
			return faultf(classConfig, "edit project in "+e.file(configFile), "--project %s: this project is called %s", e.a.project, e.c.Project)
		}
		return nil
	}
	taken := map[string]bool{}
	for _, r := range e.state.registry() {
		if r.Dir == e.repo.top {
			e.c.Project = r.Name
			continue
		}
		taken[r.Name] = true
		if r.Name == e.a.project && isFile(filepath.Join(r.Dir, localDir, configFile)) {
			return faultf(classConfig, "choose another name", "--project %s: %s has this name", r.Name, r.Dir)
		}
	}
	e.c.Project = cmp.Or(e.a.project, e.c.Project)
	base := cleanName(filepath.Base(e.repo.top), "project")
	for n := 1; e.c.Project == ""; n++ {
		name := base
		if n > 1 {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		if !taken[name] {
			e.c.Project = name
		}
	}
	return nil
}

// engine settles the engine and what its box must show, and the agent's name.
func (e *enabling) engine(ctx context.Context) error {
	second := e.had && e.f.agent != "" && ferry.AgentName(e.f.agent) != e.c.Agent
	if second {
		return e.secondAgent(ctx)
	}
	if !e.had {
		e.takeOver()
		e.c.Command = cmp.Or(e.f.command, e.c.Command, installedEngine())
		e.c.Sandbox = cmp.Or(e.f.sandbox, e.c.Sandbox)
		e.describe(ctx)
	}
	if e.had && e.f.command != "" && e.f.command != e.c.Command {
		e.warn("command is %q in agent.toml; edit it there, or add a second agent with --agent NAME --command %s", e.c.Command, e.f.command)
	}
	if e.had && e.f.sandbox != "" && e.f.sandbox != cmp.Or(e.c.Sandbox, "auto") {
		e.warn("sandbox is %q in agent.toml; edit it there", cmp.Or(e.c.Sandbox, "auto"))
	}
	e.c.Agent = ferry.AgentName(cmp.Or(string(e.c.Agent), e.f.agent, e.agentName()))
	e.shape.Agent, e.shape.Engine = string(e.c.Agent), e.c.Command
	e.checkCommand()
	return nil
}

func (e *enabling) agentName() string {
	engine := "agent"
	if e.c.Command != "" {
		engine = cleanName(filepath.Base(e.c.Command), engine)
	}
	return cleanName(machine.Name(), "machine") + "-" + engine
}

// installedEngine gives the first known CLI on PATH, or "".
func installedEngine() string {
	for _, name := range []string{"codex", "claude", "pi"} {
		if _, err := engines.Resolve(name, environ("PATH")); err == nil {
			return name
		}
	}
	return ""
}

// checkCommand says what is missing for the engine to run.
func (e *enabling) checkCommand() {
	if e.c.Command == "" {
		e.warn("no engine is installed that ferry knows (codex, claude, pi): install one and set command in agent.toml")
		return
	}
	if _, err := engines.Resolve(e.c.Command, environ("PATH")); err != nil {
		e.warn("%v; orders wait until it is there", err)
		e.missing = e.f.command != ""
	}
	k := engines.ContractOf(e.c.Command)
	if k.Warning != "" && slices.Equal(e.c.Args, k.Args) {
		e.warn("%s", k.Warning)
	}
	if len(k.Bypass) > 0 && (e.c.Bypass == nil || *e.c.Bypass) && e.c.Sandbox != "none" {
		e.found("%s (bypass = false in agent.toml keeps that off)", k.BypassNote)
	}
}

// sandbox tries the sandbox, so that what is missing is said now.
func (e *enabling) sandbox(ctx context.Context) error {
	dir, err := e.state.scratchDir()
	if err != nil {
		return err
	}
	defer e.a.busy("trying the sandbox")()
	level, _, err := box.Choose(ctx, cmp.Or(e.c.Sandbox, "auto"), dir)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		e.shape.Sandbox = ""
		e.warn("%v", err)
		return nil
	}
	e.shape.Sandbox = string(level)
	if level == box.LevelNone {
		e.warn("sandbox = \"none\": engines see and may change everything that you can, and results do not land by themselves")
	}
	return nil
}

// room tries to write where the project's files will be, before a channel is
// founded for a project that could not remember it.
func (e *enabling) room(context.Context) error {
	if e.pinned && e.second == "" {
		return nil
	}
	dir := filepath.Join(e.repo.top, localDir)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		dir = e.repo.top
	}
	if err := tryWrite(dir); err != nil {
		return fault(classRepository, "make "+e.repo.top+" writable for you; nothing was founded", fmt.Errorf("enable: %w", err))
	}
	return nil
}

// write writes the files that are not there yet.
func (e *enabling) write(ctx context.Context) error {
	if err := atomicfile.MkdirAll(filepath.Join(e.repo.top, localDir), 0o700); err != nil {
		return err
	}
	if err := e.writeConfig(); err != nil {
		return err
	}
	if err := e.ignore(); err != nil {
		return err
	}
	return e.register(ctx)
}

// register tells this machine where the project is. It is done before the
// channel is founded as well, when nothing is left to refuse, so that a second call after a crash finds the
// same name.
func (e *enabling) register(context.Context) error {
	return e.state.register(registered{Name: e.c.Project, Dir: e.repo.top, Channel: e.c.ChannelID, Since: e.a.now().UTC()})
}

// ignore keeps .ferry out of git's sight, in the file that is not shared.
func (e *enabling) ignore() error {
	const line = "/" + localDir + "/"
	data, err := atomicfile.ReadBounded(e.repo.exclude, maxConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", e.repo.exclude, err)
	}
	for l := range strings.Lines(string(data)) {
		if strings.TrimSpace(l) == line {
			return nil
		}
	}
	text := string(data)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if err := atomicfile.MkdirAll(filepath.Dir(e.repo.exclude), 0o755); err != nil {
		return err
	}
	perm := fs.FileMode(0o644)
	if info, err := os.Stat(e.repo.exclude); err == nil {
		perm = info.Mode().Perm()
	}
	if err := atomicfile.Write(e.repo.exclude, []byte(text+line+"\n"), perm); err != nil {
		return err
	}
	e.shape.Files = append(e.shape.Files, e.repo.exclude)
	return nil
}

// text tells a person what was done, found and is missing.
func (e *enabling) text(w io.Writer) {
	s := &e.shape
	word := "enabled"
	if s.AlreadyConfigured {
		word = "already enabled"
	}
	fmt.Fprintf(w, "%s: project %s, agent %s\n", word, s.Project, s.Agent)
	field(w, "channel", s.Channel)
	field(w, "engine", s.Engine)
	field(w, "sandbox", s.Sandbox)
	for _, f := range s.Files {
		field(w, "wrote", f)
	}
	for _, f := range s.Found {
		field(w, "found", f)
	}
	for _, f := range s.Warnings {
		field(w, "warning", f)
	}
	fmt.Fprintln(w, "next: `ferry doctor`, then `ferry agent run` and `ferry channel order --task \"…\"`")
}

// published turns "recorded, but not in the folder yet" into a warning: the
// record holds.
func (a *app) published(err error) error {
	if errors.Is(err, channel.ErrUnpublished) {
		a.warn("warning: %v", err)
		return nil
	}
	return err
}

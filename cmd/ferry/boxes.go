package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/process"
	"github.com/ferry-fleet/ferry/internal/redact"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// engineName is the name of an engine that agent.toml gives by its command alone.
func engineName(command string) ferry.EngineName {
	return ferry.EngineName(cleanName(filepath.Base(command), "engine"))
}

// boxEnv splits [box] env into names that are inherited and NAME=value pairs.
func boxEnv(entries []string) (names, set []string) {
	for _, e := range entries {
		if strings.Contains(e, "=") {
			set = append(set, e)
			continue
		}
		names = append(names, e)
	}
	return names, set
}

// engineBox is the box of an engine: level, network, what it sees and its
// caps. The worker adds the tree, the state directory and the mark.
func (p *project) engineBox(level box.Level) box.Spec {
	s := p.anyBox(level)
	s.Net = box.Net(p.config.Box.Net)
	s.Login = p.config.Box.Login
	s.Userns = p.config.Box.Userns
	return s
}

// checkBox is the box of a check and of `prepare`: no login, no credential,
// and no network unless check_net says so.
func (p *project) checkBox(level box.Level) box.Spec {
	s := p.anyBox(level)
	s.Net = box.Net(p.config.Box.CheckNet)
	s.Env = checkEnviron(os.Environ(), p.config)
	return s
}

func (p *project) anyBox(level box.Level) box.Spec {
	b := p.config.Box
	s := box.Spec{
		Level: level, TmpBytes: int64(b.DiskMB) << 20,
		Limits: process.Limits{Pids: b.Pids, MemoryBytes: int64(b.MemoryMB) << 20, FileBytes: int64(b.DiskMB) << 20},
	}
	for _, path := range b.RO {
		s.Binds = append(s.Binds, box.Bind{Host: path, Optional: true})
	}
	return s
}

// checkEnviron is the environment of a check: a few harmless names, what
// [box] env names, and never a secret.
func checkEnviron(base []string, c config) []string {
	pass, set := boxEnv(c.Box.Env)
	names := slices.Concat([]string{"PATH", "LANG", "LC_ALL", "TZ"}, pass)
	out := []string{"CI=1", "TERM=dumb", "GIT_TERMINAL_PROMPT=0"}
	for _, kv := range base {
		name, _, ok := strings.Cut(kv, "=")
		if ok && slices.Contains(names, name) && !engines.SecretName(name) {
			out = append(out, kv)
		}
	}
	return append(out, set...)
}

// checkSpec maps the configuration to how an order's checks are run: the same
// for the worker and for a landing. The caller fills in commit and commands.
func (p *project) checkSpec(level box.Level, gate *worktree.Gate, r *redact.Redactor) evidence.ChecksSpec {
	return evidence.ChecksSpec{
		Gate: gate, Box: p.checkBox(level), Timeout: p.config.CheckTimeout, Redactor: r,
	}
}

// prepareSpec maps the configuration to how `prepare` fills the caches: in the
// box of a check, with the engine's network.
func (p *project) prepareSpec(level box.Level, gate *worktree.Gate, r *redact.Redactor) evidence.PrepareSpec {
	spec := p.checkBox(level)
	spec.Net = box.Net(p.config.Box.Net)
	return evidence.PrepareSpec{
		Gate: gate, Command: p.config.Box.Prepare, Dir: p.caches(), Box: spec, Timeout: p.config.CheckTimeout, Redactor: r,
	}
}

// level chooses the sandbox and proves that it holds.
func (p *project) level(ctx context.Context) (box.Level, box.Report, error) {
	dir, err := p.state.scratchDir()
	if err != nil {
		return "", box.Report{}, err
	}
	if err := tryWrite(dir); err != nil {
		return "", box.Report{}, fmt.Errorf("try the sandbox: %w", err)
	}
	done := p.app.busy("trying the sandbox")
	defer done()
	level, report, err := box.Choose(ctx, p.config.Sandbox, dir)
	if err != nil {
		return "", report, fault(classSandbox, "`ferry doctor --sandbox` shows every try", err)
	}
	return level, report, nil
}

// scratchDir makes the directory for files of the moment.
func (s state) scratchDir() (string, error) {
	dir := s.scratch()
	return dir, atomicfile.MkdirAll(dir, 0o700)
}

// caches is where `prepare` leaves what it downloaded.
func (p *project) caches() string {
	return filepath.Join(string(p.state), "caches", channel12(p.config.ChannelID))
}

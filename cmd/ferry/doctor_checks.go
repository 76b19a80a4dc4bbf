package main

import (
	"cmp"
	"context"
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
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/machine"
	"github.com/ferry-fleet/ferry/internal/process"
	"github.com/ferry-fleet/ferry/sign"
)

// checkMode looks at the mode of a private file or directory, and mends it
// when asked.
func (d *doctor) checkMode(name, path string, want fs.FileMode) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	fix := fmt.Sprintf("chmod %o %s", want, path)
	switch {
	case err != nil:
		d.say(name, statusFail, err.Error(), "make it readable for you")
	case info.Mode().Perm()&^want == 0:
		d.say(name, statusOK, fmt.Sprintf("%s, mode %04o", path, info.Mode().Perm()), "")
	case d.fix && os.Chmod(path, want) == nil:
		d.say(name, statusOK, fmt.Sprintf("%s, mode mended to %04o", path, want), "")
	default:
		d.say(name, statusFail, fmt.Sprintf("%s has mode %04o: others can read it", path, info.Mode().Perm()), fix)
	}
}

func (d *doctor) checkState() {
	if _, err := os.Stat(string(d.state)); errors.Is(err, fs.ErrNotExist) {
		d.say("state", statusWarn, string(d.state)+" does not exist yet", "`ferry enable` makes it")
		return
	}
	d.checkMode("state", string(d.state), 0o700)
}

// The shares of the disk that must be free: below the first nothing new
// begins, below the second it is said.
const (
	diskFail = 0.02
	diskWarn = 0.10
)

func (d *doctor) checkMachine() {
	path := string(d.state)
	for path != "/" {
		if _, err := os.Stat(path); err == nil {
			break
		}
		path = filepath.Dir(path)
	}
	free, share, err := machine.DiskFree(path)
	detail := fmt.Sprintf("%.1f GiB free, %.0f %%", float64(free)/(1<<30), share*100)
	switch {
	case err != nil:
		d.say("disk", statusWarn, err.Error(), "look at the disk of "+path)
	case share < diskFail:
		d.say("disk", statusFail, detail, "free some space on the disk of "+path)
	case share < diskWarn:
		d.say("disk", statusWarn, detail, "free some space on the disk of "+path)
	default:
		d.say("disk", statusOK, detail, "")
	}
	if p, paused, err := d.state.paused(); err != nil {
		d.say("pause", statusFail, err.Error(), "`ferry resume`")
	} else if paused {
		d.say("pause", statusWarn, "this machine begins nothing new"+because(p.Reason), "`ferry resume`")
	}
}

func (d *doctor) checkRepository(ctx context.Context, p *project) {
	version, err := gitLine(ctx, d.at.dir, "--version")
	if err != nil {
		d.sayErr(ctx, "git", err, "install git")
		return
	}
	d.say("git", statusOK, version, "")
	gate, err := p.Gate(ctx)
	if err != nil {
		d.sayErr(ctx, "repository", err, "")
		return
	}
	base, err := gate.Base(ctx, "")
	if err != nil {
		d.sayErr(ctx, "repository", err, "")
		return
	}
	if d.fix {
		if _, err := gate.RepairCheckout(ctx); err != nil {
			d.say("checkout", statusFail, err.Error(), "commit or stash your changes, then `ferry doctor --fix`")
		}
	}
	where := "on " + base.Branch
	if base.Detached {
		where = "detached: orders need --target BRANCH"
	}
	d.say("repository", statusOK, fmt.Sprintf("%s at %s, %s", p.repo, base.Commit.Short(), where), "")
	d.checkIgnored(ctx)
}

// checkIgnored looks whether git would commit .ferry, which may hold secrets.
func (d *doctor) checkIgnored(ctx context.Context) {
	if _, err := gitLine(ctx, d.at.dir, "check-ignore", "-q", localDir+"/"+credentialsFile); err == nil {
		return
	}
	r, err := findRepository(ctx, d.at.dir)
	if err == nil && d.fix {
		e := enabling{a: d.a, state: d.state, repo: r}
		if err = e.ignore(); err == nil {
			d.say("ignore", statusOK, "the line /.ferry/ was added to "+r.exclude, "")
			return
		}
	}
	d.say("ignore", statusFail, "git does not ignore .ferry, where keys may be", "`ferry doctor --fix`, or add the line /.ferry/ to .git/info/exclude")
}

// checkRest says that the engine rests, and ends the rest when asked: a worker
// that runs notices that the file of what it remembers is gone.
func (d *doctor) checkRest(p *project) {
	if d.fix {
		d.endRest(p)
	}
	if p.config.Agent == "" {
		return
	}
	if why := p.resting(); why != "" {
		d.say("rest", statusWarn, why, "mend the cause, then `ferry doctor --fix` lets the engine try at once")
	}
}

// endRest forgets the faults of the engines of this project's agents.
func (d *doctor) endRest(p *project) {
	id := p.config.ChannelID
	var of []string
	for _, n := range d.state.agents(id) {
		err := os.Remove(d.state.health(id, n))
		if err == nil {
			of = append(of, string(n))
		} else if !errors.Is(err, fs.ErrNotExist) {
			d.say("rest", statusFail, err.Error(), "remove "+d.state.health(id, n))
		}
	}
	if len(of) > 0 {
		d.say("rest", statusOK, "the faults of the engine of "+strings.Join(of, ", ")+" are forgotten: it may try at once", "")
	}
}

func (d *doctor) checkSandbox(ctx context.Context, p *project) {
	level, report, err := p.level(ctx)
	switch {
	case err != nil:
		d.sayErr(ctx, "sandbox", err, "")
	case level == box.LevelNone:
		d.say("sandbox", statusWarn, "none: engines see and may change everything that you can", "set sandbox = \"auto\" in agent.toml")
	default:
		d.say("sandbox", statusOK, fmt.Sprintf("%s, %d tries as promised", cmp.Or(report.Version, string(level)), len(report.Tries)), "")
	}
}

func (d *doctor) checkChannel(ctx context.Context) {
	if _, err := d.p.channel.Refresh(ctx); err != nil {
		d.sayErr(ctx, "channel", err, "")
		return
	}
	snap, err := d.p.channel.Snapshot(ctx)
	if err != nil {
		d.sayErr(ctx, "channel", err, "")
		return
	}
	folder := d.p.config.Channel
	if err := tryWrite(folder); err != nil {
		d.say("channel", statusFail, "write to the channel's folder: "+err.Error(), "make "+folder+" writable; records wait on this machine until then")
		return
	}
	detail := fmt.Sprintf("%s, %s", d.p.config.ChannelID.Short(), folder)
	if len(snap.Rejected) == 0 {
		d.say("channel", statusOK, detail, "")
		return
	}
	first := snap.Rejected[0]
	d.say("channel", statusWarn, fmt.Sprintf("%s; %d files are not read, like %s: %s", detail, len(snap.Rejected), first.Name, first.Reason),
		"`ferry channel verify` checks everything; files that are not records can be deleted")
}

// tryWrite proves that a file can be made in the folder.
func tryWrite(dir string) error {
	path := filepath.Join(dir, ".ferry-doctor-"+string(ferry.NewRunID()))
	if err := atomicfile.Write(path, []byte("ferry doctor was here\n"), 0o600); err != nil {
		return err
	}
	return os.Remove(path)
}

func (d *doctor) checkKeys(ctx context.Context) {
	id := d.p.config.ChannelID
	members, err := d.p.channel.Members(ctx)
	if err != nil {
		d.sayErr(ctx, "members", err, "")
		return
	}
	waiting, err := d.p.asked(ctx)
	if err != nil {
		d.sayErr(ctx, "members", err, "")
		return
	}
	stopped, err := d.p.stoppedKeys(ctx)
	if err != nil {
		d.sayErr(ctx, "members", err, "")
		return
	}
	for _, k := range []struct{ name, path, missing string }{
		{"agent key", d.state.agentKey(id, d.p.config.Agent), statusFail},
		{"your key", d.state.operatorKey(id), statusWarn},
	} {
		if d.fix {
			d.mendKey(k.name, k.path)
		}
		base := strings.TrimSuffix(filepath.Base(k.path), ".key")
		if base == "" {
			continue // a person's project has no agent
		}
		if i := slices.IndexFunc(waiting, func(q asking) bool { return q.base == base }); i >= 0 {
			d.say(k.name, statusFail, waiting[i].state(), waiting[i].next())
			continue
		}
		if i := slices.IndexFunc(stopped, func(s stoppedKey) bool { return s.base == base }); i >= 0 {
			d.say(k.name, statusFail, stopped[i].state, stopped[i].next)
			continue
		}
		key, err := sign.LoadKey(k.path)
		if errors.Is(err, fs.ErrNotExist) {
			d.say(k.name, k.missing, "none at "+k.path, "`ferry enable` makes it where it may")
			continue
		}
		if err != nil {
			d.say(k.name, statusFail, err.Error(), "chmod 600 "+k.path)
			continue
		}
		public := key.Public().String()
		i := slices.IndexFunc(members, func(m ferry.Member) bool { return m.Key == public })
		if i < 0 {
			d.say(k.name, statusFail, "the channel does not know it", "`ferry enable` admits it, where the master's key is")
			continue
		}
		d.say(k.name, statusOK, "member "+string(members[i].Name)+grantsLine(members[i].Grants), "")
	}
	if path := d.state.recoveryKey(id); isFile(path) {
		d.say("recovery key", statusWarn, "it is still on this machine, where a thief would find it with the others",
			"move "+path+" to a place that is not on this machine")
	}
}

// mendKey gives a key file that others may read the mode that it must have.
func (d *doctor) mendKey(name, path string) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&^0o600 == 0 {
		return
	}
	if err := os.Chmod(path, 0o600); err != nil {
		d.say(name, statusFail, err.Error(), "chmod 600 "+path)
	}
}

// checkClock compares the clock with the records that this machine wrote.
func (d *doctor) checkClock(ctx context.Context) {
	now := d.a.now()
	if now.Year() < 2025 {
		d.say("clock", statusFail, "it says "+now.Format(time.DateTime), "set the clock")
		return
	}
	entries, err := d.p.channel.Ledger(ctx, 20)
	if err != nil {
		d.sayErr(ctx, "ledger", err, "`ferry channel verify`")
		return
	}
	for _, e := range entries {
		if e.Time.Sub(now) > 5*time.Minute {
			d.say("clock", statusWarn, fmt.Sprintf("it says %s, and a record is from %s", now.Format(time.DateTime), e.Time.Local().Format(time.DateTime)),
				"set the clocks of the machines; nothing is decided by them, but times are shown wrong")
			return
		}
	}
	d.say("clock", statusOK, now.Format(time.DateTime), "")
}

func (d *doctor) checkWorker() {
	if d.p.config.Agent == "" {
		return
	}
	for _, s := range d.p.workersAlive() {
		if s.Agent == d.p.config.Agent {
			d.say("worker", statusOK, fmt.Sprintf("%s, pid %d", s.Agent, s.PID), "")
			return
		}
	}
	if d.fix {
		d.removeStale()
	}
	d.say("worker", statusWarn, string(d.p.config.Agent)+" does not run", "`ferry agent run`")
}

// removeStale removes status files whose worker is gone.
func (d *doctor) removeStale() {
	all, alive := d.p.workers()
	for i, s := range all {
		if alive[i] || process.Alive(s.PID, s.PIDMark) {
			continue
		}
		path := d.state.worker(d.p.config.ChannelID, s.Agent)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.say("worker", statusWarn, err.Error(), "remove "+path)
		}
	}
}

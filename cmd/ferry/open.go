package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/internal/worktree"
	"github.com/ferry-fleet/ferry/sign"
)

// project is an opened project: the channel, and what verbs need beside it,
// opened on demand. It is the composition root of every verb. The worker is
// given an agent's writer and never the operator's.
type project struct {
	place
	app     *app
	state   state
	channel *channel.Channel
	repo    string // the checkout that the person stands in, or that of dir
	gate    *worktree.Gate
	creds   map[string]string
	person  *channel.Writer // the operator's, once a verb has asked for it
}

// openProject finds the project that the flags mean, opens its channel, and
// reads what has arrived.
func (a *app) openProject(ctx context.Context) (*project, error) {
	p, err := a.openUnread(ctx)
	if err != nil {
		return nil, err
	}
	done := a.busy("reading the channel")
	defer done()
	if _, err := p.channel.Refresh(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("read the channel: %w", err), p.close())
	}
	return p, nil
}

// openUnread is openProject without a look at the folder.
func (a *app) openUnread(ctx context.Context) (*project, error) {
	s, err := stateDir()
	if err != nil {
		return nil, err
	}
	at, err := a.findProject(s)
	if err != nil {
		return nil, err
	}
	p := &project{place: at, app: a, state: s}
	if p.repo, err = a.repoOf(at.dir); err != nil {
		return nil, err
	}
	if p.channel, err = channel.Open(ctx, p.channelConfig(), at.config.ChannelID); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *project) channelConfig() channel.Config {
	return channel.Config{
		Folder: p.config.Channel, State: p.state.store(p.config.ChannelID), Judge: evidence.Classify, Log: p.app.log(),
	}
}

// close closes what was opened.
func (p *project) close() error { return p.channel.Close() }

// with opens the project, runs f, and closes the project.
func (a *app) with(ctx context.Context, f func(*project) error) error {
	p, err := a.openProject(ctx)
	if err != nil {
		return err
	}
	p.repair(ctx)
	p.person = nil // what counts is whether the verb itself asks for the key
	if err = f(p); err == nil {
		p.seal(ctx)
	}
	return errors.Join(err, p.close())
}

// seal packs the records of the person who typed the verb, when many lie in single files: no worker does it, because none
// has the key. What is in the way is the next verb's to try again.
func (p *project) seal(ctx context.Context) {
	if p.person == nil {
		return
	}
	if _, err := p.person.SealFull(ctx, p.app.now()); err != nil {
		p.app.log().Info("your records stay in single files", "err", err)
	}
}

// Gate opens the gate repository, once.
func (p *project) Gate(ctx context.Context) (*worktree.Gate, error) {
	if p.gate != nil {
		return p.gate, nil
	}
	if err := atomicfile.MkdirAll(filepath.Dir(p.state.gate(p.config.ChannelID)), 0o700); err != nil {
		return nil, err
	}
	g, err := worktree.OpenGate(ctx, worktree.GateSpec{
		Dir: p.state.gate(p.config.ChannelID), Repo: p.repo, Log: p.app.log(),
	})
	if err != nil {
		return nil, err
	}
	p.gate = g
	if _, err := g.RepairCheckout(ctx); err != nil {
		p.app.warn("warning: %v", err)
	}
	return g, nil
}

// operator gives the writer of the person. Only a verb that a person types may
// ask for it; the worker never does.
func (p *project) operator() (*channel.Writer, error) {
	w, err := p.writer(p.state.operatorKey(p.config.ChannelID),
		"this is done by a person: on the machine where `ferry enable` founded the channel, or on one that has joined as an operator")
	p.person = w
	return w, err
}

// agentWriter gives the writer of the agent that works here.
func (p *project) agentWriter() (*channel.Writer, error) {
	if p.config.Agent == "" {
		return nil, faultf(classConfig, "add agent = \"NAME\" to "+p.files[0], "no agent is named")
	}
	return p.writer(p.state.agentKey(p.config.ChannelID, p.config.Agent),
		"`ferry enable --agent "+string(p.config.Agent)+"` makes it")
}

func (p *project) writer(path, next string) (*channel.Writer, error) {
	if err := p.mayUse(strings.TrimSuffix(filepath.Base(path), ".key")); err != nil {
		return nil, err
	}
	key, err := sign.LoadKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, faultf(classKey, next, "there is no key at %s", path)
	}
	if err != nil {
		return nil, fault(classKey, "a key is a file of mode 0600 that only you own", err)
	}
	w, err := p.channel.Writer(key)
	if errors.Is(err, channel.ErrRevoked) {
		next = "`ferry channel members` says why; the command in the line above asks the master for another key"
	}
	if err != nil {
		return nil, fault(classKey, next, fmt.Errorf("key %s: %w", path, err))
	}
	return w, nil
}

// credentials gives what .ferry/credentials.json holds, read once.
func (p *project) credentials() (map[string]string, error) {
	if p.creds != nil {
		return p.creds, nil
	}
	creds, err := loadCredentials(p.dir)
	if err != nil {
		return nil, err
	}
	if creds == nil {
		creds = map[string]string{}
	}
	p.creds = creds
	return creds, nil
}

// people lists everybody who is or was in the channel, so that what a former
// member wrote is shown under its name.
func (p *project) people(ctx context.Context) ([]ferry.Member, error) {
	roster, err := p.channel.Roster(ctx)
	if err != nil {
		return nil, err
	}
	var out []ferry.Member
	for _, w := range roster.Known() {
		if m, ok := roster.Member(w); ok {
			out = append(out, m)
		}
	}
	return out, nil
}

// name gives the name of a writer, or its id where it has none.
func name(members []ferry.Member, w ferry.WriterID) string {
	for _, m := range members {
		if m.Writer == w {
			return string(m.Name)
		}
	}
	return string(w)
}

// repoOf gives the checkout whose HEAD is meant: the one the person stands in
// when it is a linked work tree of the project's repository, else the
// project's own.
func (a *app) repoOf(dir string) (string, error) {
	if a.project != "" {
		return dir, nil
	}
	start, err := a.start()
	if err != nil {
		return "", err
	}
	if top, main, ok := linkedTree(start); ok && main == dir {
		return top, nil
	}
	return dir, nil
}

// linkedTree finds the linked work tree that holds dir, and the main work
// tree it belongs to, by the files that git writes.
func linkedTree(dir string) (top, main string, ok bool) {
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Lstat(filepath.Join(dir, ".git"))
		switch {
		case err == nil && info.Mode().IsRegular():
			main, ok = mainTree(dir)
			return dir, main, ok
		case err == nil || dir == filepath.Dir(dir):
			return "", "", false
		}
	}
}

// mainTree reads the .git file of a linked work tree: it points to
// <main>/.git/worktrees/<name>.
func mainTree(top string) (string, bool) {
	data, err := atomicfile.ReadBounded(filepath.Join(top, ".git"), 4096)
	if err != nil {
		return "", false
	}
	gitdir, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "gitdir: ")
	if !ok {
		return "", false
	}
	if !filepath.IsAbs(gitdir) {
		gitdir = filepath.Join(top, gitdir)
	}
	trees := filepath.Dir(filepath.Clean(gitdir))
	common := filepath.Dir(trees)
	if filepath.Base(trees) != "worktrees" || filepath.Base(common) != ".git" {
		return "", false
	}
	return filepath.Dir(common), true
}

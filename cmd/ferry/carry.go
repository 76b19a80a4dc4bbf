package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/gitfacts"
	"github.com/ferry-fleet/ferry/internal/redact"
	"github.com/ferry-fleet/ferry/internal/worktree"
	"github.com/ferry-fleet/ferry/land"
)

// The remote that a repository has when nobody has chosen one.
const impliedRemote = "origin"

// How long a command and a worker wait for the remote that commits travel by.
const (
	travelTime = 30 * time.Second
	workerTime = 10 * time.Minute
)

// travels gives the remote that commits travel by between machines; nil where
// there is none. It is the one that is set under [land], else origin, when
// the repository has just that. Nothing is pushed with carry = false, nor to a
// remote that nobody has set while all members are on this machine.
func (p *project) travels(ctx context.Context, gate *worktree.Gate, limit time.Duration, push bool) (*worktree.Remote, error) {
	set := p.config.Land
	if push && set.Carry != nil && !*set.Carry {
		return nil, nil
	}
	spec := worktree.RemoteSpec{Name: set.Remote, Env: os.Environ(), Timeout: limit}
	if set.Remote == "" {
		names, err := gate.Remotes(ctx, spec.Env)
		if err != nil || !slices.Equal(names, []string{impliedRemote}) {
			return nil, err
		}
		if push {
			if alone, err := p.alone(ctx); alone || err != nil {
				return nil, err
			}
		}
		spec.Name = impliedRemote
	}
	return gate.Remote(ctx, spec)
}

// alone reports whether the keys of all members are on this machine.
func (p *project) alone(ctx context.Context) (bool, error) {
	members, err := p.channel.Members(ctx)
	if err != nil {
		return false, err
	}
	here := p.writersHere()
	return !slices.ContainsFunc(members, func(m ferry.Member) bool { return !here[m.Key] }), nil
}

// fetches gives what a command fetches a result's commit from.
func (p *project) fetches(gate *worktree.Gate) land.Fetch {
	return func(ctx context.Context) (*worktree.Remote, error) { return p.travels(ctx, gate, travelTime, false) }
}

// carryBase makes sure that the machines that may take an order can get the
// commit it begins from. Where the remote cannot be asked the order is given
// all the same: a worker holds it until it can begin.
func (p *project) carryBase(ctx context.Context, gate *worktree.Gate, base ferry.Commit) {
	r, err := p.travels(ctx, gate, travelTime, true)
	if r == nil && err == nil {
		return
	}
	held := false
	if err == nil {
		held, err = r.Holds(ctx, base)
	}
	if err == nil && !held {
		err = r.Carry(ctx, worktree.BaseRef(base), base)
	}
	switch {
	case err != nil:
		p.app.warn("warning: other machines cannot begin it until its base %s is on the remote: %s", base.Short(), redact.Visible(err.Error()))
	case !held:
		p.app.warn("its base %s is in no branch of %s: pushed there as %s", base.Short(), redact.Visible(r.String()), worktree.BaseRef(base))
	}
}

// maxDiff bounds the patch of `show --diff`, in bytes.
const maxDiff = 4 << 20

type diffShape struct {
	ID     string `json:"id"`
	Label  string `json:"label"`
	Base   string `json:"base"`
	Commit string `json:"commit"`
	Diff   string `json:"diff"`
	Cut    bool   `json:"cut"`
}

// showDiff prints the change of the result that stands, else of the last one,
// and fetches it where another machine made it.
func (a *app) showDiff(ctx context.Context, ref string) error {
	return a.with(ctx, func(p *project) error {
		t, err := p.channel.Task(ctx, ref)
		if err != nil {
			return err
		}
		o := t.StandingResult()
		if o == nil {
			o = t.LatestResult()
		}
		if o == nil {
			return faultf(classRefused, "`ferry status --why "+string(t.Order.Label)+"` says what it waits for", "%s is %s and has no result to show", t.Order.Label, t.State)
		}
		shape, err := p.diff(ctx, &t, o.Result)
		if err != nil {
			return err
		}
		return a.print(shape, func(w io.Writer) {
			fmt.Fprint(w, redact.Visible(shape.Diff))
			if shape.Cut {
				fmt.Fprintln(w, "[the rest is left out]")
			}
		})
	})
}

func (p *project) diff(ctx context.Context, t *ferry.Task, r *ferry.Result) (diffShape, error) {
	shape := diffShape{ID: t.ID.String(), Label: string(t.Order.Label), Base: string(r.Base), Commit: string(r.Commit)}
	gate, err := p.Gate(ctx)
	if err != nil {
		return shape, err
	}
	done := p.app.busy("reading the result")
	defer done()
	if err := land.Obtain(ctx, gate, p.fetches(gate), t, r.Commit); err != nil {
		if d, ok := errors.AsType[*land.Decision](err); ok {
			return shape, refused(*d)
		}
		return shape, err
	}
	if err := gate.Import(ctx, r.Base); err != nil {
		return shape, err
	}
	repo, err := gitfacts.Open(gate.Dir())
	if err != nil {
		return shape, err
	}
	shape.Diff, shape.Cut, err = repo.Patch(ctx, r.Base, r.Commit, maxDiff)
	return shape, errors.Join(err, repo.Close())
}

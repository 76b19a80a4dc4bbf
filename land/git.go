package land

import (
	"context"
	"fmt"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/internal/gitfacts"
	"github.com/ferry-fleet/ferry/internal/redact"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// Fetch gives the remote that a result's commit is fetched from when it is not here. It is asked only then. A nil Fetch,
// and one that gives a nil remote, mean that there is none.
type Fetch func(ctx context.Context) (*worktree.Remote, error)

// gitSpec says where git is asked.
type gitSpec struct {
	Gate     *worktree.Gate
	Fetch    Fetch
	Redactor *redact.Redactor
}

// obtain makes sure that the commit of a result is here. A result without it is refused, with what brings it here.
func (s gitSpec) obtain(ctx context.Context, t *ferry.Task, commit ferry.Commit) *Decision {
	if s.Gate.Keeps(ctx, commit) {
		return nil
	}
	var from *worktree.Remote
	var err error
	if s.Fetch != nil {
		from, err = s.Fetch(ctx)
	}
	if got := s.Gate.Obtain(ctx, from, commit, worktree.RefsOf(t, commit)...); got == nil {
		return nil
	} else if err == nil {
		err = got
	}
	m := worktree.Missing{What: "the result's commit", Commit: commit, Push: "the worker that made it pushes it there"}
	if from != nil {
		m.Remote = redact.Visible(from.String())
	}
	return refuse(CodeAbsent, redact.Visible(m.Words(err)), "try again when it has arrived, or do it on the machine that made it")
}

// Obtain makes sure that the commit of a result of an order is in the gate, so that it can be read: it is taken from the
// person's repository, else fetched. A refusal is a [Decision].
func Obtain(ctx context.Context, g *worktree.Gate, from Fetch, t *ferry.Task, commit ferry.Commit) error {
	if d := (gitSpec{Gate: g, Fetch: from}).obtain(ctx, t, commit); d != nil {
		return d
	}
	return nil
}

// askGit measures the standing result again from its commit and classifies it
// from what git says, not from what the record says. A result whose commit is
// not here, or is not what the record describes, is refused.
func askGit(ctx context.Context, s gitSpec, t *ferry.Task) (ferry.Evidence, *Decision, error) {
	none := ferry.Evidence{}
	r := t.StandingResult().Result
	if d := s.obtain(ctx, t, r.Commit); d != nil {
		return none, d, nil
	}
	if err := s.Gate.Import(ctx, r.Base); err != nil {
		return none, nil, err
	}
	repo, err := gitfacts.Open(s.Gate.Dir())
	if err != nil {
		return none, nil, err
	}
	defer repo.Close()
	found, err := evidence.Measure(ctx, evidence.Spec{
		Gate: s.Gate, Repo: repo, Order: t.Order, Base: r.Base, From: r.From, Commit: r.Commit,
		Skipped: r.Facts.Skipped, Denied: r.Facts.Denied, Redactor: s.Redactor,
	})
	if err != nil {
		return none, nil, err
	}
	if found.Tree != r.Tree || found.Content != r.Content || found.FilesTotal != r.FilesTotal {
		return none, refuse(CodeDiffers, fmt.Sprintf("git says that the commit %s is not what the result describes", r.Commit.Short()), cmd(t, "review", "--send-back --notes \"…\"")), nil
	}
	seen := *r
	found.Checks, found.Facts.Cut = r.Checks, found.Facts.Cut || r.Facts.Cut
	found.Fill(&seen)
	return evidence.Classify(t.Order, &seen), nil, nil
}

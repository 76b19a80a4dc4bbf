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

// gitSpec says where git is asked.
type gitSpec struct {
	Gate     *worktree.Gate
	Redactor *redact.Redactor
}

// askGit measures the standing result again from its commit and classifies it
// from what git says, not from what the record says. A result whose commit is
// not here, or is not what the record describes, is refused.
func askGit(ctx context.Context, s gitSpec, t *ferry.Task) (ferry.Evidence, *Decision, error) {
	none := ferry.Evidence{}
	r := t.StandingResult().Result
	if !s.Gate.Has(ctx, r.Commit) {
		return none, refuse(CodeDiffers, fmt.Sprintf("the commit %s of the result is not on this machine", r.Commit.Short()), "do it on the machine that made it"), nil
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

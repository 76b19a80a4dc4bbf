package land

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/redact"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// lookAtRemote finds out where the branch is on the remote. What is merged goes onto that, and the branch in the person's
// repository has to be able to follow.
func (l *landing) lookAtRemote(ctx context.Context) (worktree.Seen, *Decision, error) {
	target, remote := l.out.Target, redact.Visible(l.Remote.String())
	seen, d, err := l.lookAt(ctx, target)
	if d != nil || err != nil || seen.Landed != "" {
		return seen, d, err
	}
	follows, err := l.Gate.Contains(ctx, seen.Tip, l.here)
	if err == nil && !follows {
		return seen, refuse(CodeUnpushed, fmt.Sprintf("%s has commits here that %s does not have", target, remote),
			fmt.Sprintf("`git push %s %s`, after `git pull --rebase` where it has moved on, then ", remote, target)+cmd(&l.task, "land", "")), nil
	}
	return seen, nil, err
}

// lookAt asks the remote for a branch and for the landing of the order.
func (l *landing) lookAt(ctx context.Context, target string) (worktree.Seen, *Decision, error) {
	remote, shown := redact.Visible(l.Remote.String()), redact.Visible(target)
	if !worktree.IsBranchName(target) {
		return worktree.Seen{}, notABranch(&l.task, target), nil
	}
	seen, err := l.Remote.Look(ctx, target, l.task.ID)
	switch {
	case errors.Is(err, worktree.ErrNoRemoteBranch):
		return seen, refuse(CodeNoTarget, fmt.Sprintf("%s has no branch %s", remote, shown), fmt.Sprintf("make it with `git push %s %s`, or ", remote, shown)+cmd(&l.task, "land", "--into BRANCH")), nil
	case errors.Is(err, worktree.ErrRewound):
		return seen, refuse(CodeRewound, err.Error(), fmt.Sprintf("find out who took commits out of %s; if it is right so, ", shown)+cmd(&l.task, "land", "--accept-remote")), nil
	case err != nil:
		return seen, nil, fmt.Errorf("nothing has moved: %w", err)
	}
	return seen, nil, nil
}

// moveRemote moves the branch of the remote, then the one here, and writes the record. From the push on the order has
// landed, whatever happens here.
func (l *landing) moveRemote(ctx context.Context, body *ferry.Landed) (again bool, err error) {
	spec := worktree.LandSpec{Branch: body.Target, Old: l.here, New: body.Commit, Order: body.Order}
	if err := l.Gate.Ready(ctx, spec); err != nil {
		return l.moved(err)
	}
	if err := remember(l.Journal, &intent{Landed: *body, Remote: l.Remote.String()}); err != nil {
		return false, err
	}
	l.at("remembered")
	spec.Old = body.Old
	err = l.Remote.Push(ctx, spec)
	if landed, ok := errors.AsType[*worktree.LandedError](err); ok {
		return false, l.takeOver(ctx, landed.Commit)
	}
	switch {
	case errors.Is(err, worktree.ErrMoved):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("nothing has moved here: %w; the next `land` asks whether it has arrived", err)
	}
	l.at("pushed")
	if err := l.follow(ctx, body); err != nil {
		return false, err
	}
	l.at("moved")
	return false, l.landed(ctx, body)
}

// follow brings the branch of the person's repository to a landing that the remote has. Where it cannot move, the
// landing counts all the same, and the person is told.
func (l *landing) follow(ctx context.Context, body *ferry.Landed) error {
	l.out.Remote = redact.Visible(l.Remote.String())
	at, err := l.Gate.Base(ctx, "refs/heads/"+body.Target)
	if err == nil {
		var has bool
		if has, err = l.Gate.Contains(ctx, at.Commit, body.Commit); has && err == nil {
			return l.Gate.Mark(ctx, body.Order, body.Commit) // the person has pulled it
		}
	}
	if err == nil {
		err = l.Gate.Land(ctx, worktree.LandSpec{Branch: body.Target, Old: at.Commit, New: body.Commit, Order: body.Order})
	}
	switch {
	case err == nil, errors.Is(err, worktree.ErrAlreadyLanded):
		return nil
	case errors.Is(err, worktree.ErrCheckout):
		l.behind(err)
		return nil
	}
	l.out.Warning = fmt.Sprintf("%s of %s has it, and %s here stays where it is: %v; `git pull --ff-only %s %s` brings it along", body.Target, l.out.Remote, body.Target, err, l.out.Remote, body.Target)
	return l.Gate.Mark(ctx, body.Order, body.Commit)
}

// finishRemote asks the remote about a landing that was begun and never recorded: its answer may have been lost.
func (l *landing) finishRemote(ctx context.Context, begun *intent) (done bool, err error) {
	if begun == nil || begun.Remote == "" {
		return false, nil
	}
	if l.Remote == nil {
		return false, fmt.Errorf("a landing on %s was begun and is not finished: set remote under [land] in agent.toml again, so that %s can be asked", begun.Remote, begun.Remote)
	}
	commit, err := l.Remote.Landed(ctx, l.task.ID)
	if err != nil || commit == "" {
		return false, err
	}
	return true, l.takeOver(ctx, commit)
}

// gitCommit is what a raw commit object says.
type gitCommit struct {
	tree    ferry.Commit
	parents []ferry.Commit
	message string
}

var errCommit = errors.New("not a commit object")

// parseCommit reads the header lines of a raw commit object that matter here.
func parseCommit(raw []byte) (gitCommit, error) {
	var c gitCommit
	head, message, ok := strings.Cut(string(raw), "\n\n")
	if !ok {
		return c, errCommit
	}
	c.message = message
	for i, line := range strings.Split(head, "\n") {
		key, value, _ := strings.Cut(line, " ")
		switch {
		case i == 0 && key != "tree", i > 0 && key == "tree":
			return c, errCommit
		case key != "tree" && key != "parent":
			continue
		}
		id, err := ferry.ParseCommit(value)
		if err != nil {
			return c, errCommit
		}
		if key == "tree" {
			c.tree = id
			continue
		}
		c.parents = append(c.parents, id)
	}
	return c, nil
}

// trailer gives the value of a trailer of the message, or "".
func (c gitCommit) trailer(key string) string {
	for line := range strings.Lines(c.message) {
		if value, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), key+": "); ok {
			return value
		}
	}
	return ""
}

package worktree

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ferry-fleet/ferry"
)

// LandedError says where an order has landed already. It is an ErrAlreadyLanded.
type LandedError struct {
	Order  ferry.RecordID
	Commit ferry.Commit
}

// Error names the order and its commit.
func (e *LandedError) Error() string {
	return fmt.Sprintf("order %s: %v as %s", e.Order.Short(), ErrAlreadyLanded, e.Commit)
}

// Unwrap returns ErrAlreadyLanded.
func (e *LandedError) Unwrap() error { return ErrAlreadyLanded }

// LandSpec says which branch of the person's repository moves from where to where, for which order.
type LandSpec struct {
	Branch   string
	Old, New ferry.Commit
	Order    ferry.RecordID
}

func landedRef(order ferry.RecordID) string { return "refs/ferry/landed/" + order.String() }

// Landed returns the commit that an order has landed as, and whether it has.
func (g *Gate) Landed(ctx context.Context, order ferry.RecordID) (ferry.Commit, bool, error) {
	commit, found, err := g.git.resolve(ctx, g.common, landedRef(order))
	if err != nil {
		return "", false, fmt.Errorf("read landing of %s: %w", order.Short(), err)
	}
	return commit, found, nil
}

// Land moves a branch of the person's repository and creates the order's landed ref in one transaction, then brings every
// checkout of the branch along. It refuses with ErrAlreadyLanded, with ErrMoved when the branch is not at Old, with
// ErrDirty when a checkout holds changes, with ErrInTheWay when it would lose a file that git does not know, with ErrDiverged when New does not follow Old. ErrCheckout means that the order
// has landed and only a checkout is behind: RepairCheckout brings it along.
func (g *Gate) Land(ctx context.Context, spec LandSpec) error {
	if err := g.land(ctx, spec); err != nil {
		return fmt.Errorf("land %s on %s: %w", spec.New.Short(), spec.Branch, err)
	}
	return nil
}

func (g *Gate) land(ctx context.Context, spec LandSpec) error {
	unlock, err := g.lockLanding(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	checkouts, err := g.ready(ctx, spec)
	if err != nil {
		return err
	}
	intent := landing{Order: spec.Order.String(), Branch: spec.Branch, Old: spec.Old, New: spec.New, Checkouts: checkouts}
	if len(checkouts) > 0 {
		if err := g.journal(intent); err != nil {
			return err
		}
	}
	if err := g.moveBranch(ctx, spec); err != nil {
		if len(checkouts) > 0 {
			err = errors.Join(err, g.forget(intent))
		}
		return err
	}
	if len(checkouts) == 0 {
		return nil
	}
	return g.follow(ctx, intent, false)
}

// Ready refuses what Land would refuse, and moves nothing. It is asked before a landing is pushed to a remote.
func (g *Gate) Ready(ctx context.Context, spec LandSpec) error {
	unlock, err := g.lockLanding(ctx)
	if err != nil {
		return fmt.Errorf("prepare landing on %s: %w", spec.Branch, err)
	}
	defer unlock()
	if _, err := g.ready(ctx, spec); err != nil {
		return fmt.Errorf("land %s on %s: %w", spec.New.Short(), spec.Branch, err)
	}
	return nil
}

// ready checks everything that can be checked before the refs move, and gives the checkouts that have to follow.
func (g *Gate) ready(ctx context.Context, spec LandSpec) ([]checkout, error) {
	if err := g.checkLand(ctx, spec); err != nil {
		return nil, err
	}
	checkouts, err := g.checkoutsOf(ctx, spec.Branch)
	if err != nil {
		return nil, err
	}
	if err := g.lend(ctx, spec.New); err != nil {
		return nil, err
	}
	for _, c := range checkouts {
		if err := g.checkClean(ctx, c, spec.Old, spec.New); err != nil {
			return nil, err
		}
	}
	return checkouts, nil
}

// Mark creates the order's landed ref in the person's repository and moves no branch. It is for an order that has landed
// on a remote while the branch here cannot follow.
func (g *Gate) Mark(ctx context.Context, order ferry.RecordID, commit ferry.Commit) error {
	if err := g.mark(ctx, order, commit); err != nil {
		return fmt.Errorf("mark order %s as landed: %w", order.Short(), err)
	}
	return nil
}

func (g *Gate) mark(ctx context.Context, order ferry.RecordID, commit ferry.Commit) error {
	if err := g.lend(ctx, commit); err != nil {
		return err
	}
	err := unlocked(ctx, g.common, landedRef(order), func() error {
		c := call{dir: g.common, in: strings.NewReader(fmt.Sprintf("create %s %s\n", landedRef(order), commit))}
		_, err := g.git.run(ctx, c, "update-ref", "--stdin")
		return err
	})
	if err == nil {
		return nil
	}
	at, landed, landedErr := g.Landed(ctx, order)
	switch {
	case landed && at == commit:
		return nil
	case landed:
		return &LandedError{Order: order, Commit: at}
	}
	return errors.Join(err, landedErr)
}

// Contains reports whether a commit of the gate has another one in its history.
func (g *Gate) Contains(ctx context.Context, commit, other ferry.Commit) (bool, error) {
	if err := g.Import(ctx, other); err != nil {
		return false, err
	}
	err := g.checkFollows(ctx, g.dir, other, commit)
	if errors.Is(err, ErrDiverged) {
		return false, nil
	}
	return err == nil, err
}

// checkLand refuses what cannot be landed before anything is written.
func (g *Gate) checkLand(ctx context.Context, spec LandSpec) error {
	if badRef("refs/heads/" + spec.Branch) {
		return fmt.Errorf("%q is not a branch name", spec.Branch)
	}
	for _, id := range []ferry.Commit{spec.Old, spec.New} {
		if _, err := ferry.ParseCommit(string(id)); err != nil {
			return err
		}
	}
	commit, landed, err := g.Landed(ctx, spec.Order)
	if err != nil {
		return err
	}
	if landed {
		return &LandedError{Order: spec.Order, Commit: commit}
	}
	at, found, err := g.git.resolve(ctx, g.common, "refs/heads/"+spec.Branch)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%w: it does not exist", ErrMoved)
	}
	if at != spec.Old {
		return fmt.Errorf("%w: it is at %s, not at %s", ErrMoved, at, spec.Old)
	}
	return g.checkFollows(ctx, g.dir, spec.Old, spec.New)
}

// checkFollows refuses a commit that does not contain old.
func (g *Gate) checkFollows(ctx context.Context, dir string, old, commit ferry.Commit) error {
	_, err := g.git.run(ctx, call{dir: dir}, "merge-base", "--is-ancestor", string(old), string(commit))
	if exitCode(err) == 1 {
		return fmt.Errorf("%w: %s does not contain %s", ErrDiverged, commit.Short(), old)
	}
	return err
}

// lend brings a commit's objects into the person's repository. No ref names them yet.
func (g *Gate) lend(ctx context.Context, commit ferry.Commit) error {
	if _, err := g.git.run(ctx, call{dir: g.common}, "cat-file", "-e", string(commit)+"^{commit}"); err == nil {
		// The commit alone proves nothing about its tree: an interrupted fetch keeps no pack, so it does here.
		return nil
	}
	_, err := g.git.run(ctx, call{dir: g.common}, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-gc",
		"--end-of-options", g.dir, string(commit))
	return err
}

// moveBranch is the transaction. When it fails, the refs say why.
func (g *Gate) moveBranch(ctx context.Context, spec LandSpec) error {
	in := fmt.Sprintf("start\ncreate %s %s\nupdate refs/heads/%s %s %s\nprepare\ncommit\n",
		landedRef(spec.Order), spec.New, spec.Branch, spec.New, spec.Old)
	err := unlocked(ctx, g.common, landedRef(spec.Order), func() error {
		c := call{dir: g.common, in: strings.NewReader(in), env: []string{"GIT_COMMITTER_NAME=ferry", "GIT_COMMITTER_EMAIL=" + agentEmail}}
		_, err := g.git.run(ctx, c, "update-ref", "-m", "ferry: land order "+spec.Order.Short(), "--stdin")
		return err
	})
	if err == nil {
		return nil
	}
	commit, landed, landedErr := g.Landed(ctx, spec.Order)
	if landedErr != nil {
		return errors.Join(err, landedErr)
	}
	if landed {
		return &LandedError{Order: spec.Order, Commit: commit}
	}
	at, _, resolveErr := g.git.resolve(ctx, g.common, "refs/heads/"+spec.Branch)
	if resolveErr == nil && at != spec.Old {
		return fmt.Errorf("%w: it is at %s, not at %s", ErrMoved, at, spec.Old)
	}
	return errors.Join(err, resolveErr)
}

// Branch creates a branch of the person's repository at a commit of the gate, or moves it forward. It refuses with
// ErrDiverged instead of dropping commits, and with ErrCheckedOut instead of moving a branch that a checkout has.
func (g *Gate) Branch(ctx context.Context, branch string, commit ferry.Commit) error {
	if err := g.branch(ctx, branch, commit); err != nil {
		return fmt.Errorf("set branch %s to %s: %w", branch, commit.Short(), err)
	}
	return nil
}

func (g *Gate) branch(ctx context.Context, branch string, commit ferry.Commit) error {
	ref := "refs/heads/" + branch
	if badRef(ref) {
		return fmt.Errorf("%q is not a branch name", branch)
	}
	if _, err := ferry.ParseCommit(string(commit)); err != nil {
		return err
	}
	at, found, err := g.git.resolve(ctx, g.common, ref)
	if err != nil || at == commit {
		return err
	}
	checkouts, err := g.checkoutsOf(ctx, branch)
	if err != nil {
		return err
	}
	if len(checkouts) > 0 {
		return fmt.Errorf("%w in %s", ErrCheckedOut, checkouts[0].Dir)
	}
	if err := g.lend(ctx, commit); err != nil {
		return err
	}
	line := fmt.Sprintf("create %s %s\n", ref, commit)
	if found {
		if err := g.checkFollows(ctx, g.common, at, commit); err != nil {
			return err
		}
		line = fmt.Sprintf("update %s %s %s\n", ref, commit, at)
	}
	err = unlocked(ctx, g.common, ref, func() error {
		c := call{dir: g.common, in: strings.NewReader(line), env: []string{"GIT_COMMITTER_NAME=ferry", "GIT_COMMITTER_EMAIL=" + agentEmail}}
		_, err := g.git.run(ctx, c, "update-ref", "-m", "ferry: copy of an attempt", "--stdin")
		return err
	})
	if err != nil {
		if now, _, resolveErr := g.git.resolve(ctx, g.common, ref); resolveErr == nil && now == commit {
			return nil // another process was quicker with the same
		}
		return err
	}
	return nil
}

package land

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/internal/redact"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// Spec says what to land, with which key, and in which box the checks run
// again when the target has moved on.
type Spec struct {
	Channel  *channel.Channel
	Writer   *channel.Writer
	Gate     *worktree.Gate
	Remote   *worktree.Remote // where landings are pushed to; nil: the person's repository alone
	Fetch    Fetch
	Order    string // label, or a prefix of the id
	Into     string // branch; empty is the order's target
	Explicit bool   // a person typed it
	Journal  string // directory that remembers a landing until its record is written
	Redactor *redact.Redactor
	Checks   evidence.ChecksSpec // Gate, Commands and Commit are filled in
	// Prepare fills the cache of the checks on the tip of the target; Gate and Base are filled in. Without a command the
	// cache is that of Checks.
	Prepare evidence.PrepareSpec
	Now     time.Time
}

// Outcome is what came of it. A refusal is not an error: Decision says why.
type Outcome struct {
	Decision Decision       `json:"decision"`
	Order    ferry.RecordID `json:"order"`
	Label    ferry.Label    `json:"label"`
	Target   string         `json:"target,omitempty"`
	Old      ferry.Commit   `json:"old,omitempty"`
	Commit   ferry.Commit   `json:"commit,omitempty"`
	Remote   string         `json:"remote,omitempty"` // that has it too
	Record   ferry.RecordID `json:"record"`           // of the landing
	Checks   []ferry.Check  `json:"checks,omitempty"` // on the merged tree
	Files    []string       `json:"files,omitempty"`  // in the way of a merge
	Warning  string         `json:"warning,omitempty"`
}

// Landed reports whether the order is on its target now, by this call or an
// earlier one.
func (o *Outcome) Landed() bool {
	return o.Decision.Code == CodeLand || o.Decision.Code == CodeAlreadyLanded
}

// maxTries is how often a landing begins again because the target moved
// between the look and the transaction.
const maxTries = 3

// Land lands the standing result of an order, as the package comment draws
// it. It is safe to call twice and by two processes at the same time: one
// lands, the other says that it has landed already.
func Land(ctx context.Context, s Spec) (Outcome, error) {
	task, err := s.Channel.Task(ctx, s.Order)
	if err != nil {
		return Outcome{}, fmt.Errorf("land: %w", err)
	}
	return newLanding(s, task).land(ctx)
}

func newLanding(s Spec, task ferry.Task) *landing {
	l := &landing{Spec: s, task: task, at: func(string) {}}
	l.out.Order, l.out.Label, l.out.Target = task.ID, task.Order.Label, s.target(&task)
	return l
}

func (l *landing) land(ctx context.Context) (Outcome, error) {
	if err := l.run(ctx); err != nil {
		return l.out, fmt.Errorf("land %s: %w", l.task.Order.Label, err)
	}
	return l.out, nil
}

func (s Spec) target(t *ferry.Task) string {
	if s.Into != "" {
		return s.Into
	}
	return t.Order.Target
}

// landing is one call of Land.
type landing struct {
	Spec
	task   ferry.Task
	facts  Facts
	out    Outcome
	here   ferry.Commit      // the tip of the branch in the person's repository
	wrote  bool              // the record was written by this call
	marked bool              // it is a mark on the remote that is looked at
	at     func(step string) // called between the steps; tests end the landing there
}

func (l *landing) refuse(d Decision) error {
	l.out.Decision = d
	return nil
}

func (l *landing) run(ctx context.Context) error {
	if _, err := l.Gate.RepairCheckout(ctx); err != nil {
		l.out.Warning = err.Error()
	}
	if l.Checks.Dir != "" {
		if err := worktree.SweepScratch(l.Checks.Dir); err != nil {
			l.out.Warning = err.Error() // it costs space only, and the next landing tries again
		}
	}
	if done, err := l.finishEarlier(ctx); done || err != nil {
		return err
	}
	l.facts = Facts{Actor: l.Writer.ID(), Explicit: l.Explicit, Target: l.out.Target}
	if err := l.askAuthority(ctx); err != nil {
		return err
	}
	if d := Decide(&l.task, l.facts); !d.Allowed {
		return l.refuseUnlessThere(ctx, d)
	}
	if d, err := l.askGit(ctx); d != nil || err != nil {
		return l.refused(d, err)
	}
	for range maxTries {
		again, err := l.try(ctx)
		if !again || err != nil {
			return err
		}
	}
	return l.refuse(*refuse(CodeMoved, fmt.Sprintf("%s kept moving while its merge was checked", l.out.Target), cmd(&l.task, "land", "")+" tries again"))
}

// askAuthority asks the records what this writer may, and what the policies say.
func (l *landing) askAuthority(ctx context.Context) error {
	may, _, err := l.mayLand(ctx)
	if err != nil {
		return err
	}
	roster, err := l.Channel.Roster(ctx)
	if err != nil {
		return err
	}
	snap, err := l.Channel.Snapshot(ctx)
	if err != nil {
		return err
	}
	l.facts.May, l.facts.Requires, l.facts.Waits = may, roster.Requires(), cmp.Or(snap.Hold, snap.Behind)
	return nil
}

// mayLand asks the roster before anything moves: a record that no reader
// counts would come too late.
func (l *landing) mayLand(ctx context.Context) (may, master bool, err error) {
	members, err := l.Channel.Members(ctx)
	if err != nil {
		return false, false, err
	}
	m, err := l.Channel.Master(ctx)
	if err != nil {
		return false, false, err
	}
	if m.Writer == l.Writer.ID() {
		return true, true, nil
	}
	return slices.ContainsFunc(members, func(m ferry.Member) bool {
		return m.Writer == l.Writer.ID() && slices.Contains(m.Grants, ferry.GrantLand)
	}), false, nil
}

func (l *landing) refused(d *Decision, err error) error {
	if err != nil {
		return err
	}
	return l.refuse(*d)
}

// askGit classifies the standing result from what git says.
func (l *landing) askGit(ctx context.Context) (*Decision, error) {
	e, d, err := askGit(ctx, gitSpec{Gate: l.Gate, Fetch: l.Fetch, Redactor: l.Redactor}, &l.task)
	if d != nil || err != nil {
		return d, err
	}
	l.facts.Evidence = e
	if d := Decide(&l.task, l.facts); !d.Allowed {
		return &d, nil
	}
	return nil, nil
}

// try looks at the target, merges, checks the merge and moves the branch.
// again says that the target moved meanwhile.
func (l *landing) try(ctx context.Context) (again bool, err error) {
	tip, d, err := l.lookAtTarget(ctx)
	if d != nil || err != nil {
		return false, l.refused(d, err)
	}
	l.here = tip
	if l.Remote != nil {
		seen, d, err := l.lookAtRemote(ctx)
		if d != nil || err != nil {
			return false, l.refused(d, err)
		}
		if tip = seen.Tip; seen.Landed != "" {
			return false, l.takeOver(ctx, seen.Landed)
		}
	}
	merged, d, err := l.squash(ctx, tip)
	if d != nil || err != nil {
		return false, l.refused(d, err)
	}
	l.out.Checks = nil
	if tip != l.task.StandingResult().Result.Base {
		if d, err := l.checkMerged(ctx, tip, merged); d != nil || err != nil {
			return false, l.refused(d, err)
		}
	}
	return l.move(ctx, tip, merged)
}

func (l *landing) lookAtTarget(ctx context.Context) (ferry.Commit, *Decision, error) {
	head, err := l.Gate.Base(ctx, "")
	if err != nil && !errors.Is(err, worktree.ErrEmptyRepository) {
		return "", nil, err
	}
	target, err := l.Gate.Base(ctx, "refs/heads/"+l.out.Target)
	if err != nil && !errors.Is(err, worktree.ErrUnknownRef) {
		return "", nil, err
	}
	l.facts.NoBranch = err != nil || target.Branch != l.out.Target
	l.facts.Dirty = nil
	if head.Branch == l.out.Target && head.Dirty {
		l.facts.Dirty = head.DirtyPaths
	}
	if d := Decide(&l.task, l.facts); !d.Allowed {
		return "", &d, nil
	}
	return target.Commit, nil, nil
}

func (l *landing) squash(ctx context.Context, tip ferry.Commit) (ferry.Commit, *Decision, error) {
	message, author, err := l.message(ctx)
	if err != nil {
		return "", nil, err
	}
	r := l.task.StandingResult().Result
	merged, err := l.Gate.Squash(ctx, worktree.SquashSpec{Commit: r.Commit, Onto: tip, Message: message, Author: author, When: l.Now})
	if errors.Is(err, worktree.ErrNoChange) {
		return "", refuse(CodeNoChange, fmt.Sprintf("%s holds this change already", l.out.Target), "`git log "+l.out.Target+"` shows where it came from"), nil
	}
	if err != nil {
		return "", nil, err
	}
	l.out.Files = append(merged.Conflicts, merged.Differs...)
	switch {
	case len(merged.Conflicts) > 0:
		return "", refuse(CodeConflict, fmt.Sprintf("%s has moved on and conflicts with the result in %s", l.out.Target, list(merged.Conflicts)), orderAgain(&l.task, l.out.Target)), nil
	case len(merged.Differs) > 0:
		return "", refuse(CodeConflict, fmt.Sprintf("%s has moved on and changed the same files, so that the merge is not what was reviewed: %s", l.out.Target, list(merged.Differs)), orderAgain(&l.task, l.out.Target)), nil
	}
	return merged.Commit, nil, nil
}

// checkMerged runs the order's checks on the merged tree, which nobody has
// seen before. An order without checks has nothing to run.
func (l *landing) checkMerged(ctx context.Context, tip, merged ferry.Commit) (*Decision, error) {
	if len(l.task.Order.Checks) == 0 {
		return nil, nil
	}
	c := l.Checks
	c.Gate, c.Commands, c.Commit = l.Gate, l.task.Order.Checks, merged
	if c.Redactor == nil {
		c.Redactor = l.Redactor
	}
	if prepare := l.Prepare; prepare.Command != "" {
		prepare.Gate, prepare.Base = l.Gate, tip
		var err error
		if c.Cache, err = evidence.Prepare(ctx, prepare); err != nil {
			return nil, err
		}
	}
	if err := atomicfile.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if c.Dir, err = worktree.Scratch(c.Dir, "merge-"+l.task.ID.Short()); err != nil { // another process may land the same order
		return nil, err
	}
	l.at("checking")
	checks, err := evidence.RunChecks(ctx, c)
	if err != nil {
		return nil, err
	}
	l.out.Checks = checks
	for _, check := range checks {
		if check.Exit != 0 {
			reason := fmt.Sprintf("%s has moved on, and merged with it the check `%s` fails with exit %d", l.out.Target, check.Command, check.Exit)
			if why := cmp.Or(check.Reason, lastLine(check.Tail)); why != "" {
				reason += ": " + why
			}
			return refuse(CodeChecks, reason, orderAgain(&l.task, l.out.Target)), nil
		}
	}
	return nil, nil
}

// move asks the records once more, with what came into the folder while the merge was made and checked, then moves the branch
// and writes the record.
func (l *landing) move(ctx context.Context, tip, merged ferry.Commit) (again bool, err error) {
	l.at("checked")
	standing := l.task.Standing
	if _, err := l.Channel.Refresh(ctx); err != nil {
		return false, fmt.Errorf("nothing has moved: %w", err)
	}
	if err := l.reload(ctx); err != nil {
		return false, err
	}
	if err := l.askAuthority(ctx); err != nil {
		return false, err
	}
	if d := Decide(&l.task, l.facts); !d.Allowed {
		return false, l.refuse(d)
	}
	if l.task.Standing != standing {
		return false, l.refuse(*refuse(CodeWrongResult, "another result stands since this landing began", cmd(&l.task, "show", "")+" shows it"))
	}
	body := l.body(tip, merged)
	if l.Remote != nil {
		return l.moveRemote(ctx, body)
	}
	if err := remember(l.Journal, &intent{Landed: *body}); err != nil {
		return false, err
	}
	l.at("remembered")
	err = l.Gate.Land(ctx, worktree.LandSpec{Branch: l.out.Target, Old: tip, New: merged, Order: l.task.ID})
	switch {
	case err == nil:
	case errors.Is(err, worktree.ErrCheckout):
		l.behind(err)
	case errors.Is(err, worktree.ErrAlreadyLanded):
		_, err := l.finishEarlier(ctx)
		return false, err
	default:
		return l.moved(err)
	}
	l.at("moved")
	return false, l.landed(ctx, body)
}

// moved sorts what kept a branch of the person's repository from moving. again says that it was moved meanwhile.
func (l *landing) moved(err error) (again bool, _ error) {
	land := cmd(&l.task, "land", "")
	switch {
	case errors.Is(err, worktree.ErrMoved):
		return true, nil
	case errors.Is(err, worktree.ErrInTheWay):
		return false, l.refuse(*refuse(CodeDirty, err.Error(), "move it away, or add and commit it, then "+land))
	case errors.Is(err, worktree.ErrDirty), errors.Is(err, worktree.ErrCheckedOut):
		return false, l.refuse(*refuse(CodeDirty, err.Error(), "commit or stash the changes, then "+land))
	}
	return false, err
}

// behind warns that a checkout has not followed its branch yet.
func (l *landing) behind(err error) {
	l.out.Warning = err.Error() + "; the next `ferry` command in this project brings the checkout along"
}

// landed says that the order has landed by this call, and writes the record.
func (l *landing) landed(ctx context.Context, body *ferry.Landed) error {
	where := body.Target
	if l.out.Remote != "" {
		where += " of " + l.out.Remote
	}
	l.out.Decision = Decision{Allowed: true, Code: CodeLand, Reason: fmt.Sprintf("%s landed on %s as %s", l.task.Order.Label, where, body.Commit.Short())}
	return l.record(ctx, body)
}

// reload reads the task again.
func (l *landing) reload(ctx context.Context) error {
	t, err := l.Channel.Task(ctx, l.task.ID.String())
	if err == nil && t.ID != l.task.ID {
		err = fmt.Errorf("the label %q of another order looks like the id of this one", t.Order.Label)
	}
	if err == nil {
		l.task = t
	}
	return err
}

func (l *landing) body(tip, merged ferry.Commit) *ferry.Landed {
	o := l.task.StandingResult()
	return &ferry.Landed{
		Order: l.task.ID, Result: o.ID, Verdict: o.Verdict, Approve: l.task.Approve,
		Target: l.out.Target, Old: tip, Commit: merged, Content: o.Result.Content, Checks: l.out.Checks,
	}
}

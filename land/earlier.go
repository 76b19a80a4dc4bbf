package land

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/internal/gitfacts"
	"github.com/ferry-fleet/ferry/internal/redact"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// earlier is a landing that git holds and that no record which counts tells of.
type earlier struct {
	body   ferry.Landed
	lander ferry.WriterID // who landed it, by the commit's own word; "" when this machine remembers it
	lost   bool           // its result does not count any more
}

// identify finds out what a commit is that is marked as the landing of the order: what this machine remembers of it, else
// what the commit says and the records confirm.
func (l *landing) identify(ctx context.Context, commit ferry.Commit, begun *intent) (*earlier, *Decision, error) {
	e, d, err := (*earlier)(nil), (*Decision)(nil), error(nil)
	if begun != nil && begun.Commit == commit {
		e = &earlier{body: begun.Landed}
	} else if e, d, err = l.examine(ctx, commit); d != nil || err != nil {
		return nil, d, err
	}
	e.rest(&l.task)
	return e, nil, nil
}

// rest names the words that the landing rests on: those that it was landed on while they count, else those in force.
func (e *earlier) rest(t *ferry.Task) {
	o := outturn(t, e.body.Result)
	if o == nil {
		e.lost = true
		return
	}
	if !slices.ContainsFunc(o.Verdicts, func(v ferry.Review) bool { return v.ID == e.body.Verdict && v.Decision == ferry.DecisionKeep }) {
		e.body.Verdict = ferry.RecordID{}
		if o.Decision == ferry.DecisionKeep {
			e.body.Verdict = o.Verdict
		}
	}
	if t.Standing == o.ID && !t.Approve.IsZero() {
		e.body.Approve = t.Approve
	}
}

// outturn gives a result of the task that counts, or nil.
func outturn(t *ferry.Task, id ferry.RecordID) *ferry.Outturn {
	for i := range t.Results {
		if t.Results[i].ID == id {
			return &t.Results[i]
		}
	}
	return nil
}

// examine reads who landed what as this commit, and looks whether its change is byte for byte the one of that result.
func (l *landing) examine(ctx context.Context, commit ferry.Commit) (*earlier, *Decision, error) {
	if err := l.Gate.Import(ctx, commit); err != nil {
		return nil, nil, err
	}
	raw, err := l.Gate.Raw(ctx, commit)
	if err != nil {
		return nil, nil, err
	}
	c, err := parseCommit(raw)
	if err != nil || len(c.parents) != 1 || c.trailer(trailerOrder) != l.task.ID.String() {
		return nil, l.stranger(commit, "is no landing of this order"), nil
	}
	id, err := ferry.ParseRecordID(c.trailer(trailerResult))
	if err != nil {
		return nil, l.stranger(commit, "names no result"), nil
	}
	r, d, err := l.landedAs(ctx, id, commit)
	if d != nil || err != nil {
		return nil, d, err
	}
	repo, err := gitfacts.Open(l.Gate.Dir())
	if err != nil {
		return nil, nil, err
	}
	defer repo.Close()
	old := c.parents[0]
	found, err := evidence.Measure(ctx, evidence.Spec{Gate: l.Gate, Repo: repo, Order: l.task.Order, Base: old, From: old, Commit: commit})
	if err != nil {
		return nil, nil, err
	}
	if found.Content != r.Content {
		return nil, l.stranger(commit, "changes something else than the result that it names"), nil
	}
	e := &earlier{lander: ferry.WriterID(c.trailer(trailerLander)), body: ferry.Landed{
		Order: l.task.ID, Result: id, Target: cmp.Or(c.trailer(trailerTarget), l.out.Target), Old: old, Commit: commit, Content: found.Content,
	}}
	// A word that cannot be read is one that the landing does not rest on.
	e.body.Verdict, _ = ferry.ParseRecordID(c.trailer(trailerVerdict))
	e.body.Approve, _ = ferry.ParseRecordID(c.trailer(trailerApprove))
	return e, nil, nil
}

// landedAs gives the result that a landed commit names, also one that does not count any more.
func (l *landing) landedAs(ctx context.Context, id ferry.RecordID, commit ferry.Commit) (*ferry.Result, *Decision, error) {
	if o := outturn(&l.task, id); o != nil {
		if o.Evidence.Status == ferry.EvidenceRefuted {
			return nil, refutedBy(&l.task, o.Evidence), nil
		}
		return o.Result, nil, nil
	}
	rec, ok, err := l.Channel.Record(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	r, is := rec.Body.(*ferry.Result)
	switch {
	case !ok:
		reason := fmt.Sprintf("%s has landed as %s, and the result %s that it came from has not arrived here", l.task.Order.Label, commit.Short(), id.Short())
		return nil, refuse(CodeBehind, reason, "wait until the channel's folder has been synced, then "+cmd(&l.task, "land", "")), nil
	case !is || r.Order != l.task.ID:
		return nil, l.stranger(commit, "names a result of something else"), nil
	case rec.Writer == l.Writer.ID():
		return nil, refuse(CodeOwnWork, "the result is this writer's own work, and nobody lands that", "let the person land it: "+cmd(&l.task, "land", "")), nil
	}
	if e := evidence.Classify(l.task.Order, r); e.Status == ferry.EvidenceRefuted {
		return nil, refutedBy(&l.task, e), nil
	}
	return r, nil, nil
}

// stranger refuses a mark that leads to what is no landing of the order. Only a person can tell who made it.
func (l *landing) stranger(commit ferry.Commit, why string) *Decision {
	ref, remove := "refs/ferry/landed/"+l.task.ID.String(), "git update-ref -d "
	where := "this repository"
	if l.marked {
		where = redact.Visible(l.Remote.String())
		remove = "git push " + where + " --delete "
	}
	return refuse(CodeElsewhere, fmt.Sprintf("%s is marked as landed in %s, and the commit %s there %s", l.task.Order.Label, where, commit.Short(), why),
		fmt.Sprintf("find out who made that ref; if it is wrong, `%s%s`, then %s", remove, ref, cmd(&l.task, "land", "")))
}

// takeOver deals with an order that has landed on the remote, and whose record is not here. Whoever pushed it may be gone
// for good, so whoever may land writes the record, from what the remote holds.
func (l *landing) takeOver(ctx context.Context, commit ferry.Commit) error {
	if err := l.reload(ctx); err != nil {
		return err
	}
	if l.task.Landed != nil {
		_, err := l.finishEarlier(ctx)
		return err
	}
	if err := l.Remote.Fetch(ctx, l.task.ID, commit); err != nil {
		return err
	}
	l.marked = true
	begun, err := recall(l.Journal, l.task.ID)
	if err != nil {
		return err
	}
	e, d, err := l.identify(ctx, commit, begun)
	if d == nil && err == nil && e.lander != "" {
		d, err = l.heldBy(ctx, e)
	}
	if d != nil || err != nil {
		return l.refused(d, err)
	}
	l.out.Remote = redact.Visible(l.Remote.String())
	if d, err := l.mayRecord(ctx, &l.task, &e.body); d != nil || err != nil {
		return l.refused(d, err)
	}
	if err := l.follow(ctx, &e.body); err != nil {
		return err
	}
	return l.finished(ctx, e)
}

// heldBy refuses a landing that the branch of the remote does not hold: its ref alone proves nothing.
func (l *landing) heldBy(ctx context.Context, e *earlier) (*Decision, error) {
	seen, d, err := l.lookAt(ctx, e.body.Target)
	if d != nil || err != nil {
		return d, err
	}
	held, err := l.Gate.Contains(ctx, seen.Tip, e.body.Commit)
	if held || err != nil {
		return nil, err
	}
	return l.stranger(e.body.Commit, "is not on "+e.body.Target), nil
}

// mayLeadTo are the refusals of an order that may have landed all the same: its end came before the record, or the result
// that landed does not count any more.
var mayLeadTo = []Code{CodeCancelled, CodeKilled, CodeFailed, CodeNoResult, CodeSentBack, CodeRefuted}

// refuseUnlessThere refuses a landing, unless git says that it has happened: then the record is what is left to do.
func (l *landing) refuseUnlessThere(ctx context.Context, d Decision) error {
	if !l.Explicit || !slices.Contains(mayLeadTo, d.Code) {
		return l.refuse(d)
	}
	if l.Remote != nil {
		commit, err := l.Remote.Landed(ctx, l.task.ID)
		if commit != "" && err == nil {
			return l.takeOver(ctx, commit)
		}
		if err != nil {
			l.out.Warning = "whether it has landed already could not be asked: " + err.Error()
		}
	}
	if u := l.task.Unbacked; u != nil {
		return l.acceptUnbacked(ctx, u)
	}
	return l.refuse(d)
}

// acceptUnbacked deals with a landing that a record tells of, and whose result does not count, where no ref marks it: the
// branch here says whether it is there.
func (l *landing) acceptUnbacked(ctx context.Context, u *ferry.Landed) error {
	held, err := l.hereOn(ctx, u.Target, u.Commit)
	if err != nil {
		return err
	}
	if !held {
		target := redact.Visible(u.Target)
		return l.refuse(*refuse(CodeAbsent, fmt.Sprintf("%s is said to have landed on %s as %s, by a result that does not count here, and %s here does not hold that commit", l.task.Order.Label, target, u.Commit.Short(), target),
			fmt.Sprintf("bring %s here with `git pull`, then %s; if it is on no branch, %s", target, cmd(&l.task, "land", ""), cmd(&l.task, "cancel", "--reason \"…\""))))
	}
	e, d, err := l.identify(ctx, u.Commit, nil)
	if d == nil && err == nil {
		e.body.Target = u.Target
		d, err = l.mayRecord(ctx, &l.task, &e.body)
	}
	if d != nil || err != nil {
		return l.refused(d, err)
	}
	if err := l.Gate.Mark(ctx, l.task.ID, u.Commit); err != nil {
		return err
	}
	return l.finished(ctx, e)
}

// hereOn reports whether a branch of the person's repository holds a commit.
func (l *landing) hereOn(ctx context.Context, branch string, commit ferry.Commit) (bool, error) {
	if !worktree.IsBranchName(branch) || l.Gate.Import(ctx, commit) != nil { // it has not been fetched into the repository
		return false, nil
	}
	at, err := l.Gate.Base(ctx, "refs/heads/"+branch)
	if errors.Is(err, worktree.ErrUnknownRef) {
		return false, nil
	}
	if err == nil {
		err = l.Gate.Import(ctx, at.Commit)
	}
	if err != nil {
		return false, err
	}
	return l.Gate.Contains(ctx, at.Commit, commit)
}

// mayRecord refuses a record that no reader would count. It is asked before the mark of another machine is taken over.
func (l *landing) mayRecord(ctx context.Context, t *ferry.Task, b *ferry.Landed) (*Decision, error) {
	may, master, err := l.mayLand(ctx)
	if err != nil {
		return nil, err
	}
	o := outturn(t, b.Result)
	there := fmt.Sprintf("%s is on %s as %s, and its record is missing", t.Order.Label, redact.Visible(b.Target), b.Commit.Short())
	master = master && b.Content != ""
	switch {
	case !may:
		return refuse(CodeNoGrant, there+": this writer has no grant to land in this channel", "let the person write it: "+cmd(t, "land", "")), nil
	case o == nil && !master:
		return refuse(CodeNotMaster, there+": the result that landed does not count any more, and then only the master's word does", "let the master type "+cmd(t, "land", "")), nil
	case o == nil:
		return nil, nil
	case o.Writer == l.Writer.ID():
		return refuse(CodeOwnWork, there+": the result is this writer's own work, and nobody lands that", "let the person write it: "+cmd(t, "land", "")), nil
	case o.Evidence.Status == ferry.EvidenceRefuted:
		return refutedBy(t, o.Evidence), nil
	case t.Order.NeedsApproval && b.Approve.IsZero():
		return refuse(CodeNeedsApproval, there+": it asks for the master's approval", cmd(t, "approve", "")+", then "+cmd(t, "land", "")), nil
	case t.Order.NeedsReview && b.Verdict.IsZero() && b.Approve.IsZero():
		return refuse(CodeNeedsReview, there+": it asks for a review and its result is not accepted", cmd(t, "review", "--accept")+", then "+cmd(t, "land", "")), nil
	}
	return nil, nil
}

// words says what was found, for the person who typed `land`.
func (e *earlier) words(ctx context.Context, l *landing) (string, error) {
	where := e.body.Target
	if l.out.Remote != "" {
		where += " of " + l.out.Remote
	}
	text := fmt.Sprintf("%s has landed on %s as %s", l.task.Order.Label, redact.Visible(where), e.body.Commit.Short())
	switch me := l.Writer.ID(); {
	case e.lander != "" && e.lander != me:
		roster, err := l.Channel.Roster(ctx)
		if err != nil {
			return "", err
		}
		who := string(e.lander)
		if m, ok := roster.Member(e.lander); ok {
			who = string(m.Name)
		}
		text += fmt.Sprintf(": %s landed it before", redact.Visible(who))
		if l.wrote {
			text += ", and its record, which was missing here, is written"
		}
	case l.wrote:
		text += "; its record was missing and is written"
	}
	if e.lost && l.wrote {
		text += ", on the master's word: the result does not count any more"
	}
	return text, nil
}

package land

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/internal/redact"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// Said is a verdict or an approval that was given, or why it was not.
type Said struct {
	Decision Decision       `json:"decision"`
	Order    ferry.RecordID `json:"order"`
	Label    ferry.Label    `json:"label"`
	Result   ferry.RecordID `json:"result"`
	Commit   ferry.Commit   `json:"commit,omitempty"`
	Evidence ferry.Evidence `json:"evidence"` // of the result, from git
	Record   ferry.RecordID `json:"record"`
	State    ferry.State    `json:"state"` // of the order afterwards
	Warning  string         `json:"warning,omitempty"`
}

// ReviewSpec says what a reviewer says of which order.
type ReviewSpec struct {
	Channel  *channel.Channel
	Writer   *channel.Writer // of Channel
	Gate     *worktree.Gate
	Fetch    Fetch
	Order    string // label, or a prefix of the id
	Decision ferry.Decision
	Notes    string         // required to send back and to deny
	Result   ferry.RecordID // the result that was read; zero means the one that stands
	Redactor *redact.Redactor
	Now      time.Time
}

// errRefused ends an update without a record: Said says why.
var errRefused = errors.New("refused")

// Review accepts, sends back or denies. What is accepted is measured in git
// again first. The verdict names the result, its commit, tree and digest, so
// that no other result can inherit it, and it is decided again under the
// writer's lock. A refusal is not an error: Said.Decision says why.
func Review(ctx context.Context, s ReviewSpec) (Said, error) {
	return s.say(ctx, s.Decision == ferry.DecisionKeep, DecideReview, func(t *ferry.Task) ferry.Body {
		v := &ferry.Verdict{Order: t.ID, Decision: s.Decision, Notes: strings.TrimSpace(s.Notes)}
		o := t.StandingResult()
		if o == nil {
			o = t.LatestResult()
		}
		if o != nil {
			v.Result, v.Commit, v.Tree, v.Content = o.ID, o.Result.Commit, o.Result.Tree, o.Result.Content
		}
		return v
	})
}

// Approve gives the master's key on the standing result, measured in git
// again. Decision and Notes of the spec are not used.
func Approve(ctx context.Context, s ReviewSpec) (Said, error) {
	return s.say(ctx, true, DecideApprove, func(t *ferry.Task) ferry.Body {
		o := t.StandingResult()
		return &ferry.Approve{
			Order: t.ID, Result: o.ID, Verdict: o.Verdict, Commit: o.Result.Commit, Tree: o.Result.Tree, Content: o.Result.Content,
		}
	})
}

// say decides before git is asked, which may take a while, and again under
// the lock, for exactly the result that git was asked about.
func (s ReviewSpec) say(ctx context.Context, measure bool, decide func(*ferry.Task, Ask) Decision, body func(*ferry.Task) ferry.Body) (Said, error) {
	t, err := s.Channel.Task(ctx, s.Order)
	if err != nil {
		return Said{}, fmt.Errorf("judge: %w", err)
	}
	master, err := s.Channel.Master(ctx)
	if err != nil {
		return Said{}, fmt.Errorf("judge %s: %w", t.Order.Label, err)
	}
	me := s.Writer.ID()
	ask := Ask{Actor: me, Master: me == master.Writer, Decision: s.Decision, Notes: s.Notes, Result: s.Result}
	said := Said{Order: t.ID, Label: t.Order.Label, State: t.State, Decision: decide(&t, ask)}
	if o := t.StandingResult(); o != nil {
		said.Result, said.Commit, said.Evidence = o.ID, o.Result.Commit, o.Evidence
		ask.Result = o.ID
	}
	if !said.Decision.Allowed {
		return said, nil
	}
	if measure {
		e, d, err := askGit(ctx, gitSpec{Gate: s.Gate, Fetch: s.Fetch, Redactor: s.Redactor}, &t)
		if err != nil {
			return said, fmt.Errorf("judge %s: %w", t.Order.Label, err)
		}
		said.Evidence = e
		if d == nil && e.Status == ferry.EvidenceRefuted {
			d = refutedBy(&t, e)
		}
		if d != nil {
			said.Decision = *d
			return said, nil
		}
	}
	return s.write(ctx, said, func(t *ferry.Task) (ferry.Body, Decision) {
		d := decide(t, ask)
		if !d.Allowed {
			return nil, d
		}
		return body(t), d
	})
}

// write decides under the lock and writes the record.
func (s ReviewSpec) write(ctx context.Context, said Said, decide func(*ferry.Task) (ferry.Body, Decision)) (Said, error) {
	_, err := s.Writer.Update(ctx, s.Now, func(tx *channel.Tx) error {
		t, err := tx.Task(said.Order)
		if err != nil {
			return err
		}
		body, d := decide(&t)
		said.Decision = d
		if !d.Allowed {
			return errRefused
		}
		if said.Record, err = tx.Add(body); err != nil {
			return err
		}
		t, err = tx.Task(said.Order)
		said.State = t.State
		return err
	})
	if errors.Is(err, errRefused) {
		return said, nil
	}
	if errors.Is(err, channel.ErrUnpublished) {
		said.Warning, err = err.Error(), nil // the record holds and is published later
	}
	if err != nil {
		return said, fmt.Errorf("judge %s: %w", said.Label, err)
	}
	return said, nil
}

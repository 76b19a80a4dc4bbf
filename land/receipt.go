package land

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/internal/gitfacts"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// Receipt shows the way of one order to its commit, and whether each step
// still holds when it is looked at again.
type Receipt struct {
	Channel  ferry.RecordID `json:"channel"`
	Order    ferry.RecordID `json:"order"`
	Label    ferry.Label    `json:"label"`
	State    ferry.State    `json:"state"`
	Branch   string         `json:"branch"`
	Base     ferry.Commit   `json:"base,omitempty"`
	Result   ferry.RecordID `json:"result"`
	Work     ferry.Commit   `json:"work,omitempty"` // the commit of the result
	Content  string         `json:"content256,omitempty"`
	Evidence ferry.Evidence `json:"evidence"`
	Target   string         `json:"target,omitempty"`
	Old      ferry.Commit   `json:"old,omitempty"`
	Commit   ferry.Commit   `json:"commit,omitempty"` // on the target
	Records  []Line         `json:"records"`
	OK       bool           `json:"ok"`
	Problems []string       `json:"problems,omitempty"`
}

// Line is one record of a receipt.
type Line struct {
	Type   ferry.Type      `json:"type"`
	ID     ferry.RecordID  `json:"id"`
	Writer ferry.WriterID  `json:"writer"`
	Name   ferry.AgentName `json:"name"`
	Epoch  uint32          `json:"epoch"`
	Seq    uint64          `json:"seq"`
	Time   time.Time       `json:"time"` // the writer's clock
	Says   string          `json:"says"`
}

// MakeReceipt collects the receipt of an order: what every record on its way
// says, and then from the bytes again: the signatures and chains of the
// channel, that the records name each other, and that git holds what they
// name. A problem is listed and never an error. A nil gate leaves git out.
func MakeReceipt(ctx context.Context, ch *channel.Channel, gate *worktree.Gate, order string) (Receipt, error) {
	t, err := ch.Task(ctx, order)
	if err != nil {
		return Receipt{}, fmt.Errorf("receipt: %w", err)
	}
	entries, err := ch.Records(ctx, t.ID)
	if err != nil {
		return Receipt{}, fmt.Errorf("receipt of %s: %w", t.Order.Label, err)
	}
	roster, err := ch.Roster(ctx)
	if err != nil {
		return Receipt{}, fmt.Errorf("receipt of %s: %w", t.Order.Label, err)
	}
	r := Receipt{Channel: ch.ID(), Order: t.ID, Label: t.Order.Label, State: t.State, Branch: t.Branch(), Base: t.Order.Base}
	r.fill(&t)
	r.lines(entries, roster)
	r.Problems = append(r.Problems, links(&t, entries)...)
	if err := r.verify(ctx, ch); err != nil {
		return r, fmt.Errorf("receipt of %s: %w", t.Order.Label, err)
	}
	if gate != nil {
		if err := r.askGit(ctx, gate, &t); err != nil {
			return r, fmt.Errorf("receipt of %s: %w", t.Order.Label, err)
		}
	}
	r.OK = len(r.Problems) == 0
	return r, nil
}

// landedResult gives the result that landed, else the one that stands.
func landedResult(t *ferry.Task) *ferry.Outturn {
	if t.Landed == nil {
		return t.StandingResult()
	}
	for i := range t.Results {
		if t.Results[i].ID == t.Landed.Result {
			return &t.Results[i]
		}
	}
	return nil
}

func (r *Receipt) fill(t *ferry.Task) {
	if o := landedResult(t); o != nil {
		r.Result, r.Base, r.Work, r.Content, r.Evidence = o.ID, o.Result.Base, o.Result.Commit, o.Result.Content, o.Evidence
	}
	if t.Landed != nil {
		r.Content = cmp.Or(r.Content, t.Landed.Content)
		r.Target, r.Old, r.Commit = t.Landed.Target, t.Landed.Old, t.Landed.Commit
	}
}

// lines lists the counted records, in the order of arrival here.
// A writer that was shut out since keeps its name.
func (r *Receipt) lines(entries []channel.Entry, roster *authority.Roster) {
	for _, e := range entries {
		if !e.Counted {
			continue
		}
		m, _ := roster.Member(e.Writer)
		r.Records = append(r.Records, Line{
			Type: e.Type, ID: e.ID, Writer: e.Writer, Name: m.Name, Epoch: e.Epoch, Seq: e.Seq, Time: e.Time, Says: says(e.Body),
		})
	}
}

// says puts the core of a record into one line.
func says(b ferry.Body) string {
	switch b := b.(type) {
	case *ferry.Order:
		return subject(b)
	case *ferry.Claim:
		return fmt.Sprintf("attempt %d", b.Attempt)
	case *ferry.Start:
		return fmt.Sprintf("attempt %d with %s in %s from %s", b.Attempt, b.Engine, b.Sandbox, b.From.Short())
	case *ferry.Run:
		return fmt.Sprintf("run %d of attempt %d by engine %s: %s, left %s", b.N, b.Attempt, b.Engine, b.Outcome, b.Commit.Short())
	case *ferry.Stop:
		return oneLine(string(b.Reason), b.Note)
	case *ferry.Result:
		return fmt.Sprintf("revision %d: %d files, %d checks, commit %s, content %.12s", b.Revision, b.FilesTotal, len(b.Checks), b.Commit.Short(), b.Content)
	case *ferry.Verdict:
		return oneLine(string(b.Decision)+" of result "+b.Result.Short(), b.Notes)
	case *ferry.Approve:
		return "of result " + b.Result.Short()
	case *ferry.Landed:
		return fmt.Sprintf("on %s as %s, was %s", b.Target, b.Commit.Short(), b.Old.Short())
	case *ferry.Cancel:
		return b.Reason
	case *ferry.Interrupt:
		return oneLine(string(b.Action), b.Note)
	case *ferry.Question:
		return oneLine(b.Text, "")
	case *ferry.Answer:
		return oneLine(b.Option, b.Note)
	case *ferry.Note:
		return oneLine(b.Kind, b.Text)
	}
	return ""
}

func oneLine(what, note string) string {
	note, _, _ = strings.Cut(strings.TrimSpace(note), "\n")
	if note == "" {
		return what
	}
	return what + ": " + note
}

// lostResult words a landing of which nothing but the master's word is left.
const lostResult = "the landing counts on the master's word alone: the result that it names does not count any more"

// links looks whether the records on the way name each other.
func links(t *ferry.Task, entries []channel.Entry) []string {
	at := map[ferry.RecordID]ferry.Body{}
	for _, e := range entries {
		if e.Counted {
			at[e.ID] = e.Body
		}
	}
	var problems []string
	missing := func(ok bool, words string) {
		if !ok {
			problems = append(problems, words)
		}
	}
	_, ordered := at[t.ID].(*ferry.Order)
	missing(ordered, "the order is not in the ledger")
	o := landedResult(t)
	if o == nil && t.Landed != nil {
		return append(problems, lostResult)
	}
	if o == nil {
		return append(problems, "no result stands: there is no way to a commit yet")
	}
	start, ok := at[o.Result.Start].(*ferry.Start)
	missing(ok, "the result names a start that is not in the ledger")
	if ok {
		_, claimed := at[start.Claim].(*ferry.Claim)
		missing(claimed, "the start names a claim that is not in the ledger")
	}
	if t.Landed == nil {
		return append(problems, fmt.Sprintf("%s has not landed (%s)", t.Order.Label, t.State))
	}
	_, ok = at[t.LandedID].(*ferry.Landed)
	missing(ok, "the landing is not in the ledger")
	if v, ok := at[t.Landed.Verdict].(*ferry.Verdict); ok {
		missing(v.Decision == ferry.DecisionKeep && v.Result == o.ID && v.Content == o.Result.Content, "the verdict that the landing names does not accept this result")
	} else {
		missing(t.Landed.Verdict.IsZero() && !t.Order.NeedsReview, "the landing names no verdict that is in the ledger")
	}
	if a, ok := at[t.Landed.Approve].(*ferry.Approve); ok {
		missing(a.Result == o.ID && a.Content == o.Result.Content, "the approval that the landing names is of another result")
	} else {
		missing(t.Landed.Approve.IsZero() && !t.Order.NeedsApproval, "the landing names no approval that is in the ledger")
	}
	return problems
}

// verify reads the whole channel from its bytes again and keeps what is wrong
// with the writers of this receipt.
func (r *Receipt) verify(ctx context.Context, ch *channel.Channel) error {
	report, err := ch.Verify(ctx)
	if err != nil {
		return err
	}
	for _, p := range report.Problems {
		if slices.ContainsFunc(r.Records, func(l Line) bool { return l.Writer == p.Writer }) {
			r.Problems = append(r.Problems, fmt.Sprintf("record %d of %s: %s: %s", p.Seq, p.Writer, p.Kind, p.Detail))
		}
	}
	return nil
}

// askGit looks whether git holds the landing, and whether what it changed is
// byte for byte what the result describes.
func (r *Receipt) askGit(ctx context.Context, gate *worktree.Gate, t *ferry.Task) error {
	if t.Landed == nil {
		return nil
	}
	at, landed, err := gate.Landed(ctx, t.ID)
	if err != nil {
		return err
	}
	if !landed || at != r.Commit {
		r.Problems = append(r.Problems, fmt.Sprintf("the ref refs/ferry/landed/%s is not at %s in this repository", t.ID, r.Commit.Short()))
		return nil
	}
	if r.Old == "" {
		return nil // written by a repair that did not know it
	}
	if err := gate.Import(ctx, r.Commit); err != nil {
		return err
	}
	repo, err := gitfacts.Open(gate.Dir())
	if err != nil {
		return err
	}
	defer repo.Close()
	found, err := evidence.Measure(ctx, evidence.Spec{Gate: gate, Repo: repo, Order: t.Order, Base: r.Old, From: r.Old, Commit: r.Commit})
	if err != nil {
		return err
	}
	if found.Content != r.Content {
		r.Problems = append(r.Problems, fmt.Sprintf("the change %s..%s is not the one that the result describes", r.Old.Short(), r.Commit.Short()))
	}
	return nil
}

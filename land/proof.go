package land

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
)

// Proof is what a receipt's file proves by itself. With OK everything in it follows from signatures and hashes under the
// id of the channel, which has to be compared with one that is known from elsewhere. Times are the writers' clocks.
type Proof struct {
	OK       bool           `json:"ok"`
	Channel  ferry.RecordID `json:"channel"`
	Project  string         `json:"project,omitempty"`
	Order    ferry.RecordID `json:"order"`
	Label    ferry.Label    `json:"label,omitempty"`
	State    ferry.State    `json:"state,omitempty"`
	Did      []Party        `json:"did"` // ordered, built, reviewed, approved, landed
	Target   string         `json:"target,omitempty"`
	Old      ferry.Commit   `json:"old,omitempty"`
	Work     ferry.Commit   `json:"work,omitempty"` // the commit of the result
	Commit   ferry.Commit   `json:"commit,omitempty"`
	Tree     ferry.Commit   `json:"tree,omitempty"` // of Commit
	Content  string         `json:"content256,omitempty"`
	Merged   bool           `json:"merged"` // the target had moved on: Tree holds its changes too
	Records  int            `json:"records"`
	Headers  int            `json:"headers"` // records of which only the header is here
	Heads    []ferry.Head   `json:"heads"`   // how far the chains of those go who say who may do what
	Problems []string       `json:"problems"`
}

// Party is one who had a part in it.
type Party struct {
	Did    string          `json:"did"`
	Name   ferry.AgentName `json:"name"`
	Writer ferry.WriterID  `json:"writer"`
	Record ferry.RecordID  `json:"record"`
	Time   time.Time       `json:"time"` // the writer's clock
	Says   string          `json:"says,omitempty"`
}

// VerifyReceipt checks a receipt's file with nothing else: the signatures, the chains, who might say what, the state that
// follows, and that the commits are those that the records name. What is wrong is listed. An error means that the file
// cannot be read as a receipt; it is an ErrNoReceipt.
func VerifyReceipt(data []byte, judge ferry.Judge) (Proof, error) {
	f, err := parseReceipt(data)
	if err != nil {
		return Proof{}, fmt.Errorf("verify receipt: %w", err)
	}
	c, err := joinChains(f)
	if err != nil {
		return Proof{}, fmt.Errorf("verify receipt: %w", err)
	}
	v := &verifier{file: f, chains: c, p: Proof{
		Channel: f.channel, Order: f.order, Records: len(f.records), Headers: len(f.tops), Did: []Party{}, Heads: []ferry.Head{}, Problems: []string{},
	}}
	if err := c.settle(); err != nil {
		v.problem("%v", err)
	}
	v.counted = c.counted()
	v.complete()
	if t := v.fold(judge); t != nil {
		v.landing(t)
	}
	v.p.OK = len(v.p.Problems) == 0
	return v.p, nil
}

type verifier struct {
	file    *receiptFile
	chains  *chains
	counted map[ferry.RecordID]bool
	p       Proof
}

// maxProblems is how many problems are listed: one flaw may break everything after it.
const maxProblems = 100

func (v *verifier) problem(format string, args ...any) {
	if len(v.p.Problems) < maxProblems {
		v.p.Problems = append(v.p.Problems, fmt.Sprintf(format, args...))
	}
}

// complete looks whether every record holds and joins, and whether the chains of those who say who may do what go as far
// as any record here has seen them.
func (v *verifier) complete() {
	c := v.chains
	if root := c.roster.Root(); root.ID.IsZero() {
		v.problem("the root record %s of the channel is not here, or does not hold", c.id)
		return
	}
	if hold := c.roster.Hold(); hold != "" {
		v.problem("%s", hold)
	}
	v.p.Project = c.roster.Project()
	for _, n := range c.order {
		v.holds(n)
	}
	for _, w := range v.rulers() {
		v.reaches(w)
	}
}

func (v *verifier) holds(n *node) {
	c, name := v.chains, v.name(ferry.WriterID(n.head.Writer))
	if ferry.Type(n.head.Type) == ferry.TypeRoot {
		if _, why, ok := c.roster.Counts(n.rec, ""); !ok && n.sound {
			v.problem("the root %s does not count: %s", n.id.Short(), why)
		}
	}
	_, known := c.keys[n.feed()]
	switch {
	case !known:
		v.problem("record %d of %s: nothing in this receipt lets that writer in", n.head.Seq, name)
	case !n.sound:
		v.problem("record %d of %s: %s", n.head.Seq, name, n.why)
	case v.counted[n.id]:
	case c.nodes[ferry.RecordID(n.head.Prev)] == nil && n.head.Seq > 1:
		v.problem("record %d of %s: record %d, which it follows, is missing", n.head.Seq, name, n.head.Seq-1)
	default:
		v.problem("record %d of %s is not on the branch that counts", n.head.Seq, name)
	}
}

// rulers are the masters and the delegates.
func (v *verifier) rulers() []ferry.WriterID {
	var out []ferry.WriterID
	roster := v.chains.roster
	for _, r := range roster.Roots() {
		if b, ok := r.Body.(*ferry.Root); ok && !slices.Contains(out, b.Master.Writer) {
			out = append(out, b.Master.Writer)
		}
	}
	for _, w := range roster.Known() {
		if _, _, ok := roster.Delegation(w); ok && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// reaches compares how far the chain of a ruler goes with what the records here say that they had seen of it.
func (v *verifier) reaches(w ferry.WriterID) {
	c := v.chains
	for epoch := uint32(1); ; epoch++ {
		keep, known := c.roster.Chain(w, epoch)
		if !known {
			break
		}
		branch, _ := c.branch(feed{w, epoch}, keep)
		for _, n := range branch {
			if n.bytes == nil && isStatement(ferry.Type(n.head.Type)) {
				v.problem("record %d of %s says who may do what, and only its header is here", n.head.Seq, v.name(w))
			}
		}
		if len(branch) > 0 {
			last := branch[len(branch)-1]
			v.p.Heads = append(v.p.Heads, ferry.Head{Writer: w, Epoch: epoch, Seq: last.head.Seq, ID32: last.id.String()[:32]})
		}
	}
	for _, n := range c.order {
		for _, h := range n.head.Saw {
			if ferry.WriterID(h.Writer) == w && n.sound && !v.has(ferry.Head{Writer: w, Epoch: h.Epoch, Seq: h.Seq, ID32: h.ID32}) {
				v.problem("record %d of %s had seen record %d of %s, which is not here", n.head.Seq, v.name(ferry.WriterID(n.head.Writer)), h.Seq, v.name(w))
			}
		}
	}
}

func (v *verifier) has(h ferry.Head) bool {
	return slices.ContainsFunc(v.chains.feeds[feed{h.Writer, h.Epoch}], func(n *node) bool {
		return n.head.Seq == h.Seq && n.id.String()[:32] == h.ID32
	})
}

func (v *verifier) name(w ferry.WriterID) string {
	if m, ok := v.chains.roster.Member(w); ok {
		return string(m.Name)
	}
	return string(w)
}

// fold computes the state of the order from the records that count.
func (v *verifier) fold(judge ferry.Judge) *ferry.Task {
	c := v.chains
	n := c.nodes[v.file.order]
	order, ok := ferry.Body(nil), false
	if n != nil {
		order = n.rec.Body
	}
	h := ferry.History{Channel: c.id, ID: v.file.order, Name: func(w ferry.WriterID) ferry.AgentName {
		m, _ := c.roster.Member(w)
		return m.Name
	}}
	if h.Order, ok = order.(*ferry.Order); !ok || !v.counted[n.id] {
		v.problem("the order %s is not here, or does not hold", v.file.order)
		return nil
	}
	if _, why, counts := c.roster.Counts(n.rec, ""); !counts {
		v.problem("the order does not count: %s", why)
		return nil
	}
	h.Issuer, h.IssuedAt = n.rec.Writer, n.rec.Time.UTC().Truncate(time.Millisecond)
	v.p.Label = h.Order.Label
	v.did("ordered", n.id)
	for _, n := range c.order {
		if n.id == h.ID || n.rec.Body == nil || !v.counted[n.id] || n.rec.Body.Subject() != h.ID {
			continue
		}
		if level, _, ok := c.roster.CountsFor(n.rec, v.seats(n.rec.Body, h.Issuer)); ok {
			rec := n.rec
			rec.Level = level
			h.Records = append(h.Records, rec)
		}
	}
	t := ferry.Fold(h, ferry.View{Judge: judge, Depend: func(ferry.RecordID) (ferry.Label, ferry.State, bool) { return "", "", false }})
	v.p.State = t.State
	return &t
}

// seats gives who has a part in what a verdict or an approval names.
func (v *verifier) seats(b ferry.Body, issuer ferry.WriterID) authority.Seats {
	s := authority.Seats{Issuer: issuer}
	writer := func(id ferry.RecordID) ferry.WriterID {
		if n := v.chains.nodes[id]; n != nil && v.counted[id] {
			return n.rec.Writer
		}
		return ""
	}
	switch b := b.(type) {
	case *ferry.Verdict:
		s.Builder = writer(b.Result)
	case *ferry.Approve:
		s.Builder, s.Reviewer = writer(b.Result), writer(b.Verdict)
	}
	return s
}

func (v *verifier) did(what string, id ferry.RecordID) {
	n := v.chains.nodes[id]
	if n == nil || !v.counted[id] {
		v.problem("the record %s, by which it was %s, is not here", id.Short(), what)
		return
	}
	m, _ := v.chains.roster.Member(n.rec.Writer)
	v.p.Did = append(v.p.Did, Party{Did: what, Name: m.Name, Writer: n.rec.Writer, Record: id, Time: n.rec.Time, Says: says(n.rec.Body)})
}

// landing follows the order from its result to the commit on the target.
func (v *verifier) landing(t *ferry.Task) {
	l, o := t.Landed, landedResult(t)
	if l != nil && o == nil {
		v.problem("%s", lostResult)
		return
	}
	if l == nil {
		v.problem("by what is here the order has not landed: it is %s", t.State)
		return
	}
	r := o.Result
	v.p.Target, v.p.Old, v.p.Commit, v.p.Work, v.p.Content = l.Target, l.Old, l.Commit, r.Commit, r.Content
	v.did("built", o.ID)
	if !l.Verdict.IsZero() {
		v.did("reviewed", l.Verdict)
		n := v.chains.nodes[l.Verdict]
		if n != nil {
			b, ok := n.rec.Body.(*ferry.Verdict)
			v.want(ok && b.Decision == ferry.DecisionKeep && b.Result == o.ID && b.Content == r.Content && b.Tree == r.Tree, "the verdict that the landing names does not accept this result")
		}
	}
	if !l.Approve.IsZero() {
		v.did("approved", l.Approve)
		n := v.chains.nodes[l.Approve]
		if n != nil {
			b, ok := n.rec.Body.(*ferry.Approve)
			v.want(ok && b.Result == o.ID && b.Content == r.Content && b.Tree == r.Tree, "the approval that the landing names is of another result")
		}
	}
	v.want(!t.Order.NeedsReview || !l.Verdict.IsZero(), "the order asks for a review, and the landing names none")
	v.want(!t.Order.NeedsApproval || !l.Approve.IsZero(), "the order asks for an approval, and the landing names none")
	v.did("landed", t.LandedID)
	v.commits(t.ID, o, l)
}

func (v *verifier) want(ok bool, words string) {
	if !ok {
		v.problem("%s", words)
	}
}

// commits checks that the commits are what the records say.
func (v *verifier) commits(order ferry.RecordID, o *ferry.Outturn, l *ferry.Landed) {
	for id := range v.file.commits {
		v.want(id == l.Commit || id == o.Result.Commit, "the commit "+id.Short()+" is named by no record here")
	}
	work, ok := v.commit(o.Result.Commit)
	if !ok {
		return
	}
	v.want(work.tree == o.Result.Tree, "the commit of the result has another tree than the result says")
	landed, ok := v.commit(l.Commit)
	if !ok {
		return
	}
	v.p.Tree = landed.tree
	v.want(len(landed.parents) == 1 && (l.Old == "" || landed.parents[0] == l.Old), "the landed commit does not follow the commit that the landing names")
	v.want(landed.trailer(trailerOrder) == order.String() && landed.trailer(trailerResult) == o.ID.String(), "the landed commit names another order or result")
	v.p.Merged = len(landed.parents) == 1 && landed.parents[0] != o.Result.Base
	v.want(v.p.Merged || landed.tree == o.Result.Tree, "the landed commit has another tree than the one that was checked")
}

// commit gives a commit of the receipt whose hash is its id.
func (v *verifier) commit(id ferry.Commit) (gitCommit, bool) {
	raw, ok := v.file.commits[id]
	if !ok {
		v.problem("the commit %s is not here", id)
		return gitCommit{}, false
	}
	data := append(fmt.Appendf(nil, "commit %d\x00", len(raw)), raw...)
	sum := ""
	if len(id) == 2*sha256.Size {
		s := sha256.Sum256(data)
		sum = hex.EncodeToString(s[:])
	} else {
		s := sha1.Sum(data)
		sum = hex.EncodeToString(s[:])
	}
	if sum != string(id) {
		v.problem("the bytes of the commit %s are not its own: they are %s", id.Short(), sum)
		return gitCommit{}, false
	}
	c, err := parseCommit(raw)
	if err != nil {
		v.problem("the commit %s: %v", id.Short(), err)
	}
	return c, err == nil
}

package ferry

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// results judges every result and finds the verdict that counts for each.
func (f *fold) results() {
	at := map[RecordID]int{}
	for i, a := range f.t.Attempts {
		at[a.Start] = i
	}
	for _, r := range inChain(f.handed) {
		b := r.Body.(*Result)
		i, ok := at[b.Start]
		if !ok || f.t.Attempts[i].Holder != r.Writer || f.t.Attempts[i].N != b.Attempt || !f.t.Attempts[i].Result.IsZero() {
			continue // a result stands on its writer's own start, one for each
		}
		f.t.Attempts[i].Result, f.t.Attempts[i].EndedAt = r.ID, &r.Time
		f.t.Results = append(f.t.Results, Outturn{
			ID: r.ID, Writer: r.Writer, At: r.Time, Result: b, Evidence: f.v.Judge(f.h.Order, b),
		})
	}
	slices.SortFunc(f.t.Results, func(a, b Outturn) int {
		return f.compare(place{a.Result.Attempt, a.Writer, a.ID}, place{b.Result.Attempt, b.Writer, b.ID})
	})
	slices.SortFunc(f.t.Attempts, func(a, b Attempt) int {
		return f.compare(place{a.N, a.Holder, a.Start}, place{b.N, b.Holder, b.Start})
	})
	f.t.Revision = int64(len(f.t.Results))
	for i := range f.t.Results {
		f.verdict(&f.t.Results[i])
	}
	f.rejections()
}

// verdict finds the decision on one result. Nobody judges its own work, and a
// refuted result cannot be kept.
func (f *fold) verdict(o *Outturn) {
	var best *Record
	for i, r := range f.verdicts {
		b := r.Body.(*Verdict)
		if b.Result != o.ID || r.Writer == o.Writer || b.Decision == DecisionKeep && o.Evidence.Status == EvidenceRefuted {
			continue
		}
		if b.Decision == DecisionReject && f.forgiven[r.ID] {
			continue
		}
		o.Verdicts = append(o.Verdicts, Review{ID: r.ID, Writer: r.Writer, At: r.Time, Decision: b.Decision, Notes: b.Notes})
		if best == nil || stronger(r, *best) {
			best = &f.verdicts[i]
		}
	}
	if best != nil {
		o.Decision, o.Verdict = best.Body.(*Verdict).Decision, best.ID
	}
}

// rejections collects the masters' refusals of the order that no retry lifted.
func (f *fold) rejections() {
	for _, r := range f.verdicts {
		b := r.Body.(*Verdict)
		if b.Decision == DecisionReject && r.Level == LevelMaster && !f.forgiven[r.ID] {
			f.denied = append(f.denied, r)
			f.reason = b.Notes
		}
	}
}

// live finds the holder: the live start of the highest attempt with the
// smallest rank, else the first live claim of the next attempt.
func (f *fold) live() {
	for i := range f.t.Attempts {
		a := &f.t.Attempts[i]
		if a.Stop != nil || !a.Result.IsZero() {
			continue
		}
		if a.N < f.t.Attempt || !f.t.Live.IsZero() {
			a.Fenced = true
			continue
		}
		f.t.Live, f.t.Holder = a.Start, a.Holder
	}
	f.liveClaims()
	if f.t.Live.IsZero() && len(f.t.Claims) > 0 {
		f.t.LiveClaim, f.t.Holder = f.t.Claims[0].ID, f.t.Claims[0].Writer
	}
}

// liveClaims lists the claims of the next attempt: of each writer the last, unless it was given back or retired.
func (f *fold) liveClaims() {
	given := map[RecordID]WriterID{} // claims that their own writer gave back
	for _, r := range f.stops {
		given[r.Body.(*Stop).Claim] = r.Writer
	}
	last := map[WriterID]Record{}
	for _, r := range inChain(f.claims) {
		if r.Body.(*Claim).Attempt == f.t.Attempt+1 && f.addressed(r.Writer) && !f.late(r.Writer, f.t.Attempt+1) {
			last[r.Writer] = r
		}
	}
	for w, r := range last {
		if _, ok := f.retired[r.ID]; ok || given[r.ID] == w {
			continue
		}
		f.t.Claims = append(f.t.Claims, Claimed{ID: r.ID, Writer: w, Supersedes: r.Body.(*Claim).Supersedes})
	}
	slices.SortFunc(f.t.Claims, func(a, b Claimed) int {
		first := cmp.Compare(f.t.Next.turn(a.Writer), f.t.Next.turn(b.Writer))
		return cmp.Or(first, f.compare(place{f.t.Attempt + 1, a.Writer, a.ID}, place{f.t.Attempt + 1, b.Writer, b.ID}))
	})
}

// stand picks the result that counts, the approval on it, the landing, and
// counts the failures.
func (f *fold) stand() {
	for i := range f.t.Results {
		if o := &f.t.Results[i]; o.Stands() {
			f.t.Standing = o.ID
			break
		}
	}
	for _, r := range f.approves {
		b := r.Body.(*Approve)
		o := f.t.StandingResult()
		if o != nil && b.Result == o.ID && r.Writer != o.Writer && (b.Commit == "" || b.Commit == o.Result.Commit) && f.t.Approve.IsZero() {
			f.t.Approve = r.ID
		}
	}
	for _, r := range f.landed {
		if b := r.Body.(*Landed); f.t.Landed == nil && f.landable(b, r) {
			f.t.Landed, f.t.LandedID = b, r.ID
		} else if f.t.Unbacked == nil && b.Commit != "" && f.outturn(b.Result) == nil {
			f.t.Unbacked = b // one that does not say what landed where is nothing that could be looked for
		}
	}
	if f.t.Landed != nil {
		f.t.Unbacked = nil
	}
	for _, a := range f.t.Attempts {
		if a.Stop != nil && a.Stop.Reason.Counts() {
			f.failure(a.StopID)
		}
	}
	for _, o := range f.t.Results {
		if o.Evidence.Status == EvidenceRefuted {
			f.failure(o.ID)
		}
	}
}

// landable reports whether a landing names a result of this order that was
// not refuted and that somebody else made: a refuted one cannot land, whoever
// says it did, and nobody lands its own work. Where the order asks for a
// review or an approval, the landing names the one that it rests on, which a
// later word of a reviewer does not take back. A result that does not count,
// because its writer forked or was cut off, is on the branch all the same: of
// that the master's word is enough, when it says what landed.
func (f *fold) landable(b *Landed, r Record) bool {
	o := f.outturn(b.Result)
	if o == nil {
		return r.Level == LevelMaster && b.Content != ""
	}
	if o.Writer == r.Writer || o.Evidence.Status == EvidenceRefuted || b.Content != "" && b.Content != o.Result.Content {
		return false
	}
	approved := slices.ContainsFunc(f.approves, func(r Record) bool {
		return r.ID == b.Approve && r.Body.(*Approve).Result == o.ID && r.Writer != o.Writer
	})
	kept := slices.ContainsFunc(o.Verdicts, func(v Review) bool { return v.ID == b.Verdict && v.Decision == DecisionKeep })
	switch {
	case f.h.Order.NeedsApproval:
		return approved
	case f.h.Order.NeedsReview:
		return approved || kept
	}
	return true
}

// outturn gives a result that counts, or nil.
func (f *fold) outturn(id RecordID) *Outturn {
	for i := range f.t.Results {
		if f.t.Results[i].ID == id {
			return &f.t.Results[i]
		}
	}
	return nil
}

func (f *fold) failure(id RecordID) {
	if !f.forgiven[id] {
		f.t.Failures++
		f.t.Next.Failed = append(f.t.Next.Failed, id)
	}
}

// next describes the attempt that would follow.
func (f *fold) next() {
	n := &f.t.Next
	n.Attempt, n.From = f.t.Attempt+1, f.h.Order.Base
	for _, r := range f.denied {
		n.Failed = append(n.Failed, r.ID)
	}
	slices.SortFunc(n.Failed, func(a, b RecordID) int { return bytes.Compare(a[:], b[:]) })
	for _, a := range f.t.Attempts {
		for _, r := range a.Runs {
			n.From = later(n.From, r.Commit)
		}
		if a.Stop != nil {
			n.From = later(n.From, a.Stop.Commit)
		}
		for _, o := range f.t.Results {
			if o.ID == a.Result {
				n.From = later(n.From, o.Result.Commit)
			}
		}
	}
	f.notes()
}

// notes collects what the next attempt must be told: what reviewers and steers
// asked for stays until a result stands, and why the last result was refuted.
func (f *fold) notes() {
	n := &f.t.Next
	since := int64(0) // the attempt whose result was the last to stand
	var asked, why []string
	for i := len(f.t.Results) - 1; i >= 0; i-- {
		o := &f.t.Results[i]
		if o.ID == f.t.Standing {
			return
		}
		if o.Evidence.Status == EvidenceRefuted {
			if i == len(f.t.Results)-1 {
				why = refutation(o)
			}
			continue
		}
		since = o.Result.Attempt
		if o.Decision == DecisionChanges {
			if n.turn(o.Writer) == 0 {
				n.Prefer = o.Writer
			}
			for _, v := range o.Verdicts {
				if v.Decision == DecisionChanges && strings.TrimSpace(v.Notes) != "" {
					asked = append(asked, v.Notes)
				}
			}
		}
		break
	}
	n.Notes = slices.Concat(asked, f.steersSince(since), why)
}

// steersSince gives the notes that runs of later attempts were told.
func (f *fold) steersSince(attempt int64) []string {
	told := map[RecordID]bool{}
	for _, a := range f.t.Attempts {
		if a.N <= attempt {
			continue
		}
		for _, r := range a.Runs {
			for _, id := range r.Steers {
				told[id] = true
			}
		}
	}
	var out []string
	for _, r := range f.interrupts {
		if b := r.Body.(*Interrupt); told[r.ID] && b.Action == ActionSteer {
			out = append(out, b.Note)
		}
	}
	return out
}

// refutation puts a refuted result into words for the next attempt: the
// reasons, and the end of the output of the checks that failed.
func refutation(o *Outturn) []string {
	notes := slices.Clone(o.Evidence.Reasons)
	for _, c := range o.Result.Checks {
		if c.Exit != 0 {
			notes = append(notes, fmt.Sprintf("the check `%s` ended with %d and printed last:\n%s", c.Command, c.Exit, c.Tail))
		}
	}
	return notes
}

func later(have, found Commit) Commit {
	if found == "" {
		return have
	}
	return found
}

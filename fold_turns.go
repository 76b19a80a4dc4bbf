package ferry

import (
	"maps"
	"slices"
)

// maxVain is how often a writer may try an order in vain before others go before it.
const maxVain = 2

// bar finds the writers an attempt of which ran over its time: from there on theirs do not count, until a retry forgives it.
func (f *fold) bar() {
	starts := map[RecordID]Record{}
	for _, r := range f.starts {
		starts[r.ID] = r
	}
	f.barred = map[WriterID]int64{}
	for _, r := range f.retires {
		s, ok := starts[r.Body.(*Retire).Start]
		if !ok || !r.Body.(*Retire).Overdue || f.forgiven[r.ID] {
			continue
		}
		n := s.Body.(*Start).Attempt
		if old, ok := f.barred[s.Writer]; !ok || n < old {
			f.barred[s.Writer] = n
		}
		f.t.Next.Failed = append(f.t.Next.Failed, r.ID)
	}
	f.t.Next.Barred = slices.Sorted(maps.Keys(f.barred))
}

// late reports whether an attempt of a writer comes after one of its own that ran over its time. It counts only if it has a
// result: what has landed may rest on that.
func (f *fold) late(w WriterID, attempt int64) bool {
	last, ok := f.barred[w]
	return ok && attempt > last
}

// behind finds the writers that others go before at the next attempt: those whose attempts came to nothing twice. It follows
// from the records alone, so that every machine gives the same turns; and no writer can put another there.
func (f *fold) behind() {
	vain := map[WriterID]int{}
	for _, a := range f.t.Attempts {
		if f.inVain(&a) {
			vain[a.Holder]++
		}
	}
	for w, n := range vain {
		if _, barred := f.barred[w]; n >= maxVain && !barred {
			f.t.Next.Behind = append(f.t.Next.Behind, w)
		}
	}
	slices.Sort(f.t.Next.Behind)
}

// inVain reports whether an attempt has ended, by what its writer did, with nothing that stands: a result that was refuted or
// sent back, or none. A retry of a failure forgives it.
func (f *fold) inVain(a *Attempt) bool {
	if o := f.outturn(a.Result); o != nil {
		return !o.Stands() && !f.forgiven[o.ID]
	}
	if a.Stop == nil || f.forgiven[a.StopID] {
		return false
	}
	switch a.Stop.Reason {
	case StopFailed, StopTimeout, StopFault, StopOrphan, StopReleased:
		return true
	case StopRetired:
		_, ok := f.retired[a.Start].Body.(*Retire) // a reassignment says nothing of the writer
		return ok
	}
	return false
}

// turn gives 0 for the claim of a writer that goes first, and 1 for one that others go before.
func (n *Next) turn(w WriterID) int {
	if slices.Contains(n.Behind, w) || slices.Contains(n.Barred, w) {
		return 1
	}
	return 0
}

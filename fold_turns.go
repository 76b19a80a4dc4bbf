package ferry

import "slices"

// maxVain is how often a writer may try an order in vain before others go before it.
const maxVain = 2

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
		if n >= maxVain {
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
	if slices.Contains(n.Behind, w) {
		return 1
	}
	return 0
}

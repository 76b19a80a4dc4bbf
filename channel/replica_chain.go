package channel

import (
	"slices"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
	"github.com/ferry-fleet/ferry/sign"
)

func (r *Replica) branch(ch chain) *branch {
	b := r.chains[ch]
	if b == nil {
		b = &branch{tree: newTree()}
		b.bounds, _ = boundsOf(r.roster, r, ch) // in memory nothing fails
		b.standing, _ = b.stand(b.bounds)
		r.chains[ch] = b
	}
	return b
}

// insert takes a verified record into its chain, behind its predecessor.
func (r *Replica) insert(file []byte, ch chain) {
	p, err := parseStored(file)
	if err != nil {
		return // it was parsed before
	}
	h := &held{parsed: p, file: file}
	h.rec, _ = h.record()
	b := r.branch(ch)
	n := node{p.head.Seq, p.head.Prev}
	b.add(h.id, n)
	r.records[h.id] = h
	r.arrived = append(r.arrived, h)
	if id, ok := h.subject(); ok {
		r.about[id] = append(r.about[id], h)
	}
	where, _ := b.place(h.id, n, func() (bool, error) { return r.records[n.prev].main, nil })
	switch where {
	case onBranch:
		h.main = true
	case forking:
		r.putAside(b, n.seq)
		r.stale = true
	case unclear:
		r.rejudge(b, b.bounds)
		r.stale = true
		b.bounds = bounds{} // the roster may hang on it, so the chain is looked at again with it
	}
	r.note(h, ch)
}

// note draws the consequences of a record beyond its chain.
func (r *Replica) note(h *held, ch chain) {
	if id, ok := h.subject(); ok {
		r.states.touch(id)
	}
	if h.bare {
		r.dress(h)
	}
	if statement(ferry.Type(h.head.Type)) {
		r.stale = true
	}
	if r.trusted[ch.writer] && act(ferry.Type(h.head.Type)) {
		r.stale = true
	}
	switch b := h.rec.Body.(type) {
	case *ferry.Root:
		r.roots = append(r.roots, h)
	case *ferry.Delegate:
		r.trusted.note(b)
	case *ferry.Redact:
		for _, named := range b.Records {
			r.redacts[named.ID] = append(r.redacts[named.ID], h)
			r.affected(named.ID)
		}
	case *ferry.ForkProof:
		if p, ok := newProof(r.spec.ID, b); ok {
			r.proofs[p.ch] = append(r.proofs[p.ch], p)
			r.stale = true
		}
	}
	if !h.main {
		return
	}
	seen := make(map[ferry.WriterID]ferry.Head, len(h.rec.Saw)) // what a writer says last is what it says
	for _, head := range h.rec.Saw {
		seen[head.Writer] = head
	}
	r.saw[ch.writer] = seen
}

func later(a, b ferry.Head) bool { return a.Epoch > b.Epoch || a.Epoch == b.Epoch && a.Seq > b.Seq }

// putAside takes a chain from a number on off the branch that counts.
func (r *Replica) putAside(b *branch, seq uint64) {
	for id, n := range b.nodes {
		if n.seq >= seq {
			r.mark(id, false)
		}
	}
}

// rejudge computes anew which records of a chain count.
func (r *Replica) rejudge(b *branch, bounds bounds) {
	s, main := b.stand(bounds)
	b.standing = s
	counts := make(map[ferry.RecordID]bool, len(main))
	for _, id := range main {
		counts[id] = true
	}
	for id := range b.nodes {
		r.mark(id, counts[id])
	}
}

func (r *Replica) mark(id ferry.RecordID, main bool) {
	h := r.records[id]
	if h.main == main {
		return
	}
	h.main = main
	if order, ok := h.subject(); ok {
		r.states.touch(order)
	}
}

// evaluate brings the roster up to date, and queues what counts otherwise under it.
func (r *Replica) evaluate() {
	if !r.stale {
		return
	}
	r.stale = false
	before := r.roster
	var rejudged []ferry.WriterID
	r.roster, _ = evaluate(r.spec.ID, r) // in memory nothing fails
	for ch, b := range r.chains {
		now, _ := boundsOf(r.roster, r, ch)
		if !now.equal(b.bounds) {
			r.rejudge(b, now)
			rejudged = append(rejudged, ch.writer)
		}
	}
	r.touchRedacted()
	writers, all := differ(before, r.roster)
	writers = r.trusted.recounted(writers, rejudged)
	for ch, b := range r.chains {
		if !all && !slices.Contains(writers, ch.writer) {
			continue
		}
		for id := range b.nodes {
			if order, ok := r.records[id].subject(); ok {
				r.states.touch(order)
			}
		}
	}
}

// What follows makes a replica the material of authority.

func (r *Replica) rootFiles() ([]rooted, error) {
	var out []rooted
	for _, h := range r.roots {
		out = append(out, rooted{h.rec, h.file})
	}
	return out, nil
}

func (r *Replica) epochs(w ferry.WriterID) ([]uint32, error) {
	var out []uint32
	for ch := range r.chains {
		if ch.writer == w {
			out = append(out, ch.epoch)
		}
	}
	slices.Sort(out)
	return out, nil
}

func (r *Replica) starts(ch chain) ([]ferry.RecordID, error) {
	b := r.chains[ch]
	if b == nil {
		return nil, nil
	}
	return b.tree.starts(), nil
}

func (r *Replica) statements(ch chain, b bounds) ([]ferry.Record, bool, error) {
	ids, whole := r.within(ch, b)
	return r.chosen(ids, statement), whole, nil
}

func (r *Replica) acts(ch chain, b bounds) ([]ferry.Record, error) {
	at := r.chains[ch]
	if at == nil {
		return nil, nil
	}
	_, ids := at.stand(b)
	return r.chosen(ids, act), nil
}

// within gives the records of a chain that count for authority.
func (r *Replica) within(ch chain, b bounds) (ids []ferry.RecordID, whole bool) {
	at := r.chains[ch]
	switch {
	case b.keep == nil && at == nil:
		return nil, true
	case b.keep == nil:
		ids, _ = at.trunk(b)
		return ids, true
	case at == nil:
		return nil, b.keep.Seq == 0
	}
	return at.through(b.first, *b.keep)
}

func (r *Replica) chosen(ids []ferry.RecordID, wanted func(ferry.Type) bool) []ferry.Record {
	var out []ferry.Record
	for _, id := range ids {
		h := r.records[id]
		if rec := usedUp(h.rec); rec.Body != nil && wanted(ferry.Type(h.head.Type)) {
			out = append(out, rec)
		}
	}
	return out
}

func (r *Replica) proof(ch chain, key sign.PublicKey) (uint64, error) {
	return least(r.proofs[ch], key), nil
}

// writerOf finds the writer that signs with a key, and the epoch in which it writes.
func writerOf(r *authority.Roster, key sign.PublicKey) (ferry.WriterID, uint32, bool) {
	for _, w := range r.Known() {
		epoch := r.Epoch(w)
		if has, _, ok := r.Key(w, epoch); epoch > 0 && ok && has == key {
			return w, epoch, true
		}
	}
	return "", 0, false
}

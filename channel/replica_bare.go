package channel

import (
	"slices"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/sign"
)

// open checks the signature of a record, and the body if that is here.
func (r *Replica) open(u form, key sign.PublicKey) (form, error) {
	if isBare(u) {
		return openForm(u, key)
	}
	return r.spec.Open(u.Bytes(), key)
}

// promise lets in the bare records that a redaction names, also while the redaction itself waits: they may come before it in the
// chain of the master.
func (r *Replica) promise(f form) {
	for _, red := range named(r.roster, f) {
		if !r.told[red.ID] {
			r.told[red.ID] = true
			r.free = append(r.free, r.parked.behind(red.ID)...)
		}
	}
}

// subject gives the order that a record is about; ok is false when it is about none.
func (h *held) subject() (id ferry.RecordID, ok bool) {
	if h.bare {
		return h.on, !h.on.IsZero()
	}
	return subject(h.rec)
}

// by gives the redactions that name a record, on the branches that count.
func (r *Replica) by(id ferry.RecordID) []ferry.Record {
	var by []ferry.Record
	for _, other := range r.redacts[id] {
		if other.main {
			by = append(by, other.rec)
		}
	}
	return by
}

// amend gives a record as it is read.
func (r *Replica) amend(h *held) ferry.Record {
	by := r.by(h.id)
	if len(by) == 0 {
		return shown(h.rec)
	}
	return amended(h.rec, by, r.roster)
}

// touchRedacted queues what may be read otherwise when redactions begin or cease to count.
func (r *Replica) touchRedacted() {
	for id := range r.redacts {
		r.affected(id)
	}
}

// affected queues what one record is about.
func (r *Replica) affected(id ferry.RecordID) {
	h := r.records[id]
	if h == nil {
		return
	}
	if h.bare {
		r.dress(h)
		return
	}
	if order, ok := subject(h.rec); ok {
		r.states.touch(order)
	}
}

// dress finds out what a bare record is about.
func (r *Replica) dress(h *held) {
	id, ok := subject(dressed(h.rec, r.by(h.id), r.roster))
	if !ok {
		id = ferry.RecordID{}
	}
	r.turn(h, id)
}

// turn makes a record one about an order, or about none, and touches what it was about before.
func (r *Replica) turn(h *held, id ferry.RecordID) {
	before := h.on
	if h.on = id; before != id {
		if !before.IsZero() {
			r.about[before] = slices.DeleteFunc(r.about[before], func(other *held) bool { return other == h })
		}
		if !id.IsZero() {
			r.about[id] = append(r.about[id], h)
		}
	}
	for _, order := range []ferry.RecordID{before, id} {
		if !order.IsZero() {
			r.states.touch(order)
		}
	}
}

// fill puts the whole record in the place of a bare one. Who has both compares what a redaction says with what was signed.
func (r *Replica) fill(h *held, v form) {
	p, err := parseStored(v.Bytes())
	if err != nil {
		return // it was parsed before
	}
	whole := &held{parsed: p}
	whole.rec, _ = whole.record()
	id, ok := subject(whole.rec)
	if !ok {
		id = ferry.RecordID{}
	}
	r.turn(h, id)
	h.parsed, h.rec, h.file, h.on = whole.parsed, whole.rec, v.Bytes(), ferry.RecordID{}
}

// waitsFor says what a parked record waits for.
func (r *Replica) waitsFor(u form) string {
	if isBare(u) && !r.told[u.ID()] {
		return whyAlone
	}
	return "waits for another record"
}

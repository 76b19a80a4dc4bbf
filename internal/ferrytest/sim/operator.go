package sim

import (
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
)

// operator is the part of the machine of the person who is the master.
type operator struct {
	since   map[ferry.RecordID]time.Duration // when a live start was first seen, by the own boottime
	retired map[ferry.WriterID]int           // starts of a writer that had to be retired
	version int                              // of the records that were looked at last
	next    time.Duration                    // when they are looked at again though nothing has changed
}

// tooLong is the time after which the operator takes a start for one that never ends.
const tooLong = 20 * time.Minute

func (m *machine) chiefActs() {
	if m.i != 0 {
		return
	}
	now := m.w.time.now
	for _, o := range m.w.orders {
		if o.id.IsZero() && o.due <= now && !m.issue(o) {
			return
		}
		if o.cancel > 0 && o.cancel <= now && !o.id.IsZero() {
			o.cancel = 0
			m.w.trace(m, "cancel", uint64(o.n))
			if _, ok := m.write(&ferry.Cancel{Order: o.id, Reason: "not needed"}); !ok {
				return
			}
		}
	}
	if at := m.mono(now); m.chief.version != m.work.version || at >= m.chief.next {
		m.chief.version, m.chief.next = m.work.version, at+time.Minute
		m.tendOrders()
	}
}

func (m *machine) issue(o *ordered) bool {
	m.w.trace(m, "order", uint64(o.n))
	_, ok := m.write(&o.order)
	return ok
}

// durable notes that an order exists from here on.
func (w *world) durable(id ferry.RecordID, b ferry.Body) {
	if r := w.records[id]; r.by.deputy && b.Type() == ferry.TypeVerdict {
		r.by.verdicts++
		r.nth = r.by.verdicts
	}
	order, ok := b.(*ferry.Order)
	if !ok {
		return
	}
	for _, o := range w.orders {
		if &o.order == order {
			o.id, o.issued = id, w.time.now
			w.byID[id] = o
		}
	}
}

// tendOrders answers questions, opens failed orders again once, and retires starts that never end.
func (m *machine) tendOrders() {
	for _, o := range m.w.orders {
		t, ok := m.rep.Task(o.id)
		if !ok || t.State.Final() || !m.awake() {
			continue
		}
		switch {
		case len(t.Questions) > 0:
			q := t.Questions[0]
			option := q.Question.Options[0].Name
			if len(t.Answered) > 1 {
				option = ferry.OptionCancel
			}
			m.w.trace(m, "answer "+option, uint64(o.n))
			m.write(&ferry.Answer{Order: t.ID, Question: q.ID, Option: option})
		case t.State == ferry.StateFailed && len(t.Next.Failed) > 0:
			m.w.trace(m, "retry", uint64(o.n))
			m.write(&ferry.Interrupt{Order: t.ID, Action: ferry.ActionRetry, Seen: t.Next.Failed})
		case t.Next.Claimable && m.w.allBarred(&t):
			m.w.trace(m, "retry", uint64(o.n))
			m.write(&ferry.Interrupt{Order: t.ID, Action: ferry.ActionRetry, Seen: t.Next.Failed})
		case t.State == ferry.StateRunning:
			m.retireEndless(o, &t)
		}
	}
}

// allBarred reports whether nobody who is there may take an order any more.
func (w *world) allBarred(t *ferry.Task) bool {
	return !slices.ContainsFunc(w.machines, func(m *machine) bool {
		return m.works() && !m.gone && m.copyOf == nil && !slices.Contains(t.Next.Barred, m.id)
	})
}

// retireEndless ends a start that has been live for too long, and the membership of a writer that has had several.
func (m *machine) retireEndless(o *ordered, t *ferry.Task) {
	now := m.boottime(m.w.time.now)
	since, ok := m.chief.since[t.Live]
	if !ok || since > now {
		m.chief.since[t.Live] = now
		return
	}
	if now-since < tooLong {
		return
	}
	m.w.trace(m, "retire", uint64(o.n))
	m.w.seen(sawRetire)
	m.chief.retired[t.Holder]++
	if _, ok := m.write(&ferry.Retire{Order: t.ID, Start: t.Live, Reason: "it never ends"}); !ok {
		return
	}
	if head, ok := m.rep.Head(t.Holder); ok && m.chief.retired[t.Holder] == 3 {
		m.w.trace(m, "revoke", 0)
		m.write(&ferry.Revoke{Writer: t.Holder, Keep: m.w.cutAt(head), Reason: "it never ends what it starts"})
	}
}

// cutAt names a record by its head.
func (w *world) cutAt(h ferry.Head) ferry.Cut {
	for id, r := range w.records {
		if h.Names(ferry.Record{ID: id, Writer: ferry.WriterID(r.head.Writer), Epoch: r.head.Epoch, Seq: r.head.Seq}) {
			return ferry.Cut{Epoch: int64(h.Epoch), Seq: int64(h.Seq), ID: id}
		}
	}
	return ferry.Cut{Epoch: int64(h.Epoch)}
}

package sim

import (
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/worker"
)

// peerActs is the rule that ferry is compared with: claim and start at once what nobody is seen to hold; of several claims
// the one with the oldest date holds the order, and the others stop when they see it. A claim never lapses.
func (m *machine) peerActs() {
	for _, e := range m.work.engines {
		t, ok := m.rep.Task(e.order)
		if !ok || t.State != ferry.StateRunning || m.oldest(&t) != e.start {
			m.w.trace(m, "fenced", uint64(e.o.n))
			m.end(e, ferry.StopFenced)
			return // the list has changed; soon there is another look
		}
	}
	tasks := m.rep.Active()
	for i := range tasks {
		t := &tasks[i]
		if len(m.work.engines) >= m.work.slots || !m.awake() {
			return
		}
		for _, a := range t.Attempts {
			if a.Holder == m.id && a.Stop == nil && a.Result.IsZero() && m.engineOf(a.Start) == nil {
				m.write(&ferry.Stop{Order: t.ID, Start: a.Start, Reason: ferry.StopOrphan})
				return
			}
		}
		if t.Next.Claimable && m.oldest(t).IsZero() {
			s := worker.Step{Order: t.ID, Attempt: t.Next.Attempt}
			if claim, ok := m.claim(m.w.byID[t.ID], s); ok {
				m.startAttempt(m.w.byID[t.ID], s, claim)
			}
		}
	}
}

// oldest gives the live start with the oldest date.
func (m *machine) oldest(t *ferry.Task) ferry.RecordID {
	var id ferry.RecordID
	var date time.Time
	for _, a := range t.Attempts {
		if a.Stop == nil && a.Result.IsZero() && (id.IsZero() || a.At.Before(date)) {
			id, date = a.Start, a.At
		}
	}
	return id
}

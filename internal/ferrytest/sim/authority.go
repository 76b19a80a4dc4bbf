package sim

import (
	"time"

	"github.com/ferry-fleet/ferry"
)

// deputyUses is how many acts the delegation of the deputy covers.
const deputyUses = 2

// planAuthority lets the master say something about the authority while everything goes on: policies, a delegation that may be
// used a few times, and the next version of the root.
func (w *world) planAuthority() {
	if w.sc.Faults&faultAuthority == 0 {
		return
	}
	chief := w.machines[0]
	at := func(do func()) {
		w.time.at(w.span(10*time.Second, 12*time.Minute), func() { chief.decree(do) })
	}
	at(chief.delegateReview)
	at(chief.nextPolicy)
	at(chief.nextPolicy)
	at(chief.nextRoot)
}

// decree does something once the master is there.
func (m *machine) decree(do func()) {
	if m.w.closing {
		return
	}
	if !m.awake() || m.full || m.stopped {
		m.w.time.at(m.w.time.now+30*time.Second, func() { m.decree(do) })
		return
	}
	m.ingest()
	do()
}

func (m *machine) delegateReview() {
	for _, d := range m.w.machines {
		if d.deputy {
			m.w.trace(m, "delegate", 0)
			m.write(&ferry.Delegate{To: d.id, Scopes: []ferry.Scope{ferry.ScopeReview}, MaxUses: deputyUses})
		}
	}
}

// delegated reports whether the machine is the deputy and knows it: what it says before is not covered.
func (m *machine) delegated() bool {
	if !m.deputy {
		return false
	}
	_, _, ok := m.rep.Roster().Delegation(m.id)
	return ok
}

func (m *machine) nextPolicy() {
	now, _ := m.rep.Roster().Policy(ferry.PolicySwitch)
	p := &ferry.Policy{Kind: ferry.PolicySwitch, Version: 1, Text: "all on"}
	if have, ok := now.Body.(*ferry.Policy); ok {
		p.Version, p.Prev = have.Version+1, now.ID
	}
	m.w.trace(m, "policy", uint64(p.Version))
	m.write(p)
}

func (m *machine) nextRoot() {
	now := m.rep.Roster().Root()
	have, ok := now.Body.(*ferry.Root)
	if !ok {
		return
	}
	next := *have
	next.Version, next.Prev, next.Keep = have.Version+1, now.ID, ferry.Cut{}
	m.w.trace(m, "root", uint64(next.Version))
	if _, ok := m.write(&next); ok && m.rep.Roster().Root().ID == now.ID {
		m.w.check.fail(m, "bug", "the next version of the root is not in force")
	}
}

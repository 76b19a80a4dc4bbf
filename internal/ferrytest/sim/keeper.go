package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/land"
)

// keeper is the part of a machine that reviews and lands. The decisions are production's; git is the world's.
type keeper struct {
	version   int // of the records that were looked at last
	reviewing map[ferry.RecordID]bool
	landing   map[ferry.RecordID]bool
	behind    time.Duration // when it was first seen that an authority head is missing, by boottime; 0 for never
}

// holdGap is how long a head of the authority that is named and missing holds back a landing.
const holdGap = 10 * time.Minute

func (m *machine) keeperBoots() {
	m.review = keeper{version: -1, reviewing: map[ferry.RecordID]bool{}, landing: map[ferry.RecordID]bool{}}
}

func (m *machine) keeperActs() {
	if !m.may(ferry.GrantReview) && !m.delegated() || m.review.version == m.work.version && !m.review.due(m) {
		return
	}
	m.review.version = m.work.version
	for _, o := range m.w.orders {
		t, ok := m.rep.Task(o.id)
		if !ok || o.id.IsZero() {
			continue
		}
		switch t.State {
		case ferry.StateAwaitingReview:
			m.reviewSoon(&t)
			if m.w.sc.Mutant == MutantLandUnkept {
				m.landSoon(&t)
			}
		case ferry.StateAccepted:
			if m.may(ferry.GrantLand) {
				m.landSoon(&t)
			}
		}
	}
}

// due reports whether a hold that ends by itself has to be looked at again.
func (k *keeper) due(m *machine) bool { return k.behind != 0 }

func (m *machine) reviewSoon(t *ferry.Task) {
	result := t.Standing
	o := t.StandingResult()
	if o.Writer == m.id || m.review.reviewing[result] {
		return
	}
	m.review.reviewing[result] = true
	m.after(m.w.span(2*time.Second, 30*time.Second), func() { m.fetch(t.ID, result, o.Result.Commit) })
}

// fetch asks the remote for the commit of a result, and judges it.
func (m *machine) fetch(order, result ferry.RecordID, c ferry.Commit) {
	var g gitCommit
	var have bool
	m.w.remote.call(m, func() error { g, have = m.w.remote.commits[c]; return nil }, func(err error) {
		if err != nil {
			m.after(10*time.Second, func() { m.fetch(order, result, c) })
			return
		}
		t, ok := m.rep.Task(order)
		if m.stopped || !ok || t.State != ferry.StateAwaitingReview || t.Standing != result {
			delete(m.review.reviewing, result)
			return
		}
		v := &ferry.Verdict{Order: order, Result: result, Decision: ferry.DecisionKeep, Commit: c}
		ord := m.w.byID[order]
		if !have || !g.real || ord.sendBack && t.Revision == 1 {
			v.Decision, v.Notes = ferry.DecisionChanges, "do it again"
		}
		m.w.trace(m, "verdict "+string(v.Decision), uint64(ord.n))
		if _, ok := m.write(v); !ok {
			m.later(func() { m.fetch(order, result, c) })
		}
	})
}

// mayAct reports whether nothing of the authority is known to be missing here, or has been for too long.
func (m *machine) mayAct() bool {
	if _, behind := m.rep.Behind(); !behind {
		m.review.behind = 0
		return true
	}
	now := m.boottime(m.w.time.now)
	if m.review.behind == 0 {
		m.review.behind = max(now, 1) // also at the instant of the boot
	}
	return now-m.review.behind > holdGap
}

func (m *machine) landSoon(t *ferry.Task) {
	if m.review.landing[t.ID] || t.StandingResult() == nil {
		return
	}
	if !m.mayLand(t) {
		return
	}
	if !m.mayAct() {
		m.w.seen(sawBehind)
		return
	}
	m.review.landing[t.ID] = true
	m.readRemote(t.ID)
}

func (m *machine) mayLand(t *ferry.Task) bool {
	if m.w.sc.Mutant == MutantLandUnkept {
		return true
	}
	return land.Decide(t, land.Facts{Actor: m.id, May: true, Target: t.Order.Target, Evidence: t.StandingResult().Evidence}).Allowed
}

// readRemote begins a landing: it asks for the tip of main, and whether the order has landed already.
func (m *machine) readRemote(order ferry.RecordID) {
	r := m.w.remote
	var tip, done ferry.Commit
	r.call(m, func() error { tip, done = r.refs[mainRef], r.refs[landedRef(order)]; return nil }, func(err error) {
		if err != nil {
			m.landLater(order)
			return
		}
		m.push(order, tip, done)
	})
}

func (m *machine) landLater(order ferry.RecordID) {
	m.after(15*time.Second, func() {
		delete(m.review.landing, order)
		m.review.version = -1
		m.soon()
	})
}

// push lands the standing result on a tip, or writes the record of a landing that has happened.
func (m *machine) push(order ferry.RecordID, tip, done ferry.Commit) {
	w := m.w
	m.ingest()
	t, ok := m.rep.Task(order)
	if !ok || m.stopped {
		return
	}
	if done != "" {
		m.landed(&t, done)
		return
	}
	o := t.StandingResult()
	if o == nil || !m.mayLand(&t) || !m.mayAct() {
		m.landLater(order)
		return
	}
	ord := w.byID[order]
	c := commitOf("landing", ord.n, o.Result.Commit, tip, m.i)
	g := gitCommit{by: m, parent: tip, order: order, result: o.ID, real: w.remote.commits[o.Result.Commit].real, kept: w.check.kept(o)}
	w.trace(m, "land", uint64(ord.n))
	w.remote.call(m, func() error { return w.remote.land(m, order, c, g) }, func(err error) {
		switch {
		case err == nil:
			if t, ok := m.rep.Task(order); ok && !m.stopped {
				m.landed(&t, c)
			}
		case errors.Is(err, errExists), errors.Is(err, errMoved):
			m.readRemote(order)
		default:
			m.landLater(order)
		}
	})
}

// landed writes the record of a landing that the remote has, if it was this machine's. Whoever else did it writes the record.
func (m *machine) landed(t *ferry.Task, c ferry.Commit) {
	g := m.w.remote.commits[c]
	if t.Landed != nil {
		return
	}
	if g.by.id != m.id || !counts(t, g.result) {
		m.landLater(t.ID)
		return
	}
	var verdict ferry.RecordID
	for i := range t.Results {
		if t.Results[i].ID == g.result {
			verdict = t.Results[i].Verdict
		}
	}
	m.w.trace(m, "landed", uint64(m.w.byID[t.ID].n))
	_, ok := m.write(&ferry.Landed{Order: t.ID, Result: g.result, Verdict: verdict, Target: t.Order.Target, Old: g.parent, Commit: c})
	if !ok && m.full {
		m.landLater(t.ID)
	}
}

// counts reports whether a result is one of the order's.
func counts(t *ferry.Task, result ferry.RecordID) bool {
	return slices.ContainsFunc(t.Results, func(o ferry.Outturn) bool { return o.ID == result })
}

package authority

import (
	"fmt"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
)

// delegation is one word of the master about what a member may do in its place: a delegate record, or the end of all by a
// revocation.
type delegation struct {
	id    ferry.RecordID
	body  *ferry.Delegate // nil where a revocation ends it
	at    place
	epoch uint32 // the last record of the member that the master had seen with it, or that a revocation keeps
	seq   uint64
}

// usage tells which acts a delegation with a number of uses covers.
type usage struct {
	n    int64
	acts map[ferry.RecordID]bool // whether it is among the first
}

func (r *Roster) delegate(s statement, b *ferry.Delegate) string {
	m, why := r.subject(b.To)
	if why != "" {
		return why
	}
	if m.revoked {
		return fmt.Sprintf("%s was revoked: readmit it under a new key", m.Name)
	}
	if b.MaxUses < 0 {
		return fmt.Sprintf("it may be used %d times", b.MaxUses)
	}
	d := delegation{id: s.ID, body: b, at: s.at}
	for _, h := range s.Saw {
		if h.Writer == b.To && (h.Epoch > d.epoch || h.Epoch == d.epoch && h.Seq > d.seq) {
			d.epoch, d.seq = h.Epoch, h.Seq
		}
	}
	m.delegations = append(m.delegations, d)
	return ""
}

// carried reports whether any delegation of the member ever had the scope.
func (m *member) carried(s ferry.Scope) bool {
	return slices.ContainsFunc(m.delegations, func(d delegation) bool { return d.body != nil && slices.Contains(d.body.Scopes, s) })
}

// seen gives the newest record of a master that the writer of rec says it had seen.
func (r *Roster) seen(rec ferry.Record) (at place, ok bool) {
	for _, h := range rec.Saw {
		if m := r.members[h.Writer]; m != nil && m.master > 0 && h.Epoch == 1 {
			if p := (place{m.master, h.Seq}); p.compare(at) > 0 {
				at, ok = p, true
			}
		}
	}
	return at, ok
}

// governs finds the delegation under which a record was written: the last one that its writer had seen. Where a later word
// of the master takes the scope away, only what the master had seen by then is covered.
func (r *Roster) governs(rec ferry.Record, scope ferry.Scope) (*delegation, string) {
	m := r.members[rec.Writer]
	if len(m.delegations) == 0 {
		return nil, fmt.Sprintf("%s has no delegation", m.Name)
	}
	at, ok := r.seen(rec)
	if !ok {
		return nil, "it does not say that its writer had seen the master's delegation"
	}
	var d *delegation
	for i := range m.delegations {
		switch next := &m.delegations[i]; {
		case next.at.compare(at) <= 0:
			d = next
		case !next.carries(scope, r.Project()) && after(rec, next.epoch, next.seq):
			return nil, "the master had ended the delegation before it saw this"
		}
	}
	switch {
	case d == nil:
		return nil, "its writer had not seen the master's delegation"
	case d.body == nil:
		return nil, fmt.Sprintf("%s had been revoked", m.Name)
	case !d.carries(scope, r.Project()):
		return nil, fmt.Sprintf("the delegation of %s does not cover it: that needs the scope %s for the project %s", m.Name, scope, r.Project())
	case scope == ferry.ScopeAdmit && !m.trusted:
		return nil, fmt.Sprintf("%s was admitted by a delegate, and cannot admit others", m.Name)
	}
	return d, ""
}

func (d *delegation) carries(s ferry.Scope, project string) bool {
	return d.body != nil && slices.Contains(d.body.Scopes, s) &&
		(len(d.body.Projects) == 0 || slices.Contains(d.body.Projects, project))
}

// delegated says why no delegation lets the writer write the record.
func (r *Roster) delegated(rec ferry.Record, scope ferry.Scope) string {
	d, why := r.governs(rec, scope)
	if why != "" || d.body.MaxUses == 0 {
		return why
	}
	u := r.evaluation.uses[d.id]
	if u == nil {
		return ""
	}
	if first, known := u.acts[rec.ID]; known && first || !known && u.n < d.body.MaxUses {
		return ""
	}
	return fmt.Sprintf("the delegation may be used %d times, and is", d.body.MaxUses)
}

// count finds the acts that use up the delegations with a number of uses. An act that its delegation covers is a use, even
// where a grant would have covered it or where it turns out to have no effect: so what is left never depends on others.
func (e *evaluation) count(r *Roster) {
	for _, w := range r.order {
		m := r.members[w]
		limited := false
		for _, d := range m.delegations {
			if d.body != nil && d.body.MaxUses > 0 && e.uses[d.id] == nil {
				e.uses[d.id] = &usage{acts: map[ferry.RecordID]bool{}}
				limited = true
			}
		}
		if !limited {
			continue
		}
		for _, rec := range e.feeds.Acts(w) {
			if rec.Body == nil || r.cutOff(m, rec) != "" {
				continue
			}
			scope := ruleFor(rec.Body).scope
			if scope == "" {
				continue
			}
			d, why := r.governs(rec, scope)
			if why != "" || d.body.MaxUses == 0 {
				continue
			}
			u := e.uses[d.id]
			if _, twice := u.acts[rec.ID]; !twice {
				u.n++
				u.acts[rec.ID] = u.n <= d.body.MaxUses
			}
		}
	}
}

// Delegation gives the delegation of a member that is in force, and the record that gave it.
func (r *Roster) Delegation(w ferry.WriterID) (d ferry.Delegate, id ferry.RecordID, ok bool) {
	m := r.members[w]
	if m == nil || len(m.delegations) == 0 {
		return d, id, false
	}
	last := m.delegations[len(m.delegations)-1]
	if last.body == nil || len(last.body.Scopes) == 0 {
		return d, id, false
	}
	return *last.body, last.id, true
}

// Expired reports whether the delegation's time is over by the clock of whoever lets an act under it have an effect. A time
// that cannot be read is over.
func (r *Roster) Expired(d ferry.Delegate, now time.Time) bool {
	if d.NotAfter == "" {
		return false
	}
	end, err := time.Parse(time.RFC3339, d.NotAfter)
	return err != nil || now.After(end)
}

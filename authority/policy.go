package authority

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/ferry-fleet/ferry"
)

// version is one version of a policy by a writer that may write it.
type version struct {
	rec   ferry.Record
	body  *ferry.Policy
	level ferry.Level
	at    place // where the master wrote it
}

// head is the version of a policy that is in force, and why nobody may act under it.
type head struct {
	rec  ferry.Record
	hold string
}

// compare orders versions by what they outrank, the stronger first: the root's generation, then the version, then the
// master before a delegate, then what the master wrote first, then the smaller id.
func (v version) compare(w version) int {
	return cmp.Or(v.rank(w), cmp.Compare(v.level, w.level), v.at.compare(w.at), bytes.Compare(v.rec.ID[:], w.rec.ID[:]))
}

func (v version) rank(w version) int {
	return cmp.Or(cmp.Compare(w.body.Generation, v.body.Generation), cmp.Compare(w.body.Version, v.body.Version))
}

// policies finds the policies in force.
func (e *evaluation) policies(r *Roster) {
	byKind := map[ferry.PolicyKind][]version{}
	add := func(rec ferry.Record, at place, under int64) {
		p, ok := rec.Body.(*ferry.Policy)
		if !ok {
			return
		}
		level, why := r.writesPolicy(rec, p, under)
		if why != "" {
			r.refused[rec.ID] = why
			return
		}
		byKind[p.Kind] = append(byKind[p.Kind], version{rec, p, level, at})
	}
	for _, s := range e.own {
		add(s.Record, s.at, e.generation(s.at))
	}
	for _, w := range r.order {
		m := r.members[w]
		for i := range m.epochs {
			if !m.carried(ferry.ScopeImprove) {
				break
			}
			for _, rec := range e.read(m, uint32(i+1)) {
				at, _ := r.seen(rec)
				add(rec, place{}, e.generation(at))
			}
		}
	}
	for kind, all := range byKind {
		r.heads[kind] = inForce(kind, all)
	}
}

// generation gives that of the root in force for whoever has seen the masters' chains up to a place.
func (e *evaluation) generation(at place) (g int64) {
	master, last := 0, ferry.WriterID("")
	for _, n := range e.chain.line {
		begins := place{master, n.rec.Seq}
		if w := n.body.Master.Writer; w != last {
			master, last = master+1, w
			begins = place{master, 0}
		}
		if begins.compare(at) <= 0 {
			g = n.body.Generation
		}
	}
	return g
}

// writesPolicy says under which authority a version is written, or why it has no effect.
func (r *Roster) writesPolicy(rec ferry.Record, p *ferry.Policy, under int64) (ferry.Level, string) {
	level := ferry.LevelMaster
	switch p.Kind {
	case ferry.PolicyEngine, ferry.PolicyAdversary, ferry.PolicySwitch:
	default:
		return 0, fmt.Sprintf("this version does not know the policy %q", p.Kind)
	}
	if r.members[rec.Writer].master == 0 {
		scope := ruleFor(p).scope
		if scope == "" {
			return 0, fmt.Sprintf("the %s policy needs the master: no delegation reaches it", p.Kind)
		}
		if why := r.delegated(rec, scope); why != "" {
			return 0, why
		}
		level = ferry.LevelDelegate
	}
	if p.Generation != under {
		return 0, fmt.Sprintf("generation %d: the root in force where it was written is of generation %d", p.Generation, under)
	}
	if p.Version < 1 {
		return 0, fmt.Sprintf("version %d: versions begin with 1", p.Version)
	}
	return level, ""
}

// inForce follows a policy from its first version. Each generation can begin it again, so that a thief of the master's key
// cannot run ahead with the versions.
func inForce(kind ferry.PolicyKind, all []version) head {
	next := map[ferry.RecordID][]version{}
	begins := map[int64][]version{}
	for _, v := range all {
		if !v.body.Prev.IsZero() {
			next[v.body.Prev] = append(next[v.body.Prev], v)
		} else if v.body.Version == 1 {
			begins[v.body.Generation] = append(begins[v.body.Generation], v)
		}
	}
	var best *version
	for _, list := range begins {
		at := slices.MinFunc(list, version.compare)
		for more := follow(at, next); len(more) > 0; more = follow(at, next) {
			at = slices.MinFunc(more, version.compare)
		}
		if best == nil || at.compare(*best) < 0 {
			best = &at
		}
	}
	var h head
	if best != nil {
		h.rec = best.rec
		h.rec.Level = best.level
	}
	// A later version that does not follow from there shows that one before it is missing, or was passed over.
	slices.SortFunc(all, version.compare)
	if v := all[0]; best == nil || v.rank(*best) < 0 {
		h.hold = fmt.Sprintf("version %d of the %s policy (%s) does not follow the version in force here: the one before it, %s, is not here or has no effect",
			v.body.Version, kind, v.rec.ID.Short(), v.body.Prev.Short())
		if v.body.Prev.IsZero() {
			h.hold = fmt.Sprintf("version %d of the %s policy (%s) names no version before it", v.body.Version, kind, v.rec.ID.Short())
		}
	}
	return h
}

func follow(at version, next map[ferry.RecordID][]version) (out []version) {
	for _, v := range next[at.rec.ID] {
		if v.body.Version == at.body.Version+1 && v.body.Generation >= at.body.Generation {
			out = append(out, v)
		}
	}
	return out
}

// Policy gives the version of a policy that is in force. With hold, nobody acts under it: a later version is known that does
// not follow from it, or a part of the authority's own chains is not here. A policy that nobody wrote is a record without a
// body.
func (r *Roster) Policy(kind ferry.PolicyKind) (rec ferry.Record, hold string) {
	h := r.heads[kind]
	return h.rec, cmp.Or(h.hold, r.Hold())
}

// Requires lists the features that the policies in force ask for, sorted.
func (r *Roster) Requires() []string {
	var out []string
	for _, h := range r.heads {
		if p, ok := h.rec.Body.(*ferry.Policy); ok {
			out = append(out, p.Requires...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

package channel

import (
	"github.com/ferry-fleet/ferry"
)

// states are the orders of a replica, and which of them have to be computed anew.
type states struct {
	tasks   map[ferry.RecordID]*ferry.Task
	active  map[ferry.RecordID]bool
	waiting map[ferry.RecordID]map[ferry.RecordID]bool // the orders that depend on one
	queue   []ferry.RecordID
	queued  map[ferry.RecordID]bool
	folds   int // how often an order was computed
}

func (s *states) clear() {
	*s = states{
		tasks: map[ferry.RecordID]*ferry.Task{}, active: map[ferry.RecordID]bool{},
		waiting: map[ferry.RecordID]map[ferry.RecordID]bool{}, queued: map[ferry.RecordID]bool{},
	}
}

func (s *states) touch(id ferry.RecordID) {
	if !s.queued[id] {
		s.queued[id] = true
		s.queue = append(s.queue, id)
	}
}

// settle computes what was touched, and those orders that depend on one whose state changed. It ends, because an order can
// only depend on orders that existed before it.
func (r *Replica) settle() {
	r.evaluate()
	for len(r.states.queue) > 0 {
		id := r.states.queue[0]
		r.states.queue = r.states.queue[1:]
		if r.states.queued[id] {
			r.fold(id)
		}
	}
}

func (r *Replica) fold(id ferry.RecordID) {
	s := &r.states
	delete(s.queued, id)
	var recs []ferry.Record
	for _, h := range r.about[id] {
		if h.main {
			recs = append(recs, r.amend(h))
		}
	}
	before := s.tasks[id]
	h, ok := assemble(r.spec.ID, id, recs, r.roster)
	if !ok {
		if before != nil {
			delete(s.tasks, id)
			delete(s.active, id)
			r.wake(id)
		}
		return
	}
	s.folds++
	t := ferry.Fold(h, ferry.View{Judge: r.spec.Judge, Depend: func(dep ferry.RecordID) (ferry.Label, ferry.State, bool) {
		if s.queued[dep] {
			r.fold(dep)
		}
		if s.waiting[dep] == nil {
			s.waiting[dep] = map[ferry.RecordID]bool{}
		}
		s.waiting[dep][id] = true
		d := s.tasks[dep]
		if d == nil {
			return "", "", false
		}
		return d.Order.Label, d.State, true
	}})
	delete(s.queued, id) // what it depends on may have queued it again, and was computed before it was read
	s.tasks[id] = &t
	delete(s.active, id)
	if t.Active() {
		s.active[id] = true
	}
	if before == nil || before.State != t.State {
		r.wake(id)
	}
}

func (r *Replica) wake(dep ferry.RecordID) {
	for id := range r.states.waiting[dep] {
		r.states.touch(id)
	}
}

package authority

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/sign"
)

// Feeds gives what of the writers' chains counts for authority. The records are verified, each once, in the order of their
// chain, and without a gap: where a record is missing, the chain ends before it, whatever is known of what follows.
type Feeds interface {
	// Statements gives the records of one epoch that are statements: root, admit, revoke, readmit, delegate, invite and
	// policy, and any other of these types that needs a newer ferry (ferry.Opaque). Without keep it ends before the first
	// record that has a twin of the same number. With keep it gives the branch that ends with the record keep.ID, and
	// whole is false when that record, or one before it, is not there: then it gives nothing.
	Statements(w ferry.WriterID, epoch uint32, keep *ferry.Cut) (statements []ferry.Record, whole bool)
	// Acts gives the records of a delegate, on the branches that count, of the types that a scope can cover. It is asked
	// only for delegations that may be used a number of times.
	Acts(w ferry.WriterID) []ferry.Record
}

// Evaluate computes who may do what in a channel: first the chain of roots, then the members, then the delegations, then the
// policies. Without the root record whose id is the channel's the roster is empty.
func Evaluate(channel ferry.RecordID, roots []RootRecord, feeds Feeds) *Roster {
	e := &evaluation{chain: newChain(channel, roots), feeds: feeds, uses: map[ferry.RecordID]*usage{}, sound: map[string]sign.PublicKey{}}
	e.masters()
	r := e.replay(nil)
	e.count(r)
	// The admissions of delegates cannot touch those that the master let in, so what the first round says of these stands.
	if more := e.admissions(r); len(more) > 0 {
		r = e.replay(more)
		e.count(r)
	}
	e.policies(r)
	return r
}

// evaluation is the work on one roster.
type evaluation struct {
	chain *chain
	feeds Feeds
	own   []statement               // of the masters, one after the other
	line  []*member                 // the masters
	uses  map[ferry.RecordID]*usage // by the delegation
	hold  string
	sound map[string]sign.PublicKey // keys that were parsed before: that is most of the cost
	names map[string]ferry.WriterID // that the masters give to others
	keys  map[string]bool           // that the masters give to others
}

type statement struct {
	ferry.Record
	at place
}

// masters reads the chains of the masters.
func (e *evaluation) masters() {
	for _, n := range e.chain.line {
		w := n.body.Master.Writer
		if len(e.line) > 0 {
			last := e.line[len(e.line)-1]
			if last.Writer == w {
				last.Member = n.body.Master
				continue
			}
			cut := n.cut(last.Writer)
			last.epochs[0].cut = &cut
		}
		m := &member{Member: n.body.Master, admitted: n.rec.ID, epochs: []span{{key: n.master, prev: n.rec.ID}}}
		if n.rec.Writer == w { // its first record is the root itself
			m.epochs[0].prev = n.body.Prev
		}
		e.line = append(e.line, m)
	}
	e.names, e.keys = map[string]ferry.WriterID{}, map[string]bool{}
	for i, m := range e.line {
		for _, rec := range e.read(m, 1) {
			e.own = append(e.own, statement{rec, place{i + 1, rec.Seq}})
			e.reserve(rec)
		}
	}
}

// reserve keeps what the masters give from the admissions of delegates, wherever in the chain it stands.
func (e *evaluation) reserve(rec ferry.Record) {
	switch b := rec.Body.(type) {
	case *ferry.Admit:
		if name := fold(b.Member.Name); e.names[name] == "" {
			e.names[name] = b.Member.Writer
		}
	case *ferry.Readmit:
		e.keys[b.Key] = true
	case *ferry.Opaque:
		e.holds(fmt.Sprintf("the master's %s %s needs a newer ferry (%v): upgrade ferry on this machine", b.Is, rec.ID.Short(), b.Need))
	}
}

func (e *evaluation) parse(s string) (sign.PublicKey, error) {
	if k, ok := e.sound[s]; ok {
		return k, nil
	}
	k, err := sign.ParsePublicKey(s)
	if err == nil {
		e.sound[s] = k
	}
	return k, err
}

// read gives the statements of an epoch that count.
func (e *evaluation) read(m *member, epoch uint32) []ferry.Record {
	cut := m.epochs[epoch-1].cut
	if cut != nil && cut.Seq == 0 {
		return nil
	}
	statements, whole := e.feeds.Statements(m.Writer, epoch, cut)
	if !whole && cut != nil {
		e.holds(fmt.Sprintf("the chain of %s counts up to record %d (%s) of epoch %d, which is not here", m.Name, cut.Seq, cut.ID.Short(), epoch))
	}
	return statements
}

func (e *evaluation) holds(why string) { e.hold = cmp.Or(e.hold, why) }

// replay applies the statements of the masters, and between them the admissions of delegates: each where a master's
// statement shows that the master had seen it, the others at the end. So a delegate cannot put one before what the master
// has said, whatever it says that it had seen.
func (e *evaluation) replay(pending map[ferry.WriterID][]ferry.Record) *Roster {
	r := e.empty()
	take := func(w ferry.WriterID, epoch uint32, seq uint64) {
		for len(pending[w]) > 0 && !after(pending[w][0], epoch, seq) {
			r.rule(statement{pending[w][0], place{}})
			pending[w] = pending[w][1:]
		}
	}
	for _, s := range e.own {
		r.enter(s.at.master)
		for _, h := range s.Saw {
			take(h.Writer, h.Epoch, h.Seq)
		}
		r.rule(s)
	}
	r.enter(len(e.line))
	rest := make([]ferry.WriterID, 0, len(pending))
	for w := range pending {
		rest = append(rest, w)
	}
	slices.Sort(rest)
	for _, w := range rest {
		take(w, sign.MaxEpoch, sign.MaxSeq)
	}
	return r
}

// after reports whether the record is later in its writer's chains than a place in them.
func after(rec ferry.Record, epoch uint32, seq uint64) bool {
	return rec.Epoch > epoch || rec.Epoch == epoch && rec.Seq > seq
}

func (e *evaluation) empty() *Roster {
	r := &Roster{
		evaluation: e,
		members:    map[ferry.WriterID]*member{},
		names:      map[string]ferry.WriterID{},
		keys:       map[string]bool{},
		invites:    map[ferry.RecordID]*invite{},
		refused:    map[ferry.RecordID]string{},
		heads:      map[ferry.PolicyKind]head{},
	}
	for i, m := range e.line {
		twin := *m
		twin.master = i + 1
		r.members[m.Writer] = &twin
		r.keys[m.Key] = true
	}
	for id, why := range e.chain.refused {
		r.refused[id] = why
	}
	return r
}

// enter makes the masters up to the n-th known by name.
func (r *Roster) enter(n int) {
	for ; r.entered < n; r.entered++ {
		m := r.evaluation.line[r.entered]
		holder, taken := r.names[fold(m.Name)]
		if !taken || r.members[holder].master > 0 {
			r.names[fold(m.Name)] = m.Writer
		}
	}
}

// admissions reads what the delegates that may admit have admitted.
func (e *evaluation) admissions(r *Roster) map[ferry.WriterID][]ferry.Record {
	out := map[ferry.WriterID][]ferry.Record{}
	for _, w := range r.order {
		m := r.members[w]
		if !m.trusted || !m.carried(ferry.ScopeAdmit) {
			continue
		}
		for i := range m.epochs {
			for _, rec := range e.read(m, uint32(i+1)) {
				if _, ok := rec.Body.(*ferry.Admit); ok {
					out[w] = append(out[w], rec)
				}
			}
		}
	}
	return out
}

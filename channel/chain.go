package channel

import (
	"slices"

	"github.com/ferry-fleet/ferry"
)

// chain names one epoch of one writer.
type chain struct {
	writer ferry.WriterID
	epoch  uint32
}

// tip is the last record of the branch of a chain that counts.
type tip struct {
	seq uint64
	id  ferry.RecordID
}

// node is the place of a record in its chain.
type node struct {
	seq  uint64
	prev ferry.RecordID
}

// tree holds the records of one chain by their predecessors. Everything in it hangs on a record that let the writer in.
type tree struct {
	nodes map[ferry.RecordID]node
	next  map[ferry.RecordID][]ferry.RecordID
}

func newTree() *tree {
	return &tree{nodes: map[ferry.RecordID]node{}, next: map[ferry.RecordID][]ferry.RecordID{}}
}

func (t *tree) add(id ferry.RecordID, n node) {
	if _, have := t.nodes[id]; !have {
		t.nodes[id] = n
		t.next[n.prev] = append(t.next[n.prev], id)
	}
}

// follows reports whether a record with this place has its predecessor in the tree, or is a first one.
func (t *tree) follows(n node) bool {
	if n.seq == 1 {
		return true
	}
	before, have := t.nodes[n.prev]
	return have && before.seq+1 == n.seq
}

// starts gives what the first records name as their predecessors.
func (t *tree) starts() []ferry.RecordID {
	var out []ferry.RecordID
	for prev, ids := range t.next {
		if t.nodes[ids[0]].seq == 1 {
			out = append(out, prev)
		}
	}
	return out
}

// bounds say which branch of a chain counts: it begins behind first, and ends with keep or, while nobody has named that, before
// the number fork that its writer signed twice.
type bounds struct {
	known bool // the roster gives the chain a key
	first ferry.RecordID
	keep  *ferry.Cut
	proof uint64 // the number that a fork-proof shows to be signed twice, or 0
}

func (b bounds) equal(other bounds) bool {
	if b.known != other.known || b.first != other.first || b.proof != other.proof || (b.keep == nil) != (other.keep == nil) {
		return false
	}
	return b.keep == nil || *b.keep == *other.keep
}

// trunk follows the only successors from the first record on, and gives the number at which there are several, or 0.
func (t *tree) trunk(b bounds) (ids []ferry.RecordID, fork uint64) {
	at := b.first
	for seq := uint64(1); b.proof == 0 || seq < b.proof; seq++ {
		switch next := t.next[at]; {
		case len(next) > 1:
			return ids, seq
		case len(next) == 0 || t.nodes[next[0]].seq != seq:
			return ids, b.proof
		default:
			at = next[0]
			ids = append(ids, at)
		}
	}
	return ids, b.proof
}

// through gives the branch that ends with keep; ok is false while that record is not here.
func (t *tree) through(first ferry.RecordID, keep ferry.Cut) (ids []ferry.RecordID, ok bool) {
	if keep.Seq == 0 {
		return nil, true
	}
	at := keep.ID
	for seq := uint64(keep.Seq); ; seq-- {
		n, have := t.nodes[at]
		if !have || n.seq != seq {
			return nil, false
		}
		ids = append(ids, at)
		if at = n.prev; seq == 1 {
			break
		}
	}
	slices.Reverse(ids)
	return ids, at == first
}

// standing is what is known of a chain: which record may be its next.
type standing struct {
	bounds
	kept bool   // the branch that ends with keep is here
	fork uint64 // the first number that was signed twice, or 0; it matters while keep is nil or not here
	tip  tip    // of the branch that counts
}

// stand computes a chain anew: what is known of it, and the records that count.
func (t *tree) stand(b bounds) (standing, []ferry.RecordID) {
	s := standing{bounds: b}
	if !b.known {
		return s, nil
	}
	trunk, fork := t.trunk(b)
	s.fork = fork
	main := trunk
	if b.keep != nil {
		main, s.kept = t.through(b.first, *b.keep)
		if !s.kept {
			// What has not arrived yet may be on another branch only if there is one. So what is here counts as far as it can
			// be the one that was named, and nothing that is done is undone while the rest is on its way.
			main = trunk[:min(len(trunk), int(max(b.keep.Seq, 1)-1))]
		}
	}
	if n := len(main); n > 0 {
		s.tip = tip{uint64(n), main[n-1]}
	}
	return s, main
}

// placement says what a further record does to its chain.
type placement uint8

const (
	onBranch placement = iota // it is the next that counts
	aside                     // it is kept and does not count
	forking                   // it is a second successor: from its number on nothing counts
	unclear                   // the chain has to be computed anew
)

// place tells what a record does to the chain. onMain is asked at most once: whether its predecessor counts.
func (s *standing) place(id ferry.RecordID, n node, onMain func() (bool, error)) (placement, error) {
	switch {
	case !s.known, s.kept:
		return aside, nil
	case s.keep != nil && n.seq > uint64(s.keep.Seq):
		return aside, nil
	case s.keep != nil:
		return unclear, nil
	case s.fork != 0 && n.seq >= s.fork:
		return aside, nil
	case n.seq == s.tip.seq+1 && n.prev == s.end():
		s.tip = tip{n.seq, id}
		return onBranch, nil
	case n.seq > s.tip.seq:
		return aside, nil
	}
	on := n.seq == 1 && n.prev == s.first
	if n.seq > 1 {
		var err error
		if on, err = onMain(); err != nil {
			return aside, err
		}
	}
	if !on {
		return aside, nil
	}
	s.fork = n.seq
	s.tip = tip{n.seq - 1, n.prev}
	if n.seq == 1 {
		s.tip = tip{}
	}
	return forking, nil
}

// end gives what the next record names as its predecessor.
func (s *standing) end() ferry.RecordID {
	if s.tip.seq == 0 {
		return s.first
	}
	return s.tip.id
}

package channel

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
	"github.com/ferry-fleet/ferry/sign"
)

// ReplicaSpec says of which channel a Replica is.
type ReplicaSpec struct {
	ID    ferry.RecordID
	Judge ferry.Judge                                                  // classifies results; it must be pure
	Open  func(file []byte, key sign.PublicKey) (sign.Verified, error) // nil is sign.Open
}

// Replica is a channel in memory: the same rules as those of a Channel, over records that are handed to it one by one. It is
// not safe for concurrent use.
type Replica struct {
	spec    ReplicaSpec
	records map[ferry.RecordID]*held
	arrived []*held
	chains  map[chain]*branch
	about   map[ferry.RecordID][]*held // by order
	roots   []*held
	proofs  map[chain][]*proof
	trusted trusted
	redacts map[ferry.RecordID][]*held // redactions, by the record that they name
	told    map[ferry.RecordID]bool    // what redactions by a master name, parked ones included
	free    [][]byte                   // what need not wait any more
	parked  parking
	saw     map[ferry.WriterID]map[ferry.WriterID]ferry.Head // by witness, then by the writer whose head it is
	roster  *authority.Roster
	stale   bool // something came in that the roster may depend on
	states  states
}

// held is a record of a replica.
type held struct {
	parsed
	rec  ferry.Record
	file []byte
	main bool
	on   ferry.RecordID // what a bare record is about, or zero
}

// branch is one chain of a replica.
type branch struct {
	*tree
	standing
}

// Verdict is what became of a record that was handed to a Replica.
type Verdict struct {
	Kind   VerdictKind
	ID     ferry.RecordID   // zero where the bytes are not those of a record
	Reason string           // why it was not taken in
	Behind []ferry.RecordID // what had waited for it, and was taken in with it
}

// VerdictKind is a Verdict in one word.
type VerdictKind uint8

// The kinds of verdicts.
const (
	Accepted   VerdictKind = iota
	Known                  // it was here before
	Parked                 // it waits for another record, and is taken in when that comes
	Incomplete             // its bytes end too early
	Refused
)

// NewReplica makes a replica without records. The first that it takes in is the root record.
func NewReplica(spec ReplicaSpec) *Replica {
	if spec.Open == nil {
		spec.Open = sign.Open
	}
	r := &Replica{
		spec: spec, records: map[ferry.RecordID]*held{}, chains: map[chain]*branch{}, about: map[ferry.RecordID][]*held{},
		proofs: map[chain][]*proof{}, trusted: trusted{}, redacts: map[ferry.RecordID][]*held{}, told: map[ferry.RecordID]bool{},
		saw: map[ferry.WriterID]map[ferry.WriterID]ferry.Head{}, stale: true,
	}
	r.parked.clear()
	r.states.clear()
	r.roster = emptyRoster(spec.ID)
	return r
}

// Add takes in the bytes of one record file, which must not be changed afterwards, and what has waited for it.
func (r *Replica) Add(file []byte) Verdict {
	v := r.take(file)
	if v.Kind == Accepted {
		r.free = append(r.free, r.parked.behind(v.ID)...)
	} else if len(r.free) == 0 {
		return v
	}
	for {
		for len(r.free) > 0 {
			next := r.free[0]
			r.free = r.free[1:]
			w := r.take(next)
			if w.Kind != Accepted {
				continue
			}
			r.free = append(r.free, r.parked.behind(w.ID)...)
			if w.ID == v.ID { // it let in what it waited for
				v.Kind, v.Reason = Accepted, ""
			} else {
				v.Behind = append(v.Behind, w.ID)
			}
		}
		if !r.stale || r.parked.keyless() == 0 {
			return v
		}
		r.evaluate()
		r.free = r.parked.keyed(r.roster)
	}
}

// take looks at one record. No byte of it is believed before its signature holds.
func (r *Replica) take(file []byte) Verdict {
	u, err := formOf(file)
	if errors.Is(err, sign.ErrIncomplete) {
		return Verdict{Kind: Incomplete, Reason: "truncated: " + err.Error()}
	}
	if err != nil {
		return Verdict{Kind: Refused, Reason: err.Error()}
	}
	h, id := u.Header(), ferry.RecordID(u.ID())
	at := r.records[id]
	switch {
	case at != nil && (isBare(u) || !at.bare):
		return Verdict{Kind: Known, ID: id}
	case r.parked.has(file):
		return Verdict{Kind: Parked, ID: id, Reason: r.waitsFor(u)}
	case ferry.RecordID(h.Channel) != r.spec.ID && id != r.spec.ID:
		return Verdict{Kind: Refused, ID: id, Reason: "a record of the channel " + ferry.RecordID(h.Channel).String()}
	case isBare(u) && fixed(ferry.Type(h.Type)):
		return Verdict{Kind: Refused, ID: id, Reason: whyFixed}
	}
	ch := chain{ferry.WriterID(h.Writer), h.Epoch}
	key, first, ok := r.key(ch)
	if !ok {
		return r.unknown(u, ch)
	}
	v, err := r.open(u, key)
	if err == nil && h.Seq == 1 && ferry.RecordID(h.Prev) != first {
		err = fmt.Errorf("number 1 of epoch %d does not name the record %s that gave the epoch", h.Epoch, first.Short())
	}
	switch {
	case err != nil && r.stale:
		r.evaluate()
		return r.take(file)
	case err != nil:
		r.parked.refuse(waiting{id: id, ch: ch, file: file, key: key, first: first})
		return Verdict{Kind: Refused, ID: id, Reason: err.Error()}
	}
	return r.seat(v, ch)
}

// seat puts a record whose signature holds into its chain.
func (r *Replica) seat(v form, ch chain) Verdict {
	h, id := v.Header(), ferry.RecordID(v.ID())
	r.promise(v)
	switch at := r.records[id]; {
	case at != nil:
		r.fill(at, v)
		return Verdict{Kind: Known, ID: id}
	case isBare(v) && !r.told[id]:
		return r.park(waiting{id: id, ch: ch, file: v.Bytes(), prev: id}, whyAlone)
	case !r.branch(ch).follows(node{h.Seq, h.Prev}):
		return r.park(waiting{id: id, ch: ch, file: v.Bytes(), prev: h.Prev}, "waits for its predecessor")
	}
	r.insert(v.Bytes(), ch)
	return Verdict{Kind: Accepted, ID: id}
}

// key gives the key of a chain. The roster is brought up to date only where it does not know the chain.
func (r *Replica) key(ch chain) (sign.PublicKey, ferry.RecordID, bool) {
	key, first, ok := r.roster.Key(ch.writer, ch.epoch)
	if !ok && r.stale {
		r.evaluate()
		key, first, ok = r.roster.Key(ch.writer, ch.epoch)
	}
	return key, first, ok
}

// unknown takes in the root record itself and one that a recovery key vouches for; everything else of a writer without a key waits.
func (r *Replica) unknown(u form, ch chain) Verdict {
	id := ferry.RecordID(u.ID())
	if h := u.Header(); h.Type == string(ferry.TypeRoot) && h.Epoch == 1 && h.Seq == 1 {
		root, err := openRoot(u.Bytes())
		if err != nil {
			root, err = openHeir(u.Bytes(), r.spec.ID)
		}
		if err == nil && (root == r.spec.ID || len(sign.Signers(u.Bytes(), r.roster.RecoveryKeys())) > 0) {
			r.insert(u.Bytes(), ch)
			return Verdict{Kind: Accepted, ID: id}
		}
		if err != nil {
			return Verdict{Kind: Refused, ID: id, Reason: err.Error()}
		}
	}
	return r.park(waiting{id: id, ch: ch, file: u.Bytes(), keyless: true}, noKey(ch.epoch))
}

func noKey(epoch uint32) string { return fmt.Sprintf("no admission gives a key for epoch %d", epoch) }

func (r *Replica) park(w waiting, why string) Verdict {
	if !r.parked.add(w) {
		return Verdict{Kind: Refused, ID: w.id, Reason: "too many records wait already: " + why}
	}
	return Verdict{Kind: Parked, ID: w.id, Reason: why}
}

// Roster gives the roster of the records that are here.
func (r *Replica) Roster() *authority.Roster {
	r.evaluate()
	return r.roster
}

// Head gives the newest record that counts in the present epoch of a writer.
func (r *Replica) Head(w ferry.WriterID) (ferry.Head, bool) {
	b := r.chains[chain{w, r.Roster().Epoch(w)}]
	if b == nil || b.tip.seq == 0 {
		return ferry.Head{}, false
	}
	return headOf(r.records[b.tip.id].rec), true
}

func headOf(rec ferry.Record) ferry.Head {
	return ferry.Head{Writer: rec.Writer, Epoch: rec.Epoch, Seq: rec.Seq, ID32: rec.ID.String()[:32]}
}

// Seal makes the next record of the writer of a key, as far as its chain is known here, with the heads of the feeds of
// authority. It does not take the record in.
func (r *Replica) Seal(key sign.Key, now time.Time, b ferry.Body) (file []byte, id ferry.RecordID, err error) {
	roster := r.Roster()
	w, epoch, ok := writerOf(roster, key.Public())
	if !ok {
		return nil, id, fmt.Errorf("write %s: %w", b.Type(), ErrNotMember)
	}
	s := standing{}
	if at := r.chains[chain{w, epoch}]; at != nil {
		s = at.standing
	} else {
		_, s.first, _ = roster.Key(w, epoch)
	}
	if s.fork != 0 {
		return nil, id, fmt.Errorf("write %s: writer %s: %w", b.Type(), w, ErrForked)
	}
	var saw []ferry.Head
	for _, other := range feedsOf(roster, w) {
		if h, ok := r.Head(other); ok {
			saw = append(saw, h)
		}
	}
	body, err := encodeBody(b)
	if err != nil {
		return nil, id, fmt.Errorf("write %w", err)
	}
	file, err = sign.Seal(key, sign.Header{
		Channel: r.spec.ID, Type: string(b.Type()), Writer: sign.WriterID(w), Epoch: epoch, Seq: s.tip.seq + 1, Prev: s.end(),
		Time: now, Saw: signHeads(saw),
	}, body)
	if err != nil {
		return nil, id, fmt.Errorf("write %s: %w", b.Type(), err)
	}
	u, err := sign.ParseHeader(file)
	return file, u.ID(), err
}

// Records gives the bytes of all records that were taken in, in the order in which they were.
func (r *Replica) Records() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, h := range r.arrived {
			if !yield(h.file) {
				return
			}
		}
	}
}

// Task gives an order as it stands. It must not be changed.
func (r *Replica) Task(id ferry.RecordID) (ferry.Task, bool) {
	r.settle()
	t, ok := r.states.tasks[id]
	if !ok {
		return ferry.Task{}, false
	}
	return *t, true
}

// Active gives the active orders by time of issue, then id. They must not be changed.
func (r *Replica) Active() []ferry.Task {
	r.settle()
	out := make([]ferry.Task, 0, len(r.states.active))
	for id := range r.states.active {
		out = append(out, *r.states.tasks[id])
	}
	sortTasks(out)
	return out
}

// Tasks gives all orders by time of issue, then id. They must not be changed.
func (r *Replica) Tasks() []ferry.Task {
	r.settle()
	out := make([]ferry.Task, 0, len(r.states.tasks))
	for _, t := range r.states.tasks {
		out = append(out, *t)
	}
	sortTasks(out)
	return out
}

func sortTasks(list []ferry.Task) {
	slices.SortFunc(list, func(a, b ferry.Task) int {
		return cmp.Or(a.IssuedAt.Compare(b.IssuedAt), bytes.Compare(a.ID[:], b.ID[:]))
	})
}

// Digest names the states of all orders: who holds the same records gets the same one.
func (r *Replica) Digest() (string, error) {
	r.settle()
	return digestOf(r.states.tasks)
}

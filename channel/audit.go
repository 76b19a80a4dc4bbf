package channel

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash"
	"slices"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
	"github.com/ferry-fleet/ferry/sign"
)

// audit computes everything from bytes alone: signatures, chains, roster and states. It keeps its
// own chains and its own order of folding, so that it and the index check each other.
type audit struct {
	id      ferry.RecordID
	judge   ferry.Judge
	raw     map[ferry.RecordID][]byte
	next    map[link][]ferry.RecordID
	reached map[ferry.RecordID]bool
	main    []ferry.Record
	writers map[ferry.WriterID]bool
	roster  *authority.Roster
	report  VerifyReport
}

// link is the place that a record has in its chain.
type link struct {
	chain
	seq  uint64
	prev ferry.RecordID
}

func newAudit(id ferry.RecordID, judge ferry.Judge) *audit {
	return &audit{
		id: id, judge: judge, raw: map[ferry.RecordID][]byte{}, next: map[link][]ferry.RecordID{},
		reached: map[ferry.RecordID]bool{}, writers: map[ferry.WriterID]bool{}, roster: authority.Build(nil, id),
	}
}

func (a *audit) problem(w ferry.WriterID, seq uint64, kind ProblemKind, detail string) {
	a.report.Problems = append(a.report.Problems, Problem{Writer: w, Seq: seq, Kind: kind, Detail: detail})
}

// add collects the bytes of a record. Nothing of them is believed yet.
func (a *audit) add(data []byte) (ferry.RecordID, error) {
	r, err := parseStored(data)
	if err != nil {
		return r.id, err
	}
	if _, have := a.raw[r.id]; have {
		return r.id, nil
	}
	a.raw[r.id] = data
	at := link{chain{ferry.WriterID(r.head.Writer), r.head.Epoch}, r.head.Seq, r.head.Prev}
	a.next[at] = append(a.next[at], r.id)
	return r.id, nil
}

// verify walks all chains from the root on.
func (a *audit) verify() {
	for _, l := range a.next {
		slices.SortFunc(l, func(x, y ferry.RecordID) int { return bytes.Compare(x[:], y[:]) })
	}
	data, have := a.raw[a.id]
	if !have {
		a.problem("", 0, ProblemRoot, "the root record "+a.id.String()+" is missing")
		return
	}
	if _, err := openRoot(data); err != nil {
		a.problem("", 1, ProblemRoot, err.Error())
		return
	}
	r, err := parseStored(data)
	if err != nil {
		a.problem("", 1, ProblemRoot, err.Error())
		return
	}
	root, _ := r.record()
	a.roster = authority.Build([]ferry.Record{root}, a.id)
	a.walk(root.Writer)
	a.roster = authority.Build(a.main, a.id)
	for _, m := range a.roster.Members()[1:] {
		a.walk(m.Writer)
	}
	a.leftovers()
}

// walk follows one writer's chain. The branch with the smallest ids counts; the others are forks.
func (a *audit) walk(w ferry.WriterID) {
	const epoch = 1
	key, first, ok := a.roster.Key(w, epoch)
	if !ok {
		return
	}
	type step struct {
		at   link
		main bool
	}
	queue := []step{{link{chain{w, epoch}, 1, first}, true}}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		main := s.main
		for _, id := range a.next[s.at] {
			if id != a.id && s.at.prev.IsZero() {
				continue // another root by the same key
			}
			a.reached[id] = true
			v, err := sign.Open(a.raw[id], key)
			if err == nil && id != a.id && ferry.RecordID(v.Header().Channel) != a.id {
				a.problem(w, s.at.seq, ProblemSignature, "a record of another channel")
				continue
			}
			if err != nil {
				a.problem(w, s.at.seq, ProblemSignature, err.Error())
				continue
			}
			a.count(v, main)
			queue = append(queue, step{link{s.at.chain, s.at.seq + 1, id}, main})
			main = false
		}
	}
}

func (a *audit) count(v sign.Verified, main bool) {
	h := v.Header()
	w := ferry.WriterID(h.Writer)
	a.report.Records++
	a.writers[w] = true
	if !main {
		a.problem(w, h.Seq, ProblemFork, "signed twice: "+v.Name()+" is on the branch that does not count")
		return
	}
	p := parsed{head: h, id: v.ID(), body: v.Body(), size: len(v.Bytes())}
	if rec, _ := p.record(); rec.Body != nil {
		a.main = append(a.main, rec)
	}
}

// leftovers names what no chain reaches.
func (a *audit) leftovers() {
	for id, data := range a.raw {
		if a.reached[id] {
			continue
		}
		r, err := parseStored(data)
		if err != nil {
			continue // add parsed it before
		}
		w := ferry.WriterID(r.head.Writer)
		if _, member := a.roster.Member(w); !member {
			a.problem(w, r.head.Seq, ProblemStranger, "a record of a writer whom no admission names")
			continue
		}
		a.problem(w, r.head.Seq, ProblemGap, "its predecessor "+hex.EncodeToString(r.head.Prev[:8])+"… is missing")
	}
}

// states folds every order.
func (a *audit) states() map[ferry.RecordID]ferry.Task {
	about := map[ferry.RecordID][]ferry.Record{}
	for _, rec := range a.main {
		if id, ok := subject(rec); ok {
			about[id] = append(about[id], rec)
		}
	}
	out := map[ferry.RecordID]ferry.Task{}
	var fold func(id ferry.RecordID) bool
	fold = func(id ferry.RecordID) bool {
		if _, done := out[id]; done {
			return true
		}
		h, ok := assemble(a.id, id, about[id], a.roster)
		if !ok {
			return false
		}
		out[id] = ferry.Fold(h, ferry.View{Judge: a.judge, Depend: func(dep ferry.RecordID) (ferry.Label, ferry.State, bool) {
			if !fold(dep) {
				return "", "", false
			}
			t := out[dep]
			return t.Order.Label, t.State, true
		}})
		return true
	}
	for id := range about {
		fold(id)
	}
	return out
}

// digest names a set of tasks: two machines that hold the same records print the same one.
type digest struct{ hash.Hash }

func newDigest() digest {
	h := sha256.New()
	h.Write([]byte("ferry-states-v1\x00"))
	return digest{h}
}

// add takes tasks in the order of their ids.
func (d digest) add(id ferry.RecordID, task []byte) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(task)))
	d.Write(id[:])
	d.Write(n[:])
	d.Write(task)
}

func (d digest) String() string { return hex.EncodeToString(d.Sum(nil)) }

func digestOf(tasks map[ferry.RecordID]ferry.Task) (string, error) {
	ids := make([]ferry.RecordID, 0, len(tasks))
	for id := range tasks {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(x, y ferry.RecordID) int { return bytes.Compare(x[:], y[:]) })
	d := newDigest()
	for _, id := range ids {
		t := tasks[id]
		b, err := json.Marshal(&t)
		if err != nil {
			return "", err
		}
		d.add(id, b)
	}
	return d.String(), nil
}

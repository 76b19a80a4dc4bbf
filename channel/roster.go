package channel

import (
	"slices"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
	"github.com/ferry-fleet/ferry/sign"
)

// material is what a set of records gives to the question of authority, wherever the records are kept. None of it depends on
// the order in which they came.
type material interface {
	// rootFiles gives every root record with its bytes.
	rootFiles() ([]rooted, error)
	// epochs lists the epochs in which a writer has records.
	epochs(w ferry.WriterID) ([]uint32, error)
	// starts gives what the first records of a chain name as their predecessors.
	starts(ch chain) ([]ferry.RecordID, error)
	// statements gives the statements of a chain within bounds; whole is false, and nothing is given, while the record that they
	// keep is not here.
	statements(ch chain, b bounds) (out []ferry.Record, whole bool, err error)
	// acts gives the records of a chain that a delegation can be needed for, as far as they count.
	acts(ch chain, b bounds) ([]ferry.Record, error)
	// proof gives the smallest number that a fork-proof shows to be signed twice by a key, or 0.
	proof(ch chain, key sign.PublicKey) (uint64, error)
}

// rooted is a root record as it stands in its file.
type rooted struct {
	rec  ferry.Record
	file []byte
}

// maxRounds bounds the search for a roster that agrees with itself. One round is enough unless an epoch was given out twice or
// a statement's writer has forked.
const maxRounds = 8

// evaluation computes the roster. What a chain gives depends on where the roster says that it begins, and the roster depends on
// what the chains give: so it goes on until both agree, always from the same beginning.
type evaluation struct {
	m       material
	assumed map[chain]bounds
	used    map[chain]bounds // what this round gave statements of
	acted   map[chain]bounds // what this round gave acts of
	err     error
}

func evaluate(channel ferry.RecordID, m material) (*authority.Roster, error) {
	roots, err := rootRecords(m)
	if err != nil {
		return nil, err
	}
	e := &evaluation{m: m, assumed: map[chain]bounds{}}
	var roster *authority.Roster
	for range maxRounds {
		e.used, e.acted = map[chain]bounds{}, map[chain]bounds{}
		roster = authority.Evaluate(channel, roots, e)
		if e.err != nil || e.settled(roster) {
			break
		}
	}
	return roster, e.err
}

// rootRecords finds out by which keys each root record is signed, of all that any root record names.
func rootRecords(m material) ([]authority.RootRecord, error) {
	files, err := m.rootFiles()
	if err != nil {
		return nil, err
	}
	var keys []sign.PublicKey
	for _, f := range files {
		for _, k := range authority.RootKeys(f.rec.Body.(*ferry.Root)) {
			if !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	out := make([]authority.RootRecord, 0, len(files))
	for _, f := range files {
		out = append(out, authority.RootRecord{Record: f.rec, Signers: sign.Signers(f.file, keys)})
	}
	return out, nil
}

// Statements gives what of a chain counts for the roster.
func (e *evaluation) Statements(w ferry.WriterID, epoch uint32, keep *ferry.Cut) (out []ferry.Record, whole bool) {
	ch := chain{w, epoch}
	b, err := e.assume(ch)
	e.used[ch] = b
	b.keep = keep
	if err != nil || !b.known {
		return nil, keep == nil
	}
	out, whole, err = e.m.statements(ch, b)
	e.fail(err)
	return out, whole
}

// Acts gives the records with which a delegate has made use of its delegation.
func (e *evaluation) Acts(w ferry.WriterID) []ferry.Record {
	epochs, err := e.m.epochs(w)
	e.fail(err)
	var out []ferry.Record
	for _, epoch := range epochs {
		ch := chain{w, epoch}
		b, err := e.assume(ch)
		e.acted[ch] = b
		if err != nil || !b.known {
			continue
		}
		acts, err := e.m.acts(ch, b)
		e.fail(err)
		out = append(out, acts...)
	}
	return out
}

func (e *evaluation) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// assume gives the bounds of a chain as the round before had them, and in the first round those of its only beginning.
func (e *evaluation) assume(ch chain) (bounds, error) {
	if b, ok := e.assumed[ch]; ok {
		return b, nil
	}
	starts, err := e.m.starts(ch)
	e.fail(err)
	if err != nil || len(starts) != 1 {
		return bounds{}, err
	}
	return bounds{known: true, first: starts[0]}, nil
}

// settled compares what a round has assumed with what came out of it.
func (e *evaluation) settled(r *authority.Roster) bool {
	same := true
	check := func(ch chain, b bounds, keep bool) {
		now, err := boundsOf(r, e.m, ch)
		e.fail(err)
		if err != nil || !now.known {
			return
		}
		compare := now
		if !keep {
			compare.keep = b.keep
		}
		if !b.equal(compare) {
			e.assumed[ch], same = now, false
		}
	}
	for ch, b := range e.used {
		check(ch, b, false)
	}
	for ch, b := range e.acted {
		check(ch, b, true)
	}
	return same
}

// boundsOf says which branch of a chain counts under a roster.
func boundsOf(r *authority.Roster, m material, ch chain) (bounds, error) {
	key, first, ok := r.Key(ch.writer, ch.epoch)
	if !ok {
		return bounds{}, nil
	}
	keep, _ := r.Chain(ch.writer, ch.epoch)
	proof, err := m.proof(ch, key)
	return bounds{known: true, first: first, keep: keep, proof: proof}, err
}

// bare is boundsOf without the fork-proofs.
func bare(r *authority.Roster, ch chain) (b bounds, known bool) {
	_, b.first, b.known = r.Key(ch.writer, ch.epoch)
	b.keep, _ = r.Chain(ch.writer, ch.epoch)
	return b, b.known
}

// statement reports whether records of a type say who may do what.
func statement(t ferry.Type) bool {
	switch t {
	case ferry.TypeRoot, ferry.TypeAdmit, ferry.TypeRevoke, ferry.TypeReadmit, ferry.TypeDelegate, ferry.TypeInvite, ferry.TypePolicy:
		return true
	}
	return false
}

// act reports whether records of a type can use up a delegation.
func act(t ferry.Type) bool {
	switch t {
	case ferry.TypeVerdict, ferry.TypeApprove, ferry.TypeAnswer, ferry.TypeCancel, ferry.TypeInterrupt, ferry.TypeRetire,
		ferry.TypeReassign, ferry.TypeOrder, ferry.TypeAdmit, ferry.TypePolicy, ferry.TypeCheckpoint:
		return true
	}
	return false
}

// standings lists the chains that a roster knows.
func chainsOf(r *authority.Roster) []chain {
	var out []chain
	for _, w := range r.Known() {
		for epoch := uint32(1); ; epoch++ {
			if _, _, ok := r.Key(w, epoch); !ok {
				break
			}
			out = append(out, chain{w, epoch})
		}
	}
	return out
}

// trusted are the writers that any record makes a delegate, whether it counts or not, and whether one of these limits the
// number of uses: then each act may decide about the next.
type trusted map[ferry.WriterID]bool

func (t trusted) note(b *ferry.Delegate) { t[b.To] = t[b.To] || b.MaxUses > 0 }

// recounted adds those writers whose acts may count otherwise because their chains changed.
func (t trusted) recounted(writers, rejudged []ferry.WriterID) []ferry.WriterID {
	for _, w := range rejudged {
		if _, delegate := t[w]; delegate && !slices.Contains(writers, w) {
			writers = append(writers, w)
		}
	}
	return writers
}

// differ lists the writers whose records may count otherwise under one roster than under another, beside what their chains
// say; all is true when that holds for everybody's.
func differ(before, after *authority.Roster) (writers []ferry.WriterID, all bool) {
	old, _ := before.Master()
	master, _ := after.Master()
	if old.Writer != master.Writer {
		return nil, true
	}
	for _, w := range after.Known() {
		a, was := before.Member(w)
		b, is := after.Member(w)
		_, ida, oka := before.Delegation(w)
		_, idb, okb := after.Delegation(w)
		same := was == is && before.Epoch(w) == after.Epoch(w) && a.Name == b.Name && slices.Equal(a.Grants, b.Grants) &&
			oka == okb && ida == idb
		if !same {
			writers = append(writers, w)
		}
	}
	return writers, false
}

// emptyRoster is that of a channel without records.
func emptyRoster(channel ferry.RecordID) *authority.Roster {
	return authority.Evaluate(channel, nil, nothing{})
}

// nothing is what the feeds of a channel without records give.
type nothing struct{}

func (nothing) Statements(ferry.WriterID, uint32, *ferry.Cut) ([]ferry.Record, bool) {
	return nil, true
}

func (nothing) Acts(ferry.WriterID) []ferry.Record { return nil }

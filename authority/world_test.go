package authority_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
	"github.com/ferry-fleet/ferry/sign"
)

func key(tb testing.TB, name string) sign.Key {
	tb.Helper()
	k, err := sign.GenerateKey(bytes.NewReader(fmt.Appendf(nil, "%-32s", name)))
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

func hexKey(tb testing.TB, name string) string { tb.Helper(); return key(tb, name).Public().String() }

func member(tb testing.TB, name string, grants ...ferry.Grant) ferry.Member {
	tb.Helper()
	pub := key(tb, name).Public()
	return ferry.Member{
		Writer: ferry.WriterID(pub.WriterID()), Key: pub.String(), Name: ferry.AgentName(name), Machine: "box", Grants: grants,
	}
}

// writer is somebody that writes a chain.
type writer struct {
	ferry.Member
	epoch uint32
	seq   uint64
	last  ferry.RecordID
}

func (w *writer) head() ferry.Head {
	return ferry.Head{Writer: w.Writer, Epoch: w.epoch, Seq: w.seq, ID32: w.last.String()[:32]}
}

func (w *writer) cut() ferry.Cut {
	return ferry.Cut{Epoch: int64(w.epoch), Seq: int64(w.seq), ID: w.last}
}

// world is a channel: every record ever written, with the one before it. It is the Feeds of the tests, straight from the
// set of records.
type world struct {
	tb      testing.TB
	channel ferry.RecordID
	records []ferry.Record
	prev    map[ferry.RecordID]ferry.RecordID
	signers map[ferry.RecordID][]sign.PublicKey
	salt    int
	master  *writer
	people  map[string]*writer
}

func newWorld(tb testing.TB) *world {
	w := &world{
		tb: tb, prev: map[ferry.RecordID]ferry.RecordID{}, signers: map[ferry.RecordID][]sign.PublicKey{}, people: map[string]*writer{},
	}
	return w
}

// founded is a world with the master "master" and the recovery key "recovery".
func founded(tb testing.TB) *world {
	w := newWorld(tb)
	w.found(w.rootBody("master"))
	return w
}

func (w *world) rootBody(master string) *ferry.Root {
	return &ferry.Root{
		Version: 1, Project: "demo", Master: member(w.tb, master), Threshold: 1, Recovery: []string{hexKey(w.tb, "recovery")},
	}
}

func (w *world) found(b *ferry.Root) ferry.Record {
	w.master = w.person(string(b.Master.Name))
	rec := w.root(w.master, b, string(b.Master.Name))
	w.channel = rec.ID
	return rec
}

// person gives the writer with a name, whose key is made from the name.
func (w *world) person(name string, grants ...ferry.Grant) *writer {
	if p, ok := w.people[name]; ok {
		return p
	}
	p := &writer{Member: member(w.tb, name, grants...), epoch: 1}
	w.people[name] = p
	return p
}

// write appends to a writer's chain. A member has seen all of the master's, and the master all of everybody's.
func (w *world) write(by *writer, b ferry.Body) ferry.Record {
	var saw []ferry.Head
	for _, name := range slices.Sorted(maps.Keys(w.people)) {
		if p := w.people[name]; p != by && p.seq > 0 && (by == w.master || p == w.master) {
			saw = append(saw, p.head())
		}
	}
	return w.writeSeen(by, b, saw...)
}

func (w *world) writeSeen(by *writer, b ferry.Body, saw ...ferry.Head) ferry.Record {
	w.salt++
	by.seq++
	rec := ferry.Record{
		ID:     sha256.Sum256(fmt.Appendf(nil, "%s %d %d %d", by.Writer, by.epoch, by.seq, w.salt)),
		Writer: by.Writer, Epoch: by.epoch, Seq: by.seq, Saw: saw, Body: b,
	}
	w.prev[rec.ID] = by.last
	by.last = rec.ID
	w.records = append(w.records, rec)
	return rec
}

// root writes a root record that is signed by the named keys.
func (w *world) root(by *writer, b *ferry.Root, signers ...string) ferry.Record {
	rec := w.write(by, b)
	for _, s := range signers {
		w.signers[rec.ID] = append(w.signers[rec.ID], key(w.tb, s).Public())
	}
	return rec
}

// admit lets somebody in, by the master.
func (w *world) admit(name string, grants ...ferry.Grant) *writer {
	p := w.person(name, grants...)
	rec := w.write(w.master, &ferry.Admit{Member: p.Member, Epoch: 1})
	if p.last.IsZero() {
		p.last = rec.ID
	}
	return p
}

func (w *world) delegate(to *writer, scopes ...ferry.Scope) ferry.Record {
	return w.write(w.master, &ferry.Delegate{To: to.Writer, Scopes: scopes})
}

// readmit puts a writer into its next epoch, with the key of another name.
func (w *world) readmit(p *writer, keep ferry.Cut, keyName string) ferry.Record {
	rec := w.write(w.master, &ferry.Readmit{Writer: p.Writer, Epoch: int64(p.epoch) + 1, Key: hexKey(w.tb, keyName), Keep: keep})
	p.epoch, p.seq, p.last = p.epoch+1, 0, rec.ID
	return rec
}

// fork gives a second self of a writer, that has forgotten everything after now.
func (w *writer) fork() *writer { twin := *w; return &twin }

func (w *world) roots() (out []authority.RootRecord) {
	for _, rec := range w.records {
		if _, ok := rec.Body.(*ferry.Root); ok {
			out = append(out, authority.RootRecord{Record: rec, Signers: w.signers[rec.ID]})
		}
	}
	return out
}

func (w *world) roster() *authority.Roster { return authority.Evaluate(w.channel, w.roots(), w) }

// chain gives the branch of an epoch that counts.
func (w *world) chain(of ferry.WriterID, epoch uint32, keep *ferry.Cut) ([]ferry.Record, bool) {
	bySeq := map[uint64][]ferry.Record{}
	byID := map[ferry.RecordID]ferry.Record{}
	for _, rec := range w.records {
		if rec.Writer == of && rec.Epoch == epoch {
			bySeq[rec.Seq] = append(bySeq[rec.Seq], rec)
			byID[rec.ID] = rec
		}
	}
	var out []ferry.Record
	if keep == nil {
		for seq := uint64(1); len(bySeq[seq]) == 1; seq++ {
			out = append(out, bySeq[seq][0])
		}
		return out, true
	}
	for rec, ok := byID[keep.ID]; ; rec, ok = byID[w.prev[rec.ID]] {
		if !ok {
			return nil, false
		}
		out = append(out, rec)
		if rec.Seq == 1 {
			slices.Reverse(out)
			return out, true
		}
	}
}

func (w *world) Statements(of ferry.WriterID, epoch uint32, keep *ferry.Cut) ([]ferry.Record, bool) {
	all, whole := w.chain(of, epoch, keep)
	return slices.DeleteFunc(all, func(rec ferry.Record) bool {
		switch rec.Body.(type) {
		case *ferry.Root, *ferry.Admit, *ferry.Revoke, *ferry.Readmit, *ferry.Delegate, *ferry.Invite, *ferry.Policy, *ferry.Opaque:
			return false
		}
		return true
	}), whole
}

func (w *world) Acts(of ferry.WriterID) (out []ferry.Record) {
	for epoch := uint32(1); epoch < 4; epoch++ {
		all, _ := w.chain(of, epoch, nil)
		out = append(out, all...)
	}
	return out
}

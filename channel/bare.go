package channel

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
	"github.com/ferry-fleet/ferry/sign"
)

// form is a record as it stands in a file: whole, or in its bare form without the body that its header names.
type form interface {
	Header() sign.Header
	ID() [32]byte
	Name() string
	Body() []byte
	Bytes() []byte
	Top() []byte
}

// formOf takes a record apart without believing any of it.
func formOf(file []byte) (form, error) {
	u, err := sign.ParseHeader(file)
	if errors.Is(err, sign.ErrIncomplete) {
		if t, bareErr := sign.ParseBare(file); bareErr == nil {
			return t, nil
		}
	}
	return u, err
}

func isBare(f form) bool {
	_, is := f.(sign.Top)
	return is
}

// openForm checks that a key signed a record, and the body if that is here.
func openForm(f form, key sign.PublicKey) (form, error) {
	switch f := f.(type) {
	case sign.Unverified:
		return f.Open(key)
	case sign.Top:
		return f.Open(key)
	}
	return nil, sign.ErrUnverified
}

// fixed reports whether records of a type are always read as they were signed.
func fixed(t ferry.Type) bool {
	return statement(t) || t == ferry.TypeRedact || t == ferry.TypeForkProof || t == ferry.TypeSeal || t == ferry.TypeCheckpoint
}

// Why a bare record is not taken in, or has no effect.
const (
	whyFixed   = "a record of this type without its body"
	whyAlone   = "its body is not here, and no redaction of the master's names it"
	whyNothing = "its body was taken out, and no redaction that counts says what stands in its place"
)

// gone stands for the body of a bare record until a redaction that counts gives it one.
type gone struct {
	of   ferry.Type
	need []string // what this version lacks to understand the record
}

// Type gives the type that the header names.
func (g gone) Type() ferry.Type { return g.of }

// Subject gives nothing: what the record is about follows from the redaction.
func (gone) Subject() ferry.RecordID { return ferry.RecordID{} }

// from reads the body that a redaction gives.
func (g gone) from(text string) (ferry.Body, error) {
	if len(g.need) > 0 {
		return &ferry.Opaque{Is: g.of, Order: looseOrder([]byte(text)), Need: g.need}, nil
	}
	return DecodeRedacted(g.of, text)
}

// shown gives a record to those who read it: one whose body is gone has none.
func shown(rec ferry.Record) ferry.Record {
	if _, is := rec.Body.(gone); is {
		rec.Body = nil
	}
	return rec
}

// usedUp gives a record to those who count the uses of a delegation, which depends on no text.
func usedUp(rec ferry.Record) ferry.Record {
	if g, is := rec.Body.(gone); is {
		rec.Body = nil
		if b := ferry.New(g.of); b != nil {
			rec.Body = b
		}
	}
	return rec
}

// mastered reports whether a writer is or was the master.
func mastered(r *authority.Roster, w ferry.WriterID) bool {
	return slices.ContainsFunc(r.Roots(), func(root ferry.Record) bool { return root.Writer == w })
}

// named gives the records that a redaction in a file names, if its writer is or was the master. Its signature must have been
// checked; whether it counts is not asked.
func named(r *authority.Roster, f form) []ferry.Redacted {
	h := f.Header()
	if h.Type != string(ferry.TypeRedact) || !mastered(r, ferry.WriterID(h.Writer)) {
		return nil
	}
	b, err := decodeBody(ferry.TypeRedact, f.Body())
	if err != nil {
		return nil
	}
	return b.(*ferry.Redact).Records
}

// maxPromised bounds what is remembered of the redactions that wait for their predecessors.
const maxPromised = 1 << 16

// promise remembers which records a redaction names that may not be in the index yet: a bare one may lie before it in the
// very chain of the master.
func (g *ingest) promise(f form) {
	for _, r := range named(g.c.authority(), f) {
		if p := g.c.seen.promised; !p[r.ID] && len(p) < maxPromised {
			p[r.ID] = true
			g.told++
		}
	}
}

// promised reports whether a redaction by a master names a record.
func (c *Channel) promised(ctx context.Context, id ferry.RecordID) (bool, error) {
	if c.seen.promised[id] {
		return true, nil
	}
	roster, found := c.authority(), false
	err := each(ctx, c.db, func(rows *sql.Rows) error {
		var w ferry.WriterID
		err := rows.Scan(&w)
		found = found || mastered(roster, w)
		return err
	}, `SELECT DISTINCT r.writer FROM redactions x JOIN records r ON r.id = x.by WHERE x.id = ?`, id[:])
	return found, err
}

// bare takes a record without its body in, where a redaction by a master names it. Before that it waits: whoever strips bodies
// off delays them.
func (g *ingest) bare(ctx context.Context, f form) (verdict, error) {
	if fixed(ferry.Type(f.Header().Type)) {
		return verdict{rejected, whyFixed}, nil
	}
	id := ferry.RecordID(f.ID())
	ok, err := g.c.promised(ctx, id)
	if err != nil || ok {
		if err != nil {
			return verdict{}, err
		}
		return g.chain(ctx, f)
	}
	var n int
	if found, err := one(ctx, g.c.db, []any{&n}, `SELECT n FROM records WHERE id = ?`, id[:]); err != nil || found {
		return verdict{kind: known}, err
	}
	return verdict{parked, whyAlone}, nil
}

// whole takes the whole record in for a bare one that no redaction gives a body.
func (g *ingest) whole(ctx context.Context, f form) (verdict, error) {
	delete(g.c.seen.hollow, f.ID())
	if err := g.take(ctx, f); err != nil {
		return verdict{}, err
	}
	return verdict{kind: accepted}, g.flush(ctx)
}

// recallHollow reads which bare records have no body from anywhere. When there are more than before, every file of the folder
// is looked at again: one may have the whole record.
func (s *scan) recallHollow(ctx context.Context) error {
	found, err := ids(ctx, s.c.db, `SELECT id FROM bare WHERE hollow = 1`)
	if err != nil {
		return err
	}
	now, more := make(map[ferry.RecordID]bool, len(found)), false
	for _, id := range found {
		now[id] = true
		more = more || !s.c.seen.hollow[id]
	}
	s.c.seen.hollow = now
	if !more {
		return nil
	}
	for _, query := range []string{`DELETE FROM dirs`, `DELETE FROM packs`} {
		if _, err := s.c.db.ExecContext(ctx, query); err != nil {
			return err
		}
	}
	for _, d := range s.c.dirs {
		clear(d.names)
		clear(d.bad)
	}
	return nil
}

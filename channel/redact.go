package channel

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
)

// Redact takes texts out of records: everybody reads the bodies that are given here in their place. Only the master can. A
// body has to be of the same type and about the same order, and of an order, a verdict, an approval and a landing everything
// but the texts stays as it is; statements cannot be redacted.
func (w *Writer) Redact(ctx context.Context, now time.Time, reason string, bodies map[ferry.RecordID]ferry.Body) (ferry.RecordID, error) {
	return w.one(ctx, now, func(tx *Tx) (ferry.Body, error) {
		out := &ferry.Redact{Reason: reason}
		for id, b := range bodies {
			named, err := tx.c.replaces(ctx, tx.q, id, b)
			if err != nil {
				return nil, err
			}
			out.Records = append(out.Records, named)
		}
		slices.SortFunc(out.Records, func(a, b ferry.Redacted) int { return bytes.Compare(a.ID[:], b.ID[:]) })
		return out, nil
	})
}

// replaces makes the part of a redaction that is about one record.
func (c *Channel) replaces(ctx context.Context, q querier, id ferry.RecordID, b ferry.Body) (named ferry.Redacted, err error) {
	text, err := encodeBody(b)
	if err != nil {
		return named, fmt.Errorf("redact record %s: %w", id.Short(), err)
	}
	at, err := places(ctx, q, `SELECT `+placeColumns+` FROM records WHERE id = ?`, id[:])
	if err != nil {
		return named, err
	}
	if len(at) == 0 {
		return named, fmt.Errorf("redact record %s: it is not here; `ferry channel log` lists the records", id.Short())
	}
	p, err := c.load(at[0])
	if err != nil {
		return named, err
	}
	rec, _ := p.record()
	if p.bare { // what is read in its place is all that there is to compare with
		by, err := c.redactionsOf(ctx, q, id)
		if err != nil {
			return named, err
		}
		rec = dressed(rec, by, c.authority())
	}
	if _, err := replacement(rec, string(text)); err != nil {
		return named, fmt.Errorf("redact record %s: %w", id.Short(), err)
	}
	return ferry.Redacted{ID: id, Body: string(text)}, nil
}

// Replaces reports why a body cannot take the place of that of a record, or nil if Redact would take it.
func (c *Channel) Replaces(ctx context.Context, id ferry.RecordID, b ferry.Body) error {
	_, err := c.replaces(ctx, c.db, id, b)
	return err
}

// Named gives the records whose ids begin with these digits, four at least, as the ledger shows them: nine at most.
func (c *Channel) Named(ctx context.Context, ref string) ([]Entry, error) {
	if err := c.sync(ctx); err != nil {
		return nil, err
	}
	low, high, ok := prefixRange(ref)
	if !ok {
		return nil, nil
	}
	at, err := places(ctx, c.db, `SELECT `+placeColumns+` FROM records WHERE id BETWEEN ? AND ? ORDER BY id LIMIT 9`, low, high)
	if err != nil {
		return nil, err
	}
	return c.entries(ctx, at)
}

// replacement gives the body that a redaction puts in the place of a record's own, or says why it cannot.
func replacement(rec ferry.Record, text string) (ferry.Body, error) {
	if rec.Body == nil {
		return nil, errors.New("its body is not understood here")
	}
	if g, is := rec.Body.(gone); is { // there is nothing to compare with: the master is taken at its word
		return g.from(text)
	}
	t := rec.Body.Type()
	if _, is := rec.Body.(*ferry.Opaque); is {
		return nil, errors.New("it needs a newer ferry")
	}
	b, err := DecodeRedacted(t, text)
	switch {
	case err != nil:
		return nil, err
	case b.Subject() != rec.Body.Subject():
		return nil, errors.New("its body would be about another order")
	case !reflect.DeepEqual(withoutTexts(b), withoutTexts(rec.Body)):
		return nil, fmt.Errorf("of the %s more than its texts would change", t)
	}
	return b, nil
}

// DecodeRedacted reads the body that a redaction gives a record of a type. Who has the body that was signed compares the two.
func DecodeRedacted(t ferry.Type, text string) (ferry.Body, error) {
	if fixed(t) {
		return nil, fmt.Errorf("a record of the type %s cannot be redacted", t)
	}
	return decodeBody(t, []byte(text))
}

// withoutTexts gives what of a body a redaction has to leave as it is; nil where that is nothing.
func withoutTexts(b ferry.Body) any {
	switch b := b.(type) {
	case *ferry.Order:
		o := *b
		o.Text = ""
		o.Attachments = slices.Clone(o.Attachments)
		for i := range o.Attachments {
			o.Attachments[i].Text = ""
		}
		return o
	case *ferry.Verdict:
		v := *b
		v.Notes = ""
		return v
	case *ferry.Approve:
		return *b
	case *ferry.Landed:
		l := *b
		l.Checks = slices.Clone(l.Checks)
		for i := range l.Checks {
			l.Checks[i].Tail = ""
		}
		return l
	}
	return nil
}

// amended gives a record as it is read under the redactions that name it: the last of them that holds, those of the present
// master before those of its predecessors.
func amended(rec ferry.Record, by []ferry.Record, roster *authority.Roster) ferry.Record {
	return shown(dressed(rec, by, roster))
}

// dressed is amended where a body that is gone is still to be told from one that is not understood.
func dressed(rec ferry.Record, by []ferry.Record, roster *authority.Roster) ferry.Record {
	if b, _, ok := inForce(rec, by, roster); ok {
		rec.Body = b
	}
	return rec
}

// inForce gives the body that is read in place of a record's own, and the redaction that says so.
func inForce(rec ferry.Record, by []ferry.Record, roster *authority.Roster) (ferry.Body, ferry.RecordID, bool) {
	SortRedactions(by, roster)
	for _, r := range by {
		if _, _, counts := roster.Counts(r, ""); !counts {
			continue
		}
		for _, named := range r.Body.(*ferry.Redact).Records {
			if named.ID != rec.ID {
				continue
			}
			if b, err := replacement(rec, named.Body); err == nil {
				return b, r.ID, true
			}
		}
	}
	return nil, ferry.RecordID{}, false
}

// SortRedactions puts the redaction first that is to be followed before the others: those of the present master come before
// those of its predecessors, and the last first.
func SortRedactions(by []ferry.Record, roster *authority.Roster) {
	master, _ := roster.Master()
	slices.SortFunc(by, func(a, b ferry.Record) int {
		mine := func(r ferry.Record) int {
			if r.Writer == master.Writer {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(mine(a), mine(b)), cmp.Compare(b.Seq, a.Seq), bytes.Compare(a.ID[:], b.ID[:]))
	})
}

// amend gives a record of the index as it is read.
func (r *reader) amend(ctx context.Context, rec ferry.Record) (ferry.Record, error) {
	named, err := r.isNamed(ctx, rec.ID)
	if err != nil || !named {
		return shown(rec), err
	}
	by, err := r.c.redactionsOf(ctx, r.q, rec.ID)
	if err != nil {
		return rec, err
	}
	return amended(rec, by, r.roster), nil
}

// redactionsOf gives the redactions that name a record, whether they count or not.
func (c *Channel) redactionsOf(ctx context.Context, q querier, id ferry.RecordID) ([]ferry.Record, error) {
	at, err := places(ctx, q, `SELECT `+placeColumns+` FROM records WHERE main = 1 AND id IN (SELECT by FROM redactions WHERE id = ?)`, id[:])
	if err != nil {
		return nil, err
	}
	var by []ferry.Record
	for _, pl := range at {
		p, err := c.load(pl)
		if err != nil {
			return nil, err
		}
		rec, _ := p.record()
		by = append(by, rec)
	}
	return by, nil
}

// RedactedBy gives the redaction whose body is read in place of a record's own; ok is false when the record is read as it was
// signed.
func (c *Channel) RedactedBy(ctx context.Context, id ferry.RecordID) (redaction ferry.Record, ok bool, err error) {
	rec, here, err := c.held(ctx, id)
	if err != nil || !here {
		return redaction, false, err
	}
	by, err := c.redactionsOf(ctx, c.db, id)
	if err != nil || len(by) == 0 {
		return redaction, false, err
	}
	if _, which, found := inForce(rec, by, c.authority()); found {
		return c.Record(ctx, which)
	}
	return redaction, false, nil
}

// redacts keeps which records a redaction names. Whether it counts is asked when they are read.
func (p *projector) redacts(ctx context.Context, id ferry.RecordID, b *ferry.Redact) error {
	p.redacted = nil
	for _, named := range b.Records {
		if _, err := p.q.ExecContext(ctx, `INSERT OR IGNORE INTO redactions VALUES (?, ?)`, named.ID[:], id[:]); err != nil {
			return err
		}
		if err := p.affected(ctx, `id = ?`, named.ID[:]); err != nil {
			return err
		}
	}
	return nil
}

// touchRedacted queues what may be read otherwise when a redaction begins or ceases to count.
func (p *projector) touchRedacted(ctx context.Context) error {
	return p.affected(ctx, `id IN (SELECT id FROM redactions)`)
}

// affected queues records that may be read otherwise: the orders that they are about, the bare ones themselves, and the whole
// ones to have their bodies taken out of the store.
func (p *projector) affected(ctx context.Context, which string, args ...any) error {
	about, err := ids(ctx, p.q, `SELECT DISTINCT subject FROM records WHERE subject IS NOT NULL AND `+which, args...)
	if err != nil {
		return err
	}
	for _, id := range about {
		p.touch(id)
	}
	naked, err := ids(ctx, p.q, `SELECT id FROM bare WHERE `+which, args...)
	if err != nil {
		return err
	}
	for _, id := range naked {
		p.naked[id] = true
	}
	_, err = p.q.ExecContext(ctx, `INSERT OR IGNORE INTO strip SELECT id FROM records WHERE id NOT IN (SELECT id FROM bare) AND `+which, args...)
	return err
}

// isNamed reports whether any redaction names a record.
func (r *reader) isNamed(ctx context.Context, id ferry.RecordID) (bool, error) {
	if r.redacted == nil {
		found, err := ids(ctx, r.q, `SELECT DISTINCT id FROM redactions`)
		if err != nil {
			return false, err
		}
		r.redacted = make(map[ferry.RecordID]bool, len(found))
		for _, id := range found {
			r.redacted[id] = true
		}
	}
	return r.redacted[id], nil
}

package channel

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
)

// Roster gives who may do what, as of everything that has arrived.
func (c *Channel) Roster(ctx context.Context) (*authority.Roster, error) {
	if err := c.sync(ctx); err != nil {
		return nil, err
	}
	return c.authority(), nil
}

// Record gives a record of the store as it is read; ok is false when it is not here. Whether it counts is another question.
func (c *Channel) Record(ctx context.Context, id ferry.RecordID) (rec ferry.Record, ok bool, err error) {
	if rec, ok, err = c.held(ctx, id); err != nil || !ok {
		return rec, false, err
	}
	reader := reader{c: c, q: c.db, roster: c.authority()}
	rec, err = reader.amend(ctx, rec)
	return rec, err == nil, err
}

// held gives a record of the store as it was signed, or without a body where that is gone.
func (c *Channel) held(ctx context.Context, id ferry.RecordID) (rec ferry.Record, ok bool, err error) {
	if err := c.sync(ctx); err != nil {
		return rec, false, err
	}
	at, err := places(ctx, c.db, `SELECT `+placeColumns+` FROM records WHERE id = ?`, id[:])
	if err != nil || len(at) == 0 {
		return rec, false, err
	}
	r, err := c.load(at[0])
	if err != nil {
		return rec, false, err
	}
	rec, _ = r.record()
	return rec, true, nil
}

// Link is one record of a chain that is held here.
type Link struct {
	Seq    uint64
	ID     ferry.RecordID
	Type   ferry.Type
	Counts bool // it is on the branch that counts
}

// Chain gives what is held of one epoch of a writer, by number and then id.
func (c *Channel) Chain(ctx context.Context, w ferry.WriterID, epoch uint32) ([]Link, error) {
	if err := c.sync(ctx); err != nil {
		return nil, err
	}
	var out []Link
	err := each(ctx, c.db, func(rows *sql.Rows) error {
		var l Link
		var id sql.RawBytes
		if err := rows.Scan(&l.Seq, &id, &l.Type, &l.Counts); err != nil {
			return err
		}
		copy(l.ID[:], id)
		out = append(out, l)
		return nil
	}, `SELECT seq, id, type, main FROM records WHERE writer = ? AND epoch = ? ORDER BY seq, id`, string(w), epoch)
	return out, err
}

// Admissions gives the records that let a writer in, or gave it a further key, as they stand in the store.
func (c *Channel) Admissions(ctx context.Context, w ferry.WriterID) ([]ferry.Record, error) {
	rulings, err := c.Rulings(ctx, w)
	return slices.DeleteFunc(rulings, func(r ferry.Record) bool {
		t := r.Body.Type()
		return t != ferry.TypeAdmit && t != ferry.TypeReadmit
	}), err
}

// Rulings gives what was said about a writer's place in the channel, by whomever: admissions, revocations, readmissions and
// delegations, in the order of arrival here. Each is on the branch of its chain that counts.
func (c *Channel) Rulings(ctx context.Context, w ferry.WriterID) ([]ferry.Record, error) {
	if err := c.sync(ctx); err != nil {
		return nil, err
	}
	at, err := places(ctx, c.db, findStatements+`type IN ('admit', 'readmit', 'revoke', 'delegate') AND main = 1 ORDER BY n`)
	if err != nil {
		return nil, err
	}
	var out []ferry.Record
	for _, pl := range at {
		r, err := c.load(pl)
		if err != nil {
			return nil, err
		}
		if rec, _ := r.record(); ruled(rec.Body) == w {
			out = append(out, rec)
		}
	}
	return out, nil
}

// ruled gives the writer that a statement is about, or "".
func ruled(b ferry.Body) ferry.WriterID {
	switch b := b.(type) {
	case *ferry.Admit:
		return b.Member.Writer
	case *ferry.Readmit:
		return b.Writer
	case *ferry.Revoke:
		return b.Writer
	case *ferry.Delegate:
		return b.To
	}
	return ""
}

// Traces is what is known of a writer from its records and its beat.
type Traces struct {
	Last time.Time // of the newest record, by the writer's clock, or of the file of its beat; zero when there is neither
	Fork uint64    // the number that it signed twice in its present epoch, or 0
	Have ferry.Inventory
}

// Traces looks at one epoch of a writer.
func (c *Channel) Traces(ctx context.Context, w ferry.WriterID, epoch uint32) (t Traces, err error) {
	if err := c.sync(ctx); err != nil {
		return t, err
	}
	if _, err := one(ctx, c.db, []any{&t.Fork}, `SELECT seq FROM forks WHERE writer = ? AND epoch = ? AND open = 1`, string(w), epoch); err != nil {
		return t, err
	}
	t.Last = c.beatTime(chain{w, epoch})
	for _, kind := range []string{`TRUE`, `type = 'inventory'`} {
		at, err := places(ctx, c.db, `SELECT `+placeColumns+` FROM records WHERE writer = ? AND epoch = ? AND main = 1 AND `+kind+`
			ORDER BY seq DESC LIMIT 1`, string(w), epoch)
		if err != nil || len(at) == 0 {
			return t, err
		}
		r, err := c.load(at[0])
		if err != nil {
			return t, err
		}
		rec, _ := r.record()
		if rec.Time.After(t.Last) {
			t.Last = rec.Time
		}
		reader := reader{c: c, q: c.db, roster: c.authority()}
		if rec, err = reader.amend(ctx, rec); err != nil {
			return t, err
		}
		if b, ok := rec.Body.(*ferry.Inventory); ok {
			t.Have = *b
		}
	}
	return t, nil
}

// beatTime gives when the file of a writer's beat was written, as the folder says, if the beat is one of this epoch that is
// listened to; else zero.
func (c *Channel) beatTime(ch chain) time.Time {
	roster := c.authority()
	c.seen.mu.Lock()
	defer c.seen.mu.Unlock()
	h := c.seen.beats[ch.writer]
	if h == nil || h.beat == nil || h.at == 0 || h.beat.Epoch != ch.epoch || !c.seen.mayBeat(roster, ch) {
		return time.Time{}
	}
	return time.Unix(0, h.at)
}

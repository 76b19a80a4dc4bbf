package channel

import (
	"context"
	"database/sql"

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

// Record gives a record of the store; ok is false when it is not here. Whether it counts is another question.
func (c *Channel) Record(ctx context.Context, id ferry.RecordID) (rec ferry.Record, ok bool, err error) {
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
	if err := c.sync(ctx); err != nil {
		return nil, err
	}
	at, err := places(ctx, c.db, `SELECT `+placeColumns+` FROM records WHERE type IN ('admit', 'readmit') AND main = 1`)
	if err != nil {
		return nil, err
	}
	var out []ferry.Record
	for _, pl := range at {
		r, err := c.load(pl)
		if err != nil {
			return nil, err
		}
		rec, _ := r.record()
		switch b := rec.Body.(type) {
		case *ferry.Admit:
			if b.Member.Writer == w {
				out = append(out, rec)
			}
		case *ferry.Readmit:
			if b.Writer == w {
				out = append(out, rec)
			}
		}
	}
	return out, nil
}

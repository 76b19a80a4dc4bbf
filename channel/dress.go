package channel

import (
	"bytes"
	"context"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
)

// stands notes what becomes of a record that is here without its body, or whose body a redaction replaces.
func (p *projector) stands(ctx context.Context, r *parsed) error {
	if r.bare {
		p.naked[r.id] = true
		_, err := p.q.ExecContext(ctx, `INSERT OR REPLACE INTO bare VALUES (?, 1, 1, ?)`, r.id[:], r.own)
		return err
	}
	named, err := p.isNamed(ctx, r.id)
	if err != nil || !named {
		return err
	}
	_, err = p.q.ExecContext(ctx, `INSERT OR IGNORE INTO strip VALUES (?)`, r.id[:])
	return err
}

// fill puts a whole record in the place of a bare one.
func (p *projector) fill(ctx context.Context, r *parsed) error {
	var n int
	if r.bare {
		return nil
	}
	if found, err := one(ctx, p.q, []any{&n}, `SELECT 1 FROM bare WHERE id = ?`, r.id[:]); err != nil || !found {
		return err
	}
	if _, err := p.q.ExecContext(ctx, `DELETE FROM bare WHERE id = ?`, r.id[:]); err != nil {
		return err
	}
	if _, err := p.q.ExecContext(ctx, `UPDATE records SET off = ?, size = ? WHERE id = ?`, r.off, r.size, r.id[:]); err != nil {
		return err
	}
	delete(p.naked, r.id)
	p.fresh[r.id] = r
	rec, _ := r.record()
	if err := p.about(ctx, rec); err != nil {
		return err
	}
	return p.stands(ctx, r)
}

// dress gives the bare records that were touched what a redaction that counts says of them.
func (p *projector) dress(ctx context.Context) error {
	for id := range p.naked {
		at, err := places(ctx, p.q, `SELECT `+placeColumns+` FROM records WHERE id = ?`, id[:])
		if err != nil {
			return err
		}
		if len(at) == 0 {
			continue
		}
		r := p.fresh[id]
		if r == nil {
			loaded, err := p.c.load(at[0])
			if err != nil {
				return err
			}
			r = &loaded
		}
		rec, _ := r.record()
		by, err := p.c.redactionsOf(ctx, p.q, id)
		if err != nil {
			return err
		}
		hollow := isHollow(rec, by, p.roster)
		if _, err := p.q.ExecContext(ctx, `UPDATE bare SET hollow = ? WHERE id = ?`, hollow, id[:]); err != nil {
			return err
		}
		if err := p.about(ctx, dressed(rec, by, p.roster)); err != nil {
			return err
		}
	}
	clear(p.naked)
	return nil
}

// isHollow reports whether no redaction gives a bare record a body. A type that this version does not know has none.
func isHollow(rec ferry.Record, by []ferry.Record, roster *authority.Roster) bool {
	if ferry.New(rec.Body.Type()) == nil {
		return len(by) == 0
	}
	_, _, ok := inForce(rec, by, roster)
	return !ok
}

// about corrects what a record is about, and touches that and what it was about before.
func (p *projector) about(ctx context.Context, rec ferry.Record) error {
	var before []byte
	if _, err := one(ctx, p.q, []any{&before}, `SELECT subject FROM records WHERE id = ?`, rec.ID[:]); err != nil {
		return err
	}
	if len(before) == len(ferry.RecordID{}) {
		p.touch(ferry.RecordID(before))
	}
	now, ok := subject(rec)
	if !ok {
		if before == nil {
			return nil
		}
		_, err := p.q.ExecContext(ctx, `UPDATE records SET subject = NULL WHERE id = ?`, rec.ID[:])
		return err
	}
	p.touch(now)
	if bytes.Equal(before, now[:]) {
		return nil
	}
	_, err := p.q.ExecContext(ctx, `UPDATE records SET subject = ? WHERE id = ?`, now[:], rec.ID[:])
	return err
}

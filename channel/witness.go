package channel

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
)

// ErrBehind reports that a record of the authority is missing here that another has seen, and is still waited for.
var ErrBehind = errors.New("what decides about it has not all arrived")

// claim is a head of a feed of authority that a witness has named and that is not here.
type claim struct {
	ferry.Head
	by ferry.WriterID
}

// Doubt is a claim that did not come true in time: nothing waits for it, nor for what else that witness says of the authority,
// until the witness signs a record that names nothing that is missing here.
type Doubt struct {
	Witness ferry.WriterID
	Head    ferry.Head // its ID32 is not kept
	Since   time.Time  // when this machine noticed that it was missing
}

// witnesses keeps of each writer the heads that its last record of this batch names and that are not here. What a writer says
// last is what it says.
func (p *projector) witnesses(ctx context.Context) error {
	if len(p.heads) == 0 {
		return nil
	}
	kept := map[ferry.WriterID]bool{}
	err := each(ctx, p.q, func(rows *sql.Rows) error {
		var w ferry.WriterID
		err := rows.Scan(&w)
		kept[w] = true
		return err
	}, `SELECT DISTINCT witness FROM saw`)
	if err != nil {
		return err
	}
	for w, heads := range p.heads {
		if err := p.witness(ctx, w, heads, kept[w]); err != nil {
			return err
		}
	}
	return nil
}

func (p *projector) witness(ctx context.Context, w ferry.WriterID, heads []ferry.Head, kept bool) error {
	if kept {
		if _, err := p.q.ExecContext(ctx, `DELETE FROM saw WHERE witness = ?`, string(w)); err != nil {
			return err
		}
	}
	for _, h := range heads {
		s, err := p.standing(ctx, chain{h.Writer, h.Epoch})
		if err != nil {
			return err
		}
		if s.known && s.tip.seq >= h.Seq {
			continue
		}
		if _, err := p.q.ExecContext(ctx, `INSERT OR REPLACE INTO saw VALUES (?, ?, ?, ?, ?)`,
			string(w), string(h.Writer), h.Epoch, h.Seq, h.ID32); err != nil {
			return err
		}
	}
	return nil
}

// missing gives of every credible witness the highest head that it has named and that is not here.
func (c *Channel) missing(ctx context.Context, roster *authority.Roster) ([]claim, error) {
	var all, out []claim
	err := each(ctx, c.db, func(rows *sql.Rows) error {
		var x claim
		err := rows.Scan(&x.by, &x.Writer, &x.Epoch, &x.Seq, &x.ID32)
		all = append(all, x)
		return err
	}, `SELECT witness, writer, epoch, seq, id32 FROM saw ORDER BY witness, writer`)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	feeds := feedsOf(roster, "")
	for _, x := range all {
		if !slices.Contains(feeds, x.Writer) || x.Epoch < roster.Epoch(x.Writer) || roster.Epoch(x.by) == 0 {
			continue
		}
		t, err := readTip(ctx, c.db, chain{x.Writer, x.Epoch})
		if err != nil {
			return nil, err
		}
		var n int
		forked, err := one(ctx, c.db, []any{&n}, `SELECT 1 FROM forks WHERE writer = ? AND epoch = ? AND seq > 0`, string(x.by), roster.Epoch(x.by))
		if err != nil {
			return nil, err
		}
		last := len(out) - 1
		switch {
		case forked || t.seq >= x.Seq:
		case last < 0 || out[last].by != x.by:
			out = append(out, x)
		case above(x.Head, out[last].Head):
			out[last] = x
		}
	}
	return out, nil
}

// doubt keeps since when each witness has been waited for. While the first head that it was waited for is missing, another in
// its place does not begin a wait of its own. It needs the lock.
func (c *Channel) doubt(ctx context.Context) error {
	roster := c.authority()
	missing, err := c.missing(ctx, roster)
	if err != nil {
		return err
	}
	doubts, err := c.doubts(ctx)
	if err != nil {
		return err
	}
	now := c.now()
	for _, x := range missing {
		d, waits := doubts[x.by]
		delete(doubts, x.by)
		if waits && !d.Since.After(now) {
			t, err := readTip(ctx, c.db, chain{d.Head.Writer, d.Head.Epoch})
			if err != nil {
				return err
			}
			if waits = t.seq < d.Head.Seq && d.Head.Epoch >= roster.Epoch(d.Head.Writer); waits {
				continue
			}
		}
		_, err := c.db.ExecContext(ctx, `INSERT OR REPLACE INTO doubts VALUES (?, ?, ?, ?, ?)`,
			string(x.by), string(x.Writer), x.Epoch, x.Seq, now.UnixNano())
		if err != nil {
			return fmt.Errorf("index: %w", err)
		}
	}
	for by := range doubts {
		if _, err := c.db.ExecContext(ctx, `DELETE FROM doubts WHERE witness = ?`, string(by)); err != nil {
			return fmt.Errorf("index: %w", err)
		}
	}
	return nil
}

// doubts gives what is waited for, and what was for too long, by witness.
func (c *Channel) doubts(ctx context.Context) (map[ferry.WriterID]Doubt, error) {
	out := map[ferry.WriterID]Doubt{}
	err := each(ctx, c.db, func(rows *sql.Rows) error {
		var d Doubt
		var since int64
		err := rows.Scan(&d.Witness, &d.Head.Writer, &d.Head.Epoch, &d.Head.Seq, &since)
		d.Since = time.Unix(0, since)
		out[d.Witness] = d
		return err
	}, `SELECT witness, writer, epoch, seq, since FROM doubts`)
	return out, err
}

func (c *Channel) overdue(d Doubt) bool { return c.now().Sub(d.Since) >= c.cfg.Limits.filled().Hold }

// doubtful gives the claims that are not waited for any more, by witness.
func (c *Channel) doubtful(ctx context.Context, roster *authority.Roster) ([]Doubt, error) {
	missing, err := c.missing(ctx, roster)
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	doubts, err := c.doubts(ctx)
	if err != nil {
		return nil, err
	}
	var out []Doubt
	for _, x := range missing {
		if d, waits := doubts[x.by]; waits && c.overdue(d) {
			out = append(out, d)
		}
	}
	return out, nil
}

// Doubts gives the claims about the authority that did not come true in time.
func (c *Channel) Doubts(ctx context.Context) ([]Doubt, error) {
	if err := c.sync(ctx); err != nil {
		return nil, err
	}
	return c.doubtful(ctx, c.authority())
}

// missed gives the head that is waited for, and the witness who has named it; ok is false when nothing is.
func (c *Channel) missed(ctx context.Context, roster *authority.Roster) (most ferry.Head, by ferry.WriterID, ok bool, err error) {
	missing, err := c.missing(ctx, roster)
	if err != nil || len(missing) == 0 {
		return most, by, false, err
	}
	doubts, err := c.doubts(ctx)
	if err != nil {
		return most, by, false, err
	}
	for _, x := range missing {
		if d, waits := doubts[x.by]; waits && c.overdue(d) {
			continue
		}
		if !ok || above(x.Head, most) {
			most, by, ok = x.Head, x.by, true
		}
	}
	return most, by, ok, nil
}

// Behind gives a head of a feed of authority that a record which counts has named, that is not here and that is waited for, and
// the writer of that record. It reports false when nothing is.
func (c *Channel) Behind(ctx context.Context) (ferry.Head, ferry.WriterID, bool, error) {
	if err := c.sync(ctx); err != nil {
		return ferry.Head{}, "", false, err
	}
	return c.missed(ctx, c.authority())
}

// behind puts what is waited for of the authority into words, or gives "".
func (c *Channel) behind(ctx context.Context, roster *authority.Roster) (string, error) {
	h, by, ok, err := c.missed(ctx, roster)
	if !ok || err != nil {
		return "", err
	}
	of, _ := roster.Member(h.Writer)
	witness, _ := roster.Member(by)
	return fmt.Sprintf("%s has seen record %d of %s, which has not arrived here", witness.Name, h.Seq, of.Name), nil
}

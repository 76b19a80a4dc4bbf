package channel

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
	"github.com/ferry-fleet/ferry/sign"
)

// maxSawDelegates bounds the heads that a record carries beside the master's.
const maxSawDelegates = 8

// feedsOf lists the writers whose heads a record carries: the master and its delegates, without the record's own writer.
func feedsOf(r *authority.Roster, own ferry.WriterID) []ferry.WriterID {
	var out []ferry.WriterID
	delegates := 0
	master, _ := r.Master()
	for _, m := range r.Members() {
		_, _, delegate := r.Delegation(m.Writer)
		switch {
		case m.Writer == own:
		case m.Writer == master.Writer:
			out = append(out, m.Writer)
		case delegate && delegates < maxSawDelegates:
			delegates++
			out = append(out, m.Writer)
		}
	}
	return out
}

func signHeads(heads []ferry.Head) []sign.Head {
	var out []sign.Head
	for _, h := range heads {
		out = append(out, sign.Head{Writer: sign.WriterID(h.Writer), Epoch: h.Epoch, Seq: h.Seq, ID32: h.ID32})
	}
	return out
}

// Behind gives a head of a feed of authority that a record which counts has named and that is not here: something that
// decides what others may do is still on its way, or withheld.
func (r *Replica) Behind() (ferry.Head, bool) {
	roster := r.Roster()
	var most ferry.Head
	found := false
	for witness, heads := range r.saw {
		if !r.credible(witness) {
			continue
		}
		for _, w := range feedsOf(roster, "") {
			h, named := heads[w]
			if !named || h.Epoch < roster.Epoch(w) {
				continue
			}
			if b := r.chains[chain{w, h.Epoch}]; b != nil && b.tip.seq >= h.Seq {
				continue
			}
			if !found || above(h, most) {
				most, found = h, true
			}
		}
	}
	return most, found
}

// credible reports whether a writer may bear witness: a member that has not signed a number twice.
func (r *Replica) credible(w ferry.WriterID) bool {
	if r.roster.Epoch(w) == 0 {
		return false
	}
	b := r.chains[chain{w, r.roster.Epoch(w)}]
	return b == nil || b.fork == 0
}

// above orders heads, so that the same one is named whatever the order of a map.
func above(a, b ferry.Head) bool {
	if a.Writer != b.Writer {
		return a.Writer < b.Writer
	}
	return later(a, b) || a.Epoch == b.Epoch && a.Seq == b.Seq && a.ID32 < b.ID32
}

// witness keeps the heads that a record names and that are not here.
func (p *projector) witness(ctx context.Context, w ferry.WriterID, heads []ferry.Head) error {
	for _, h := range heads {
		s, err := p.standing(ctx, chain{h.Writer, h.Epoch})
		if err != nil {
			return err
		}
		if s.known && s.tip.seq >= h.Seq {
			continue
		}
		if _, err := p.q.ExecContext(ctx, `INSERT INTO saw VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
			SET epoch = excluded.epoch, seq = excluded.seq, id32 = excluded.id32
			WHERE (excluded.epoch, excluded.seq) > (epoch, seq)`,
			string(w), string(h.Writer), h.Epoch, h.Seq, h.ID32); err != nil {
			return err
		}
	}
	return nil
}

// missed gives the head that witnesses have named and that is not here, and the witness; ok is false when nothing is missing.
func (c *Channel) missed(ctx context.Context, roster *authority.Roster) (most ferry.Head, by ferry.WriterID, ok bool, err error) {
	type claim struct {
		ferry.Head
		by ferry.WriterID
	}
	var claims []claim
	err = each(ctx, c.db, func(rows *sql.Rows) error {
		var x claim
		err := rows.Scan(&x.by, &x.Writer, &x.Epoch, &x.Seq, &x.ID32)
		claims = append(claims, x)
		return err
	}, `SELECT witness, writer, epoch, seq, id32 FROM saw ORDER BY witness, writer`)
	if err != nil || len(claims) == 0 {
		return most, by, false, err
	}
	feeds := feedsOf(roster, "")
	for _, x := range claims {
		if !slices.Contains(feeds, x.Writer) || x.Epoch < roster.Epoch(x.Writer) || roster.Epoch(x.by) == 0 {
			continue
		}
		t, err := readTip(ctx, c.db, chain{x.Writer, x.Epoch})
		if err != nil {
			return most, by, false, err
		}
		var n int
		forked, err := one(ctx, c.db, []any{&n}, `SELECT 1 FROM forks WHERE writer = ? AND epoch = ? AND seq > 0`, string(x.by), roster.Epoch(x.by))
		if err != nil {
			return most, by, false, err
		}
		if !forked && t.seq < x.Seq && (!ok || above(x.Head, most)) {
			most, by, ok = x.Head, x.by, true
		}
	}
	return most, by, ok, nil
}

// Behind gives a head of a feed of authority that a record which counts has named and that is not here, and the writer of that
// record. It reports false when nothing of the authority is known to be missing.
func (c *Channel) Behind(ctx context.Context) (ferry.Head, ferry.WriterID, bool, error) {
	if err := c.sync(ctx); err != nil {
		return ferry.Head{}, "", false, err
	}
	return c.missed(ctx, c.authority())
}

// heads gives the heads that a record of a writer carries.
func (c *Channel) heads(ctx context.Context, roster *authority.Roster, own ferry.WriterID) ([]ferry.Head, error) {
	var out []ferry.Head
	for _, w := range feedsOf(roster, own) {
		ch := chain{w, roster.Epoch(w)}
		t, err := readTip(ctx, c.db, ch)
		if err != nil {
			return nil, err
		}
		if t.seq > 0 {
			out = append(out, ferry.Head{Writer: ch.writer, Epoch: ch.epoch, Seq: t.seq, ID32: t.id.String()[:32]})
		}
	}
	return out, nil
}

// behind puts what is missing of the authority into words, or gives "".
func (c *Channel) behind(ctx context.Context, roster *authority.Roster) (string, error) {
	h, by, ok, err := c.missed(ctx, roster)
	if !ok || err != nil {
		return "", err
	}
	of, _ := roster.Member(h.Writer)
	witness, _ := roster.Member(by)
	return fmt.Sprintf("%s has seen record %d of %s, which has not arrived here", witness.Name, h.Seq, of.Name), nil
}

// holdOf says why what the policies govern has to wait under a roster, or gives "".
func holdOf(roster *authority.Roster) string {
	if why := roster.Hold(); why != "" {
		return why
	}
	for _, kind := range []ferry.PolicyKind{ferry.PolicyEngine, ferry.PolicyAdversary, ferry.PolicySwitch} {
		if _, why := roster.Policy(kind); why != "" {
			return why
		}
	}
	if missing := ferry.Missing(roster.Requires()); len(missing) > 0 {
		return fmt.Sprintf("the policies in force need a newer ferry, for %v: upgrade ferry on this machine", missing)
	}
	return ""
}

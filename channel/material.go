package channel

import (
	"context"
	"database/sql"
	"slices"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
	"github.com/ferry-fleet/ferry/sign"
)

// indexed is the material of authority as the index and the store have it.
type indexed struct {
	ctx   context.Context
	c     *Channel
	q     querier
	trees map[chain]*tree // of chains that are no line, as far as they were asked for
}

func (c *Channel) indexed(ctx context.Context, q querier) *indexed {
	return &indexed{ctx: ctx, c: c, q: q, trees: map[chain]*tree{}}
}

// roster computes the roster of what the index has.
func (c *Channel) rosterOf(ctx context.Context, q querier) (*authority.Roster, error) {
	return evaluate(c.id, c.indexed(ctx, q))
}

func (x *indexed) load(query string, args ...any) ([]parsed, error) {
	at, err := places(x.ctx, x.q, `SELECT `+placeColumns+` FROM records WHERE `+query, args...)
	if err != nil {
		return nil, err
	}
	out := make([]parsed, 0, len(at))
	for _, pl := range at {
		p, err := x.c.load(pl)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func (x *indexed) rootFiles() ([]rooted, error) {
	found, err := x.load(`type = 'root' ORDER BY n`)
	if err != nil {
		return nil, err
	}
	var out []rooted
	for i := range found {
		if rec, _ := found[i].record(); rec.Body != nil {
			if _, is := rec.Body.(*ferry.Root); is {
				out = append(out, rooted{rec, found[i].file})
			}
		}
	}
	return out, nil
}

func (x *indexed) epochs(w ferry.WriterID) ([]uint32, error) {
	var out []uint32
	for last := uint32(0); ; {
		var next sql.NullInt64
		_, err := one(x.ctx, x.q, []any{&next}, `SELECT min(epoch) FROM records WHERE writer = ? AND epoch > ?`, string(w), last)
		if err != nil || !next.Valid {
			return out, err
		}
		last = uint32(next.Int64)
		out = append(out, last)
	}
}

func (x *indexed) starts(ch chain) ([]ferry.RecordID, error) {
	firsts, err := x.load(`writer = ? AND epoch = ? AND seq = 1 ORDER BY n`, string(ch.writer), ch.epoch)
	var out []ferry.RecordID
	for _, p := range firsts {
		if !slices.Contains(out, p.head.Prev) {
			out = append(out, p.head.Prev)
		}
	}
	return out, err
}

// line reports whether a chain is a line that begins behind a record.
func (x *indexed) line(ch chain, first ferry.RecordID) (bool, error) {
	var n int
	branched, err := one(x.ctx, x.q, []any{&n}, `SELECT 1 FROM forks WHERE writer = ? AND epoch = ?`, string(ch.writer), ch.epoch)
	if err != nil || branched {
		return false, err
	}
	starts, err := x.starts(ch)
	return err == nil && (len(starts) == 0 || len(starts) == 1 && starts[0] == first), err
}

// tree reads the headers of a whole chain, for what a line does not need.
func (x *indexed) tree(ch chain) (*tree, error) {
	if t := x.trees[ch]; t != nil {
		return t, nil
	}
	all, err := x.load(`writer = ? AND epoch = ? ORDER BY seq, n`, string(ch.writer), ch.epoch)
	if err != nil {
		return nil, err
	}
	t := newTree()
	for _, p := range all {
		t.add(p.id, node{p.head.Seq, p.head.Prev})
	}
	x.trees[ch] = t
	return t, nil
}

// statements gives a line by one query, and picks the branch of any other chain by its tree.
func (x *indexed) statements(ch chain, b bounds) (out []ferry.Record, whole bool, err error) {
	line, err := x.line(ch, b.first)
	if err != nil {
		return nil, false, err
	}
	var within func(parsed) bool
	if line {
		within, whole, err = x.stretch(ch, b)
	} else {
		within, whole, err = x.branch(ch, b)
	}
	if err != nil || !whole {
		return nil, false, err
	}
	out, err = x.chosen(ch, isStatement, within)
	return out, true, err
}

// stretch says which part of a line is within bounds.
func (x *indexed) stretch(ch chain, b bounds) (within func(parsed) bool, whole bool, err error) {
	if b.keep == nil {
		return func(p parsed) bool { return b.proof == 0 || p.head.Seq < b.proof }, true, nil
	}
	whole = b.keep.Seq == 0
	if !whole {
		whole, err = x.has(ch, *b.keep)
	}
	return func(p parsed) bool { return p.head.Seq <= uint64(b.keep.Seq) }, whole, err
}

func (x *indexed) has(ch chain, keep ferry.Cut) (bool, error) {
	var n int
	return one(x.ctx, x.q, []any{&n}, `SELECT n FROM records WHERE id = ? AND writer = ? AND epoch = ? AND seq = ?`,
		keep.ID[:], string(ch.writer), ch.epoch, keep.Seq)
}

func (x *indexed) branch(ch chain, b bounds) (within func(parsed) bool, whole bool, err error) {
	t, err := x.tree(ch)
	if err != nil {
		return nil, false, err
	}
	ids, whole := []ferry.RecordID(nil), true
	if b.keep == nil {
		ids, _ = t.trunk(b)
	} else {
		ids, whole = t.through(b.first, *b.keep)
	}
	return among(ids), whole, nil
}

func among(ids []ferry.RecordID) func(parsed) bool {
	set := make(map[ferry.RecordID]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return func(p parsed) bool { return set[p.id] }
}

func (x *indexed) chosen(ch chain, types string, within func(parsed) bool) ([]ferry.Record, error) {
	found, err := x.load(`writer = ? AND epoch = ? AND `+types+` ORDER BY seq`, string(ch.writer), ch.epoch)
	if err != nil {
		return nil, err
	}
	var out []ferry.Record
	for i := range found {
		if !within(found[i]) {
			continue
		}
		rec, _ := found[i].record()
		if rec = usedUp(rec); rec.Body != nil {
			out = append(out, rec)
		}
	}
	return out, nil
}

// isAct is what act is, for the index.
const isAct = `type IN ('verdict', 'approve', 'answer', 'cancel', 'interrupt', 'retire', 'reassign', 'order', 'admit', 'policy', 'checkpoint')`

func (x *indexed) acts(ch chain, b bounds) ([]ferry.Record, error) {
	t, err := x.tree(ch)
	if err != nil {
		return nil, err
	}
	_, ids := t.stand(b)
	return x.chosen(ch, isAct, among(ids))
}

func (x *indexed) proof(ch chain, key sign.PublicKey) (uint64, error) {
	found, err := x.load(`id IN (SELECT id FROM proofs WHERE writer = ? AND epoch = ?)`, string(ch.writer), ch.epoch)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	var proofs []*proof
	for i := range found {
		rec, _ := found[i].record()
		if b, is := rec.Body.(*ferry.ForkProof); is {
			if p, ok := newProof(x.c.id, b); ok {
				proofs = append(proofs, p)
			}
		}
	}
	return least(proofs, key), nil
}

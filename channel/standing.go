package channel

import (
	"context"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
)

// standing gives what is known of a chain, under the roster that the index was brought to.
func (p *projector) standing(ctx context.Context, ch chain) (*standing, error) {
	if s := p.chains[ch]; s != nil && (s.known || !p.stale) {
		return s, nil
	}
	if _, _, ok := p.roster.Key(ch.writer, ch.epoch); !ok && p.stale {
		if err := p.evaluate(ctx); err != nil {
			return nil, err
		}
	}
	b, err := boundsOf(p.roster, p.material, ch)
	if err != nil {
		return nil, err
	}
	s := &standing{bounds: b, fork: b.proof}
	if s.tip, err = readTip(ctx, p.q, ch); err != nil {
		return nil, err
	}
	var fork uint64
	if _, err := one(ctx, p.q, []any{&fork}, `SELECT seq FROM forks WHERE writer = ? AND epoch = ?`, string(ch.writer), ch.epoch); err != nil {
		return nil, err
	}
	if fork != 0 && (s.fork == 0 || fork < s.fork) {
		s.fork = fork
	}
	if b.keep != nil {
		s.kept = b.keep.Seq == 0 || s.tip.seq == uint64(b.keep.Seq) && s.tip.id == b.keep.ID
	}
	p.chains[ch] = s
	return s, nil
}

// place finds out whether a record counts in its chain, and takes aside what does not any more because of it.
func (p *projector) place(ctx context.Context, ch chain, r *parsed) (main bool, err error) {
	s, err := p.standing(ctx, ch)
	if err != nil {
		return false, err
	}
	n := node{r.head.Seq, r.head.Prev}
	where, err := s.place(r.id, n, func() (on bool, err error) {
		_, err = one(ctx, p.q, []any{&on}, `SELECT main FROM records WHERE id = ?`, r.head.Prev[:])
		return on, err
	})
	if err != nil || where == onBranch {
		return err == nil, err
	}
	if err := p.branched(ctx, ch, n.seq); err != nil {
		return false, err
	}
	switch where {
	case forking:
		p.stale = true
		if err := p.putAside(ctx, ch, n.seq); err != nil {
			return false, err
		}
		return false, p.forked(ctx, ch, s)
	case unclear:
		p.unclear[ch], p.stale = true, true
	}
	return false, nil
}

// branched notes that a chain is no line any more, when another of its records has the number already.
func (p *projector) branched(ctx context.Context, ch chain, seq uint64) error {
	_, err := p.q.ExecContext(ctx, `INSERT OR IGNORE INTO forks SELECT writer, epoch, 0, 0 FROM records
		WHERE writer = ? AND epoch = ? AND seq = ? LIMIT 1`, string(ch.writer), ch.epoch, seq)
	if err == nil {
		delete(p.material.trees, ch)
	}
	return err
}

// forked notes where a chain is forked, and whether anybody has answered it.
func (p *projector) forked(ctx context.Context, ch chain, s *standing) error {
	if s.fork == 0 {
		_, err := p.q.ExecContext(ctx, `UPDATE forks SET seq = 0, open = 0 WHERE writer = ? AND epoch = ?`, string(ch.writer), ch.epoch)
		return err
	}
	_, err := p.q.ExecContext(ctx, `INSERT INTO forks VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET seq = excluded.seq, open = excluded.open`,
		string(ch.writer), ch.epoch, s.fork, s.known && s.keep == nil)
	return err
}

func readTip(ctx context.Context, q querier, w chain) (tip, error) {
	return lastOf(ctx, q, w, ` AND main = 1`)
}

// lastOf gives the record of a chain with the highest number.
func lastOf(ctx context.Context, q querier, w chain, where string) (tip, error) {
	var t tip
	var id []byte
	_, err := one(ctx, q, []any{&t.seq, &id}, `SELECT seq, id FROM records WHERE writer = ? AND epoch = ?`+where+`
		ORDER BY seq DESC LIMIT 1`, string(w.writer), w.epoch)
	copy(t.id[:], id)
	return t, err
}

// putAside takes a chain from a number on off the branch that counts.
func (p *projector) putAside(ctx context.Context, ch chain, seq uint64) error {
	return p.mark(ctx, ch, false, `main = 1 AND seq >= ?`, seq)
}

// mark sets whether records of a chain count, and touches what they are about.
func (p *projector) mark(ctx context.Context, ch chain, main bool, where string, args ...any) error {
	where = ` WHERE writer = ? AND epoch = ? AND ` + where
	args = append([]any{string(ch.writer), ch.epoch}, args...)
	about, err := ids(ctx, p.q, `SELECT DISTINCT subject FROM records`+where+` AND subject IS NOT NULL`, args...)
	if err != nil {
		return err
	}
	for _, id := range about {
		p.touch(id)
	}
	_, err = p.q.ExecContext(ctx, `UPDATE records SET main = `+map[bool]string{true: "1", false: "0"}[main]+where, args...)
	return err
}

// rejudge computes anew which records of a chain count.
func (p *projector) rejudge(ctx context.Context, ch chain, b bounds) error {
	p.rejudged = append(p.rejudged, ch.writer)
	delete(p.chains, ch)
	line, err := p.material.line(ch, b.first)
	if err != nil {
		return err
	}
	if !line || !b.known {
		return p.regrow(ctx, ch, b)
	}
	last := int64(1) << 62
	if b.proof != 0 {
		last = int64(b.proof) - 1
	}
	if b.keep != nil {
		here, err := p.material.has(ch, *b.keep)
		switch {
		case err != nil:
			return err
		case here || b.keep.Seq == 0:
			last = b.keep.Seq
		default: // as stand has it
			last = min(last, b.keep.Seq-1)
		}
	}
	if err := p.mark(ctx, ch, true, `main = 0 AND seq <= ?`, last); err != nil {
		return err
	}
	if err := p.mark(ctx, ch, false, `main = 1 AND seq > ?`, last); err != nil {
		return err
	}
	if b.proof == 0 {
		return nil
	}
	return p.forked(ctx, ch, &standing{bounds: b, fork: b.proof})
}

// regrow is rejudge for a chain that is no line.
func (p *projector) regrow(ctx context.Context, ch chain, b bounds) error {
	delete(p.material.trees, ch)
	t, err := p.material.tree(ch)
	if err != nil {
		return err
	}
	s, main := t.stand(b)
	counts := make(map[ferry.RecordID]bool, len(main))
	for _, id := range main {
		counts[id] = true
	}
	at, err := places(ctx, p.q, `SELECT `+placeColumns+` FROM records WHERE writer = ? AND epoch = ?`, string(ch.writer), ch.epoch)
	if err != nil {
		return err
	}
	for _, pl := range at {
		if pl.main == counts[pl.id] {
			continue
		}
		if err := p.mark(ctx, ch, counts[pl.id], `id = ?`, pl.id[:]); err != nil {
			return err
		}
	}
	p.chains[ch] = &s
	return p.forked(ctx, ch, &s)
}

// evaluate brings the roster up to date, and queues what counts otherwise under it.
func (p *projector) evaluate(ctx context.Context) error {
	p.stale, p.ruled = false, true
	before := p.roster
	roster, err := evaluate(p.c.id, p.material)
	if err != nil {
		return err
	}
	p.roster, p.rejudged = roster, nil
	for _, ch := range append(chainsOf(before), chainsOf(roster)...) {
		then, was := bare(before, ch)
		now, is := bare(roster, ch)
		if was == is && then.equal(now) && !p.unclear[ch] {
			continue
		}
		delete(p.unclear, ch)
		b, err := boundsOf(roster, p.material, ch)
		if err == nil {
			err = p.rejudge(ctx, ch, b)
		}
		if err != nil {
			return err
		}
	}
	return p.recount(ctx, before)
}

// recount touches the orders of those whose records may count otherwise than under the roster before.
func (p *projector) recount(ctx context.Context, before *authority.Roster) error {
	writers, all := differ(before, p.roster)
	if err := p.touchRedacted(ctx); err != nil {
		return err
	}
	delegates, err := p.delegates()
	if err != nil {
		return err
	}
	writers = delegates.recounted(writers, p.rejudged)
	query, args := `SELECT DISTINCT subject FROM records WHERE subject IS NOT NULL`, [][]any{nil}
	if !all {
		query, args = query+` AND writer = ?`, nil
		for _, w := range writers {
			args = append(args, []any{string(w)})
		}
	}
	for _, a := range args {
		about, err := ids(ctx, p.q, query, a...)
		if err != nil {
			return err
		}
		for _, id := range about {
			p.touch(id)
		}
	}
	return nil
}

// delegates gives the writers that were ever made delegates.
func (p *projector) delegates() (trusted, error) {
	if p.trusted != nil {
		return p.trusted, nil
	}
	found, err := p.material.load(isStatement + ` AND type = 'delegate'`)
	if err != nil {
		return nil, err
	}
	p.trusted = trusted{}
	for i := range found {
		rec, _ := found[i].record()
		if b, is := rec.Body.(*ferry.Delegate); is {
			p.trusted.note(b)
		}
	}
	return p.trusted, nil
}

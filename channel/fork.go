package channel

import (
	"context"
	"database/sql"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/sign"
)

// proof is a fork-proof in a form that can hold: two headers of one channel with one number and different ids. Whether it
// holds depends on the key of their writer.
type proof struct {
	ch   chain
	seq  uint64
	tops [2][]byte
	by   map[sign.PublicKey]bool // what holds found out
}

// newProof takes a fork-proof apart; ok is false when it cannot hold under any key.
func newProof(channel ferry.RecordID, b *ferry.ForkProof) (p *proof, ok bool) {
	if len(b.Headers) != 2 || b.Epoch < 1 || b.Epoch > sign.MaxEpoch || b.Seq < 1 || b.Seq > sign.MaxSeq {
		return nil, false
	}
	p = &proof{ch: chain{b.Writer, uint32(b.Epoch)}, seq: uint64(b.Seq), by: map[sign.PublicKey]bool{}}
	var ids [2]ferry.RecordID
	for i, text := range b.Headers {
		top, err := sign.ParseTop([]byte(text))
		if err != nil {
			return nil, false
		}
		h := top.Header()
		ids[i] = top.ID()
		of := chain{ferry.WriterID(h.Writer), h.Epoch}
		if of != p.ch || h.Seq != p.seq || ferry.RecordID(h.Channel) != channel && ids[i] != channel {
			return nil, false
		}
		p.tops[i] = []byte(text)
	}
	return p, ids[0] != ids[1]
}

// holds reports whether a key signed both headers.
func (p *proof) holds(key sign.PublicKey) bool {
	if known, looked := p.by[key]; looked {
		return known
	}
	ok := true
	for _, top := range p.tops {
		if _, err := sign.OpenTop(top, key); err != nil {
			ok = false
		}
	}
	p.by[key] = ok
	return ok
}

// least gives the smallest number that the proofs show to be signed twice by a key, or 0.
func least(proofs []*proof, key sign.PublicKey) (seq uint64) {
	for _, p := range proofs {
		if (seq == 0 || p.seq < seq) && p.holds(key) {
			seq = p.seq
		}
	}
	return seq
}

// forkProof makes the proof from the files of two records with one number.
func forkProof(ch chain, seq uint64, files [2][]byte) (*ferry.ForkProof, error) {
	out := &ferry.ForkProof{Writer: ch.writer, Epoch: int64(ch.epoch), Seq: int64(seq)}
	for _, f := range files {
		u, err := formOf(f)
		if err != nil {
			return nil, err
		}
		out.Headers = append(out.Headers, string(u.Top()))
	}
	return out, nil
}

// proves keeps a fork-proof, and lets its chain be computed anew if it holds.
func (p *projector) proves(ctx context.Context, id ferry.RecordID, b *ferry.ForkProof) error {
	pr, ok := newProof(p.c.id, b)
	if !ok {
		return nil
	}
	if _, err := p.q.ExecContext(ctx, `INSERT OR IGNORE INTO proofs VALUES (?, ?, ?, ?)`,
		id[:], string(pr.ch.writer), pr.ch.epoch, pr.seq); err != nil {
		return err
	}
	if key, _, ok := p.roster.Key(pr.ch.writer, pr.ch.epoch); ok && pr.holds(key) {
		p.unclear[pr.ch], p.stale = true, true
	}
	return nil
}

// maxEvidence bounds the proofs that one write adds.
const maxEvidence = 4

// evidence adds the proofs of forks that nobody has shown yet. A write does not fail because of one.
func (tx *Tx) evidence(ctx context.Context) {
	type fork struct {
		chain
		seq uint64
	}
	var open []fork
	err := each(ctx, tx.q, func(rows *sql.Rows) error {
		var f fork
		err := rows.Scan(&f.writer, &f.epoch, &f.seq)
		open = append(open, f)
		return err
	}, `SELECT writer, epoch, seq FROM forks WHERE open = 1 AND seq > 0 AND writer <> ? ORDER BY writer, epoch LIMIT ?`,
		string(tx.w.id), maxEvidence)
	for _, f := range open {
		if err == nil {
			err = tx.prove(ctx, f.chain, f.seq)
		}
	}
	if err != nil {
		tx.c.log.Warn("a fork is not shown to the others yet", "err", err)
	}
}

func (tx *Tx) prove(ctx context.Context, ch chain, seq uint64) error {
	x := tx.c.indexed(ctx, tx.q)
	key, _, _ := tx.roster.Key(ch.writer, ch.epoch)
	if shown, err := x.proof(ch, key); err != nil || shown != 0 && shown <= seq {
		return err
	}
	twins, err := x.load(`writer = ? AND epoch = ? AND seq = ? ORDER BY id LIMIT 2`, string(ch.writer), ch.epoch, seq)
	if err != nil || len(twins) < 2 {
		return err
	}
	b, err := forkProof(ch, seq, [2][]byte{twins[0].file, twins[1].file})
	if err == nil {
		_, err = tx.Add(b)
	}
	return err
}

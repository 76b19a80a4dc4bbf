package channel

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/sign"
)

// projector brings the index up to date with frames of the store, inside of one transaction.
type projector struct {
	reader
	late     *late
	material *indexed
	version  int64
	turn     int64 // of the roster
	chains   map[chain]*standing
	unclear  map[chain]bool // to be computed anew
	rejudged []ferry.WriterID
	trusted  trusted          // nil where it has to be read
	touched  []ferry.RecordID // orders to fold
	queued   map[ferry.RecordID]bool
	naked    map[ferry.RecordID]bool         // bare records that may be read otherwise
	found    map[ferry.RecordID]*lookup      // of the orders that are being folded
	folded   []foldedOrder                   // of those, what the index does not have yet
	own      map[chain]uint64                // the highest number of these frames that this machine signed
	heads    map[ferry.WriterID][]ferry.Head // what the last record of each writer that counts has seen
	known    map[ferry.RecordID]depended
	stale    bool         // something came in that the roster may depend on
	ruled    bool         // the roster was computed anew
	ended    func() error // why to stop, or nil
}

// apply indexes frames that the log holds up to the offset end. It needs the lock.
func (c *Channel) apply(ctx context.Context, frames []frame, end int64) error {
	ended := ctx.Err
	// A context that can end costs a goroutine for every statement.
	ctx = context.WithoutCancel(ctx)
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing; before it, the error is known already
	p, err := c.newProjector(ctx, tx)
	if err != nil {
		return err
	}
	p.ended = ended
	for _, f := range frames {
		if err := errors.Join(ended(), p.add(ctx, f)); err != nil {
			return fmt.Errorf("index the record at %d: %w", f.off, err)
		}
	}
	if err := p.fold(ctx); err != nil {
		return err
	}
	if err := p.witnesses(ctx); err != nil {
		return err
	}
	if err := errors.Join(p.finish(ctx, end), p.late.insert(ctx)); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roster, c.turn, c.synced = p.roster, p.turn, end
	return nil
}

// finish writes how far the index is.
func (p *projector) finish(ctx context.Context, end int64) error {
	if p.ruled {
		p.turn++
		// What was refused under another roster is looked at again.
		if _, err := p.q.ExecContext(ctx, `DELETE FROM dirs WHERE dir IN (SELECT dir FROM rejected)`); err != nil {
			return err
		}
	}
	for ch, seq := range p.own {
		if err := p.mine(ctx, ch, seq); err != nil {
			return err
		}
	}
	_, err := p.q.ExecContext(ctx, `UPDATE state SET off = ?, version = ?, roster = ?`, end, p.version, p.turn)
	return err
}

func (c *Channel) newProjector(ctx context.Context, tx *sql.Tx) (*projector, error) {
	late := newLate(tx)
	p := &projector{
		reader: reader{c: c, q: late, roster: c.authority(), fresh: late.fresh},
		late:   late, material: c.indexed(ctx, late), chains: map[chain]*standing{}, unclear: map[chain]bool{},
		own: map[chain]uint64{}, heads: map[ferry.WriterID][]ferry.Head{},
		queued: map[ferry.RecordID]bool{}, naked: map[ferry.RecordID]bool{}, known: map[ferry.RecordID]depended{},
	}
	_, err := one(ctx, tx, []any{&p.version, &p.turn}, `SELECT version + 1, roster FROM state`)
	return p, err
}

// add indexes one frame. What is there already is passed over.
func (p *projector) add(ctx context.Context, f frame) error {
	r, err := f.parse()
	if err != nil {
		p.unreadable(f, err)
		return nil
	}
	r.off, r.own = f.off, f.own
	ch := chain{ferry.WriterID(r.head.Writer), r.head.Epoch}
	if f.suspect {
		if _, err := p.standing(ctx, ch); err != nil { // it lets the roster know of what came before
			return err
		}
		if !p.genuine(f, ch) {
			p.unreadable(f, sign.ErrUnverified)
			return nil
		}
	}
	if f.own {
		p.own[ch] = max(p.own[ch], r.head.Seq)
	}
	if f.suspect {
		follows, err := p.follows(ctx, ch, r)
		if err != nil || !follows {
			return err // it comes from the folder again, behind its predecessor
		}
	}
	if have, err := p.has(ctx, ch, r); have || err != nil {
		return errors.Join(err, p.fill(ctx, r))
	}
	main, err := p.place(ctx, ch, r)
	if err != nil {
		return err
	}
	return p.enter(ctx, ch, r, main)
}

// enter inserts a record and draws the consequences beyond its chain.
func (p *projector) enter(ctx context.Context, ch chain, r *parsed, main bool) error {
	rec, _ := r.record()
	subject, ok := subject(rec)
	p.late.hold(arrival{r, subject, main})
	if ok {
		p.touch(subject)
	}
	if err := p.stands(ctx, r); err != nil {
		return err
	}
	if statement(ferry.Type(r.head.Type)) {
		p.stale = true
	}
	if err := p.acted(ch.writer, ferry.Type(r.head.Type)); err != nil {
		return err
	}
	switch b := rec.Body.(type) {
	case *ferry.Delegate:
		p.trusted = nil
	case *ferry.Redact:
		if err := p.redacts(ctx, r.id, b); err != nil {
			return err
		}
	case *ferry.ForkProof:
		if err := p.proves(ctx, r.id, b); err != nil {
			return err
		}
	}
	if main {
		p.heads[ch.writer] = rec.Saw
	}
	return nil
}

// acted notes that a record may use up a delegation.
func (p *projector) acted(w ferry.WriterID, t ferry.Type) error {
	if m, _ := p.roster.Master(); !act(t) || m.Writer == w {
		return nil
	}
	delegates, err := p.delegates()
	p.stale = p.stale || delegates[w]
	return err
}

// has reports whether a record is in the index already. What follows the last record of its chain is not.
func (p *projector) has(ctx context.Context, ch chain, r *parsed) (bool, error) {
	s, err := p.standing(ctx, ch)
	if err != nil || s.known && s.keep == nil && s.fork == 0 && r.head.Seq == s.tip.seq+1 && r.head.Prev == s.end() {
		return false, err
	}
	var n int
	return one(ctx, p.q, []any{&n}, `SELECT n FROM records WHERE id = ?`, r.id[:])
}

// unreadable passes over a frame whose bytes are not a record. Verify reports it.
func (p *projector) unreadable(f frame, err error) {
	p.c.log.Warn("a frame of the store is not a record", "offset", f.off, "err", err)
}

// genuine checks the signature of a record that was found behind damage.
func (p *projector) genuine(f frame, w chain) bool {
	key, _, ok := p.roster.Key(w.writer, w.epoch)
	if !ok {
		return false
	}
	u, err := formOf(f.data)
	if err == nil {
		_, err = openForm(u, key)
	}
	return err == nil
}

// follows reports whether the predecessor of a record is here, which is certain but behind damage.
func (p *projector) follows(ctx context.Context, w chain, r *parsed) (bool, error) {
	if r.head.Seq == 1 {
		return true, nil
	}
	var n int
	return one(ctx, p.q, []any{&n}, `SELECT n FROM records WHERE id = ? AND writer = ? AND epoch = ? AND seq = ?`,
		r.head.Prev[:], string(w.writer), w.epoch, r.head.Seq-1)
}

// mine notes the highest number that this machine signed for a writer, and that the writer's directory has to be looked at:
// the files of what is being indexed may be missing from it.
func (p *projector) mine(ctx context.Context, ch chain, seq uint64) error {
	if _, err := p.q.ExecContext(ctx, `INSERT INTO own VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET seq = max(seq, excluded.seq)`,
		string(ch.writer), ch.epoch, seq); err != nil {
		return err
	}
	_, err := p.q.ExecContext(ctx, `DELETE FROM dirs WHERE dir = ?`, recordsPath(ch.writer))
	return err
}

func (p *projector) touch(id ferry.RecordID) {
	if !p.queued[id] {
		p.queued[id] = true
		p.touched = append(p.touched, id)
	}
}

// fold computes the touched orders again, and those that depend on one whose state changed, until nothing changes. It ends,
// because an order can only depend on orders that existed before it.
func (p *projector) fold(ctx context.Context) error {
	if p.stale {
		if err := p.evaluate(ctx); err != nil {
			return err
		}
	}
	if err := p.dress(ctx); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	for len(p.touched) > 0 {
		if err := p.ended(); err != nil {
			return fmt.Errorf("index: %w", err)
		}
		n, err := p.lookUp(ctx, p.touched)
		if err != nil {
			return err
		}
		now := p.touched[:n]
		p.touched = p.touched[n:]
		for _, id := range now {
			delete(p.queued, id)
			if err := p.foldOne(ctx, id, p.found[id]); err != nil {
				return fmt.Errorf("fold order %s: %w", id.Short(), err)
			}
		}
		if err := p.store(ctx); err != nil {
			return fmt.Errorf("index: %w", err)
		}
	}
	return nil
}

func (p *projector) foldOne(ctx context.Context, id ferry.RecordID, l *lookup) error {
	recs, err := p.records(ctx, l.about)
	for _, r := range l.held {
		if err == nil {
			rec, _ := r.record()
			rec, err = p.amend(ctx, rec)
			recs = append(recs, rec)
		}
	}
	if err != nil {
		return err
	}
	h, ok := assemble(p.c.id, id, recs, p.roster)
	delete(p.known, id)
	if !ok {
		return p.withdraw(ctx, id, l)
	}
	view := ferry.View{Judge: p.c.cfg.Judge, Depend: func(dep ferry.RecordID) (ferry.Label, ferry.State, bool) {
		d, depErr := p.depend(ctx, dep)
		err = errors.Join(err, depErr)
		return d.label, d.state, d.known
	}}
	t := ferry.Fold(h, view)
	if err != nil {
		return err
	}
	if err := p.put(ctx, &t, l); err != nil {
		return err
	}
	if l.n == 0 || string(t.State) != l.state {
		p.wake(l)
	}
	return nil
}

// withdraw takes out an order that does not count any more, because another branch took the place of its own.
func (p *projector) withdraw(ctx context.Context, id ferry.RecordID, l *lookup) error {
	if l.n == 0 {
		return nil
	}
	if _, err := p.q.ExecContext(ctx, `DELETE FROM orders WHERE id = ?`, id[:]); err != nil {
		return err
	}
	if _, err := p.q.ExecContext(ctx, `UPDATE state SET withdrawn = ?`, p.version); err != nil {
		return err
	}
	p.wake(l)
	return nil
}

func (p *projector) wake(l *lookup) {
	for _, id := range l.waiting {
		p.touch(id)
	}
}

// foldedOrder is a task as the index keeps it.
type foldedOrder struct {
	*ferry.Task
	text []byte
}

// put takes a task for store, and for those that depend on it.
func (p *projector) put(ctx context.Context, t *ferry.Task, l *lookup) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	p.folded = append(p.folded, foldedOrder{t, text})
	p.known[t.ID] = depended{t.Order.Label, t.State, true}
	if l.n != 0 {
		return nil
	}
	for _, dep := range t.Order.DependsOn {
		if _, err := p.q.ExecContext(ctx, `INSERT OR IGNORE INTO deps VALUES (?, ?)`, dep[:], t.ID[:]); err != nil {
			return err
		}
		if l := p.found[dep]; l != nil {
			l.waiting = append(l.waiting, t.ID)
		}
	}
	return nil
}

// store writes the folded orders into the index.
func (p *projector) store(ctx context.Context) error {
	into := rowsInto{
		"INSERT INTO orders (id, label, state, active, asks, issued, version, task)", 8, ` ON CONFLICT (id) DO UPDATE SET
		state = excluded.state, active = excluded.active, asks = excluded.asks, version = excluded.version, task = excluded.task`,
	}
	err := insertRows(ctx, p.q, into, len(p.folded), func(args []any, i int) []any {
		t := p.folded[i]
		asks := len(t.Questions) > 0 && !t.State.Final()
		return append(args, t.ID[:], string(t.Order.Label), string(t.State), t.Active(), asks, t.IssuedAt.UnixMilli(), p.version, t.text)
	})
	clear(p.folded)
	p.folded = p.folded[:0]
	return err
}

func (p *projector) depend(ctx context.Context, id ferry.RecordID) (depended, error) {
	if d, ok := p.known[id]; ok {
		return d, nil
	}
	d, err := readDepended(ctx, p.q, id)
	if err == nil {
		p.known[id] = d
	}
	return d, err
}

package channel

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
	"github.com/ferry-fleet/ferry/sign"
)

// chain names one epoch of one writer.
type chain struct {
	writer ferry.WriterID
	epoch  uint32
}

// tip is the last record of the branch of a chain that counts.
type tip struct {
	seq uint64
	id  ferry.RecordID
}

// projector brings the index up to date with frames of the store, inside of one transaction.
type projector struct {
	reader
	insert  *sql.Stmt
	version int64
	tips    map[chain]tip
	touched []ferry.RecordID // orders to fold
	queued  map[ferry.RecordID]bool
	known   map[ferry.RecordID]depended
	ruled   bool // a statement came in or lost its place: the roster changes
}

// apply indexes frames that the log holds up to the offset end. It needs the lock.
func (c *Channel) apply(ctx context.Context, frames []frame, end int64) error {
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing; before it, the error is known already
	p, err := c.newProjector(ctx, tx)
	if err != nil {
		return err
	}
	for _, f := range frames {
		if err := p.add(ctx, f); err != nil {
			return fmt.Errorf("index the record at %d: %w", f.off, err)
		}
	}
	if err := p.fold(ctx); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE state SET off = ?, version = ?`, end, p.version); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	return c.remember(ctx, end)
}

func (c *Channel) newProjector(ctx context.Context, tx *sql.Tx) (*projector, error) {
	_, version, err := progress(ctx, tx)
	if err != nil {
		return nil, err
	}
	insert, err := tx.PrepareContext(ctx, `INSERT OR IGNORE INTO records
		(id, writer, epoch, seq, type, subject, main, off, size) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	return &projector{
		reader: reader{c: c, q: tx, roster: c.authority(), fresh: map[ferry.RecordID]parsed{}},
		insert: insert, version: version + 1, tips: map[chain]tip{},
		queued: map[ferry.RecordID]bool{}, known: map[ferry.RecordID]depended{},
	}, nil
}

// add indexes one frame. What is there already is passed over.
func (p *projector) add(ctx context.Context, f frame) error {
	r, err := parseStored(f.data)
	if err != nil {
		p.unreadable(f, err)
		return nil
	}
	r.off, r.own = f.off, f.own
	w := chain{ferry.WriterID(r.head.Writer), r.head.Epoch}
	if f.suspect && !p.genuine(f, w) {
		p.unreadable(f, sign.ErrUnverified)
		return nil
	}
	if f.own {
		if err := p.mine(ctx, w.writer, r.head.Seq); err != nil {
			return err
		}
	}
	if f.suspect {
		follows, err := p.follows(ctx, w, &r)
		if err != nil || !follows {
			return err // it comes from the folder again, behind its predecessor
		}
	}
	main, err := p.place(ctx, w, &r)
	if err != nil {
		return err
	}
	rec, _ := r.record()
	var about any
	subject, ok := subject(rec)
	if ok {
		about = subject[:]
	}
	done, err := p.insert.ExecContext(ctx, r.id[:], string(w.writer), w.epoch, r.head.Seq, r.head.Type, about, main, r.off, r.size)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); n == 0 || err != nil {
		return err
	}
	p.fresh[r.id] = r
	if ok {
		p.touch(subject)
	}
	if statement(r.head.Type) && main {
		return p.rule(ctx)
	}
	return nil
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
	_, err := sign.Open(f.data, key)
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
func (p *projector) mine(ctx context.Context, w ferry.WriterID, seq uint64) error {
	if _, err := p.q.ExecContext(ctx, `INSERT INTO own VALUES (?, ?) ON CONFLICT DO UPDATE SET seq = max(seq, excluded.seq)`, string(w), seq); err != nil {
		return err
	}
	_, err := p.q.ExecContext(ctx, `DELETE FROM dirs WHERE dir = ?`, recordsPath(w))
	return err
}

func statement(t string) bool { return t == string(ferry.TypeRoot) || t == string(ferry.TypeAdmit) }

// place reports whether a record is on the branch of its chain that counts: from the first record on, the successor with
// the smallest id. A record that takes the place of another puts that one and its followers aside.
func (p *projector) place(ctx context.Context, w chain, r *parsed) (main bool, err error) {
	t, err := p.tip(ctx, w)
	if err != nil {
		return false, err
	}
	if r.head.Seq == t.seq+1 && (t.seq == 0 || r.head.Prev == t.id) {
		p.tips[w] = tip{r.head.Seq, r.id}
		return true, nil
	}
	if r.head.Seq > 1 {
		var on bool
		if _, err := one(ctx, p.q, []any{&on}, `SELECT main FROM records WHERE id = ?`, r.head.Prev[:]); err != nil || !on {
			return false, err
		}
	}
	var holder []byte
	found, err := one(ctx, p.q, []any{&holder}, `SELECT id FROM records WHERE writer = ? AND epoch = ? AND seq = ? AND main = 1`,
		string(w.writer), w.epoch, r.head.Seq)
	if err != nil || found && string(holder) <= string(r.id[:]) {
		return false, err
	}
	if err := p.putAside(ctx, w, r.head.Seq); err != nil {
		return false, err
	}
	p.tips[w] = tip{r.head.Seq, r.id}
	return true, nil
}

func (p *projector) tip(ctx context.Context, w chain) (tip, error) {
	if t, ok := p.tips[w]; ok {
		return t, nil
	}
	t, err := readTip(ctx, p.q, w)
	if err == nil {
		p.tips[w] = t
	}
	return t, err
}

func readTip(ctx context.Context, q querier, w chain) (tip, error) {
	var t tip
	var id []byte
	_, err := one(ctx, q, []any{&t.seq, &id}, `SELECT seq, id FROM records WHERE writer = ? AND epoch = ? AND main = 1
		ORDER BY seq DESC LIMIT 1`, string(w.writer), w.epoch)
	copy(t.id[:], id)
	return t, err
}

// putAside takes a chain from a number on off the branch that counts.
func (p *projector) putAside(ctx context.Context, w chain, seq uint64) error {
	const where = ` FROM records WHERE writer = ? AND epoch = ? AND seq >= ? AND main = 1`
	about, err := ids(ctx, p.q, `SELECT DISTINCT subject`+where+` AND subject IS NOT NULL`, string(w.writer), w.epoch, seq)
	if err != nil {
		return err
	}
	for _, id := range about {
		p.touch(id)
	}
	var statements int
	if _, err := one(ctx, p.q, []any{&statements}, `SELECT count(*)`+where+` AND type IN ('root', 'admit')`, string(w.writer), w.epoch, seq); err != nil {
		return err
	}
	_, err = p.q.ExecContext(ctx, `UPDATE records SET main = 0 WHERE writer = ? AND epoch = ? AND seq >= ? AND main = 1`,
		string(w.writer), w.epoch, seq)
	if err == nil && statements > 0 {
		p.ruled = true
	}
	return err
}

// rule builds the roster again after a statement, and queues what may count now.
func (p *projector) rule(ctx context.Context) error {
	before := p.roster
	statements, err := p.c.statements(ctx, p.q)
	if err != nil {
		return err
	}
	p.roster = authority.Build(statements, p.c.id)
	for _, m := range p.roster.Members() {
		old, was := before.Member(m.Writer)
		if was && len(old.Grants) == len(m.Grants) {
			continue
		}
		about, err := ids(ctx, p.q, `SELECT DISTINCT subject FROM records WHERE writer = ? AND subject IS NOT NULL`, string(m.Writer))
		if err != nil {
			return err
		}
		for _, id := range about {
			p.touch(id)
		}
	}
	return nil
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
	if p.ruled {
		if err := p.refoldAll(ctx); err != nil {
			return err
		}
	}
	for len(p.touched) > 0 {
		id := p.touched[0]
		p.touched = p.touched[1:]
		delete(p.queued, id)
		if err := p.foldOne(ctx, id); err != nil {
			return fmt.Errorf("fold order %s: %w", id.Short(), err)
		}
	}
	return nil
}

// refoldAll follows a fork among the statements themselves: what anybody may do can have changed.
func (p *projector) refoldAll(ctx context.Context) error {
	statements, err := p.c.statements(ctx, p.q)
	if err != nil {
		return err
	}
	p.roster = authority.Build(statements, p.c.id)
	all, err := ids(ctx, p.q, `SELECT id FROM records WHERE type = 'order' AND subject IS NOT NULL`)
	for _, id := range all {
		p.touch(id)
	}
	return err
}

func (p *projector) foldOne(ctx context.Context, id ferry.RecordID) error {
	var n int64
	var state string
	had, err := one(ctx, p.q, []any{&n, &state}, `SELECT n, state FROM orders WHERE id = ?`, id[:])
	if err != nil {
		return err
	}
	h, ok, err := p.history(ctx, id)
	if err != nil {
		return err
	}
	delete(p.known, id)
	if !ok {
		return p.withdraw(ctx, id, had)
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
	if err := p.put(ctx, &t, n); err != nil {
		return err
	}
	if had && string(t.State) == state {
		return nil
	}
	return p.wake(ctx, id)
}

// withdraw takes out an order that does not count any more, because another branch took the place of its own.
func (p *projector) withdraw(ctx context.Context, id ferry.RecordID, had bool) error {
	if !had {
		return nil
	}
	if _, err := p.q.ExecContext(ctx, `DELETE FROM orders WHERE id = ?`, id[:]); err != nil {
		return err
	}
	if _, err := p.q.ExecContext(ctx, `UPDATE state SET withdrawn = ?`, p.version); err != nil {
		return err
	}
	return p.wake(ctx, id)
}

func (p *projector) wake(ctx context.Context, dep ferry.RecordID) error {
	waiting, err := ids(ctx, p.q, `SELECT ord FROM deps WHERE dep = ?`, dep[:])
	for _, id := range waiting {
		p.touch(id)
	}
	return err
}

func (p *projector) put(ctx context.Context, t *ferry.Task, n int64) error {
	task, err := json.Marshal(t)
	if err != nil {
		return err
	}
	asks := len(t.Questions) > 0 && !t.State.Final()
	if n != 0 {
		_, err = p.q.ExecContext(ctx, `UPDATE orders SET state = ?, active = ?, asks = ?, version = ?, task = ? WHERE n = ?`,
			string(t.State), t.Active(), asks, p.version, task, n)
		return err
	}
	for _, dep := range t.Order.DependsOn {
		if _, err := p.q.ExecContext(ctx, `INSERT OR IGNORE INTO deps VALUES (?, ?)`, dep[:], t.ID[:]); err != nil {
			return err
		}
	}
	_, err = p.q.ExecContext(ctx, `INSERT INTO orders (id, label, state, active, asks, issued, version, task) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		t.ID[:], string(t.Order.Label), string(t.State), t.Active(), asks, t.IssuedAt.UnixMilli(), p.version, task)
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

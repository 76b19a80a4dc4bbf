package channel

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
)

// Errors of a reference to an order. Their text says what to type instead.
var (
	ErrNoOrder   = errors.New("no such order")
	ErrAmbiguous = errors.New("several orders fit")
)

// Snapshot is what a worker has to look at, as of one version of the index. It must not be changed.
type Snapshot struct {
	Version  int64
	Active   []ferry.Task // by time of issue, then id
	Rejected []Rejected   // what in the folder is not read now
	Behind   string       // which record of the authority is missing here and waited for, in words; empty when none is
	Doubts   []Doubt      // what is not waited for any more
	Hold     string       // why nothing that a policy governs may be done here, in words; empty when it may
}

// Filter chooses tasks. The zero Filter chooses all.
type Filter struct {
	States []ferry.State
	Limit  int // 0 means no limit
}

// Entry is one record of the ledger.
type Entry struct {
	ferry.Record
	Type    ferry.Type // also where this version does not know it and Body is nil
	Counted bool
	Why     string // why it does not count
	Size    int    // bytes of its file
}

// OpenQuestion is a question that waits for a person, with the task it is about.
type OpenQuestion struct {
	Task ferry.Task
	ferry.Open
}

// Snapshot gives the active tasks. While nothing changes it gives the same pointer again, at the price of one fstat.
func (c *Channel) Snapshot(ctx context.Context) (*Snapshot, error) {
	size, err := c.store.size()
	if err != nil {
		return nil, fmt.Errorf("look at the store: %w", err)
	}
	c.mu.Lock()
	current := c.current
	fresh := current != nil && current.Behind == "" && c.shown == snapshotStamp{size, c.changes} // a wait ends without a change
	c.mu.Unlock()
	if fresh {
		return current, nil
	}
	if err := c.sync(ctx); err != nil {
		return nil, err
	}
	return c.build(ctx, size)
}

// snapshotStamp tells whether a snapshot is of now.
type snapshotStamp struct{ size, changes int64 }

// build makes a snapshot from the one before and the tasks that changed since.
func (c *Channel) build(ctx context.Context, size int64) (*Snapshot, error) {
	c.building.Lock()
	defer c.building.Unlock()
	c.mu.Lock()
	stamp, seen := snapshotStamp{size, c.changes}, int64(-1)
	if c.current != nil {
		seen = c.current.Version
	}
	c.mu.Unlock()
	// No transaction: what changes between these queries has a higher version, and is read again by the next build.
	var version, withdrawn int64
	if _, err := one(ctx, c.db, []any{&version, &withdrawn}, `SELECT version, withdrawn FROM state`); err != nil {
		return nil, err
	}
	if withdrawn > seen {
		clear(c.active)
		seen = -1
	}
	if err := c.update(ctx, c.db, seen); err != nil {
		return nil, err
	}
	s := &Snapshot{Version: version, Active: make([]ferry.Task, 0, len(c.active))}
	for _, t := range c.active {
		s.Active = append(s.Active, t)
	}
	slices.SortFunc(s.Active, func(a, b ferry.Task) int {
		return cmp.Or(a.IssuedAt.Compare(b.IssuedAt), bytes.Compare(a.ID[:], b.ID[:]))
	})
	rejected, err := rejections(ctx, c.db)
	if err != nil {
		return nil, err
	}
	s.Rejected = rejected
	roster := c.authority()
	s.Hold = holdOf(roster)
	if s.Behind, err = c.behind(ctx, roster); err != nil {
		return nil, err
	}
	if s.Doubts, err = c.doubtful(ctx, roster); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current, c.shown = s, stamp
	return s, nil
}

// update brings the active tasks from one version of the index to the present one.
func (c *Channel) update(ctx context.Context, q querier, seen int64) error {
	query := `SELECT id, active, CASE active WHEN 1 THEN task END FROM orders WHERE version > ?`
	if seen < 0 {
		query = `SELECT id, active, task FROM orders WHERE active = 1 AND version > ?`
	}
	return each(ctx, q, func(rows *sql.Rows) error {
		var id, task sql.RawBytes
		var active bool
		if err := rows.Scan(&id, &active, &task); err != nil {
			return err
		}
		if !active {
			delete(c.active, ferry.RecordID(id))
			return nil
		}
		var t ferry.Task
		if err := json.Unmarshal(task, &t); err != nil {
			return err
		}
		c.active[t.ID] = t
		return nil
	}, query, seen)
}

// Task finds an order by its label, or by the first digits of its id, four at least.
func (c *Channel) Task(ctx context.Context, ref string) (ferry.Task, error) {
	if err := c.sync(ctx); err != nil {
		return ferry.Task{}, err
	}
	return find(ctx, c.db, ref)
}

const minPrefix = 4

func find(ctx context.Context, q querier, ref string) (ferry.Task, error) {
	found, err := tasks(ctx, q, `SELECT task FROM orders WHERE label = ? ORDER BY issued, id LIMIT 9`, ref)
	if err == nil && len(found) == 0 {
		if low, high, ok := prefixRange(ref); ok {
			found, err = tasks(ctx, q, `SELECT task FROM orders WHERE id BETWEEN ? AND ? LIMIT 9`, low, high)
		}
	}
	if err != nil {
		return ferry.Task{}, err
	}
	return pick(ref, found)
}

// pick takes the only task that a reference fits.
func pick(ref string, found []ferry.Task) (ferry.Task, error) {
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return ferry.Task{}, fmt.Errorf("order %q: %w; `ferry channel tasks` lists the labels and ids", clip(ref), ErrNoOrder)
	}
	var choices []string
	for _, t := range found[:min(len(found), 8)] {
		choices = append(choices, fmt.Sprintf("%s (%s, %s)", t.ID.String()[:12], t.Order.Label, t.State))
	}
	if len(found) > 8 {
		choices = append(choices, "…")
	}
	return ferry.Task{}, fmt.Errorf("order %q: %w; type more of the id of one of them: %s", ref, ErrAmbiguous, strings.Join(choices, ", "))
}

// prefixRange gives the smallest and the largest id that begin with hex digits.
func prefixRange(ref string) (low, high []byte, ok bool) {
	if len(ref) < minPrefix || len(ref) > 64 || ref != strings.ToLower(ref) {
		return nil, nil, false
	}
	low, errLow := hex.DecodeString(ref + strings.Repeat("0", 64-len(ref)))
	high, errHigh := hex.DecodeString(ref + strings.Repeat("f", 64-len(ref)))
	return low, high, errLow == nil && errHigh == nil
}

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

// Tasks lists tasks, the newest first.
func (c *Channel) Tasks(ctx context.Context, f Filter) ([]ferry.Task, error) {
	if err := c.sync(ctx); err != nil {
		return nil, err
	}
	query, args := `SELECT task FROM orders`, []any{}
	if len(f.States) > 0 {
		query += ` WHERE state IN (?` + strings.Repeat(", ?", len(f.States)-1) + `)`
		for _, s := range f.States {
			args = append(args, string(s))
		}
	}
	query += ` ORDER BY issued DESC, id DESC`
	if f.Limit > 0 {
		query += ` LIMIT ?`
		args = append(args, f.Limit)
	}
	return tasks(ctx, c.db, query, args...)
}

// Questions lists the open questions, those of the oldest order first.
func (c *Channel) Questions(ctx context.Context) ([]OpenQuestion, error) {
	if err := c.sync(ctx); err != nil {
		return nil, err
	}
	asking, err := tasks(ctx, c.db, `SELECT task FROM orders WHERE asks = 1 ORDER BY issued, id`)
	if err != nil {
		return nil, err
	}
	var out []OpenQuestion
	for _, t := range asking {
		for _, q := range t.Questions {
			out = append(out, OpenQuestion{Task: t, Open: q})
		}
	}
	return out, nil
}

// Records gives the ledger of one order in the order of arrival here, with what does not count and why.
func (c *Channel) Records(ctx context.Context, order ferry.RecordID) ([]Entry, error) {
	if err := c.sync(ctx); err != nil {
		return nil, err
	}
	at, err := places(ctx, c.db, `SELECT `+placeColumns+` FROM records WHERE subject = ? ORDER BY n`, order[:])
	if err != nil {
		return nil, err
	}
	return c.entries(ctx, at)
}

// Ledger gives the newest records of the channel, the newest last. A limit of 0 means all.
func (c *Channel) Ledger(ctx context.Context, limit int) ([]Entry, error) {
	if err := c.sync(ctx); err != nil {
		return nil, err
	}
	if limit <= 0 {
		limit = -1
	}
	at, err := places(ctx, c.db, `SELECT `+placeColumns+` FROM records ORDER BY n DESC LIMIT ?`, limit)
	if err != nil {
		return nil, err
	}
	slices.Reverse(at)
	return c.entries(ctx, at)
}

func (c *Channel) entries(ctx context.Context, at []place) ([]Entry, error) {
	roster := c.authority()
	reader := reader{c: c, q: c.db, roster: roster}
	out := make([]Entry, 0, len(at))
	for _, pl := range at {
		r, err := c.load(pl)
		if err != nil {
			return nil, err
		}
		rec, why := r.record()
		if rec, err = reader.amend(ctx, rec); err != nil {
			return nil, err
		}
		if r.bare && rec.Body != nil {
			why = ""
		}
		e := Entry{Record: rec, Type: ferry.Type(r.head.Type), Why: why, Size: r.size}
		switch {
		case !pl.main:
			if e.Why, err = c.offBranch(ctx, rec, roster); err != nil {
				return nil, err
			}
		case why == "":
			seats, err := c.seats(ctx, rec)
			if err != nil {
				return nil, err
			}
			e.Level, e.Why, e.Counted = roster.CountsFor(rec, seats)
			if o, is := rec.Body.(*ferry.Opaque); is {
				e.Counted, e.Why = false, fmt.Sprintf("it needs a newer ferry, for %v", o.Need)
			}
		}
		out = append(out, e)
	}
	return out, nil
}

// offBranch says why a record is on no branch that counts.
func (c *Channel) offBranch(ctx context.Context, rec ferry.Record, roster *authority.Roster) (string, error) {
	b, known := bare(roster, chain{rec.Writer, rec.Epoch})
	switch {
	case !known:
		return noKey(rec.Epoch), nil
	case b.keep != nil && b.keep.Seq == 0:
		return fmt.Sprintf("nothing of epoch %d counts, so the master has said", rec.Epoch), nil
	case b.keep != nil && rec.Seq > uint64(b.keep.Seq):
		return fmt.Sprintf("of epoch %d only the records up to %d count, so the master has said", rec.Epoch, b.keep.Seq), nil
	case b.keep != nil:
		return "fork: the writer signed a number twice, and the master has kept another branch", nil
	}
	var seq uint64
	_, err := one(ctx, c.db, []any{&seq}, `SELECT seq FROM forks WHERE writer = ? AND epoch = ?`, string(rec.Writer), rec.Epoch)
	return fmt.Sprintf("fork: the writer signed number %d twice, and nothing from it on counts until the master names the branch to keep", seq), err
}

// seats tells who has a part in what a record is about.
func (c *Channel) seats(ctx context.Context, rec ferry.Record) (s authority.Seats, err error) {
	id, ok := subject(rec)
	if !ok {
		return s, nil
	}
	if _, err := one(ctx, c.db, []any{&s.Issuer}, `SELECT writer FROM records JOIN orders USING (id) WHERE records.id = ?`, id[:]); err != nil {
		return s, err
	}
	result, verdict := judged(rec.Body)
	for id, w := range map[ferry.RecordID]*ferry.WriterID{result: &s.Builder, verdict: &s.Reviewer} {
		if _, err := one(ctx, c.db, []any{w}, `SELECT writer FROM records WHERE id = ? AND main = 1`, id[:]); err != nil {
			return s, err
		}
	}
	return s, nil
}

package channel

import (
	"context"
	"fmt"
	"maps"

	"github.com/ferry-fleet/ferry/authority"
)

// Bounds of one transaction of the index, and so of its memory. An order is folded once in each that holds a record about
// it, which speaks for large ones; but those leave the caches of the processor, and cost no less.
const (
	batchFrames = 1 << 13
	batchBytes  = 32 << 20
)

// appendFrames bounds what is appended to the store at once, for which it is copied.
const appendFrames = 4096

// sync makes the index cover the store, and the roster in memory that of the index. With nothing new it costs one fstat.
func (c *Channel) sync(ctx context.Context) error {
	size, err := c.store.size()
	if err != nil {
		return fmt.Errorf("look at the store: %w", err)
	}
	c.mu.Lock()
	same := size == c.synced
	c.mu.Unlock()
	if same {
		return nil
	}
	off, _, err := progress(ctx, c.db)
	if err != nil {
		return err
	}
	if off == size {
		return c.remember(ctx, size)
	}
	if err := c.lock.acquire(ctx); err != nil {
		return err
	}
	defer c.lock.release()
	return c.catchUp(ctx)
}

// catchUp indexes what the log has more than the index, and cuts a torn tail. It needs the lock.
func (c *Channel) catchUp(ctx context.Context) error {
	off, _, err := progress(ctx, c.db)
	if err != nil {
		return err
	}
	size, err := c.store.size()
	if err != nil {
		return fmt.Errorf("look at the store: %w", err)
	}
	if off > size {
		// The store is older than the index: somebody put an old copy back.
		if off, err = 0, c.clearIndex(ctx); err != nil {
			return err
		}
	}
	if off < size {
		if err := c.remember(ctx, off); err != nil { // the roster that the new records are judged by
			return err
		}
		if err := c.index(ctx, off, size); err != nil {
			return err
		}
		if size, err = c.store.size(); err != nil {
			return fmt.Errorf("look at the store: %w", err)
		}
	}
	if err := c.remember(ctx, size); err != nil {
		return err
	}
	c.retry()
	return c.doubt(ctx)
}

// retry forgets which files were refused, when that may be otherwise under the present roster. It needs the lock.
func (c *Channel) retry() {
	c.mu.Lock()
	turn := c.turn
	c.mu.Unlock()
	if turn == c.tried {
		return
	}
	c.tried = turn
	for _, d := range c.dirs {
		maps.DeleteFunc(d.bad, func(_ string, b badFile) bool { return b.kind == outRefused })
	}
}

func (c *Channel) index(ctx context.Context, off, size int64) error {
	var batch []frame
	bytes := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := c.apply(ctx, batch, batch[len(batch)-1].end())
		batch, bytes = batch[:0], 0
		return err
	}
	end, damage, err := c.store.scan(off, func(f frame) error {
		batch, bytes = append(batch, f), bytes+len(f.data)
		if len(batch) < batchFrames && bytes < batchBytes {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return err
	}
	for _, d := range damage {
		c.log.Warn("a part of the store is damaged; what is missing comes from the folder again", "from", d.from, "to", d.to)
	}
	if end == size {
		return nil
	}
	c.log.Warn("cut the end of an append that did not finish", "at", end, "bytes", size-end)
	return c.store.log.Truncate(end)
}

// clearIndex empties the index, so that it is built again from the beginning of the log.
func (c *Channel) clearIndex(ctx context.Context) error {
	for _, table := range []string{"records", "forks", "proofs", "redactions", "bare", "strip", "saw", "doubts", "own", "orders", "deps", "dirs", "rejected", "packs"} {
		if _, err := c.db.ExecContext(ctx, `DELETE FROM `+table); err != nil {
			return fmt.Errorf("clear the index: %w", err)
		}
	}
	// The version goes on, so that every reader notices.
	if _, err := c.db.ExecContext(ctx, `UPDATE state SET off = 0, version = version + 1, withdrawn = version + 1, roster = roster + 1`); err != nil {
		return fmt.Errorf("clear the index: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roster, c.turn, c.synced = emptyRoster(c.id), 0, 0
	clear(c.dirs)
	return nil
}

// remember takes over the roster of the index if it changed.
func (c *Channel) remember(ctx context.Context, size int64) error {
	var turn int64
	if _, err := one(ctx, c.db, []any{&turn}, `SELECT roster FROM state`); err != nil {
		return err
	}
	c.mu.Lock()
	same := turn == c.turn
	c.mu.Unlock()
	var roster *authority.Roster
	if !same {
		var err error
		if roster, err = c.rosterOf(ctx, c.db); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if roster != nil {
		c.roster, c.turn = roster, turn
	}
	c.synced = size
	return nil
}

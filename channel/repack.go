package channel

import (
	"context"
	"errors"
	"path"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// maxRepacked bounds the packs that one call makes anew.
const maxRepacked = 4

// errOtherBytes reports that the store gives other bytes of the records of a pack than those that were sealed.
var errOtherBytes = errors.New("the store has other bytes of its records")

// repack makes the writer's packs anew that hold records whose bodies are gone: it writes the pack, reads it back, says so in a
// seal of the same range, and then removes the one before. It gives the number of packs, and costs one look at the index when
// none is due.
func (w *Writer) repack(ctx context.Context, now time.Time) (n int, err error) {
	for range 2 * maxRepacked {
		var due int
		found, err := one(ctx, w.c.db, []any{&due}, `SELECT 1 FROM bare JOIN records USING (id) WHERE packs = 1 AND writer = ? LIMIT 1`, string(w.id))
		if err != nil || !found {
			return n, err
		}
		p, err := w.repackNext(ctx)
		if err != nil {
			return n, err
		}
		if p == nil {
			continue
		}
		seal := &ferry.Seal{Epoch: int64(p.epoch), From: int64(p.from), To: int64(p.to), Pack: packSum(p.bytes), Size: int64(len(p.bytes))}
		_, err = w.Update(ctx, now, func(tx *Tx) error {
			// Another process of this writer may have sealed meanwhile.
			seals, err := w.c.sealsOf(ctx, w.id)
			if err != nil {
				return err
			}
			if i := seals.find(uint32(seal.Epoch), p.from); i >= 0 && seals.list[i].Pack == seal.Pack {
				return errNothingToSeal
			}
			_, err = tx.Add(seal)
			return err
		})
		if err != nil && !errors.Is(err, errNothingToSeal) {
			return n, err
		}
		n++
	}
	return n, nil
}

// find gives the seal of the pack that holds a number, or -1.
func (s *sealed) find(epoch uint32, seq uint64) int {
	return slices.IndexFunc(s.list, func(r sealedRange) bool {
		return uint32(r.Epoch) == epoch && uint64(r.From) <= seq && seq <= uint64(r.To)
	})
}

// repackNext writes the next pack into the folder that has to be made anew. It is nil when the seal of that pack is there, and
// then it removes the one before.
func (w *Writer) repackNext(ctx context.Context) (*pack, error) {
	c := w.c
	if err := c.lock.acquire(ctx); err != nil {
		return nil, err
	}
	defer c.lock.release()
	if err := c.catchUp(ctx); err != nil {
		return nil, err
	}
	var at chain
	var seq uint64
	found, err := one(ctx, c.db, []any{&at.epoch, &seq}, `SELECT epoch, seq FROM bare JOIN records USING (id)
		WHERE packs = 1 AND writer = ? ORDER BY epoch, seq LIMIT 1`, string(w.id))
	if err != nil || !found {
		return nil, err
	}
	at.writer = w.id
	seals, err := c.sealsOf(ctx, w.id)
	if err != nil {
		return nil, err
	}
	i := seals.find(at.epoch, seq)
	if i < 0 { // it will be packed as it is
		return nil, c.repacked(ctx, at, numbers{seq, seq})
	}
	seal := seals.list[i].Seal
	r := numbers{uint64(seal.From), uint64(seal.To)}
	p, err := c.packRange(ctx, at, r)
	if err != nil {
		return nil, err
	}
	if err := c.putPack(w.id, p, "packed anew"); err != nil {
		return nil, err
	}
	if packSum(p.bytes) != seal.Pack {
		return p, nil
	}
	if err := c.removeOldPacks(w.id, seal); err != nil {
		return nil, err
	}
	return nil, c.repacked(ctx, at, r)
}

// removeOldPacks removes the packs of a range that are not the sealed one.
func (c *Channel) removeOldPacks(w ferry.WriterID, seal ferry.Seal) error {
	root, err := atomicfile.OpenRoot(c.cfg.Folder)
	if err != nil {
		return err
	}
	defer root.Close()
	entries, _, err := root.ReadDir(packsPath(w), maxNames)
	if err != nil {
		return err
	}
	for _, e := range entries {
		n := fileName{}
		if !n.parsePack(e.Name()) || e.Name() == sealedName(seal) ||
			int64(n.epoch) != seal.Epoch || n.from != uint64(seal.From) || n.to != uint64(seal.To) {
			continue
		}
		if err := root.Remove(path.Join(packsPath(w), e.Name())); err != nil {
			return err
		}
		c.at("old pack")
	}
	return nil
}

// repacked notes that the packs of a range hold no body that is gone.
func (c *Channel) repacked(ctx context.Context, at chain, r numbers) error {
	_, err := c.db.ExecContext(ctx, `UPDATE bare SET packs = 0 WHERE packs = 1 AND id IN
		(SELECT id FROM records WHERE writer = ? AND epoch = ? AND seq BETWEEN ? AND ?)`, string(at.writer), at.epoch, int64(r.from), int64(r.to))
	return err
}

// stale reports whether a pack cannot be built again because bodies in it are gone.
func (c *Channel) stale(ctx context.Context, w ferry.WriterID, seal ferry.Seal) (bool, error) {
	var n int
	return one(ctx, c.db, []any{&n}, `SELECT 1 FROM bare JOIN records USING (id) WHERE writer = ? AND epoch = ? AND seq BETWEEN ? AND ? LIMIT 1`,
		string(w), seal.Epoch, seal.From, seal.To)
}

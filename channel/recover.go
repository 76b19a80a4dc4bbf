package channel

import (
	"context"
	"fmt"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/sign"
)

// RecoverSpec is a root of a higher generation that nobody of the present authority writes.
type RecoverSpec struct {
	Root     ferry.Root // its Master has the key of Key
	Key      sign.Key   // of the next master: one that the channel does not know
	Recovery sign.Key   // of the root before
	Now      time.Time
}

// Recover writes the root as the first record of its own master. It is refused when it would not count.
func (c *Channel) Recover(ctx context.Context, s RecoverSpec) (ferry.RecordID, error) {
	if err := c.lock.acquire(ctx); err != nil {
		return ferry.RecordID{}, err
	}
	defer c.lock.release()
	if err := c.catchUp(ctx); err != nil {
		return ferry.RecordID{}, err
	}
	if _, err := c.scan(ctx); err != nil {
		return ferry.RecordID{}, err
	}
	roster := c.authority()
	w := &Writer{c: c, key: s.Key, id: ferry.WriterID(s.Key.Public().WriterID())}
	if m, known := roster.Member(w.id); known {
		return ferry.RecordID{}, fmt.Errorf("recover channel %s: the key is that of %s: the next master needs another", c.id.Short(), m.Name)
	}
	saw, err := c.heads(ctx, roster, w.id)
	if err != nil {
		return ferry.RecordID{}, err
	}
	tx := &Tx{
		reader: reader{c: c, q: c.db, roster: roster},
		w:      w, now: s.Now, epoch: 1, prev: s.Root.Prev, saw: signHeads(saw),
	}
	id, err := tx.AddSigned(&s.Root, s.Recovery)
	if err != nil {
		return id, err
	}
	_, err = c.write(ctx, tx)
	return id, err
}

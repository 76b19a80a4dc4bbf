package worker

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
)

// introduceAgain is when the worker tries again to say what its ferry can do.
const introduceAgain = time.Minute

// introduction is whether the channel knows what the ferry of this worker can do. Nothing of that changes while the
// process runs.
type introduction struct {
	done bool
	due  time.Time
}

// introduce says in the channel what the ferry of this worker can do, unless its last record of that kind says the same.
func (w *Worker) introduce(ctx context.Context, now time.Time) {
	if w.cfg.Version == "" || w.intro.done || now.Before(w.intro.due) {
		return
	}
	err := w.inventory(ctx, now)
	w.intro = introduction{done: err == nil, due: now.Add(introduceAgain)}
	if err != nil && ctx.Err() == nil {
		w.log.Warn("the channel does not know what this ferry can do; it is told again", "err", err)
	}
}

func (w *Worker) inventory(ctx context.Context, now time.Time) error {
	have := ferry.Inventory{
		Version: w.cfg.Version, Features: ferry.Features(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Slots: int64(w.cfg.MaxParallel),
	}
	me := w.cfg.Writer.ID()
	roster, err := w.cfg.Channel.Roster(ctx)
	if err != nil {
		return fmt.Errorf("read the roster: %w", err)
	}
	known, err := w.cfg.Channel.Traces(ctx, me, roster.Epoch(me))
	if err != nil {
		return fmt.Errorf("read what is known of this worker: %w", err)
	}
	old := known.Have
	if old.Version == have.Version && old.Platform == have.Platform && old.Slots == have.Slots && slices.Equal(old.Features, have.Features) {
		return nil
	}
	return w.write(ctx, now, func(tx *channel.Tx) error {
		_, err := tx.Add(&have)
		return err
	})
}

package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// owed is a commit that the remote has not got yet. It lies in the directory of its run until the remote has it, so that
// no end of the process forgets it.
type owed struct {
	Run    ferry.RunID    `json:"run"`
	Order  ferry.RecordID `json:"order"`
	Label  ferry.Label    `json:"label"`
	Ref    string         `json:"ref"`
	Commit ferry.Commit   `json:"commit"`
}

const owedFile = "owed.json"

// carrier brings to the remote what could not be pushed at once. A pass starts it and never waits for it.
type carrier struct {
	mu    sync.Mutex
	owed  map[ferry.RunID]owed
	busy  bool
	tries int
	again time.Time
	why   string // it could not be pushed the last time

	kept map[ferry.RunID]owed // nothing is pushed anywhere yet: until there is a remote, or somebody else in the channel
	look time.Time            // when that is asked again

	beside sync.WaitGroup // what runs beside the passes: the carrier, and what brings commits here
}

// pushTime is how long an attempt waits for the remote before it hands in its result with the push still owed; endTime
// when it was told to end.
const (
	pushTime = 30 * time.Second
	endTime  = 5 * time.Second
)

// retryWait gives the wait before something is asked of a remote again.
func retryWait(tries int) time.Duration { return min(time.Second<<min(tries, 6), time.Minute) }

// keptStep is how many commits that nothing was pushed for are looked at in one go.
const keptStep = 20

// owe remembers that the remote is to get what a run left. It gives nil where nothing is pushed yet: that may change while
// the order is open, by a remote that is set or by somebody who joins.
func (w *Worker) owe(ctx context.Context, j *Journal) (*owed, error) {
	if w.cfg.Remote == nil || j.Commit == j.From {
		return nil, nil
	}
	r, remoteErr := w.cfg.Remote(ctx, true)
	o := owed{
		Run: j.Run, Order: j.Order, Label: j.Label, Commit: j.Commit,
		Ref: worktree.AttemptRef(j.Order, j.Attempt, w.cfg.Writer.ID(), j.Run),
	}
	b, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", j.Run, err)
	}
	if err := atomicfile.Write(filepath.Join(w.cfg.Runs, string(j.Run), owedFile), b, 0o600); err != nil {
		return nil, err
	}
	if r == nil && remoteErr == nil {
		w.carrier.keep(o)
		return nil, nil
	}
	return &o, nil
}

// pay pushes what an attempt owes before its result is handed in. What cannot be pushed holds nothing up: it stays owed.
func (w *Worker) pay(ctx context.Context, a *attempt, o *owed) {
	if o == nil {
		return
	}
	limit := pushTime
	if a.ended() != nil {
		limit = endTime
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
	defer cancel()
	if err := w.push(ctx, *o); err != nil {
		w.log.Warn("the commit is not on the remote yet", "task", string(o.Label), "commit", o.Commit.Short(), "err", err)
		w.carrier.add(*o, err)
	}
}

// push puts a commit on the remote and forgets that it is owed.
func (w *Worker) push(ctx context.Context, o owed) error {
	r, err := w.cfg.Remote(ctx, true)
	if err != nil {
		return err
	}
	if r == nil { // nothing is pushed any more
		w.carrier.keep(o)
		return nil
	}
	if err := r.Carry(ctx, o.Ref, o.Commit); err != nil {
		return err
	}
	w.log.Info("pushed what a run left", "task", string(o.Label), "commit", o.Commit.Short())
	return w.forgive(o)
}

// forgive forgets that a commit is owed.
func (w *Worker) forgive(o owed) error {
	if err := os.Remove(filepath.Join(w.cfg.Runs, string(o.Run), owedFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (c *carrier) add(o owed, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owed == nil {
		c.owed = map[ferry.RunID]owed{}
	}
	c.owed[o.Run] = o
	if err != nil {
		c.why = err.Error()
	}
}

func (c *carrier) keep(o owed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil {
		c.kept = map[ferry.RunID]owed{}
	}
	c.kept[o.Run] = o
}

func (c *carrier) owes(run ferry.RunID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.owed[run]
	_, kept := c.kept[run]
	return ok || kept
}

// recall finds what an earlier process of this worker owes.
func (w *Worker) recall(ctx context.Context, journals []*Journal) {
	nowhere := true
	if w.cfg.Remote != nil {
		r, err := w.cfg.Remote(ctx, true)
		nowhere = r == nil && err == nil
	}
	for _, j := range journals {
		path := filepath.Join(w.cfg.Runs, string(j.Run), owedFile)
		b, err := atomicfile.ReadBounded(path, 4096)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var o owed
		if err == nil {
			err = json.Unmarshal(b, &o)
		}
		if err != nil || o.Run != j.Run || w.cfg.Remote == nil {
			w.log.Warn("a push that was owed is given up", "run", string(j.Run), "err", err)
			continue
		}
		if nowhere {
			w.carrier.keep(o)
		} else {
			w.carrier.add(o, nil)
		}
	}
}

// deliver starts the carrier when something is owed and it is time.
func (w *Worker) deliver(ctx context.Context, now time.Time) {
	c := &w.carrier
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy {
		return
	}
	if len(c.owed) == 0 {
		w.reconsiderIn(ctx, now)
		return
	}
	if left := c.again.Sub(now); left > 0 {
		w.wakeIn(left)
		return
	}
	c.busy = true
	list := slices.SortedFunc(maps.Values(c.owed), func(a, b owed) int { return cmp.Compare(a.Run, b.Run) })
	w.beside(func() { w.carry(ctx, list, now) })
}

// reconsiderIn looks again at what is kept when it is time. The carrier is locked and has nothing else to do.
func (w *Worker) reconsiderIn(ctx context.Context, now time.Time) {
	c := &w.carrier
	if len(c.kept) == 0 {
		return
	}
	if left := c.look.Sub(now); left > 0 {
		w.wakeIn(left)
		return
	}
	c.busy = true
	var list []owed
	for _, o := range c.kept {
		if list = append(list, o); len(list) == keptStep {
			break
		}
	}
	w.beside(func() { w.reconsider(ctx, list, now) })
}

// reconsider asks whether there is somewhere to push to by now. One look has the cost of keptStep orders, however many are
// kept; of those of an order that has ended nobody needs the commit.
func (w *Worker) reconsider(ctx context.Context, list []owed, now time.Time) {
	r, err := w.cfg.Remote(ctx, true)
	if err != nil {
		w.log.Debug("ask for a remote", "err", err)
	}
	c := &w.carrier
	for _, o := range list {
		t, taskErr := w.cfg.Channel.Task(ctx, o.Order.String())
		ended := taskErr == nil && t.ID == o.Order && t.State.Final()
		switch {
		case ended:
			if err := w.forgive(o); err != nil {
				w.log.Warn("forget what is owed of an order that has ended", "task", string(o.Label), "err", err)
			}
		case r != nil:
			c.add(o, nil)
		default:
			continue
		}
		c.mu.Lock()
		delete(c.kept, o.Run)
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = false
	if r == nil {
		c.look = now.Add(w.fleet.t.Beat)
	}
}

// carry pushes what is owed until something fails.
func (w *Worker) carry(ctx context.Context, list []owed, now time.Time) {
	c := &w.carrier
	var failed error
	for _, o := range list {
		if failed = w.push(ctx, o); failed != nil {
			break
		}
		c.mu.Lock()
		delete(c.owed, o.Run)
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = false
	if failed == nil {
		c.tries, c.why = 0, ""
		return
	}
	c.tries, c.why, c.again = c.tries+1, failed.Error(), now.Add(retryWait(c.tries+1))
}

// holds words for the status what is owed.
func (c *carrier) holds() []HoldStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []HoldStatus
	for _, o := range slices.SortedFunc(maps.Values(c.owed), func(a, b owed) int { return cmp.Compare(a.Run, b.Run) }) {
		why := "its commit " + o.Commit.Short() + " is not on the remote yet; it is tried again"
		if c.why != "" {
			why += ": " + c.why
		}
		out = append(out, HoldStatus{Order: o.Order, Label: o.Label, Reason: why})
	}
	return out
}

// beside runs f beside the passes. The status is written again when it ends.
func (w *Worker) beside(f func()) {
	w.carrier.beside.Go(func() {
		f()
		select {
		case w.poke <- struct{}{}:
		default: // somebody has poked already
		}
	})
}

package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// Lack is why an order cannot be begun on this machine: a commit that it needs is not here.
type Lack struct {
	Why  string
	Wait time.Duration // after which it is looked at again
	Soon bool          // it is being fetched
}

// want is a commit that is not here, as far as it was looked for.
type want struct {
	missing worktree.Missing
	refs    []string
	asked   bool
	busy    bool
	tries   int
	again   time.Time
	err     error
}

// wants are the commits that the orders need which this worker may begin. What is here is asked for once.
type wants struct {
	here map[ferry.Commit]bool // of the goroutine that owns the worker

	mu   sync.Mutex
	lack map[ferry.Commit]*want
	busy bool
}

// busyWait is how long a pass leaves a fetch alone before it looks whether it is done.
const busyWait = 200 * time.Millisecond

// lacks says for each order that may be begun which commit is missing here, and lets what is missing be fetched.
func (w *Worker) lacks(ctx context.Context, tasks []ferry.Task, now time.Time) map[ferry.RecordID]Lack {
	out := map[ferry.RecordID]Lack{}
	here, lack := map[ferry.Commit]bool{}, map[ferry.Commit]*want{}
	known := w.wants.snapshot()
	for i := range tasks {
		t := &tasks[i]
		if _, open := w.fleet.open[t.ID]; !open || t.To != "" && t.To != w.cfg.Agent {
			continue
		}
		for _, c := range []ferry.Commit{t.Order.Base, t.Next.From} {
			if here[c] = here[c] || w.wants.here[c]; here[c] {
				continue
			}
			if known[c] == nil && w.cfg.Gate.Keeps(ctx, c) {
				here[c] = true
				continue
			}
			if lack[c] = known[c]; lack[c] == nil {
				lack[c] = w.newWant(t, c)
			}
			out[t.ID] = lack[c].lack(now)
			break
		}
	}
	w.wants.here = here
	w.wants.keep(lack)
	if !w.dry {
		w.fetch(ctx, now)
	}
	return out
}

func (w *Worker) newWant(t *ferry.Task, c ferry.Commit) *want {
	m := worktree.Missing{What: "its base", Commit: c, Push: "push it there from the machine that has it"}
	if c != t.Order.Base {
		m.What, m.Push = "what its last attempt left,", "the worker that made it pushes it"
	}
	return &want{missing: m, refs: worktree.RefsOf(t, c)}
}

func (x *want) lack(now time.Time) Lack {
	if x.err == nil {
		return Lack{Why: fmt.Sprintf("%s %s is being fetched", x.missing.What, x.missing.Commit.Short()), Wait: busyWait, Soon: true}
	}
	if x.busy {
		return Lack{Why: x.missing.Words(x.err), Wait: busyWait}
	}
	return Lack{Why: x.missing.Words(x.err), Wait: max(x.again.Sub(now), busyWait)}
}

// snapshot gives copies of what is looked for, without what was found.
func (x *wants) snapshot() map[ferry.Commit]*want {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := make(map[ferry.Commit]*want, len(x.lack))
	for c, one := range x.lack {
		if !one.asked || one.busy || one.err != nil {
			copied := *one
			out[c] = &copied
		}
	}
	return out
}

// keep forgets what nobody needs any more and takes in what is missing. What is being fetched is left as it is.
func (x *wants) keep(lack map[ferry.Commit]*want) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for c, one := range x.lack {
		if _, ok := lack[c]; ok || one.busy {
			lack[c] = one
		}
	}
	x.lack = lack
}

// fetch starts to fetch what is due, one commit after the other.
func (w *Worker) fetch(ctx context.Context, now time.Time) {
	x := &w.wants
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.busy {
		return
	}
	var due []*want
	for _, one := range x.lack {
		if !now.Before(one.again) {
			one.busy = true
			due = append(due, one)
		}
	}
	if len(due) == 0 {
		return
	}
	x.busy = true
	w.beside(ctx, func(ctx context.Context) {
		for _, one := range due {
			w.obtain(ctx, one, now)
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		x.busy = false
	})
}

// obtain looks for one commit in the person's repository and on the remote.
func (w *Worker) obtain(ctx context.Context, one *want, now time.Time) {
	var r *worktree.Remote
	var err error
	if w.cfg.Remote != nil {
		r, err = w.cfg.Remote(ctx, false)
	}
	name := ""
	if r != nil {
		name = r.String()
	}
	if err == nil {
		err = w.cfg.Gate.Obtain(ctx, r, one.missing.Commit, one.refs...)
	}
	if err != nil {
		w.log.Debug("fetch", "commit", string(one.missing.Commit), "err", err)
	}
	w.wants.mu.Lock()
	defer w.wants.mu.Unlock()
	one.missing.Remote, one.err, one.asked, one.busy = name, err, true, false
	one.tries++
	one.again = now.Add(retryWait(one.tries))
}

package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// Lack is why an order cannot be begun on this machine: a commit that it needs is not here, or no engine may do it.
type Lack struct {
	Why  string
	Wait time.Duration // after which it is looked at again
	Soon bool          // it is being fetched, or asked
}

// want is a commit that is not here, as far as it was looked for.
type want struct {
	missing worktree.Missing
	refs    []string
	asked   bool
	busy    bool
	since   time.Time // it is busy
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

// busyWait and longBusyWait bound how long a fetch is left alone before a pass looks whether it is done.
const (
	busyWait     = 200 * time.Millisecond
	longBusyWait = 2 * time.Second
)

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
	l := Lack{Soon: x.err == nil, Wait: busyWait}
	if x.busy {
		l.Wait = min(max(now.Sub(x.since)/4, busyWait), longBusyWait)
	}
	if l.Soon {
		l.Why = fmt.Sprintf("%s %s is fetched first", x.missing.What, x.missing.Commit.Short())
		return l
	}
	l.Why, l.Wait = x.missing.Words(x.err), max(x.again.Sub(now), l.Wait)
	return l
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
			one.busy, one.since = true, now
			due = append(due, one)
		}
	}
	if len(due) == 0 {
		return
	}
	x.busy = true
	w.beside(func() {
		var down error
		for _, one := range due {
			down = w.obtain(ctx, one, now, down)
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		x.busy = false
	})
}

// obtain looks for one commit in the person's repository and on the remote, unless that was found to be down.
func (w *Worker) obtain(ctx context.Context, one *want, now time.Time, down error) error {
	var r *worktree.Remote
	if w.cfg.Remote != nil && down == nil {
		r, down = w.cfg.Remote(ctx, false)
	}
	name := ""
	if r != nil {
		name = r.String()
	}
	err := w.cfg.Gate.Obtain(ctx, r, one.missing.Commit, one.refs...)
	switch {
	case errors.Is(err, worktree.ErrRemote):
		down = err
	case errors.Is(err, worktree.ErrAbsent) && down != nil:
		err = down
	}
	if err != nil {
		w.log.Debug("fetch", "commit", string(one.missing.Commit), "err", err)
	}
	w.wants.mu.Lock()
	defer w.wants.mu.Unlock()
	one.missing.Remote, one.err, one.asked, one.busy = name, err, true, false
	one.tries++
	one.again = now.Add(retryWait(one.tries))
	return down
}

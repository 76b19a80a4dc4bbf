package sim

import (
	"container/heap"
	"time"
)

// instant is true time: how long the world has existed. No machine can read it.
type instant = time.Duration

// event is something that happens at an instant. Events of one instant happen in the order in which they were planned.
type event struct {
	at instant
	n  uint64
	do func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].n < h[j].n
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push adds an event; container/heap calls it.
func (h *eventHeap) Push(x any) { *h = append(*h, x.(event)) }

// Pop takes the last event; container/heap calls it.
func (h *eventHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*h = old[:len(old)-1]
	return e
}

// timeline is the one thread of the world.
type timeline struct {
	now  instant
	next uint64
	heap eventHeap
	done int // events that have happened
	held int // of them, since time went on last
}

// stuck reports whether so much happens at one instant that time will not go on.
func (t *timeline) stuck() bool { return t.held > 20_000 }

// at plans an event, never in the past.
func (t *timeline) at(when instant, do func()) {
	t.next++
	heap.Push(&t.heap, event{max(when, t.now), t.next, do})
}

// run lets events happen until one lies behind end, none is left, or stop says so.
func (t *timeline) run(end instant, stop func() bool) {
	for len(t.heap) > 0 && t.heap[0].at <= end && !stop() {
		e := heap.Pop(&t.heap).(event)
		if t.held++; e.at > t.now {
			t.held = 0
		}
		t.now = e.at
		t.done++
		e.do()
	}
	if !stop() {
		t.now = max(t.now, end)
	}
}

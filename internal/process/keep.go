package process

import (
	"bytes"
	"fmt"
	"sync"
)

// Keep is a bounded writer: it keeps the first and the last bytes of what it is given and counts the rest. It is
// safe for concurrent use and its Write never fails.
type Keep struct {
	mu    sync.Mutex
	head  []byte
	ring  []byte // the last bytes; full when len == tail, and then next is the oldest
	next  int
	total int64

	headMax, tailMax int
}

// NewKeep returns a Keep of the first head and the last tail bytes; a negative number counts as zero.
func NewKeep(head, tail int) *Keep {
	return &Keep{headMax: max(head, 0), tailMax: max(tail, 0)}
}

// Write takes all of b.
func (k *Keep) Write(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := len(b)
	k.total += int64(n)
	if room := k.headMax - len(k.head); room > 0 {
		room = min(room, len(b))
		k.head = append(k.head, b[:room]...)
		b = b[room:]
	}
	if len(b) > k.tailMax {
		b = b[len(b)-k.tailMax:]
	}
	if room := k.tailMax - len(k.ring); room > 0 {
		room = min(room, len(b))
		k.ring = append(k.ring, b[:room]...)
		b = b[room:]
	}
	for len(b) > 0 {
		c := copy(k.ring[k.next:], b)
		k.next = (k.next + c) % k.tailMax
		b = b[c:]
	}
	return n, nil
}

// Bytes returns what was kept, with a line that counts the bytes left out between the two parts.
func (k *Keep) Bytes() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out bytes.Buffer
	out.Write(k.head)
	if left := k.total - int64(len(k.head)+len(k.ring)); left > 0 {
		fmt.Fprintf(&out, "\n[%d bytes left out]\n", left)
	}
	out.Write(k.ring[k.next:])
	out.Write(k.ring[:k.next])
	return out.Bytes()
}

// Total returns how many bytes were written.
func (k *Keep) Total() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.total
}

// capped collects up to limit bytes and calls full once when more arrive.
type capped struct {
	limit int64
	full  func()

	mu    sync.Mutex
	bytes []byte
	over  bool
}

// Write takes what fits and drops the rest.
func (c *capped) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	room := max(c.limit-int64(len(c.bytes)), 0)
	if int64(len(b)) <= room {
		c.bytes = append(c.bytes, b...)
		return len(b), nil
	}
	c.bytes = append(c.bytes, b[:room]...)
	if !c.over {
		c.over = true
		c.full()
	}
	return len(b), nil
}

func (c *capped) collected() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

func (c *capped) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

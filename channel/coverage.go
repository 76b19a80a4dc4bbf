package channel

import (
	"cmp"
	"slices"
)

// numbers is a range of sequence numbers, both included.
type numbers struct{ from, to uint64 }

// coverage says which numbers of each epoch something holds, as ranges in order that do not touch.
type coverage map[uint32][]numbers

// coverageOf gives the numbers that the files of a directory cover.
func coverageOf(names map[string]knownFile) coverage {
	c := coverage{}
	for _, k := range names {
		c[k.epoch] = append(c[k.epoch], numbers{k.seq, k.seq})
	}
	return c.merged()
}

// merged puts the ranges in order and joins those that touch.
func (c coverage) merged() coverage {
	for epoch, all := range c {
		slices.SortFunc(all, func(a, b numbers) int { return cmp.Compare(a.from, b.from) })
		out := all[:0]
		for _, r := range all {
			if n := len(out); n > 0 && r.from <= out[n-1].to+1 {
				out[n-1].to = max(out[n-1].to, r.to)
				continue
			}
			out = append(out, r)
		}
		c[epoch] = out
	}
	return c
}

// with gives what both hold.
func (c coverage) with(o coverage) coverage {
	sum := coverage{}
	for _, part := range []coverage{c, o} {
		for epoch, all := range part {
			sum[epoch] = append(sum[epoch], all...)
		}
	}
	return sum.merged()
}

// gaps gives the ranges of an epoch between 1 and last that are not held.
func (c coverage) gaps(epoch uint32, last uint64) []numbers {
	var out []numbers
	next := uint64(1)
	for _, r := range c[epoch] {
		if r.from > last {
			break
		}
		if r.from > next {
			out = append(out, numbers{next, r.from - 1})
		}
		next = max(next, r.to+1)
	}
	if next <= last {
		out = append(out, numbers{next, last})
	}
	return out
}

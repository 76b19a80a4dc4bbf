package sim

import (
	"slices"

	"github.com/ferry-fleet/ferry"
)

// live is I15, and I9 where nothing went wrong: every order has ended, after one start where no fault could cost one.
func (c *checker) live() {
	for _, o := range c.w.orders {
		if !c.w.ended(o) {
			state := ferry.State("unknown")
			t, ok := c.w.machines[0].rep.Task(o.id)
			if ok {
				state = t.State
			}
			c.fail(nil, "I15", "%s is %s, holder %s: %s", o.order.Label, state, c.w.nameOf(t.Holder), t.Hold)
		}
	}
	if c.w.calm() && c.w.stats.Starts != c.w.stats.Started {
		c.fail(nil, "I9", "%d starts of %d orders without a fault", c.w.stats.Starts, c.w.stats.Started)
	}
}

// calm reports whether nothing in this world makes a second start of an order right: no fault but wrong clocks and what does
// not touch the work, and a carrier that is faster than half of any settle window before one was measured.
func (w *world) calm() bool {
	const harmless = faultWall | faultDrift | faultRepeat | faultRemote | faultLostAnswer | faultFlood | faultCancel
	return w.sc.Faults&^harmless == 0 && w.sc.Delay.Max < 5e9
}

func (w *world) nameOf(id ferry.WriterID) string {
	for _, m := range w.machines {
		if m.id == id {
			return string(m.name)
		}
	}
	return "nobody"
}

// quiet checks what has to hold when everything has spread: I3, I4, I14 and I18.
func (c *checker) quiet() {
	var first *machine
	var have map[ferry.RecordID]bool
	var digest string
	for _, m := range c.w.machines {
		if !m.awake() || m.copyOf != nil {
			continue
		}
		held := c.held(m)
		d, err := m.rep.Digest()
		if err != nil {
			c.fail(m, "bug", "digest: %v", err)
			return
		}
		if first == nil {
			first, have, digest = m, held, d
			c.recompute(m, d)
			continue
		}
		c.same(first, m, have, held)
		if d != digest && !c.failed() {
			c.fail(m, "I3", "it has the records of %s and another state", first.name)
		}
	}
}

// held gives the records of a machine, without those of writers that signed numbers twice: which of their branches a machine
// reads is its own affair.
func (c *checker) held(m *machine) map[ferry.RecordID]bool {
	held := map[ferry.RecordID]bool{}
	for data := range m.rep.Records() {
		id, ok := c.w.ids[&data[0]]
		if !ok {
			c.fail(m, "I18", "it holds a record that no member wrote")
			continue
		}
		held[id] = true
	}
	return held
}

// same is I14.
func (c *checker) same(a, b *machine, x, y map[ferry.RecordID]bool) {
	for _, p := range []struct {
		has, lacks *machine
		x, y       map[ferry.RecordID]bool
	}{{a, b, x, y}, {b, a, y, x}} {
		missing := []string{}
		for id := range p.x {
			if r := c.w.records[id]; !p.y[id] && !c.w.cloned[r.by.i] {
				missing = append(missing, string(r.by.name)+" "+r.head.Type)
			}
		}
		if slices.Sort(missing); len(missing) > 0 {
			c.fail(p.lacks, "I14", "it lacks %d records that %s has: %v", len(missing), p.has.name, missing[:min(len(missing), 4)])
		}
	}
}

// recompute is I4: the state that grew record by record is the one that a replica computes from the same records in another
// order.
func (c *checker) recompute(m *machine, digest string) {
	all := slices.Collect(m.rep.Records())
	c.w.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	rep := c.w.newReplica()
	for _, data := range all {
		rep.Add(data)
	}
	d, err := rep.Digest()
	if err != nil || d != digest {
		c.fail(m, "I4", "computed anew from its %d records the state is another (%v)", len(all), err)
	}
}

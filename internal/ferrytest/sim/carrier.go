package sim

import (
	"time"

	"github.com/ferry-fleet/ferry"
)

// fileID names a path of the shared folder; the world keeps one table of paths.
type fileID int32

// path is one name in the folder.
type path struct {
	owner int // the machine in whose directory it lies; -1: a stranger's
	beat  bool
	first []byte // what it was created with
}

// version is the content of a path from one change on. A later change outranks an earlier one, as the carrier's version
// vectors would have it: so a deletion or an old copy put back takes the place of the good file everywhere.
type version struct {
	data    []byte
	beat    *ferry.Beat
	deleted bool
	by      int // who made the change
}

// node is the folder of one machine, and what is on its way there.
type node struct {
	have    []int32 // the version of each path, 0 for none
	flying  []int32 // the highest version of each path that is on its way here
	changed []fileID
	marked  []bool
}

func (n *node) grow(paths int) {
	for len(n.have) < paths {
		n.have, n.flying, n.marked = append(n.have, 0), append(n.flying, 0), append(n.marked, false)
	}
}

func (n *node) mark(f fileID) {
	if !n.marked[f] {
		n.marked[f] = true
		n.changed = append(n.changed, f)
	}
}

// carrier moves the folder between the machines. It knows nothing of what the files mean.
type carrier struct {
	w        *world
	paths    []path
	versions []version // index 0 is unused
	nodes    []node
	cut      [][]bool // cut[a][b]: nothing gets from a to b
}

func newCarrier(w *world, n int) *carrier {
	c := &carrier{w: w, versions: make([]version, 1), nodes: make([]node, n), cut: make([][]bool, n)}
	for i := range c.cut {
		c.cut[i] = make([]bool, n)
	}
	return c
}

// create adds a path to the table.
func (c *carrier) create(p path) fileID {
	c.paths = append(c.paths, p)
	for i := range c.nodes {
		c.nodes[i].grow(len(c.paths))
	}
	return fileID(len(c.paths) - 1)
}

// write changes a path in the folder of machine at, and sends it to the others.
func (c *carrier) write(at int, f fileID, v version) {
	v.by = at
	c.versions = append(c.versions, v)
	c.nodes[at].have[f] = int32(len(c.versions) - 1)
	for to := range c.nodes {
		if to != at {
			c.send(at, to, f)
		}
	}
}

func (c *carrier) content(at int, f fileID) *version { return &c.versions[c.nodes[at].have[f]] }

func (c *carrier) linked(from, to int) bool {
	return !c.cut[from][to] && c.w.machines[from].awake() && c.w.machines[to].awake()
}

// send lets the version that from has of a path begin its way to another machine.
func (c *carrier) send(from, to int, f fileID) {
	v := c.nodes[from].have[f]
	if c.nodes[to].have[f] >= v || c.nodes[to].flying[f] >= v || !c.linked(from, to) {
		return
	}
	c.nodes[to].flying[f] = v
	c.w.time.at(c.w.time.now+c.w.delay(from, to), func() { c.arrive(from, to, f, v) })
	if c.w.hit(faultRepeat, c.w.sc.repeat) {
		c.w.time.at(c.w.time.now+2*c.w.delay(from, to), func() { c.again(to, f, v) })
	}
}

// arrive puts a version into a folder, unless the link broke on its way; then it is sent again from elsewhere, or when a
// link comes up.
func (c *carrier) arrive(from, to int, f fileID, v int32) {
	n := &c.nodes[to]
	if n.flying[f] == v {
		n.flying[f] = 0
	}
	if n.have[f] >= v {
		return
	}
	if !c.linked(from, to) {
		for other := range c.nodes {
			if other != to && c.nodes[other].have[f] >= v {
				c.send(other, to, f)
			}
		}
		return
	}
	n.have[f] = v
	if p := c.paths[f]; from != p.owner && p.owner >= 0 && !p.beat {
		c.w.seen(sawThird)
	}
	n.mark(f)
	for other := range c.nodes { // whoever the origin cannot reach gets it from here
		if other != to && other != from {
			c.send(to, other, f)
		}
	}
	c.w.machines[to].notice()
}

// again lets a version turn up a second time, under the name of a conflict copy.
func (c *carrier) again(to int, f fileID, v int32) {
	if m := c.w.machines[to]; m.awake() && c.versions[v].data != nil && c.nodes[to].have[f] >= v {
		m.read(c.versions[v].data)
	}
}

// join sends what one machine has and the other lacks, when a link between them comes up.
func (c *carrier) join(from, to int) {
	if !c.linked(from, to) {
		return
	}
	for f := range c.paths {
		c.send(from, to, fileID(f))
	}
}

// joinAll sends everything that the links allow.
func (c *carrier) joinAll(at int) {
	for other := range c.nodes {
		if other != at {
			c.join(at, other)
			c.join(other, at)
		}
	}
}

// isolate cuts machines off from the others, or in one direction only, and gives what undoes it.
func (c *carrier) isolate(side []int, oneWay bool) (heal func()) {
	in := make([]bool, len(c.nodes))
	for _, i := range side {
		in[i] = true
	}
	var cuts [][2]int
	for a := range c.nodes {
		for b := range c.nodes {
			if in[a] != in[b] && (!oneWay || in[a]) && !c.cut[a][b] {
				c.cut[a][b] = true
				cuts = append(cuts, [2]int{a, b})
			}
		}
	}
	return func() {
		for _, p := range cuts {
			c.cut[p[0]][p[1]] = false
		}
		for _, p := range cuts {
			c.join(p[0], p[1])
		}
	}
}

// delay draws how long a file is on its way.
func (w *world) delay(from, to int) time.Duration {
	d := w.sc.Delay.Min + time.Duration(w.rng.Int64N(int64(w.sc.Delay.Max-w.sc.Delay.Min)+1))
	d += w.slow[from][to]
	if w.hit(faultTail, w.sc.tail) {
		d += time.Duration(w.rng.ExpFloat64() * float64(30*time.Second))
	}
	if w.hit(faultLoss, w.sc.loss) {
		d += 20*time.Second + time.Duration(w.rng.Int64N(int64(70*time.Second)))
	}
	return d
}

package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

// machine is one computer of the fleet with one writer: its disk, its clocks, and the production code on it.
type machine struct {
	w      *world
	i      int
	name   ferry.AgentName
	grants []ferry.Grant
	key    sign.Key
	id     ferry.WriterID
	clocks
	up       bool
	gone     bool // for good
	boots    int64
	died     instant
	full     bool // its disk has no room
	deputy   bool // it reviews as a delegate
	verdicts int  // that are in the deputy's chain
	stopped  bool // it found records of its own key that it did not write
	rogue    *rogue
	copyOf   *machine // a clone: it began with the disk and the key of another

	disk disk
	rep  *channel.Replica
	held map[ferry.RecordID]bool // the records that the replica has taken in

	touched  []*ordered // what records came in about, since I5 was checked
	places   map[number][]byte
	twins    []*twin
	keyEpoch int
	lost     []lost

	looking bool
	planned bool     // a look is planned for this instant
	waiting []func() // what came due while the machine slept

	beats  beats
	work   hands
	review keeper
	chief  operator
}

// disk is what outlives a crash: the records of the store up to what was synced, and which files of the folder are ours.
type disk struct {
	store  [][]byte
	synced int
	own    []ownFile
}

// lost is a file that somebody deleted, or a device that is gone left to the others.
type lost struct {
	file  fileID
	since time.Duration // by the monotonic clock
}

type ownFile struct {
	file fileID
	data []byte
}

func (m *machine) awake() bool { return m.up && !m.sleeps }

func (m *machine) honest() bool { return m.rogue == nil && m.copyOf == nil && !m.w.cloned[m.i] }

func (m *machine) may(g ferry.Grant) bool { return slices.Contains(m.grants, g) }

// after does something once the machine's monotonic clock has gone on by d, unless it was booted again by then.
func (m *machine) after(d time.Duration, do func()) {
	boot, due := m.boots, m.mono(m.w.time.now)+d
	var fire func()
	fire = func() {
		left := due - m.mono(m.w.time.now)
		switch {
		case m.boots != boot || !m.up:
		case m.sleeps:
			m.waiting = append(m.waiting, fire)
		case left > time.Microsecond:
			m.w.time.at(m.w.time.now+left, fire)
		default:
			do()
		}
	}
	m.w.time.at(m.w.time.now+d, fire)
}

// notice is called when a file has changed in the folder. The machine reads it at once, or with its next poll.
func (m *machine) notice() {
	if !m.w.hit(faultDeaf, m.w.sc.deaf) {
		m.soon()
	}
}

// soon plans one look for everything that comes up at this instant.
func (m *machine) soon() {
	if m.planned || !m.awake() {
		return
	}
	m.planned = true
	m.after(0, func() { m.planned = false; m.look() })
}

// look is one pass: read what has changed in the folder, then act on what is known.
func (m *machine) look() {
	if m.looking || !m.awake() {
		return
	}
	m.looking = true
	m.ingest()
	m.w.check.terminal(m)
	m.act()
	m.looking = false
}

// act lets the roles of the machine act. Each of its writes can be its last.
func (m *machine) act() {
	switch {
	case m.w.closing:
		return
	case m.full:
		m.actFull()
		return
	case len(m.twins) > 0:
		m.twinsAct()
	}
	m.watchFences()
	for _, role := range []func(){m.chiefActs, m.rogueActs, m.workerActs, m.keeperActs, m.beatIfDue} {
		if m.awake() && !m.stopped {
			role()
		}
	}
}

// poll looks at the folder every now and then, whatever was noticed, and puts back own files that are missing.
func (m *machine) poll() {
	m.after(m.w.sc.poll, func() {
		if !m.full {
			m.heal()
			m.relay()
		}
		if m.works() && !m.w.sc.Peer && !m.w.closing {
			m.lookAround()
		}
		m.look()
		m.poll()
	})
}

// ingest reads the files that changed.
func (m *machine) ingest() {
	n := &m.w.carrier.nodes[m.i]
	changed := n.changed
	n.changed = nil
	for _, f := range changed {
		n.marked[f] = false
		v := m.w.carrier.content(m.i, f)
		switch {
		case m.w.hit(faultTorn, m.w.sc.torn):
			if len(v.data) > 0 {
				m.read(v.data[:m.w.rng.IntN(len(v.data))])
			}
			n.mark(f) // and the whole of it with the next look
		case v.beat != nil:
			m.hear(v.beat, m.w.carrier.paths[f].owner)
		case m.full:
			n.mark(f) // beats are read all the same
		case v.data != nil:
			m.read(v.data)
		case v.deleted:
			m.lost = append(m.lost, lost{f, m.mono(m.w.time.now)})
		}
	}
	m.sync()
}

// read gives bytes of the folder to the replica, and what it took to the disk.
func (m *machine) read(data []byte) {
	switch v := m.rep.Add(data); v.Kind {
	case channel.Accepted:
		m.took(v, data)
	case channel.Parked:
		if r := m.w.recordOf(data); r != nil && r.size != len(data) {
			return // cut behind its header it looks like a record whose body was taken out, and waits for a redaction
		}
		m.w.seen(sawParked)
		m.disk.store = append(m.disk.store, data)
		m.watchTwins(data)
	}
}

// took follows a record that the replica holds from here on, and those that had waited for it.
func (m *machine) took(v channel.Verdict, data []byte) {
	m.disk.store = append(m.disk.store, data)
	m.work.version++
	m.beats.news = true
	m.watchTwins(data)
	m.hold(v)
	for _, id := range append(v.Behind, v.ID) {
		m.w.check.took(m, id)
	}
}

// hold notes which records the replica has taken in.
func (m *machine) hold(v channel.Verdict) {
	if v.Kind == channel.Accepted {
		m.held[v.ID] = true
	}
	for _, id := range v.Behind {
		m.held[id] = true
	}
}

func (m *machine) sync() { m.disk.synced = len(m.disk.store) }

// write seals a record, makes it durable and publishes it. With ok false the machine died on the way, and the caller must
// leave at once; or its disk has no room, and nothing is signed.
func (m *machine) write(b ferry.Body) (id ferry.RecordID, ok bool) {
	if m.full {
		return id, false
	}
	file, id, err := m.rep.Seal(m.key, m.wall(m.w.time.now), b)
	switch {
	case errors.Is(err, channel.ErrForked), errors.Is(err, channel.ErrNotMember):
		m.halt()
		return id, false
	case err != nil:
		m.w.check.fail(m, "bug", "seal %s: %v", b.Type(), err)
		return id, false
	}
	return id, m.append(id, file, b)
}

// append takes a sealed record through the steps of a write. Between any two of them the machine can die.
func (m *machine) append(id ferry.RecordID, file []byte, b ferry.Body) bool {
	early := m.w.sc.Mutant == MutantPublishFirst
	m.w.sealed(m, file, b)
	if early {
		m.w.durable(id, b)
		m.publish(file)
	}
	if m.w.hit(faultWrite, m.w.sc.write) {
		m.crash(m.w.span(2*time.Second, time.Minute), false)
		return false
	}
	v := m.rep.Add(file)
	if v.Kind != channel.Accepted {
		m.w.check.fail(m, "bug", "its own %s is %v: %s", b.Type(), v.Kind, v.Reason)
		return false
	}
	m.took(v, file)
	m.sync()
	m.w.durable(id, b)
	if m.w.hit(faultWrite, m.w.sc.write) {
		m.crash(m.w.span(2*time.Second, time.Minute), false)
		return false
	}
	if !early {
		m.publish(file)
	}
	return true
}

// publish puts an own record into the folder.
func (m *machine) publish(data []byte) {
	id := m.w.ids[&data[0]]
	m.w.check.published(m.w.records[id], id)
	m.put(data)
}

// put adds a file of this machine to the folder.
func (m *machine) put(data []byte) {
	f := m.w.carrier.create(path{owner: m.i, first: data})
	m.disk.own = append(m.disk.own, ownFile{f, data})
	m.w.carrier.write(m.i, f, m.half(data))
}

// relayAfter is how long a member waits for the owner of a file that was deleted before it puts in a copy of its own.
const relayAfter = 10 * time.Minute

// relay puts records of others back into the folder, in the own directory, when their owners do not.
func (m *machine) relay() {
	now := m.mono(m.w.time.now)
	m.lost = slices.DeleteFunc(m.lost, func(l lost) bool {
		data := m.w.carrier.paths[l.file].first
		if m.w.carrier.content(m.i, l.file).data != nil || data == nil || !m.held[m.w.ids[&data[0]]] {
			return true
		}
		if now-l.since < relayAfter {
			return false
		}
		m.w.seen(sawRelay)
		m.put(data)
		return true
	})
}

// heal puts back own files that are missing or are not ours, and publishes what a crash kept from the folder.
func (m *machine) heal() {
	for _, o := range m.disk.own {
		if v := m.w.carrier.content(m.i, o.file); len(v.data) != len(o.data) || &v.data[0] != &o.data[0] {
			m.w.carrier.write(m.i, o.file, version{data: o.data})
		}
	}
}

// crash ends the machine. What was not synced is lost: records of the store, and now and then the newest own file of the
// folder.
func (m *machine) crash(down time.Duration, forGood bool) {
	w := m.w
	w.trace(m, "crash", 0)
	m.up, m.gone, m.planned = false, forGood, false
	m.waiting, m.died = nil, w.time.now
	m.killEngines()
	m.disk.store = m.disk.store[:m.disk.synced]
	if own := m.disk.own; len(own) > 0 && w.rng.IntN(2) == 0 {
		w.carrier.nodes[m.i].have[own[len(own)-1].file] = 0
	}
	if !forGood {
		w.time.at(w.time.now+down, m.start)
	}
}

// start boots the machine: everything but its disk begins anew.
func (m *machine) start() {
	w := m.w
	m.boots++
	m.up, m.looking, m.planned, m.full = true, false, false, false
	m.boot(w.time.now)
	w.trace(m, "boot", uint64(m.boots))
	m.rep, m.held, m.lost = w.newReplica(), map[ferry.RecordID]bool{}, nil
	m.places, m.twins = map[number][]byte{}, nil
	for _, data := range m.disk.store {
		m.hold(m.rep.Add(data))
		m.watchTwins(data)
	}
	m.beats = beats{heard: map[ferry.WriterID]ferry.Beat{}, at: map[ferry.WriterID]instant{}}
	m.workerBoots()
	m.keeperBoots()
	m.chief = operator{since: map[ferry.RecordID]time.Duration{}, retired: map[ferry.WriterID]int{}, version: -1}
	n := &w.carrier.nodes[m.i]
	for f := range n.have {
		if n.have[f] != 0 {
			n.mark(fileID(f))
		}
	}
	m.unpublished()
	w.carrier.joinAll(m.i)
	m.look()
	m.poll()
}

// unpublished publishes own records of the store that never became a file.
func (m *machine) unpublished() {
	have := map[*byte]bool{}
	for _, o := range m.disk.own {
		have[&o.data[0]] = true
	}
	for _, data := range m.disk.store {
		if r := m.w.recordOf(data); !have[&data[0]] && r != nil && ferry.WriterID(r.head.Writer) == m.id {
			m.publish(data)
		}
	}
}

// doze lets the machine sleep for a while.
func (m *machine) doze(d time.Duration) {
	w := m.w
	w.trace(m, "sleep", 0)
	m.sleep(w.time.now)
	for _, e := range m.work.engines {
		w.engineRests(e)
	}
	w.time.at(w.time.now+d, func() {
		if !m.up || !m.sleeps {
			return
		}
		m.wake(w.time.now)
		w.trace(m, "wake", 0)
		w.check.rest(m)
		for _, e := range m.work.engines {
			if e.runs {
				w.engineRuns(e)
			}
		}
		w.carrier.joinAll(m.i)
		waiting := m.waiting
		m.waiting = nil
		for _, fire := range waiting {
			fire()
		}
		m.look()
	})
}

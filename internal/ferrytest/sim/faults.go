package sim

import (
	"time"

	"github.com/ferry-fleet/ferry/sign"
)

// planFaults lets each fault of the scenario strike again and again until faults end.
func (w *world) planFaults() {
	w.every(faultPartition, w.sc.partition, func() { w.partition(false) })
	w.every(faultOneWay, w.sc.partition, func() { w.partition(true) })
	w.every(faultCrash, w.sc.crash, w.crashOne)
	w.every(faultSuspend, w.sc.suspend, w.suspendOne)
	w.every(faultDelete, w.sc.delete, w.deleteFiles)
	w.every(faultRollback, w.sc.rollback, w.rollBack)
	w.every(faultRemote, w.sc.remote, func() {
		w.remote.down = true
		w.time.at(w.time.now+w.span(5*time.Second, 3*time.Minute), func() { w.remote.down = false })
	})
	w.every(faultFlood, w.sc.flood, func() { w.stranger.strike(w) })
	w.every(faultWall, w.sc.wall, w.stepWall)
	w.every(faultDisk, w.sc.disk, w.fillDisk)
	w.planAuthority()
	if m := w.machines[len(w.machines)-1]; m.copyOf != nil {
		w.time.at(w.span(3*time.Minute, 10*time.Minute), func() { w.cloneOf(m) })
	}
}

// every lets a fault strike with exponential gaps of a mean length.
func (w *world) every(f Faults, mean time.Duration, strike func()) {
	if w.sc.Faults&f == 0 {
		return
	}
	var next func()
	next = func() {
		w.time.at(w.time.now+time.Second+time.Duration(w.rng.ExpFloat64()*float64(mean)), func() {
			if w.faulty(f) {
				strike()
				next()
			}
		})
	}
	next()
}

func (w *world) span(low, high time.Duration) time.Duration {
	return low + time.Duration(w.rng.Int64N(int64(high-low)))
}

// anyone draws a machine that is awake, the operator's seldom; nil when the drawn one is not.
func (w *world) anyone() *machine {
	m := w.machines[w.rng.IntN(len(w.machines))]
	if m.i == 0 && w.rng.IntN(3) > 0 || !m.awake() {
		return nil
	}
	return m
}

func (w *world) partition(oneWay bool) {
	var side []int
	for i := range w.machines {
		if w.rng.IntN(3) == 0 {
			side = append(side, i)
		}
	}
	if len(side) == 0 || len(side) == len(w.machines) {
		side = []int{w.rng.IntN(len(w.machines))}
	}
	heal := w.carrier.isolate(side, oneWay)
	end := min(w.time.now+w.span(10*time.Second, 10*time.Minute), w.sc.until)
	for _, i := range side {
		w.trace(w.machines[i], "cut off", uint64(end/time.Second))
	}
	w.time.at(end, heal)
}

func (w *world) crashOne() {
	m := w.anyone()
	if m == nil {
		return
	}
	forGood := m.i != 0 && w.rng.Float64() < w.sc.gone && w.maySpare(m)
	m.crash(w.span(2*time.Second, 4*time.Minute), forGood)
}

// maySpare reports whether a healthy core is left without the machine: a worker, and somebody else who reviews.
func (w *world) maySpare(gone *machine) bool {
	workers, critics := 0, 0
	for _, m := range w.machines {
		switch {
		case m == gone || m.gone || !m.honest():
		case m.may("work"):
			workers++
		case m.may("review"):
			critics++
		}
	}
	return workers > 0 && critics > 0
}

func (w *world) suspendOne() {
	if m := w.anyone(); m != nil {
		m.doze(w.span(10*time.Second, 12*time.Minute))
	}
}

func (w *world) stepWall() {
	m := w.machines[w.rng.IntN(len(w.machines))]
	d := w.span(-48*time.Hour, 48*time.Hour)
	if m.i > 0 {
		m.wallOff += d
	}
}

// deleteFiles lets a device of somebody take files away that are not its own.
func (w *world) deleteFiles() {
	m := w.anyone()
	if m == nil {
		return
	}
	for range 1 + w.rng.IntN(20) {
		f := fileID(w.rng.IntN(len(w.carrier.paths)))
		if w.carrier.paths[f].owner != m.i && w.carrier.nodes[m.i].have[f] != 0 {
			w.carrier.write(m.i, f, version{deleted: true})
			w.carrier.nodes[m.i].mark(f) // its own ferry sees it as well
		}
	}
}

// rollBack lets a device put an earlier state of some files back: an old beat, or a file as it was before it was deleted.
func (w *world) rollBack() {
	m := w.anyone()
	if m == nil {
		return
	}
	for range 1 + w.rng.IntN(10) {
		old := w.carrier.versions[w.rng.IntN(len(w.carrier.versions))]
		f := fileID(w.rng.IntN(len(w.carrier.paths)))
		if p := w.carrier.paths[f]; p.beat && old.beat != nil && p.owner != m.i && w.ownerOf(old) == p.owner {
			w.carrier.write(m.i, f, version{beat: old.beat})
		}
	}
}

func (w *world) ownerOf(v version) int { return v.by }

// cloneOf starts the second machine with the disk and the key of the first as they are at this moment.
func (w *world) cloneOf(m *machine) {
	of := m.copyOf
	if of.gone || !w.faulty(faultClone) {
		return
	}
	w.cloned[of.i], w.cloned[m.i] = true, true
	m.disk.store = append(m.disk.store[:0:0], of.disk.store[:of.disk.synced]...)
	m.sync()
	m.boots = of.boots
	m.grants = of.grants
	m.clocks = clocks{drift: of.drift, wallOff: of.wallOff}
	m.start()
}

// stranger writes into the folder without a key of the channel.
type stranger struct {
	key  sign.Key
	sent int
}

// strike puts a few files into the folder of some machine: noise, damaged records, and records that are well made by
// somebody whom nobody admitted.
func (s *stranger) strike(w *world) {
	at := w.anyone()
	if at == nil {
		return
	}
	for range 1 + w.rng.IntN(4) {
		data := s.file(w)
		if data == nil {
			continue
		}
		s.sent++
		f := w.carrier.create(path{owner: -1})
		w.carrier.write(at.i, f, version{data: data})
		w.carrier.nodes[at.i].mark(f)
	}
	at.soon()
}

func (s *stranger) file(w *world) []byte {
	victim := w.machines[w.rng.IntN(len(w.machines))]
	if victim.rep == nil {
		return nil
	}
	store := victim.disk.store
	good := store[w.rng.IntN(len(store))]
	switch w.rng.IntN(5) {
	case 0:
		noise := make([]byte, 1+w.rng.IntN(2000))
		for i := range noise {
			noise[i] = byte(w.rng.Uint32())
		}
		return noise
	case 1:
		bad := append([]byte(nil), good...)
		bad[w.rng.IntN(len(bad))] ^= 1 << w.rng.IntN(8)
		return bad
	case 2: // under its own name
		return s.forge(w, sign.Header{Writer: s.own(w).Public().WriterID(), Type: "claim", Epoch: 1, Seq: 1, Channel: w.channel})
	case 3: // under the name of a member, as its next record
		head, ok := victim.rep.Head(victim.id)
		if !ok {
			return nil
		}
		return s.forge(w, sign.Header{Writer: sign.WriterID(victim.id), Type: "cancel", Epoch: head.Epoch, Seq: head.Seq + 1, Channel: w.channel})
	default: // another root
		return s.forge(w, sign.Header{Writer: s.own(w).Public().WriterID(), Type: "root", Epoch: 1, Seq: 1})
	}
}

func (s *stranger) own(w *world) sign.Key {
	if s.key.Public() == (sign.PublicKey{}) {
		m := machine{name: "stranger"}
		m.newKey(1)
		s.key = m.key
	}
	return s.key
}

func (s *stranger) forge(w *world, h sign.Header) []byte {
	h.Time = dayZero()
	if h.Channel == w.channel {
		h.Prev = w.channel
	}
	file, err := sign.Seal(s.own(w), h, []byte(`{"order":"","attempt":1}`))
	if err != nil {
		return nil
	}
	return file
}

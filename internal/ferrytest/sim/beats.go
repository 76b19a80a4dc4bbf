package sim

import (
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
)

// beats is what a machine says and hears outside of the records. The bytes of a beat and their signature are not part of
// the simulation: only what the beat says, when it arrives, and that an older one never counts.
type beats struct {
	heard map[ferry.WriterID]ferry.Beat
	at    map[ferry.WriterID]instant // when that came in
	news  bool                       // records came in that no own beat has answered
	said  ferry.Beat
	last  time.Duration // when it was said
	file  fileID
	made  bool
}

const (
	beatEvery  = 15 * time.Second
	idleEvery  = 4 * beatEvery
	leastPulse = 200 * time.Millisecond
)

// hear takes in the beat of another machine, if it is newer than what is known.
func (m *machine) hear(b *ferry.Beat, owner int) {
	from := m.w.machines[owner]
	if from.id == m.id {
		return
	}
	known, ok := m.beats.heard[from.id]
	if ok && !b.After(&known) {
		return
	}
	m.beats.heard[from.id] = *b
	m.beats.at[from.id] = m.w.time.now
	for _, start := range b.Running {
		m.w.check.life(m, start)
	}
	if m.works() && !m.w.sc.Peer {
		m.lookAround()
		if known.Slots != b.Slots {
			m.work.planned = -1
		}
	}
}

// beatIfDue writes the machine's beat: when it has something new to say, when others have, and from time to time.
func (m *machine) beatIfDue() {
	if !m.may(ferry.GrantWork) || m.w.sc.Peer {
		return
	}
	b := m.present()
	now, every := m.mono(m.w.time.now), idleEvery
	if len(b.Running) > 0 {
		every = beatEvery
	}
	said := &m.beats.said
	if m.beats.news || m.work.fleet.Greets() || b.Slots != said.Slots || !slices.Equal(b.Running, said.Running) {
		every = leastPulse
	}
	if left := every - (now - m.beats.last); m.beats.made && left > 0 {
		if every == leastPulse {
			m.after(left, m.soon)
		}
		return
	}
	c := m.clock()
	b = m.work.fleet.Beat(c, b)
	if m.work.fleet.Beaten(c, b, !m.full); m.full {
		m.beats.last, m.beats.news, m.work.planned = now, true, -1
		return
	}
	m.w.check.beat(m, &b)
	if !m.beats.made {
		m.beats.made = true
		m.beats.file = m.w.beatFile(m.i)
	}
	m.beats.news, m.beats.last, m.beats.said = false, now, b
	m.w.carrier.write(m.i, m.beats.file, version{beat: &b})
}

func (m *machine) present() ferry.Beat {
	head, _ := m.rep.Head(m.id)
	b := ferry.Beat{
		Epoch: head.Epoch, Seq: head.Seq, Slots: int64(max(m.work.slots-len(m.work.engines), 0)), Running: slices.Clone(m.work.pretends),
	}
	for _, e := range m.work.engines {
		if !e.ending {
			b.Running = append(b.Running, e.start)
		}
	}
	return b
}

// doubted reports whether nobody but the holder of an order was heard for so long that the machine had to doubt itself.
func (m *machine) doubted(holder ferry.WriterID) bool {
	for _, other := range m.w.machines {
		if at, ok := m.beats.at[other.id]; ok && other.id != holder && m.w.time.now-at <= 6*beatEvery {
			return false
		}
	}
	return true
}

func (w *world) beatFile(of int) fileID {
	for f, p := range w.carrier.paths {
		if p.beat && p.owner == of {
			return fileID(f)
		}
	}
	return w.carrier.create(path{owner: of, beat: true})
}

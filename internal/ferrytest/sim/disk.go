package sim

import "time"

// fillDisk lets the disk of a machine have no room for a while, or fail: no record is taken in or signed, and its beat cannot be
// written. What runs goes on until the machine fences itself.
func (w *world) fillDisk() {
	m := w.anyone()
	if m == nil || m.full || m.rogue != nil || m.copyOf != nil {
		return
	}
	w.trace(m, "disk full", 0)
	w.seen(sawFullDisk)
	m.full = true
	w.time.at(w.time.now+w.span(5*time.Second, 6*time.Minute), m.emptyDisk)
}

func (m *machine) emptyDisk() {
	if !m.full {
		return
	}
	m.full = false
	m.w.trace(m, "disk empty", 0)
	m.work.planned, m.review.version, m.chief.version = -1, -1, -1
	m.soon()
}

// actFull is what a machine with a full disk still does: it ends what is fenced, by others or by its own silence.
func (m *machine) actFull() {
	m.watchFences()
	if m.stopped || !m.works() || m.w.sc.Peer {
		return
	}
	m.plan()
	m.beatIfDue()
}

// fullWait is when something that could not be written is tried again.
const fullWait = 5 * time.Second

// later does something again after a while, when the disk had no room for it.
func (m *machine) later(do func()) {
	if m.awake() && m.full {
		m.after(fullWait, do)
	}
}

// half cuts a file that is published: the folder shows a part of it until the machine looks at its own files again.
func (m *machine) half(data []byte) version {
	if len(data) < 2 || !m.w.hit(faultHalf, m.w.sc.half) {
		return version{data: data}
	}
	m.w.seen(sawHalf)
	return version{data: data[:1+m.w.rng.IntN(len(data)-1)]}
}

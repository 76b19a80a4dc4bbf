package sim

import (
	"slices"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/sign"
)

// twin is a number that a writer has signed twice: the first of its chain, as far as a machine knows.
type twin struct {
	at     number
	files  [2][]byte
	prev   ferry.RecordID // what both follow
	proven bool           // somebody has said it
	healed bool           // the operator has given a new key
}

// watchTwins notices that a record has a number that another one has, and that somebody has proven it.
func (m *machine) watchTwins(data []byte) {
	r := m.w.recordOf(data)
	if r == nil {
		return
	}
	if p, ok := r.body.(*ferry.ForkProof); ok {
		m.proven(p)
	}
	at := number{ferry.WriterID(r.head.Writer), r.head.Epoch, r.head.Seq}
	first, have := m.places[at]
	if !have || &first[0] == &data[0] {
		m.places[at] = data
		return
	}
	i := slices.IndexFunc(m.twins, func(t *twin) bool { return t.at.writer == at.writer && t.at.epoch == at.epoch })
	t := &twin{at: at, files: [2][]byte{first, data}, prev: r.head.Prev}
	switch {
	case i < 0:
		m.twins = append(m.twins, t)
	case at.seq < m.twins[i].at.seq:
		t.proven, t.healed = m.twins[i].proven, m.twins[i].healed
		m.twins[i] = t
	}
	m.w.seen(sawFork)
	if at.writer == m.id && int(at.epoch) == m.keyEpoch {
		m.w.seen(sawOwnFork)
		m.halt()
	}
}

func (m *machine) proven(p *ferry.ForkProof) {
	for _, t := range m.twins {
		if t.at.writer == p.Writer && int64(t.at.epoch) == p.Epoch {
			t.proven = true
		}
	}
}

// halt is what a machine does that finds records of its own key which it did not write: it ends everything and writes no more.
func (m *machine) halt() {
	if !m.stopped {
		m.w.trace(m, "halt", 0)
	}
	m.stopped = true
	m.killEngines()
}

// twinsAct lets a machine show others a fork that nobody has shown yet, and the operator give a new key. A machine that was
// halted goes on with that key; its copy has none.
func (m *machine) twinsAct() {
	epoch := m.rep.Roster().Epoch(m.id)
	if m.stopped && m.copyOf == nil && int(epoch) > m.keyEpoch {
		m.newKey(int(epoch))
		m.stopped = false
		m.w.trace(m, "new key", uint64(epoch))
	}
	if m.stopped {
		return
	}
	for _, t := range m.twins {
		switch {
		case !t.proven && m.rogue == nil && t.at.writer != m.id:
			t.proven = true
			m.w.trace(m, "fork", t.at.seq)
			m.write(proofOf(t))
		case t.proven && !t.healed && m.i == 0 && t.at.epoch == m.rep.Roster().Epoch(t.at.writer):
			t.healed = true
			m.readmit(t)
		}
		if !m.awake() {
			return
		}
	}
}

func proofOf(t *twin) *ferry.ForkProof {
	p := &ferry.ForkProof{Writer: t.at.writer, Epoch: int64(t.at.epoch), Seq: int64(t.at.seq)}
	for _, file := range t.files {
		u, err := sign.ParseHeader(file)
		if err != nil {
			panic(err) // the replica took it
		}
		p.Headers = append(p.Headers, string(u.Top()))
	}
	return p
}

// readmit gives a member its next epoch, and names what counts of the one before: everything up to the fork.
func (m *machine) readmit(t *twin) {
	for _, member := range m.w.machines {
		if member.id != t.at.writer || member.copyOf != nil {
			continue
		}
		epoch := t.at.epoch + 1
		next := machine{name: member.name}
		next.newKey(int(epoch))
		keep := ferry.Cut{Epoch: int64(t.at.epoch), Seq: int64(t.at.seq) - 1, ID: t.prev}
		if keep.Seq == 0 {
			keep.ID = ferry.RecordID{}
		}
		m.w.trace(m, "readmit", uint64(epoch))
		m.write(&ferry.Readmit{Writer: t.at.writer, Epoch: int64(epoch), Key: next.key.Public().String(), Keep: keep, Reason: "two machines had its key"})
	}
}

package sim

import (
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/sign"
)

// rogue is a member that breaks the rules with its own key. Each of its habits is drawn.
type rogue struct {
	claimsAll bool // claims everything and starts nothing
	hogs      bool // starts at once and beats for ever
	early     bool // opens a further attempt beside one that runs
	fakes     bool // hands in results without work
	lies      bool // names a head of the master that does not exist
	judges    bool // reviews and lands without the grant
	next      time.Duration
	done      map[rogueAct]bool
	times     map[rogueAct]int // with attempt 0: how often it did a thing to an order
}

// patience is how often a rogue does one thing to one order. Others go before it after two attempts that came to nothing, but a
// rogue waits for no turn: what ends it is a person who retires or revokes it.
const patience = 4

type rogueAct struct {
	what    string
	order   ferry.RecordID
	attempt int64
}

func drawRogue(w *world) *rogue {
	bits := 1 + w.rng.IntN(63)
	on := func(i int) bool { return bits&(1<<i) != 0 }
	return &rogue{claimsAll: on(0), hogs: on(1), early: on(2), fakes: on(3), lies: on(4), judges: on(5), done: map[rogueAct]bool{}, times: map[rogueAct]int{}}
}

// rogueActs does one bad thing for each order, every few seconds, as long as faults strike.
func (m *machine) rogueActs() {
	r := m.rogue
	if r == nil || !m.w.faulty(faultByzantine) || m.mono(m.w.time.now) < r.next {
		return
	}
	r.next = m.mono(m.w.time.now) + m.w.span(time.Second, 20*time.Second)
	for _, o := range m.w.orders {
		t, ok := m.rep.Task(o.id)
		if !ok || !m.awake() {
			continue
		}
		m.misdeed(&t)
	}
}

func (m *machine) misdeed(t *ferry.Task) {
	r := m.rogue
	once := func(what string) bool {
		a := rogueAct{what, t.ID, t.Next.Attempt}
		fresh := !r.done[a]
		r.done[a] = true
		a.attempt = 0
		r.times[a]++
		return fresh && r.times[a] <= patience
	}
	open := t.Next.Claimable
	switch {
	case open && r.claimsAll && once("claim"):
		m.write(&ferry.Claim{Order: t.ID, Attempt: t.Next.Attempt})
	case open && (r.hogs || r.fakes) && once("start"):
		m.begin(t, nil)
	case t.State == ferry.StateRunning && t.Holder != m.id && r.early && m.w.rng.IntN(4) == 0 && once("early"):
		m.begin(t, []ferry.RecordID{t.Live})
	case t.State == ferry.StateAwaitingReview && r.judges && once("judge"):
		o := t.StandingResult()
		id, ok := m.write(&ferry.Verdict{Order: t.ID, Result: o.ID, Decision: ferry.DecisionKeep, Commit: o.Result.Commit})
		if ok && m.awake() {
			m.write(&ferry.Landed{Order: t.ID, Result: o.ID, Verdict: id, Target: "main", Commit: o.Result.Commit})
		}
	case r.lies && once("lie"):
		m.lie()
	}
}

// begin writes a claim and its start without waiting, and with the habit a result that nobody worked for.
func (m *machine) begin(t *ferry.Task, supersedes []ferry.RecordID) {
	n := t.Next.Attempt
	claim, ok := m.write(&ferry.Claim{Order: t.ID, Attempt: n, Supersedes: supersedes})
	if !ok {
		return
	}
	start, ok := m.write(&ferry.Start{Order: t.ID, Attempt: n, Claim: claim, Engine: "none", Sandbox: "bwrap", From: t.Next.From})
	if !ok {
		return
	}
	m.work.pretends = append(m.work.pretends, start)
	if m.rogue.fakes {
		m.write(m.w.result(resultOf{task: t, start: start, attempt: n, commit: commitOf("fake", m.w.byID[t.ID].n, n, m.i)}))
	}
}

// lie writes a record that names a head of the master which nobody has.
func (m *machine) lie() {
	head, ok := m.rep.Head(m.id)
	if !ok {
		return
	}
	prev := m.w.cutAt(head).ID
	note := &ferry.Note{Kind: "remark", Text: "the master said more"}
	body, err := sign.EncodeJSON(note)
	if err != nil {
		return
	}
	file, err := sign.Seal(m.key, sign.Header{
		Channel: m.w.channel, Type: string(ferry.TypeNote), Writer: sign.WriterID(m.id), Epoch: head.Epoch, Seq: head.Seq + 1, Prev: prev,
		Time: m.wall(m.w.time.now), Saw: []sign.Head{{
			Writer: sign.WriterID(m.w.machines[0].id), Epoch: 1, Seq: 999_999, ID32: m.w.channel.String()[:32],
		}},
	}, body)
	if err != nil {
		return
	}
	if v, err := m.w.open(file, m.key.Public()); err == nil {
		m.append(v.ID(), file, note)
	}
}

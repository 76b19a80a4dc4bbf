package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
)

// Violation is an invariant that did not hold.
type Violation struct {
	Code    string // I1 to I18 as in the package comment, or "bug" for an error that no machine should see
	Machine string
	At      time.Duration
	Detail  string
}

// String gives the violation in one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s at %.3f s on %s: %s", v.Code, v.At.Seconds(), v.Machine, v.Detail)
}

// checker watches the world and knows what no machine knows.
type checker struct {
	w          *world
	violations []Violation
	numbers    map[number]ferry.RecordID
	beats      map[beatNumber]string
	final      []map[ferry.RecordID]ferry.State // by machine
	sign       []map[ferry.RecordID]instant     // by machine: when a start last showed life there
	rested     []instant                        // by machine: since when it watches without a break
}

// number is a place in a chain.
type number struct {
	writer ferry.WriterID
	epoch  uint32
	seq    uint64
}

type beatNumber struct {
	writer  ferry.WriterID
	boot    int64
	counter int64
}

type landing struct {
	commit ferry.Commit
	git    gitCommit
	tip    ferry.Commit
}

func (c *checker) init(w *world) {
	*c = checker{w: w, numbers: map[number]ferry.RecordID{}, beats: map[beatNumber]string{}}
}

func (c *checker) fail(m *machine, code, format string, args ...any) {
	name := "the world"
	if m != nil {
		name = string(m.name)
	}
	v := Violation{Code: code, Machine: name, At: c.w.time.now, Detail: fmt.Sprintf(format, args...)}
	c.violations = append(c.violations, v)
	if c.w.lines != nil {
		fmt.Fprintf(c.w.lines, "VIOLATION %s\n", v)
	}
}

func (c *checker) failed() bool { return len(c.violations) > 0 }

// published is I6: no number of a chain is given twice to the world.
func (c *checker) published(r *written, id ferry.RecordID) {
	n := number{ferry.WriterID(r.head.Writer), r.head.Epoch, r.head.Seq}
	if have, ok := c.numbers[n]; ok && have != id && !c.w.cloned[r.by.i] {
		c.fail(r.by, "I6", "epoch %d, number %d is signed twice", n.epoch, n.seq)
	}
	c.numbers[n] = id
}

// sealed is I7: a result or stop is written after its engine has ended; and what a claim and a result have to keep to.
func (c *checker) sealed(r *written) {
	start := ferry.RecordID{}
	switch b := r.body.(type) {
	case *ferry.Result:
		start = b.Start
		c.effect(r.by, start, "a result")
	case *ferry.Stop:
		start = b.Start
	case *ferry.Claim:
		c.lapse(r.by, b)
	}
	if e := r.by.engineOf(start); e != nil && e.runs {
		c.fail(r.by, "I7", "a %s is written while the engine of its start runs", r.body.Type())
	}
}

// began is the other half of I7: the start is durable before its engine runs.
func (c *checker) began(e *engine) {
	for _, data := range e.m.disk.store[:e.m.disk.synced] {
		if c.w.ids[&data[0]] == e.start {
			return
		}
	}
	c.fail(e.m, "I7", "an engine runs whose start is not durable")
}

// effect is I8: who has the record that fences an attempt makes no push and no result for it any more.
func (c *checker) effect(m *machine, start ferry.RecordID, what string) {
	if e := m.engineOf(start); e != nil && e.fenced != 0 && m.honest() && !c.w.sc.Peer && e.fenced < c.w.time.now {
		c.fail(m, "I8", "%s of %s for an attempt that was fenced at %.3f s", what, e.o.order.Label, e.fenced.Seconds())
	}
}

// watchFences is I10: an engine ends within a poll after its machine has what fences it. What fences is read from the
// records by Fold alone, whatever the worker makes of them.
func (m *machine) watchFences() {
	w := m.w
	if !m.honest() || w.sc.Peer {
		return
	}
	for _, e := range m.work.engines {
		t, ok := m.rep.Task(e.order)
		fenced := !ok || t.Live != e.start || t.State != ferry.StateRunning
		switch {
		case !fenced:
			e.fenced = 0
		case e.fenced == 0:
			e.fenced, e.fencedM = max(w.time.now, 1), m.mono(w.time.now)
		}
		if e.runs && e.fenced != 0 && m.mono(w.time.now)-e.fencedM > w.sc.poll+time.Second {
			w.check.fail(m, "I10", "the engine of %s still runs, %.1f s after its fence was here", e.o.order.Label, (w.time.now - e.fenced).Seconds())
		}
	}
}

// took follows what a machine holds: signs of life, and I5.
func (c *checker) took(m *machine, id ferry.RecordID) {
	r := c.w.records[id]
	if r == nil {
		c.fail(m, "I18", "it took a record that no member wrote")
		return
	}
	if _, ok := r.body.(*ferry.Start); ok {
		c.life(m, id)
	}
	if r.order != nil && !slices.Contains(m.touched, r.order) {
		m.touched = append(m.touched, r.order)
	}
}

// terminal is I5: a machine never sees an order leave a final state. A fork or a revocation voids acts of its writer, so it may
// where such a writer has acted on the order.
func (c *checker) terminal(m *machine) {
	touched := m.touched
	m.touched = m.touched[:0]
	for len(c.final) <= m.i {
		c.final = append(c.final, map[ferry.RecordID]ferry.State{})
	}
	for _, o := range touched {
		t, ok := m.rep.Task(o.id)
		was := c.final[m.i][o.id]
		if was != "" && (!ok || !t.State.Final() || was == ferry.StateLanded && t.State != was) && !c.voidable(o) {
			c.fail(m, "I5", "%s was %s and is %s", o.order.Label, was, t.State)
		}
		if ok && t.State.Final() {
			c.final[m.i][o.id] = t.State
		}
	}
}

// voidable reports whether acts on an order can be voided later: those of a member that breaks the rules, or whose key two
// machines have.
func (c *checker) voidable(o *ordered) bool {
	for _, r := range c.w.records {
		if r.order == o && !r.by.honest() {
			return true
		}
	}
	return false
}

// life notes that a start showed life at a machine.
func (c *checker) life(m *machine, start ferry.RecordID) {
	for len(c.sign) <= m.i {
		c.sign = append(c.sign, map[ferry.RecordID]instant{})
	}
	c.sign[m.i][start] = c.w.time.now
}

// leastSilence is the least time for which a worker has to hear nothing of a start before it takes the order over.
const leastSilence = 119 * time.Second

// lapse is a rule of its own: nobody is taken for gone before the machine itself, awake and without a break, has heard
// nothing for the whole silence.
func (c *checker) lapse(m *machine, b *ferry.Claim) {
	if m.rogue != nil || len(b.Supersedes) == 0 || c.w.sc.Peer {
		return
	}
	c.w.stats.Lapses++
	for len(c.rested) <= m.i {
		c.rested = append(c.rested, 0)
	}
	for _, start := range b.Supersedes {
		since := max(c.rested[m.i], m.booted)
		if m.i < len(c.sign) {
			since = max(since, c.sign[m.i][start])
		}
		if d := c.w.time.now - since; d < leastSilence {
			c.fail(m, "lapse", "it takes over after %.1f s of silence that it watched", d.Seconds())
		}
	}
}

// settled is a rule of its own: a start stands on a claim that is younger than half of the time for which others wait for
// it, whatever the machine did in between; they may have gone on otherwise.
func (c *checker) settled(m *machine, claim ferry.RecordID) {
	f := m.work.fleet
	age := c.w.time.now - m.work.claimed[claim]
	if f.Settle() > 0 && age > f.TTL()/2+f.TTL()/50+time.Second {
		c.fail(m, "settle", "it starts %.1f s after its claim, which counted for %.1f s", age.Seconds(), f.TTL().Seconds())
	}
}

// rest notes that a machine slept: what it watches begins anew.
func (c *checker) rest(m *machine) {
	for len(c.rested) <= m.i {
		c.rested = append(c.rested, 0)
	}
	c.rested[m.i] = c.w.time.now
}

// beat is the second half of I6.
func (c *checker) beat(m *machine, b *ferry.Beat) {
	n := beatNumber{m.id, b.Boot, b.Counter}
	text := fmt.Sprint(b.Seq, b.Running, b.Slots)
	if have, ok := c.beats[n]; ok && have != text && !c.w.cloned[m.i] {
		c.fail(m, "I6", "beat %d of boot %d says two things", n.counter, n.boot)
	}
	c.beats[n] = text
}

// checkLanding is I1 and I2 at the moment in which main moves, and I12 as it was when the push was sent.
func (w *world) checkLanding(by *machine, order ferry.RecordID, l landing) {
	o := w.byID[order]
	if n := w.remote.landed[order]; n != 1 {
		w.check.fail(by, "I1", "%s landed %d times", o.order.Label, n)
	}
	if l.git.parent != l.tip {
		w.check.fail(by, "I2", "%s landed beside the tip", o.order.Label)
	}
	r := w.records[l.git.result]
	result, ok := r.body.(*ferry.Result)
	if !ok || result.Order != order || !l.git.real {
		w.check.fail(by, "I12", "%s landed with work that nobody did", o.order.Label)
		return
	}
	if !l.git.kept {
		w.check.fail(by, "I12", "%s landed without an accept of somebody who may", o.order.Label)
	}
}

// kept reports whether a result has an accept that counts, of somebody who may and who did not make it, in the records of the
// machine that sends a push. It is asked at that moment: a push that is on its way cannot be called back, and what shows
// meanwhile, like a fork of the builder, is for a person to see.
func (c *checker) kept(o *ferry.Outturn) bool {
	return slices.ContainsFunc(o.Verdicts, func(v ferry.Review) bool {
		word := c.w.records[v.ID]
		may := word.by.may(ferry.GrantReview) || word.by.deputy && word.nth <= deputyUses
		if word.by.deputy && may {
			c.w.seen(sawDeputy)
		}
		return v.Decision == ferry.DecisionKeep && may && word.by.id != o.Writer
	})
}

package sim

import (
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/worker"
)

// hands is the part of a machine that works: production's Plan and Fleet decide, the world's engines run.
type hands struct {
	fleet    *worker.Fleet
	version  int // rises with every record that the replica takes
	planned  int // the version that was planned last
	wake     uint64
	engines  []*engine
	slots    int
	pretends []ferry.RecordID // a rogue's starts without an engine
	claimed  map[ferry.RecordID]instant
	known    knowledge
	base     time.Duration // what the machine's clocks show when it has just begun
}

// knowledge is what the replica shows, read once for each change.
type knowledge struct {
	version int
	tasks   []ferry.Task
	workers []ferry.WriterID
}

// engine is an attempt of an order on a machine. It is over when its record of the end is written, or its machine died.
type engine struct {
	m       *machine
	o       *ordered
	order   ferry.RecordID
	start   ferry.RecordID
	from    ferry.Commit
	attempt int64
	born    instant
	began   instant // since when its time counts
	runs    bool
	fails   bool
	ending  bool          // its end is on the way to the channel
	fenced  instant       // since when its machine holds what fences it, 0 while nothing does
	fencedM time.Duration // the same by the monotonic clock
}

func (m *machine) works() bool { return m.may(ferry.GrantWork) && m.rogue == nil }

func (m *machine) engineOf(start ferry.RecordID) *engine {
	for _, e := range m.work.engines {
		if e.start == start && !start.IsZero() {
			return e
		}
	}
	return nil
}

func (m *machine) clock() worker.Clock {
	now := m.w.time.now
	c := worker.Clock{Mono: m.mono(now) + m.work.base, Boot: m.boottime(now) + m.work.base}
	if m.w.sc.Mutant == MutantMonoSettle {
		c.Boot = c.Mono
	}
	return c
}

func (m *machine) workerBoots() {
	m.work = hands{version: m.work.version + 1, planned: -1, slots: m.work.slots, claimed: map[ferry.RecordID]instant{}}
	if m.work.slots == 0 {
		m.work.slots = 1 + m.i%2
	}
	m.work.fleet = worker.NewFleet(worker.FleetSpec{Channel: m.w.channel, Me: m.id, Boot: m.boots, Timing: worker.Timing{Check: checkTime}})
	m.w.check.rest(m)
	m.work.base = time.Second
	if m.w.sc.Mutant == MutantLapseBoot && m.died > 0 && m.works() {
		m.pretendAwake(m.w.time.now - m.died)
	}
}

// pretendAwake is the mutant that takes the time in which the machine was off for silence of the others.
func (m *machine) pretendAwake(off time.Duration) {
	k := m.knows()
	for at := time.Second; at < off; at += 30 * time.Second {
		m.work.fleet.Look(worker.Clock{Mono: at, Boot: at}, worker.Sight{Tasks: k.tasks, Workers: k.workers})
	}
	m.work.base += off
}

// workerActs is one pass of the worker. Nothing is planned again while nothing is new.
func (m *machine) workerActs() {
	if !m.works() {
		return
	}
	if m.w.sc.Peer {
		m.peerActs()
		return
	}
	if m.work.planned != m.work.version {
		m.plan()
	}
}

// knows gives what the replica shows.
func (m *machine) knows() *knowledge {
	k := &m.work.known
	if k.version != m.work.version || k.tasks == nil {
		*k = knowledge{version: m.work.version, tasks: m.rep.Active()}
		for _, mem := range m.rep.Roster().Members() {
			if slices.Contains(mem.Grants, ferry.GrantWork) {
				k.workers = append(k.workers, mem.Writer)
			}
		}
	}
	return k
}

// lookAround gives the fleet what is known at this moment.
func (m *machine) lookAround() {
	k := m.knows()
	m.work.fleet.Look(m.clock(), worker.Sight{Tasks: k.tasks, Beats: m.beats.heard, Workers: k.workers})
}

func (m *machine) plan() {
	c := m.clock()
	m.lookAround()
	tasks := m.knows().tasks
	m.work.planned = m.work.version
	if m.w.sc.Mutant == MutantGraceNoFences && m.work.fleet.Grace(c) > 0 {
		m.planIn(m.work.fleet.Grace(c))
		return
	}
	in := worker.Input{
		Now: m.wall(m.w.time.now), Clock: c, Me: m.id, Agent: m.name, Tasks: tasks, Running: m.runningView(), Slots: m.work.slots,
		Backoff: func(n int) time.Duration { return time.Duration(n) * 10 * time.Second }, Fleet: m.work.fleet,
		Dispatch: m.may(ferry.GrantDispatch),
	}
	if !m.mayAct() {
		m.w.seen(sawBehind)
		in.Stopped = "a head of the authority that others have seen is missing here"
		m.planIn(15 * time.Second)
	}
	if m.full {
		in.Stopped = "the disk has no room"
	}
	steps, next := worker.Plan(in)
	for _, s := range m.mutate(steps, tasks) {
		if s.Do == worker.DoHold && m.w.lines != nil {
			m.w.note(m, "%s: %s (settle %.1f s)", s.Label, s.Reason, m.work.fleet.Settle().Seconds())
		}
		if !m.awake() || m.stopped {
			return
		}
		m.do(s)
	}
	if next > 0 {
		m.planIn(next)
	}
}

// planIn plans again after a while, unless that was done before.
func (m *machine) planIn(d time.Duration) {
	m.work.wake++
	wake := m.work.wake
	m.after(d+time.Millisecond, func() {
		if m.work.wake == wake {
			m.work.planned = -1
			m.look()
		}
	})
}

func (m *machine) runningView() map[ferry.RecordID]worker.Running {
	out := make(map[ferry.RecordID]worker.Running, len(m.work.engines))
	for _, e := range m.work.engines {
		out[e.start] = worker.Running{Order: e.order, Ending: e.ending && !e.runs, Idle: !e.runs}
	}
	return out
}

// do carries out one step.
func (m *machine) do(s worker.Step) {
	o := m.w.byID[s.Order]
	if m.full && s.Do != worker.DoCancel && s.Do != worker.DoHold {
		return // emptyDisk plans again
	}
	switch s.Do {
	case worker.DoBegin:
		if claim, ok := m.claim(o, s); ok {
			m.startAttempt(o, s, claim)
		}
	case worker.DoClaim:
		claim, ok := m.claim(o, s)
		if ok && m.w.sc.Mutant == MutantNoSettle {
			m.startAttempt(o, s, claim)
		}
	case worker.DoStart:
		m.startAttempt(o, s, s.Claim)
	case worker.DoCancel:
		if e := m.engineOf(s.Start); e != nil {
			m.w.trace(m, "fenced", uint64(o.n))
			m.end(e, s.Why)
		}
	case worker.DoRecover:
		m.w.trace(m, "recover", uint64(o.n))
		m.write(&ferry.Stop{Order: s.Order, Start: s.Start, Reason: s.Why, Note: s.Reason})
	case worker.DoRelease:
		m.w.trace(m, "release", uint64(o.n))
		m.write(&ferry.Stop{Order: s.Order, Claim: s.Claim, Reason: s.Why, Note: s.Reason})
	case worker.DoRetire:
		m.w.trace(m, "overdue", uint64(o.n))
		if _, ok := m.write(&ferry.Retire{Order: s.Order, Start: s.Start, Overdue: true, Reason: s.Reason}); ok {
			m.w.seen(sawOverdue)
			m.work.fleet.Retired(s.Start)
		}
	case worker.DoAsk:
		m.w.trace(m, "ask", uint64(o.n))
		m.write(s.Ask)
	case worker.DoHold:
	default:
		m.w.check.fail(m, "bug", "a step that nobody asked for: %s", s.Do)
	}
}

func (m *machine) claim(o *ordered, s worker.Step) (ferry.RecordID, bool) {
	m.w.trace(m, "claim", uint64(o.n)<<8+uint64(s.Attempt))
	t, _ := m.rep.Task(s.Order)
	if slices.ContainsFunc(t.Claims, func(c ferry.Claimed) bool { return c.Writer == m.id }) {
		m.w.seen(sawResettle)
	}
	if len(s.Over) > 0 {
		m.w.seen(sawLapse)
		if m.doubted(t.Holder) {
			m.w.seen(sawSelfDoubt)
		}
	}
	id, ok := m.write(&ferry.Claim{Order: s.Order, Attempt: s.Attempt, Supersedes: s.Over})
	if ok {
		m.work.fleet.Claimed(m.clock(), id)
		m.work.claimed[id] = m.w.time.now
		m.work.planned = -1
		m.soon()
	}
	return id, ok
}

func (m *machine) startAttempt(o *ordered, s worker.Step, claim ferry.RecordID) {
	t, _ := m.rep.Task(s.Order)
	m.w.trace(m, "start", uint64(o.n)<<8+uint64(s.Attempt))
	m.w.check.settled(m, claim)
	id, ok := m.write(&ferry.Start{
		Order: s.Order, Attempt: s.Attempt, Claim: claim, Engine: "stub", Sandbox: "bwrap", From: t.Next.From,
	})
	if ok {
		m.run(&engine{m: m, o: o, order: s.Order, start: id, attempt: s.Attempt, from: t.Next.From})
	}
}

// run lets an engine begin.
func (m *machine) run(e *engine) {
	w := m.w
	e.born, e.runs = w.time.now, true
	e.fails = w.hit(faultFail, w.sc.fail)
	m.work.engines = append(m.work.engines, e)
	m.soon()
	w.check.began(e)
	w.engineBegins(e)
	m.after(w.span(time.Minute, 5*time.Minute), func() {
		if e.runs {
			m.finish(e)
		}
	})
}

// finish ends an engine that has done its work: its commit goes to the remote, and then the result into the channel.
func (m *machine) finish(e *engine) {
	m.w.engineEnds(e)
	m.w.trace(m, "done", uint64(e.o.n))
	if e.fails {
		m.end(e, ferry.StopFailed)
		return
	}
	m.handIn(e)
}

func (m *machine) handIn(e *engine) {
	w := m.w
	if !m.holds(e) {
		return
	}
	if left := m.grace(); left > 0 {
		m.after(left, func() { m.handIn(e) })
		return
	}
	commit := commitOf("work", e.o.n, e.attempt, m.i, int64(e.born))
	ref := "refs/heads/ferry/" + string(e.o.order.Label) + "/" + commit.Short()
	w.check.effect(m, e.start, "a push")
	w.remote.call(m, func() error {
		return w.remote.branch(ref, commit, gitCommit{parent: e.from, order: e.order, real: true})
	}, func(err error) {
		switch {
		case !m.holds(e):
		case err != nil:
			m.after(10*time.Second, func() { m.handIn(e) })
		case m.grace() > 0:
			m.after(m.grace(), func() { m.handIn(e) })
		default:
			m.submit(e, commit)
		}
	})
}

func (m *machine) grace() time.Duration {
	if m.w.sc.Peer {
		return 0
	}
	return m.work.fleet.Grace(m.clock())
}

// holds reports whether an engine's attempt still is this machine's to end, after a look at what has arrived.
func (m *machine) holds(e *engine) bool {
	m.ingest()
	m.watchFences()
	t, ok := m.rep.Task(e.order)
	if m.engineOf(e.start) != e || m.stopped || !ok {
		return false
	}
	switch {
	case m.w.sc.Peer, m.w.sc.Mutant == MutantNoFence:
		return true
	case m.w.sc.Mutant == MutantResultLoses:
		return t.Live == e.start
	}
	return t.Holds(e.start)
}

func (m *machine) submit(e *engine, c ferry.Commit) {
	w := m.w
	w.trace(m, "result", uint64(e.o.n)<<8+uint64(e.attempt))
	t, _ := m.rep.Task(e.order)
	if _, ok := m.write(w.result(resultOf{task: &t, start: e.start, attempt: e.attempt, from: e.from, commit: c})); ok {
		m.forget(e)
		e.o.results++
		if e.o.results == 2 {
			w.stats.Second++
		}
		return
	}
	m.later(func() { m.handIn(e) })
}

// end writes why an attempt ended without a result.
func (m *machine) end(e *engine, why ferry.StopReason) {
	m.w.engineEnds(e)
	e.ending = true
	if _, ok := m.write(&ferry.Stop{Order: e.order, Start: e.start, Reason: why}); ok {
		m.forget(e)
		return
	}
	m.later(func() {
		if m.engineOf(e.start) == e {
			m.end(e, why)
		}
	})
}

func (m *machine) forget(e *engine) {
	m.work.engines = slices.DeleteFunc(m.work.engines, func(x *engine) bool { return x == e })
	m.work.planned = -1
	m.soon()
}

// killEngines ends all engines with their machine.
func (m *machine) killEngines() {
	for _, e := range m.work.engines {
		m.w.engineEnds(e)
	}
	m.work.engines = nil
}

// mutate leaves out the steps that the mutant of the scenario does not take.
func (m *machine) mutate(steps []worker.Step, tasks []ferry.Task) []worker.Step {
	drop := func(s worker.Step) bool {
		if s.Do != worker.DoCancel || s.Why != ferry.StopFenced {
			return false
		}
		t, ok := m.rep.Task(s.Order)
		settled := ok && !t.Standing.IsZero()
		return m.w.sc.Mutant == MutantNoFence && !settled || m.w.sc.Mutant == MutantResultLoses && settled
	}
	steps = slices.DeleteFunc(steps, drop)
	if m.w.sc.Mutant == MutantMinByTime {
		m.earliest(steps, tasks)
	}
	return steps
}

// earliest is the mutant that lets the earliest of several claims win, by the dates that their writers put on them.
func (m *machine) earliest(steps []worker.Step, tasks []ferry.Task) {
	for i, s := range steps {
		at := slices.IndexFunc(tasks, func(t ferry.Task) bool { return t.ID == s.Order })
		if at < 0 || s.Do != worker.DoStart && s.Do != worker.DoHold {
			continue
		}
		first, mine := ferry.Claimed{}, ferry.RecordID{}
		for _, c := range tasks[at].Claims {
			if first.ID.IsZero() || m.w.records[c.ID].head.Time.Before(m.w.records[first.ID].head.Time) {
				first = c
			}
			if c.Writer == m.id {
				mine = c.ID
			}
		}
		settled := m.w.time.now-m.work.claimed[mine] >= m.work.fleet.Settle()
		switch {
		case mine.IsZero() || len(tasks[at].Claims) < 2 || !settled:
		case first.Writer == m.id:
			steps[i].Do, steps[i].Claim, steps[i].Attempt = worker.DoStart, mine, tasks[at].Next.Attempt
		default:
			steps[i].Do = worker.DoHold
		}
	}
}

type resultOf struct {
	task    *ferry.Task
	start   ferry.RecordID
	attempt int64
	from    ferry.Commit
	commit  ferry.Commit
}

// result makes a result that production's evidence finds verified.
func (w *world) result(r resultOf) *ferry.Result {
	order := r.task.Order
	return &ferry.Result{
		Order: r.task.ID, Attempt: r.attempt, Revision: r.task.Revision + 1, Start: r.start, Engine: "stub", Base: order.Base, From: r.from,
		Commit: r.commit, Tree: r.commit, Files: []ferry.File{{Path: "a.txt", Status: "M", Added: 1}}, FilesTotal: 1,
		Checks: []ferry.Check{{Command: order.Checks[0]}}, Sandbox: ferry.Sandbox{Level: "bwrap", Net: "open"},
	}
}

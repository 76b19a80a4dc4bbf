package worker

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
)

// Do is what a step does.
type Do string

// The steps of a pass.
const (
	DoBegin   Do = "begin"   // claim the order and start its next attempt, in one write
	DoClaim   Do = "claim"   // claim its next attempt
	DoStart   Do = "start"   // start the attempt that is claimed
	DoCancel  Do = "cancel"  // end an attempt that runs here
	DoFreeze  Do = "freeze"  // stop the engine's processes and clocks
	DoThaw    Do = "thaw"    // let them go on
	DoSteer   Do = "steer"   // end the run, keep its work, begin again with the note
	DoRecover Do = "recover" // our own start whose process is gone
	DoRelease Do = "release" // our own claim that never started
	DoAsk     Do = "ask"     // ask a person, once
	DoRetire  Do = "retire"  // end the attempt of another that runs over its time
	DoHold    Do = "hold"    // nothing, for a reason
)

// Step is one thing that a pass will do, with the reason a person can read.
type Step struct {
	Do      Do
	Order   ferry.RecordID
	Label   ferry.Label
	Start   ferry.RecordID   // of cancel, freeze, thaw, steer, recover, retire
	Claim   ferry.RecordID   // of release and start
	Attempt int64            // of begin, claim and start
	Over    []ferry.RecordID // of claim: the live starts that it supersedes; of start: the claims before it that have lapsed
	Why     ferry.StopReason
	Reason  string
	Soon    bool // of hold: other workers are given time, and then it goes on
	Steers  []ferry.Steer
	Ask     *ferry.Question
}

// Running is what the plan has to know of an attempt that runs here.
type Running struct {
	Order  ferry.RecordID
	Frozen bool
	Ending bool // it was already told to end
	Idle   bool // nothing runs for it, it only waits to be closed: it takes no slot
	Told   map[ferry.RecordID]bool
}

// Input is everything a plan follows from.
type Input struct {
	Now      time.Time
	Clock    Clock
	Me       ferry.WriterID
	Agent    ferry.AgentName
	Tasks    []ferry.Task // the active ones, in order of arrival
	Running  map[ferry.RecordID]Running
	Slots    int
	Width    int                    // how many orders may run in the whole fleet; 0 means no limit
	Stopped  string                 // why nothing new may begin on this machine: paused, disk, shutting down
	Engine   func(*ferry.Task) Lack // why no engine of this worker may do an order now; nil means that one may
	Backoff  func(failures int) time.Duration
	Dispatch bool                      // this worker may end the attempts of others
	Fleet    *Fleet                    // after its Look at these tasks
	Lacks    map[ferry.RecordID]Lack   // orders that need a commit which is not on this machine
	Names    map[ferry.WriterID]string // of the members, for people: "wisp on box"
}

// Plan says what to do next, with a reason for everything that is not done,
// and after which time it is to be asked again though nothing has happened; 0
// means never. It is pure: plan_test.go is the specification of the worker.
func Plan(in Input) ([]Step, time.Duration) {
	p := planner{in: in, free: in.Slots}
	for _, r := range in.Running {
		if !r.Idle {
			p.free--
		}
	}
	for i := range in.Tasks {
		p.ours(&in.Tasks[i])
		p.overdue(&in.Tasks[i])
	}
	for _, t := range byPriority(in.Tasks) {
		p.take(t)
	}
	for _, start := range p.lost() {
		p.add(Step{Do: DoCancel, Order: in.Running[start].Order, Start: start, Why: ferry.StopFenced, Reason: "the order is settled elsewhere"})
	}
	p.silenced()
	return p.steps, p.next
}

type planner struct {
	in    Input
	free  int
	steps []Step
	known map[ferry.RecordID]bool // running starts that a task was found for
	begun []*ferry.Task           // orders this plan begins or claims
	wide  int                     // orders that run anywhere, with those
	next  time.Duration
}

// wake asks for another plan after a while.
func (p *planner) wake(after time.Duration) {
	if after = max(after, time.Millisecond); p.next == 0 || after < p.next {
		p.next = after
	}
}

func (p *planner) add(s Step) { p.steps = append(p.steps, s) }

// byPriority puts revisions before new work; within each the order of arrival.
func byPriority(tasks []ferry.Task) []*ferry.Task {
	out := make([]*ferry.Task, len(tasks))
	for i := range tasks {
		out[i] = &tasks[i]
	}
	urgency := func(t *ferry.Task) int {
		if t.State == ferry.StateChangesRequested || t.State == ferry.StateRefuted {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b *ferry.Task) int { return cmp.Compare(urgency(a), urgency(b)) })
	return out
}

// ours handles what this worker holds: the attempts that run here, and its
// own claims and starts that nothing runs for.
func (p *planner) ours(t *ferry.Task) {
	for _, a := range t.Attempts {
		r, running := p.in.Running[a.Start]
		if running {
			p.see(a.Start)
			p.steer(t, a.Start, r)
			continue
		}
		if a.Holder == p.in.Me && a.Stop == nil && a.Result.IsZero() {
			p.add(Step{Do: DoRecover, Order: t.ID, Label: t.Order.Label, Start: a.Start, Why: ferry.StopOrphan, Reason: "its worker process is gone"})
		}
	}
	if t.State == ferry.StateRunning {
		p.wide++
	}
	for _, cl := range t.Claims {
		if cl.Writer != p.in.Me {
			continue
		}
		if _, _, ok := p.in.Fleet.mine(t); ok {
			p.free-- // its slot is kept until it starts or is given back
			continue
		}
		p.release(t, cl.ID, "released as stale: claimed, never started")
	}
}

func (p *planner) release(t *ferry.Task, claim ferry.RecordID, why string) {
	p.add(Step{Do: DoRelease, Order: t.ID, Label: t.Order.Label, Claim: claim, Why: ferry.StopReleased, Reason: why})
}

func (p *planner) see(start ferry.RecordID) {
	if p.known == nil {
		p.known = map[ferry.RecordID]bool{}
	}
	p.known[start] = true
}

// steer decides what happens to an attempt that runs here.
func (p *planner) steer(t *ferry.Task, start ferry.RecordID, r Running) {
	if r.Ending {
		return
	}
	s := Step{Order: t.ID, Label: t.Order.Label, Start: start}
	switch {
	case t.State == ferry.StateKilled || t.State == ferry.StateCancelled || t.State == ferry.StateFailed:
		s.Do, s.Why, s.Reason = DoCancel, ferry.StopKilled, "the order is "+string(t.State)
		if t.Hold != "" {
			s.Reason += ": " + t.Hold
		}
	case t.Live != start:
		s.Do, s.Why, s.Reason = DoCancel, ferry.StopFenced, "another attempt holds the order"
	case t.State != ferry.StateRunning:
		s.Do, s.Why, s.Reason = DoCancel, ferry.StopFenced, "the order is settled elsewhere: it is "+string(t.State)
	case t.Paused && !r.Frozen:
		s.Do, s.Reason = DoFreeze, "paused"
	case !t.Paused && r.Frozen:
		s.Do, s.Reason = DoThaw, "resumed"
	default:
		for _, note := range t.Steers {
			if !r.Told[note.ID] {
				s.Steers = append(s.Steers, note)
			}
		}
		if len(s.Steers) == 0 || t.Paused {
			return
		}
		s.Do, s.Reason = DoSteer, "a note for the engine"
	}
	p.add(s)
}

// lost gives the running starts whose order is no longer active at all.
func (p *planner) lost() []ferry.RecordID {
	var out []ferry.RecordID
	for start, r := range p.in.Running {
		if !p.known[start] && !r.Ending {
			out = append(out, start)
		}
	}
	slices.SortFunc(out, byID)
	return out
}

// take decides about an order that somebody may begin.
func (p *planner) take(t *ferry.Task) {
	s := Step{Do: DoHold, Order: t.ID, Label: t.Order.Label, Attempt: t.Next.Attempt}
	claim, _, claimed := p.in.Fleet.mine(t)
	if _, open := p.in.Fleet.open[t.ID]; !open || p.foreign(t, claimed) {
		if claimed {
			p.release(t, claim, "given back: the order is not open any more")
		}
		if s.Reason = p.notOpen(t); s.Reason != "" {
			p.add(s)
		}
		return
	}
	if ask := brake(t); ask != nil {
		s.Do, s.Ask, s.Reason = DoAsk, ask, ask.Text
	} else if s.Reason = p.hold(t, claimed); s.Reason == "" {
		p.contend(t, &s)
		if s.Do != DoHold {
			p.begun = append(p.begun, t)
			p.wide++
		}
		if s.Do == DoBegin || s.Do == DoClaim && !claimed {
			p.free--
		}
		claimed = false
	}
	if claimed {
		p.release(t, claim, "given back: "+s.Reason)
	}
	for _, l := range []Lack{p.in.Lacks[t.ID], p.engine(t)} {
		s.Soon = s.Soon || l.Soon && l.Why == s.Reason
	}
	p.add(s)
}

// foreign reports whether a claim of ours stands on the order that an earlier
// process made: it is given back, and the order taken with the next look.
func (p *planner) foreign(t *ferry.Task, claimed bool) bool {
	return !claimed && slices.ContainsFunc(t.Claims, func(c ferry.Claimed) bool { return c.Writer == p.in.Me })
}

func beginning(t *ferry.Task) string {
	switch t.State {
	case ferry.StateChangesRequested:
		return "sent back with notes"
	case ferry.StateRefuted:
		return "the last result was refuted"
	case ferry.StateOffered:
		return "addressed to us"
	}
	return "open"
}

// notOpen gives the reason of a task that waits for something that is not
// this worker's to decide.
func (p *planner) notOpen(t *ferry.Task) string {
	if t.State == ferry.StateRunning || t.State == ferry.StateClaimed {
		if t.Holder == p.in.Me {
			return ""
		}
		if t.State == ferry.StateRunning {
			return p.held(t)
		}
	}
	return t.Hold
}

// hold gives the first reason why this worker does not begin a claimable
// order now, or "".
func (p *planner) hold(t *ferry.Task, claimed bool) string {
	in := p.in
	switch {
	case t.To != "" && t.To != in.Agent:
		return fmt.Sprintf("addressed to %s, this is %s", t.To, in.Agent)
	case slices.Contains(t.Next.Barred, in.Me):
		return fmt.Sprintf("an attempt of this worker ran over the time of the order; `ferry channel retry %s` lets it try again", t.Order.Label)
	case in.Stopped != "":
		return in.Stopped
	}
	if l := p.engine(t); l.Why != "" {
		p.wake(cmp.Or(l.Wait, time.Minute))
		return l.Why
	}
	if l, ok := in.Lacks[t.ID]; ok {
		p.wake(l.Wait)
		return l.Why
	}
	for _, r := range in.Running {
		if r.Order == t.ID && !r.Idle {
			return "its last attempt is still ending here"
		}
	}
	if why := p.firstRight(t); why != "" {
		return why
	}
	if until, why := p.backedOff(t); in.Now.Before(until) {
		p.wake(until.Sub(in.Now))
		return fmt.Sprintf("waits until %s after %s", until.Format("15:04:05"), why)
	}
	if other := p.overlap(t); other != nil {
		return fmt.Sprintf("touches the same files as %s, which %s", other.Order.Label, doing(other))
	}
	if in.Width > 0 && p.wide >= in.Width && !claimed {
		return fmt.Sprintf("the fleet runs %d of at most %d orders", p.wide, in.Width)
	}
	if p.free <= 0 && !claimed {
		return fmt.Sprintf("no free slot: %d of %d in use (max_parallel in agent.toml)", in.Slots, in.Slots)
	}
	return ""
}

// engine gives why no engine may do an order now; it is empty where one may.
func (p *planner) engine(t *ferry.Task) Lack {
	if p.in.Engine == nil {
		return Lack{}
	}
	return p.in.Engine(t)
}

// backedOff gives the time before which this worker leaves an order alone, and
// after what. It counts from its own last attempt, by its own clock: one that
// counts against the order, or one that this machine could not carry through.
func (p *planner) backedOff(t *ferry.Task) (time.Time, string) {
	if n := len(t.Attempts); n > 0 && t.Attempts[n-1].Holder == p.in.Me {
		if returned := givenBack(t); returned > 0 {
			return p.after(t.Attempts[n-1].EndedAt, returned), "it was given back: " + t.Attempts[n-1].Stop.Note
		}
	}
	if t.Failures == 0 {
		return time.Time{}, ""
	}
	for i := len(t.Attempts) - 1; i >= 0; i-- {
		if a := t.Attempts[i]; a.Holder == p.in.Me && counted(t, &a) {
			return p.after(a.EndedAt, t.Failures), fmt.Sprintf("%d failed attempts", t.Failures)
		}
	}
	return time.Time{}, ""
}

// after gives the end of a wait. A clock that was set back must not make it
// longer than it is.
func (p *planner) after(ended *time.Time, failures int) time.Time {
	wait := p.in.Backoff(failures)
	if ended == nil || ended.After(p.in.Now.Add(wait)) {
		return time.Time{}
	}
	return ended.Add(wait)
}

// counted reports whether an attempt ended in a way that counts against the order.
func counted(t *ferry.Task, a *ferry.Attempt) bool {
	if a.Stop != nil {
		return a.Stop.Reason.Counts()
	}
	return slices.ContainsFunc(t.Results, func(o ferry.Outturn) bool {
		return o.ID == a.Result && o.Evidence.Status == ferry.EvidenceRefuted
	})
}

// givenBack counts the last attempts in a row that a machine could not carry through.
func givenBack(t *ferry.Task) (n int) {
	for i := len(t.Attempts) - 1; i >= 0; i-- {
		if s := t.Attempts[i].Stop; s == nil || s.Reason != ferry.StopReleased {
			break
		}
		n++
	}
	return n
}

// overlap finds an order that may change the same files and goes first: one
// that runs anywhere, one this plan begins, or one whose claim has the smaller
// rank.
func (p *planner) overlap(t *ferry.Task) *ferry.Task {
	for i := range p.in.Tasks {
		o := &p.in.Tasks[i]
		if o.ID == t.ID || !Overlap(o.Order.Touches, t.Order.Touches) {
			continue
		}
		if o.State == ferry.StateRunning || p.claimedFirst(o, t) {
			return o
		}
	}
	for _, o := range p.begun {
		if Overlap(o.Order.Touches, t.Order.Touches) {
			return o
		}
	}
	return nil
}

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
	DoBegin   Do = "begin"   // claim the order and start its next attempt
	DoCancel  Do = "cancel"  // end an attempt that runs here
	DoFreeze  Do = "freeze"  // stop the engine's processes and clocks
	DoThaw    Do = "thaw"    // let them go on
	DoSteer   Do = "steer"   // end the run, keep its work, begin again with the note
	DoRecover Do = "recover" // our own start whose process is gone
	DoRelease Do = "release" // our own claim that never started
	DoAsk     Do = "ask"     // ask a person, once
	DoHold    Do = "hold"    // nothing, for a reason
)

// Step is one thing that a pass will do, with the reason a person can read.
type Step struct {
	Do      Do
	Order   ferry.RecordID
	Label   ferry.Label
	Start   ferry.RecordID // of cancel, freeze, thaw, steer, recover
	Claim   ferry.RecordID // of release
	Attempt int64          // of begin
	Why     ferry.StopReason
	Reason  string
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
	Now     time.Time
	Me      ferry.WriterID
	Agent   ferry.AgentName
	Tasks   []ferry.Task // the active ones, in order of arrival
	Running map[ferry.RecordID]Running
	Slots   int
	Stopped string // why nothing new may begin on this machine: paused, disk, shutting down
	Engine  string // why the engine may not be used now
	Backoff func(failures int) time.Duration
	Seen    map[ferry.RecordID]time.Time // when this worker first saw the present attempt open
	Settle  time.Duration                // how long another worker's first right to a revision lasts
}

// Plan says what to do next, with a reason for everything that is not done.
// It is pure: plan_test.go is the specification of the worker.
func Plan(in Input) []Step {
	p := planner{in: in, free: in.Slots}
	for _, r := range in.Running {
		if !r.Idle {
			p.free--
		}
	}
	for i := range in.Tasks {
		p.ours(&in.Tasks[i])
	}
	for _, t := range byPriority(in.Tasks) {
		p.take(t)
	}
	for _, start := range p.lost() {
		p.add(Step{Do: DoCancel, Order: in.Running[start].Order, Start: start, Why: ferry.StopFenced, Reason: "the order is settled elsewhere"})
	}
	return p.steps
}

type planner struct {
	in    Input
	free  int
	steps []Step
	known map[ferry.RecordID]bool // running starts that a task was found for
	begun []*ferry.Task           // orders this plan begins
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
	if !t.LiveClaim.IsZero() && t.Holder == p.in.Me {
		p.add(Step{Do: DoRelease, Order: t.ID, Label: t.Order.Label, Claim: t.LiveClaim, Why: ferry.StopReleased, Reason: "released as stale: claimed, never started"})
	}
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
	slices.SortFunc(out, func(a, b ferry.RecordID) int { return slices.Compare(a[:], b[:]) })
	return out
}

// take decides about an order that somebody may begin.
func (p *planner) take(t *ferry.Task) {
	s := Step{Do: DoHold, Order: t.ID, Label: t.Order.Label, Attempt: t.Next.Attempt}
	if !t.Next.Claimable {
		if s.Reason = p.notOpen(t); s.Reason != "" {
			p.add(s)
		}
		return
	}
	if ask := brake(t); ask != nil {
		s.Do, s.Ask, s.Reason = DoAsk, ask, ask.Text
		p.add(s)
		return
	}
	if s.Reason = p.hold(t); s.Reason == "" {
		s.Do, s.Reason = DoBegin, beginning(t)
		p.free--
		p.begun = append(p.begun, t)
	}
	p.add(s)
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
	switch t.State {
	case ferry.StateRunning:
		if _, here := p.in.Running[t.Live]; here {
			return ""
		}
		if t.Holder != p.in.Me {
			return "another worker runs it"
		}
		return ""
	case ferry.StateClaimed:
		if t.Holder != p.in.Me {
			return "another worker claimed it"
		}
		return ""
	}
	return t.Hold
}

// hold gives the first reason why this worker does not begin a claimable
// order now, or "".
func (p *planner) hold(t *ferry.Task) string {
	in := p.in
	switch {
	case t.Order.To != "" && t.Order.To != in.Agent:
		return fmt.Sprintf("addressed to %s, this is %s", t.Order.To, in.Agent)
	case in.Stopped != "":
		return in.Stopped
	case in.Engine != "":
		return in.Engine
	}
	if t.Next.Prefer != "" && t.Next.Prefer != in.Me {
		if left := in.Settle - in.Now.Sub(in.Seen[t.ID]); left > 0 {
			return "the worker that built it has the first right to the revision"
		}
	}
	if until, why := p.backedOff(t); in.Now.Before(until) {
		return fmt.Sprintf("waits until %s after %s", until.Format("15:04:05"), why)
	}
	if other := p.overlap(t); other != nil {
		return fmt.Sprintf("touches the same files as %s, which runs", other.Order.Label)
	}
	if p.free <= 0 {
		return fmt.Sprintf("no free slot: %d of %d in use (max_parallel in agent.toml)", in.Slots, in.Slots)
	}
	return ""
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

// overlap finds a running order, or one this plan begins, that may change the
// same files.
func (p *planner) overlap(t *ferry.Task) *ferry.Task {
	for i := range p.in.Tasks {
		o := &p.in.Tasks[i]
		if o.ID != t.ID && o.State == ferry.StateRunning && Overlap(o.Order.Touches, t.Order.Touches) {
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

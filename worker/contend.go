package worker

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
)

// contend decides about an order that this worker would take, while others may take it as well. It fills in the step.
func (p *planner) contend(t *ferry.Task, s *Step) {
	f, c := p.in.Fleet, p.in.Clock
	if left := f.Grace(c); left > 0 {
		p.wait(s, left, fmt.Sprintf("waits %s after its start or a sleep: what happened meanwhile may still arrive", short(left)))
		return
	}
	claim, own, claimed := f.mine(t)
	addressed := t.To == p.in.Agent && t.To != ""
	switch {
	case claimed:
		p.settle(t, s, claim, own)
	case (f.Settle() == 0 || addressed) && t.Next.Claimable:
		s.Do, s.Reason = DoBegin, beginning(t)
	case addressed || p.turn(t, s):
		p.claim(t, s)
	}
}

// wait makes a hold of the step that ends by time.
func (p *planner) wait(s *Step, left time.Duration, why string) {
	s.Do, s.Reason, s.Soon = DoHold, why, true
	p.wake(left)
}

func (p *planner) claim(t *ferry.Task, s *Step) {
	s.Do, s.Reason = DoClaim, beginning(t)
	if t.State == ferry.StateRunning {
		s.Over = []ferry.RecordID{t.Live}
		s.Reason = fmt.Sprintf("%s was not heard of for %s", p.name(t.Holder), short(p.in.Fleet.silence(p.in.Clock, t)))
	}
}

// turn reports whether it is this worker's turn to claim: nobody else's claim counts, and those who come before it had their
// time.
func (p *planner) turn(t *ferry.Task, s *Step) bool {
	f, c := p.in.Fleet, p.in.Clock
	for _, cl := range t.Claims {
		if left := f.counts(c, t, cl.Writer); left > 0 {
			p.wait(s, left, fmt.Sprintf("claimed by %s; others go on after %s without a start", p.name(cl.Writer), short(left)))
			return false
		}
	}
	before := f.before(c, t)
	if left := time.Duration(before)*f.Settle() - (c.Mono - f.open[t.ID].at); left > 0 {
		p.wait(s, left, fmt.Sprintf("waits for its turn: %s (%s)", count(before), short(left)))
		return false
	}
	return true
}

func count(before int) string {
	if before == 1 {
		return "1 worker comes before this one"
	}
	return fmt.Sprintf("%d workers come before this one", before)
}

// settle decides about the own claim: it waits for others with a smaller rank, is made again when it is too old for the others
// to count on, waits until every other claim had the time to arrive, and starts.
func (p *planner) settle(t *ferry.Task, s *Step, claim ferry.RecordID, own ownClaim) {
	f, c := p.in.Fleet, p.in.Clock
	age := c.Boot - own.at
	old := age > f.TTL()/2
	mine := f.rank(t, p.in.Me)
	addressed := t.To == p.in.Agent && t.To != ""
	for _, cl := range t.Claims {
		if cl.Writer == p.in.Me {
			continue
		}
		left := f.counts(c, t, cl.Writer)
		rank := f.rank(t, cl.Writer)
		first := bytes.Compare(rank[:], mine[:]) < 0
		if left > 0 && !addressed && (first || old) {
			p.wait(s, left, fmt.Sprintf("%s claimed it first; this worker goes on after %s without a start", p.name(cl.Writer), short(left)))
			return
		}
		if first {
			s.Over = append(s.Over, cl.ID)
		}
	}
	left := max(own.settle, f.Settle()) - age
	switch {
	case addressed:
	case old && f.Settle() > 0:
		s.Over = nil
		p.claim(t, s)
		s.Reason = "claimed too long ago: once more"
		return
	case left > 0:
		p.wait(s, left, fmt.Sprintf("claimed, waits %s whether another claim arrives", short(left)))
		return
	}
	s.Do, s.Claim, s.Reason = DoStart, claim, beginning(t)
}

// held words why an order that another worker runs is left to it, and asks for another look when that may end.
func (p *planner) held(t *ferry.Task) string {
	f, c := p.in.Fleet, p.in.Clock
	if !t.Next.Takeover {
		return fmt.Sprintf("held by %s", p.name(t.Holder))
	}
	silent, left := f.silence(c, t), f.lapse(c, t)
	p.wake(left)
	return fmt.Sprintf("held by %s; last heard %s ago; taken over after %s of silence", p.name(t.Holder), short(silent), short(silent+left))
}

// firstRight gives the reason when a revision is still left to the worker that built it, or "".
func (p *planner) firstRight(t *ferry.Task) string {
	f, c := p.in.Fleet, p.in.Clock
	if t.Next.Prefer == "" || t.Next.Prefer == p.in.Me || t.To != "" {
		return ""
	}
	left := max(f.Settle(), f.t.Prefer) - (c.Mono - f.open[t.ID].at)
	if left <= 0 {
		return ""
	}
	p.wake(left)
	return fmt.Sprintf("the worker that built it has the first right to the revision (%s)", short(left))
}

// silenced ends what runs here when the others cannot know that it does.
func (p *planner) silenced() {
	left, ok := p.in.Fleet.mute(p.in.Clock)
	if !ok {
		return
	}
	if left > 0 {
		p.wake(left)
		return
	}
	ending := map[ferry.RecordID]bool{}
	for _, s := range p.steps {
		ending[s.Start] = ending[s.Start] || s.Do == DoCancel
	}
	for _, start := range slices.SortedFunc(maps.Keys(p.in.Running), byID) {
		if r := p.in.Running[start]; !r.Ending && !ending[start] {
			p.add(Step{
				Do: DoCancel, Order: r.Order, Start: start, Why: ferry.StopFenced,
				Reason: "the beat of this worker cannot be written to the folder: others take it for gone, and the order over",
			})
		}
	}
}

func byID(a, b ferry.RecordID) int { return bytes.Compare(a[:], b[:]) }

// claimedFirst reports whether an order is claimed by another whose rank is smaller than ours for t.
func (p *planner) claimedFirst(o, t *ferry.Task) bool {
	f := p.in.Fleet
	mine := f.rank(t, p.in.Me)
	for _, cl := range o.Claims {
		if cl.Writer == p.in.Me || f.counts(p.in.Clock, o, cl.Writer) <= 0 {
			continue
		}
		if rank := f.rank(o, cl.Writer); bytes.Compare(rank[:], mine[:]) < 0 {
			return true
		}
	}
	return false
}

func doing(t *ferry.Task) string {
	if t.State == ferry.StateClaimed {
		return "is claimed"
	}
	return "runs"
}

// name gives a member's name for people.
func (p *planner) name(w ferry.WriterID) string {
	if n := p.in.Names[w]; n != "" {
		return n
	}
	return string(w[:min(len(w), 8)])
}

// short words a time so that a person reads it at a glance.
func short(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

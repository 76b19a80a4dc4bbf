package attack_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
)

// The time that a record says of itself moves nothing: a claim wins by its rank, whenever its writer says that it was made.
func TestTimesOfClaims(t *testing.T) {
	years := []int{1, 2026, 9999}
	for _, mine := range years {
		for _, theirs := range years {
			f := newFleet(t)
			a, b := f.admit("one", ferry.GrantWork), f.admit("two", ferry.GrantWork)
			a.time, b.time = time.Date(mine, 1, 2, 0, 0, 0, 0, time.UTC), time.Date(theirs, 1, 2, 0, 0, 0, 0, time.UTC)
			id := f.say(order("t"))
			first, second := a, b
			x, y := ferry.Rank(f.id, id, 1, a.id()), ferry.Rank(f.id, id, 1, b.id())
			if bytes.Compare(x[:], y[:]) > 0 {
				first, second = b, a
			}
			claims := map[*pen]ferry.RecordID{}
			for _, p := range []*pen{second, first} {
				claims[p] = p.write(&ferry.Claim{Order: id, Attempt: 1})
				f.look()
			}
			f.wantHolder(id, first)
			starts := map[*pen]ferry.RecordID{}
			for _, p := range []*pen{second, first} {
				starts[p] = p.write(&ferry.Start{Order: id, Attempt: 1, Claim: claims[p], Engine: "x", Sandbox: "none"})
			}
			f.wantHolder(id, first)
			// A claim that comes later, and says that it was first, takes nothing from work that runs.
			late := f.admit("three", ferry.GrantWork)
			late.time = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
			late.write(&ferry.Claim{Order: id, Attempt: 1})
			f.wantHolder(id, first)
			if got := f.left.task(id); got.Live != starts[first] || len(got.Attempts) != 2 {
				t.Errorf("years %d and %d: live is %s of %d attempts", mine, theirs, got.Live.Short(), len(got.Attempts))
			}
		}
	}
}

func (f *fleet) look() {
	f.t.Helper()
	for _, m := range f.machines() {
		m.look()
	}
}

func (f *fleet) wantHolder(id ferry.RecordID, p *pen) {
	f.t.Helper()
	f.sync()
	for _, m := range f.machines() {
		if got := m.task(id); got.Holder != p.id() {
			f.t.Errorf("the holder is %s in state %s, want the one with the smaller rank, %s", got.Holder, got.State, p.id())
		}
	}
}

// Only who began an attempt ends it, runs it and hands in its result, once.
func TestWorkOfAnother(t *testing.T) {
	w := newWorked(t)
	p := w.admit("hand", ferry.GrantWork)
	w.unmoved("the work of another", func() {
		p.write(&ferry.Result{Order: w.runs, Start: w.start, Attempt: 1, Revision: 1})
		p.write(&ferry.Stop{Order: w.runs, Start: w.start, Reason: ferry.StopReleased})
		p.write(&ferry.Run{Order: w.runs, Start: w.start, Attempt: 1, N: 1, Outcome: ferry.OutcomeDone, Usage: ferry.Usage{CostMicroUSD: 1 << 40}})
		p.write(&ferry.Start{Order: w.runs, Attempt: 2, Claim: w.start, Engine: "x"})
		p.write(&ferry.Start{Order: w.open, Attempt: 1, Engine: "x"})
		p.write(&ferry.Start{Order: w.open, Attempt: 1, Claim: w.open, Engine: "x"})
		p.write(&ferry.Result{Order: w.open, Attempt: 1, Revision: 1})
		for _, n := range []int64{-1, 0} {
			claim := p.write(&ferry.Claim{Order: w.open, Attempt: n})
			p.write(&ferry.Start{Order: w.open, Attempt: n, Claim: claim, Engine: "x"})
		}
	})
	claim := p.write(&ferry.Claim{Order: w.open, Attempt: 1})
	begun := p.write(&ferry.Start{Order: w.open, Attempt: 1, Claim: claim, Engine: "x", Sandbox: "none"})
	result := p.write(&ferry.Result{Order: w.open, Start: begun, Attempt: 1, Revision: 1, Summary: "first"})
	w.wantState(w.open, ferry.StateAwaitingReview)
	w.unmoved("a second result of one start", func() {
		p.write(&ferry.Result{Order: w.open, Start: begun, Attempt: 1, Revision: 2, Summary: "second"})
		p.write(&ferry.Start{Order: w.open, Attempt: 1, Claim: claim, Engine: "y", Sandbox: "none"})
		p.write(&ferry.Result{Order: w.open, Start: begun, Attempt: 2, Revision: 2, Summary: "third"})
	})
	if got := w.left.task(w.open); got.Standing != result || len(got.Results) != 1 {
		t.Errorf("%s stands, of %d results", got.Standing.Short(), len(got.Results))
	}
}

// Whoever claims everything and begins nothing is passed over by name, and claims that are given back cost the order nothing.
func TestClaimsWithoutAStart(t *testing.T) {
	f := newFleet(t)
	hoarder := f.admit("hoarder", ferry.GrantWork)
	var ids, claims []ferry.RecordID
	for i := range 20 {
		ids = append(ids, f.say(order(fmt.Sprintf("t-%d", i))))
		claims = append(claims, hoarder.write(&ferry.Claim{Order: ids[i], Attempt: 1}))
	}
	f.sync()
	refused := 0
	for i, id := range ids {
		mine, err := f.wisp.Claim(t.Context(), day, channel.ClaimSpec{Order: id, Attempt: 1})
		must(t, err)
		spec := channel.StartSpec{Order: id, Claim: mine, Start: ferry.Start{Engine: "x", Sandbox: "none"}}
		if _, err = f.wisp.Start(t.Context(), day, spec); errors.Is(err, channel.ErrNotClaimable) {
			refused++
			spec.Lapsed = []ferry.RecordID{claims[i]}
			_, err = f.wisp.Start(t.Context(), day, spec)
		}
		must(t, err)
		f.wantState(id, ferry.StateRunning)
		if got := f.home.task(id); got.Holder != f.wisp.ID() {
			t.Errorf("%s has it", got.Holder)
		}
	}
	if refused == 0 || refused == len(ids) {
		t.Errorf("%d of %d ranks were smaller: the test shows nothing", refused, len(ids))
	}
	id := f.say(order("loop"))
	for range 100 {
		claim := hoarder.write(&ferry.Claim{Order: id, Attempt: 1})
		hoarder.write(&ferry.Stop{Order: id, Claim: claim, Reason: ferry.StopReleased})
	}
	f.wantState(id, ferry.StateOpen)
	if got := f.left.task(id); got.Failures != 0 || !got.Next.Claimable || got.Next.Attempt != 1 {
		t.Errorf("after 100 claims that were given back: %+v", got.Next)
	}
	f.begin(f.left, f.wisp, id)
}

// A worker that is retired while it is alive is fenced: what it begins again under the same number is not an attempt.
func TestRetiredWhileAlive(t *testing.T) {
	f := newFleet(t)
	id := f.say(order("t"))
	p := f.admit("hand", ferry.GrantWork)
	claim := p.write(&ferry.Claim{Order: id, Attempt: 1})
	begun := p.write(&ferry.Start{Order: id, Attempt: 1, Claim: claim, Engine: "x", Sandbox: "none"})
	f.wantState(id, ferry.StateRunning)
	_, err := f.master.Retire(t.Context(), day, ferry.Retire{Order: id, Reason: "gone"})
	must(t, err)
	f.wantState(id, ferry.StateOpen)
	f.unmoved("going on under an old number", func() {
		p.write(&ferry.Start{Order: id, Attempt: 1, Claim: claim, Engine: "x", Sandbox: "none"})
		again := p.write(&ferry.Claim{Order: id, Attempt: 1})
		p.write(&ferry.Start{Order: id, Attempt: 1, Claim: again, Engine: "x", Sandbox: "none"})
	})
	_, other := f.begin(f.left, f.wisp, id)
	f.wantState(id, ferry.StateRunning)
	if got := f.home.task(id); got.Live != other || got.Attempt != 2 || got.Failures != 0 {
		t.Errorf("live is %s at attempt %d with %d failures", got.Live.Short(), got.Attempt, got.Failures)
	}
	// Work that exists is not thrown away for work that may come: it stands, and is judged like any other.
	p.write(&ferry.Result{Order: id, Start: begun, Attempt: 1, Revision: 1})
	f.wantState(id, ferry.StateDone)
}

// The numbers of attempts cannot be used up: a worker that begins the last one there is leaves the order to others.
func TestLastNumberOfAnAttempt(t *testing.T) {
	for _, n := range []int64{1<<53 - 1, 1001, 1000} {
		f := newFleet(t)
		id := f.say(order("t"))
		p := f.admit("hand", ferry.GrantWork)
		p.write(&ferry.Claim{Order: id, Attempt: n - 1})
		claim := p.write(&ferry.Claim{Order: id, Attempt: n})
		begun := p.write(&ferry.Start{Order: id, Attempt: n, Claim: claim, Engine: "x", Sandbox: "none"})
		f.sync()
		p.write(&ferry.Stop{Order: id, Start: begun, Reason: ferry.StopReleased})
		f.wantState(id, ferry.StateOpen)
		f.begin(f.left, f.wisp, id)
		f.wantState(id, ferry.StateRunning)
		write(t, f.wisp, &ferry.Stop{Order: id, Start: f.left.task(id).Live, Reason: ferry.StopReleased})
		f.begin(f.left, f.wisp, id)
		f.wantState(id, ferry.StateRunning)
	}
}

package channel_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
)

// rivals is a site with a second agent, and an order for which first has the smaller rank of attempt 1.
type rivals struct {
	*site
	t             *testing.T
	order         ferry.RecordID
	first, second *channel.Writer
}

func newRivals(t *testing.T) *rivals {
	t.Helper()
	s := newSite(t)
	if _, err := s.master.Admit(t.Context(), start, testMember(testKey(t, "gale"), "gale", ferry.GrantWork)); err != nil {
		t.Fatal(err)
	}
	r := &rivals{site: s, t: t, order: s.issue(t, order("t-first")), first: s.agent, second: s.writer(t, "gale")}
	a, b := ferry.Rank(s.ID(), r.order, 1, r.first.ID()), ferry.Rank(s.ID(), r.order, 1, r.second.ID())
	if string(b[:]) < string(a[:]) {
		r.first, r.second = r.second, r.first
	}
	return r
}

func (r *rivals) claim(w *channel.Writer, attempt int64, over ...ferry.RecordID) ferry.RecordID {
	r.t.Helper()
	id, err := w.Claim(r.t.Context(), start, channel.ClaimSpec{Order: r.order, Attempt: attempt, Supersedes: over})
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

func (r *rivals) start(w *channel.Writer, claim ferry.RecordID, lapsed ...ferry.RecordID) (ferry.RecordID, error) {
	return w.Start(r.t.Context(), start, channel.StartSpec{
		Order: r.order, Claim: claim, Lapsed: lapsed, Start: ferry.Start{Engine: "codex", Sandbox: "none"},
	})
}

func (r *rivals) begins(w *channel.Writer, claim ferry.RecordID, lapsed ...ferry.RecordID) ferry.RecordID {
	r.t.Helper()
	id, err := r.start(w, claim, lapsed...)
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

func (r *rivals) refused(err error, why string) {
	r.t.Helper()
	if err == nil || !strings.Contains(err.Error(), why) {
		r.t.Errorf("error %v, want a refusal that says %q", err, why)
	}
}

func TestStartAmongClaims(t *testing.T) {
	r := newRivals(t)
	late, early := r.claim(r.second, 1), r.claim(r.first, 1)
	_, err := r.start(r.second, late)
	r.refused(err, "the claim "+early.Short()+" has the smaller rank")
	if !errors.Is(err, channel.ErrNotClaimable) {
		t.Errorf("%v is no ErrNotClaimable", err)
	}
	r.begins(r.first, early)
	_, err = r.start(r.second, late)
	r.refused(err, "counts no more")

	r = newRivals(t)
	late, early = r.claim(r.second, 1), r.claim(r.first, 1)
	r.begins(r.second, late, early) // the first claim came to nothing
	_, err = r.start(r.first, early)
	r.refused(err, "counts no more")
}

func TestClaimOverASilentHolder(t *testing.T) {
	r := newRivals(t)
	held := r.begins(r.first, r.claim(r.first, 1))
	_, err := r.second.Claim(t.Context(), start, channel.ClaimSpec{Order: r.order, Attempt: 2})
	r.refused(err, "its start "+held.Short()+" is live")
	_, err = r.second.Claim(t.Context(), start, channel.ClaimSpec{Order: r.order, Attempt: 1, Supersedes: []ferry.RecordID{held}})
	r.refused(err, "next is attempt 2")
	r.begins(r.second, r.claim(r.second, 2, held))
	if task := r.task(t, r.order); task.Holder != r.second.ID() || !task.Attempts[0].Fenced {
		t.Errorf("holder %s, attempts %+v; want the second, and the first fenced", task.Holder, task.Attempts)
	}
}

func TestStartAfterAnEnd(t *testing.T) {
	r := newRivals(t)
	claim := r.claim(r.first, 1)
	if _, err := r.master.Cancel(t.Context(), start, ferry.Cancel{Order: r.order}); err != nil {
		t.Fatal(err)
	}
	_, err := r.start(r.first, claim)
	r.refused(err, "it is cancelled")
}

func TestBeginWhereAnotherClaimed(t *testing.T) {
	r := newRivals(t)
	r.claim(r.second, 1)
	_, _, err := r.first.Begin(t.Context(), start, channel.BeginSpec{Order: r.order, Attempt: 1, Start: ferry.Start{Engine: "codex"}})
	r.refused(err, "it is claimed")
}

func TestRetire(t *testing.T) {
	r := newRivals(t)
	_, err := r.master.Retire(t.Context(), start, ferry.Retire{Order: r.order})
	r.refused(err, "nobody holds it")
	held := r.begins(r.first, r.claim(r.first, 1))
	_, err = r.master.Retire(t.Context(), start, ferry.Retire{Order: r.order, Start: r.order})
	r.refused(err, "what was named is not live")
	if _, err := r.master.Retire(t.Context(), start, ferry.Retire{Order: r.order, Reason: "sold"}); err != nil {
		t.Fatal(err)
	}
	task := r.task(t, r.order)
	if a := task.Attempts[0]; task.State != ferry.StateOpen || a.Start != held || a.Stop == nil || a.Stop.Reason != ferry.StopRetired || task.Failures != 0 {
		t.Errorf("state %s, attempts %+v; want open, and the attempt retired", task.State, task.Attempts)
	}
	r.claim(r.first, 2)
	r.claim(r.second, 2)
	if added, err := r.master.Retire(t.Context(), start, ferry.Retire{Order: r.order}); err != nil || len(added) != 2 {
		t.Errorf("retire of two claims: %d records, %v", len(added), err)
	}
	r.wantState(t, r.order, ferry.StateOpen)
}

func TestReassign(t *testing.T) {
	r := newRivals(t)
	_, err := r.master.Reassign(t.Context(), start, ferry.Reassign{Order: r.order, To: "nobody"})
	r.refused(err, "no agent of this channel is called nobody")
	_, err = r.master.Reassign(t.Context(), start, ferry.Reassign{Order: r.order})
	r.refused(err, "it is for any agent already")
	r.begins(r.agent, r.claim(r.agent, 1))
	if _, err := r.master.Reassign(t.Context(), start, ferry.Reassign{Order: r.order, To: "gale"}); err != nil {
		t.Fatal(err)
	}
	if task := r.task(t, r.order); task.State != ferry.StateOffered || task.To != "gale" || !task.Live.IsZero() {
		t.Errorf("state %s for %q, live %s; want offered to gale, and nothing live", task.State, task.To, task.Live.Short())
	}
	_, err = r.agent.Claim(t.Context(), start, channel.ClaimSpec{Order: r.order, Attempt: 2})
	r.refused(err, "it is for gale, not for wisp")
	result := r.finishAs(r.writer(t, "gale"))
	_, err = r.master.Reassign(t.Context(), start, ferry.Reassign{Order: r.order, To: "wisp"})
	r.refused(err, "it has a result")
	if !errors.Is(err, channel.ErrNoHandover) {
		t.Errorf("%v is no ErrNoHandover", err)
	}
	if got := r.task(t, r.order).Standing; got != result {
		t.Errorf("standing %s, want %s", got.Short(), result.Short())
	}
}

// finishAs carries the order through by one writer.
func (r *rivals) finishAs(w *channel.Writer) ferry.RecordID {
	r.t.Helper()
	n := r.task(r.t, r.order).Next.Attempt
	_, begun, err := w.Begin(r.t.Context(), start, channel.BeginSpec{Order: r.order, Attempt: n, Start: ferry.Start{Engine: "codex", Sandbox: "none"}})
	if err != nil {
		r.t.Fatal(err)
	}
	added, err := w.Update(r.t.Context(), start, func(tx *channel.Tx) error {
		_, err := tx.Add(&ferry.Result{Order: r.order, Start: begun, Attempt: n, Revision: 1})
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return added[0]
}

// TestPulse is a beat with what this machine has: read back by another process of it.
func TestPulse(t *testing.T) {
	r := newRivals(t)
	claim := r.claim(r.agent, 1)
	b, err := r.agent.Pulse(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if b.ID != claim || b.Epoch != 1 || len(b.Saw) != 1 || b.Saw[0].Writer != r.master.ID() || b.Saw[0].Seq == 0 {
		t.Errorf("pulse %+v, want the own head and that of the master, the only other that wrote", b)
	}
	b.Boot, b.Counter = 3, 7
	if err := r.agent.PutBeat(b); err != nil {
		t.Fatal(err)
	}
	r.reopen(t)
	if _, err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.master.Beats()[r.agent.ID()]; got.Counter != 7 || got.ID != claim {
		t.Errorf("beat %+v was read back, want that of counter 7", got)
	}
}

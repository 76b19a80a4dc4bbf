package channel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
)

// NotClaimable says why an order cannot be begun. It is an ErrNotClaimable.
type NotClaimable struct {
	Label   ferry.Label
	State   ferry.State
	Hold    string
	Attempt int64 // the attempt that would come next
}

// Error says it in words.
func (e *NotClaimable) Error() string {
	s := fmt.Sprintf("order %s: %v: it is %s", e.Label, ErrNotClaimable, e.State)
	if e.Hold != "" {
		s += ", " + e.Hold
	}
	return fmt.Sprintf("%s (next is attempt %d)", s, e.Attempt)
}

// Is makes the error an ErrNotClaimable.
func (e *NotClaimable) Is(target error) bool { return target == ErrNotClaimable }

// BeginSpec says which attempt of which order begins, and with what. Order, Attempt and Claim of Start are filled in.
type BeginSpec struct {
	Order   ferry.RecordID
	Attempt int64
	Start   ferry.Start
}

// Begin claims an order and starts the attempt, both durable before it returns: for an order that nobody else may take, or a
// channel in which nobody else does. It is a NotClaimable when the order, as it stands under the lock, is not to be begun by
// this writer at this attempt: another was faster, or something is in the way.
func (w *Writer) Begin(ctx context.Context, now time.Time, spec BeginSpec) (claim, start ferry.RecordID, err error) {
	_, err = w.Update(ctx, now, func(tx *Tx) error {
		t, err := tx.Task(spec.Order)
		if err != nil {
			return err
		}
		if !t.Next.Claimable {
			return tx.notClaimable(&t, "")
		}
		if err := tx.mayTake(&t, spec.Attempt); err != nil {
			return err
		}
		if claim, err = tx.Add(&ferry.Claim{Order: t.ID, Attempt: spec.Attempt}); err != nil {
			return err
		}
		s := spec.Start
		s.Order, s.Attempt, s.Claim = spec.Order, spec.Attempt, claim
		start, err = tx.Add(&s)
		return err
	})
	if err != nil && !errors.Is(err, ErrUnpublished) {
		return ferry.RecordID{}, ferry.RecordID{}, err
	}
	return claim, start, err
}

// ClaimSpec says which attempt of which order a writer intends to run, and the live starts of those whom it takes for gone.
type ClaimSpec struct {
	Order      ferry.RecordID
	Attempt    int64
	Supersedes []ferry.RecordID
}

// Claim says that this writer intends to run the next attempt of an order. While somebody else runs the one before, it must
// name that start as superseded. Claims of others are not in the way: whose claim counts is settled before a start.
func (w *Writer) Claim(ctx context.Context, now time.Time, spec ClaimSpec) (ferry.RecordID, error) {
	return w.one(ctx, now, func(tx *Tx) (ferry.Body, error) {
		t, err := tx.Task(spec.Order)
		if err != nil {
			return nil, err
		}
		if err := tx.mayTake(&t, spec.Attempt); err != nil {
			return nil, err
		}
		if !t.Live.IsZero() && !slices.Contains(spec.Supersedes, t.Live) {
			return nil, tx.notClaimable(&t, "its start "+t.Live.Short()+" is live")
		}
		return &ferry.Claim{Order: t.ID, Attempt: spec.Attempt, Supersedes: spec.Supersedes}, nil
	})
}

// StartSpec says on which claim an attempt starts, and with what. Lapsed names the claims of others that came to nothing.
// Order, Attempt and Claim of Start are filled in.
type StartSpec struct {
	Order  ferry.RecordID
	Claim  ferry.RecordID
	Lapsed []ferry.RecordID
	Start  ferry.Start
}

// Start starts the attempt that this writer has claimed. It is a NotClaimable when, under the lock, anything is to be seen
// that goes before it: a start of that attempt or a higher one, a result, an end, or a claim of smaller rank that has not
// lapsed.
func (w *Writer) Start(ctx context.Context, now time.Time, spec StartSpec) (ferry.RecordID, error) {
	return w.one(ctx, now, func(tx *Tx) (ferry.Body, error) {
		t, err := tx.Task(spec.Order)
		if err != nil {
			return nil, err
		}
		if err := tx.mayTake(&t, t.Next.Attempt); err != nil {
			return nil, err
		}
		mine := slices.IndexFunc(t.Claims, func(c ferry.Claimed) bool { return c.ID == spec.Claim })
		if mine < 0 {
			return nil, tx.notClaimable(&t, "the claim "+spec.Claim.Short()+" of this writer counts no more")
		}
		for _, c := range t.Claims[:mine] {
			if !slices.Contains(spec.Lapsed, c.ID) {
				return nil, tx.notClaimable(&t, "the claim "+c.ID.Short()+" has the smaller rank")
			}
		}
		if !t.Live.IsZero() && !slices.Contains(t.Claims[mine].Supersedes, t.Live) {
			return nil, tx.notClaimable(&t, "its start "+t.Live.Short()+" is live")
		}
		s := spec.Start
		s.Order, s.Attempt, s.Claim = spec.Order, t.Next.Attempt, spec.Claim
		return &s, nil
	})
}

func (tx *Tx) notClaimable(t *ferry.Task, hold string) error {
	if hold == "" {
		hold = t.Hold
	}
	return &NotClaimable{Label: t.Order.Label, State: t.State, Hold: hold, Attempt: t.Next.Attempt}
}

// mayTake refuses an attempt that is not the next one of an order which this writer may take.
func (tx *Tx) mayTake(t *ferry.Task, attempt int64) error {
	me, _ := tx.roster.Member(tx.w.id)
	switch {
	case attempt != t.Next.Attempt:
		return tx.notClaimable(t, "")
	case t.To != "" && t.To != me.Name:
		return tx.notClaimable(t, fmt.Sprintf("it is for %s, not for %s", t.To, me.Name))
	case slices.Contains(t.Next.Barred, tx.w.id):
		return tx.notClaimable(t, "an attempt of this writer ran over the time of the order")
	case !t.Next.Claimable && !t.Next.Takeover:
		return tx.notClaimable(t, "")
	}
	return nil
}

// Retire ends an attempt, or a claim that was never started, of a worker that is gone. With neither named it ends what is
// live: the start, else every claim.
func (w *Writer) Retire(ctx context.Context, now time.Time, b ferry.Retire) ([]ferry.RecordID, error) {
	return w.Update(ctx, now, func(tx *Tx) error {
		t, err := tx.Task(b.Order)
		if err != nil {
			return err
		}
		if err := unfinished(&t, "retire"); err != nil {
			return err
		}
		live := ends(&t)
		named := !b.Start.IsZero() || !b.Claim.IsZero()
		switch {
		case len(live) == 0:
			return fmt.Errorf("retire on order %s: nobody holds it, it is %s; `ferry status --why %s` says what it waits for", t.Order.Label, t.State, t.Order.Label)
		case named && !slices.Contains(live, b.Start) && !slices.Contains(live, b.Claim):
			return fmt.Errorf("retire on order %s: what was named is not live; `ferry channel show %s` lists its attempts", t.Order.Label, t.Order.Label)
		case named:
			_, err := tx.Add(&b)
			return err
		case !t.Live.IsZero():
			b.Start = t.Live
			_, err := tx.Add(&b)
			return err
		}
		for _, c := range t.Claims {
			each := b
			each.Claim = c.ID
			if _, err := tx.Add(&each); err != nil {
				return err
			}
		}
		return nil
	})
}

// Reassign gives an order to another agent, or to any with an empty name, and ends what is live of it. Ends is filled in.
func (w *Writer) Reassign(ctx context.Context, now time.Time, b ferry.Reassign) (ferry.RecordID, error) {
	return w.one(ctx, now, func(tx *Tx) (ferry.Body, error) {
		t, err := tx.Task(b.Order)
		if err != nil {
			return nil, err
		}
		if err := unfinished(&t, "reassign"); err != nil {
			return nil, err
		}
		if b.To != "" && !slices.ContainsFunc(tx.roster.Members(), func(m ferry.Member) bool { return m.Name == b.To }) {
			return nil, fmt.Errorf("reassign on order %s: no agent of this channel is called %s; `ferry channel members` lists them", t.Order.Label, b.To)
		}
		b.Ends = ends(&t)
		if len(b.Ends) == 0 && t.To == b.To {
			return nil, fmt.Errorf("reassign on order %s: %w: it is for %s already, and nobody holds it", t.Order.Label, ErrNoHandover, whom(b.To))
		}
		return &b, nil
	})
}

func whom(n ferry.AgentName) string {
	if n == "" {
		return "any agent"
	}
	return string(n)
}

// unfinished refuses to hand on an order that has ended, or whose result stands.
func unfinished(t *ferry.Task, what string) error {
	if t.State.Final() {
		return fmt.Errorf("%s on order %s: %w: it is %s, and that is final; give another order", what, t.Order.Label, ErrNoHandover, t.State)
	}
	if !t.Standing.IsZero() {
		return fmt.Errorf("%s on order %s: %w: it has a result, it is %s; `ferry channel review %s --send-back --notes …` opens it again",
			what, t.Order.Label, ErrNoHandover, t.State, t.Order.Label)
	}
	return nil
}

// ends lists the live starts and claims of an order.
func ends(t *ferry.Task) []ferry.RecordID {
	var out []ferry.RecordID
	for _, a := range t.Attempts {
		if a.Stop == nil && a.Result.IsZero() {
			out = append(out, a.Start)
		}
	}
	for _, c := range t.Claims {
		out = append(out, c.ID)
	}
	slices.SortFunc(out, func(a, b ferry.RecordID) int { return bytes.Compare(a[:], b[:]) })
	return out
}

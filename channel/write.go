package channel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
)

// Errors of the writes. Their text names the order and says what is in the way.
var (
	ErrLabelTaken   = errors.New("the label is taken")
	ErrCycle        = errors.New("an order cannot depend on itself")
	ErrNotClaimable = errors.New("the order cannot be begun")
	// ErrNoHandover means that an order cannot be taken from one agent and given to another.
	ErrNoHandover = errors.New("it cannot be handed on")
)

// one writes a single record after a look at what is there.
func (w *Writer) one(ctx context.Context, now time.Time, make func(tx *Tx) (ferry.Body, error)) (ferry.RecordID, error) {
	added, err := w.Update(ctx, now, func(tx *Tx) error {
		b, err := make(tx)
		if err != nil {
			return err
		}
		_, err = tx.Add(b)
		return err
	})
	if len(added) == 0 {
		return ferry.RecordID{}, err
	}
	return added[0], err
}

func given(b ferry.Body) func(*Tx) (ferry.Body, error) {
	return func(*Tx) (ferry.Body, error) { return b, nil }
}

// Issue writes an order. Its label must not be in use, and what it depends on must be here. Dependencies that are named
// twice count once.
func (w *Writer) Issue(ctx context.Context, now time.Time, o ferry.Order) (ferry.RecordID, error) {
	if err := o.Check(); err != nil {
		return ferry.RecordID{}, err
	}
	return w.one(ctx, now, func(tx *Tx) (ferry.Body, error) { return tx.issue(o) })
}

func (tx *Tx) issue(o ferry.Order) (*ferry.Order, error) {
	var deps []ferry.RecordID
	for _, id := range o.DependsOn {
		t, err := tx.Task(id)
		switch {
		case err != nil:
			return nil, fmt.Errorf("order %s: depends on: %w", o.Label, err)
		case t.Order.Label == o.Label:
			return nil, fmt.Errorf("order %s: depends on %s: %w", o.Label, id.Short(), ErrCycle)
		case !slices.Contains(deps, id):
			deps = append(deps, id)
		}
	}
	o.DependsOn = deps
	holders, err := tx.labelled(o.Label)
	if err != nil {
		return nil, err
	}
	if len(holders) > 0 {
		return nil, fmt.Errorf("order %s: %w by %s; choose another with --id", o.Label, ErrLabelTaken, holders[0].String()[:12])
	}
	return &o, nil
}

// Admit lets a writer in, or adds to the grants of a member. Only the master can.
func (w *Writer) Admit(ctx context.Context, now time.Time, m ferry.Member) (ferry.RecordID, error) {
	return w.one(ctx, now, given(&ferry.Admit{Member: m, Epoch: 1}))
}

// Verdict writes what a reviewer says of a result. The result must be one of the order's.
func (w *Writer) Verdict(ctx context.Context, now time.Time, v ferry.Verdict) (ferry.RecordID, error) {
	return w.one(ctx, now, func(tx *Tx) (ferry.Body, error) { return &v, tx.hasResult(v.Order, v.Result) })
}

// Approve writes the master's key on a result. The result must be one of the order's.
func (w *Writer) Approve(ctx context.Context, now time.Time, a ferry.Approve) (ferry.RecordID, error) {
	return w.one(ctx, now, func(tx *Tx) (ferry.Body, error) { return &a, tx.hasResult(a.Order, a.Result) })
}

func (tx *Tx) hasResult(order, result ferry.RecordID) error {
	t, err := tx.Task(order)
	if err != nil || result.IsZero() {
		return err
	}
	if !slices.ContainsFunc(t.Results, func(o ferry.Outturn) bool { return o.ID == result }) {
		return fmt.Errorf("order %s: it has no result %s; `ferry channel show %s` lists them", t.Order.Label, result.Short(), t.Order.Label)
	}
	return nil
}

// Cancel takes an order back.
func (w *Writer) Cancel(ctx context.Context, now time.Time, b ferry.Cancel) (ferry.RecordID, error) {
	return w.one(ctx, now, given(&b))
}

// Interrupt acts on an order while it waits or runs.
func (w *Writer) Interrupt(ctx context.Context, now time.Time, b ferry.Interrupt) (ferry.RecordID, error) {
	return w.one(ctx, now, given(&b))
}

// Ask asks a question about an order. While one with the same key is open, it writes nothing and gives that one.
func (w *Writer) Ask(ctx context.Context, now time.Time, q ferry.Question) (ferry.RecordID, error) {
	var open ferry.RecordID
	added, err := w.Update(ctx, now, func(tx *Tx) error {
		t, err := tx.Task(q.Order)
		if err != nil {
			return err
		}
		for _, o := range t.Questions {
			if o.Question.Key == q.Key {
				open = o.ID
				return nil
			}
		}
		_, err = tx.Add(&q)
		return err
	})
	if len(added) > 0 {
		return added[0], err
	}
	return open, err
}

// Answer answers an open question with one of its options.
func (w *Writer) Answer(ctx context.Context, now time.Time, a ferry.Answer) (ferry.RecordID, error) {
	return w.one(ctx, now, func(tx *Tx) (ferry.Body, error) {
		t, err := tx.Task(a.Order)
		if err != nil {
			return nil, err
		}
		for _, o := range t.Questions {
			if o.ID == a.Question {
				return &a, offered(o.Question, a.Option)
			}
		}
		return nil, fmt.Errorf("order %s: no open question %s; `ferry channel inbox` lists them", t.Order.Label, a.Question.Short())
	})
}

func offered(q *ferry.Question, option string) error {
	var names []string
	for _, o := range q.Options {
		if o.Name == option {
			return nil
		}
		names = append(names, o.Name)
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("option %q: the question offers %v", clip(option), names)
}

// Note writes a line of the ledger, about an order or about none.
func (w *Writer) Note(ctx context.Context, now time.Time, n ferry.Note) (ferry.RecordID, error) {
	return w.one(ctx, now, given(&n))
}

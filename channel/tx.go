package channel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ferry-fleet/ferry"
)

// Task gives an order as it stands in this write: with everything that arrived, and with what the write added.
func (tx *Tx) Task(id ferry.RecordID) (ferry.Task, error) {
	if t, ok := tx.folding[id]; ok {
		return t, nil
	}
	t, ok, err := tx.task(id)
	if err != nil {
		return t, err
	}
	if !ok {
		return t, fmt.Errorf("order %s: %w", id.Short(), ErrNoOrder)
	}
	return t, nil
}

func (tx *Tx) task(id ferry.RecordID) (ferry.Task, bool, error) {
	ctx := context.Background() // the index is local, and the write ends with its function
	if !tx.affects(id) {
		found, err := tasks(ctx, tx.q, `SELECT task FROM orders WHERE id = ?`, id[:])
		if err != nil || len(found) == 0 {
			return ferry.Task{}, false, err
		}
		if !slices.ContainsFunc(found[0].Order.DependsOn, tx.affects) {
			return found[0], true, nil
		}
	}
	recs, err := tx.about(ctx, id)
	if err != nil {
		return ferry.Task{}, false, err
	}
	for _, r := range tx.added {
		if s, ok := subject(r); ok && s == id {
			recs = append(recs, r)
		}
	}
	h, ok := assemble(tx.c.id, id, recs, tx.roster)
	if !ok {
		return ferry.Task{}, false, nil
	}
	t := ferry.Fold(h, ferry.View{Judge: tx.c.cfg.Judge, Depend: func(dep ferry.RecordID) (ferry.Label, ferry.State, bool) {
		d, known, depErr := tx.task(dep)
		if err = errors.Join(err, depErr); depErr != nil || !known {
			return "", "", false
		}
		return d.Order.Label, d.State, true
	}})
	if err != nil {
		return ferry.Task{}, false, err
	}
	if tx.folding == nil {
		tx.folding = map[ferry.RecordID]ferry.Task{}
	}
	tx.folding[id] = t
	return t, true, nil
}

// affects reports whether the write added something about an order.
func (tx *Tx) affects(id ferry.RecordID) bool {
	return slices.ContainsFunc(tx.added, func(r ferry.Record) bool {
		s, ok := subject(r)
		return ok && s == id
	})
}

// Find finds an order by its label or by the first digits of its id, like Channel.Task.
func (tx *Tx) Find(ref string) (ferry.Task, error) {
	ctx := context.Background() // the index is local, and the write ends with its function
	byLabel, err := ids(ctx, tx.q, `SELECT id FROM orders WHERE label = ? ORDER BY issued, id LIMIT 9`, ref)
	if err != nil {
		return ferry.Task{}, err
	}
	low, high, ok := prefixRange(ref)
	var byID []ferry.RecordID
	if ok {
		if byID, err = ids(ctx, tx.q, `SELECT id FROM orders WHERE id BETWEEN ? AND ? LIMIT 9`, low, high); err != nil {
			return ferry.Task{}, err
		}
	}
	for _, r := range tx.added {
		order, is := r.Body.(*ferry.Order)
		switch {
		case is && string(order.Label) == ref:
			byLabel = append(byLabel, r.ID)
		case is && ok && string(low) <= string(r.ID[:]) && string(r.ID[:]) <= string(high):
			byID = append(byID, r.ID)
		}
	}
	if len(byLabel) == 0 {
		byLabel = byID
	}
	found := make([]ferry.Task, 0, len(byLabel))
	for _, id := range byLabel {
		t, err := tx.Task(id)
		if err != nil {
			return t, err
		}
		found = append(found, t)
	}
	return pick(ref, found)
}

// labelled gives the orders that carry a label.
func (tx *Tx) labelled(l ferry.Label) ([]ferry.RecordID, error) {
	holders, err := ids(context.Background(), tx.q, `SELECT id FROM orders WHERE label = ?`, string(l))
	if err != nil {
		return nil, err
	}
	all := map[ferry.RecordID]bool{}
	for _, id := range holders {
		all[id] = true
	}
	for _, r := range tx.added {
		if o, is := r.Body.(*ferry.Order); is && o.Label == l {
			all[r.ID] = true
		}
	}
	return slices.Collect(maps.Keys(all)), nil
}

package channel

import (
	"context"
	"fmt"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
)

// permitted refuses a record that no reader would count.
func (tx *Tx) permitted(rec ferry.Record, file []byte) error {
	seats := authority.Seats{}
	if id, ok := subject(rec); ok && id != rec.ID {
		t, err := tx.Task(id)
		if err != nil {
			return fmt.Errorf("write %s: %w", rec.Body.Type(), err)
		}
		seats = seatsIn(&t, rec.Body)
	}
	roster := tx.roster
	if statement(rec.Body.Type()) {
		var err error
		if roster, err = tx.drafted(rec, file); err != nil {
			return err
		}
	}
	level, why, ok := roster.CountsFor(rec, seats)
	if !ok {
		return fmt.Errorf("write %s: %s", rec.Body.Type(), why)
	}
	if level == ferry.LevelDelegate {
		// What is missing may be the end of the delegation.
		why, err := tx.c.behind(context.Background(), tx.roster)
		if err != nil {
			return err
		}
		if why != "" {
			return fmt.Errorf("write %s in the place of the master: %w: %s", rec.Body.Type(), ErrBehind, why)
		}
	}
	tx.roster = roster
	return nil
}

// seatsIn tells who has a part in what a record about an order is about.
func seatsIn(t *ferry.Task, b ferry.Body) authority.Seats {
	s := authority.Seats{Issuer: t.Issuer}
	result, verdict := judged(b)
	for _, o := range t.Results {
		if o.ID == result {
			s.Builder = o.Writer
		}
		for _, v := range o.Verdicts {
			if v.ID == verdict {
				s.Reviewer = v.Writer
			}
		}
	}
	return s
}

// drafted computes the roster as it would be with the statements of this write.
func (tx *Tx) drafted(rec ferry.Record, file []byte) (*authority.Roster, error) {
	d := &draft{indexed: tx.c.indexed(context.Background(), tx.q), ch: chain{tx.w.id, tx.epoch}}
	for i, r := range append(tx.added, rec) {
		if !statement(r.Body.Type()) {
			continue
		}
		d.added = append(d.added, r)
		if _, is := r.Body.(*ferry.Root); is {
			data := file
			if i < len(tx.frames) {
				data = tx.frames[i].data
			}
			d.files = append(d.files, rooted{r, data})
		}
	}
	return evaluate(tx.c.id, d)
}

// draft is the material of authority with the statements that a write adds to its writer's chain.
type draft struct {
	*indexed
	ch    chain
	added []ferry.Record
	files []rooted
}

func (d *draft) rootFiles() ([]rooted, error) {
	out, err := d.indexed.rootFiles()
	return append(out, d.files...), err
}

func (d *draft) statements(ch chain, b bounds) ([]ferry.Record, bool, error) {
	if ch != d.ch {
		return d.indexed.statements(ch, b)
	}
	added := d.added
	if b.keep != nil {
		at := -1
		for i, r := range d.added {
			if r.ID == b.keep.ID {
				at = i
			}
		}
		if at < 0 {
			return d.indexed.statements(ch, b)
		}
		added, b.keep = d.added[:at+1], nil
	}
	out, whole, err := d.indexed.statements(ch, b)
	return append(out, added...), whole, err
}

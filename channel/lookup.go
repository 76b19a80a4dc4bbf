package channel

import (
	"context"
	"database/sql"
	"strings"

	"github.com/ferry-fleet/ferry"
)

// lookup is what there is about an order before it is folded.
type lookup struct {
	n       int64 // of its row, or 0
	state   string
	about   []place
	held    []*parsed        // about it too, and not in the index yet
	waiting []ferry.RecordID // orders that depend on it
}

// lookupSizes are the numbers of orders that are asked for at once: few, so that the statements stay prepared.
var lookupSizes = [...]int{1, 16, 256}

// lookUp asks the index for the first of ids, as many as one question takes, and returns how many those are.
func (p *projector) lookUp(ctx context.Context, ids []ferry.RecordID) (int, error) {
	size := lookupSizes[len(lookupSizes)-1]
	for _, s := range lookupSizes {
		if len(ids) <= s {
			size = s
			break
		}
	}
	n := min(len(ids), size)
	p.found = make(map[ferry.RecordID]*lookup, n)
	args := make([]any, size)
	for i := range args {
		id := ids[min(i, n-1)]
		args[i] = id[:]
		p.found[id] = &lookup{held: p.late.about[id]}
	}
	in := ` IN (?` + strings.Repeat(", ?", size-1) + `)`
	var id, other sql.RawBytes
	err := each(ctx, p.q, func(rows *sql.Rows) error {
		var n int64
		var state string
		if err := rows.Scan(&id, &n, &state); err != nil {
			return err
		}
		l := p.found[ferry.RecordID(id)]
		l.n, l.state = n, state
		return nil
	}, `SELECT id, n, state FROM orders WHERE id`+in, args...)
	if err != nil {
		return 0, err
	}
	err = each(ctx, p.late.tx, func(rows *sql.Rows) error { // what late holds is known
		var pl place
		if err := rows.Scan(&id, &other, &pl.main, &pl.off, &pl.size); err != nil {
			return err
		}
		copy(pl.id[:], other)
		l := p.found[ferry.RecordID(id)]
		l.about = append(l.about, pl)
		return nil
	}, `SELECT subject, `+placeColumns+` FROM records WHERE main = 1 AND subject`+in+` ORDER BY subject, n`, args...)
	if err != nil {
		return 0, err
	}
	return n, each(ctx, p.q, func(rows *sql.Rows) error {
		if err := rows.Scan(&id, &other); err != nil {
			return err
		}
		l := p.found[ferry.RecordID(id)]
		l.waiting = append(l.waiting, ferry.RecordID(other))
		return nil
	}, `SELECT dep, ord FROM deps WHERE dep`+in, args...)
}

package channel

import (
	"context"
	"database/sql"
	"strings"

	"github.com/ferry-fleet/ferry"
)

// late is a transaction of the index that holds records back, because one statement inserts many for the price of a few. It
// inserts them before any statement that names their table, so that none misses them.
type late struct {
	tx    *sql.Tx
	held  []arrival
	about map[ferry.RecordID][]*parsed // those of held that count, by the order that they are about
	fresh map[ferry.RecordID]*parsed   // inserted by this transaction
}

// arrival is one row of records.
type arrival struct {
	*parsed
	subject ferry.RecordID // zero when it is about no order
	main    bool
}

func newLate(tx *sql.Tx) *late {
	return &late{tx: tx, about: map[ferry.RecordID][]*parsed{}, fresh: map[ferry.RecordID]*parsed{}}
}

// hold takes a record that the index does not have.
func (l *late) hold(a arrival) {
	l.held = append(l.held, a)
	if a.main && !a.subject.IsZero() {
		l.about[a.subject] = append(l.about[a.subject], a.parsed)
	}
}

// insert inserts what is held. Nothing can be asked of late after that.
func (l *late) insert(ctx context.Context) error {
	into := rowsInto{"INSERT OR IGNORE INTO records (id, writer, epoch, seq, type, subject, main, off, size)", 9, ""}
	return insertRows(ctx, l.tx, into, len(l.held), func(args []any, i int) []any {
		a := &l.held[i]
		var about any
		if !a.subject.IsZero() {
			about = a.subject[:]
		}
		return append(args, a.id[:], string(a.head.Writer), a.head.Epoch, a.head.Seq, a.head.Type, about, a.main, a.off, a.size)
	})
}

// settle inserts what is held if a statement may be about it.
func (l *late) settle(ctx context.Context, statement string) error {
	if len(l.held) == 0 || !strings.Contains(statement, "records") {
		return nil
	}
	if err := l.insert(ctx); err != nil {
		return err
	}
	for _, a := range l.held {
		l.fresh[a.id] = a.parsed
	}
	l.held = l.held[:0]
	clear(l.about)
	return nil
}

// QueryContext makes late a querier.
func (l *late) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := l.settle(ctx, query); err != nil {
		return nil, err
	}
	return l.tx.QueryContext(ctx, query, args...)
}

// ExecContext makes late a querier.
func (l *late) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := l.settle(ctx, query); err != nil {
		return nil, err
	}
	return l.tx.ExecContext(ctx, query, args...)
}

// rowsAtOnce are the numbers of rows that one statement inserts: few, so that the statements stay prepared.
var rowsAtOnce = [...]int{64, 8, 1}

// rowsInto is a statement that inserts rows.
type rowsInto struct {
	insert  string // up to VALUES
	columns int
	then    string // what follows the rows
}

// insertRows inserts n rows, whose values row appends to args.
func insertRows(ctx context.Context, q querier, into rowsInto, n int, row func(args []any, i int) []any) error {
	one := "(?" + strings.Repeat(", ?", into.columns-1) + ")"
	args := make([]any, 0, min(n, rowsAtOnce[0])*into.columns)
	at := 0
	for _, size := range rowsAtOnce {
		if n-at < size {
			continue
		}
		statement := into.insert + " VALUES " + one + strings.Repeat(", "+one, size-1) + into.then
		for ; n-at >= size; at += size {
			args = args[:0]
			for i := range size {
				args = row(args, at+i)
			}
			if _, err := q.ExecContext(ctx, statement, args...); err != nil {
				return err
			}
		}
	}
	return nil
}

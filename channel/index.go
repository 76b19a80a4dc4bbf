package channel

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ferry-fleet/ferry"
)

// indexVersion changes with indexSchema, and with what Fold makes of the same records; an index of another version is rebuilt from the store.
const indexVersion = 6

// indexSchema is a cache of the store up to the offset in state, but for dirs and rejected, which remember what was seen in
// the folder. An order is its own subject. Of the records that are bare, hollow are those without a body from anywhere; of files
// and packs, copies in the directories of this machine are still to be looked for. In strip are records whose bodies may have to
// go; scrub has a row while pages of the index may hold what is gone.
const indexSchema = `
CREATE TABLE state (
	only INTEGER PRIMARY KEY CHECK (only = 1), off INTEGER NOT NULL, version INTEGER NOT NULL, withdrawn INTEGER NOT NULL,
	roster INTEGER NOT NULL);
INSERT INTO state VALUES (1, 0, 0, 0, 0);
CREATE TABLE records (
	n INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, writer TEXT NOT NULL, epoch INTEGER NOT NULL, seq INTEGER NOT NULL,
	type TEXT NOT NULL, subject BLOB, main INTEGER NOT NULL, off INTEGER NOT NULL, size INTEGER NOT NULL);
CREATE INDEX records_chain ON records (writer, epoch, seq);
CREATE INDEX records_subject ON records (subject, n) WHERE subject IS NOT NULL;
CREATE INDEX records_statement ON records (writer, epoch, seq) WHERE ` + isStatement + `;
CREATE INDEX records_root ON records (n) WHERE type = 'root';
CREATE TABLE forks (writer TEXT, epoch INTEGER, seq INTEGER NOT NULL, open INTEGER NOT NULL, PRIMARY KEY (writer, epoch)) WITHOUT ROWID;
CREATE TABLE proofs (id BLOB PRIMARY KEY, writer TEXT NOT NULL, epoch INTEGER NOT NULL, seq INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE redactions (id BLOB, by BLOB, PRIMARY KEY (id, by)) WITHOUT ROWID;
CREATE TABLE bare (id BLOB PRIMARY KEY, hollow INTEGER NOT NULL, files INTEGER NOT NULL, packs INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX bare_hollow ON bare (id) WHERE hollow = 1;
CREATE INDEX bare_files ON bare (id) WHERE files = 1;
CREATE INDEX bare_packs ON bare (id) WHERE packs = 1;
CREATE TABLE strip (id BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE scrub (only INTEGER PRIMARY KEY CHECK (only = 1));
CREATE TABLE saw (witness TEXT, writer TEXT, epoch INTEGER NOT NULL, seq INTEGER NOT NULL, id32 TEXT NOT NULL, PRIMARY KEY (witness, writer)) WITHOUT ROWID;
CREATE TABLE doubts (witness TEXT PRIMARY KEY, writer TEXT NOT NULL, epoch INTEGER NOT NULL, seq INTEGER NOT NULL, since INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE own (writer TEXT, epoch INTEGER, seq INTEGER NOT NULL, PRIMARY KEY (writer, epoch)) WITHOUT ROWID;
CREATE TABLE orders (
	n INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, label TEXT NOT NULL, state TEXT NOT NULL, active INTEGER NOT NULL,
	asks INTEGER NOT NULL, issued INTEGER NOT NULL, version INTEGER NOT NULL, task BLOB NOT NULL);
CREATE INDEX orders_label ON orders (label);
CREATE INDEX orders_version ON orders (version);
CREATE INDEX orders_active ON orders (n) WHERE active = 1;
CREATE INDEX orders_asks ON orders (n) WHERE asks = 1;
CREATE INDEX orders_issued ON orders (issued, id);
CREATE TABLE deps (dep BLOB NOT NULL, ord BLOB NOT NULL, PRIMARY KEY (dep, ord)) WITHOUT ROWID;
CREATE TABLE dirs (dir TEXT PRIMARY KEY, ino INTEGER NOT NULL, mtime INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE rejected (dir TEXT NOT NULL, name TEXT NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (dir, name)) WITHOUT ROWID;
` + folderSchema

// isStatement is what statement is, for the index.
const isStatement = `type IN ('root', 'admit', 'revoke', 'readmit', 'delegate', 'invite', 'policy')`

// findStatements begins a query for statements, in the order of arrival here. By rowid it would look at every record.
const findStatements = `SELECT ` + placeColumns + ` FROM records INDEXED BY records_statement WHERE ` + isStatement + ` AND `

// querier is a database or a transaction of it.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// each calls fn for every row.
func each(ctx context.Context, q querier, fn func(*sql.Rows) error, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("read the index: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return fmt.Errorf("read the index: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the index: %w", err)
	}
	return nil
}

// one scans the first row of a query; found is false when there is none.
func one(ctx context.Context, q querier, into []any, query string, args ...any) (found bool, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return false, fmt.Errorf("read the index: %w", err)
	}
	defer rows.Close()
	if found = rows.Next(); found {
		err = rows.Scan(into...)
	}
	if err = errors.Join(err, rows.Err()); err != nil {
		return false, fmt.Errorf("read the index: %w", err)
	}
	return found, nil
}

// progress reads how far the index follows the store.
func progress(ctx context.Context, q querier) (off, version int64, err error) {
	_, err = one(ctx, q, []any{&off, &version}, `SELECT off, version FROM state`)
	return off, version, err
}

// place is where the bytes of a record are.
type place struct {
	id   ferry.RecordID
	main bool
	off  int64
	size int
}

const placeColumns = `id, main, off, size`

func places(ctx context.Context, q querier, query string, args ...any) ([]place, error) {
	var out []place
	err := each(ctx, q, func(rows *sql.Rows) error {
		var p place
		var id sql.RawBytes
		if err := rows.Scan(&id, &p.main, &p.off, &p.size); err != nil {
			return err
		}
		copy(p.id[:], id)
		out = append(out, p)
		return nil
	}, query, args...)
	return out, err
}

// ids collects a column of record ids.
func ids(ctx context.Context, q querier, query string, args ...any) ([]ferry.RecordID, error) {
	var out []ferry.RecordID
	err := each(ctx, q, func(rows *sql.Rows) error {
		var raw sql.RawBytes
		if err := rows.Scan(&raw); err != nil {
			return err
		}
		out = append(out, ferry.RecordID(raw))
		return nil
	}, query, args...)
	return out, err
}

// tasks collects a column of tasks.
func tasks(ctx context.Context, q querier, query string, args ...any) ([]ferry.Task, error) {
	var out []ferry.Task
	err := each(ctx, q, func(rows *sql.Rows) error {
		var raw sql.RawBytes
		if err := rows.Scan(&raw); err != nil {
			return err
		}
		var t ferry.Task
		if err := json.Unmarshal(raw, &t); err != nil {
			return err
		}
		out = append(out, t)
		return nil
	}, query, args...)
	return out, err
}

func rejections(ctx context.Context, q querier) ([]Rejected, error) {
	var out []Rejected
	add := func(rows *sql.Rows) error {
		var r Rejected
		if err := rows.Scan(&r.Name, &r.Reason); err != nil {
			return err
		}
		out = append(out, r)
		return nil
	}
	if err := each(ctx, q, add, `SELECT CASE dir WHEN '' THEN name ELSE dir || '/' || name END, reason FROM rejected ORDER BY 1`); err != nil {
		return nil, err
	}
	err := each(ctx, q, add, `SELECT printf('w/%s/t/%04d-%010d', writer, epoch, seq),
		'fork: the writer signed this number twice; nothing from it on counts until the master names the branch to keep'
		FROM forks WHERE open = 1 ORDER BY writer, epoch LIMIT ?`, maxReported)
	return out, err
}

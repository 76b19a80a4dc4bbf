package channel

import (
	"context"
	"database/sql"
	"reflect"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
)

// SetStep makes f be called between the steps of a write.
func (c *Channel) SetStep(f func(step string)) { c.at = f }

// DecodeBody is decodeBody.
func DecodeBody(t ferry.Type, body []byte) (ferry.Body, error) { return decodeBody(t, body) }

// EncodeBody is encodeBody.
func EncodeBody(b ferry.Body) ([]byte, error) { return encodeBody(b) }

// Misfit is misfit.
func Misfit(name string) string { return misfit(name) }

// Frame gives the frame of a record of this machine.
func Frame(data []byte) []byte { return appendFrame(nil, frame{data: data, own: true}) }

// ParseFrame is parseFrame.
func ParseFrame(b []byte) (data []byte, size int, ok bool) {
	f, n, ok := parseFrame(b)
	return f.data, n, ok
}

// ParsePath is parsePath; the path is made again from what was read.
func ParsePath(rel string) (again string, ok bool) {
	n, ok := parsePath(rel)
	return n.path(), ok
}

// PackFile makes a pack.
func PackFile(records [][]byte) []byte {
	var w packWriter
	for _, r := range records {
		w.add(r)
	}
	return w.finish()
}

// ParsePackFile is parsePackFile.
func ParsePackFile(file []byte) ([][]byte, error) { return parsePackFile(file) }

// SetClock makes the channel read another clock than that of the machine.
func (c *Channel) SetClock(now func() time.Time) { c.seen.clock = now }

// Opened makes f be called with the name of every file that a look at the folder opens.
func (c *Channel) Opened(f func(name string)) { c.seen.opened = f }

// Folds gives how often a replica has computed an order.
func Folds(r *Replica) int { return r.states.folds }

// FindStatements is findStatements.
const FindStatements = findStatements

// Plan says how the index would answer a query.
func (c *Channel) Plan(ctx context.Context, query string) (string, error) {
	var out []string
	err := each(ctx, c.db, func(rows *sql.Rows) error {
		var id, parent, unused int
		var detail string
		err := rows.Scan(&id, &parent, &unused, &detail)
		out = append(out, detail)
		return err
	}, "EXPLAIN QUERY PLAN "+query)
	return strings.Join(out, "; "), err
}

// Bareable reports whether a record reads the same under each of these redactions whether its own body is at hand or not.
func Bareable(file []byte, texts []string) bool {
	p, err := parseStored(file)
	if err != nil || p.bare || len(p.body) == 0 || fixed(ferry.Type(p.head.Type)) {
		return false
	}
	rec, _ := p.record()
	if v, is := rec.Body.(*ferry.Verdict); is && v.Decision == ferry.DecisionReject {
		return false
	}
	for _, text := range texts {
		whole, err := replacement(rec, text)
		bare, bareErr := gone{of: ferry.Type(p.head.Type), need: ferry.Missing(p.head.Need)}.from(text)
		if (err == nil) != (bareErr == nil) || err == nil && !reflect.DeepEqual(whole, bare) {
			return false
		}
	}
	return true
}

// Redacted reports whether a redaction that counts gives a record of a replica its body.
func Redacted(r *Replica, id ferry.RecordID) bool {
	r.settle()
	h := r.records[id]
	if h == nil {
		return false
	}
	_, _, ok := inForce(h.rec, r.by(id), r.roster)
	return ok
}

package channel

import (
	"context"
	"fmt"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
)

// reader finds what counts about orders: from the index, the store, and records that are in neither yet.
type reader struct {
	c      *Channel
	q      querier
	roster *authority.Roster
	fresh  map[ferry.RecordID]*parsed // records whose bytes are at hand, to spare reading them again

	redacted map[ferry.RecordID]bool // records that a redaction names; nil where that has to be read
}

// depended is what an order may know of one that it depends on.
type depended struct {
	label ferry.Label
	state ferry.State
	known bool
}

func readDepended(ctx context.Context, q querier, id ferry.RecordID) (depended, error) {
	var d depended
	found, err := one(ctx, q, []any{&d.label, &d.state}, `SELECT label, state FROM orders WHERE id = ?`, id[:])
	d.known = found && err == nil
	return d, err
}

// load reads and parses one record of the store.
func (c *Channel) load(at place) (parsed, error) {
	data, err := c.store.read(at.off, at.size)
	if err != nil {
		return parsed{}, err
	}
	r, err := parseStored(data)
	if err != nil {
		return parsed{}, fmt.Errorf("record %s in the store: %w; delete %s, and it is made again", at.id.Short(), err, c.cfg.indexPath())
	}
	r.off = at.off
	return r, nil
}

// about loads the records about an order, itself included, on the branches that count.
func (r *reader) about(ctx context.Context, id ferry.RecordID) ([]ferry.Record, error) {
	at, err := places(ctx, r.q, `SELECT `+placeColumns+` FROM records WHERE subject = ? AND main = 1`, id[:])
	if err != nil {
		return nil, err
	}
	return r.records(ctx, at)
}

func (r *reader) records(ctx context.Context, at []place) ([]ferry.Record, error) {
	recs := make([]ferry.Record, 0, len(at))
	for _, pl := range at {
		p, fresh := r.fresh[pl.id]
		if !fresh {
			loaded, err := r.c.load(pl)
			if err != nil {
				return nil, err
			}
			p = &loaded
		}
		rec, _ := p.record()
		rec, err := r.amend(ctx, rec)
		if err != nil {
			return nil, err
		}
		recs = append(recs, rec)
	}
	return recs, nil
}

// assemble makes the history of an order from the records about it, leaving out what does not count.
func assemble(channel, id ferry.RecordID, recs []ferry.Record, roster *authority.Roster) (h ferry.History, ok bool) {
	h = ferry.History{Channel: channel, ID: id, Name: func(w ferry.WriterID) ferry.AgentName {
		m, _ := roster.Member(w)
		return m.Name
	}}
	for _, rec := range recs {
		if order, is := rec.Body.(*ferry.Order); is && rec.ID == id {
			if _, _, counts := roster.Counts(rec, ""); !counts {
				return h, false
			}
			h.Order, h.Issuer, h.IssuedAt = order, rec.Writer, rec.Time.UTC().Truncate(time.Millisecond)
		}
	}
	if h.Order == nil {
		return h, false
	}
	seats := seatsOf(recs, h.Issuer)
	for _, rec := range recs {
		if rec.ID == id || rec.Body == nil {
			continue
		}
		if level, _, counts := roster.CountsFor(rec, seats(rec.Body)); counts {
			rec.Level = level
			h.Records = append(h.Records, rec)
		}
	}
	return h, true
}

// seatsOf tells who has a part in what a record about an order is about.
func seatsOf(recs []ferry.Record, issuer ferry.WriterID) func(ferry.Body) authority.Seats {
	writers := map[ferry.RecordID]ferry.WriterID{}
	for _, rec := range recs {
		switch rec.Body.(type) {
		case *ferry.Result, *ferry.Verdict:
			writers[rec.ID] = rec.Writer
		}
	}
	return func(b ferry.Body) authority.Seats {
		result, verdict := judged(b)
		return authority.Seats{Issuer: issuer, Builder: writers[result], Reviewer: writers[verdict]}
	}
}

// judged gives the result and the verdict that a verdict or an approval names.
func judged(b ferry.Body) (result, verdict ferry.RecordID) {
	switch b := b.(type) {
	case *ferry.Verdict:
		return b.Result, verdict
	case *ferry.Approve:
		return b.Result, b.Verdict
	}
	return result, verdict
}

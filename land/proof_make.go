package land

import (
	"context"
	"fmt"
	"slices"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/internal/worktree"
	"github.com/ferry-fleet/ferry/sign"
)

// feed names one epoch of a writer.
type feed struct {
	writer ferry.WriterID
	epoch  uint32
}

// isStatement reports whether a record of the type says who may do what.
func isStatement(t ferry.Type) bool {
	switch t {
	case ferry.TypeRoot, ferry.TypeAdmit, ferry.TypeRevoke, ferry.TypeReadmit, ferry.TypeDelegate, ferry.TypeInvite, ferry.TypePolicy:
		return true
	}
	return false
}

// chosen says which records go into a receipt: whole, or as a header with signatures.
type chosen struct {
	about    map[ferry.RecordID]bool // about the order, or a redaction of one that is
	redacted map[ferry.RecordID]bool // about the order, and read otherwise than it was signed: what was signed stays out
	rules    map[ferry.WriterID]bool // masters and delegates: their whole chains
	limited  map[ferry.WriterID]bool // delegates with a number of uses: their acts
	upTo     map[feed]uint64         // how far the chains of the others are needed
}

// MakeReceiptFile writes the proof that an order has landed as one file, for readers who have nothing else: what is said
// about the order, everything that says who could say so, the headers that join it into whole chains, and the commits. Of
// other orders it holds headers only.
func MakeReceiptFile(ctx context.Context, ch *channel.Channel, gate *worktree.Gate, order string) ([]byte, error) {
	t, err := ch.Task(ctx, order)
	if err != nil {
		return nil, fmt.Errorf("receipt: %w", err)
	}
	file, err := makeReceiptFile(ctx, ch, gate, &t)
	if err != nil {
		return nil, fmt.Errorf("receipt of %s: %w", t.Order.Label, err)
	}
	return file, nil
}

func makeReceiptFile(ctx context.Context, ch *channel.Channel, gate *worktree.Gate, t *ferry.Task) ([]byte, error) {
	o := landedResult(t)
	if t.Landed != nil && o == nil {
		return nil, fmt.Errorf("%s, which a file cannot prove", lostResult)
	}
	if t.Landed == nil {
		return nil, fmt.Errorf("it has not landed (%s): there is nothing to prove yet", t.State)
	}
	c, err := choose(ctx, ch, t.ID)
	if err != nil {
		return nil, err
	}
	w := newReceiptWriter(ch.ID(), t.ID)
	done := map[ferry.RecordID]bool{}
	err = ch.Raw(ctx, func(file []byte) error {
		r, bare, err := recordOf(file)
		if err != nil || done[r.ID()] {
			return nil // damage of the store is for Verify to tell
		}
		whole, top := c.wants(r)
		switch {
		case whole && !bare:
			err = w.add("record", file)
		case whole, top:
			err = w.add("top", r.Top())
		}
		done[r.ID()] = true
		return err
	})
	if err != nil {
		return nil, err
	}
	commits := []ferry.Commit{t.Landed.Commit, o.Result.Commit}
	for _, id := range slices.Compact(commits) {
		if !gate.Has(ctx, id) {
			if err := gate.Import(ctx, id); err != nil {
				return nil, err
			}
		}
		raw, err := gate.Raw(ctx, id)
		if err != nil {
			return nil, err
		}
		if err := w.add("commit "+string(id), raw); err != nil {
			return nil, err
		}
	}
	return w.finish(), nil
}

// signed is what a receipt needs of a record, whether its body is here or was taken out.
type signed interface {
	Header() sign.Header
	ID() [32]byte
	Top() []byte
}

func recordOf(file []byte) (r signed, bare bool, err error) {
	u, err := sign.ParseHeader(file)
	if err == nil {
		return u, false, nil
	}
	if t, bareErr := sign.ParseBare(file); bareErr == nil {
		return t, true, nil
	}
	return nil, false, err
}

// choose looks through all records once.
func choose(ctx context.Context, ch *channel.Channel, order ferry.RecordID) (*chosen, error) {
	entries, err := ch.Records(ctx, order)
	if err != nil {
		return nil, err
	}
	c := &chosen{about: map[ferry.RecordID]bool{}, redacted: map[ferry.RecordID]bool{}, rules: map[ferry.WriterID]bool{}, limited: map[ferry.WriterID]bool{}, upTo: map[feed]uint64{}}
	for _, e := range entries {
		c.needs(feed{e.Writer, e.Epoch}, e.Seq)
		by, redacted, err := ch.RedactedBy(ctx, e.ID)
		if err != nil {
			return nil, err
		}
		if redacted {
			c.redacted[e.ID], c.about[by.ID] = true, true
			c.needs(feed{by.Writer, by.Epoch}, by.Seq)
			continue
		}
		c.about[e.ID] = true
	}
	cuts, acts := map[feed]uint64{}, map[ferry.RecordID]ferry.WriterID{}
	err = ch.Raw(ctx, func(file []byte) error {
		f, bare, err := recordOf(file)
		if err != nil {
			return nil
		}
		if bare && isAct(ferry.Type(f.Header().Type)) {
			acts[f.ID()] = ferry.WriterID(f.Header().Writer)
		}
		r, whole := f.(sign.Unverified)
		if !whole || !isStatement(ferry.Type(r.Header().Type)) {
			return nil
		}
		b := ferry.New(ferry.Type(r.Header().Type))
		if _, err := sign.DecodeJSON(r.Body(), b, sign.Ignore); err == nil {
			c.learn(b, cuts)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := c.replaced(ctx, ch, acts); err != nil {
		return nil, err
	}
	for f, seq := range cuts {
		if c.upTo[f] > 0 {
			c.needs(f, seq) // where the branch that counts is named by its end
		}
	}
	return c, nil
}

// replaced takes in what stands in the place of acts that use up a delegation and whose bodies were taken out.
func (c *chosen) replaced(ctx context.Context, ch *channel.Channel, acts map[ferry.RecordID]ferry.WriterID) error {
	for id, w := range acts {
		if !c.limited[w] || c.redacted[id] {
			continue
		}
		by, found, err := ch.RedactedBy(ctx, id)
		if err != nil {
			return err
		}
		if found {
			c.about[by.ID] = true
			c.needs(feed{by.Writer, by.Epoch}, by.Seq)
		}
	}
	return nil
}

func (c *chosen) needs(f feed, seq uint64) { c.upTo[f] = max(c.upTo[f], seq) }

// learn finds out whose chains say who may do what, and where chains were cut.
func (c *chosen) learn(b ferry.Body, cuts map[feed]uint64) {
	cut := func(w ferry.WriterID, k ferry.Cut) {
		f := feed{w, uint32(k.Epoch)}
		cuts[f] = max(cuts[f], uint64(max(k.Seq, 0)))
	}
	switch b := b.(type) {
	case *ferry.Root:
		c.rules[b.Master.Writer] = true
	case *ferry.Delegate:
		c.rules[b.To] = true
		if b.MaxUses > 0 {
			c.limited[b.To] = true
		}
	case *ferry.Revoke:
		cut(b.Writer, b.Keep)
	case *ferry.Readmit:
		cut(b.Writer, b.Keep)
	}
}

func (c *chosen) wants(r signed) (whole, top bool) {
	h := r.Header()
	w, t := ferry.WriterID(h.Writer), ferry.Type(h.Type)
	rules := c.rules[w]
	whole = c.about[r.ID()] || t == ferry.TypeRoot || rules && isStatement(t) || c.limited[w] && isAct(t) && !c.redacted[r.ID()]
	return whole, rules || h.Seq <= c.upTo[feed{w, h.Epoch}]
}

// isAct reports whether a record of the type uses up a delegation.
func isAct(t ferry.Type) bool {
	switch t {
	case ferry.TypeOrder, ferry.TypeVerdict, ferry.TypeApprove, ferry.TypeAnswer, ferry.TypeCancel, ferry.TypeInterrupt, ferry.TypeRetire, ferry.TypeReassign:
		return true
	}
	return false
}

package land

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

// node is one record of a receipt: whole, or its header alone.
type node struct {
	id    ferry.RecordID
	head  sign.Header
	bytes []byte // of the whole record; nil where only the header is here
	top   []byte
	rec   ferry.Record
	sound bool // the signature holds
	why   string
}

func (n *node) feed() feed { return feed{ferry.WriterID(n.head.Writer), n.head.Epoch} }

// place is where a record follows another one.
type place struct {
	feed
	seq  uint64
	prev ferry.RecordID
}

// chains are the records of a receipt, joined. It computes the same roster from them as a channel does from its own.
type chains struct {
	id     ferry.RecordID
	nodes  map[ferry.RecordID]*node
	order  []*node // as they stand in the file
	feeds  map[feed][]*node
	next   map[place][]*node
	keys   map[feed]sign.PublicKey // with which the feed was opened
	roster *authority.Roster
}

// joinChains parses the records of a receipt. Nothing is believed yet.
func joinChains(f *receiptFile) (*chains, error) {
	c := &chains{id: f.channel, nodes: map[ferry.RecordID]*node{}, feeds: map[feed][]*node{}, next: map[place][]*node{}, keys: map[feed]sign.PublicKey{}}
	for _, data := range f.records {
		r, err := sign.ParseHeader(data)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoReceipt, err)
		}
		if err := c.join(&node{id: r.ID(), head: r.Header(), bytes: data}); err != nil {
			return nil, err
		}
	}
	for _, data := range f.tops {
		r, err := sign.ParseTop(data)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoReceipt, err)
		}
		if err := c.join(&node{id: r.ID(), head: r.Header(), top: data}); err != nil {
			return nil, err
		}
	}
	c.roster = authority.Evaluate(c.id, nil, c)
	return c, nil
}

func (c *chains) join(n *node) error {
	if _, twice := c.nodes[n.id]; twice {
		return fmt.Errorf("%w: the record %s is there twice", ErrNoReceipt, n.id.Short())
	}
	if ferry.RecordID(n.head.Channel) != c.id && n.id != c.id {
		return fmt.Errorf("%w: the record %s is of another channel", ErrNoReceipt, n.id.Short())
	}
	at := place{n.feed(), n.head.Seq, n.head.Prev}
	c.nodes[n.id], c.order = n, append(c.order, n)
	c.feeds[n.feed()] = append(c.feeds[n.feed()], n)
	c.next[at] = append(c.next[at], n)
	return nil
}

// settle opens feed after feed: each roster gives the keys of further ones, whose statements may change the roster.
func (c *chains) settle() error {
	before := ""
	for range len(c.feeds) + 5 {
		opened := c.open()
		c.roster = authority.Evaluate(c.id, c.roots(), c)
		redacted := c.redact()
		if digest := c.roster.Digest(); !opened && !redacted && digest == before {
			return nil
		} else {
			before = digest
		}
	}
	return errors.New("who may do what cannot be settled from this receipt")
}

// open checks the signatures of the feeds whose keys are known.
func (c *chains) open() (opened bool) {
	for f, list := range c.feeds {
		key, _, ok := c.roster.Key(f.writer, f.epoch)
		if have, done := c.keys[f]; !ok || done && have == key {
			continue
		}
		c.keys[f], opened = key, true
		for _, n := range list {
			n.open(key)
		}
	}
	return opened
}

func (n *node) open(key sign.PublicKey) {
	n.sound, n.why = false, ""
	if n.bytes == nil {
		_, err := sign.OpenTop(n.top, key)
		n.judge(err)
		return
	}
	v, err := sign.Open(n.bytes, key)
	if n.judge(err); err != nil {
		return
	}
	n.rec, n.why = channel.Decode(v)
	n.rec.Saw = n.saw()
	if need := ferry.Missing(n.head.Need); len(need) > 0 {
		n.rec.Body = &ferry.Opaque{Is: ferry.Type(n.head.Type), Need: need}
	}
}

func (n *node) judge(err error) {
	if n.sound = err == nil; err != nil {
		n.why = err.Error()
	}
}

// redact gives the bodies of redactions that count to the records that are here without what was signed.
func (c *chains) redact() (changed bool) {
	counted := c.counted()
	var by []ferry.Record
	for _, n := range c.order {
		if _, is := n.rec.Body.(*ferry.Redact); !is || !counted[n.id] {
			continue
		}
		if _, _, ok := c.roster.Counts(n.rec, ""); ok {
			by = append(by, n.rec)
		}
	}
	channel.SortRedactions(by, c.roster)
	done := map[ferry.RecordID]bool{}
	for _, r := range by {
		for _, named := range r.Body.(*ferry.Redact).Records {
			n := c.nodes[named.ID]
			if n == nil || n.bytes != nil || done[n.id] {
				continue
			}
			b, err := channel.DecodeRedacted(ferry.Type(n.head.Type), named.Body)
			if err != nil {
				continue
			}
			done[n.id] = true
			changed = changed || n.rec.Body == nil
			n.fill(b)
		}
	}
	return changed
}

// fill makes the record of a node of which only the header is here.
func (n *node) fill(b ferry.Body) {
	n.rec = ferry.Record{
		ID: n.id, Writer: ferry.WriterID(n.head.Writer), Epoch: n.head.Epoch, Seq: n.head.Seq, Time: n.head.Time, Saw: n.saw(), Body: b,
	}
}

func (n *node) saw() []ferry.Head {
	var out []ferry.Head
	for _, h := range n.head.Saw {
		out = append(out, ferry.Head{Writer: ferry.WriterID(h.Writer), Epoch: h.Epoch, Seq: h.Seq, ID32: h.ID32})
	}
	return out
}

// roots gives the root records with the keys that have signed them.
func (c *chains) roots() []authority.RootRecord {
	var all []*node
	var keys []sign.PublicKey
	bodies := map[*node]*ferry.Root{}
	for _, n := range c.order {
		if ferry.Type(n.head.Type) != ferry.TypeRoot || n.bytes == nil {
			continue
		}
		u, err := sign.ParseHeader(n.bytes)
		if err != nil {
			continue // it was parsed before
		}
		b := &ferry.Root{}
		if _, err := sign.DecodeJSON(u.Body(), b, sign.Refuse); err != nil {
			continue
		}
		all, bodies[n] = append(all, n), b
		keys = append(keys, authority.RootKeys(b)...)
	}
	var out []authority.RootRecord
	for _, n := range all {
		out = append(out, authority.RootRecord{
			Record:  ferry.Record{ID: n.id, Writer: ferry.WriterID(n.head.Writer), Epoch: n.head.Epoch, Seq: n.head.Seq, Time: n.head.Time, Body: bodies[n]},
			Signers: sign.Signers(n.bytes, keys),
		})
	}
	return out
}

// branch walks a feed from its beginning. Without keep it ends before a fork; with keep it is the branch that ends with
// that record, and whole is false when it is not all here.
func (c *chains) branch(f feed, keep *ferry.Cut) (branch []*node, whole bool) {
	_, first, ok := c.roster.Key(f.writer, f.epoch)
	if !ok {
		return nil, keep == nil
	}
	if keep != nil {
		return c.back(f, first, keep)
	}
	for at := (place{f, 1, first}); ; {
		var sound []*node
		for _, n := range c.next[at] {
			if n.sound && (n.id == c.id || !at.prev.IsZero()) {
				sound = append(sound, n)
			}
		}
		if len(sound) != 1 {
			return branch, true
		}
		branch = append(branch, sound[0])
		at.seq, at.prev = at.seq+1, sound[0].id
	}
}

// back walks from the last record that counts to the first.
func (c *chains) back(f feed, first ferry.RecordID, keep *ferry.Cut) ([]*node, bool) {
	var branch []*node
	id := keep.ID
	for seq := uint64(max(keep.Seq, 0)); seq > 0; seq-- {
		n := c.nodes[id]
		if n == nil || !n.sound || n.feed() != f || n.head.Seq != seq {
			return nil, false
		}
		branch, id = append(branch, n), n.head.Prev
	}
	slices.Reverse(branch)
	return branch, id == first
}

// Statements gives what of a feed is about authority; see authority.Feeds.
func (c *chains) Statements(w ferry.WriterID, epoch uint32, keep *ferry.Cut) ([]ferry.Record, bool) {
	if c.roster == nil {
		return nil, keep == nil
	}
	branch, whole := c.branch(feed{w, epoch}, keep)
	var out []ferry.Record
	for _, n := range branch {
		if !isStatement(ferry.Type(n.head.Type)) {
			continue
		}
		if n.bytes == nil {
			return out, false // what it says is not here
		}
		if n.rec.Body != nil {
			out = append(out, n.rec)
		}
	}
	return out, whole
}

// Acts gives what of a delegate's feeds may use up its delegations; see authority.Feeds.
func (c *chains) Acts(w ferry.WriterID) []ferry.Record {
	var out []ferry.Record
	for epoch := uint32(1); ; epoch++ {
		if _, _, ok := c.roster.Key(w, epoch); !ok {
			return out
		}
		keep, _ := c.roster.Chain(w, epoch)
		branch, _ := c.branch(feed{w, epoch}, keep)
		for _, n := range branch {
			if n.rec.Body != nil && isAct(ferry.Type(n.head.Type)) {
				out = append(out, n.rec)
			}
		}
	}
}

// counted gives the records on the branches that count.
func (c *chains) counted() map[ferry.RecordID]bool {
	out := map[ferry.RecordID]bool{}
	for f := range c.feeds {
		keep, known := c.roster.Chain(f.writer, f.epoch)
		if !known {
			continue
		}
		branch, _ := c.branch(f, keep)
		for _, n := range branch {
			out[n.id] = true
		}
	}
	return out
}

package authority

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/sign"
)

// RootRecord is a root record and the keys whose signatures on it hold. Signers has to tell of the keys of the record
// itself and of those of every root known; see RootKeys.
type RootRecord struct {
	ferry.Record
	Signers []sign.PublicKey
}

// RootKeys gives every sound key that a root names: the master's, the further root keys and the recovery keys.
func RootKeys(b *ferry.Root) []sign.PublicKey {
	var out []sign.PublicKey
	for _, s := range slices.Concat([]string{b.Master.Key}, b.Keys, b.Recovery) {
		if k, err := sign.ParsePublicKey(s); err == nil && !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out
}

const maxRootKeys = sign.MaxSignatures // more could never all sign

// root is a root record whose own parts are sound.
type root struct {
	rec      ferry.Record
	body     *ferry.Root
	master   sign.PublicKey
	keys     []sign.PublicKey // the master's and the further ones, each once
	recovery []sign.PublicKey
	signers  []sign.PublicKey
	next     []*root // the valid ones that name it
}

// chain is the chain of roots: what all other authority rests on. It is a function of the root records alone.
type chain struct {
	line    []*root // from the first to the one in force; empty without the first
	valid   map[ferry.RecordID]*root
	refused map[ferry.RecordID]string
	keys    []sign.PublicKey // recovery keys of all valid roots
}

func newChain(channel ferry.RecordID, records []RootRecord) *chain {
	c := &chain{valid: map[ferry.RecordID]*root{}, refused: map[ferry.RecordID]string{}}
	known := map[ferry.RecordID]*root{}
	children := map[ferry.RecordID][]*root{}
	for _, rec := range records {
		if have, ok := known[rec.ID]; ok {
			have.signers = append(have.signers, rec.Signers...)
			continue
		}
		n, err := parseRoot(rec)
		if err != nil {
			c.refused[rec.ID] = err.Error()
			continue
		}
		known[rec.ID] = n
		if rec.ID != channel {
			children[n.body.Prev] = append(children[n.body.Prev], n)
			c.refused[rec.ID] = "the root that it names is not a valid root of this channel, or not here"
		}
	}
	first, ok := known[channel]
	if !ok || channel.IsZero() {
		return c
	}
	if err := first.founds(); err != nil {
		c.refused[channel] = err.Error()
		return c
	}
	c.grow(first, children)
	c.choose(first)
	return c
}

func parseRoot(rec RootRecord) (*root, error) {
	b, ok := rec.Body.(*ferry.Root)
	if !ok {
		return nil, errors.New("its body is not that of a root")
	}
	master, err := CheckMember(b.Master)
	if err != nil {
		return nil, err
	}
	if len(b.Keys) >= maxRootKeys || len(b.Recovery) > maxRootKeys {
		return nil, fmt.Errorf("it names more than %d root keys or recovery keys", maxRootKeys)
	}
	n := &root{rec: rec.Record, body: b, master: master, signers: slices.Clone(rec.Signers)}
	if n.keys, err = keySet(append([]string{b.Master.Key}, b.Keys...)); err != nil {
		return nil, fmt.Errorf("root keys: %w", err)
	}
	if n.recovery, err = keySet(b.Recovery); err != nil {
		return nil, fmt.Errorf("recovery keys: %w", err)
	}
	for _, k := range n.recovery {
		if slices.Contains(n.keys, k) {
			return nil, fmt.Errorf("the recovery key %s is a root key as well: whoever steals one would have both", k.KeyID())
		}
	}
	if b.Threshold < 1 || b.Threshold > int64(len(n.keys)) {
		return nil, fmt.Errorf("threshold %d: it has %d root keys", b.Threshold, len(n.keys))
	}
	return n, nil
}

// keySet reads keys and leaves out those that were there before: a key counts once, however often it is listed.
func keySet(list []string) ([]sign.PublicKey, error) {
	out := make([]sign.PublicKey, 0, len(list))
	for _, s := range list {
		k, err := sign.ParsePublicKey(s)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out, nil
}

// founds says why the root cannot be the first of a channel. Its id is the channel's id, so nobody has to vouch for it
// but the master, whose chain it begins.
func (n *root) founds() error {
	b := n.body
	switch {
	case b.Generation != 0 || b.Version != 1 || !b.Prev.IsZero() || b.Keep != ferry.Cut{}:
		return errors.New("the first root is version 1 of generation 0 and names neither a root nor a cut")
	case n.rec.Writer != b.Master.Writer || n.rec.Epoch != 1 || n.rec.Seq != 1:
		return errors.New("the first root is not the first record of the master that it names")
	case !slices.Contains(n.signers, n.master):
		return errors.New("the master that it names has not signed it")
	}
	return nil
}

// grow finds the valid roots: those that follow by the rules from the first. It goes down one branch at a time, because a
// master that was replaced on a branch never comes back on it.
func (c *chain) grow(first *root, children map[ferry.RecordID][]*root) {
	type step struct {
		at     *root
		todo   []*root
		enters bool // a new master
	}
	masters := map[ferry.WriterID]bool{first.body.Master.Writer: true}
	enter := func(n *root, enters bool) step {
		c.valid[n.rec.ID] = n
		delete(c.refused, n.rec.ID)
		for _, k := range n.recovery {
			if !slices.Contains(c.keys, k) {
				c.keys = append(c.keys, k)
			}
		}
		return step{n, children[n.rec.ID], enters}
	}
	path := []step{enter(first, false)}
	for len(path) > 0 {
		top := &path[len(path)-1]
		if len(top.todo) == 0 {
			if top.enters {
				delete(masters, top.at.body.Master.Writer)
			}
			path = path[:len(path)-1]
			continue
		}
		n := top.todo[0]
		top.todo = top.todo[1:]
		w := n.body.Master.Writer
		enters := w != top.at.body.Master.Writer
		err := top.at.precedes(n)
		if err == nil && enters && masters[w] {
			err = fmt.Errorf("the writer %s was the master before and was replaced: make a new key for it", w)
		}
		if err != nil {
			c.refused[n.rec.ID] = err.Error()
			continue
		}
		masters[w] = true
		top.at.next = append(top.at.next, n)
		path = append(path, enter(n, enters))
	}
}

// precedes says why n cannot follow the root that it names.
func (p *root) precedes(n *root) error {
	switch a, b := p.body, n.body; {
	case b.Project != a.Project:
		return fmt.Errorf("it is of the project %q, and the channel is of %q for good", b.Project, a.Project)
	case b.Generation > a.Generation:
		if b.Version != 1 {
			return fmt.Errorf("version %d: a generation begins with version 1", b.Version)
		}
		if signed(n.signers, p.recovery) == 0 {
			return errors.New("no recovery key of the root that it names has signed it, which a higher generation needs")
		}
		if !slices.Contains(n.signers, n.master) {
			return errors.New("the master that it names has not signed it")
		}
	case b.Generation < a.Generation || b.Version != a.Version+1:
		return fmt.Errorf("generation %d version %d cannot follow generation %d version %d", b.Generation, b.Version, a.Generation, a.Version)
	default:
		// Otherwise a thief of the master's key would name a recovery key of its own, and with it outrank every recovery.
		if len(p.recovery) != len(n.recovery) || signed(p.recovery, n.recovery) != len(p.recovery) {
			return errors.New("it changes the recovery keys, which only a higher generation does")
		}
		if have := signed(n.signers, p.keys); int64(have) < a.Threshold {
			return fmt.Errorf("%d of the keys of the root before have signed it, and %d have to", have, a.Threshold)
		}
		if have := signed(n.signers, n.keys); int64(have) < b.Threshold {
			return fmt.Errorf("%d of its own keys have signed it, and %d have to", have, b.Threshold)
		}
	}
	return p.handsOver(n)
}

// handsOver says why n is not in a place where a root that follows p can be: in the chain of the master that it
// replaces or keeps, or at the beginning of that of the master that it names.
func (p *root) handsOver(n *root) error {
	before, after, keep := p.body.Master.Writer, n.body.Master.Writer, n.body.Keep
	writer := p.master
	switch {
	case n.rec.Writer == before:
	case n.rec.Writer == after && n.rec.Seq == 1:
		writer = n.master
	default:
		return errors.New("it is neither in the chain of the master before nor the first record of its own master")
	}
	switch {
	case n.rec.Epoch != 1:
		return fmt.Errorf("epoch %d: a master has only epoch 1, and then a new key", n.rec.Epoch)
	case !slices.Contains(n.signers, writer):
		return errors.New("its writer has not signed it")
	case before == after && keep != ferry.Cut{}:
		return errors.New("it cuts the chain of a master that goes on: make a new key for the master")
	case keep.Seq < 0 || keep.Seq > 0 && keep.Epoch != 1:
		return fmt.Errorf("it keeps the master's chain up to epoch %d record %d, which cannot be", keep.Epoch, keep.Seq)
	}
	return nil
}

// signed counts the keys that are among the signers.
func signed(signers, keys []sign.PublicKey) (n int) {
	for _, k := range keys {
		if slices.Contains(signers, k) {
			n++
		}
	}
	return n
}

// choose finds the root in force: in the highest generation, from its first root by the versions up.
func (c *chain) choose(first *root) {
	top, at := int64(0), first
	for _, n := range c.valid {
		top = max(top, n.body.Generation)
	}
	if top > 0 {
		var begins []*root
		for _, n := range c.valid {
			if n.body.Generation == top && n.body.Version == 1 {
				begins = append(begins, n)
			}
		}
		at = smallest(begins)
	}
	for {
		var later []*root
		for _, n := range at.next {
			if n.body.Generation == top {
				later = append(later, n)
			}
		}
		if len(later) == 0 {
			break
		}
		at = smallest(later)
	}
	for n := at; ; n = c.valid[n.body.Prev] {
		c.line = append(c.line, n)
		if n == first {
			break
		}
	}
	slices.Reverse(c.line)
	for id := range c.valid {
		c.refused[id] = fmt.Sprintf("the root %s outranks it", at.rec.ID.Short())
	}
	for _, n := range c.line {
		delete(c.refused, n.rec.ID)
	}
}

func smallest(roots []*root) *root {
	return slices.MinFunc(roots, func(a, b *root) int { return bytes.Compare(a.rec.ID[:], b.rec.ID[:]) })
}

// cut gives where the chain of the master before n ends.
func (n *root) cut(before ferry.WriterID) ferry.Cut {
	switch {
	case n.body.Keep.Seq > 0:
		return n.body.Keep
	case n.body.Keep == ferry.Cut{} && n.rec.Writer == before:
		return ferry.Cut{Epoch: 1, Seq: int64(n.rec.Seq), ID: n.rec.ID}
	}
	return ferry.Cut{Epoch: 1}
}

// place is a point in the authority's own order: the chains of the masters, one after the other.
type place struct {
	master int // 1 for the first
	seq    uint64
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.master, q.master), cmp.Compare(p.seq, q.seq))
}

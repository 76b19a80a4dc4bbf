package channel

import (
	"context"
	"fmt"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
	"github.com/ferry-fleet/ferry/sign"
)

// maxSawDelegates bounds the heads that a record carries beside the master's.
const maxSawDelegates = 8

// feedsOf lists the writers whose heads a record carries: the master and its delegates, without the record's own writer.
func feedsOf(r *authority.Roster, own ferry.WriterID) []ferry.WriterID {
	var out []ferry.WriterID
	delegates := 0
	master, _ := r.Master()
	for _, m := range r.Members() {
		_, _, delegate := r.Delegation(m.Writer)
		switch {
		case m.Writer == own:
		case m.Writer == master.Writer:
			out = append(out, m.Writer)
		case delegate && delegates < maxSawDelegates:
			delegates++
			out = append(out, m.Writer)
		}
	}
	return out
}

func signHeads(heads []ferry.Head) []sign.Head {
	var out []sign.Head
	for _, h := range heads {
		out = append(out, sign.Head{Writer: sign.WriterID(h.Writer), Epoch: h.Epoch, Seq: h.Seq, ID32: h.ID32})
	}
	return out
}

// Behind gives a head of a feed of authority that a record which counts has named and that is not here: something that
// decides what others may do is still on its way, or withheld.
func (r *Replica) Behind() (ferry.Head, bool) {
	roster := r.Roster()
	var most ferry.Head
	found := false
	for witness, heads := range r.saw {
		if !r.credible(witness) {
			continue
		}
		for _, w := range feedsOf(roster, "") {
			h, named := heads[w]
			if !named || h.Epoch < roster.Epoch(w) {
				continue
			}
			if b := r.chains[chain{w, h.Epoch}]; b != nil && b.tip.seq >= h.Seq {
				continue
			}
			if !found || above(h, most) {
				most, found = h, true
			}
		}
	}
	return most, found
}

// credible reports whether a writer may bear witness: a member that has not signed a number twice.
func (r *Replica) credible(w ferry.WriterID) bool {
	if r.roster.Epoch(w) == 0 {
		return false
	}
	b := r.chains[chain{w, r.roster.Epoch(w)}]
	return b == nil || b.fork == 0
}

// above orders heads, so that the same one is named whatever the order of a map.
func above(a, b ferry.Head) bool {
	if a.Writer != b.Writer {
		return a.Writer < b.Writer
	}
	return later(a, b) || a.Epoch == b.Epoch && a.Seq == b.Seq && a.ID32 < b.ID32
}

// heads gives the heads that a record of a writer carries.
func (c *Channel) heads(ctx context.Context, roster *authority.Roster, own ferry.WriterID) ([]ferry.Head, error) {
	var out []ferry.Head
	for _, w := range feedsOf(roster, own) {
		ch := chain{w, roster.Epoch(w)}
		t, err := readTip(ctx, c.db, ch)
		if err != nil {
			return nil, err
		}
		if t.seq > 0 {
			out = append(out, ferry.Head{Writer: ch.writer, Epoch: ch.epoch, Seq: t.seq, ID32: t.id.String()[:32]})
		}
	}
	return out, nil
}

// holdOf says why what the policies govern has to wait under a roster, or gives "".
func holdOf(roster *authority.Roster) string {
	if why := roster.Hold(); why != "" {
		return why
	}
	for _, kind := range []ferry.PolicyKind{ferry.PolicyEngine, ferry.PolicyAdversary, ferry.PolicySwitch} {
		if _, why := roster.Policy(kind); why != "" {
			return why
		}
	}
	if missing := ferry.Missing(roster.Requires()); len(missing) > 0 {
		return fmt.Sprintf("the policies in force need a newer ferry, for %v: upgrade ferry on this machine", missing)
	}
	return ""
}

package authority

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/sign"
)

// Roster is who belongs to a channel, and what each of them may do. It does not change once it is built.
type Roster struct {
	evaluation *evaluation
	members    map[ferry.WriterID]*member
	names      map[string]ferry.WriterID // whose it is; a name stays with the first that had it
	keys       map[string]bool           // that somebody has or had
	order      []ferry.WriterID          // by admission, without the masters
	entered    int                       // masters whose name is in names
	invites    map[ferry.RecordID]*invite
	refused    map[ferry.RecordID]string
	heads      map[ferry.PolicyKind]head
}

// Root gives the root record in force; without a body while the first root is missing.
func (r *Roster) Root() ferry.Record {
	if n := len(r.evaluation.chain.line); n > 0 {
		return r.evaluation.chain.line[n-1].rec
	}
	return ferry.Record{}
}

// Roots lists the roots from the first to the one in force.
func (r *Roster) Roots() []ferry.Record {
	out := make([]ferry.Record, 0, len(r.evaluation.chain.line))
	for _, n := range r.evaluation.chain.line {
		out = append(out, n.rec)
	}
	return out
}

// RecoveryKeys lists the recovery keys of every valid root known: one of them has signed whatever root of a higher
// generation counts.
func (r *Roster) RecoveryKeys() []sign.PublicKey { return slices.Clone(r.evaluation.chain.keys) }

// Project gives the name of the channel's project, as the root record has it.
func (r *Roster) Project() string {
	if len(r.evaluation.chain.line) == 0 {
		return ""
	}
	return r.evaluation.chain.line[0].body.Project
}

// Master gives the member whose key is the root of authority. It reports false while the root record is missing.
func (r *Roster) Master() (ferry.Member, bool) {
	n := len(r.evaluation.line)
	if n == 0 {
		return ferry.Member{}, false
	}
	return r.evaluation.line[n-1].Member, true
}

// Hold says what of the authority's own chains is known to be missing here, or not understood; empty when nothing is.
// While it does, who may do what is not known for certain, and only what can be taken back is done.
func (r *Roster) Hold() string { return r.evaluation.hold }

// Member gives a writer that is or was a member, with its present key; see Epoch for whether it still is one.
func (r *Roster) Member(w ferry.WriterID) (ferry.Member, bool) {
	m, ok := r.members[w]
	if !ok {
		return ferry.Member{}, false
	}
	return m.Member, true
}

// ByName gives the member with a name. Upper and lower case do not matter. It reports false for one that was shut out.
func (r *Roster) ByName(n ferry.AgentName) (ferry.Member, bool) {
	w := r.names[fold(n)]
	if r.Epoch(w) == 0 {
		return ferry.Member{}, false
	}
	return r.Member(w)
}

// Members lists the members that are not shut out in the order in which they came in, the master first.
func (r *Roster) Members() []ferry.Member {
	out := make([]ferry.Member, 0, len(r.order)+1)
	if m, ok := r.Master(); ok {
		out = append(out, m)
	}
	for _, w := range r.order {
		if m := r.members[w]; !m.revoked {
			out = append(out, m.Member)
		}
	}
	return out
}

// Known lists every writer that has or had a key: the master, the masters before, the members as they came in.
func (r *Roster) Known() []ferry.WriterID {
	out := make([]ferry.WriterID, 0, len(r.members))
	for _, m := range r.evaluation.line {
		out = append(out, m.Writer)
	}
	slices.Reverse(out)
	return append(out, r.order...)
}

// Epoch gives the epoch in which a writer may write, or 0 when it may not.
func (r *Roster) Epoch(w ferry.WriterID) uint32 {
	m, ok := r.members[w]
	if !ok || m.revoked || m.master > 0 && m.master < len(r.evaluation.line) {
		return 0
	}
	return uint32(len(m.epochs))
}

// Key gives the key with which a writer signs in an epoch, past ones too, and the record that its first record there names
// as its predecessor: the one that let it in, or for a master that wrote its own root the root before, zero for the first.
// It reports false for a writer or an epoch that was never admitted.
func (r *Roster) Key(w ferry.WriterID, epoch uint32) (key sign.PublicKey, prev ferry.RecordID, ok bool) {
	s, ok := r.span(w, epoch)
	return s.key, s.prev, ok
}

// Chain gives the last record of a writer's epoch that counts, where the master has named one; with Seq 0 none does. It
// reports false for a writer or an epoch that was never admitted.
func (r *Roster) Chain(w ferry.WriterID, epoch uint32) (keep *ferry.Cut, known bool) {
	s, known := r.span(w, epoch)
	if s.cut == nil {
		return nil, known
	}
	cut := *s.cut
	return &cut, known
}

func (r *Roster) span(w ferry.WriterID, epoch uint32) (span, bool) {
	m, ok := r.members[w]
	if !ok || epoch == 0 || int64(epoch) > m.epoch() {
		return span{}, false
	}
	return m.epochs[epoch-1], true
}

// Digest is the hex SHA-256 of the root in force, and of every writer with its epochs, cuts, grants and delegations. Two
// machines with the same one agree about who may do what; policies are not part of it.
func (r *Roster) Digest() string {
	h := sha256.New()
	fmt.Fprintf(h, "ferry-roster-v1\nroot %s\n", r.Root().ID)
	for _, w := range r.Known() {
		m := r.members[w]
		fmt.Fprintf(h, "%s %s %q %q %q %v\n", w, m.Name, m.Machine, m.Email, m.Grants, m.revoked)
		for _, s := range m.epochs {
			fmt.Fprintf(h, "epoch %s %s", s.key, s.prev)
			if s.cut != nil {
				fmt.Fprintf(h, " keep %d %s", s.cut.Seq, s.cut.ID)
			}
			fmt.Fprintln(h)
		}
		for _, d := range m.delegations {
			fmt.Fprintf(h, "delegate %s %d %d\n", d.id, d.epoch, d.seq)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

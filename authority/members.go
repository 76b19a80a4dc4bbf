package authority

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/sign"
)

// member is a writer that has or had a key in the channel.
type member struct {
	ferry.Member
	admitted    ferry.RecordID
	epochs      []span // the first is epoch 1
	revoked     bool
	trusted     bool // the master itself has admitted it
	master      int  // 0: never was the master; else which of them, from 1
	delegations []delegation
}

// span is one epoch of a member.
type span struct {
	key  sign.PublicKey
	prev ferry.RecordID
	cut  *ferry.Cut // nil while it is open
}

func (m *member) epoch() int64 { return int64(len(m.epochs)) }

type invite struct {
	body *ferry.Invite
	used bool
}

// rule applies one statement, and keeps why it has no effect.
func (r *Roster) rule(s statement) {
	var why string
	switch b := s.Body.(type) {
	case *ferry.Admit:
		why = r.admit(s, b)
	case *ferry.Revoke:
		why = r.revoke(s, b)
	case *ferry.Readmit:
		why = r.readmit(s, b)
	case *ferry.Delegate:
		why = r.delegate(s, b)
	case *ferry.Invite:
		if _, err := r.evaluation.parse(b.Key); err != nil {
			why = err.Error()
			break
		}
		r.invites[s.ID] = &invite{body: b}
	}
	if why != "" {
		r.refused[s.ID] = why
	}
}

func (r *Roster) admit(s statement, a *ferry.Admit) string {
	if a.Epoch != 1 {
		return fmt.Sprintf("epoch %d: a writer begins with epoch 1", a.Epoch)
	}
	key, err := checkMember(a.Member, r.evaluation.parse)
	if err != nil {
		return err.Error()
	}
	by, ok := r.members[s.Writer]
	if !ok {
		return "its writer is not a member yet"
	}
	mine := by.master > 0
	m, known := r.members[a.Member.Writer]
	switch {
	case known && m.master > 0:
		return "the writer is or was the master: a master has every right but work, which it cannot be given"
	case known && m.revoked:
		return fmt.Sprintf("%s was revoked: readmit it under a new key", m.Name)
	case known && !mine:
		return fmt.Sprintf("%s is a member already, and only the master gives a member more", m.Name)
	case !mine:
		if why := r.admitsFor(s, a); why != "" {
			return why
		}
	}
	if holder, taken := r.names[fold(a.Member.Name)]; !known && taken {
		return fmt.Sprintf("the name %s belongs to the writer %s already", a.Member.Name, holder)
	}
	if !known && r.keys[key.String()] {
		return "its key was that of another member"
	}
	if why := r.answers(a); why != "" {
		return why
	}
	if known {
		grants := slices.Concat(m.Grants, a.Member.Grants)
		slices.Sort(grants)
		m.Grants, m.trusted = slices.Compact(grants), true
		return ""
	}
	m = &member{Member: a.Member, admitted: s.ID, epochs: []span{{key: key, prev: s.ID}}, trusted: mine}
	m.Grants = slices.Clone(m.Grants)
	r.members[m.Writer] = m
	r.names[fold(m.Name)] = m.Writer
	r.keys[m.Key] = true
	r.order = append(r.order, m.Writer)
	return ""
}

// delegable are the grants that a delegate can give: what they reach, somebody with another key still has to accept.
var delegable = [...]ferry.Grant{ferry.GrantOrder, ferry.GrantWork, ferry.GrantReview}

// admitsFor says why a delegate cannot let in what it lets in.
func (r *Roster) admitsFor(s statement, a *ferry.Admit) string {
	if why := r.delegated(s.Record, ferry.ScopeAdmit); why != "" {
		return why
	}
	for _, g := range a.Member.Grants {
		if !slices.Contains(delegable[:], g) {
			return fmt.Sprintf("a delegate cannot give the grant %s, only %v", g, delegable)
		}
	}
	e := r.evaluation
	if holder := e.names[fold(a.Member.Name)]; holder != "" && holder != a.Member.Writer {
		return fmt.Sprintf("the master gives the name %s to the writer %s", a.Member.Name, holder)
	}
	if e.keys[a.Member.Key] {
		return "the master gives its key to another member"
	}
	return ""
}

// answers says why the admission is no answer to the invite that it names, and uses up an invite for one.
func (r *Roster) answers(a *ferry.Admit) string {
	if a.Invite.IsZero() {
		return ""
	}
	in, ok := r.invites[a.Invite]
	if !ok {
		return fmt.Sprintf("it answers the invite %s, which the master had not written before it", a.Invite.Short())
	}
	for _, g := range a.Member.Grants {
		if !slices.Contains(in.body.Grants, g) {
			return fmt.Sprintf("it gives the grant %s, and the invite %s does not", g, a.Invite.Short())
		}
	}
	if in.used && !in.body.Many {
		return fmt.Sprintf("the invite %s was for one and is used", a.Invite.Short())
	}
	in.used = true
	return ""
}

// subject gives the member that a statement is about.
func (r *Roster) subject(w ferry.WriterID) (*member, string) {
	m, ok := r.members[w]
	switch {
	case !ok:
		return nil, fmt.Sprintf("the writer %s is not a member of this channel", w)
	case m.master > 0:
		return nil, fmt.Sprintf("%s is or was the master: only a root record changes that", m.Name)
	}
	return m, ""
}

// revoke shuts a member out. It never fails because of its cut: one that cannot be keeps nothing of the epoch in use.
func (r *Roster) revoke(s statement, b *ferry.Revoke) string {
	m, why := r.subject(b.Writer)
	if why != "" {
		return why
	}
	keep := b.Keep
	if keep.Epoch < 0 || keep.Epoch > m.epoch() || keep.Seq <= 0 {
		keep = ferry.Cut{Epoch: min(max(keep.Epoch, 0), m.epoch())}
	}
	for i := range m.epochs {
		switch epoch := int64(i + 1); {
		case epoch == keep.Epoch:
			m.epochs[i].cut = &keep
		case epoch > keep.Epoch:
			m.epochs[i].cut = &ferry.Cut{Epoch: epoch}
		}
	}
	if !m.revoked && len(m.delegations) > 0 {
		m.delegations = append(m.delegations, delegation{at: s.at})
	}
	m.revoked = true
	m.keeps(keep)
	return ""
}

// keeps moves the end of the delegations of a revoked member to where its records end.
func (m *member) keeps(keep ferry.Cut) {
	if n := len(m.delegations); n > 0 && m.revoked {
		m.delegations[n-1].epoch, m.delegations[n-1].seq = uint32(keep.Epoch), uint64(keep.Seq)
	}
}

func (r *Roster) readmit(s statement, b *ferry.Readmit) string {
	m, why := r.subject(b.Writer)
	if why != "" {
		return why
	}
	key, err := r.evaluation.parse(b.Key)
	switch {
	case err != nil:
		return err.Error()
	case b.Epoch != m.epoch()+1 || b.Epoch > sign.MaxEpoch:
		return fmt.Sprintf("epoch %d: %s is in epoch %d, and goes on with the next", b.Epoch, m.Name, m.epoch())
	case b.Keep.Epoch != m.epoch() || b.Keep.Seq < 0:
		return fmt.Sprintf("it keeps records of epoch %d, and not of epoch %d, which it ends", b.Keep.Epoch, m.epoch())
	case r.keys[b.Key]:
		return "its key was that of a member before: an epoch needs a new key"
	}
	keep := b.Keep
	m.keeps(keep)
	m.epochs[len(m.epochs)-1].cut = &keep
	m.epochs = append(m.epochs, span{key: key, prev: s.ID})
	m.Key, m.revoked = b.Key, false
	r.keys[b.Key] = true
	return ""
}

func fold(n ferry.AgentName) string { return strings.ToLower(string(n)) }

// CheckMember reports what is wrong with a member: its key, an id that is not the key's, its name or a grant.
func CheckMember(m ferry.Member) (sign.PublicKey, error) { return checkMember(m, sign.ParsePublicKey) }

func checkMember(m ferry.Member, parse func(string) (sign.PublicKey, error)) (sign.PublicKey, error) {
	key, err := parse(m.Key)
	if err != nil {
		return key, fmt.Errorf("member %q: %w", m.Name, err)
	}
	if ferry.WriterID(key.WriterID()) != m.Writer {
		return key, fmt.Errorf("member %q: the writer id %q is not that of its key, which is %s", m.Name, m.Writer, key.WriterID())
	}
	if _, err := ferry.ParseAgentName(string(m.Name)); err != nil {
		return key, fmt.Errorf("member %s: %w", m.Writer, err)
	}
	for _, g := range m.Grants {
		if !slices.Contains(Grants(), g) {
			return key, fmt.Errorf("member %s: unknown grant %q: want one of %v", m.Writer, g, Grants())
		}
	}
	return key, nil
}

// Grants lists every grant that an admission can carry.
func Grants() []ferry.Grant {
	return []ferry.Grant{
		ferry.GrantOrder, ferry.GrantWork, ferry.GrantReview, ferry.GrantLand, ferry.GrantDispatch, ferry.GrantAnswer,
	}
}

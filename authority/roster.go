package authority

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/sign"
)

// Roster is who belongs to a channel, and what each of them may do. It does not change once it is built.
type Roster struct {
	channel ferry.RecordID
	project string
	master  ferry.WriterID
	members map[ferry.WriterID]*member
	names   map[string]ferry.WriterID
	order   []ferry.WriterID // by admission
	refused map[ferry.RecordID]string
}

type member struct {
	ferry.Member
	key      sign.PublicKey
	admitted ferry.RecordID
}

// Build computes the roster of a channel from its root record and the admissions of its master. Everything else in
// statements is ignored. Without the root record the roster is empty.
func Build(statements []ferry.Record, channel ferry.RecordID) *Roster {
	r := &Roster{
		channel: channel,
		members: map[ferry.WriterID]*member{},
		names:   map[string]ferry.WriterID{},
		refused: map[ferry.RecordID]string{},
	}
	for _, s := range statements {
		if root, ok := s.Body.(*ferry.Root); ok && s.ID == channel && !channel.IsZero() {
			r.found(s, root)
		}
	}
	if r.master == "" {
		return r
	}
	for _, s := range sorted(statements) {
		admit, ok := s.Body.(*ferry.Admit)
		if !ok {
			continue
		}
		if why := r.admit(s, admit); why != "" {
			r.refused[s.ID] = why
		}
	}
	return r
}

// sorted orders statements as their writers chained them.
func sorted(statements []ferry.Record) []ferry.Record {
	out := slices.Clone(statements)
	slices.SortFunc(out, func(a, b ferry.Record) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Seq, b.Seq), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return out
}

func (r *Roster) found(s ferry.Record, root *ferry.Root) {
	key, err := CheckMember(root.Master)
	if err != nil || root.Master.Writer != s.Writer || s.Epoch != 1 || s.Seq != 1 {
		return
	}
	r.project, r.master = root.Project, s.Writer
	r.enter(&member{Member: root.Master, key: key, admitted: s.ID})
}

// admit applies one admission and says why it has no effect. A further admission of a member adds its grants.
func (r *Roster) admit(s ferry.Record, a *ferry.Admit) string {
	if s.Writer != r.master {
		return "only the master admits members"
	}
	if a.Epoch != 1 {
		return fmt.Sprintf("epoch %d: a writer begins with epoch 1", a.Epoch)
	}
	key, err := CheckMember(a.Member)
	if err != nil {
		return err.Error()
	}
	if a.Member.Writer == r.master {
		return "the master has every right but work, which it cannot be given"
	}
	if m, ok := r.members[a.Member.Writer]; ok {
		grants := slices.Concat(m.Grants, a.Member.Grants)
		slices.Sort(grants)
		m.Grants = slices.Compact(grants)
		return ""
	}
	if holder, taken := r.names[fold(a.Member.Name)]; taken {
		return fmt.Sprintf("the name %s belongs to the writer %s already", a.Member.Name, holder)
	}
	m := &member{Member: a.Member, key: key, admitted: s.ID}
	m.Grants = slices.Clone(m.Grants)
	r.enter(m)
	return ""
}

func (r *Roster) enter(m *member) {
	r.members[m.Writer] = m
	r.names[fold(m.Name)] = m.Writer
	r.order = append(r.order, m.Writer)
}

func fold(n ferry.AgentName) string { return strings.ToLower(string(n)) }

// CheckMember reports what is wrong with a member: its key, an id that is not the key's, its name or a grant.
func CheckMember(m ferry.Member) (sign.PublicKey, error) {
	key, err := sign.ParsePublicKey(m.Key)
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
			return key, fmt.Errorf("member %s: unknown grant %q: want one of %v", m.Name, g, Grants())
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

// Key gives the key with which a writer signs in an epoch, and the record that let it in, which the first record of that
// epoch names as its predecessor. For the master that is the root record, which is itself the first. It reports false for a
// writer or an epoch that was never admitted.
func (r *Roster) Key(w ferry.WriterID, epoch uint32) (key sign.PublicKey, prev ferry.RecordID, ok bool) {
	m, ok := r.members[w]
	if !ok || epoch != 1 {
		return key, prev, false
	}
	if w == r.master {
		return m.key, ferry.RecordID{}, true
	}
	return m.key, m.admitted, true
}

// Member gives the member with a writer id.
func (r *Roster) Member(w ferry.WriterID) (ferry.Member, bool) {
	m, ok := r.members[w]
	if !ok {
		return ferry.Member{}, false
	}
	return m.Member, true
}

// ByName gives the member with a name. Upper and lower case do not matter.
func (r *Roster) ByName(n ferry.AgentName) (ferry.Member, bool) { return r.Member(r.names[fold(n)]) }

// Members lists the members in the order in which they came in, the master first.
func (r *Roster) Members() []ferry.Member {
	out := make([]ferry.Member, 0, len(r.order))
	for _, w := range r.order {
		out = append(out, r.members[w].Member)
	}
	return out
}

// Master gives the member whose key is the root of authority. It reports false while the root record is missing.
func (r *Roster) Master() (ferry.Member, bool) { return r.Member(r.master) }

// Project gives the name of the channel's project, as the root record has it.
func (r *Roster) Project() string { return r.project }

package authority

import (
	"fmt"
	"slices"

	"github.com/ferry-fleet/ferry"
)

// Seats are the writers that have a part in what a record is about; empty where there is none, or it is not known here.
type Seats struct {
	Issuer   ferry.WriterID // of the order
	Builder  ferry.WriterID // of the result that a verdict or an approval names
	Reviewer ferry.WriterID // of the verdict that an approval names
}

// Counts is CountsFor where only the order's issuer is known. So a delegate's verdicts and approvals, for which the builder
// matters, do not count by their delegation.
func (r *Roster) Counts(rec ferry.Record, issuer ferry.WriterID) (level ferry.Level, reason string, ok bool) {
	return r.CountsFor(rec, Seats{Issuer: issuer})
}

// CountsFor reports whether a record counts, and under which authority: the strongest that covers it. The record is on the
// branch of its writer's chain that counts. When the record does not count, reason says why in words.
func (r *Roster) CountsFor(rec ferry.Record, s Seats) (level ferry.Level, reason string, ok bool) {
	m, member := r.members[rec.Writer]
	if _, isRoot := rec.Body.(*ferry.Root); isRoot {
		return r.countsRoot(rec)
	}
	if !member {
		return 0, fmt.Sprintf("the writer %s is not a member of this channel", rec.Writer), false
	}
	if rec.Body == nil {
		return 0, "this version does not know its type", false
	}
	if why := r.cutOff(m, rec); why != "" {
		return 0, why, false
	}
	if why, refused := r.refused[rec.ID]; refused {
		return 0, why, false
	}
	rule := ruleFor(rec.Body)
	if m.master > 0 && rule.master {
		return ferry.LevelMaster, "", true
	}
	delegated := ""
	if rule.scope != "" {
		if delegated = r.delegated(rec, rule.scope); delegated == "" {
			delegated = s.taken(rec, rule.scope)
		}
		if delegated == "" {
			return ferry.LevelDelegate, "", true
		}
	}
	switch {
	case rule.member:
	case rule.issuer && rec.Writer == s.Issuer:
	case rule.grant != "" && m.master == 0 && slices.Contains(m.Grants, rule.grant):
	default:
		reason = fmt.Sprintf("%s may not write it: %s", m.Name, rule)
		if delegated != "" && len(m.delegations) > 0 {
			reason += "; " + delegated
		}
		return 0, reason, false
	}
	return ferry.LevelGrant, "", true
}

// countsRoot answers from the chain of roots, which is the only one to know the signatures.
func (r *Roster) countsRoot(rec ferry.Record) (ferry.Level, string, bool) {
	for _, n := range r.evaluation.chain.line {
		if n.rec.ID == rec.ID {
			return ferry.LevelMaster, "", true
		}
	}
	if why, refused := r.refused[rec.ID]; refused {
		return 0, why, false
	}
	return 0, "it is not a root of this channel", false
}

// cutOff says why the record is in no part of its writer's chains that counts.
func (r *Roster) cutOff(m *member, rec ferry.Record) string {
	s, ok := r.span(m.Writer, rec.Epoch)
	switch {
	case !ok:
		return fmt.Sprintf("%s has no epoch %d", m.Name, rec.Epoch)
	case s.cut == nil || rec.Seq <= uint64(s.cut.Seq):
		return ""
	case s.cut.Seq == 0:
		return fmt.Sprintf("nothing that %s wrote in epoch %d counts", m.Name, rec.Epoch)
	}
	return fmt.Sprintf("of epoch %d of %s only the records up to %d count", rec.Epoch, m.Name, s.cut.Seq)
}

// taken says why a delegate cannot be the master's eyes here: nobody judges what is its own.
func (s Seats) taken(rec ferry.Record, scope ferry.Scope) string {
	if scope != ferry.ScopeReview {
		return ""
	}
	approve, approves := rec.Body.(*ferry.Approve)
	switch {
	case s.Issuer == "" || s.Builder == "" || approves && s.Reviewer == "" && !approve.Verdict.IsZero():
		return "the order, the result or the verdict that it names is not here"
	case rec.Writer == s.Issuer:
		return "a delegate does not judge what it ordered itself"
	case rec.Writer == s.Builder:
		return "a delegate does not judge what it built itself"
	case approves && rec.Writer == s.Reviewer:
		return "a delegate does not approve on its own verdict"
	}
	return ""
}

// rule says who may write a record; any one of its parts is enough.
type rule struct {
	what   string
	master bool
	member bool        // any member
	issuer bool        // the writer of the order that it is about
	grant  ferry.Grant // never the master's, who gives it
	scope  ferry.Scope // of a delegation
}

func (r rule) String() string {
	who := ""
	add := func(s string) {
		if who != "" {
			who += " or "
		}
		who += s
	}
	if r.issuer {
		add("the order's issuer")
	}
	if r.master {
		add("the master")
	}
	if r.grant != "" {
		add("a writer with the grant " + string(r.grant))
	}
	if r.scope != "" {
		add("a delegate with the scope " + string(r.scope))
	}
	if who == "" {
		return "nobody may"
	}
	return r.what + " needs " + who
}

func ruleFor(b ferry.Body) rule {
	what := string(b.Type())
	switch b := b.(type) {
	case *ferry.Admit:
		return rule{what: what, master: true, scope: ferry.ScopeAdmit}
	case *ferry.Revoke, *ferry.Readmit, *ferry.Delegate, *ferry.Invite, *ferry.Redact:
		return rule{what: what, master: true}
	case *ferry.Policy:
		if b.Kind == ferry.PolicyEngine {
			return rule{what: what, master: true, scope: ferry.ScopeImprove}
		}
		return rule{what: what + " " + string(b.Kind), master: true}
	case *ferry.Checkpoint:
		return rule{what: what, master: true, grant: ferry.GrantWork, scope: ferry.ScopeTimekeep}
	case *ferry.Inventory, *ferry.Seal, *ferry.ForkProof, *ferry.Anomaly, *ferry.Question, *ferry.Note:
		return rule{what: what, master: true, member: true}
	case *ferry.Order:
		return rule{what: what, master: true, grant: ferry.GrantOrder, scope: ferry.ScopeOrder}
	case *ferry.Claim, *ferry.Start, *ferry.Run, *ferry.Stop, *ferry.Result:
		return rule{what: what, grant: ferry.GrantWork}
	case *ferry.Verdict:
		if b.Decision == ferry.DecisionReject {
			return rule{what: what + " reject", master: true}
		}
		return rule{what: what, master: true, grant: ferry.GrantReview, scope: ferry.ScopeReview}
	case *ferry.Approve:
		return rule{what: what, master: true, scope: ferry.ScopeReview}
	case *ferry.Landed:
		return rule{what: what, master: true, grant: ferry.GrantLand}
	case *ferry.Cancel, *ferry.Interrupt, *ferry.Retire, *ferry.Reassign:
		return rule{what: what, master: true, issuer: true, grant: ferry.GrantDispatch, scope: ferry.ScopeDispatch}
	case *ferry.Answer:
		return rule{what: what, master: true, grant: ferry.GrantAnswer, scope: ferry.ScopeAnswer}
	case *ferry.Opaque:
		if known := ferry.New(b.Is); known != nil {
			return ruleFor(known)
		}
	}
	return rule{what: what}
}

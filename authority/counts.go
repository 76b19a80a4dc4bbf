package authority

import (
	"fmt"
	"slices"

	"github.com/ferry-fleet/ferry"
)

// Counts reports whether a record counts, and under which authority. The issuer is the writer of the order that the record
// is about, and empty where it is about none. When the record does not count, reason says why in words.
func (r *Roster) Counts(rec ferry.Record, issuer ferry.WriterID) (level ferry.Level, reason string, ok bool) {
	m, member := r.members[rec.Writer]
	if !member {
		return 0, fmt.Sprintf("the writer %s is not a member of this channel", rec.Writer), false
	}
	if rec.Body == nil {
		return 0, "this version does not know its type", false
	}
	if why, refused := r.refused[rec.ID]; refused {
		return 0, why, false
	}
	rule := ruleFor(rec.Body)
	switch {
	case rec.Writer == r.master && rule.master:
		return ferry.LevelMaster, "", true
	case rule.member:
	case rule.issuer && issuer != "" && rec.Writer == issuer:
	case rule.grant == "" || rec.Writer == r.master || !slices.Contains(m.Grants, rule.grant):
		return 0, fmt.Sprintf("%s may not write it: %s", m.Name, rule), false
	}
	return ferry.LevelGrant, "", true
}

// rule says who may write a record; any one of its parts is enough.
type rule struct {
	what   string
	master bool
	member bool        // any member
	issuer bool        // the writer of the order that it is about
	grant  ferry.Grant // never the master's, who gives it
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
	if who == "" {
		return "nobody may"
	}
	return r.what + " needs " + who
}

func ruleFor(b ferry.Body) rule {
	what := string(b.Type())
	switch b := b.(type) {
	case *ferry.Root, *ferry.Admit, *ferry.Approve:
		return rule{what: what, master: true}
	case *ferry.Order:
		return rule{what: what, master: true, grant: ferry.GrantOrder}
	case *ferry.Claim, *ferry.Start, *ferry.Run, *ferry.Stop, *ferry.Result:
		return rule{what: what, grant: ferry.GrantWork}
	case *ferry.Verdict:
		if b.Decision == ferry.DecisionReject {
			return rule{what: what + " reject", master: true}
		}
		return rule{what: what, master: true, grant: ferry.GrantReview}
	case *ferry.Landed:
		return rule{what: what, master: true, grant: ferry.GrantLand}
	case *ferry.Cancel, *ferry.Interrupt:
		return rule{what: what, master: true, issuer: true, grant: ferry.GrantDispatch}
	case *ferry.Question, *ferry.Note:
		return rule{what: what, master: true, member: true}
	case *ferry.Answer:
		return rule{what: what, master: true, grant: ferry.GrantAnswer}
	}
	return rule{what: what}
}

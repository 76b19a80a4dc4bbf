package authority_test

import (
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
)

func (w *world) answer(by *writer) ferry.Record {
	return w.write(by, &ferry.Answer{Question: ferry.RecordID{1}})
}

func TestDelegation(t *testing.T) {
	w := founded(t)
	p := w.admit("deputy")
	before := w.answer(p)
	given := w.delegate(p, ferry.ScopeAnswer)
	blind := w.writeSeen(p, &ferry.Answer{})
	future := w.master.head()
	future.Epoch = 2
	self := w.writeSeen(p, &ferry.Answer{}, p.head(), future)
	during := w.answer(p)
	r := w.roster()
	w.refused(r, before, "had not seen")
	w.refused(r, blind, "does not say that its writer had seen")
	w.refused(r, self, "does not say that its writer had seen")
	w.counts(r, during)
	w.refused(r, w.write(p, &ferry.Order{}), "scope order")
	if d, id, ok := r.Delegation(p.Writer); !ok || id != given.ID || d.To != p.Writer {
		t.Errorf("delegation %+v", d)
	}

	// With other scopes, what the master had seen by then stays.
	w.delegate(p, ferry.ScopeOrder)
	late := w.writeSeen(p, &ferry.Answer{}, during.Saw...)
	after := w.answer(p)
	order := w.write(p, &ferry.Order{})
	r = w.roster()
	w.counts(r, during)
	w.counts(r, order)
	w.refused(r, late, "ended the delegation before")
	w.refused(r, after, "does not cover it")

	// Without scopes it is over.
	w.delegate(p)
	r = w.roster()
	w.counts(r, order)
	w.refused(r, w.write(p, &ferry.Order{}), "does not cover it")
	if _, _, ok := r.Delegation(p.Writer); ok {
		t.Error("it has a delegation")
	}
}

func TestDelegationDiesWithRevoke(t *testing.T) {
	w := founded(t)
	p := w.admit("deputy")
	w.delegate(p, ferry.ScopeAnswer)
	kept := w.answer(p)
	keep := p.cut()
	cut := w.answer(p)
	w.say(&ferry.Revoke{Writer: p.Writer, Keep: ferry.Cut{Epoch: 1}})
	w.refused(w.roster(), kept, "nothing that deputy wrote")
	w.say(&ferry.Revoke{Writer: p.Writer, Keep: keep})
	w.counts(w.roster(), kept)
	useless := w.delegate(p, ferry.ScopeAnswer)
	w.readmit(p, keep, "deputy-2")
	again := w.answer(p)
	old := w.writeSeen(p, &ferry.Answer{}, kept.Saw...)
	r := w.roster()
	w.counts(r, kept)
	w.refused(r, cut, "only the records up to")
	w.refused(r, useless, "was revoked")
	w.refused(r, again, "had been revoked")
	w.refused(r, old, "ended the delegation")
	if _, _, ok := r.Delegation(p.Writer); ok {
		t.Error("it has a delegation")
	}
	w.delegate(p, ferry.ScopeAnswer)
	fresh := w.answer(p)
	r = w.roster()
	w.counts(r, fresh)
	w.counts(r, kept)
}

// A new key of the delegate ends nothing, and neither does a new master.
func TestDelegationGoesOn(t *testing.T) {
	w := founded(t)
	p := w.admit("deputy")
	w.delegate(p, ferry.ScopeAnswer)
	w.readmit(p, p.cut(), "deputy-2")
	b := next(w.records[0])
	b.Master = member(t, "second")
	rec := w.root(w.master, b, "master", "second")
	w.master = w.person("second")
	w.master.last = rec.ID
	w.say(&ferry.Note{})
	act := w.answer(p)
	w.counts(w.roster(), act)
	w.delegate(p)
	r := w.roster()
	w.counts(r, act)
	w.refused(r, w.answer(p), "does not cover it")
}

func TestDelegationOfProjects(t *testing.T) {
	for project, want := range map[string]bool{"demo": true, "other": false} {
		w := founded(t)
		p := w.admit("deputy")
		w.say(&ferry.Delegate{To: p.Writer, Scopes: ferry.Scopes(), Projects: []string{project}})
		act := w.answer(p)
		if _, why, ok := w.roster().Counts(act, ""); ok != want {
			t.Errorf("for %s: counts = %v, %s", project, ok, why)
		}
	}
}

func TestUses(t *testing.T) {
	w := founded(t)
	p := w.admit("deputy")
	w.say(&ferry.Delegate{To: p.Writer, Scopes: []ferry.Scope{ferry.ScopeAnswer}, MaxUses: 2})
	w.write(p, &ferry.Note{})
	one := w.answer(p)
	next := one
	next.ID = ferry.RecordID{8}
	w.counts(w.roster(), next)
	w.write(p, &ferry.Order{})
	two, three := w.answer(p), w.answer(p)
	r := w.roster()
	w.counts(r, one)
	w.counts(r, two)
	w.refused(r, three, "2 times")
	w.refused(r, next, "2 times")
	w.say(&ferry.Delegate{To: p.Writer, Scopes: []ferry.Scope{ferry.ScopeAnswer}, MaxUses: 1})
	four, five := w.answer(p), w.answer(p)
	r = w.roster()
	w.counts(r, two)
	w.refused(r, three, "2 times")
	w.counts(r, four)
	w.refused(r, five, "1 times")
	odd := w.say(&ferry.Delegate{To: p.Writer, MaxUses: -1})
	w.refused(w.roster(), odd, "-1 times")
}

// What is cut off uses up nothing.
func TestUsesBehindCut(t *testing.T) {
	w := founded(t)
	p := w.admit("deputy")
	w.say(&ferry.Delegate{To: p.Writer, Scopes: []ferry.Scope{ferry.ScopeAnswer}, MaxUses: 2})
	one := w.answer(p)
	keep := p.cut()
	lost := w.answer(p)
	w.readmit(p, keep, "deputy-2")
	two, three := w.answer(p), w.answer(p)
	r := w.roster()
	w.counts(r, one)
	w.refused(r, lost, "only the records up to")
	w.counts(r, two)
	w.refused(r, three, "2 times")
}

// A readmission can keep more than the revocation before it did: the delegation's acts come back with the other records.
func TestReadmissionKeepsMore(t *testing.T) {
	w := founded(t)
	p := w.admit("deputy")
	w.delegate(p, ferry.ScopeAnswer)
	act := w.answer(p)
	keep := p.cut()
	w.say(&ferry.Revoke{Writer: p.Writer, Keep: ferry.Cut{Epoch: 1}})
	w.readmit(p, keep, "deputy-2")
	w.counts(w.roster(), act)
}

// No scope reaches the root, the roster beyond admissions, the delegations or the policies of the adversary and the switch.
func TestDelegateCannotRaiseItself(t *testing.T) {
	w := founded(t)
	p, other := w.admit("deputy"), w.admit("other")
	w.delegate(p, ferry.Scopes()...)
	root := w.root(p, next(w.records[0]), "deputy")
	acts := []ferry.Record{
		w.write(p, &ferry.Delegate{To: p.Writer, Scopes: ferry.Scopes()}),
		w.write(p, &ferry.Revoke{Writer: other.Writer}),
		w.write(p, &ferry.Readmit{Writer: other.Writer, Epoch: 2, Key: hexKey(t, "mine"), Keep: ferry.Cut{Epoch: 1}}),
		w.write(p, &ferry.Invite{Key: hexKey(t, "mine")}),
		w.write(p, &ferry.Policy{Kind: ferry.PolicyAdversary, Version: 1}),
		w.write(p, &ferry.Policy{Kind: ferry.PolicySwitch, Version: 1}),
		w.write(p, &ferry.Redact{}),
		w.write(p, &ferry.Verdict{Decision: ferry.DecisionReject}),
		w.write(p, &ferry.Landed{}),
	}
	r := w.roster()
	w.refused(r, root, "")
	for _, rec := range acts {
		w.refused(r, rec, "needs the master")
	}
	w.wantRoot(r, w.records[0])
	for _, kind := range []ferry.PolicyKind{ferry.PolicyAdversary, ferry.PolicySwitch} {
		if rec, hold := r.Policy(kind); rec.Body != nil || hold != "" {
			t.Errorf("the %s policy is %+v, hold %q", kind, rec.Body, hold)
		}
	}
	if len(r.Members()) != 3 || r.Epoch(other.Writer) != 1 {
		t.Error("the roster has changed")
	}
}

func TestDelegateAdmits(t *testing.T) {
	w := founded(t)
	p := w.admit("deputy")
	w.delegate(p, ferry.ScopeAdmit, ferry.ScopeAnswer)
	in := w.say(&ferry.Invite{Key: hexKey(t, "invite"), Grants: []ferry.Grant{ferry.GrantWork}})
	admit := func(name string, grants ...ferry.Grant) ferry.Record {
		return w.write(p, &ferry.Admit{Member: member(t, name, grants...), Epoch: 1, Invite: in.ID})
	}
	greedy := admit("greedy", ferry.GrantLand)
	guest := admit("guest", ferry.GrantWork)
	second := admit("second")
	free := w.write(p, &ferry.Admit{Member: member(t, "free", ferry.GrantReview), Epoch: 1})
	more := w.write(p, &ferry.Admit{Member: member(t, "free", ferry.GrantOrder), Epoch: 1})

	r := w.roster()
	w.counts(r, guest)
	w.counts(r, free)
	w.refused(r, greedy, "cannot give the grant land")
	w.refused(r, second, "is used")
	w.refused(r, more, "only the master gives a member more")
	g := w.person("guest", ferry.GrantWork)
	g.last = guest.ID
	if _, prev, ok := r.Key(g.Writer, 1); !ok || prev != guest.ID {
		t.Errorf("the guest begins behind %v", prev)
	}
	w.counts(r, w.write(g, &ferry.Claim{}))

	// The master's words about a member that a delegate admitted are like those about any other.
	w.say(&ferry.Admit{Member: member(t, "guest", ferry.GrantLand), Epoch: 1})
	w.counts(w.roster(), w.write(g, &ferry.Landed{}))
	if _, prev, _ := w.roster().Key(g.Writer, 1); prev != guest.ID {
		t.Errorf("with more grants the guest begins behind %v", prev)
	}
	f := w.person("free")
	f.last = free.ID
	w.delegate(f, ferry.ScopeAdmit, ferry.ScopeAnswer)
	third := w.write(f, &ferry.Admit{Member: member(t, "third"), Epoch: 1})
	r = w.roster()
	w.refused(r, third, "was admitted by a delegate")
	w.counts(r, w.answer(f))
	w.say(&ferry.Revoke{Writer: f.Writer, Keep: ferry.Cut{Epoch: 1}})
	if w.roster().Epoch(f.Writer) != 0 {
		t.Error("a guest cannot be revoked")
	}

	// What the delegate signs behind its cut admits nobody.
	keep := p.cut()
	thief := w.write(p, &ferry.Admit{Member: member(t, "thief"), Epoch: 1})
	w.say(&ferry.Revoke{Writer: p.Writer, Keep: keep})
	r = w.roster()
	w.refused(r, thief, "only the records up to")
	if _, ok := r.Member(member(t, "thief").Writer); ok || r.Epoch(g.Writer) != 1 {
		t.Error("the cut of the delegate is not that of its admissions")
	}
}

// A delegate cannot take a name, a place or a key from those that the master lets in, whatever it says that it had seen.
func TestDelegateSeizesName(t *testing.T) {
	w := founded(t)
	p := w.admit("deputy")
	w.delegate(p, ferry.ScopeAdmit)
	early := w.writeSeen(p, &ferry.Admit{Member: func() ferry.Member { m := member(t, "seizer"); m.Name = "wanted"; return m }(), Epoch: 1}, w.master.head())
	wanted := w.admit("wanted")
	honest := w.admit("honest")
	in := w.records[len(w.records)-1]
	// It names a member of the master's as if it had let it in before.
	back := w.writeSeen(p, &ferry.Admit{Member: honest.Member, Epoch: 1}, early.Saw...)
	w.readmit(wanted, wanted.cut(), "wanted-2")
	stolen := w.writeSeen(p, &ferry.Admit{Member: member(t, "wanted-2"), Epoch: 1}, early.Saw...)
	r := w.roster()
	w.refused(r, early, "gives the name wanted")
	w.refused(r, back, "is a member already")
	w.refused(r, stolen, "gives its key")
	if m, ok := r.ByName("wanted"); !ok || m.Writer != wanted.Writer || r.Epoch(wanted.Writer) != 2 {
		t.Errorf("the name belongs to %v", m.Writer)
	}
	if _, prev, _ := r.Key(honest.Writer, 1); prev != in.ID {
		t.Errorf("the member begins behind %v", prev)
	}
}

// Of a delegate that has forked nothing from there on counts; a cut names the branch.
func TestForkOfDelegate(t *testing.T) {
	w := founded(t)
	p := w.admit("deputy")
	w.delegate(p, ferry.ScopeAdmit)
	admit := func(by *writer, name string) ferry.WriterID {
		m := member(t, name)
		w.writeSeen(by, &ferry.Admit{Member: m, Epoch: 1}, w.master.head())
		return m.Writer
	}
	a := admit(p, "a")
	twin := p.fork()
	b, c := admit(p, "b"), admit(twin, "c")
	epochs := func(r *authority.Roster) [3]uint32 { return [3]uint32{r.Epoch(a), r.Epoch(b), r.Epoch(c)} }
	if got := epochs(w.roster()); got != [3]uint32{1, 0, 0} {
		t.Errorf("epochs with the fork: %v", got)
	}
	w.readmit(p, twin.cut(), "deputy-2")
	if got := epochs(w.roster()); got != [3]uint32{1, 0, 1} {
		t.Errorf("epochs after the cut: %v", got)
	}
}

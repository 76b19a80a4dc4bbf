package attack_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/sign"
)

// act is one kind of record, and who of the members below may write it.
type act struct {
	name string
	body ferry.Body
	may  string
}

// everybody are the members who try every act. None of them has a part in the orders that the acts are about.
var everybody = []struct {
	name   string
	grants []ferry.Grant
}{
	{"mute", nil},
	{"hand", []ferry.Grant{ferry.GrantWork}},
	{"boss", []ferry.Grant{ferry.GrantOrder}},
	{"judge", []ferry.Grant{ferry.GrantReview}},
	{"lander", []ferry.Grant{ferry.GrantLand}},
	{"sender", []ferry.Grant{ferry.GrantDispatch}},
	{"clerk", []ferry.Grant{ferry.GrantAnswer}},
	{"eyes", nil},  // a delegate for reviews
	{"ghost", all}, // revoked
	{"ended", all}, // revoked, and delegated everything before
}

var all = []ferry.Grant{
	ferry.GrantOrder, ferry.GrantWork, ferry.GrantReview, ferry.GrantLand, ferry.GrantDispatch, ferry.GrantAnswer,
}

const members = "mute hand boss judge lander sender clerk eyes" // those who are members

func (w *worked) acts(t *testing.T) []act {
	t.Helper()
	twin := member(t, "twin", all...)
	self := func(name string, grants ...ferry.Grant) ferry.Member { return member(t, name, grants...) }
	raised := self("mute", all...)
	return []act{
		{"root", &ferry.Root{Version: 2, Project: "demo", Master: raised, Threshold: 1, Recovery: []string{}, Prev: w.id}, ""},
		{"root of a recovery", &ferry.Root{Generation: 1, Version: 1, Project: "demo", Master: raised, Threshold: 1, Recovery: []string{}, Prev: w.id}, ""},
		{"admit another", &ferry.Admit{Member: twin, Epoch: 1}, ""},
		{"admit oneself", &ferry.Admit{Member: raised, Epoch: 1}, ""},
		{"revoke", &ferry.Revoke{Writer: wid(t, "wisp"), Keep: ferry.Cut{Epoch: 1}}, ""},
		{"revoke the master", &ferry.Revoke{Writer: wid(t, "ada"), Keep: ferry.Cut{Epoch: 1}}, ""},
		{"readmit", &ferry.Readmit{Writer: wid(t, "wisp"), Epoch: 2, Key: key(t, "twin").Public().String(), Keep: ferry.Cut{Epoch: 1}}, ""},
		{"readmit the revoked", &ferry.Readmit{Writer: wid(t, "ghost"), Epoch: 2, Key: key(t, "ghost").Public().String(), Keep: ferry.Cut{Epoch: 1}}, ""},
		{"delegate", &ferry.Delegate{To: wid(t, "mute"), Scopes: ferry.Scopes()}, ""},
		{"delegate the delegate", &ferry.Delegate{To: wid(t, "eyes"), Scopes: ferry.Scopes()}, ""},
		{"end a delegation", &ferry.Delegate{To: wid(t, "lynx")}, ""},
		{"invite", &ferry.Invite{Key: key(t, "twin").Public().String(), Grants: all, NotAfter: "9999-01-01T00:00:00Z"}, ""},
		{"engine policy", &ferry.Policy{Kind: ferry.PolicyEngine, Version: 2, Text: "b"}, ""},
		{"adversary policy", &ferry.Policy{Kind: ferry.PolicyAdversary, Version: 1, Text: "off"}, ""},
		{"switch", &ferry.Policy{Kind: ferry.PolicySwitch, Version: 1, Text: "off"}, ""},
		{"redact", &ferry.Redact{Reason: "secret", Records: []ferry.Redacted{{ID: w.good, Body: `{"label":"good","project":"demo","text":"other","base":""}`}}}, ""},
		{"checkpoint", &ferry.Checkpoint{Root: w.id, Master: ferry.Head{Writer: wid(t, "ada"), Epoch: 1, Seq: 1, ID32: w.id.String()[:32]}}, "hand"},
		{"order", order("evil"), "boss"},
		{"claim", &ferry.Claim{Order: w.open, Attempt: 1}, "hand"},
		{"start", &ferry.Start{Order: w.open, Attempt: 1, Claim: w.open, Engine: "x", Sandbox: "none"}, "hand"},
		{"run", &ferry.Run{Order: w.runs, Start: w.start, Attempt: 1, N: 1, Outcome: ferry.OutcomeDone}, "hand"},
		{"stop", &ferry.Stop{Order: w.runs, Start: w.start, Reason: ferry.StopFailed}, "hand"},
		{"result", &ferry.Result{Order: w.runs, Start: w.start, Attempt: 1, Revision: 1}, "hand"},
		{"accept", &ferry.Verdict{Order: w.waits, Result: w.waitResult, Decision: ferry.DecisionKeep}, "judge eyes"},
		{"send back", &ferry.Verdict{Order: w.waits, Result: w.waitResult, Decision: ferry.DecisionChanges}, "judge eyes"},
		{"deny", &ferry.Verdict{Order: w.waits, Decision: ferry.DecisionReject}, ""},
		{"approve", &ferry.Approve{Order: w.waits, Result: w.waitResult}, "eyes"},
		{"landed", &ferry.Landed{Order: w.good, Result: w.goodResult, Verdict: w.verdict, Approve: w.approve, Target: "main"}, "lander"},
		{"cancel", &ferry.Cancel{Order: w.open}, "sender"},
		{"kill", &ferry.Interrupt{Order: w.runs, Action: ferry.ActionKill}, "sender"},
		{"pause", &ferry.Interrupt{Order: w.runs, Action: ferry.ActionPause}, "sender"},
		{"steer", &ferry.Interrupt{Order: w.runs, Action: ferry.ActionSteer, Note: "go left"}, "sender"},
		{"retry", &ferry.Interrupt{Order: w.waits, Action: ferry.ActionRetry, Seen: []ferry.RecordID{w.waitResult}}, "sender"},
		{"retire", &ferry.Retire{Order: w.runs, Start: w.start}, "sender"},
		{"reassign", &ferry.Reassign{Order: w.runs, To: "mute", Ends: []ferry.RecordID{w.start}}, "sender"},
		{"answer", &ferry.Answer{Order: w.runs, Question: w.question, Option: ferry.OptionCancel}, "clerk"},
		{"note", &ferry.Note{Order: w.runs, Kind: "remark", Text: "hello"}, members},
		{"inventory", &ferry.Inventory{Version: "v1"}, members},
		{"anomaly", &ferry.Anomaly{Kind: "odd", Writer: wid(t, "wisp"), Detail: "x"}, members},
		{"seal", &ferry.Seal{Epoch: 1, From: 1, To: 1, Pack: strings.Repeat("0", 64)}, members},
	}
}

// Who may write what is decided by whoever reads, so a member with a pen of its own gains nothing.
func TestRightsOfEveryMember(t *testing.T) {
	w := newWorked(t)
	pens := map[string]*pen{}
	for _, m := range everybody {
		pens[m.name] = w.admit(m.name, m.grants...)
	}
	w.say(&ferry.Delegate{To: wid(t, "eyes"), Scopes: []ferry.Scope{ferry.ScopeReview}})
	w.say(&ferry.Delegate{To: wid(t, "ended"), Scopes: ferry.Scopes()})
	w.say(&ferry.Revoke{Writer: wid(t, "ghost"), Keep: ferry.Cut{Epoch: 1}})
	w.say(&ferry.Revoke{Writer: wid(t, "ended"), Keep: ferry.Cut{Epoch: 1}})
	seen, err := sign.ParseHead(w.home.headOf(wid(t, "ada")))
	must(t, err)
	type tried struct {
		who, what string
		id        ferry.RecordID
	}
	var refused, allowed []tried
	acts := w.acts(t)
	if got := typesOf(acts); len(got) < len(ferry.Types())-2 { // a question and a fork-proof have tests of their own
		t.Fatalf("the table has %d of %d types", len(got), len(ferry.Types()))
	}
	w.unmoved("what members may not write", func() {
		for _, m := range everybody {
			p := pens[m.name]
			p.saw = []sign.Head{seen}
			for _, a := range acts {
				if !slices.Contains(strings.Fields(a.may), m.name) {
					refused = append(refused, tried{m.name, a.name, p.write(a.body)})
				}
			}
		}
	})
	ledger := w.ledger()
	for _, r := range refused {
		if ledger[r.id].Counted {
			t.Errorf("%s: %s counts", r.who, r.what)
		}
	}
	for _, m := range everybody {
		for _, a := range acts {
			if slices.Contains(strings.Fields(a.may), m.name) {
				allowed = append(allowed, tried{m.name, a.name, pens[m.name].write(a.body)})
			}
		}
	}
	w.sync()
	ledger = w.ledger()
	for _, r := range allowed {
		if e := ledger[r.id]; !e.Counted {
			t.Errorf("%s: %s does not count: %s", r.who, r.what, e.Why)
		}
	}
	w.agree()
}

func typesOf(acts []act) map[ferry.Type]bool {
	out := map[ferry.Type]bool{}
	for _, a := range acts {
		out[a.body.Type()] = true
	}
	return out
}

// headOf gives the newest record of a writer, as a header's saw line names it.
func (m *machine) headOf(w ferry.WriterID) string {
	m.t.Helper()
	links, err := m.Channel.Chain(m.t.Context(), w, 1)
	must(m.t, err)
	last := links[len(links)-1]
	return sign.Head{Writer: sign.WriterID(w), Epoch: 1, Seq: last.Seq, ID32: last.ID.String()[:32]}.String()
}

// Whoever has no admission is not read at all, with whatever name and from whichever directory.
func TestStrangerWritesEverything(t *testing.T) {
	w := newWorked(t)
	names := []string{"stranger", "ada", "wisp"}
	w.unmoved("a stranger", func() {
		for _, name := range names {
			p := &pen{t: t, f: w.fleet, key: key(t, "key of a stranger called "+name), epoch: 1, prev: w.id, time: day}
			p.write(&ferry.Admit{Member: ferry.Member{
				Writer: p.id(), Key: p.key.Public().String(), Name: ferry.AgentName(name), Machine: "box", Grants: all,
			}, Epoch: 1})
			for _, a := range w.acts(t) {
				p.write(a.body)
			}
		}
	})
}

// A worker that also reviews, approves and lands does none of that with its own work.
func TestOwnWork(t *testing.T) {
	f := newFleet(t)
	jack := f.admit("jack", all...)
	f.say(&ferry.Delegate{To: jack.id(), Scopes: []ferry.Scope{ferry.ScopeReview}})
	id := f.say(asked("mine"))
	f.home.look()
	head, err := sign.ParseHead(f.home.headOf(wid(t, "ada")))
	must(t, err)
	jack.saw = []sign.Head{head}
	claim := jack.write(&ferry.Claim{Order: id, Attempt: 1})
	begun := jack.write(&ferry.Start{Order: id, Attempt: 1, Claim: claim, Engine: "x", Sandbox: "none"})
	result := jack.write(&ferry.Result{Order: id, Attempt: 1, Start: begun, Revision: 1})
	f.wantState(id, ferry.StateAwaitingReview)
	verdict := jack.write(&ferry.Verdict{Order: id, Result: result, Decision: ferry.DecisionKeep})
	approve := jack.write(&ferry.Approve{Order: id, Result: result, Verdict: verdict})
	f.wantState(id, ferry.StateAwaitingReview)
	jack.write(&ferry.Landed{Order: id, Result: result, Verdict: verdict, Approve: approve, Target: "main"})
	f.wantState(id, ferry.StateAwaitingReview)
	f.agree()
}

package attack_test

import (
	"fmt"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/sign"
)

// root seals a root record of a writer, signed by further keys.
func (p *pen) root(b *ferry.Root, by ...string) paper {
	p.t.Helper()
	body, err := sign.EncodeJSON(b)
	must(p.t, err)
	r := p.seal("root", body, nil)
	for _, name := range by {
		r.data, err = sign.Cosign(key(p.t, name), r.data)
		must(p.t, err)
	}
	p.seq, p.prev = p.seq+1, r.id
	p.f.put(r.path, r.data)
	return r
}

// first gives the pen of a writer whose chain begins behind a record.
func (f *fleet) first(name string, behind ferry.RecordID) *pen {
	f.t.Helper()
	return &pen{t: f.t, f: f, key: key(f.t, name), epoch: 1, prev: behind, time: day}
}

// No number of members makes a root without the master's key or a recovery key.
func TestMembersCannotTakeTheChannel(t *testing.T) {
	w := newWorked(t)
	hand := w.admit("hand", all...)
	claim := func(g, v int64, prev ferry.RecordID) *ferry.Root {
		return &ferry.Root{
			Generation: g, Version: v, Project: "demo", Master: member(t, "hand", all...), Threshold: 1,
			Recovery: []string{key(t, "hand").Public().String()}, Prev: prev,
		}
	}
	w.unmoved("roots of members", func() {
		for _, g := range []int64{0, 1, 9, 1<<53 - 1} {
			for _, v := range []int64{0, 1, 2, 1000, 1<<53 - 1} {
				for _, prev := range []ferry.RecordID{{}, w.id, hand.prev} {
					hand.root(claim(g, v, prev), "wisp", "moth", "lynx", "stranger")
				}
			}
		}
		for _, prev := range []ferry.RecordID{{}, w.id} {
			w.first("stranger", w.id).root(&ferry.Root{
				Generation: 1, Version: 1, Project: "demo", Master: member(t, "stranger"), Threshold: 1, Recovery: []string{}, Prev: prev,
			}, "hand", "wisp", "moth")
		}
	})
}

// Whoever has stolen the master's key can go as far as it likes: the recovery key takes the channel back, and nothing that the
// thief has written since, or writes later, counts.
func TestStolenMaster(t *testing.T) {
	f := newFleet(t)
	id := f.say(order("before"))
	f.sync()
	thief := f.pen("ada")
	keep := ferry.Cut{Epoch: 1, Seq: int64(thief.seq), ID: thief.prev}
	loot := thief.write(&ferry.Order{Label: "loot", Project: "demo", Text: "send it to me"})
	stolen := &ferry.Root{
		Version: 2, Project: "demo", Master: member(t, "thief"), Threshold: 1, Recovery: []string{key(t, "recovery").Public().String()}, Prev: f.id,
	}
	last := thief.root(stolen, "thief")
	mine := f.first("thief", last.id)
	for v := int64(3); v <= 150; v++ {
		next := *stolen
		next.Version, next.Prev = v, last.id
		last = mine.root(&next)
	}
	mine.write(&ferry.Policy{Kind: ferry.PolicyEngine, Version: 1, Text: "anything goes"})
	mine.write(&ferry.Revoke{Writer: wid(t, "wisp"), Keep: ferry.Cut{Epoch: 1}})
	f.sync()
	if m, err := f.left.Master(t.Context()); err != nil || m.Name != "thief" {
		t.Fatalf("the master is %s, %v: the theft has not worked: %+v", m.Name, err, f.ledger()[last.id])
	}
	heir := f.first("heir", f.id)
	saved := heir.root(&ferry.Root{
		Generation: 1, Version: 1, Project: "demo", Master: member(t, "heir"), Threshold: 1,
		Recovery: []string{key(t, "recovery").Public().String()}, Prev: f.id, Keep: keep,
	}, "recovery")
	f.sync()
	for _, m := range f.machines() {
		roster, err := m.Roster(t.Context())
		must(t, err)
		policy, _ := roster.Policy(ferry.PolicyEngine)
		if roster.Root().ID != saved.id || roster.Epoch(wid(t, "wisp")) != 1 || roster.Epoch(wid(t, "thief")) != 0 || !policy.ID.IsZero() {
			t.Errorf("%s: root %s, wisp in epoch %d, thief in %d, policy %s", m.cfg.State, roster.Root().ID.Short(),
				roster.Epoch(wid(t, "wisp")), roster.Epoch(wid(t, "thief")), policy.ID.Short())
		}
		if got, err := m.Task(t.Context(), loot.String()); err == nil {
			t.Errorf("%s: what the thief ordered is %s", m.cfg.State, got.State)
		}
	}
	f.wantState(id, ferry.StateOpen)
	next := heir.write(order("after"))
	f.wantState(next, ferry.StateOpen)
	f.unmoved("what the thief writes after the recovery", func() {
		for i := range 3 {
			for _, p := range []*pen{thief, mine} {
				p.write(order(fmt.Sprintf("late-%d", i)))
				p.write(&ferry.Cancel{Order: id})
				p.write(&ferry.Revoke{Writer: wid(t, "heir"), Keep: ferry.Cut{Epoch: 1}})
				p.write(&ferry.Admit{Member: member(t, "friend", all...), Epoch: 1})
				p.write(&ferry.Policy{Kind: ferry.PolicySwitch, Version: 1<<53 - 1, Text: "off"})
			}
		}
		again := *stolen
		again.Generation, again.Version, again.Prev = 1, 2, saved.id
		mine.root(&again, "ada")
		again.Generation, again.Version = 2, 1
		mine.root(&again, "ada")
	})
	f.begin(f.left, f.wisp, id)
	f.wantState(id, ferry.StateRunning)
}

// A delegate acts within its scopes, and not beyond what it was given.
func TestDelegateBeyondItsScope(t *testing.T) {
	w := newWorked(t)
	eyes := w.pen("lynx")
	head, err := sign.ParseHead(w.home.headOf(wid(t, "ada")))
	must(t, err)
	eyes.saw = []sign.Head{head}
	w.unmoved("a delegate for reviews", func() {
		for _, a := range w.acts(t) {
			switch a.name {
			case "accept", "send back", "approve", "note", "inventory", "anomaly", "seal":
			default:
				eyes.write(a.body)
			}
		}
	})
	// Its verdict and its approval on that verdict are two keys in one hand.
	verdict := eyes.write(&ferry.Verdict{Order: w.waits, Result: w.waitResult, Decision: ferry.DecisionKeep})
	w.wantState(w.waits, ferry.StateAccepted)
	eyes.write(&ferry.Approve{Order: w.waits, Result: w.waitResult, Verdict: verdict})
	w.wantState(w.waits, ferry.StateAccepted)
	w.say(&ferry.Delegate{To: wid(t, "lynx")})
	w.sync()
	w.unmoved("a delegation that has ended", func() {
		head, err := sign.ParseHead(w.home.headOf(wid(t, "ada")))
		must(t, err)
		eyes.saw = []sign.Head{head}
		eyes.write(&ferry.Verdict{Order: w.waits, Result: w.waitResult, Decision: ferry.DecisionChanges})
	})
}

// Of a stolen machine nothing counts behind the cut, however much of it was written before the revocation, and whenever it comes.
func TestStolenMachine(t *testing.T) {
	f := newFleet(t)
	p := f.admit("hand", all...)
	var ids []ferry.RecordID
	for i := range 4 {
		ids = append(ids, p.write(order(fmt.Sprintf("t-%d", i))))
	}
	f.wantState(ids[3], ferry.StateOpen)
	held := p.seal("cancel", []byte(`{"order":"`+ids[0].String()+`"}`), nil)
	f.say(&ferry.Revoke{Writer: p.id(), Keep: ferry.Cut{Epoch: 1, Seq: 2, ID: ids[1]}, Reason: "stolen"})
	f.wantState(ids[1], ferry.StateOpen)
	for _, m := range append(f.machines(), f.open("fresh")) {
		m.look()
		for _, id := range ids[2:] {
			if got, err := m.Task(t.Context(), id.String()); err == nil {
				t.Errorf("%s: an order behind the cut is %s", m.cfg.State, got.State)
			}
		}
	}
	f.unmoved("what comes late", func() {
		f.put(held.path, held.data)
		p.seq, p.prev = p.seq+1, held.id
		for _, a := range []ferry.Body{
			order("late"), &ferry.Cancel{Order: ids[1]}, &ferry.Interrupt{Order: ids[0], Action: ferry.ActionKill}, &ferry.Admit{Member: member(t, "friend"), Epoch: 1},
		} {
			p.write(a)
		}
		branch := *p // and from the cut on, another tale
		branch.seq, branch.prev = 2, ids[1]
		branch.write(&ferry.Cancel{Order: ids[0]})
	})
}

package attack_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

// with adds a field that this version does not know to a body.
func with(t *testing.T, b ferry.Body, field string) []byte {
	t.Helper()
	body, err := sign.EncodeJSON(b)
	must(t, err)
	return append(body[:len(body)-1:len(body)-1], []byte(","+field+"}")...)
}

// A statement of authority that says more than this version can read is not obeyed by halves: the part that could be read might
// be weaker than the whole. Where the master says it about the authority itself, what rests on the authority waits.
func TestUnknownFieldOfAuthority(t *testing.T) {
	w := newWorked(t)
	p := w.pen("ada")
	strict := []ferry.Type{
		ferry.TypeAdmit, ferry.TypeRevoke, ferry.TypeReadmit, ferry.TypeDelegate, ferry.TypeInvite, ferry.TypePolicy, ferry.TypeVerdict,
		ferry.TypeApprove, ferry.TypeRedact, ferry.TypeRoot,
	}
	tried := map[ferry.RecordID]act{}
	w.still("statements with a field that is not known", rights, func() {
		for _, a := range w.acts(t) {
			if slices.Contains(strict, a.body.Type()) {
				tried[p.raw(string(a.body.Type()), with(t, a.body, `"only_on":"tuesdays"`)).id] = a
			}
		}
	})
	ledger, types := w.ledger(), map[ferry.Type]bool{}
	for id, a := range tried {
		types[a.body.Type()] = true
		if e := ledger[id]; e.Counted || !strings.Contains(e.Why, "only_on") && !strings.Contains(e.Why, "needs a newer ferry") {
			t.Errorf("%s counts: %v %q", a.name, e.Counted, e.Why)
		}
	}
	if len(types) != len(strict) {
		t.Errorf("%d of %d types were tried", len(types), len(strict))
	}
	for _, m := range w.machines() {
		snap, err := m.Snapshot(t.Context())
		must(t, err)
		if !strings.Contains(snap.Hold, "needs a newer ferry") {
			t.Errorf("%s holds nothing: %q", filepath.Base(m.cfg.State), snap.Hold)
		}
	}
}

// rights is what members may do and what orders are, without what waits.
func rights(m *machine) string {
	ctx := m.t.Context()
	tasks, err := m.Tasks(ctx, channel.Filter{})
	must(m.t, err)
	roster, err := m.Roster(ctx)
	must(m.t, err)
	out, err := json.MarshalIndent([]any{tasks, roster.Members(), roster.Digest(), roster.Root().ID, roster.Requires()}, "", " ")
	must(m.t, err)
	return string(out)
}

// What a later version adds to records without authority is kept byte for byte, and does not stop what can be read.
func TestUnknownFieldElsewhere(t *testing.T) {
	f := newFleet(t)
	body := with(t, order("t"), `"mood":"green"`)
	r := f.pen("ada").raw("order", body)
	f.wantState(r.id, ferry.StateOpen)
	kept := false
	must(t, f.right.Raw(t.Context(), func(file []byte) error {
		kept = kept || bytes.Equal(file, r.data)
		return nil
	}))
	if !kept {
		t.Error("the record was not kept as it was")
	}
}

// A word that this version does not know has no effect, wherever it stands in a record that it knows.
func TestUnknownWords(t *testing.T) {
	w := newWorked(t)
	p := w.pen("ada")
	hand := w.admit("hand", all...)
	p = w.pen("ada")
	w.unmoved("unknown words", func() {
		p.write(&ferry.Verdict{Order: w.waits, Result: w.waitResult, Decision: "maybe"})
		p.write(&ferry.Interrupt{Order: w.runs, Action: "explode"})
		p.write(&ferry.Answer{Order: w.open, Question: w.question, Option: "retry"})
		hand.write(&ferry.Answer{Order: w.waits, Question: w.question, Option: "explode"})
		for _, typ := range []string{"weather", "interrupt.2", "kill", "approve2", "x"} {
			p.raw(typ, []byte(`{"order":"`+w.runs.String()+`","action":"kill"}`))
			hand.raw(typ, []byte(`{"order":"`+w.runs.String()+`","result":"`+w.goodResult.String()+`"}`))
		}
	})
	// A grant or scope of a later version gives nothing that this version knows.
	p.write(&ferry.Admit{Member: member(t, "new", "fly", "works", "Work", "work "), Epoch: 1})
	p.write(&ferry.Delegate{To: wid(t, "lynx"), Scopes: []ferry.Scope{"everything", "Review"}})
	w.sync()
	roster, err := w.home.Roster(t.Context())
	must(t, err)
	if m, in := roster.Member(wid(t, "new")); in {
		t.Errorf("a member with odd grants is let in: %+v", m)
	}
	odd := w.first("new", p.prev)
	head, err := sign.ParseHead(w.home.headOf(wid(t, "ada")))
	must(t, err)
	eyes := w.pen("lynx")
	odd.saw, eyes.saw = []sign.Head{head}, []sign.Head{head}
	w.unmoved("unknown grants and scopes", func() {
		for _, a := range w.acts(t) {
			switch a.name {
			case "note", "inventory", "anomaly", "seal":
			default:
				odd.write(a.body)
				eyes.write(a.body)
			}
		}
	})
}

// An older ferry never acts under a view that is weaker than the one it cannot read: it waits, and says for what.
func TestOlderReaderWaits(t *testing.T) {
	hold := func(t *testing.T, f *fleet, feature string) {
		t.Helper()
		f.sync()
		for _, m := range f.machines() {
			snap, err := m.Snapshot(t.Context())
			must(t, err)
			if !strings.Contains(snap.Hold, feature) || !strings.Contains(snap.Hold, "newer ferry") {
				t.Errorf("%s holds for %q", m.cfg.State, snap.Hold)
			}
		}
	}
	t.Run("a policy that requires a feature", func(t *testing.T) {
		f := newFleet(t)
		f.pen("ada").write(&ferry.Policy{Kind: ferry.PolicyAdversary, Version: 1, Requires: []string{"adversary.7"}, Text: "x"})
		hold(t, f, "adversary.7")
	})
	for _, typ := range []ferry.Type{ferry.TypeRevoke, ferry.TypePolicy, ferry.TypeDelegate, ferry.TypeAdmit} {
		t.Run("a "+string(typ)+" that needs a feature", func(t *testing.T) {
			f := newFleet(t)
			f.pen("ada").raw(string(typ), []byte(`{"anything":true}`), "authority.7")
			hold(t, f, "authority.7")
		})
	}
	for i, typ := range []ferry.Type{ferry.TypeVerdict, ferry.TypeCancel, ferry.TypeInterrupt, ferry.TypeResult} {
		t.Run("a "+string(typ)+" that needs a feature", func(t *testing.T) {
			f := newFleet(t)
			id := f.say(order("t"))
			p := f.pen("ada")
			if typ == ferry.TypeResult {
				p = f.admit("hand", ferry.GrantWork)
			}
			feature := fmt.Sprintf("work.%d", i)
			p.raw(string(typ), []byte(`{"order":"`+id.String()+`","strange":[1,2]}`), feature)
			f.sync()
			for _, m := range f.machines() {
				if got := m.task(id); got.Next.Claimable || !strings.Contains(got.Hold, feature) {
					t.Errorf("%s: %s %q", m.cfg.State, got.State, got.Hold)
				}
			}
		})
	}
}

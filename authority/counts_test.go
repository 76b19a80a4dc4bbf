package authority_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
)

// role is who a record of the table is written by: the place where it stands in a chain, and what the writer had seen.
type role struct {
	w   ferry.WriterID
	at  ferry.Record // only its place counts
	saw []ferry.Head
}

// fleet is a channel with one writer of every role.
func fleet(t *testing.T) (*authority.Roster, map[string]role) {
	w := founded(t)
	old := w.master
	note := &ferry.Note{Text: "x"}
	roles := map[string]role{}
	for short, grants := range map[string][]ferry.Grant{
		"or": {ferry.GrantOrder}, "is": {ferry.GrantOrder}, "wo": {ferry.GrantWork}, "re": {ferry.GrantReview}, "la": {ferry.GrantLand},
		"di": {ferry.GrantDispatch}, "an": {ferry.GrantAnswer}, "pl": nil,
	} {
		p := w.admit(short, grants...)
		roles[short] = role{w: p.Writer, at: w.write(p, note)}
	}
	for short, scope := range map[string]ferry.Scope{
		"Re": ferry.ScopeReview, "An": ferry.ScopeAnswer, "Im": ferry.ScopeImprove, "Di": ferry.ScopeDispatch, "Ti": ferry.ScopeTimekeep,
		"Or": ferry.ScopeOrder, "Ad": ferry.ScopeAdmit,
	} {
		p := w.admit(strings.ToLower(short) + "-delegate")
		w.delegate(p, scope)
		rec := w.write(p, note)
		roles[short] = role{w: p.Writer, at: rec, saw: rec.Saw}
	}

	gone := w.admit("gone", ferry.GrantWork)
	roles["v-"] = role{w: gone.Writer, at: w.write(gone, note)}
	keep := gone.cut()
	roles["v+"] = role{w: gone.Writer, at: w.write(gone, note)}
	w.write(old, &ferry.Revoke{Writer: gone.Writer, Keep: keep})

	again := w.admit("again", ferry.GrantWork)
	roles["e-"] = role{w: again.Writer, at: w.write(again, note)}
	keep = again.cut()
	roles["e+"] = role{w: again.Writer, at: w.write(again, note)}
	w.readmit(again, keep, "again-2")
	roles["e2"] = role{w: again.Writer, at: w.write(again, note)}

	roles["m-"] = role{w: old.Writer, at: w.write(old, note)}
	second := w.rootBody("second")
	second.Version, second.Prev = 2, w.channel
	rec := w.root(old, second, "master", "second")
	roles["m+"] = role{w: old.Writer, at: w.write(old, note)}
	w.master = w.person("second")
	w.master.last = rec.ID
	roles["ma"] = role{w: w.master.Writer, at: w.write(w.master, note)}
	roles["st"] = role{w: member(t, "stranger").Writer, at: ferry.Record{Epoch: 1, Seq: 5}}
	return w.roster(), roles
}

// TestWhoMayWriteWhat is the table of the package: every record by every role. M, D and G are the levels under which a
// record counts, and a dot means that it does not.
//
//	ma  the master            m- m+  the master before, up to and after the cut
//	Re An Im Di Ti Or Ad      delegates with the scope review, answer, improve, dispatch, timekeep, order, admit
//	or wo re la di an         members with the grant order, work, review, land, dispatch, answer
//	is  the issuer of the order, with the grant order       pl  a member without a grant
//	v- v+  a revoked worker, up to and after the cut
//	e- e+ e2  a worker that was readmitted: its first epoch up to and after the cut, its second epoch
//	st  a stranger
func TestWhoMayWriteWhat(t *testing.T) {
	r, roles := fleet(t)
	const head = "ma m- m+  Re An Im Di Ti Or Ad  is or wo re la di an pl  v- v+ e- e+ e2  st"
	tests := []struct {
		body ferry.Body
		may  string
	}{
		{&ferry.Root{}, "                 .  .  .   .  .  .  .  .  .  .   .  .  .  .  .  .  .  .   .  .  .  .  .   ."},
		{&ferry.Admit{}, "                M  M  .   .  .  .  .  .  .  D   .  .  .  .  .  .  .  .   .  .  .  .  .   ."},
		{&ferry.Revoke{}, "               M  M  .   .  .  .  .  .  .  .   .  .  .  .  .  .  .  .   .  .  .  .  .   ."},
		{&ferry.Readmit{}, "              M  M  .   .  .  .  .  .  .  .   .  .  .  .  .  .  .  .   .  .  .  .  .   ."},
		{&ferry.Delegate{}, "             M  M  .   .  .  .  .  .  .  .   .  .  .  .  .  .  .  .   .  .  .  .  .   ."},
		{&ferry.Invite{}, "               M  M  .   .  .  .  .  .  .  .   .  .  .  .  .  .  .  .   .  .  .  .  .   ."},
		{policy("engine"), "              M  M  .   .  .  D  .  .  .  .   .  .  .  .  .  .  .  .   .  .  .  .  .   ."},
		{policy("adversary"), "           M  M  .   .  .  .  .  .  .  .   .  .  .  .  .  .  .  .   .  .  .  .  .   ."},
		{policy("switch"), "              M  M  .   .  .  .  .  .  .  .   .  .  .  .  .  .  .  .   .  .  .  .  .   ."},
		{&ferry.Redact{}, "               M  M  .   .  .  .  .  .  .  .   .  .  .  .  .  .  .  .   .  .  .  .  .   ."},
		{&ferry.Checkpoint{}, "           M  M  .   .  .  .  .  D  .  .   .  .  G  .  .  .  .  .   G  .  G  .  G   ."},
		{&ferry.Order{}, "                M  M  .   .  .  .  .  .  D  .   G  G  .  .  .  .  .  .   .  .  .  .  .   ."},
		{&ferry.Claim{}, "                .  .  .   .  .  .  .  .  .  .   .  .  G  .  .  .  .  .   G  .  G  .  G   ."},
		{&ferry.Start{}, "                .  .  .   .  .  .  .  .  .  .   .  .  G  .  .  .  .  .   G  .  G  .  G   ."},
		{&ferry.Run{}, "                  .  .  .   .  .  .  .  .  .  .   .  .  G  .  .  .  .  .   G  .  G  .  G   ."},
		{&ferry.Stop{}, "                 .  .  .   .  .  .  .  .  .  .   .  .  G  .  .  .  .  .   G  .  G  .  G   ."},
		{&ferry.Result{}, "               .  .  .   .  .  .  .  .  .  .   .  .  G  .  .  .  .  .   G  .  G  .  G   ."},
		{verdict("keep"), "               M  M  .   D  .  .  .  .  .  .   .  .  .  G  .  .  .  .   .  .  .  .  .   ."},
		{verdict("changes"), "            M  M  .   D  .  .  .  .  .  .   .  .  .  G  .  .  .  .   .  .  .  .  .   ."},
		{verdict("reject"), "             M  M  .   .  .  .  .  .  .  .   .  .  .  .  .  .  .  .   .  .  .  .  .   ."},
		{&ferry.Approve{}, "              M  M  .   D  .  .  .  .  .  .   .  .  .  .  .  .  .  .   .  .  .  .  .   ."},
		{&ferry.Landed{}, "               M  M  .   .  .  .  .  .  .  .   .  .  .  .  G  .  .  .   .  .  .  .  .   ."},
		{&ferry.Cancel{}, "               M  M  .   .  .  .  D  .  .  .   G  .  .  .  .  G  .  .   .  .  .  .  .   ."},
		{&ferry.Interrupt{Action: "kill"}, "M M .   .  .  .  D  .  .  .   G  .  .  .  .  G  .  .   .  .  .  .  .   ."},
		{&ferry.Retire{}, "               M  M  .   .  .  .  D  .  .  .   G  .  .  .  .  G  .  .   .  .  .  .  .   ."},
		{&ferry.Reassign{}, "             M  M  .   .  .  .  D  .  .  .   G  .  .  .  .  G  .  .   .  .  .  .  .   ."},
		{&ferry.Answer{}, "               M  M  .   .  D  .  .  .  .  .   .  .  .  .  .  .  G  .   .  .  .  .  .   ."},
		{&ferry.Inventory{}, "            M  M  .   G  G  G  G  G  G  G   G  G  G  G  G  G  G  G   G  .  G  .  G   ."},
		{&ferry.Seal{}, "                 M  M  .   G  G  G  G  G  G  G   G  G  G  G  G  G  G  G   G  .  G  .  G   ."},
		{&ferry.Question{}, "             M  M  .   G  G  G  G  G  G  G   G  G  G  G  G  G  G  G   G  .  G  .  G   ."},
		{&ferry.Note{}, "                 M  M  .   G  G  G  G  G  G  G   G  G  G  G  G  G  G  G   G  .  G  .  G   ."},
		{&ferry.Anomaly{}, "              M  M  .   G  G  G  G  G  G  G   G  G  G  G  G  G  G  G   G  .  G  .  G   ."},
		{&ferry.ForkProof{}, "            M  M  .   G  G  G  G  G  G  G   G  G  G  G  G  G  G  G   G  .  G  .  G   ."},
		{&ferry.Opaque{Is: "result"}, "   .  .  .   .  .  .  .  .  .  .   .  .  G  .  .  .  .  .   G  .  G  .  G   ."},
		{&ferry.Opaque{Is: "tomorrow"}, " .  .  .   .  .  .  .  .  .  .   .  .  .  .  .  .  .  .   .  .  .  .  .   ."},
		{nil, "                           .  .  .   .  .  .  .  .  .  .   .  .  .  .  .  .  .  .   .  .  .  .  .   ."},
	}
	seats := authority.Seats{Issuer: roles["is"].w, Builder: roles["wo"].w, Reviewer: roles["re"].w}
	for _, tt := range tests {
		cells := strings.Fields(tt.may)
		for i, short := range strings.Fields(head) {
			role, ok := roles[short]
			if !ok {
				t.Fatalf("no role %s", short)
			}
			rec := role.at
			rec.ID, rec.Writer, rec.Saw, rec.Body = ferry.RecordID{1}, role.w, role.saw, tt.body
			level, reason, ok := r.CountsFor(rec, seats)
			got := "."
			if ok {
				got = string("MDG"[level])
			}
			if got != cells[i] {
				t.Errorf("%T %s by %s: %s (%s), want %s", tt.body, name(tt.body), short, got, reason, cells[i])
			}
			if ok == (reason != "") {
				t.Errorf("%T by %s: %s with the reason %q", tt.body, short, got, reason)
			}
		}
	}
}

func policy(kind ferry.PolicyKind) *ferry.Policy { return &ferry.Policy{Kind: kind, Version: 1} }

func verdict(d ferry.Decision) *ferry.Verdict { return &ferry.Verdict{Decision: d} }

func name(b ferry.Body) string {
	switch b := b.(type) {
	case *ferry.Policy:
		return string(b.Kind)
	case *ferry.Verdict:
		return string(b.Decision)
	}
	return ""
}

// A delegate judges for the master, but not what is its own.
func TestDelegateJudgesOthers(t *testing.T) {
	r, roles := fleet(t)
	me := roles["Re"]
	a, b, c := roles["is"].w, roles["wo"].w, roles["re"].w
	judge, approve, blind := verdict("keep"), &ferry.Approve{Verdict: ferry.RecordID{7}}, &ferry.Approve{}
	tests := []struct {
		name  string
		body  ferry.Body
		seats authority.Seats
		want  string // in the reason; empty: it counts
	}{
		{"a verdict on others' work", judge, authority.Seats{Issuer: a, Builder: b}, ""},
		{"an approval on another's verdict", approve, authority.Seats{Issuer: a, Builder: b, Reviewer: c}, ""},
		{"an approval without a verdict", blind, authority.Seats{Issuer: a, Builder: b}, ""},
		{"its own order", judge, authority.Seats{Issuer: me.w, Builder: b}, "ordered itself"},
		{"its own work", judge, authority.Seats{Issuer: a, Builder: me.w}, "built itself"},
		{"approving its own work", approve, authority.Seats{Issuer: a, Builder: me.w, Reviewer: c}, "built itself"},
		{"approving its own verdict", approve, authority.Seats{Issuer: a, Builder: b, Reviewer: me.w}, "own verdict"},
		{"an unknown builder", judge, authority.Seats{Issuer: a}, "is not here"},
		{"an unknown issuer", judge, authority.Seats{Builder: b}, "is not here"},
		{"an unknown verdict", approve, authority.Seats{Issuer: a, Builder: b}, "is not here"},
	}
	for _, tt := range tests {
		rec := me.at
		rec.ID, rec.Body = ferry.RecordID{1}, tt.body
		_, reason, ok := r.CountsFor(rec, tt.seats)
		if ok != (tt.want == "") || !strings.Contains(reason, tt.want) {
			t.Errorf("%s: counts = %v, reason %q, want %q", tt.name, ok, reason, tt.want)
		}
	}
}

// A writer with the grant order acts on its own orders, not on those of another, nor on one that is not known.
func TestForeignOrder(t *testing.T) {
	r, roles := fleet(t)
	for _, b := range []ferry.Body{&ferry.Cancel{}, &ferry.Interrupt{}, &ferry.Retire{}, &ferry.Reassign{}} {
		rec := roles["or"].at
		rec.Body = b
		for issuer, want := range map[ferry.WriterID]bool{roles["is"].w: false, roles["or"].w: true, "": false} {
			if _, why, ok := r.Counts(rec, issuer); ok != want {
				t.Errorf("%T of an order of %q: counts = %v (%s)", b, issuer, ok, why)
			}
		}
	}
}

func TestExpired(t *testing.T) {
	r := founded(t).roster()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for end, want := range map[string]bool{
		"": false, "2026-05-01T12:00:00Z": false, "2026-05-01T11:59:59Z": true, "2026-05-01T13:00:00+02:00": true, "soon": true,
	} {
		if got := r.Expired(ferry.Delegate{NotAfter: end}, now); got != want {
			t.Errorf("until %q: expired = %v", end, got)
		}
	}
}

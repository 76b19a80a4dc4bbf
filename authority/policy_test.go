package authority_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
)

const engine = ferry.PolicyEngine

func after(before ferry.Record, text string) *ferry.Policy {
	p := &ferry.Policy{Kind: engine, Version: 1, Text: text}
	if b, ok := before.Body.(*ferry.Policy); ok {
		p.Generation, p.Version, p.Prev = b.Generation, b.Version+1, before.ID
	}
	return p
}

// wantPolicy asks for the text in force; with words in hold that nobody acts under it.
func (w *world) wantPolicy(text, hold string) {
	w.tb.Helper()
	rec, why := w.roster().Policy(engine)
	got := ""
	if p, ok := rec.Body.(*ferry.Policy); ok {
		got = p.Text
	}
	if got != text || (why == "") != (hold == "") || !strings.Contains(why, hold) {
		w.tb.Errorf("policy %q, hold %q; want %q, %q", got, why, text, hold)
	}
}

func TestPolicyVersions(t *testing.T) {
	w := founded(t)
	w.wantPolicy("", "")
	one := w.say(after(ferry.Record{}, "one"))
	w.wantPolicy("one", "")
	two := w.say(after(one, "two"))
	w.wantPolicy("two", "")

	// The older one is put back: under its old number, and as a version without its past.
	w.say(after(ferry.Record{}, "one again"))
	w.say(&ferry.Policy{Kind: engine, Version: 2, Prev: ferry.RecordID{9}, Text: "another two"})
	w.wantPolicy("two", "")

	skipped := after(two, "four")
	skipped.Version++
	w.say(skipped)
	w.wantPolicy("two", "does not follow")
	three := w.say(after(two, "three"))
	four := w.say(after(three, "four"))
	w.wantPolicy("four", "")
	missing := after(four, "six")
	missing.Prev, missing.Version = ferry.RecordID{6}, 6
	w.say(missing)
	w.wantPolicy("four", "is not here")
	w.say(&ferry.Policy{Kind: engine, Version: 7})
	w.wantPolicy("four", "names no version before it")
}

func TestPoliciesRefused(t *testing.T) {
	w := founded(t)
	member := w.admit("member", ferry.GrantReview, ferry.GrantLand, ferry.GrantDispatch)
	r := w.roster()
	w.refused(r, w.write(member, after(ferry.Record{}, "mine")), "policy needs the master")
	ahead, odd, zero := after(ferry.Record{}, "ahead"), after(ferry.Record{}, "odd"), after(ferry.Record{}, "zero")
	ahead.Generation, odd.Kind, zero.Version = 1, "weather", 0
	recs := []ferry.Record{w.say(ahead), w.say(odd), w.say(zero)}
	r = w.roster()
	w.refused(r, recs[0], "generation 0")
	w.refused(r, recs[1], "weather")
	w.refused(r, recs[2], "begin with 1")
	w.wantPolicy("", "")
}

func TestPolicyByDelegate(t *testing.T) {
	w := founded(t)
	p := w.admit("improver")
	one := w.say(after(ferry.Record{}, "one"))
	w.delegate(p, ferry.ScopeImprove)
	two := w.write(p, after(one, "two"))
	w.wantPolicy("two", "")
	if rec, _ := w.roster().Policy(engine); rec.Level != ferry.LevelDelegate {
		t.Errorf("level %d", rec.Level)
	}
	// The word of the master is stronger, whatever the ids.
	w.say(after(one, "master's two"))
	w.wantPolicy("master's two", "")
	w.say(&ferry.Revoke{Writer: p.Writer, Keep: ferry.Cut{Epoch: 1}})
	w.wantPolicy("master's two", "")
	if _, why, ok := w.roster().Counts(two, ""); ok || !strings.Contains(why, "nothing") {
		t.Errorf("counts = %v, %q", ok, why)
	}
}

// A thief of the master's key writes a policy with the highest version there is, under a generation that a recovery ends.
func TestPolicyOfThief(t *testing.T) {
	w := founded(t)
	one := w.say(after(ferry.Record{}, "one"))
	keep := w.master.cut()
	two := w.say(after(one, "stolen"))
	far := after(two, "far")
	far.Version = 1<<53 - 1
	w.say(far)
	w.wantPolicy("stolen", "does not follow")

	b := w.recovers(w.records[0], "saved")
	w.master = w.person("saved")
	b.Keep = keep
	w.takesOver(b, "saved", "recovery")
	w.wantPolicy("one", "")
	mine := after(one, "mine")
	mine.Generation = 1
	second := w.say(mine)
	w.wantPolicy("mine", "")
	w.say(after(second, "mine too"))
	w.wantPolicy("mine too", "")
	stale := w.say(after(one, "of the old generation"))
	w.refused(w.roster(), stale, "generation 1")
}

// Even where the thief's versions are kept, the first version of the next generation outranks them.
func TestPolicyOfNextGeneration(t *testing.T) {
	w := founded(t)
	last := w.say(after(ferry.Record{}, "one"))
	for range 5 {
		last = w.say(after(last, "more"))
	}
	b := w.recovers(w.records[0], "saved")
	b.Keep = w.master.cut()
	w.takesOver(b, "saved", "recovery")
	w.master = w.person("saved")
	anew := after(ferry.Record{}, "anew")
	anew.Generation = 1
	w.say(anew)
	w.wantPolicy("anew", "")
}

// A delegate that has not seen the next generation cannot go on from its policy under the old one.
func TestPolicyOfLateDelegate(t *testing.T) {
	w := founded(t)
	p := w.admit("improver")
	w.delegate(p, ferry.ScopeImprove)
	seen := w.master.head()
	b := w.recovers(w.records[0], "saved")
	b.Keep = w.master.cut()
	w.takesOver(b, "saved", "recovery")
	w.master = w.person("saved")
	one := after(ferry.Record{}, "one")
	one.Generation = 1
	two := after(w.say(one), "late")
	two.Generation = 0
	w.writeSeen(p, two, seen)
	w.wantPolicy("one", "")
}

func TestRequires(t *testing.T) {
	w := founded(t)
	for kind, features := range map[ferry.PolicyKind][]string{
		ferry.PolicyEngine: {"b.1", "a.1"}, ferry.PolicyAdversary: {"c.1", "a.1"}, ferry.PolicySwitch: nil,
	} {
		w.say(&ferry.Policy{Kind: kind, Version: 1, Requires: features})
	}
	first, _ := w.roster().Policy(ferry.PolicyAdversary)
	if diff := cmp.Diff([]string{"a.1", "b.1", "c.1"}, w.roster().Requires()); diff != "" {
		t.Errorf("requires (-want +got):\n%s", diff)
	}
	w.say(&ferry.Policy{Kind: ferry.PolicyAdversary, Version: 2, Prev: first.ID})
	if diff := cmp.Diff([]string{"a.1", "b.1"}, w.roster().Requires()); diff != "" {
		t.Errorf("requires (-want +got):\n%s", diff)
	}
}

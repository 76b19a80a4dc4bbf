package authority_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
)

// view is everything that a roster says, in words.
func (w *world) view(r *authority.Roster, records []ferry.Record) string {
	var b strings.Builder
	fmt.Fprintln(&b, r.Digest(), r.Hold(), r.Requires(), r.Root().ID, r.Members(), r.Known())
	for _, of := range r.Known() {
		d, id, ok := r.Delegation(of)
		keep, _ := r.Chain(of, 1)
		fmt.Fprintln(&b, of, r.Epoch(of), d, id, ok, keep)
	}
	for _, kind := range []ferry.PolicyKind{ferry.PolicyEngine, ferry.PolicyAdversary, ferry.PolicySwitch} {
		rec, hold := r.Policy(kind)
		fmt.Fprintln(&b, kind, rec.ID, hold)
	}
	for _, rec := range records {
		level, why, ok := r.CountsFor(rec, authority.Seats{Issuer: w.master.Writer, Builder: w.master.Writer})
		fmt.Fprintf(&b, "%s %T %d %v %s\n", rec.ID.Short(), rec.Body, level, ok, why)
	}
	return b.String()
}

// history writes a channel in which everything happens that changes who may do what: also what is not allowed, forks,
// cuts, and a second master.
func history(t *rapid.T, tb testing.TB) *world {
	w := newWorld(tb)
	first := w.rootBody("master")
	first.Keys = []string{hexKey(tb, "second")}
	w.found(first)
	current := w.records[0]
	names := []string{"a", "b", "c", "d", "e"}
	last := map[ferry.PolicyKind]ferry.Record{}
	for n := range rapid.IntRange(5, 40).Draw(t, "records") {
		name := rapid.SampledFrom(names).Draw(t, "who")
		p := w.person(name)
		by := rapid.SampledFrom([]*writer{w.master, w.master, w.master, p, w.person(rapid.SampledFrom(names).Draw(t, "by"))}).Draw(t, "writer")
		scopes := rapid.SliceOfN(rapid.SampledFrom(ferry.Scopes()), 0, 4).Draw(t, "scopes")
		switch rapid.IntRange(0, 9).Draw(t, "act") {
		case 0, 1:
			w.write(by, &ferry.Admit{Member: member(tb, name, rapid.SampledFrom(authority.Grants()).Draw(t, "grant")), Epoch: 1})
		case 2, 3:
			w.write(by, &ferry.Delegate{To: p.Writer, Scopes: scopes, MaxUses: rapid.Int64Range(0, 2).Draw(t, "uses")})
		case 4:
			w.write(by, &ferry.Revoke{Writer: p.Writer, Keep: p.cut()})
		case 5:
			w.readmit(p, p.cut(), fmt.Sprint(name, n))
		case 6:
			kind := rapid.SampledFrom([]ferry.PolicyKind{ferry.PolicyEngine, ferry.PolicySwitch}).Draw(t, "kind")
			next := after(last[kind], "")
			next.Kind, next.Generation = kind, current.Body.(*ferry.Root).Generation
			last[kind] = w.write(by, next)
		case 7:
			w.write(by, &ferry.Answer{})
		case 8:
			twin := by.fork()
			w.writeSeen(twin, &ferry.Admit{Member: member(tb, fmt.Sprint("fork", n)), Epoch: 1}, w.master.head())
			if rapid.Bool().Draw(t, "both") {
				w.write(by, &ferry.Note{})
			}
		case 9:
			b := w.recovers(current, fmt.Sprint("master", n))
			b.Keep = w.master.cut()
			current = w.takesOver(b, fmt.Sprint("master", n), "recovery")
			w.master = w.person(fmt.Sprint("master", n))
		}
	}
	return w
}

// The roster is the same whatever order the records arrived in.
func TestAnyOrder(t *testing.T) {
	members := 0
	rapid.Check(t, func(rt *rapid.T) {
		w := history(rt, t)
		original := w.records
		r := w.roster()
		members = max(members, len(r.Members()))
		want := w.view(r, original)
		for i := range 3 {
			w.records = slices.Clone(original)
			rand.New(rand.NewPCG(1, uint64(i))).Shuffle(len(original), func(i, j int) {
				w.records[i], w.records[j] = w.records[j], w.records[i]
			})
			if diff := cmp.Diff(want, w.view(w.roster(), original)); diff != "" {
				rt.Fatalf("another roster after a shuffle (-want +got):\n%s", diff)
			}
		}
	})
	if members < 3 {
		t.Errorf("no history with more than %d members was tried", members)
	}
}

func BenchmarkEvaluate(b *testing.B) {
	w := founded(b)
	for i := range 1000 {
		p := w.admit(fmt.Sprint("member-", i), ferry.GrantWork)
		if i%100 == 0 {
			w.delegate(p, ferry.ScopeAdmit, ferry.ScopeImprove)
		}
	}
	feeds := indexed{}
	for _, rec := range w.records {
		if _, root := rec.Body.(*ferry.Root); !root {
			feeds[rec.Writer] = append(feeds[rec.Writer], rec)
		}
	}
	roots := w.roots()
	b.ReportAllocs()
	for b.Loop() {
		if r := authority.Evaluate(w.channel, roots, feeds); len(r.Members()) != 1001 {
			b.Fatal("members are missing")
		}
	}
}

// indexed is Feeds that are sorted already.
type indexed map[ferry.WriterID][]ferry.Record

func (f indexed) Statements(w ferry.WriterID, _ uint32, _ *ferry.Cut) ([]ferry.Record, bool) {
	return f[w], true
}

func (f indexed) Acts(ferry.WriterID) []ferry.Record { return nil }

package channel_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

// redactions gives the bodies that the redactions among files give, by record.
func redactions(tb rapid.TB, files []file) map[ferry.RecordID][]string {
	tb.Helper()
	out := map[ferry.RecordID][]string{}
	for _, f := range files {
		u, err := sign.ParseHeader(f.data)
		if err != nil {
			tb.Fatal(err)
		}
		if u.Header().Type != string(ferry.TypeRedact) {
			continue
		}
		b, err := channel.DecodeBody(ferry.TypeRedact, u.Body())
		if err != nil {
			tb.Fatal(err)
		}
		for _, named := range b.(*ferry.Redact).Records {
			out[named.ID] = append(out[named.ID], named.Body)
		}
	}
	return out
}

// The same records end in the same states and the same roster, whether what a redaction replaces is there whole or bare, in
// whatever order they come: in a replica, and in a channel that takes bodies out of its own store meanwhile.
func TestAnyRedaction(t *testing.T) {
	dir := t.TempDir()
	run, stripped := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		f := newFleet(rt)
		f.draw(rapid.IntRange(5, 40).Draw(rt, "events"))
		for range rapid.IntRange(1, 6).Draw(rt, "redactions") {
			f.redact(f.people[0])
			f.draw(rapid.IntRange(0, 3).Draw(rt, "more events"))
		}
		one := replicaOf(rt, f.id, f.files)
		want, err := one.Digest()
		if err != nil {
			rt.Fatal(err)
		}
		texts := redactions(rt, f.files)
		bare, both := slices.Clone(f.files), slices.Clone(f.files)
		for i, file := range f.files {
			if len(texts[file.id]) == 0 || !channel.Bareable(file.data, texts[file.id]) {
				continue
			}
			u, err := sign.ParseHeader(file.data)
			if err != nil {
				rt.Fatal(err)
			}
			file.data = append(u.Top(), '\n')
			both = append(both, file)
			if channel.Redacted(one, file.id) && rapid.Bool().Draw(rt, "bare") {
				bare[i] = file
				stripped++
			}
		}
		for name, files := range map[string][]file{"bare": bare, "bare and whole": both} {
			order := append(slices.Clone(files[:1]), rapid.Permutation(files).Draw(rt, name)...)
			other := replicaOf(rt, f.id, order)
			if got, _ := other.Digest(); got != want {
				rt.Fatalf("%s: the digest is %s, want %s: %s", name, got, want, difference(one, other))
			}
			if a, b := one.Roster().Digest(), other.Roster().Digest(); a != b {
				rt.Fatalf("%s: the roster is %s, want %s", name, b, a)
			}
		}
		cfg := channel.Config{
			Folder: filepath.Join(dir, fmt.Sprintf("%d-folder", run)), State: filepath.Join(dir, fmt.Sprintf("%d-state", run)), Judge: judge,
		}
		got := arrive(rt, cfg, f.id, bare)
		if got.Digest != want {
			rt.Fatalf("in a channel the digest is %s, want %s", got.Digest, want)
		}
		for _, p := range got.Problems {
			if p.Kind == channel.ProblemIndex || p.Kind == channel.ProblemStore {
				rt.Fatalf("problem %+v", p)
			}
		}
	})
	if run >= 20 && stripped == 0 { // -short draws five, and those may all be without
		t.Error("no record was ever bare")
	}
}

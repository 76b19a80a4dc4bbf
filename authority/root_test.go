package authority_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
)

// next is the body of the next version after a root, with the same master and keys.
func next(before ferry.Record) *ferry.Root {
	b := *before.Body.(*ferry.Root)
	b.Version, b.Prev, b.Keep = b.Version+1, before.ID, ferry.Cut{}
	return &b
}

// recovers is the body of the first version of the generation above a root's, by a new master.
func (w *world) recovers(before ferry.Record, master string) *ferry.Root {
	b := next(before)
	b.Generation, b.Version, b.Master, b.Keys, b.Threshold = b.Generation+1, 1, member(w.tb, master), nil, 1
	return b
}

// takesOver is the first record of a new master's own chain.
func (w *world) takesOver(b *ferry.Root, signers ...string) ferry.Record {
	p := w.person(string(b.Master.Name))
	p.last = b.Prev
	return w.root(p, b, signers...)
}

func (w *world) wantRoot(r *authority.Roster, want ferry.Record) {
	w.tb.Helper()
	if got := r.Root(); got.ID != want.ID {
		w.tb.Errorf("the root in force is %+v, want %+v", got.Body, want.Body)
	}
	if _, why, ok := r.Counts(want, ""); !ok {
		w.tb.Errorf("the root in force does not count: %s", why)
	}
	m, _ := r.Master()
	if diff := cmp.Diff(want.Body.(*ferry.Root).Master, m); diff != "" {
		w.tb.Errorf("master (-want +got):\n%s", diff)
	}
}

func TestNextRoot(t *testing.T) {
	three := func(b *ferry.Root) { b.Keys = []string{hexKey(t, "second"), hexKey(t, "third")}; b.Threshold = 2 }
	tests := []struct {
		name    string
		first   func(*ferry.Root)
		change  func(*ferry.Root)
		signers string
		want    string // why it is refused; empty: it counts
	}{
		{"signed by the one key", nil, nil, "master", ""},
		{"signed by nobody", nil, nil, "", "0 of the keys"},
		{"signed by another key", nil, nil, "third", "0 of the keys"},
		{"two of three", three, nil, "master third", ""},
		{"one of three", three, nil, "master", "1 of the keys"},
		{"one of three, twice", three, nil, "master master", "1 of the keys"},
		{"one of three and a stranger", three, nil, "master fourth", "1 of the keys"},
		{"two of three without its writer", three, nil, "second third", "its writer has not signed"},
		{"to three keys, by enough of them", nil, three, "master third", ""},
		{"to three keys, by too few of the new ones", nil, three, "master", "1 of its own keys"},
		{"a key counts once", nil, func(b *ferry.Root) { b.Keys = []string{b.Master.Key}; b.Threshold = 2 }, "master", "threshold 2"},
		{"threshold 0", nil, func(b *ferry.Root) { b.Threshold = 0 }, "master", "threshold 0"},
		{"threshold below 0", nil, func(b *ferry.Root) { b.Threshold = -1 }, "master", "threshold -1"},
		{"a version is left out", nil, func(b *ferry.Root) { b.Version++ }, "master", "version 3 cannot follow"},
		{"the same version", nil, func(b *ferry.Root) { b.Version-- }, "master", "version 1 cannot follow"},
		{"another project", nil, func(b *ferry.Root) { b.Project = "mine" }, "master", "project"},
		{"other recovery keys", nil, func(b *ferry.Root) { b.Recovery = []string{hexKey(t, "thief")} }, "master thief", "recovery keys"},
		{"further recovery keys", nil, func(b *ferry.Root) { b.Recovery = append(b.Recovery, hexKey(t, "thief")) }, "master", "recovery keys"},
		{"no recovery keys", nil, func(b *ferry.Root) { b.Recovery = nil }, "master", "recovery keys"},
		{"a recovery key as root key", nil, func(b *ferry.Root) { b.Keys = b.Recovery }, "master recovery", "root key as well"},
		{"a weak key", nil, func(b *ferry.Root) { b.Keys = []string{"01" + strings.Repeat("00", 31)} }, "master", "weak"},
		{"a cut of a master that goes on", nil, func(b *ferry.Root) { b.Keep = ferry.Cut{Epoch: 1, Seq: 1, ID: b.Prev} }, "master", "goes on"},
		{"an unknown root before", nil, func(b *ferry.Root) { b.Prev = ferry.RecordID{5} }, "master", "not here"},
		{"a higher generation by the master's key", nil, func(b *ferry.Root) { b.Generation, b.Version = 1, 1 }, "master", "recovery key"},
		{"a higher generation", nil, func(b *ferry.Root) { b.Generation, b.Version = 1, 1 }, "master recovery", ""},
		{"a higher generation without its master", nil, func(b *ferry.Root) { b.Generation, b.Version = 1, 1 }, "recovery", "master that it names"},
		{"a higher generation at version 2", nil, func(b *ferry.Root) { b.Generation = 1 }, "master recovery", "begins with version 1"},
		{"a lower generation", func(b *ferry.Root) {}, func(b *ferry.Root) { b.Generation = -1 }, "master recovery", "cannot follow"},
		{"too many keys", nil, func(b *ferry.Root) { b.Keys = make([]string, 8) }, "master", "more than 8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			b := w.rootBody("master")
			if tt.first != nil {
				tt.first(b)
			}
			first := w.found(b)
			b = next(first)
			if tt.change != nil {
				tt.change(b)
			}
			second := w.root(w.master, b, strings.Fields(tt.signers)...)
			r := w.roster()
			if tt.want == "" {
				w.wantRoot(r, second)
				return
			}
			w.wantRoot(r, first)
			if _, why, ok := r.Counts(second, ""); ok || !strings.Contains(why, tt.want) {
				t.Errorf("counts = %v, reason %q, want %q", ok, why, tt.want)
			}
		})
	}
}

func TestFirstRoot(t *testing.T) {
	for name, change := range map[string]func(*ferry.Root){
		"version":    func(b *ferry.Root) { b.Version = 2 },
		"generation": func(b *ferry.Root) { b.Generation = 1 },
		"cut":        func(b *ferry.Root) { b.Keep.Seq = 1 },
		"before":     func(b *ferry.Root) { b.Prev = ferry.RecordID{1} },
		"threshold":  func(b *ferry.Root) { b.Threshold = 2 },
		"master":     func(b *ferry.Root) { b.Master.Key = hexKey(t, "other") },
	} {
		w := newWorld(t)
		b := w.rootBody("master")
		change(b)
		w.found(b)
		if r := w.roster(); len(r.Members()) != 0 || len(r.Known()) != 0 || r.Project() != "" || r.Root().Body != nil {
			t.Errorf("another %s: the channel has members", name)
		}
	}
	w := founded(t)
	w.signers = nil
	if len(w.roster().Members()) != 0 {
		t.Error("a root without a signature founds a channel")
	}
	if len(authority.Evaluate(w.channel, nil, w).Members()) != 0 {
		t.Error("a channel without its root has members")
	}
}

// Signatures that arrive with different copies of a root are signatures of the one record.
func TestSignersOfCopies(t *testing.T) {
	w := newWorld(t)
	b := w.rootBody("master")
	b.Keys, b.Threshold = []string{hexKey(t, "second")}, 2
	second := w.root(w.master, next(w.found(b)))
	roots := w.roots()
	one, two := roots[1], roots[1]
	one.Signers = append(one.Signers, key(t, "master").Public())
	two.Signers = append(two.Signers, key(t, "second").Public())
	w.wantRoot(authority.Evaluate(w.channel, append(roots, one, two), w), second)
}

func TestRotation(t *testing.T) {
	w := founded(t)
	old := w.master
	early := w.admit("early", ferry.GrantWork)
	b := next(w.records[0])
	b.Master = member(t, "second")
	rec := w.root(old, b, "master", "second")
	w.write(old, &ferry.Admit{Member: member(t, "too-late"), Epoch: 1})
	w.master = w.person("second")
	w.master.last = rec.ID
	late := w.admit("late")

	r := w.roster()
	w.wantRoot(r, rec)
	if diff := cmp.Diff([]ferry.Member{w.master.Member, early.Member, late.Member}, r.Members()); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]ferry.WriterID{w.master.Writer, old.Writer, early.Writer, late.Writer}, r.Known()); diff != "" {
		t.Errorf("known (-want +got):\n%s", diff)
	}
	if keep, known := r.Chain(old.Writer, 1); !known || keep == nil || keep.ID != rec.ID || keep.Seq != int64(rec.Seq) {
		t.Errorf("the chain of the master before ends at %v", keep)
	}
	if k, prev, ok := r.Key(w.master.Writer, 1); !ok || k.String() != w.master.Key || prev != rec.ID {
		t.Errorf("key of the new master: %v, %v, %v", k, prev, ok)
	}
	if _, prev, ok := r.Key(old.Writer, 1); !ok || !prev.IsZero() || r.Epoch(old.Writer) != 0 {
		t.Error("the key of the master before is gone, or may still be used")
	}
	if _, ok := r.ByName("master"); ok {
		t.Error("the master before can be named")
	}

	// The old key takes part in nothing any more, and does not come back.
	back := next(rec)
	back.Master = member(t, "master")
	again := w.root(w.master, back, "second", "master")
	r = w.roster()
	w.wantRoot(r, rec)
	if _, why, _ := r.Counts(again, ""); !strings.Contains(why, "was the master before") {
		t.Errorf("reason %q", why)
	}
}

// A thief of the master's key takes the channel for itself and runs ahead with the versions. The recovery key wins, and
// what the thief did is not part of the channel.
func TestThiefLosesToRecovery(t *testing.T) {
	w := founded(t)
	honest := w.admit("honest", ferry.GrantWork)
	keep := w.master.cut()
	stolen := w.admit("stolen", ferry.GrantWork)
	last := w.records[0]
	b := next(last)
	b.Master = member(t, "thief")
	last = w.root(w.master, b, "master", "thief")
	w.master = w.person("thief")
	w.master.last = last.ID
	for range 998 {
		last = w.root(w.master, next(last), "thief")
	}
	r := w.roster()
	w.wantRoot(r, last)
	if got := r.Root().Body.(*ferry.Root).Version; got != 1000 {
		t.Fatalf("the thief is at version %d", got)
	}
	loot := w.admit("loot")

	b = w.recovers(w.records[0], "saved")
	b.Keep = keep
	saved := w.takesOver(b, "saved", "recovery")
	r = w.roster()
	w.wantRoot(r, saved)
	if diff := cmp.Diff([]ferry.Member{member(t, "saved"), honest.Member}, r.Members()); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	for _, p := range []*writer{stolen, loot, w.people["thief"]} {
		if _, _, ok := r.Key(p.Writer, 1); ok {
			t.Errorf("%s has a key", p.Name)
		}
	}
	if _, why, ok := r.Counts(last, ""); ok || !strings.Contains(why, "outranks") {
		t.Errorf("the thief's root: counts = %v, reason %q", ok, why)
	}
	if k, prev, _ := r.Key(saved.Writer, 1); k.String() != hexKey(t, "saved") || prev != w.channel {
		t.Errorf("the chain of the new master begins behind %v", prev)
	}

	// A further root of the thief, of a generation of its own, needs a recovery key that it does not have.
	b = w.recovers(last, "thief-2")
	b.Generation = 99
	forged := w.takesOver(b, "thief-2", "thief")
	r = w.roster()
	w.wantRoot(r, saved)
	if _, why, _ := r.Counts(forged, ""); !strings.Contains(why, "no recovery key") {
		t.Errorf("reason %q", why)
	}
}

// Without Keep, a root that the lost master did not write itself leaves nothing of that master's chain.
func TestRecoveryWithoutKeep(t *testing.T) {
	w := founded(t)
	lost := w.master
	p := w.admit("worker", ferry.GrantWork)
	rec := w.takesOver(w.recovers(w.records[0], "saved"), "saved", "recovery")
	r := w.roster()
	w.wantRoot(r, rec)
	if len(r.Members()) != 1 || r.Epoch(p.Writer) != 0 {
		t.Errorf("members %v", r.Members())
	}
	if keep, known := r.Chain(lost.Writer, 1); !known || keep == nil || keep.Seq != 0 {
		t.Errorf("the lost chain ends at %v", keep)
	}
	order := ferry.Record{ID: ferry.RecordID{9}, Writer: lost.Writer, Epoch: 1, Seq: 2, Body: &ferry.Order{}}
	if _, why, ok := r.Counts(order, ""); ok || !strings.Contains(why, "nothing that master wrote") {
		t.Errorf("an order of the lost master: %v, %q", ok, why)
	}
	// The order of both is what the new master says: it can let the worker in again.
	w.master = w.person("saved")
	w.admit("worker", ferry.GrantWork)
	if r := w.roster(); r.Epoch(p.Writer) != 1 {
		t.Error("the worker cannot come back")
	}
}

// The cut of a root that is not here is a hold: nobody is a member by a chain that cannot be read.
func TestKeepOfMissingRecord(t *testing.T) {
	w := founded(t)
	p := w.admit("worker")
	b := w.recovers(w.records[0], "saved")
	b.Keep = ferry.Cut{Epoch: 1, Seq: 7, ID: ferry.RecordID{7}}
	w.takesOver(b, "saved", "recovery")
	r := w.roster()
	if r.Epoch(p.Writer) != 0 || !strings.Contains(r.Hold(), "record 7") {
		t.Errorf("epoch %d, hold %q", r.Epoch(p.Writer), r.Hold())
	}
	if _, hold := r.Policy(ferry.PolicyEngine); hold != r.Hold() {
		t.Errorf("the policy is held by %q", hold)
	}
}

// The holders of the other keys replace a lost master without the recovery key, in its own generation.
func TestThresholdReplacesMaster(t *testing.T) {
	w := newWorld(t)
	b := w.rootBody("master")
	b.Keys, b.Threshold = []string{hexKey(t, "second"), hexKey(t, "third")}, 2
	first := w.found(b)
	p := w.admit("worker")
	b = next(first)
	b.Master, b.Keep = member(t, "second"), w.master.cut()
	b.Keys = []string{hexKey(t, "third"), hexKey(t, "fourth")}
	rec := w.takesOver(b, "second", "third")
	r := w.roster()
	w.wantRoot(r, rec)
	if r.Epoch(p.Writer) != 1 {
		t.Error("the member is gone")
	}
	if diff := cmp.Diff([]ferry.Record{first, rec}, r.Roots()); diff != "" {
		t.Errorf("roots (-want +got):\n%s", diff)
	}
}

// Nothing of the master counts from its fork on, until a root names the branch.
func TestForkOfMaster(t *testing.T) {
	w := founded(t)
	before := w.admit("before")
	twin := w.master.fork()
	mine := w.admit("mine")
	w.writeSeen(twin, &ferry.Admit{Member: member(t, "twins"), Epoch: 1})
	r := w.roster()
	if r.Epoch(before.Writer) != 1 || r.Epoch(mine.Writer) != 0 || len(r.Members()) != 2 {
		t.Errorf("members %v", r.Members())
	}
	b := w.recovers(w.records[0], "saved")
	b.Keep = w.master.cut()
	w.takesOver(b, "saved", "recovery")
	r = w.roster()
	if r.Epoch(before.Writer) != 1 || r.Epoch(mine.Writer) != 1 || len(r.Members()) != 3 {
		t.Errorf("members after the root names a branch: %v", r.Members())
	}
}

// Of two versions that claim one place, every machine takes the same.
func TestConflictOfRoots(t *testing.T) {
	w := founded(t)
	a := w.root(w.master, next(w.records[0]), "master")
	b := w.root(w.master, next(w.records[0]), "master")
	want := a
	if b.ID.String() < a.ID.String() {
		want = b
	}
	w.wantRoot(w.roster(), want)
	later := w.root(w.master, next(want), "master")
	w.wantRoot(w.roster(), later)
}

// The versions of a higher generation are followed up from its first.
func TestVersionsAfterRecovery(t *testing.T) {
	w := founded(t)
	last := w.takesOver(w.recovers(w.records[0], "saved"), "saved", "recovery")
	w.master = w.person("saved")
	for range 8 {
		last = w.root(w.master, next(last), "saved")
		w.wantRoot(w.roster(), last)
	}
}

// Two recoveries: the first version decides, however many follow the other one.
func TestConflictOfRecoveries(t *testing.T) {
	w := founded(t)
	a := w.takesOver(w.recovers(w.records[0], "one"), "one", "recovery")
	b := w.takesOver(w.recovers(w.records[0], "other"), "other", "recovery")
	loser, by := b, "other"
	want := a
	if b.ID.String() < a.ID.String() {
		want, loser, by = b, a, "one"
	}
	for range 8 {
		loser = w.root(w.person(by), next(loser), by)
	}
	w.wantRoot(w.roster(), want)
	w.refused(w.roster(), loser, "outranks")
}

// A person goes on under its name with a new key.
func TestNameOfNextMaster(t *testing.T) {
	w := founded(t)
	b := next(w.records[0])
	b.Master = member(t, "second")
	b.Master.Name = "master"
	w.root(w.master, b, "master", "second")
	if m, ok := w.roster().ByName("master"); !ok || m.Writer != b.Master.Writer {
		t.Errorf("the name belongs to %v", m.Writer)
	}
}

// A root by its own master is the first record of that master, and a master has one epoch.
func TestPlaceOfRoot(t *testing.T) {
	for _, move := range []func(p *writer){func(p *writer) { p.seq = 1 }, func(p *writer) { p.epoch = 2 }} {
		w := founded(t)
		p := w.person("saved")
		move(p)
		rec := w.takesOver(w.recovers(w.records[0], "saved"), "saved", "recovery")
		w.refused(w.roster(), rec, "")
		w.wantRoot(w.roster(), w.records[0])
	}
}

// Whoever gives orders does not run engines under that key, even where the root says so.
func TestMasterNeverWorks(t *testing.T) {
	w := newWorld(t)
	b := w.rootBody("master")
	b.Master.Grants = []ferry.Grant{ferry.GrantWork}
	w.found(b)
	w.refused(w.roster(), w.say(&ferry.Claim{}), "grant work")
}

func TestRecoveryKeys(t *testing.T) {
	w := founded(t)
	b := w.recovers(w.records[0], "saved")
	b.Recovery = []string{hexKey(t, "recovery-2")}
	w.takesOver(b, "saved", "recovery")
	b = w.recovers(w.records[0], "forged")
	b.Recovery = []string{hexKey(t, "thief")}
	w.takesOver(b, "forged", "thief")
	var got []string
	for _, k := range w.roster().RecoveryKeys() {
		got = append(got, k.String())
	}
	if diff := cmp.Diff([]string{hexKey(t, "recovery"), hexKey(t, "recovery-2")}, got); diff != "" {
		t.Errorf("recovery keys (-want +got):\n%s", diff)
	}
	keys := authority.RootKeys(&ferry.Root{Master: member(t, "a"), Keys: []string{"no key", hexKey(t, "b")}, Recovery: []string{hexKey(t, "a")}})
	if len(keys) != 2 || keys[1] != key(t, "b").Public() {
		t.Errorf("RootKeys = %v", keys)
	}
}

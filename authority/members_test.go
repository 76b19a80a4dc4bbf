package authority_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
)

// refused asks that a statement has no effect, for a reason with the words.
func (w *world) refused(r *authority.Roster, rec ferry.Record, words string) {
	w.tb.Helper()
	if _, why, ok := r.Counts(rec, ""); ok || !strings.Contains(why, words) {
		w.tb.Errorf("%T %+v: counts = %v, reason %q, want %q", rec.Body, rec.Body, ok, why, words)
	}
}

func (w *world) counts(r *authority.Roster, rec ferry.Record) {
	w.tb.Helper()
	if _, why, ok := r.Counts(rec, ""); !ok {
		w.tb.Errorf("%T %+v does not count: %s", rec.Body, rec.Body, why)
	}
}

func (w *world) say(b ferry.Body) ferry.Record { return w.write(w.master, b) }

func TestAdmissions(t *testing.T) {
	w := founded(t)
	worker := w.admit("worker", ferry.GrantWork)
	in := w.records[len(w.records)-1]
	named := func(name ferry.AgentName) ferry.Member { m := member(t, "twin"); m.Name = name; return m }
	forged := member(t, "forged")
	forged.Key = worker.Key
	twin := w.say(&ferry.Admit{Member: named("worker"), Epoch: 1})
	masters := w.say(&ferry.Admit{Member: named("master"), Epoch: 1})
	late := w.say(&ferry.Admit{Member: member(t, "late"), Epoch: 2})
	alien := w.say(&ferry.Admit{Member: forged, Epoch: 1})
	odd := w.say(&ferry.Admit{Member: member(t, "odd", "everything"), Epoch: 1})
	self := w.say(&ferry.Admit{Member: member(t, "master", ferry.GrantWork), Epoch: 1})
	friend := w.write(worker, &ferry.Admit{Member: member(t, "friend"), Epoch: 1})
	more := w.say(&ferry.Admit{Member: member(t, "worker", ferry.GrantReview, ferry.GrantWork), Epoch: 1})
	plain := w.admit("plain")

	r := w.roster()
	w.refused(r, twin, "belongs to the writer")
	w.refused(r, masters, "belongs to the writer")
	w.refused(r, late, "epoch 2")
	w.refused(r, alien, "is not that of its key")
	w.refused(r, odd, "unknown grant")
	w.refused(r, self, "work")
	w.refused(r, friend, "admit needs the master or a delegate")
	w.counts(r, in)
	w.counts(r, more)
	both := worker.Member
	both.Grants = []ferry.Grant{ferry.GrantReview, ferry.GrantWork}
	if diff := cmp.Diff([]ferry.Member{w.master.Member, both, plain.Member}, r.Members()); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	if m, ok := r.ByName("WORKER"); !ok || m.Writer != worker.Writer {
		t.Errorf("the name worker belongs to %v", m.Writer)
	}
	if k, prev, ok := r.Key(worker.Writer, 1); !ok || k.String() != worker.Key || prev != in.ID {
		t.Errorf("Key(worker) = %v, %v, %v", k, prev, ok)
	}
	for _, epoch := range []uint32{0, 2} {
		if _, _, ok := r.Key(worker.Writer, epoch); ok {
			t.Errorf("epoch %d has a key", epoch)
		}
	}
	if _, known := r.Chain(forged.Writer, 1); known {
		t.Error("who was refused has a chain")
	}
	if _, ok := r.Member(plain.Writer); !ok || r.Epoch(plain.Writer) != 1 || r.Epoch("nobody") != 0 {
		t.Error("the plain member is no member")
	}
}

func TestInvites(t *testing.T) {
	w := founded(t)
	answer := func(in ferry.RecordID, name string, grants ...ferry.Grant) ferry.Record {
		return w.say(&ferry.Admit{Member: member(t, name, grants...), Epoch: 1, Invite: in})
	}
	early := answer(ferry.RecordID{3}, "early")
	one := w.say(&ferry.Invite{Key: hexKey(t, "one"), Grants: []ferry.Grant{ferry.GrantWork}})
	many := w.say(&ferry.Invite{Key: hexKey(t, "many"), Many: true})
	bad := w.say(&ferry.Invite{Key: "none"})
	greedy := answer(one.ID, "greedy", ferry.GrantWork, ferry.GrantLand)
	first := answer(one.ID, "first", ferry.GrantWork)
	second := answer(one.ID, "second")
	third, fourth := answer(many.ID, "third"), answer(many.ID, "fourth")
	wrong := answer(first.ID, "wrong")

	r := w.roster()
	w.refused(r, early, "had not written before")
	w.refused(r, bad, "public key")
	w.refused(r, greedy, "the grant land")
	w.refused(r, second, "for one and is used")
	w.refused(r, wrong, "had not written before")
	for _, rec := range []ferry.Record{one, many, first, third, fourth} {
		w.counts(r, rec)
	}
	if len(r.Members()) != 4 {
		t.Errorf("members %v", r.Members())
	}
}

func TestRevocation(t *testing.T) {
	claim := func(w *world, p *writer) ferry.Record { return w.write(p, &ferry.Claim{Attempt: 1}) }
	tests := []struct {
		name string
		keep func(second ferry.Record) ferry.Cut
		want string // which of its four records count
	}{
		{"at the second", func(s ferry.Record) ferry.Cut { return ferry.Cut{Epoch: 1, Seq: 2, ID: s.ID} }, "++--"},
		{"nothing of the epoch", func(ferry.Record) ferry.Cut { return ferry.Cut{Epoch: 1} }, "----"},
		{"nothing at all", func(ferry.Record) ferry.Cut { return ferry.Cut{} }, "----"},
		{"an epoch that is not", func(s ferry.Record) ferry.Cut { return ferry.Cut{Epoch: 7, Seq: 2, ID: s.ID} }, "----"},
		{"a number below 0", func(s ferry.Record) ferry.Cut { return ferry.Cut{Epoch: 1, Seq: -2, ID: s.ID} }, "----"},
		{"an epoch below 0", func(s ferry.Record) ferry.Cut { return ferry.Cut{Epoch: -1, Seq: 2, ID: s.ID} }, "----"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := founded(t)
			p := w.admit("worker", ferry.GrantWork)
			recs := []ferry.Record{claim(w, p), claim(w, p), claim(w, p)}
			w.say(&ferry.Revoke{Writer: p.Writer, Keep: tt.keep(recs[1])})
			recs = append(recs, claim(w, p)) // it goes on as if it did not know
			r := w.roster()
			got := ""
			for _, rec := range recs {
				if _, _, ok := r.Counts(rec, ""); ok {
					got += "+"
				} else {
					got += "-"
				}
			}
			if got != tt.want {
				t.Errorf("counts %s, want %s", got, tt.want)
			}
			if r.Epoch(p.Writer) != 0 || len(r.Members()) != 1 {
				t.Error("it is a member still")
			}
			if _, ok := r.ByName("worker"); ok {
				t.Error("it can be named")
			}
			if _, _, ok := r.Key(p.Writer, 1); !ok {
				t.Error("its records can not be verified any more")
			}
		})
	}
}

func TestRevocationsCorrected(t *testing.T) {
	w := founded(t)
	p := w.admit("worker", ferry.GrantWork)
	note := &ferry.Note{}
	w.write(p, note)
	one := p.cut()
	w.write(p, note)
	two := p.cut()
	w.say(&ferry.Revoke{Writer: p.Writer, Keep: two})
	w.say(&ferry.Revoke{Writer: p.Writer, Keep: one})
	seizure := w.say(&ferry.Admit{Member: func() ferry.Member { m := member(t, "next"); m.Name = "worker"; return m }(), Epoch: 1})
	again := w.say(&ferry.Admit{Member: p.Member, Epoch: 1})
	root := w.say(&ferry.Revoke{Writer: w.master.Writer})
	nobody := w.say(&ferry.Revoke{Writer: "nobody"})
	byMember := w.write(w.admit("other"), &ferry.Revoke{Writer: p.Writer})
	r := w.roster()
	if keep, _ := r.Chain(p.Writer, 1); keep == nil || *keep != one {
		t.Errorf("the chain ends at %v", keep)
	}
	w.refused(r, seizure, "belongs to the writer")
	w.refused(r, again, "was revoked")
	w.refused(r, root, "only a root record")
	w.refused(r, nobody, "not a member")
	w.refused(r, byMember, "needs the master")
}

func TestReadmission(t *testing.T) {
	w := founded(t)
	p := w.admit("worker", ferry.GrantWork)
	kept := w.write(p, &ferry.Claim{})
	keep := p.cut()
	lost := w.write(p, &ferry.Claim{})
	try := func(epoch int64, keyName string, keep ferry.Cut) ferry.Record {
		return w.say(&ferry.Readmit{Writer: p.Writer, Epoch: epoch, Key: hexKey(t, keyName), Keep: keep})
	}
	other := w.admit("other")
	wrong := map[string]ferry.Record{
		"goes on with the next": try(3, "worker-2", keep), "epoch 1: ": try(1, "worker-2", keep), "which it ends": try(2, "worker-2", ferry.Cut{}),
	}
	sameKey, othersKey, mastersKey := try(2, "worker", keep), try(2, "other", keep), try(2, "master", keep)
	weak := w.say(&ferry.Readmit{Writer: p.Writer, Epoch: 2, Key: "01", Keep: keep})
	in := w.readmit(p, keep, "worker-2")
	fresh := w.write(p, &ferry.Claim{})
	used := w.say(&ferry.Readmit{Writer: other.Writer, Epoch: 2, Key: hexKey(t, "worker-2"), Keep: other.cut()})
	taken := w.say(&ferry.Admit{Member: member(t, "worker-2"), Epoch: 1})

	r := w.roster()
	for words, rec := range wrong {
		w.refused(r, rec, words)
	}
	for _, rec := range []ferry.Record{sameKey, othersKey, mastersKey, used} {
		w.refused(r, rec, "needs a new key")
	}
	w.refused(r, taken, "that of another member")
	w.refused(r, weak, "public key")
	w.counts(r, kept)
	w.counts(r, fresh)
	w.refused(r, lost, "only the records up to 1 count")
	if k, prev, ok := r.Key(p.Writer, 2); !ok || k.String() != hexKey(t, "worker-2") || prev != in.ID || r.Epoch(p.Writer) != 2 {
		t.Errorf("epoch 2: %v, %v, %v", k, prev, ok)
	}
	if m, _ := r.Member(p.Writer); m.Key != hexKey(t, "worker-2") || m.Writer != p.Writer {
		t.Errorf("member %+v", m)
	}

	// Revoked, it keeps the first epoch as it was; readmitted, it is a member again.
	w.say(&ferry.Revoke{Writer: p.Writer, Keep: ferry.Cut{Epoch: 2}})
	r = w.roster()
	w.counts(r, kept)
	w.refused(r, fresh, "nothing that worker wrote")
	w.readmit(p, ferry.Cut{Epoch: 2, Seq: int64(fresh.Seq), ID: fresh.ID}, "worker-3")
	r = w.roster()
	w.counts(r, fresh)
	w.refused(r, lost, "only the records up to 1 count")
	if r.Epoch(p.Writer) != 3 || len(r.Members()) != 3 {
		t.Errorf("epoch %d, members %v", r.Epoch(p.Writer), r.Members())
	}

	// A cut in an epoch before takes what follows with it.
	w.say(&ferry.Revoke{Writer: p.Writer, Keep: keep})
	r = w.roster()
	w.counts(r, kept)
	w.refused(r, fresh, "nothing that worker wrote")
}

// Somebody deletes the master's revocation. The chain of the master is read up to the gap, and no further: what follows a
// missing statement never counts without it.
func TestDeletedRevocation(t *testing.T) {
	w := founded(t)
	p := w.admit("worker", ferry.GrantWork)
	gone := w.say(&ferry.Revoke{Writer: p.Writer, Keep: ferry.Cut{Epoch: 1}})
	late := w.admit("late")
	if r := w.roster(); r.Epoch(p.Writer) != 0 || r.Epoch(late.Writer) != 1 {
		t.Fatal("the revocation has no effect")
	}
	for i, rec := range w.records {
		if rec.ID == gone.ID {
			w.records = append(w.records[:i:i], w.records[i+1:]...)
			break
		}
	}
	if r := w.roster(); r.Epoch(late.Writer) != 0 {
		t.Error("a statement behind the gap counts")
	}
}

// A statement of the master that needs a newer ferry may say anything: what can be known here is not certain.
func TestOpaqueStatement(t *testing.T) {
	w := founded(t)
	w.admit("worker")
	if hold := w.roster().Hold(); hold != "" {
		t.Errorf("hold %q", hold)
	}
	w.say(&ferry.Opaque{Is: ferry.TypeRevoke, Need: []string{"revoke.2"}})
	if hold := w.roster().Hold(); !strings.Contains(hold, "newer ferry") || !strings.Contains(hold, "revoke.2") {
		t.Errorf("hold %q", hold)
	}
}

func TestDigest(t *testing.T) {
	w := founded(t)
	seen := map[string]int{}
	p := w.admit("worker", ferry.GrantWork)
	for i, say := range []func(){
		func() {},
		func() { w.admit("other") },
		func() { w.say(&ferry.Admit{Member: member(t, "worker", ferry.GrantLand), Epoch: 1}) },
		func() { w.delegate(p, ferry.ScopeAnswer) },
		func() { w.say(&ferry.Revoke{Writer: p.Writer, Keep: ferry.Cut{Epoch: 1}}) },
		func() { w.readmit(p, ferry.Cut{Epoch: 1}, "worker-2") },
		func() { w.root(w.master, next(w.records[0]), "master") },
	} {
		say()
		d := w.roster().Digest()
		if j, twice := seen[d]; twice || len(d) != 64 {
			t.Errorf("change %d has the digest of change %d: %q", i, j, d)
		}
		seen[d] = i
		w.say(&ferry.Note{})
		if w.roster().Digest() != d {
			t.Errorf("change %d: a note changes the digest", i)
		}
	}
}

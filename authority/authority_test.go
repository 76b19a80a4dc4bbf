package authority_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
	"github.com/ferry-fleet/ferry/sign"
)

func key(t *testing.T, name string) sign.Key {
	t.Helper()
	k, err := sign.GenerateKey(bytes.NewReader([]byte(fmt.Sprintf("%-32s", name))))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func member(t *testing.T, name string, grants ...ferry.Grant) ferry.Member {
	t.Helper()
	pub := key(t, name).Public()
	return ferry.Member{
		Writer: ferry.WriterID(pub.WriterID()), Key: pub.String(), Name: ferry.AgentName(name), Machine: "box", Grants: grants,
	}
}

func id(s string) (id ferry.RecordID) {
	copy(id[:], s)
	return id
}

var channelID = id("root")

func root(m ferry.Member) ferry.Record {
	return ferry.Record{ID: channelID, Writer: m.Writer, Epoch: 1, Seq: 1, Body: &ferry.Root{Project: "demo", Master: m}}
}

func admit(by ferry.Member, seq uint64, m ferry.Member) ferry.Record {
	return ferry.Record{
		ID: id(fmt.Sprintf("admit-%s-%d-%s", by.Name, seq, m.Name)), Writer: by.Writer, Epoch: 1, Seq: seq,
		Body: &ferry.Admit{Member: m, Epoch: 1},
	}
}

// fleet gives a roster with one member of every role and the writer of each.
func fleet(t *testing.T) (*authority.Roster, map[string]ferry.WriterID) {
	t.Helper()
	master := member(t, "master")
	statements := []ferry.Record{root(master)}
	writers := map[string]ferry.WriterID{"master": master.Writer, "stranger": member(t, "stranger").Writer}
	roles := map[string][]ferry.Grant{
		"plain": nil, "orderer": {ferry.GrantOrder}, "issuer": {ferry.GrantOrder}, "worker": {ferry.GrantWork},
		"reviewer": {ferry.GrantReview}, "lander": {ferry.GrantLand}, "dispatcher": {ferry.GrantDispatch}, "answerer": {ferry.GrantAnswer},
	}
	seq := uint64(1)
	for role, grants := range roles {
		seq++
		m := member(t, role, grants...)
		writers[role] = m.Writer
		statements = append(statements, admit(master, seq, m))
	}
	return authority.Build(statements, channelID), writers
}

func TestCounts(t *testing.T) {
	r, writers := fleet(t)
	everyone := "plain orderer issuer worker reviewer lander dispatcher answerer master"
	tests := []struct {
		body ferry.Body
		may  string // roles, "issuer" being the writer of the order that the record is about
	}{
		{&ferry.Root{}, "master"},
		{&ferry.Admit{}, "master"},
		{&ferry.Order{}, "master orderer issuer"},
		{&ferry.Claim{}, "worker"},
		{&ferry.Start{}, "worker"},
		{&ferry.Run{}, "worker"},
		{&ferry.Stop{}, "worker"},
		{&ferry.Result{}, "worker"},
		{&ferry.Verdict{Decision: ferry.DecisionKeep}, "master reviewer"},
		{&ferry.Verdict{Decision: ferry.DecisionChanges}, "master reviewer"},
		{&ferry.Verdict{Decision: ferry.DecisionReject}, "master"},
		{&ferry.Approve{}, "master"},
		{&ferry.Landed{}, "master lander"},
		{&ferry.Cancel{}, "master issuer dispatcher"},
		{&ferry.Interrupt{Action: ferry.ActionKill}, "master issuer dispatcher"},
		{&ferry.Interrupt{Action: ferry.ActionSteer}, "master issuer dispatcher"},
		{&ferry.Question{}, everyone},
		{&ferry.Note{}, everyone},
		{&ferry.Answer{}, "master answerer"},
		{nil, ""},
	}
	for _, tt := range tests {
		for role, w := range writers {
			rec := ferry.Record{ID: id("x"), Writer: w, Epoch: 1, Seq: 9, Body: tt.body}
			level, reason, ok := r.Counts(rec, writers["issuer"])
			want := strings.Contains(" "+tt.may+" ", " "+role+" ")
			if ok != want {
				t.Errorf("%T by %s: counts = %v (%s), want %v", tt.body, role, ok, reason, want)
			}
			if ok == (reason != "") {
				t.Errorf("%T by %s: counts = %v with the reason %q", tt.body, role, ok, reason)
			}
			if ok && (level == ferry.LevelMaster) != (role == "master") {
				t.Errorf("%T by %s: level = %d", tt.body, role, level)
			}
		}
	}
}

// A writer with the grant order acts on its own orders, not on those of another.
func TestCountsForeignOrder(t *testing.T) {
	r, writers := fleet(t)
	for _, b := range []ferry.Body{&ferry.Cancel{}, &ferry.Interrupt{}} {
		rec := ferry.Record{ID: id("x"), Writer: writers["orderer"], Body: b}
		if _, _, ok := r.Counts(rec, writers["issuer"]); ok {
			t.Errorf("%T of another's order counts", b)
		}
		if _, _, ok := r.Counts(rec, writers["orderer"]); !ok {
			t.Errorf("%T of the own order does not count", b)
		}
		if _, _, ok := r.Counts(rec, ""); ok {
			t.Errorf("%T of an unknown order counts", b)
		}
	}
}

func TestMasterNeverWorks(t *testing.T) {
	master := member(t, "master", ferry.GrantWork)
	again := admit(master, 2, member(t, "master", ferry.GrantWork))
	r := authority.Build([]ferry.Record{root(master), again}, channelID)
	if _, _, ok := r.Counts(ferry.Record{Writer: master.Writer, Body: &ferry.Claim{}}, ""); ok {
		t.Error("a claim by the master counts")
	}
	if _, reason, ok := r.Counts(again, ""); ok || !strings.Contains(reason, "work") {
		t.Errorf("the master's admission of itself: %v, %q", ok, reason)
	}
}

func TestBuildAnyOrder(t *testing.T) {
	master, worker := member(t, "master"), member(t, "worker", ferry.GrantWork)
	taken := member(t, "Worker-two", ferry.GrantWork)
	taken.Name = worker.Name
	forged := member(t, "forged", ferry.GrantWork)
	forged.Key = worker.Key
	odd := member(t, "odd", "everything")
	late := member(t, "late")
	statements := []ferry.Record{
		root(master),
		admit(master, 2, worker),
		admit(master, 3, taken),
		admit(worker, 1, member(t, "friend", ferry.GrantOrder)),
		admit(master, 4, forged),
		admit(master, 5, odd),
		admit(master, 6, member(t, "worker", ferry.GrantReview)),
		admit(master, 7, late),
		{ID: id("other root"), Writer: worker.Writer, Epoch: 1, Seq: 1, Body: &ferry.Root{Project: "mine", Master: worker}},
	}
	both := worker
	both.Grants = []ferry.Grant{ferry.GrantReview, ferry.GrantWork}
	want := []ferry.Member{master, both, late}
	for range 50 {
		rand.Shuffle(len(statements), func(i, j int) { statements[i], statements[j] = statements[j], statements[i] })
		r := authority.Build(statements, channelID)
		if diff := cmp.Diff(want, r.Members()); diff != "" {
			t.Fatalf("members (-want +got):\n%s", diff)
		}
		if m, ok := r.ByName("WORKER"); !ok || m.Writer != worker.Writer {
			t.Fatalf("the name worker belongs to %v", m.Writer)
		}
		if got, ok := r.Master(); !ok || got.Writer != master.Writer || r.Project() != "demo" {
			t.Fatalf("master %v of %q", got.Writer, r.Project())
		}
	}
}

func TestRefusedAdmissions(t *testing.T) {
	master, worker := member(t, "master"), member(t, "worker")
	twin := member(t, "twin")
	twin.Name = "worker"
	late := admit(master, 4, member(t, "late"))
	late.Body.(*ferry.Admit).Epoch = 2
	statements := []ferry.Record{root(master), admit(master, 2, worker), admit(master, 3, twin), late}
	r := authority.Build(statements, channelID)
	for i, want := range map[int]string{2: "belongs to the writer", 3: "epoch 2"} {
		if _, reason, ok := r.Counts(statements[i], ""); ok || !strings.Contains(reason, want) {
			t.Errorf("admission %d: counts = %v, reason %q, want %q", i, ok, reason, want)
		}
	}
	if _, _, ok := r.Counts(statements[1], ""); !ok {
		t.Error("the first admission does not count")
	}
}

func TestKey(t *testing.T) {
	master, worker := member(t, "master"), member(t, "worker")
	in := admit(master, 2, worker)
	r := authority.Build([]ferry.Record{root(master), in}, channelID)
	if k, prev, ok := r.Key(worker.Writer, 1); !ok || k.String() != worker.Key || prev != in.ID {
		t.Errorf("Key(worker) = %v, %v, %v", k, prev, ok)
	}
	if k, prev, ok := r.Key(master.Writer, 1); !ok || k.String() != master.Key || !prev.IsZero() {
		t.Errorf("Key(master) = %v, %v, %v", k, prev, ok)
	}
	if _, _, ok := r.Key(worker.Writer, 2); ok {
		t.Error("an epoch that was never admitted has a key")
	}
	if _, _, ok := r.Key(member(t, "stranger").Writer, 1); ok {
		t.Error("a stranger has a key")
	}
	if r := authority.Build(nil, channelID); len(r.Members()) != 0 {
		t.Error("a channel without its root has members")
	}
}

package channel_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

// seed makes a replica with a master, a worker, and the id of the channel.
func seed(t *testing.T) (r *channel.Replica, master, worker sign.Key) {
	t.Helper()
	master, worker = testKey(t, "master"), testKey(t, "wisp")
	p := &pen{key: master}
	root := p.write(t, &ferry.Root{Version: 1, Project: "demo", Master: testMember(master, "master"), Threshold: 1, Recovery: []string{}})
	r = channel.NewReplica(channel.ReplicaSpec{ID: root.id, Judge: judge})
	if v := r.Add(root.data); v.Kind != channel.Accepted || v.ID != root.id {
		t.Fatalf("the root record: %+v", v)
	}
	put(t, r, master, &ferry.Admit{Member: testMember(worker, "wisp", ferry.GrantWork), Epoch: 1})
	return r, master, worker
}

// put seals a record and hands it in.
func put(t *testing.T, r *channel.Replica, key sign.Key, b ferry.Body) ferry.RecordID {
	t.Helper()
	file, id, err := r.Seal(key, start, b)
	must1(t, err)
	if v := r.Add(file); v.Kind != channel.Accepted || v.ID != id {
		t.Fatalf("%s: %+v", b.Type(), v)
	}
	return id
}

// A record costs work for its own order, and for those that depend on one whose state changed.
func TestReplicaCost(t *testing.T) {
	r, master, worker := seed(t)
	var ids []ferry.RecordID
	for i := range 50 {
		o := order(fmt.Sprintf("t-%d", i))
		ids = append(ids, put(t, r, master, &o))
	}
	after := order("after", ids[0])
	dependent := put(t, r, master, &after)
	if n := len(r.Active()); n != 51 {
		t.Fatalf("%d active orders", n)
	}
	before := channel.Folds(r)
	claim := put(t, r, worker, &ferry.Claim{Order: ids[7], Attempt: 1})
	if task, _ := r.Task(ids[7]); task.State != ferry.StateClaimed {
		t.Errorf("the order is %s", task.State)
	}
	if n := channel.Folds(r) - before; n != 1 {
		t.Errorf("a claim computed %d orders, want 1", n)
	}
	before = channel.Folds(r)
	put(t, r, worker, &ferry.Stop{Order: ids[7], Claim: claim, Reason: ferry.StopReleased})
	put(t, r, worker, &ferry.Note{Kind: "x", Text: "about none"})
	put(t, r, master, &ferry.Cancel{Order: ids[0]})
	if task, _ := r.Task(dependent); task.State != ferry.StateBlocked || len(r.Tasks()) != 51 {
		t.Errorf("the dependent order is %s", task.State)
	}
	if n := channel.Folds(r) - before; n != 3 {
		t.Errorf("a stop, a note and a cancellation computed %d orders, want 3", n)
	}
	before = channel.Folds(r)
	put(t, r, master, &ferry.Admit{Member: testMember(testKey(t, "moth"), "moth", ferry.GrantWork), Epoch: 1})
	if _, err := r.Digest(); err != nil || channel.Folds(r) != before {
		t.Errorf("an admission computed %d orders again, %v", channel.Folds(r)-before, err)
	}
}

func TestReplicaVerdicts(t *testing.T) {
	r, master, worker := seed(t)
	file, _, err := r.Seal(worker, start, &ferry.Note{Kind: "x", Text: "1"})
	must1(t, err)
	r2, _, _ := seed(t)
	must := func(what string, file []byte, want channel.VerdictKind) {
		t.Helper()
		if v := r.Add(file); v.Kind != want {
			t.Errorf("%s: %+v, want %d", what, v, want)
		}
	}
	if v := r2.Add(file); v.Kind != channel.Accepted {
		t.Fatalf("another replica of the same records: %+v", v)
	}
	second, _, err := r2.Seal(worker, start, &ferry.Note{Kind: "x", Text: "2"})
	must1(t, err)
	must("a gap", second, channel.Parked)
	must("a gap again", second, channel.Parked)
	must("cut", file[:len(file)-1], channel.Incomplete)
	must("garbage", []byte("garbage\n"), channel.Refused)
	flipped := append([]byte(nil), file...)
	flipped[len(flipped)-3] ^= 1
	must("flipped", flipped, channel.Refused)
	parked, err := sign.ParseHeader(second)
	must1(t, err)
	if v := r.Add(file); v.Kind != channel.Accepted || !slices.Equal(v.Behind, []ferry.RecordID{parked.ID()}) {
		t.Errorf("the first: %+v, want it accepted, and the parked one behind it", v)
	}
	must("the parked one", second, channel.Known)
	if h, ok := r.Head(ferry.WriterID(worker.Public().WriterID())); !ok || h.Seq != 2 {
		t.Errorf("the head is %+v, %v", h, ok)
	}
	if _, _, err := r.Seal(testKey(t, "stranger"), start, &ferry.Note{Kind: "x", Text: "y"}); !errors.Is(err, channel.ErrNotMember) {
		t.Errorf("a stranger's record: %v", err)
	}
	n := 0
	again := channel.NewReplica(channel.ReplicaSpec{ID: toFile(t, first(r)).id, Judge: judge})
	for data := range r.Records() {
		n++
		again.Add(data)
	}
	a, _ := r.Digest()
	if b, _ := again.Digest(); n != 4 || a != b {
		t.Errorf("%d records, digest %s, want %s", n, b, a)
	}
	put(t, r, master, &ferry.Note{Kind: "x", Text: "unseen"})
	put(t, r, worker, &ferry.Note{Kind: "x", Text: "witness"})
	var last []byte
	for data := range r.Records() {
		last = data
	}
	if v := again.Add(last); v.Kind != channel.Accepted {
		t.Fatalf("the witness: %+v", v)
	}
	if h, ok := again.Behind(); !ok || h.Seq != 3 || h.Writer != ferry.WriterID(master.Public().WriterID()) {
		t.Errorf("behind %+v, %v", h, ok)
	}
	if _, ok := r.Behind(); ok {
		t.Error("a replica with everything is behind")
	}
}

func first(r *channel.Replica) []byte {
	for data := range r.Records() {
		return data
	}
	return nil
}

// What can never be taken in does not pile up.
func TestReplicaParksLittle(t *testing.T) {
	r, _, worker := seed(t)
	p := &pen{key: worker, channel: r.Roster().Root().ID, seq: 9}
	refused := 0
	for i := range 5000 {
		p.prev[0], p.prev[1], p.prev[2] = byte(i), byte(i>>8), 1
		f := p.seal(t, sign.Header{Type: "note"}, []byte("{}"))
		if v := r.Add(f.data); v.Kind == channel.Refused {
			refused++
		}
	}
	if refused == 0 {
		t.Error("everything was kept")
	}
	put(t, r, worker, &ferry.Note{Kind: "x", Text: "goes on"})
}

// The next version of the root waits for the key of its writer like every other record, when it comes before the first.
func TestReplicaRootInAnyOrder(t *testing.T) {
	r, master, _ := seed(t)
	next := *r.Roster().Root().Body.(*ferry.Root)
	next.Version, next.Prev = 2, r.Roster().Root().ID
	id := put(t, r, master, &next)
	put(t, r, master, &ferry.Note{Kind: "x", Text: "after it"})
	all := slices.Collect(r.Records())
	slices.Reverse(all)
	again := channel.NewReplica(channel.ReplicaSpec{ID: toFile(t, first(r)).id, Judge: judge})
	for _, data := range all {
		if v := again.Add(data); v.Kind == channel.Refused {
			t.Errorf("%s is refused: %s", v.ID.Short(), v.Reason)
		}
	}
	if n := len(slices.Collect(again.Records())); n != len(all) || again.Roster().Root().ID != id {
		t.Errorf("%d of %d records, root %s, want %s", n, len(all), again.Roster().Root().ID.Short(), id.Short())
	}
}

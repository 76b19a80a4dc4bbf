package attack_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

// A copy of a state directory that runs beside the original makes a fork: both stop when they see it, and every other machine
// names it once.
func TestClonedMachine(t *testing.T) {
	f := newFleet(t)
	_, err := f.master.Admit(t.Context(), day, member(t, "twin", ferry.GrantWork))
	must(t, err)
	original := f.open("original")
	first := original.writer("twin")
	id := f.say(order("t"))
	_, begun := f.begin(original, first, id)
	f.sync()
	// The copy has a folder of its own for a while, as a machine without a network has.
	apart := *f
	apart.folder = filepath.Join(f.dir, "apart")
	must(t, os.CopyFS(apart.folder, os.DirFS(f.folder)))
	must(t, os.CopyFS(filepath.Join(f.dir, "clone"), os.DirFS(original.cfg.State)))
	clone := apart.open("clone")
	second := clone.writer("twin")
	stopped := write(t, first, &ferry.Stop{Order: id, Start: begun, Reason: ferry.StopReleased})
	write(t, second, &ferry.Note{Order: id, Kind: "x", Text: "still here"})
	for name, data := range apart.papers() {
		if _, here := f.papers()[name]; !here {
			f.put(name, data)
		}
	}
	for name, data := range f.papers() {
		apart.put(name, data)
	}
	for range 3 {
		f.left.look()
	}
	snap, err := f.left.Snapshot(t.Context())
	must(t, err)
	if len(snap.Rejected) != 1 || !strings.Contains(snap.Rejected[0].Reason, "fork") || !strings.Contains(snap.Rejected[0].Name, string(first.ID())) {
		t.Errorf("another machine names the fork as %+v", snap.Rejected)
	}
	for i, w := range []*channel.Writer{first, second} {
		m := []*machine{original, clone}[i]
		m.look()
		if _, err := w.Note(t.Context(), day, ferry.Note{Kind: "x", Text: "y"}); !isOneOf(err, channel.ErrForked, channel.ErrLost) {
			t.Errorf("%s writes on: %v", m.cfg.State, err)
		}
	}
	f.wantState(id, ferry.StateRunning) // the stop does not count, nor does what the copy said
	if e := f.ledger()[stopped]; e.Counted {
		t.Error("a record at the fork counts")
	}
	v, err := f.left.Verify(t.Context())
	must(t, err)
	if v.OK || len(v.Problems) != 1 || v.Problems[0].Kind != channel.ProblemFork || v.Problems[0].Writer != wid(t, "twin") {
		t.Errorf("verify: %+v", v.Problems)
	}
	f.agree()
}

// A member that signs one number twice gains nothing by sending each machine another one: all of them come to the same.
func TestTwoTalesForTwoMachines(t *testing.T) {
	f := newFleet(t)
	id := f.say(order("t"))
	p := f.admit("hand", ferry.GrantWork, ferry.GrantDispatch)
	f.sync()
	before := f.papers()
	fork := *p
	p.write(&ferry.Cancel{Order: id})
	one := f.papers()
	f.left.look()
	if got := f.left.task(id); got.State != ferry.StateCancelled {
		t.Errorf("the first tale makes it %s", got.State)
	}
	f.restore(before)
	fork.write(&ferry.Claim{Order: id, Attempt: 1})
	f.right.look()
	if got := f.right.task(id); got.State != ferry.StateClaimed {
		t.Errorf("the second tale makes it %s", got.State)
	}
	for name, data := range one {
		f.put(name, data)
	}
	f.wantState(id, ferry.StateOpen)
	f.unmoved("further branches", func() {
		for i := range 20 {
			branch := fork
			branch.write(&ferry.Note{Kind: "x", Text: fmt.Sprint(i)})
			branch.write(&ferry.Cancel{Order: id})
		}
	})
}

// A member that names a record which does not exist is named itself, and holds up no order.
func TestLyingWitness(t *testing.T) {
	f := newFleet(t)
	p := f.admit("liar", ferry.GrantWork)
	p.saw = []sign.Head{{Writer: sign.WriterID(f.master.ID()), Epoch: 1, Seq: 999_999, ID32: strings.Repeat("0", 32)}}
	p.write(&ferry.Note{Kind: "x", Text: "have you seen it?"})
	id := f.say(order("t"))
	f.sync()
	for _, m := range f.machines() {
		head, by, ok, err := m.Behind(t.Context())
		if err != nil || !ok || by != p.id() || head.Seq != 999_999 {
			t.Errorf("%s: behind %+v by %s, %v, %v", m.cfg.State, head, by, ok, err)
		}
		snap, err := m.Snapshot(t.Context())
		if err != nil || !strings.Contains(snap.Behind, "liar") {
			t.Errorf("%s: the snapshot says %q, %v", m.cfg.State, snap.Behind, err)
		}
	}
	f.begin(f.left, f.wisp, id)
	f.wantState(id, ferry.StateRunning)
	f.say(&ferry.Revoke{Writer: p.id(), Keep: ferry.Cut{Epoch: 1}})
	f.sync()
	if _, _, ok, err := f.left.Behind(t.Context()); ok || err != nil {
		t.Errorf("a member that was shut out still bears witness: %v", err)
	}
}

// A proof that somebody has signed one number twice is two headers of one channel, epoch and number, both signed by the key of
// that writer, and different. Nothing else takes a member's voice away.
func TestForgedForkProof(t *testing.T) {
	w, other := newWorked(t), foundedAt(t, day.Add(time.Hour))
	top := func(data []byte) string {
		u, err := sign.ParseHeader(data)
		must(t, err)
		return string(u.Top())
	}
	bySeq := map[uint64]string{}
	records := w.records()
	for _, r := range records {
		u, err := sign.ParseHeader(r.data)
		must(t, err)
		if u.Header().Writer == sign.WriterID(w.master.ID()) {
			bySeq[u.Header().Seq] = string(u.Top())
		}
	}
	elsewhere := top(other.pen("ada").seal("note", []byte(`{"order":"","kind":"x","text":"y"}`), func(h *sign.Header) { h.Seq = 2 }).data)
	hand := w.admit("hand", all...)
	forged := top(hand.seal("note", []byte(`{}`), func(h *sign.Header) { h.Writer, h.Seq = sign.WriterID(w.master.ID()), 2 }).data)
	mine := top(hand.seal("note", []byte(`{}`), func(h *sign.Header) { h.Seq = 2 }).data)
	cosigned, err := sign.Cosign(key(t, "stranger"), records[0].data)
	must(t, err)
	w.unmoved("forged proofs", func() {
		for _, headers := range [][]string{
			nil, {bySeq[2]}, {bySeq[2], bySeq[2]}, {bySeq[2], bySeq[3]}, {bySeq[2], elsewhere}, {elsewhere, elsewhere}, {bySeq[2], forged}, {bySeq[2], mine},
			{bySeq[2], bySeq[2] + "\n"}, {bySeq[2], "x"}, {"", ""}, {top(records[0].data), top(cosigned)}, {bySeq[2], bySeq[2], elsewhere},
		} {
			for _, seq := range []int64{1, 2, 3} {
				for _, accused := range []ferry.WriterID{w.master.ID(), w.wisp.ID(), "", hand.id()} {
					hand.write(&ferry.ForkProof{Writer: accused, Epoch: 1, Seq: seq, Headers: headers})
				}
			}
		}
	})
	// A real one holds even where one of the two records never arrives.
	twin := w.admit("twin", ferry.GrantWork, ferry.GrantDispatch)
	second := twin.seal("note", []byte(`{"order":"","kind":"x","text":"another"}`), nil)
	first := twin.raw("cancel", []byte(`{"order":"`+w.open.String()+`"}`))
	w.wantState(w.open, ferry.StateCancelled)
	hand.write(&ferry.ForkProof{Writer: twin.id(), Epoch: 1, Seq: 1, Headers: []string{top(first.data), top(second.data)}})
	w.wantState(w.open, ferry.StateOpen)
	w.agree()
}

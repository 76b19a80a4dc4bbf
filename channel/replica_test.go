package channel_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

// fleet draws the records of a channel in which everything happens that authority knows: forks, revocations, further epochs,
// delegations, another master, fork-proofs and records that need a newer ferry.
type fleet struct {
	t        *rapid.T
	id       ferry.RecordID
	files    []file
	people   []*hand
	orders   []ferry.RecordID
	claims   []ferry.RecordID
	starts   []ferry.RecordID
	results  []ferry.RecordID
	verdicts []ferry.RecordID
	root     file
	body     ferry.Root
	salt     int
}

// hand writes the chain of one writer, in one epoch after the other.
type hand struct {
	name  string
	w     ferry.WriterID
	key   sign.Key
	epoch uint32
	seq   uint64
	prev  ferry.RecordID
	wrote []file // in this epoch, its forks included
}

func newFleet(t *rapid.T) *fleet {
	f := &fleet{t: t}
	key := testKey(t, "master")
	master := &hand{name: "master", w: ferry.WriterID(key.Public().WriterID()), key: key, epoch: 1}
	f.people = []*hand{master}
	f.body = ferry.Root{
		Version: 1, Project: "demo", Master: testMember(key, "master"), Threshold: 1, Recovery: []string{testKey(t, "recovery").Public().String()},
	}
	body := f.body
	f.root = f.write(master, &body)
	f.id = f.root.id
	f.admit("wisp", ferry.GrantWork)
	f.admit("moth", ferry.GrantWork, ferry.GrantOrder)
	f.admit("lynx", ferry.GrantReview)
	return f
}

func (f *fleet) admit(name string, grants ...ferry.Grant) {
	key := testKey(f.t, name)
	in := f.write(f.people[0], &ferry.Admit{Member: testMember(key, name, grants...), Epoch: 1})
	f.people = append(f.people, &hand{name: name, w: ferry.WriterID(key.Public().WriterID()), key: key, epoch: 1, prev: in.id})
}

// seal makes a record at the next place of a chain without taking it.
func (f *fleet) seal(h *hand, b ferry.Body, need ...string) file {
	f.t.Helper()
	body, err := sign.EncodeJSON(b)
	if err != nil {
		f.t.Fatal(err)
	}
	f.salt++ // so that two records of one place always differ
	head := sign.Header{
		Channel: f.id, Type: string(b.Type()), Writer: sign.WriterID(h.w), Epoch: h.epoch, Seq: h.seq + 1, Prev: h.prev,
		Time: start.AddDate(0, 0, f.salt), Need: need,
	}
	for _, other := range f.people {
		if other != h && other.seq > 0 && (h == f.people[0] || other == f.people[0]) {
			head.Saw = append(head.Saw, sign.Head{Writer: sign.WriterID(other.w), Epoch: other.epoch, Seq: other.seq, ID32: other.prev.String()[:32]})
		}
	}
	data, err := sign.Seal(h.key, head, body)
	if err != nil {
		f.t.Fatal(err)
	}
	return toFile(f.t, data)
}

func (f *fleet) write(h *hand, b ferry.Body, need ...string) file {
	out := f.seal(h, b, need...)
	f.take(h, out)
	return out
}

func (f *fleet) take(h *hand, out file) {
	h.seq, h.prev = h.seq+1, out.id
	h.wrote = append(h.wrote, out)
	f.files = append(f.files, out)
}

func (f *fleet) pick(what string, from []ferry.RecordID) ferry.RecordID {
	if len(from) == 0 {
		return f.id
	}
	return from[max(0, len(from)-1-rapid.IntRange(0, 3).Draw(f.t, what))]
}

// cut names a record of a writer's present epoch, or nothing of it.
func (f *fleet) cut(h *hand) ferry.Cut {
	if len(h.wrote) == 0 || rapid.IntRange(0, 5).Draw(f.t, "keep nothing") == 0 {
		return ferry.Cut{Epoch: int64(h.epoch)}
	}
	at := rapid.SampledFrom(h.wrote).Draw(f.t, "keep")
	u, err := sign.ParseHeader(at.data)
	if err != nil {
		f.t.Fatal(err)
	}
	return ferry.Cut{Epoch: int64(h.epoch), Seq: int64(u.Header().Seq), ID: at.id}
}

func (f *fleet) draw(n int) {
	for range n {
		h := rapid.SampledFrom(f.people).Draw(f.t, "writer")
		switch rapid.IntRange(0, 23).Draw(f.t, "event") {
		case 0:
			f.fork(h)
		case 1:
			f.readmit(h)
		case 2:
			if h != f.people[0] {
				f.write(f.people[0], &ferry.Revoke{Writer: h.w, Keep: f.cut(h)})
			}
		case 3:
			f.write(f.people[0], &ferry.Delegate{
				To: h.w, Scopes: ferry.Scopes(), MaxUses: int64(rapid.IntRange(0, 2).Draw(f.t, "uses")),
			})
		case 4:
			f.recover()
		case 5:
			f.prove(h)
		case 7:
			f.redact(h)
		case 6:
			f.write(h, &ferry.Claim{Order: f.pick("order", f.orders), Attempt: 1}, "claim.9")
		default:
			f.work(h)
		}
	}
}

// fork signs a number twice, and sometimes goes on with the other record.
func (f *fleet) fork(h *hand) {
	twin := f.seal(h, &ferry.Note{Kind: "fork", Text: "twin"})
	if rapid.Bool().Draw(f.t, "go on with the twin") {
		out := f.seal(h, &ferry.Note{Kind: "fork", Text: "one"})
		h.wrote, f.files = append(h.wrote, out), append(f.files, out)
		f.take(h, twin)
		return
	}
	h.wrote, f.files = append(h.wrote, twin), append(f.files, twin)
	f.work(h)
}

func (f *fleet) readmit(h *hand) {
	if h == f.people[0] {
		return
	}
	f.salt++
	key := testKey(f.t, fmt.Sprintf("%s %d", h.name, f.salt))
	in := f.write(f.people[0], &ferry.Readmit{Writer: h.w, Epoch: int64(h.epoch) + 1, Key: key.Public().String(), Keep: f.cut(h)})
	h.key, h.epoch, h.seq, h.prev, h.wrote = key, h.epoch+1, 0, in.id, nil
}

// recover puts another master in the place of the present one, with the recovery key.
func (f *fleet) recover() {
	if f.body.Generation > 1 {
		return
	}
	before := f.people[0]
	name := fmt.Sprintf("master%d", f.body.Generation+1)
	key := testKey(f.t, name)
	body := f.body
	body.Generation, body.Master, body.Prev, body.Keep = f.body.Generation+1, testMember(key, name), f.root.id, f.cut(before)
	next := &hand{name: name, w: ferry.WriterID(key.Public().WriterID()), key: key, epoch: 1, prev: f.root.id}
	out := f.seal(next, &body)
	data, err := sign.Cosign(testKey(f.t, "recovery"), out.data)
	if err != nil {
		f.t.Fatal(err)
	}
	out.data = data
	f.take(next, out)
	f.body, f.root = body, out
	f.people[0] = next
}

// prove shows two records of a writer that have one number.
func (f *fleet) prove(by *hand) {
	of := rapid.SampledFrom(f.people).Draw(f.t, "forked")
	tops := map[uint64][]string{}
	for _, out := range of.wrote {
		u, err := sign.ParseHeader(out.data)
		if err != nil {
			f.t.Fatal(err)
		}
		seq := u.Header().Seq
		if tops[seq] = append(tops[seq], string(u.Top())); len(tops[seq]) == 2 {
			f.write(by, &ferry.ForkProof{Writer: of.w, Epoch: int64(of.epoch), Seq: int64(seq), Headers: tops[seq]})
			return
		}
	}
}

// redact gives a record of somebody another body, which may be of the wrong type or about the wrong order.
func (f *fleet) redact(h *hand) {
	of := rapid.SampledFrom(f.people).Draw(f.t, "redacted")
	if len(of.wrote) == 0 {
		return
	}
	at := rapid.SampledFrom(of.wrote).Draw(f.t, "redacted record")
	u, err := sign.ParseHeader(at.data)
	if err != nil {
		f.t.Fatal(err)
	}
	text := string(u.Body())
	switch rapid.IntRange(0, 3).Draw(f.t, "redaction") {
	case 0:
		text = `{"order":"` + f.pick("order", f.orders).String() + `","action":"resume"}`
	case 1:
		text = `{"kind":"x","text":"gone","order":""}`
	case 2:
		text = strings.ReplaceAll(text, `"pause"`, `"kill"`)
	default:
		text = strings.ReplaceAll(text, `"do it"`, `"[taken out]"`)
	}
	f.write(h, &ferry.Redact{Reason: "secret", Records: []ferry.Redacted{{ID: at.id, Body: text}}})
}

func (f *fleet) work(h *hand) {
	order := f.pick("order", f.orders)
	switch rapid.IntRange(0, 8).Draw(f.t, "work") {
	case 0, 1:
		o := &ferry.Order{Label: ferry.Label(fmt.Sprintf("t-%d", f.salt)), Project: "demo", Text: "do it", NeedsApproval: true}
		if rapid.Bool().Draw(f.t, "depends") && len(f.orders) > 0 {
			o.DependsOn = []ferry.RecordID{order}
		}
		f.orders = append(f.orders, f.write(h, o).id)
	case 2:
		claim := f.write(h, &ferry.Claim{Order: order, Attempt: 1})
		f.claims = append(f.claims, claim.id)
		f.starts = append(f.starts, f.write(h, &ferry.Start{Order: order, Attempt: 1, Claim: claim.id, Engine: "codex"}).id)
	case 3:
		f.results = append(f.results, f.write(h, &ferry.Result{Order: order, Attempt: 1, Start: f.pick("start", f.starts)}).id)
	case 4:
		v := f.write(h, &ferry.Verdict{Order: order, Result: f.pick("result", f.results), Decision: ferry.DecisionKeep})
		f.verdicts = append(f.verdicts, v.id)
	case 5:
		f.write(h, &ferry.Approve{Order: order, Result: f.pick("result", f.results), Verdict: f.pick("verdict", f.verdicts)})
	case 6:
		f.write(h, &ferry.Cancel{Order: order})
	case 7:
		f.write(h, &ferry.Interrupt{Order: order, Action: ferry.ActionPause})
	default:
		f.write(h, &ferry.Note{Kind: "x", Text: "y"})
	}
}

func replicaOf(tb rapid.TB, id ferry.RecordID, files []file) *channel.Replica {
	tb.Helper()
	r := channel.NewReplica(channel.ReplicaSpec{ID: id, Judge: judge})
	for _, f := range files {
		r.Add(f.data)
		if _, err := r.Digest(); err != nil { // with everything computed in between
			tb.Fatal(err)
		}
	}
	return r
}

// The same records end in the same states and the same roster: in a replica that is handed them as they were written, in one
// that gets them in any order and twice, and in a channel that finds them in its folder in any order.
func TestAnyAuthority(t *testing.T) {
	dir := t.TempDir()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		f := newFleet(rt)
		f.draw(rapid.IntRange(5, 50).Draw(rt, "events"))
		one := replicaOf(rt, f.id, f.files)
		want, err := one.Digest()
		if err != nil {
			rt.Fatal(err)
		}
		other := replicaOf(rt, f.id, append(slices.Clone(f.files[:1]), rapid.Permutation(append(slices.Clone(f.files), f.files...)).Draw(rt, "order")...))
		if got, _ := other.Digest(); got != want {
			rt.Fatalf("in another order the digest is %s, want %s: %s", got, want, difference(one, other))
		}
		if a, b := one.Roster().Digest(), other.Roster().Digest(); a != b {
			rt.Fatalf("in another order the roster is %s, want %s", b, a)
		}
		cfg := channel.Config{
			Folder: filepath.Join(dir, fmt.Sprintf("%d-folder", run)), State: filepath.Join(dir, fmt.Sprintf("%d-state", run)), Judge: judge,
		}
		got := arrive(rt, cfg, f.id, f.files)
		if got.Digest != want {
			rt.Fatalf("in a channel the digest is %s, want %s", got.Digest, want)
		}
		for _, p := range got.Problems {
			if p.Kind == channel.ProblemIndex {
				rt.Fatalf("problem %+v", p)
			}
		}
	})
}

func difference(a, b *channel.Replica) string {
	for _, t := range a.Tasks() {
		u, ok := b.Task(t.ID)
		if !ok || u.State != t.State || u.Hold != t.Hold {
			return fmt.Sprintf("%s is %s (%s), and %s (%s)", t.Order.Label, t.State, t.Hold, u.State, u.Hold)
		}
	}
	return fmt.Sprintf("%d and %d orders", len(a.Tasks()), len(b.Tasks()))
}

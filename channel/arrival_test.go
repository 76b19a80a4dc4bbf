package channel_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

// file is a record as it lies in a folder.
type file struct {
	path string
	data []byte
	id   ferry.RecordID
}

// pen seals records of one writer without asking whether they make sense or may be written.
type pen struct {
	key     sign.Key
	channel ferry.RecordID
	prev    ferry.RecordID
	seq     uint64
}

func (p *pen) write(tb rapid.TB, b ferry.Body) file {
	tb.Helper()
	body, err := sign.EncodeJSON(b)
	if err != nil {
		tb.Fatal(err)
	}
	f := p.seal(tb, sign.Header{Type: string(b.Type())}, body)
	p.seq, p.prev = p.seq+1, f.id
	return f
}

// seal makes a record at the next place without taking the place.
func (p *pen) seal(tb rapid.TB, h sign.Header, body []byte) file {
	tb.Helper()
	h.Channel, h.Writer, h.Epoch, h.Seq, h.Prev, h.Time = p.channel, p.key.Public().WriterID(), 1, p.seq+1, p.prev, start
	data, err := sign.Seal(p.key, h, body)
	if err != nil {
		tb.Fatal(err)
	}
	return toFile(tb, data)
}

func toFile(tb rapid.TB, data []byte) file {
	tb.Helper()
	u, err := sign.ParseHeader(data)
	if err != nil {
		tb.Fatal(err)
	}
	id := u.ID()
	name := fmt.Sprintf("w/%s/t/%04d-%010d-%s.fr", u.Header().Writer, u.Header().Epoch, u.Header().Seq, hex.EncodeToString(id[:16]))
	return file{path: name, data: data, id: id}
}

// deliver puts a file into a folder, as a carrier does.
func deliver(tb rapid.TB, folder string, f file) {
	tb.Helper()
	name := filepath.Join(folder, f.path)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(name, f.data, 0o644); err != nil {
		tb.Fatal(err)
	}
}

// history draws the records of a master, two workers and a reviewer: some sensible, some not permitted, some about orders
// that do not exist, and some signed twice.
type history struct {
	t       *rapid.T
	pens    map[string]*pen
	files   []file
	orders  []ferry.RecordID
	claims  []ferry.RecordID
	starts  []ferry.RecordID
	results []ferry.RecordID
}

func newHistory(t *rapid.T) (*history, ferry.RecordID) {
	h := &history{t: t, pens: map[string]*pen{}}
	master := &pen{key: testKey(t, "master")}
	root := master.write(t, &ferry.Root{Version: 1, Project: "demo", Master: testMember(master.key, "master"), Recovery: []string{}, Threshold: 1})
	master.channel = root.id
	h.files, h.pens["master"] = append(h.files, root), master
	for _, m := range []struct {
		name   string
		grants []ferry.Grant
	}{{"wisp", []ferry.Grant{ferry.GrantWork}}, {"moth", []ferry.Grant{ferry.GrantWork, ferry.GrantOrder}}, {"lynx", []ferry.Grant{ferry.GrantReview}}} {
		key := testKey(t, m.name)
		in := master.write(t, &ferry.Admit{Member: testMember(key, m.name, m.grants...), Epoch: 1})
		h.files = append(h.files, in)
		h.pens[m.name] = &pen{key: key, channel: root.id, prev: in.id}
	}
	return h, root.id
}

func (h *history) pick(what string, from []ferry.RecordID) ferry.RecordID {
	if len(from) == 0 || rapid.IntRange(0, 19).Draw(h.t, what+" is odd") == 0 {
		var id ferry.RecordID
		id[31] = byte(rapid.IntRange(1, 3).Draw(h.t, what))
		return id
	}
	return rapid.SampledFrom(from).Draw(h.t, what)
}

func (h *history) body(n int) ferry.Body {
	order := h.pick("order", h.orders)
	attempt := int64(rapid.IntRange(1, 3).Draw(h.t, "attempt"))
	switch rapid.SampledFrom([]ferry.Type{
		ferry.TypeOrder, ferry.TypeOrder, ferry.TypeClaim, ferry.TypeClaim, ferry.TypeStart, ferry.TypeStart, ferry.TypeResult,
		ferry.TypeResult, ferry.TypeStop, ferry.TypeVerdict, ferry.TypeApprove, ferry.TypeCancel, ferry.TypeInterrupt,
		ferry.TypeQuestion, ferry.TypeLanded, ferry.TypeAdmit, ferry.TypeNote,
	}).Draw(h.t, "type") {
	case ferry.TypeOrder:
		o := &ferry.Order{
			Label: ferry.Label(fmt.Sprintf("t-%d", n)), Project: "demo", Text: "do it",
			NeedsReview: rapid.Bool().Draw(h.t, "review"), MaxAttempts: 1,
		}
		if rapid.Bool().Draw(h.t, "depends") {
			o.DependsOn = []ferry.RecordID{order}
		}
		return o
	case ferry.TypeClaim:
		return &ferry.Claim{Order: order, Attempt: attempt}
	case ferry.TypeStart:
		return &ferry.Start{Order: order, Attempt: attempt, Claim: h.pick("claim", h.claims), Engine: "codex"}
	case ferry.TypeResult:
		exit := int64(rapid.IntRange(0, 1).Draw(h.t, "exit"))
		return &ferry.Result{Order: order, Attempt: attempt, Start: h.pick("start", h.starts), Checks: []ferry.Check{{Command: "true", Exit: exit}}}
	case ferry.TypeStop:
		return &ferry.Stop{Order: order, Start: h.pick("start", h.starts), Reason: ferry.StopFailed}
	case ferry.TypeVerdict:
		d := rapid.SampledFrom([]ferry.Decision{ferry.DecisionKeep, ferry.DecisionChanges, ferry.DecisionReject}).Draw(h.t, "decision")
		return &ferry.Verdict{Order: order, Result: h.pick("result", h.results), Decision: d}
	case ferry.TypeApprove:
		return &ferry.Approve{Order: order, Result: h.pick("result", h.results)}
	case ferry.TypeCancel:
		return &ferry.Cancel{Order: order}
	case ferry.TypeInterrupt:
		return &ferry.Interrupt{Order: order, Action: ferry.ActionPause}
	case ferry.TypeQuestion:
		return &ferry.Question{Order: order, Key: "k", Text: "?", Options: []ferry.Option{{Name: "retry"}}}
	case ferry.TypeLanded:
		return &ferry.Landed{Order: order, Result: h.pick("result", h.results)}
	case ferry.TypeAdmit: // more grants for a member: what it wrote before counts from then on
		return &ferry.Admit{Member: testMember(h.pens["lynx"].key, "lynx", ferry.GrantOrder, ferry.GrantWork), Epoch: 1}
	}
	return &ferry.Note{Kind: "remark", Text: "x"}
}

// draw adds n records.
func (h *history) draw(n int) {
	names := []string{"master", "wisp", "moth", "lynx"}
	for i := range n {
		p := h.pens[rapid.SampledFrom(names).Draw(h.t, "writer")]
		b := h.body(i)
		if rapid.IntRange(0, 11).Draw(h.t, "fork") == 0 {
			h.files = append(h.files, p.seal(h.t, sign.Header{Type: "note"}, []byte(fmt.Sprintf(`{"order":"","kind":"fork","text":"%d"}`, i))))
		}
		f := p.write(h.t, b)
		h.files = append(h.files, f)
		switch b.Type() {
		case ferry.TypeOrder:
			h.orders = append(h.orders, f.id)
		case ferry.TypeClaim:
			h.claims = append(h.claims, f.id)
		case ferry.TypeStart:
			h.starts = append(h.starts, f.id)
		case ferry.TypeResult:
			h.results = append(h.results, f.id)
		}
	}
}

// The same records, in any order, in any batches, repeated and with restarts and lost indexes between, end in the same
// states: those that VerifyDir computes from the files alone.
func TestAnyArrival(t *testing.T) {
	dir := t.TempDir()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		h, id := newHistory(rt)
		h.draw(rapid.IntRange(5, 40).Draw(rt, "records"))
		whole := filepath.Join(dir, fmt.Sprintf("%d-whole", run))
		for _, f := range h.files {
			deliver(rt, whole, f)
		}
		want, err := channel.VerifyDir(t.Context(), whole, id, judge)
		if err != nil {
			rt.Fatal(err)
		}
		cfg := channel.Config{
			Folder: filepath.Join(dir, fmt.Sprintf("%d-folder", run)), State: filepath.Join(dir, fmt.Sprintf("%d-state", run)), Judge: judge,
		}
		got := arrive(rt, cfg, id, h.files)
		if got.Digest != want.Digest || got.Records != want.Records {
			rt.Fatalf("digest %s over %d records, want %s over %d", got.Digest, got.Records, want.Digest, want.Records)
		}
		for _, p := range got.Problems {
			if p.Kind != channel.ProblemFork {
				rt.Fatalf("problem %+v", p)
			}
		}
	})
}

// arrivals draws an order: any at all, or as written with some files late, so that long chains are there before they come.
func arrivals(rt *rapid.T, files []file) []file {
	if rapid.Bool().Draw(rt, "any order") {
		return rapid.Permutation(files).Draw(rt, "order")
	}
	order := slices.Clone(files)
	for range rapid.IntRange(0, 8).Draw(rt, "late files") {
		i := rapid.IntRange(0, len(order)-1).Draw(rt, "late")
		late := order[i]
		order = append(slices.Delete(order, i, i+1), late)
	}
	return order
}

// arrive delivers files to a machine of its own in a drawn order, and verifies it in the end.
func arrive(rt *rapid.T, cfg channel.Config, id ferry.RecordID, files []file) channel.VerifyReport {
	rt.Helper()
	deliver(rt, cfg.Folder, files[0]) // Open needs the root
	order := arrivals(rt, files)
	c, err := channel.Open(rt.Context(), cfg, id)
	if err != nil {
		rt.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			rt.Error(err)
		}
	}()
	for len(order) > 0 {
		n := rapid.IntRange(1, len(order)).Draw(rt, "batch")
		for _, f := range order[:n] {
			deliver(rt, cfg.Folder, f)
		}
		again := rapid.SampledFrom(files).Draw(rt, "again")
		if slices.ContainsFunc(order[n:], func(f file) bool { return f.path == again.path }) {
			again = files[0]
		}
		deliver(rt, cfg.Folder, again)
		order = order[n:]
		if _, err := c.Refresh(rt.Context()); err != nil {
			rt.Fatal(err)
		}
		switch rapid.IntRange(0, 9).Draw(rt, "accident") {
		case 0, 1:
			lose := rapid.Bool().Draw(rt, "lose the index")
			if err := c.Close(); err != nil {
				rt.Fatal(err)
			}
			if lose {
				if err := os.Remove(filepath.Join(cfg.State, "index.db")); err != nil {
					rt.Fatal(err)
				}
			}
			if c, err = channel.Open(rt.Context(), cfg, id); err != nil {
				rt.Fatal(err)
			}
		}
	}
	r, err := c.Verify(rt.Context())
	if err != nil {
		rt.Fatal(err)
	}
	return r
}

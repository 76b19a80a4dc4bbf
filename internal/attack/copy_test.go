package attack_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

// worked is a fleet in which one order was reviewed and approved, one has a result that waits, one runs, and one is open.
type worked struct {
	*fleet
	good, waits, runs, open                 ferry.RecordID
	goodStart, goodResult, verdict, approve ferry.RecordID
	waitStart, waitResult, start, question  ferry.RecordID
}

func newWorked(t testing.TB) *worked {
	t.Helper()
	w := &worked{fleet: newFleet(t)}
	w.good, w.waits, w.runs, w.open = w.say(asked("good")), w.say(asked("waits")), w.say(asked("runs")), w.say(asked("open"))
	w.goodStart, w.goodResult = w.finish(w.good)
	w.waitStart, w.waitResult = w.finish(w.waits)
	_, w.start = w.begin(w.left, w.wisp, w.runs)
	w.sync()
	w.verdict = write(t, w.lynx, &ferry.Verdict{Order: w.good, Result: w.goodResult, Decision: ferry.DecisionKeep})
	w.question = write(t, w.wisp, &ferry.Question{
		Order: w.runs, Key: "which", Text: "which?", Options: []ferry.Option{{Name: "a", Text: "a"}, {Name: ferry.OptionCancel, Text: "drop"}},
	})
	w.sync()
	w.approve = w.say(&ferry.Approve{Order: w.good, Result: w.goodResult, Verdict: w.verdict})
	w.say(&ferry.Policy{Kind: ferry.PolicyEngine, Version: 1, Text: "a"})
	w.say(&ferry.Cancel{Order: w.say(asked("dropped"))})
	w.say(&ferry.Interrupt{Order: w.say(asked("killed")), Action: ferry.ActionKill})
	w.wantState(w.good, ferry.StateApproved)
	w.wantState(w.waits, ferry.StateAwaitingReview)
	w.wantState(w.runs, ferry.StateRunning)
	w.wantState(w.open, ferry.StateOpen)
	return w
}

// A genuine record says the same wherever it is copied to, under whatever name.
func TestCopiedRecord(t *testing.T) {
	w := newWorked(t)
	records := w.records()
	w.unmoved("copying every record to every place", func() {
		for i, r := range records {
			name := filepath.Base(r.path)
			for _, of := range []string{"ada", "wisp", "moth", "lynx", "stranger"} {
				at := "w/" + string(wid(t, of))
				w.put(at+"/t/"+name, r.data)
				w.put(at+"/t/"+fmt.Sprintf("0001-%010d-%s", 40+i, name[16:]), r.data)
				w.put(at+"/t/"+"0002"+name[4:], r.data)
				w.put(at+"/t/"+name[:16]+strings.Repeat("a", 32)+".fr", r.data)
				w.put(at+"/p/"+name, r.data)
				w.put(at+"/p/"+name[:15]+name[4:15]+"-"+strings.Repeat("b", 32)+".fp", r.data)
				w.put(at+"/beat", r.data)
				w.put(at+"/r/"+string(wid(t, "wisp"))+"/t/"+name, r.data)
				w.put(at+"/r/"+string(wid(t, "ada"))+"/t/"+name, r.data)
			}
			w.put("j/0123456789abcdef/"+string(wid(t, "stranger"))+".fj", r.data)
			w.put(name, r.data)
			w.put("w/"+name, r.data)
		}
	})
}

// A verdict, a kill or a landing that names another order than the record it rests on has no effect on either.
func TestRecordOfAnotherOrder(t *testing.T) {
	w := newWorked(t)
	reviewer, worker := w.pen("lynx"), w.admit("hand", ferry.GrantWork)
	master := w.pen("ada")
	w.unmoved("naming the result, start or question of another order", func() {
		for _, to := range []ferry.RecordID{w.waits, w.runs, w.open} {
			reviewer.write(&ferry.Verdict{Order: to, Result: w.goodResult, Decision: ferry.DecisionKeep})
			master.write(&ferry.Approve{Order: to, Result: w.goodResult, Verdict: w.verdict})
			master.write(&ferry.Landed{Order: to, Result: w.goodResult, Verdict: w.verdict, Approve: w.approve, Target: "main"})
			worker.write(&ferry.Run{Order: to, Start: w.goodStart, Attempt: 1, N: 1})
			worker.write(&ferry.Result{Order: to, Start: w.goodStart, Attempt: 1, Revision: 1})
			worker.write(&ferry.Stop{Order: to, Start: w.goodStart, Reason: ferry.StopFailed})
			master.write(&ferry.Retire{Order: to, Start: w.goodStart})
		}
		for _, to := range []ferry.RecordID{w.good, w.waits, w.open} {
			master.write(&ferry.Retire{Order: to, Start: w.start})
			master.write(&ferry.Interrupt{Order: to, Action: ferry.ActionResume, Seen: []ferry.RecordID{w.question}})
			master.write(&ferry.Answer{Order: to, Question: w.question, Option: ferry.OptionCancel})
		}
		master.write(&ferry.Approve{Order: w.good, Result: w.waitResult})
		master.write(&ferry.Approve{Order: w.waits, Result: w.waitStart})
		master.write(&ferry.Verdict{Order: w.waits, Result: w.waits, Decision: ferry.DecisionKeep})
	})
}

// Nothing of a record can be taken for a part of another: header, signature and body hold together.
func TestTransplants(t *testing.T) {
	w := newWorked(t)
	records := w.records()
	split := func(r paper) (header, sig, body string) {
		head, body, _ := strings.Cut(string(r.data), "\n\n")
		i := strings.Index(head, "\nsig ") + 1
		return head[:i], head[i:], body
	}
	lines := func(header string) []string { return strings.SplitAfter(strings.TrimSuffix(header, "\n"), "\n") }
	dir := "w/" + string(wid(t, "ada")) + "/t/"
	n := 0
	try := func(data string) {
		n++
		name := fmt.Sprintf("%s0001-%010d-%032x.fr", dir, 30+n, n)
		if u, err := sign.ParseHeader([]byte(data)); err == nil {
			id := ferry.RecordID(u.ID())
			name = fmt.Sprintf("w/%s/t/%04d-%010d-%s.fr", u.Header().Writer, u.Header().Epoch, u.Header().Seq, id.String()[:32])
			if slices.ContainsFunc(records, func(r paper) bool { return r.path == name }) {
				name += "x"
			}
		}
		w.put(name, []byte(data))
	}
	w.unmoved("taking records apart and putting them together", func() {
		for i, a := range records {
			b := records[(i+1)%len(records)]
			ha, sa, ba := split(a)
			hb, sb, bb := split(b)
			try(ha + sb + "\n\n" + ba)
			try(ha + sa + "\n\n" + bb)
			try(hb + sa + "\n\n" + bb)
			try(ha + sa + "\n" + sb + "\n\n" + bb)
			la, lb := lines(ha), lines(hb)
			for k := range la {
				mixed := slices.Clone(la)
				mixed[k] = strings.TrimSuffix(lb[k], "\n") + "\n"
				if strings.Join(mixed, "") == ha {
					continue
				}
				try(strings.Join(mixed, "") + sa + "\n\n" + ba)
			}
		}
	})
	if n < 100 {
		t.Errorf("%d records were forged, want more", n)
	}
}

// Every field of the header is part of what is signed, and a record at a place that is not its own is no part of a chain.
func TestHeaderFields(t *testing.T) {
	w := newWorked(t)
	kill := []byte(`{"order":"` + w.runs.String() + `","action":"kill"}`)
	p := w.pen("ada")
	edits := map[string]func(h *sign.Header){
		"channel": func(h *sign.Header) { h.Channel[0] ^= 1 },
		"writer":  func(h *sign.Header) { h.Writer = sign.WriterID(wid(t, "wisp")) },
		"epoch":   func(h *sign.Header) { h.Epoch = 2 },
		"seq":     func(h *sign.Header) { h.Seq += 5 },
		"prev":    func(h *sign.Header) { h.Prev[3] ^= 1 },
		"type":    func(h *sign.Header) { h.Type = "interrupt.2" },
		"blob":    func(h *sign.Header) { h.Blob = true },
	}
	for name, edit := range edits {
		if name == "type" || name == "blob" {
			continue // they take a place in the chain, below
		}
		w.unmoved("a kill with another "+name, func() {
			r := p.seal("interrupt", kill, edit)
			w.put(r.path, r.data)
			own := p.seal("interrupt", kill, nil)
			if !bytes.Equal(r.data, own.data) {
				w.put(strings.Replace(own.path, own.id.String()[:32], r.id.String()[:32], 1), r.data)
			}
		})
	}
	// One of another type or without a body stands in the chain of the one writer who may say it, and says nothing.
	w.unmoved("a kill of a type that nobody knows", func() {
		r := p.seal("interrupt.2", kill, nil)
		p.seq, p.prev = p.seq+1, r.id
		w.put(r.path, r.data)
	})
	if v := w.verifyDir(); v.Digest == "" {
		t.Error("no digest")
	}
}

func (f *fleet) verifyDir() channel.VerifyReport {
	f.t.Helper()
	v, err := channel.VerifyDir(f.t.Context(), f.folder, f.id, judge)
	must(f.t, err)
	return v
}

// A key can speak for its own writer only, whoever's directory it writes into.
func TestKeyOfAnotherWriter(t *testing.T) {
	w := newWorked(t)
	hand := w.admit("hand", ferry.GrantWork, ferry.GrantOrder, ferry.GrantLand)
	kill, err := sign.EncodeJSON(&ferry.Interrupt{Order: w.runs, Action: ferry.ActionKill})
	must(t, err)
	w.unmoved("signing for others", func() {
		for _, of := range []string{"ada", "wisp", "moth", "lynx"} {
			place := w.pen(of)
			r := hand.seal("interrupt", kill, func(h *sign.Header) {
				h.Writer, h.Seq, h.Prev = sign.WriterID(wid(t, of)), place.seq+1, place.prev
			})
			w.put(r.path, r.data)
			// With the signature of its own beside that of another, it is still not that writer's.
			cosigned, err := sign.Cosign(key(t, "stranger"), r.data)
			must(t, err)
			w.put("w/"+string(wid(t, of))+"/t/"+filepath.Base(r.path), cosigned)
		}
	})
}

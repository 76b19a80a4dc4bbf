package ferry

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"
)

// History is everything that counts about one order.
type History struct {
	Channel  RecordID
	ID       RecordID
	Order    *Order
	Issuer   WriterID
	IssuedAt time.Time
	Records  []Record // counted records whose subject is ID, in any order
	// Name gives the name of a member. It is asked where the order is addressed to an agent.
	Name func(WriterID) AgentName
}

// View is what an order needs to know of everything else.
type View struct {
	// Depend gives the label and state of another order; known is false when
	// this machine has not seen it.
	Depend func(RecordID) (label Label, s State, known bool)
	Judge  Judge
}

// Rank orders the claims of one attempt: the smaller wins. It depends on the
// channel, the order, the attempt and the writer only, so nobody can choose
// it (channel.md 3.2).
func Rank(channel, order RecordID, attempt int64, w WriterID) [32]byte {
	h := sha256.New()
	h.Write([]byte("ferry-rank-v1"))
	h.Write(channel[:])
	h.Write(order[:])
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(attempt))
	h.Write(n[:])
	h.Write([]byte(w))
	return [32]byte(h.Sum(nil))
}

// Fold computes the task from the set of its records. It is pure, and the
// order of the records does not matter.
func Fold(h History, v View) Task {
	f := fold{h: h, v: v, forgiven: map[RecordID]bool{}}
	f.t = Task{ID: h.ID, Order: h.Order, Issuer: h.Issuer, IssuedAt: h.IssuedAt}
	f.sort()
	f.addressee()
	f.lift()
	f.bar()
	f.attempts()
	f.results()
	f.behind()
	f.live()
	f.stand()
	f.next()
	f.state()
	return f.t
}

// fold is the working set of one Fold: records by type, each sorted by id.
type fold struct {
	h History
	v View
	t Task

	claims, starts, runs, stops, handed, verdicts, approves []Record
	landed, cancels, interrupts, questions, answers         []Record
	retires, reassigns                                      []Record

	forgiven map[RecordID]bool  // what a retry lifted
	barred   map[WriterID]int64 // the attempt after which those of a writer do not count
	kill     bool
	cancel   bool
	reason   string              // of the kill, the cancel or the rejection
	denied   []Record            // rejections in force
	retired  map[RecordID]Record // starts and claims that somebody else ended, by the record that did
}

func (f *fold) sort() {
	into := map[Type]*[]Record{
		TypeClaim: &f.claims, TypeStart: &f.starts, TypeRun: &f.runs, TypeStop: &f.stops, TypeResult: &f.handed,
		TypeVerdict: &f.verdicts, TypeApprove: &f.approves, TypeLanded: &f.landed, TypeCancel: &f.cancels,
		TypeInterrupt: &f.interrupts, TypeQuestion: &f.questions, TypeAnswer: &f.answers,
		TypeRetire: &f.retires, TypeReassign: &f.reassigns,
	}
	seen := map[RecordID]bool{}
	for _, r := range f.h.Records {
		if seen[r.ID] {
			continue
		}
		seen[r.ID] = true
		if o, ok := r.Body.(*Opaque); ok {
			f.t.opaque(o)
		} else if to := into[r.Body.Type()]; to != nil {
			*to = append(*to, r)
		}
	}
	slices.Sort(f.t.Opaque)
	f.t.Opaque = slices.Compact(f.t.Opaque)
	for _, list := range into {
		slices.SortFunc(*list, func(a, b Record) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	}
}

// opaque notes what of the order only a newer ferry can read.
func (t *Task) opaque(o *Opaque) {
	if len(o.Need) == 0 {
		t.Opaque = append(t.Opaque, string(o.Is))
	}
	for _, feature := range o.Need {
		t.Opaque = append(t.Opaque, string(o.Is)+" with "+feature)
	}
}

// addressee finds who may take the order, and what others have ended. The strongest reassignment says for whom the order is;
// what any of them has ended stays ended, or a later one would bring it to life again.
func (f *fold) addressee() {
	f.t.To = f.h.Order.To
	f.retired = map[RecordID]Record{}
	end := func(id RecordID, r Record) {
		if old, ok := f.retired[id]; !id.IsZero() && (!ok || stronger(r, old)) {
			f.retired[id] = r
		}
	}
	for _, r := range f.retires {
		b := r.Body.(*Retire)
		end(b.Start, r)
		end(b.Claim, r)
	}
	var best *Record
	for i, r := range f.reassigns {
		b := r.Body.(*Reassign)
		for _, id := range b.Ends {
			end(id, r)
		}
		if best == nil || stronger(r, *best) {
			best, f.t.To = &f.reassigns[i], b.To
		}
	}
}

// lift reads cancels, interrupts and answers: what ends the order, pauses it,
// forgives failures or speaks to its engine.
func (f *fold) lift() {
	lifted := map[RecordID]bool{}
	for _, r := range f.interrupts {
		b := r.Body.(*Interrupt)
		switch b.Action {
		case ActionKill:
			f.kill, f.reason = true, b.Note
		case ActionResume:
			for _, id := range b.Seen {
				lifted[id] = true
			}
		case ActionRetry:
			f.forgive(b.Seen)
		}
	}
	for _, r := range f.interrupts {
		if b := r.Body.(*Interrupt); b.Action == ActionPause && !lifted[r.ID] {
			f.t.Paused = true
			f.t.Pauses = append(f.t.Pauses, r.ID)
		}
	}
	f.questionsAndAnswers()
	for _, r := range f.cancels {
		f.cancel, f.reason = true, r.Body.(*Cancel).Reason
	}
}

func (f *fold) questionsAndAnswers() {
	answered := map[RecordID]string{}
	best := map[RecordID]Record{}
	dropped := map[RecordID]bool{} // a cancel holds, whatever another answer says: a final state is never left
	for _, r := range f.answers {
		b := r.Body.(*Answer)
		dropped[b.Question] = dropped[b.Question] || b.Option == OptionCancel
		if old, ok := best[b.Question]; !ok || stronger(r, old) {
			best[b.Question] = r
			answered[b.Question] = b.Option
		}
	}
	settled := map[string]bool{} // a key is one question, however many machines asked it
	for _, r := range f.questions {
		q := r.Body.(*Question)
		option, ok := answered[r.ID]
		if !ok {
			continue
		}
		if !settled[q.Key] {
			f.t.Answered = append(f.t.Answered, q.Key)
		}
		settled[q.Key] = true
		switch {
		case dropped[r.ID]:
			f.cancel, f.reason = true, "answered: cancel"
		case option == OptionRetry:
			f.forgive(q.Seen)
		}
	}
	slices.Sort(f.t.Answered)
	for _, r := range f.questions {
		if q := r.Body.(*Question); !settled[q.Key] {
			settled[q.Key] = true
			f.t.Questions = append(f.t.Questions, Open{ID: r.ID, At: r.Time, Question: q})
		}
	}
}

func (f *fold) forgive(ids []RecordID) {
	for _, id := range ids {
		f.forgiven[id] = true
	}
}

// stronger reports whether verdict, approval or answer a outweighs b: the
// higher authority, then the later word of one writer, then the smaller id.
func stronger(a, b Record) bool {
	if a.Level != b.Level {
		return a.Level < b.Level
	}
	if a.Writer == b.Writer {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Seq, b.Seq)) > 0
	}
	return bytes.Compare(a.ID[:], b.ID[:]) < 0
}

// maxSkip is the number up to which an attempt counts whatever is known of those below it. From there on one follows another, or
// a single start would leave no number for the next.
const maxSkip = 1000

// addressed reports whether an order was ever given to a writer: to everybody, or to its name. What it began stays its own
// when the order goes to somebody else.
func (f *fold) addressed(w WriterID) bool {
	to := []AgentName{f.h.Order.To}
	for _, r := range f.reassigns {
		to = append(to, r.Body.(*Reassign).To)
	}
	return slices.Contains(to, "") || f.h.Name != nil && slices.Contains(to, f.h.Name(w))
}

// attempts joins starts with their runs and stops. Of several starts of one attempt by one writer, and of several stops or
// results of one start, the first in the writer's chain counts: what comes after it cannot take its place.
func (f *fold) attempts() {
	claims := map[RecordID]Record{}
	for _, r := range f.claims {
		claims[r.ID] = r
	}
	at, begun, handed := map[RecordID]int{}, map[place]bool{}, map[place]bool{}
	for _, r := range f.handed { // work that is there counts, and what rests on it, however late it began
		handed[place{0, r.Writer, r.Body.(*Result).Start}] = true
	}
	starts := inChain(f.starts)
	slices.SortStableFunc(starts, func(a, b Record) int { return cmp.Compare(a.Body.(*Start).Attempt, b.Body.(*Start).Attempt) })
	for _, r := range starts {
		b := r.Body.(*Start)
		if b.Attempt > max(maxSkip, f.t.Attempt+1) {
			break
		}
		if !f.addressed(r.Writer) || f.late(r.Writer, b.Attempt) && !handed[place{0, r.Writer, r.ID}] {
			continue
		}
		c, ok := claims[b.Claim]
		if !ok || c.Writer != r.Writer || c.Body.(*Claim).Attempt != b.Attempt || b.Attempt < 1 || begun[place{b.Attempt, r.Writer, RecordID{}}] {
			continue // a start stands on its writer's own claim of the same attempt
		}
		begun[place{b.Attempt, r.Writer, RecordID{}}] = true
		at[r.ID] = len(f.t.Attempts)
		f.t.Attempts = append(f.t.Attempts, Attempt{N: b.Attempt, Holder: r.Writer, Start: r.ID, Begun: b, At: r.Time})
		f.t.Attempt = max(f.t.Attempt, b.Attempt)
	}
	for _, r := range f.runs {
		b := r.Body.(*Run)
		if i, ok := at[b.Start]; ok && f.t.Attempts[i].Holder == r.Writer {
			f.t.Attempts[i].Runs = append(f.t.Attempts[i].Runs, *b)
		}
	}
	for _, r := range inChain(f.stops) {
		b := r.Body.(*Stop)
		if i, ok := at[b.Start]; ok && f.t.Attempts[i].Holder == r.Writer && f.t.Attempts[i].Stop == nil {
			f.t.Attempts[i].end(b, r)
		}
	}
	for i := range f.t.Attempts {
		a := &f.t.Attempts[i]
		if r, ok := f.retired[a.Start]; ok && a.Stop == nil { // the writer's own word says more
			a.end(&Stop{Order: f.h.ID, Start: a.Start, Reason: StopRetired, Note: retirement(r)}, r)
		}
		slices.SortStableFunc(a.Runs, func(a, b Run) int { return cmp.Compare(a.N, b.N) })
	}
	f.t.steersLeft(f.interrupts)
}

func (a *Attempt) end(b *Stop, r Record) {
	a.Stop, a.StopID, a.EndedAt = b, r.ID, &r.Time
}

// retirement words why somebody else ended an attempt.
func retirement(r Record) string {
	reason := ""
	switch b := r.Body.(type) {
	case *Retire:
		reason = b.Reason
	case *Reassign:
		reason = b.Reason
		if reason == "" && b.To != "" {
			reason = "given to " + string(b.To)
		}
	}
	if reason == "" {
		return "retired"
	}
	return "retired: " + reason
}

// inChain gives records so that those of one writer are in the order of its chain.
func inChain(records []Record) []Record {
	out := slices.Clone(records)
	slices.SortStableFunc(out, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Writer, b.Writer), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Seq, b.Seq))
	})
	return out
}

// steersLeft keeps the steers that no run was told of.
func (t *Task) steersLeft(interrupts []Record) {
	told := map[RecordID]bool{}
	for _, a := range t.Attempts {
		for _, r := range a.Runs {
			for _, id := range r.Steers {
				told[id] = true
			}
		}
	}
	for _, r := range interrupts {
		if b := r.Body.(*Interrupt); b.Action == ActionSteer {
			t.Steered++
			if !told[r.ID] {
				t.Steers = append(t.Steers, Steer{ID: r.ID, Note: b.Note})
			}
		}
	}
}

// place is where an attempt, a claim or a result stands among others of its order.
type place struct {
	attempt int64
	writer  WriterID
	id      RecordID
}

// compare puts the lower attempt first, then the smaller rank.
func (f *fold) compare(a, b place) int {
	if c := cmp.Compare(a.attempt, b.attempt); c != 0 {
		return c
	}
	x, y := Rank(f.h.Channel, f.h.ID, a.attempt, a.writer), Rank(f.h.Channel, f.h.ID, b.attempt, b.writer)
	return cmp.Or(bytes.Compare(x[:], y[:]), bytes.Compare(a.id[:], b.id[:]))
}

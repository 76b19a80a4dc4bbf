package ferry_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ferry-fleet/ferry"
)

const (
	master = ferry.WriterID("mastermastermastermasterma")
	wisp   = ferry.WriterID("wispwispwispwispwispwispwi")
	gale   = ferry.WriterID("galegalegalegalegalegalega")
	critic = ferry.WriterID("criticcriticcriticcriticcr")
)

// story builds the records of one order: each step adds one record and says
// its name, so that later steps can refer to it.
type story struct {
	order ferry.Order
	recs  []ferry.Record
	names map[string]ferry.RecordID
	seq   map[ferry.WriterID]uint64
}

func id(name string) ferry.RecordID { return sha256.Sum256([]byte(name)) }

func newStory(order ferry.Order) *story {
	order.Label, order.Text, order.Base = "t-first", "do it", commit("base")
	return &story{order: order, names: map[string]ferry.RecordID{}, seq: map[ferry.WriterID]uint64{}}
}

func commit(name string) ferry.Commit { return ferry.Commit(id(name).String()[:40]) }

func (s *story) add(name string, w ferry.WriterID, b ferry.Body) *story {
	level := ferry.LevelGrant
	if w == master {
		level = ferry.LevelMaster
	}
	s.seq[w]++
	s.names[name] = id(name)
	s.recs = append(s.recs, ferry.Record{
		ID: id(name), Writer: w, Epoch: 1, Seq: s.seq[w], Level: level, Body: b,
		Time: time.Date(2026, 11, 30, 12, 0, len(s.recs), 0, time.UTC),
	})
	return s
}

func (s *story) claim(w ferry.WriterID, n int64) *story {
	return s.add(fmt.Sprintf("claim%d-%s", n, w[:4]), w, &ferry.Claim{Order: id("order"), Attempt: n})
}

func (s *story) start(w ferry.WriterID, n int64) *story {
	s.claim(w, n)
	return s.add(fmt.Sprintf("start%d-%s", n, w[:4]), w, &ferry.Start{
		Order: id("order"), Attempt: n, Claim: id(fmt.Sprintf("claim%d-%s", n, w[:4])), From: s.order.Base,
	})
}

func (s *story) stop(w ferry.WriterID, n int64, why ferry.StopReason) *story {
	return s.add(fmt.Sprintf("stop%d-%s", n, w[:4]), w, &ferry.Stop{
		Order: id("order"), Start: id(fmt.Sprintf("start%d-%s", n, w[:4])), Claim: id(fmt.Sprintf("claim%d-%s", n, w[:4])),
		Reason: why, Note: "it " + string(why), Commit: commit(fmt.Sprintf("left%d", n)),
	})
}

// result hands in attempt n; summary "refute" makes the judge of these tests
// refute it.
func (s *story) result(w ferry.WriterID, n int64, summary string) *story {
	name := fmt.Sprintf("result%d-%s", n, w[:4])
	return s.add(name, w, &ferry.Result{
		Order: id("order"), Attempt: n, Start: id(fmt.Sprintf("start%d-%s", n, w[:4])), Summary: summary, Commit: commit(name),
	})
}

func (s *story) work(w ferry.WriterID, n int64, summary string) *story {
	return s.start(w, n).result(w, n, summary)
}

func (s *story) verdict(name string, w ferry.WriterID, result string, d ferry.Decision) *story {
	v := &ferry.Verdict{Order: id("order"), Decision: d, Notes: "notes of " + name}
	if result != "" {
		v.Result = id(result)
	}
	return s.add(name, w, v)
}

func (s *story) approve(w ferry.WriterID, result string) *story {
	return s.add("approve", w, &ferry.Approve{Order: id("order"), Result: id(result), Commit: commit(result)})
}

// land lands a result on the word of a verdict or an approval, or of none.
func (s *story) land(result, word string) *story {
	b := &ferry.Landed{Order: id("order"), Result: id(result), Target: "main", Commit: commit("landed")}
	switch word {
	case "":
	case "approve":
		b.Approve = id(word)
	default:
		b.Verdict = id(word)
	}
	return s.add("landed", master, b)
}

// vouch says that something landed, with its digest.
func (s *story) vouch(name string, w ferry.WriterID, result, content string) *story {
	return s.add(name, w, &ferry.Landed{Order: id("order"), Result: id(result), Target: "main", Commit: commit("landed"), Content: content})
}

func (s *story) interrupt(name string, a ferry.Action, seen ...string) *story {
	b := &ferry.Interrupt{Order: id("order"), Action: a, Note: "note of " + name}
	for _, n := range seen {
		b.Seen = append(b.Seen, id(n))
	}
	return s.add(name, master, b)
}

func (s *story) ask(name, key string, seen ...string) *story {
	q := &ferry.Question{Order: id("order"), Key: key, Text: "and now?", Options: []ferry.Option{{Name: "retry"}, {Name: "cancel"}}}
	for _, n := range seen {
		q.Seen = append(q.Seen, id(n))
	}
	return s.add(name, wisp, q)
}

func (s *story) answer(question, option string) *story {
	return s.add("answer-"+question, master, &ferry.Answer{Order: id("order"), Question: id(question), Option: option})
}

// retire ends a start or a claim by the word of the master.
func (s *story) retire(name string, b ferry.Retire) *story {
	b.Order = id("order")
	return s.add(name, master, &b)
}

func (s *story) reassign(name string, w ferry.WriterID, to ferry.AgentName, ends ...string) *story {
	b := &ferry.Reassign{Order: id("order"), To: to}
	for _, n := range ends {
		b.Ends = append(b.Ends, id(n))
	}
	return s.add(name, w, b)
}

func (s *story) opaque(name string, w ferry.WriterID) *story {
	return s.add(name, w, &ferry.Opaque{Is: ferry.TypeResult, Order: id("order"), Need: []string{"claim.2"}})
}

func (s *story) fold(deps map[ferry.RecordID]ferry.State) ferry.Task {
	return fold(s, s.recs, deps)
}

func fold(s *story, recs []ferry.Record, deps map[ferry.RecordID]ferry.State) ferry.Task {
	return ferry.Fold(
		ferry.History{
			Channel: id("channel"), ID: id("order"), Order: &s.order, Issuer: master, Records: recs,
			Name: func(w ferry.WriterID) ferry.AgentName { return ferry.AgentName(w[:4]) },
		},
		ferry.View{
			Depend: func(r ferry.RecordID) (ferry.Label, ferry.State, bool) {
				st, ok := deps[r]
				return "t-dep", st, ok
			},
			Judge: func(_ *ferry.Order, r *ferry.Result) ferry.Evidence {
				if r.Summary == "refute" {
					return ferry.Evidence{Status: ferry.EvidenceRefuted, Reasons: []string{"a check failed"}}
				}
				return ferry.Evidence{Status: ferry.EvidenceVerified}
			},
		})
}

var (
	review = ferry.Order{NeedsReview: true}
	both   = ferry.Order{NeedsReview: true, NeedsApproval: true}
	plain  = ferry.Order{}
)

// TestStates is the table of docs/task-states.md.
func TestStates(t *testing.T) {
	tests := []struct {
		name  string
		story *story
		want  ferry.State
		hold  string // a part of it
		claim bool   // a worker may take it now
	}{
		{"nothing yet", newStory(plain), ferry.StateOpen, "", true},
		{"addressed", newStory(ferry.Order{To: "wisp"}), ferry.StateOffered, "", true},
		{"claimed", newStory(plain).claim(wisp, 1), ferry.StateClaimed, "", false},
		{"running", newStory(plain).start(wisp, 1), ferry.StateRunning, "", false},
		{"running and paused", newStory(plain).start(wisp, 1).interrupt("p", ferry.ActionPause), ferry.StateRunning, "paused", false},
		{"resumed", newStory(plain).start(wisp, 1).interrupt("p", ferry.ActionPause).interrupt("r", ferry.ActionResume, "p"), ferry.StateRunning, "", false},
		{"paused before anybody took it", newStory(plain).interrupt("p", ferry.ActionPause), ferry.StateBlocked, "paused", false},
		{"a resume that names another pause", newStory(plain).interrupt("p", ferry.ActionPause).interrupt("r", ferry.ActionResume, "q"), ferry.StateBlocked, "paused", false},
		{"claim given back", newStory(plain).claim(wisp, 1).add("s", wisp, &ferry.Stop{Order: id("order"), Claim: id("claim1-wisp"), Reason: ferry.StopReleased}), ferry.StateOpen, "", true},
		{"claim 'given back' by another", newStory(plain).claim(wisp, 1).add("s", gale, &ferry.Stop{Order: id("order"), Claim: id("claim1-wisp"), Reason: ferry.StopReleased}), ferry.StateClaimed, "", false},
		{"a start on another's claim", newStory(plain).claim(wisp, 1).add("st", gale, &ferry.Start{Order: id("order"), Attempt: 1, Claim: id("claim1-wisp")}), ferry.StateClaimed, "", false},
		{"a stop by another", newStory(plain).start(wisp, 1).add("s", gale, &ferry.Stop{Order: id("order"), Start: id("start1-wisp"), Reason: ferry.StopFailed}), ferry.StateRunning, "", false},
		{"engine fault", newStory(plain).start(wisp, 1).stop(wisp, 1, ferry.StopFault), ferry.StateOpen, "", true},
		{"failed once", newStory(plain).start(wisp, 1).stop(wisp, 1, ferry.StopFailed), ferry.StateOpen, "", true},
		{"faults never use up attempts", newStory(ferry.Order{MaxAttempts: 1}).start(wisp, 1).stop(wisp, 1, ferry.StopFault).start(wisp, 2).stop(wisp, 2, ferry.StopOrphan), ferry.StateOpen, "", true},
		{"attempts used up", newStory(ferry.Order{MaxAttempts: 1}).start(wisp, 1).stop(wisp, 1, ferry.StopFailed), ferry.StateFailed, "1 of 1 attempts are used up (last: it failed); `ferry channel retry t-first`", false},
		{"retried", newStory(ferry.Order{MaxAttempts: 1}).start(wisp, 1).stop(wisp, 1, ferry.StopFailed).interrupt("r", ferry.ActionRetry, "stop1-wisp"), ferry.StateOpen, "", true},
		{"addressed, failed once", newStory(ferry.Order{To: "wisp"}).start(wisp, 1).stop(wisp, 1, ferry.StopFailed), ferry.StateOpen, "", true},
		{"done", newStory(plain).work(wisp, 1, ""), ferry.StateDone, "", false},
		{"awaiting review", newStory(review).work(wisp, 1, ""), ferry.StateAwaitingReview, "waits for a review", false},
		{"awaiting approval only", newStory(ferry.Order{NeedsApproval: true}).work(wisp, 1, ""), ferry.StateAwaitingReview, "waits for a review", false},
		{"accepted", newStory(review).work(wisp, 1, "").verdict("v", master, "result1-wisp", ferry.DecisionKeep), ferry.StateAccepted, "", false},
		{"accepted, approval asked", newStory(both).work(wisp, 1, "").verdict("v", critic, "result1-wisp", ferry.DecisionKeep), ferry.StateAccepted, "waits for the master", false},
		{"approved", newStory(both).work(wisp, 1, "").verdict("v", critic, "result1-wisp", ferry.DecisionKeep).approve(master, "result1-wisp"), ferry.StateApproved, "", false},
		{"accepted by its own author", newStory(review).work(wisp, 1, "").verdict("v", wisp, "result1-wisp", ferry.DecisionKeep), ferry.StateAwaitingReview, "", false},
		{"approved by its own author", newStory(both).work(wisp, 1, "").approve(wisp, "result1-wisp"), ferry.StateAwaitingReview, "", false},
		{"sent back", newStory(review).work(wisp, 1, "").verdict("v", master, "result1-wisp", ferry.DecisionChanges), ferry.StateChangesRequested, "", true},
		{"sent back, addressed", newStory(ferry.Order{To: "wisp"}).work(wisp, 1, "").verdict("v", master, "result1-wisp", ferry.DecisionChanges), ferry.StateChangesRequested, "", true},
		{"accepted, then sent back by the same", newStory(review).work(wisp, 1, "").verdict("v", master, "result1-wisp", ferry.DecisionKeep).verdict("w", master, "result1-wisp", ferry.DecisionChanges), ferry.StateChangesRequested, "", true},
		{"a reviewer keeps, the master sends back", newStory(review).work(wisp, 1, "").verdict("v", critic, "result1-wisp", ferry.DecisionKeep).verdict("w", master, "result1-wisp", ferry.DecisionChanges), ferry.StateChangesRequested, "", true},
		{"running again after a send-back", newStory(review).work(wisp, 1, "").verdict("v", master, "result1-wisp", ferry.DecisionChanges).start(wisp, 2), ferry.StateRunning, "", false},
		{"second revision", newStory(review).work(wisp, 1, "").verdict("v", master, "result1-wisp", ferry.DecisionChanges).work(wisp, 2, ""), ferry.StateAwaitingReview, "", false},
		{"refuted", newStory(plain).work(wisp, 1, "refute"), ferry.StateRefuted, "", true},
		{"refuted, then accepted all the same", newStory(review).work(wisp, 1, "refute").verdict("v", master, "result1-wisp", ferry.DecisionKeep), ferry.StateRefuted, "", true},
		{"refuted, then 'landed' all the same", newStory(plain).work(wisp, 1, "refute").land("result1-wisp", ""), ferry.StateRefuted, "", true},
		{"refuted, next attempt failed", newStory(plain).work(wisp, 1, "refute").start(wisp, 2).stop(wisp, 2, ferry.StopFault), ferry.StateOpen, "", true},
		{"refuted until used up", newStory(ferry.Order{MaxAttempts: 2}).work(wisp, 1, "refute").work(wisp, 2, "refute"), ferry.StateFailed, "2 of 2 attempts are used up (last: a check failed)", false},
		{"denied", newStory(review).work(wisp, 1, "").verdict("v", master, "result1-wisp", ferry.DecisionReject), ferry.StateFailed, "denied: notes of v", false},
		{"denied before anybody took it", newStory(plain).verdict("v", master, "", ferry.DecisionReject), ferry.StateFailed, "denied", false},
		{"denied, then retried", newStory(plain).verdict("v", master, "", ferry.DecisionReject).interrupt("r", ferry.ActionRetry, "v"), ferry.StateOpen, "", true},
		{"'denied' by a reviewer", newStory(plain).verdict("v", critic, "", ferry.DecisionReject), ferry.StateOpen, "", true},
		{"cancelled while running", newStory(plain).start(wisp, 1).add("c", master, &ferry.Cancel{Order: id("order"), Reason: "not needed"}), ferry.StateCancelled, "not needed", false},
		{"killed", newStory(plain).start(wisp, 1).interrupt("k", ferry.ActionKill), ferry.StateKilled, "note of k", false},
		{"a retry does not undo a kill", newStory(plain).start(wisp, 1).interrupt("k", ferry.ActionKill).interrupt("r", ferry.ActionRetry, "k"), ferry.StateKilled, "", false},
		{"landed", newStory(review).work(wisp, 1, "").verdict("v", master, "result1-wisp", ferry.DecisionKeep).land("result1-wisp", "v"), ferry.StateLanded, "", false},
		{"landed, then sent back", newStory(review).work(wisp, 1, "").verdict("v", critic, "result1-wisp", ferry.DecisionKeep).land("result1-wisp", "v").verdict("w", critic, "result1-wisp", ferry.DecisionChanges), ferry.StateLanded, "", false},
		{"'landed' without the review", newStory(review).work(wisp, 1, "").land("result1-wisp", ""), ferry.StateAwaitingReview, "", false},
		{"'landed' on a send-back", newStory(review).work(wisp, 1, "").verdict("v", critic, "result1-wisp", ferry.DecisionChanges).land("result1-wisp", "v"), ferry.StateChangesRequested, "", true},
		{"'landed' without the approval", newStory(both).work(wisp, 1, "").verdict("v", critic, "result1-wisp", ferry.DecisionKeep).land("result1-wisp", "v"), ferry.StateAccepted, "", false},
		{"landed on the approval", newStory(both).work(wisp, 1, "").approve(master, "result1-wisp").land("result1-wisp", "approve"), ferry.StateLanded, "", false},
		{"taken by another than it is for", newStory(ferry.Order{To: "wisp"}).work(gale, 1, ""), ferry.StateOffered, "", true},
		{"claimed by another than it is for", newStory(ferry.Order{To: "wisp"}).claim(gale, 1), ferry.StateOffered, "", true},
		{"taken before it went to another", newStory(ferry.Order{To: "wisp"}).work(wisp, 1, "").reassign("x", master, "gale"), ferry.StateDone, "", false},
		{"landed, then killed", newStory(plain).work(wisp, 1, "").land("result1-wisp", "").interrupt("k", ferry.ActionKill), ferry.StateLanded, "", false},
		{"a result that never started", newStory(plain).result(wisp, 1, ""), ferry.StateOpen, "", true},
		{"a result on another's start", newStory(plain).start(wisp, 1).add("x", gale, &ferry.Result{Order: id("order"), Attempt: 1, Start: id("start1-wisp")}), ferry.StateRunning, "", false},
		{"a question is open", newStory(plain).ask("q", "no-progress"), ferry.StateBlocked, "and now?", false},
		{"the question was answered: retry", newStory(ferry.Order{MaxAttempts: 1}).work(wisp, 1, "refute").ask("q", "no-progress", "result1-wisp").answer("q", "retry"), ferry.StateRefuted, "", true},
		{"the question was answered: cancel", newStory(plain).ask("q", "no-progress").answer("q", "cancel"), ferry.StateCancelled, "answered: cancel", false},
		{"two started one attempt", newStory(plain).start(wisp, 1).start(gale, 1), ferry.StateRunning, "", false},
		{"the holder was retired", newStory(plain).start(wisp, 1).retire("x", ferry.Retire{Start: id("start1-wisp")}), ferry.StateOpen, "", true},
		{"a retired attempt is not used up", newStory(ferry.Order{MaxAttempts: 1}).start(wisp, 1).retire("x", ferry.Retire{Start: id("start1-wisp")}), ferry.StateOpen, "", true},
		{"a claim was retired", newStory(plain).claim(wisp, 1).retire("x", ferry.Retire{Claim: id("claim1-wisp")}), ferry.StateOpen, "", true},
		{"a retire that names something else", newStory(plain).start(wisp, 1).retire("x", ferry.Retire{Start: id("start1-gale")}), ferry.StateRunning, "", false},
		{"failed by its own word, then retired", newStory(ferry.Order{MaxAttempts: 1}).start(wisp, 1).stop(wisp, 1, ferry.StopFailed).retire("x", ferry.Retire{Start: id("start1-wisp")}), ferry.StateFailed, "it failed", false},
		{"the result of a retired attempt stands", newStory(plain).work(wisp, 1, "").retire("x", ferry.Retire{Start: id("start1-wisp")}), ferry.StateDone, "", false},
		{"given to another", newStory(ferry.Order{To: "wisp"}).reassign("x", master, "gale"), ferry.StateOffered, "", true},
		{"given to another while it runs", newStory(plain).start(wisp, 1).reassign("x", master, "gale", "start1-wisp"), ferry.StateOffered, "", true},
		{"given to anybody", newStory(ferry.Order{To: "wisp"}).reassign("x", master, ""), ferry.StateOpen, "", true},
		{"what needs a newer ferry", newStory(plain).opaque("x", wisp), ferry.StateBlocked, "needs a newer ferry: result with claim.2", false},
		{"it runs, and something needs a newer ferry", newStory(plain).start(wisp, 1).opaque("x", wisp), ferry.StateRunning, "needs a newer ferry", false},
		{"a result stands, and something needs a newer ferry", newStory(review).work(wisp, 1, "").opaque("x", wisp), ferry.StateAwaitingReview, "needs a newer ferry", false},
		{"a cancel by answer holds", newStory(plain).ask("q", "no-progress").answer("q", "cancel").add("again", master, &ferry.Answer{Order: id("order"), Question: id("q"), Option: "retry"}), ferry.StateCancelled, "", false},
		{"a second start of one attempt", newStory(plain).start(wisp, 1).stop(wisp, 1, ferry.StopFault).add("st2", wisp, &ferry.Start{Order: id("order"), Attempt: 1, Claim: id("claim1-wisp")}), ferry.StateOpen, "", true},
		{"the higher attempt has ended, the lower stays fenced", newStory(plain).start(wisp, 1).start(gale, 2).stop(gale, 2, ferry.StopFault), ferry.StateOpen, "", true},
		{"landed by the master, and the result does not count", newStory(both).vouch("l", master, "void", "digest"), ferry.StateLanded, "", false},
		{"the same without a digest", newStory(plain).vouch("l", master, "void", ""), ferry.StateBlocked, "`ferry channel land t-first`", false},
		{"landed by another, and the result does not count", newStory(plain).vouch("l", critic, "void", "digest"), ferry.StateBlocked, "landed on main as " + commit("landed").Short(), false},
		{"the master says so too", newStory(plain).vouch("l", critic, "void", "digest").vouch("m", master, "void", "digest"), ferry.StateLanded, "", false},
		{"a refuted result with a digest", newStory(plain).work(wisp, 1, "refute").vouch("l", master, "result1-wisp", "digest"), ferry.StateRefuted, "", true},
		{"another digest than that of the result", newStory(plain).work(wisp, 1, "").vouch("l", master, "result1-wisp", "digest"), ferry.StateDone, "", false},
		{"a result beats a later start", newStory(plain).work(wisp, 1, "").start(gale, 2), ferry.StateDone, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.story.fold(nil)
			if got.State != tt.want {
				t.Errorf("state = %s (%s), want %s", got.State, got.Hold, tt.want)
			}
			if !strings.Contains(got.Hold, tt.hold) {
				t.Errorf("hold = %q, want a part %q", got.Hold, tt.hold)
			}
			if got.Next.Claimable != tt.claim {
				t.Errorf("claimable = %v, want %v (state %s, hold %q)", got.Next.Claimable, tt.claim, got.State, got.Hold)
			}
		})
	}
}

func TestDependencies(t *testing.T) {
	dep := id("dep")
	order := ferry.Order{DependsOn: []ferry.RecordID{dep}}
	for _, s := range ferry.States() {
		got := newStory(order).fold(map[ferry.RecordID]ferry.State{dep: s})
		if want := s.MeetsDependency(); got.Next.Claimable != want {
			t.Errorf("dependency %s: claimable = %v, want %v (%s)", s, got.Next.Claimable, want, got.Hold)
		}
		if !s.MeetsDependency() && !strings.Contains(got.Hold, "t-dep") {
			t.Errorf("dependency %s: hold %q does not name it", s, got.Hold)
		}
	}
	got := newStory(order).fold(nil)
	if got.State != ferry.StateBlocked || !strings.Contains(got.Hold, "has not arrived") {
		t.Errorf("unknown dependency: %s, %q", got.State, got.Hold)
	}
}

func TestNextAttempt(t *testing.T) {
	s := newStory(review).work(wisp, 1, "").verdict("v", master, "result1-wisp", ferry.DecisionChanges)
	got := s.fold(nil).Next
	want := ferry.Next{Claimable: true, Attempt: 2, From: commit("result1-wisp"), Notes: []string{"notes of v"}, Prefer: wisp}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("after a send-back (-want +got):\n%s", d)
	}
	s.work(wisp, 2, "refute")
	if got := s.fold(nil).Next.Notes; !slices.Equal(got, []string{"notes of v", "a check failed"}) {
		t.Errorf("after a refuted revision: notes %q, want the reviewer's and the reason", got)
	}
	s.work(wisp, 3, "").verdict("w", master, "result3-wisp", ferry.DecisionChanges)
	if got := s.fold(nil).Next.Notes; !slices.Equal(got, []string{"notes of w"}) {
		t.Errorf("after a revision that stood: notes %q, want the new ones", got)
	}
	s = newStory(plain).start(wisp, 1).interrupt("st", ferry.ActionSteer)
	s.add("run1", wisp, &ferry.Run{Order: id("order"), Start: id("start1-wisp"), Attempt: 1, N: 1, Steers: []ferry.RecordID{id("st")}})
	s.stop(wisp, 1, ferry.StopShutdown)
	if got := s.fold(nil).Next.Notes; !slices.Equal(got, []string{"note of st"}) {
		t.Errorf("after a steered attempt without a result: notes %q", got)
	}
	s = newStory(plain).start(wisp, 1).stop(wisp, 1, ferry.StopFailed)
	if got := s.fold(nil).Next; got.From != commit("left1") || got.Attempt != 2 {
		t.Errorf("after a failure: %+v, want attempt 2 from what was left", got)
	}
	s = newStory(plain).work(wisp, 1, "refute")
	if got := s.fold(nil).Next; len(got.Notes) == 0 || got.Notes[0] != "a check failed" {
		t.Errorf("after a refutation: notes %q", got.Notes)
	}
}

// TestTakeover is what a task says while somebody holds it: whether another attempt may follow, and who wants it.
func TestTakeover(t *testing.T) {
	rank := func(w ferry.WriterID) [32]byte { return ferry.Rank(id("channel"), id("order"), 2, w) }
	first, second := wisp, gale
	if a, b := rank(wisp), rank(gale); string(a[:]) > string(b[:]) {
		first, second = gale, wisp
	}
	s := newStory(plain).start(critic, 1)
	for _, w := range []ferry.WriterID{second, first} {
		s.add("early-"+string(w), w, &ferry.Claim{Order: id("order"), Attempt: 2})
		s.add("late-"+string(w), w, &ferry.Claim{Order: id("order"), Attempt: 2, Supersedes: []ferry.RecordID{id("start1-crit")}})
	}
	got := s.fold(nil)
	if got.State != ferry.StateRunning || got.Holder != critic || !got.Next.Takeover || got.Next.Claimable || !got.LiveClaim.IsZero() {
		t.Errorf("state %s, holder %s, next %+v, live claim %s; want running, and a takeover", got.State, got.Holder, got.Next, got.LiveClaim)
	}
	want := []ferry.Claimed{
		{ID: id("late-" + string(first)), Writer: first, Supersedes: []ferry.RecordID{id("start1-crit")}},
		{ID: id("late-" + string(second)), Writer: second, Supersedes: []ferry.RecordID{id("start1-crit")}},
	}
	if d := cmp.Diff(want, got.Claims); d != "" {
		t.Errorf("claims (-want +got):\n%s", d)
	}
	s.add("back", first, &ferry.Stop{Order: id("order"), Claim: id("late-" + string(first)), Reason: ferry.StopReleased})
	if got := s.fold(nil); len(got.Claims) != 1 || got.Claims[0].Writer != second {
		t.Errorf("claims after one was given back: %+v, want that of %s alone", got.Claims, second)
	}
	if got := newStory(plain).start(wisp, 1).interrupt("p", ferry.ActionPause).fold(nil); got.Next.Takeover {
		t.Error("a paused order may be taken over")
	}
}

// TestAddressee is for whom an order is after several have said so.
func TestAddressee(t *testing.T) {
	tests := []struct {
		name  string
		story *story
		want  ferry.AgentName
	}{
		{"the order's own", newStory(ferry.Order{To: "wisp"}), "wisp"},
		{"reassigned", newStory(ferry.Order{To: "wisp"}).reassign("x", master, "gale"), "gale"},
		{"twice by one: the later", newStory(plain).reassign("x", master, "gale").reassign("y", master, "wisp"), "wisp"},
		{"by a stronger authority", newStory(plain).reassign("x", master, "gale").reassign("y", critic, "wisp"), "gale"},
	}
	for _, tt := range tests {
		if got := tt.story.fold(nil).To; got != tt.want {
			t.Errorf("%s: to %q, want %q", tt.name, got, tt.want)
		}
	}
	got := newStory(plain).start(wisp, 1).reassign("x", master, "gale", "start1-wisp").reassign("y", master, "wisp").fold(nil)
	if a := got.Attempts[0]; a.Stop == nil || a.Stop.Reason != ferry.StopRetired || a.Stop.Note != "retired: given to gale" {
		t.Errorf("what an earlier reassignment ended: %+v, want it to stay ended", a.Stop)
	}
}

// chapter gives records of every kind about one order, of several attempts and of machines that did not know of each other.
func chapter() *story {
	return newStory(both).start(wisp, 1).start(gale, 1).stop(gale, 1, ferry.StopFailed).result(wisp, 1, "refute").
		start(gale, 2).result(gale, 2, "").verdict("v", critic, "result2-gale", ferry.DecisionKeep).
		verdict("w", master, "result2-gale", ferry.DecisionChanges).interrupt("p", ferry.ActionPause).
		interrupt("r", ferry.ActionResume, "p").interrupt("st", ferry.ActionSteer).ask("q1", "k").ask("q2", "k").
		answer("q1", "keep").start(critic, 3).claim(wisp, 4).claim(gale, 4).approve(master, "result2-gale").
		reassign("to-gale", master, "gale", "start3-crit").reassign("to-wisp", critic, "wisp").
		retire("gone", ferry.Retire{Claim: id("claim4-wisp"), Reason: "sold"}).opaque("o", gale)
}

// TestFinalStatesAreNeverLeft adds everything there is to an order that has ended, in any order.
func TestFinalStatesAreNeverLeft(t *testing.T) {
	above := map[ferry.State][]ferry.State{ // two final words: the stronger shows
		ferry.StateLanded: {ferry.StateLanded}, ferry.StateCancelled: {ferry.StateCancelled, ferry.StateLanded},
		ferry.StateKilled: {ferry.StateKilled, ferry.StateCancelled, ferry.StateLanded},
	}
	s := chapter().interrupt("k", ferry.ActionKill).land("result2-gale", "").ask("q3", "other").answer("q3", "cancel").
		add("c", master, &ferry.Cancel{Order: id("order")}).
		add("twice", gale, &ferry.Result{Order: id("order"), Attempt: 2, Start: id("start2-gale"), Summary: "refute"}).
		retire("over", ferry.Retire{Start: id("start1-gale"), Overdue: true}).
		add("undo", master, &ferry.Answer{Order: id("order"), Question: id("q3"), Option: "retry"})
	rapid.Check(t, func(t *rapid.T) {
		// A writer's records come in the order of its chain.
		recs := inChains(rapid.Permutation(s.recs).Draw(t, "order"), s.recs)
		var have []ferry.Record
		was := ferry.State("")
		for _, r := range recs {
			have = append(have, r)
			got := fold(s, have, nil)
			if was.Final() && !slices.Contains(above[was], got.State) {
				t.Fatalf("%s became %s with %T", was, got.State, r.Body)
			}
			was = got.State
		}
	})
}

// inChains keeps the places that each writer has in a permutation, and puts its records there in the order of its chain.
func inChains(permuted, all []ferry.Record) []ferry.Record {
	next := map[ferry.WriterID][]ferry.Record{}
	for _, r := range all {
		next[r.Writer] = append(next[r.Writer], r)
	}
	var out []ferry.Record
	for _, r := range permuted {
		out = append(out, next[r.Writer][0])
		next[r.Writer] = next[r.Writer][1:]
	}
	return out
}

// TestFoldIgnoresArrival delivers the records of every story in random order
// and with repeats: the task must not change.
func TestFoldIgnoresArrival(t *testing.T) {
	s := chapter()
	want := s.fold(nil)
	rapid.Check(t, func(t *rapid.T) {
		recs := rapid.Permutation(s.recs).Draw(t, "order")
		again := rapid.SliceOfN(rapid.SampledFrom(s.recs), 0, 5).Draw(t, "repeated")
		if d := cmp.Diff(want, fold(s, slices.Concat(recs, again), nil)); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}

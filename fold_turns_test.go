package ferry_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
)

// twice lets a writer try in vain two times.
func twice(w ferry.WriterID, why ferry.StopReason) *story {
	return newStory(review).start(w, 1).stop(w, 1, why).start(w, 2).stop(w, 2, why)
}

// TestBehind is who lets others go first after its attempts came to nothing.
func TestBehind(t *testing.T) {
	sentBack := func(s *story, w ferry.WriterID, n int64, name string) *story {
		return s.work(w, n, "").verdict(name, master, "result"+string(rune('0'+n))+"-"+string(w[:4]), ferry.DecisionChanges)
	}
	patient := ferry.Order{NeedsReview: true, MaxAttempts: 9}
	tests := []struct {
		name  string
		story *story
		want  []ferry.WriterID
	}{
		{"nothing yet", newStory(review), nil},
		{"once refuted", newStory(patient).work(wisp, 1, "refute"), nil},
		{"twice refuted", newStory(patient).work(wisp, 1, "refute").work(wisp, 2, "refute"), []ferry.WriterID{wisp}},
		{"each once", newStory(patient).work(wisp, 1, "refute").work(gale, 2, "refute"), nil},
		{"both twice", newStory(patient).work(wisp, 1, "refute").work(gale, 2, "refute").work(wisp, 3, "refute").work(gale, 4, "refute"), []ferry.WriterID{gale, wisp}},
		{"sent back once", sentBack(newStory(review), wisp, 1, "v"), nil},
		{"sent back twice", sentBack(sentBack(newStory(review), wisp, 1, "v"), wisp, 2, "w"), []ferry.WriterID{wisp}},
		{"refuted, and then sent back", sentBack(newStory(review).work(wisp, 1, "refute"), wisp, 2, "w"), []ferry.WriterID{wisp}},
		{"the second waits for its review", sentBack(newStory(review), wisp, 1, "v").work(wisp, 2, ""), nil},
		{"failed", twice(wisp, ferry.StopFailed), []ferry.WriterID{wisp}},
		{"engine faults", twice(wisp, ferry.StopFault), []ferry.WriterID{wisp}},
		{"its process died", twice(wisp, ferry.StopOrphan), []ferry.WriterID{wisp}},
		{"its machine could not", twice(wisp, ferry.StopReleased), []ferry.WriterID{wisp}},
		{"its worker was stopped", twice(wisp, ferry.StopShutdown), nil},
		{"others fenced it", twice(wisp, ferry.StopFenced), nil},
		{"retired", newStory(review).start(wisp, 1).retire("x", ferry.Retire{Start: id("start1-wisp")}).start(wisp, 2).retire("y", ferry.Retire{Start: id("start2-wisp")}), []ferry.WriterID{wisp}},
		{"given to others", newStory(review).start(wisp, 1).reassign("x", master, "", "start1-wisp").start(wisp, 2).reassign("y", master, "", "start2-wisp"), nil},
		{"a retry forgives", twice(wisp, ferry.StopFailed).interrupt("r", ferry.ActionRetry, "stop1-wisp"), nil},
	}
	for _, tt := range tests {
		if d := cmp.Diff(tt.want, tt.story.fold(nil).Next.Behind); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
	if got := sentBack(sentBack(newStory(review), wisp, 1, "v"), wisp, 2, "w").fold(nil).Next.Prefer; got != "" {
		t.Errorf("who was sent back twice still has the first right: %s", got)
	}
}

// TestTurnsOfClaims sees who is behind come last among the claims, whatever its rank is.
func TestTurnsOfClaims(t *testing.T) {
	for _, w := range []ferry.WriterID{wisp, gale} {
		s := twice(w, ferry.StopFault)
		got := s.claim(wisp, 3).claim(gale, 3).fold(nil).Claims
		if len(got) != 2 || got[1].Writer != w {
			t.Errorf("claims %+v, want that of %s last", got, w)
		}
	}
}

// TestOverdue is what an attempt that ran over its time leaves of its writer: neither starts nor claims count after it.
func TestOverdue(t *testing.T) {
	over := func(s *story) *story {
		return s.retire("x", ferry.Retire{Start: id("start1-wisp"), Overdue: true})
	}
	got := over(newStory(review).start(wisp, 1)).claim(wisp, 2).fold(nil)
	if got.State != ferry.StateOpen || len(got.Claims) != 0 || !got.Next.Claimable {
		t.Errorf("state %s, claims %+v: want it open to others, and no claim of the writer", got.State, got.Claims)
	}
	if d := cmp.Diff([]ferry.WriterID{wisp}, got.Next.Barred); d != "" {
		t.Errorf("barred (-want +got):\n%s", d)
	}
	got = over(newStory(review).start(wisp, 1)).start(wisp, 2).fold(nil)
	if got.Attempt != 1 || got.State != ferry.StateOpen {
		t.Errorf("attempt %d, state %s: what it started later counts", got.Attempt, got.State)
	}
	s := newStory(review).work(wisp, 1, "").verdict("v", master, "result1-wisp", ferry.DecisionChanges).work(wisp, 2, "").
		verdict("w", master, "result2-wisp", ferry.DecisionKeep).land("result2-wisp", "w")
	if got := over(s).fold(nil); got.State != ferry.StateLanded {
		t.Errorf("the word of one who did not know that it had landed: %s", got.State)
	}
	if got := over(newStory(review).work(wisp, 1, "")).fold(nil); got.Standing != id("result1-wisp") {
		t.Errorf("the result of the attempt itself does not stand: %s", got.State)
	}
	if got := over(newStory(review).start(wisp, 1)).start(gale, 2).fold(nil); got.Holder != gale {
		t.Errorf("another writer's start: held by %s", got.Holder)
	}
	s = over(newStory(review).start(wisp, 1))
	if got := s.fold(nil); !slices.Contains(got.Next.Failed, id("x")) || got.Failures != 0 {
		t.Errorf("a retry would forgive %v, and %d failures count", got.Next.Failed, got.Failures)
	}
	got = s.interrupt("r", ferry.ActionRetry, "x").start(wisp, 2).fold(nil)
	if got.Holder != wisp || len(got.Next.Barred) != 0 {
		t.Errorf("after a retry: held by %q, barred %v", got.Holder, got.Next.Barred)
	}
	if got := newStory(review).start(wisp, 1).retire("x", ferry.Retire{Start: id("start1-wisp")}).start(wisp, 2).fold(nil); got.Holder != wisp {
		t.Errorf("one that was only retired may try again: held by %q", got.Holder)
	}
}

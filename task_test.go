package ferry_test

import (
	"testing"

	"github.com/ferry-fleet/ferry"
)

// TestHolds is who may still hand in a result: the holder of an order that has neither ended nor got another result, though its
// start is live in each of these.
func TestHolds(t *testing.T) {
	tests := []struct {
		name  string
		story *story
		want  bool
	}{
		{"it runs", newStory(review).start(wisp, 1), true},
		{"it is paused", newStory(review).start(wisp, 1).interrupt("p", ferry.ActionPause), true},
		{"a higher attempt began", newStory(review).start(wisp, 1).start(gale, 2), false},
		{"a lower attempt handed in a result", newStory(review).start(wisp, 2).work(gale, 1, ""), false},
		{"that was sent back", newStory(review).start(wisp, 2).work(gale, 1, "").verdict("v", master, "result1-gale", ferry.DecisionChanges), true},
		{"cancelled", newStory(review).start(wisp, 1).add("c", master, &ferry.Cancel{Order: id("order")}), false},
		{"killed", newStory(review).start(wisp, 1).interrupt("k", ferry.ActionKill), false},
		{"denied", newStory(review).start(wisp, 1).verdict("v", master, "", ferry.DecisionReject), false},
		{"stopped", newStory(review).start(wisp, 1).stop(wisp, 1, ferry.StopFailed), false},
	}
	for _, tt := range tests {
		task := tt.story.fold(nil)
		mine := ferry.RecordID{}
		for _, a := range task.Attempts {
			if a.Holder == wisp {
				mine = a.Start
			}
		}
		if got := task.Holds(mine); got != tt.want {
			t.Errorf("%s: holds = %v, want %v (state %s)", tt.name, got, tt.want, task.State)
		}
	}
	if open := newStory(review).fold(nil); open.Holds(ferry.RecordID{}) {
		t.Error("no start holds an order that nobody began")
	}
}

package worker_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/internal/ferrytest"
)

// dear is an engine like pi that writes a file, tells that it has cost 60 cents, and goes on unless there is the file of an
// earlier run.
const dear = `
if [ -e half.txt ]; then
	echo 42 >answer.txt
	echo '{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"done"}],"stopReason":"stop","usage":{"input":10,"output":1,"cost":{"total":0.1}}}}'
	exit 0
fi
echo half > half.txt
echo '{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"toolUse","usage":{"input":10,"output":1,"cost":{"total":0.6}}}}'
sleep 300
`

// TestCapEndsARun: an order's cap ends the run in its middle, nothing counts against the order, a person is asked, and what
// they let it cost again goes to a run that begins where the first one was ended.
func TestCapEndsARun(t *testing.T) {
	m := ferrytest.New(t, files)
	start(m, config(m, "wisp", m.Engine("pi", dear)))
	id := m.Order("t-cap", func(o *ferry.Order) { o.CapMicroUSD = 500_000 })
	var task ferry.Task
	m.Eventually("a question about the cap", 30*time.Second, func() bool {
		task = m.Task("t-cap")
		return len(task.Questions) == 1
	})
	stop := task.Attempts[0].Stop
	if stop == nil || stop.Reason != ferry.StopReleased || !strings.Contains(stop.Note, "the run has used $0.60 of $0.50") || task.Failures != 0 {
		t.Fatalf("stop %+v, %d failures; want released by the cap, none", stop, task.Failures)
	}
	if q := task.Questions[0].Question; !strings.Contains(q.Text, "has spent $0.60 of the $0.50 it may cost") {
		t.Errorf("question %q", q.Text)
	}
	_, err := m.Operator.Answer(t.Context(), time.Now(), ferry.Answer{Order: id, Question: task.Questions[0].ID, Option: ferry.OptionRetry})
	m.Must(err)
	task = reaches(m, "t-cap", ferry.StateDone)
	if n := len(task.Attempts); n != 2 || task.Attempts[0].Begun.From == task.Attempts[1].Begun.From {
		t.Errorf("%d attempts; want a second that begins where the first was ended", n)
	}
}

// dearer is an engine like pi that tells 60 cents in each run, and then goes on for long.
const dearer = `
echo x >> n.txt
echo '{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"toolUse","usage":{"input":10,"output":1,"cost":{"total":0.6}}}}'
sleep 300
`

// TestNoteSpendsTheSameBudget: the run after a note has what is left of the engine's week, not all of it again.
func TestNoteSpendsTheSameBudget(t *testing.T) {
	m := ferrytest.New(t, files)
	cfg := config(m, "wisp", m.Engine("pi", dearer))
	cfg.Engines[0].WeeklyUSD = 1
	cfg.Spend = filepath.Join(filepath.Dir(cfg.Runs), engines.SpendFile)
	r := start(m, cfg)
	id := m.Order("t-note", nil)
	r.runsAndWrote("n.txt", "x")
	_, err := m.Operator.Interrupt(t.Context(), time.Now(), ferry.Interrupt{Order: id, Action: ferry.ActionSteer, Note: "and mind the tests"})
	m.Must(err)
	var runs []ferry.Run
	m.Eventually("the end of the second run", 40*time.Second, func() bool {
		if task := m.Task("t-note"); len(task.Attempts) > 0 {
			runs = task.Attempts[0].Runs
		}
		return len(runs) >= 2
	})
	if got := runs[1]; got.Outcome != ferry.OutcomeLimit || got.Reason != "the run has used $0.60 of $0.40" {
		t.Errorf("the second run: %s, %q; want limit, what was left", got.Outcome, got.Reason)
	}
}

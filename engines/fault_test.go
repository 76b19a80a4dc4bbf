package engines_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/engines"
	"github.com/google/go-cmp/cmp"
)

var testNow = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// recorded reads what a real CLI printed; testdata/README.md says how.
func recorded(t *testing.T, cli, name string) (stdout []byte, last string) {
	t.Helper()
	stdout, err := os.ReadFile(filepath.Join("testdata", cli, name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := os.ReadFile(filepath.Join("testdata", cli, name+".stderr"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(stderr)), "\n")
	return stdout, lines[len(lines)-1]
}

// TestRecorded reads the recorded output of the real CLIs: what it says of the
// answer, and which fault it is.
func TestRecorded(t *testing.T) {
	used := func(requests, in, out int64, cost int64) ferry.Usage {
		u := ferry.Usage{Requests: requests, TokensIn: in, TokensOut: out, CostMicroUSD: cost}
		if cost > 0 {
			u.CostSource = "engine"
		}
		return u
	}
	const exited, stalled = engines.EndedExited, engines.EndedStalled
	for _, tt := range []struct {
		cli, name string
		exit      int
		ended     engines.Ended
		text      string
		usage     ferry.Usage
		denied    []string
		fault     engines.Class
		reason    string
	}{
		{cli: "codex", name: "ok", ended: exited, text: "All done.", usage: used(0, 200, 20, 0)},
		{cli: "codex", name: "denied", ended: exited, text: "I was refused.", usage: used(0, 200, 20, 0)},
		{cli: "codex", name: "nested", ended: exited, text: "All done.", usage: used(0, 200, 20, 0),
			denied: []string{`/bin/sh -lc "echo '// x' >> count.go" (codex's own sandbox did not start)`}},
		{cli: "codex", name: "401", exit: 1, ended: exited, fault: engines.FaultAuth, reason: "401 Unauthorized"},
		{cli: "codex", name: "402", exit: 1, ended: exited, fault: engines.FaultCredit, reason: "Insufficient credits"},
		{cli: "codex", name: "429", exit: 1, ended: exited, fault: engines.FaultRate, reason: "429"},
		{cli: "codex", name: "500", exit: 1, ended: exited, fault: engines.FaultEndpoint, reason: "high demand"},
		{cli: "codex", name: "500r", exit: 1, ended: exited, fault: engines.FaultEndpoint, reason: "high demand"},
		{cli: "codex", name: "empty", exit: 1, ended: exited, fault: engines.FaultEndpoint, reason: "stream closed"},
		{cli: "codex", name: "cut", exit: 1, ended: exited, fault: engines.FaultEndpoint, reason: "stream disconnected"},
		{cli: "codex", name: "nokey", exit: 1, ended: exited, fault: engines.FaultAuth, reason: "MOCK_KEY"},
		{cli: "codex", name: "hang", exit: -1, ended: stalled, fault: engines.FaultSilent, reason: "printed nothing for 10s"},
		{cli: "codex", name: "hangmid", exit: -1, ended: stalled, fault: engines.FaultSilent, reason: "printed nothing"},
		{cli: "codex", name: "refused", exit: -1, ended: stalled, fault: engines.FaultEndpoint, reason: "Connection failed"},

		{cli: "codex", name: "hungtool", exit: -1, ended: stalled},

		{cli: "claude", name: "ok", ended: exited, text: "All done.", usage: used(2, 200, 20, 1200)},
		{cli: "claude", name: "denied", ended: exited, text: "I was refused.", usage: used(2, 200, 20, 1200), denied: []string{"Write /work/hello.txt"}},
		{cli: "claude", name: "401", exit: 1, ended: exited, fault: engines.FaultAuth, reason: "invalid API key"},
		{cli: "claude", name: "402", exit: 1, ended: exited, fault: engines.FaultCredit, reason: "Insufficient credits"},
		{cli: "claude", name: "429", exit: 1, ended: exited, fault: engines.FaultRate, reason: "429"},
		{cli: "claude", name: "500", exit: 1, ended: exited, fault: engines.FaultEndpoint, reason: "500"},
		{cli: "claude", name: "500r", exit: -1, ended: stalled, fault: engines.FaultEndpoint, reason: "server_error"},
		{cli: "claude", name: "empty", exit: 1, ended: exited, fault: engines.FaultEmpty, reason: "empty or malformed"},
		{cli: "claude", name: "cut", exit: 1, ended: exited, fault: engines.FaultEndpoint, reason: "ECONNRESET"},
		{cli: "claude", name: "nokey", exit: 1, ended: exited, fault: engines.FaultAuth, reason: "Not logged in"},
		{cli: "claude", name: "hang", exit: 1, ended: exited, fault: engines.FaultEndpoint, reason: "timed out"},
		{cli: "claude", name: "hangmid", exit: -1, ended: stalled, fault: engines.FaultSilent, reason: "printed nothing"},
		{cli: "claude", name: "refused", exit: 1, ended: exited, fault: engines.FaultEndpoint, reason: "ECONNREFUSED"},

		{cli: "claude", name: "hungtool", exit: -1, ended: stalled, usage: used(1, 100, 1, 0)},

		{cli: "pi", name: "ok", ended: exited, text: "All done.", usage: used(2, 200, 20, 240)},
		{cli: "pi", name: "401", ended: exited, usage: used(1, 0, 0, 0), fault: engines.FaultAuth, reason: "401"},
		{cli: "pi", name: "402", ended: exited, usage: used(1, 0, 0, 0), fault: engines.FaultCredit, reason: "402"},
		{cli: "pi", name: "429", ended: exited, usage: used(1, 0, 0, 0), fault: engines.FaultRate, reason: "429"},
		{cli: "pi", name: "500", ended: exited, usage: used(1, 0, 0, 0), fault: engines.FaultEndpoint, reason: "500"},
		{cli: "pi", name: "empty", ended: exited, usage: used(1, 0, 0, 0), fault: engines.FaultEmpty, reason: "without an answer"},
		{cli: "pi", name: "cut", ended: exited, usage: used(1, 0, 0, 0), fault: engines.FaultEndpoint, reason: "terminated"},
		{cli: "pi", name: "nokey", exit: 1, ended: exited, fault: engines.FaultEmpty, reason: "Unknown provider"},
		{cli: "pi", name: "hang", ended: exited, usage: used(1, 0, 0, 0), fault: engines.FaultEndpoint, reason: "timed out"},
		{cli: "pi", name: "hangmid", exit: -1, ended: stalled, fault: engines.FaultSilent, reason: "printed nothing"},
		{cli: "pi", name: "hungtool", exit: -1, ended: stalled, usage: used(1, 100, 10, 120)},
		{cli: "pi", name: "refused", ended: exited, usage: used(1, 0, 0, 0), fault: engines.FaultEndpoint, reason: "Connection error"},
	} {
		t.Run(tt.cli+"/"+tt.name, func(t *testing.T) {
			stdout, last := recorded(t, tt.cli, tt.name)
			p := engines.ContractOf(tt.cli).Parse(stdout)
			if p.Text != tt.text && tt.fault == "" {
				t.Errorf("Text = %q, want %q", p.Text, tt.text)
			}
			if d := cmp.Diff(tt.usage, p.Usage); d != "" {
				t.Errorf("Usage (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tt.denied, p.Denied); d != "" {
				t.Errorf("Denied (-want +got):\n%s", d)
			}
			f := engines.Classify(engines.Observed{
				Engine: "e1", Ended: tt.ended, Exit: tt.exit, Parsed: p, Last: last, Known: true, Clock: 10 * time.Second, Now: testNow,
			})
			switch {
			case f == nil && tt.fault != "":
				t.Errorf("no fault, want %s", tt.fault)
			case f != nil && (f.Class != tt.fault || !strings.Contains(f.Reason, tt.reason) || f.Engine != "e1"):
				t.Errorf("fault = %v, want %s with %q", f, tt.fault, tt.reason)
			}
		})
	}
}

func TestClassify(t *testing.T) {
	used := engines.Parsed{Usage: ferry.Usage{TokensIn: 100, TokensOut: 10}, Text: "done", Answered: true}
	fails := func(status int, message string) engines.Parsed {
		return engines.Parsed{Failure: &engines.Failure{Status: status, Message: message}}
	}
	prose := func(exit int, last string) engines.Observed {
		return engines.Observed{Ended: engines.EndedExited, Exit: exit, Last: last, Parsed: engines.Parsed{Text: last, Answered: last != ""}}
	}
	exited := func(p engines.Parsed, exit int) engines.Observed {
		return engines.Observed{Ended: engines.EndedExited, Exit: exit, Parsed: p, Known: true}
	}
	working := engines.Parsed{Usage: ferry.Usage{TokensIn: 5}, Working: true}
	midway := used
	midway.Text, midway.Answered, midway.Failure = "", false, &engines.Failure{Status: 503}
	badRequest := used
	badRequest.Failure = &engines.Failure{Status: 400, Message: "context too long"}
	for _, tt := range []struct {
		name string
		in   engines.Observed
		want engines.Class
		wait time.Duration
	}{
		{"worked", exited(used, 0), "", 0},
		{"its tests failed", exited(used, 1), "", 0},
		{"no answer but tokens", exited(engines.Parsed{Usage: ferry.Usage{TokensOut: 1}}, 0), "", 0},
		{"nothing", exited(engines.Parsed{}, 0), engines.FaultEmpty, 0},
		{"cancelled", engines.Observed{Ended: engines.EndedCancelled, Parsed: fails(500, "")}, "", 0},
		{"stalled in the model", engines.Observed{Ended: engines.EndedStalled, Parsed: used, Known: true}, engines.FaultSilent, 0},
		{"stalled in a tool", engines.Observed{Ended: engines.EndedStalled, Parsed: working, Known: true}, "", 0},
		{"timeout at work", engines.Observed{Ended: engines.EndedTimeout, Parsed: working, Known: true}, "", 0},
		{"timeout with nothing", engines.Observed{Ended: engines.EndedTimeout, Known: true}, engines.FaultSilent, 0},
		{"endpoint died midway", exited(midway, 1), engines.FaultEndpoint, 0},
		{"a request too long, after work", exited(badRequest, 1), "", 0},
		{"a request refused at once", exited(fails(400, "unknown model"), 1), engines.FaultEmpty, 0},
		{"404", exited(fails(404, "model not found"), 1), engines.FaultEndpoint, 0},
		{"408", exited(fails(408, ""), 1), engines.FaultEndpoint, 0},
		{"529", exited(fails(529, "Overloaded"), 1), engines.FaultEndpoint, 0},
		{"403", exited(fails(403, "forbidden"), 1), engines.FaultAuth, 0},
		{"429 for a minute", exited(fails(429, "Too Many Requests, retry after 60"), 1), engines.FaultRate, time.Minute},
		{"429 for ten minutes", exited(fails(429, "retry after 600s"), 1), engines.FaultCredit, 10 * time.Minute},
		{"429 without quota", exited(fails(429, "You exceeded your current quota"), 1), engines.FaultCredit, 0},
		{"usage limit with a date", exited(fails(0, "AI usage limit reached|1796050800"), 1), engines.FaultCredit, 3 * time.Hour},
		{"usage limit with a wait", exited(fails(0, "You've hit your usage limit. Try again in 3 days 4 hours 12 minutes."), 1), engines.FaultCredit, 76*time.Hour + 12*time.Minute},
		{"reset of a gateway", exited(fails(402, "[402]: Insufficient credits (reset after 2m)"), 1), engines.FaultCredit, 2 * time.Minute},
		{"a wait beyond reason", exited(fails(0, "usage limit, try again in 999999999999 days"), 1), engines.FaultCredit, 0},
		{"balance", exited(fails(400, "Insufficient Balance"), 1), engines.FaultCredit, 0},
		{"login expired", exited(fails(0, "OAuth token has expired"), 1), engines.FaultAuth, 0},
		{"prose: worked", prose(0, "all good"), "", 0},
		{"prose: failed at its work", prose(1, "2 tests failed"), "", 0},
		{"prose: talks about 402", prose(0, "the server answers 402 Payment Required"), "", 0},
		{"prose: no credit", prose(1, "Error: Insufficient credits"), engines.FaultCredit, 0},
		{"prose: login", prose(1, "Not logged in"), engines.FaultAuth, 0},
		{"prose: nothing", prose(1, ""), engines.FaultEmpty, 0},
		{"prose: nothing, no error", prose(0, ""), engines.FaultEmpty, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Now = testNow
			f := engines.Classify(tt.in)
			got := engines.Fault{}
			if f != nil {
				got = *f
			}
			if got.Class != tt.want || got.RetryAfter != tt.wait {
				t.Errorf("Classify() = %q after %s (%q), want %q after %s", got.Class, got.RetryAfter, got.Reason, tt.want, tt.wait)
			}
		})
	}
}

func TestHealth(t *testing.T) {
	silent := engines.Fault{Class: engines.FaultSilent, Reason: "silent"}
	credit := engines.Fault{Class: engines.FaultCredit, Reason: "no credit"}
	at := func(d time.Duration) time.Time { return testNow.Add(d) }
	var h engines.Health
	if h.Resting(testNow) {
		t.Fatal("the zero Health rests")
	}
	steps := []struct {
		at    time.Duration
		fault engines.Fault
		want  engines.Health
	}{
		{0, silent, engines.Health{Failures: 1, Until: at(15 * time.Minute), Class: "silent", Reason: "silent"}},
		{time.Minute, silent, engines.Health{Failures: 1, Until: at(15 * time.Minute), Class: "silent", Reason: "silent"}},
		{20 * time.Minute, silent, engines.Health{Failures: 2, Until: at(80 * time.Minute), Class: "silent", Reason: "silent"}},
		{25 * time.Minute, credit, engines.Health{Failures: 2, Until: at(385 * time.Minute), Class: "credit", Reason: "no credit"}},
		{400 * time.Minute, silent, engines.Health{Failures: 3, Until: at(640 * time.Minute), Class: "silent", Reason: "silent"}},
		{700 * time.Minute, silent, engines.Health{Failures: 4, Until: at(940 * time.Minute), Class: "silent", Reason: "silent"}},
	}
	for i, s := range steps {
		h = h.Fail(at(s.at), s.fault)
		if d := cmp.Diff(s.want, h); d != "" {
			t.Fatalf("step %d (-want +got):\n%s", i, d)
		}
		if !h.Resting(at(s.at)) {
			t.Errorf("step %d: it does not rest", i)
		}
	}
	if got := h.Worked(); got != (engines.Health{}) {
		t.Errorf("Worked() = %+v", got)
	}
}

func TestCooloff(t *testing.T) {
	for _, tt := range []struct {
		failures int
		fault    engines.Fault
		want     time.Duration
	}{
		{1, engines.Fault{Class: engines.FaultEndpoint}, 15 * time.Minute},
		{2, engines.Fault{Class: engines.FaultAuth}, time.Hour},
		{3, engines.Fault{Class: engines.FaultSilent}, 4 * time.Hour},
		{50, engines.Fault{Class: engines.FaultSilent}, 4 * time.Hour},
		{1, engines.Fault{Class: engines.FaultRate, RetryAfter: time.Minute}, 15 * time.Minute},
		{1, engines.Fault{Class: engines.FaultEndpoint, RetryAfter: 30 * time.Minute}, 30 * time.Minute},
		{1, engines.Fault{Class: engines.FaultCredit}, 6 * time.Hour},
		{3, engines.Fault{Class: engines.FaultCredit, RetryAfter: 20 * time.Minute}, 20 * time.Minute},
	} {
		if got := engines.Cooloff(tt.failures, tt.fault); got != tt.want {
			t.Errorf("Cooloff(%d, %v) = %s, want %s", tt.failures, tt.fault.Class, got, tt.want)
		}
	}
}

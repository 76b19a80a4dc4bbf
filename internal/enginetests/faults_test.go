//go:build engines

package enginetests_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry/internal/modelserver"
)

// TestFaults lets the engine fail, not the order: the run stops, nothing counts,
// the engine rests, and whoever asks why the order waits is told.
func TestFaults(t *testing.T) {
	t.Parallel()
	noKey := func(p *person) { p.Must(os.Remove(filepath.Join(p.Repo, ".ferry", "credentials.json"))) }
	for _, tt := range []struct {
		name string
		step modelserver.Step
		set  func(*person)
		want string // class of the fault
	}{
		{"key missing", sayDone, noKey, "auth"},
		{"no credit", modelserver.Step{Do: modelserver.DoError, Status: 402}, func(*person) {}, "credit"},
		{"silent", modelserver.Step{Do: modelserver.DoHang}, func(p *person) { p.Set("stall", `"5s"`) }, "silent"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachCLI(t, func(t *testing.T, cli string) {
				p := newPerson(t, cli, script(tt.step))
				p.enable()
				p.Set("prepare", `"true"`) // no check runs here
				tt.set(p)
				p.order("--max-attempts", "1")
				p.work()
				p.rests(tt.want)
			})
		})
	}
}

// rests wants an open order that an engine's fault did not count against.
func (p *person) rests(class string) {
	p.Helper()
	s := p.show()
	if s.Task.State != "open" || len(s.Results) != 0 || len(s.Attempts) != 1 || s.Attempts[0].Stop != "engine-fault" {
		p.Fatalf("want an open order with one stop for a fault: %+v", s)
	}
	if !strings.Contains(s.Attempts[0].Note, class) {
		p.Errorf("the stop says %q, want %s", s.Attempts[0].Note, class)
	}
	asked := p.server.Requests()
	p.work()
	if s := p.show(); len(s.Attempts) != 1 || p.server.Requests() != asked {
		p.Errorf("the resting engine was used: %+v", s)
	}
	if got := p.why(); !strings.Contains(got, "rests until") || !strings.Contains(got, class) {
		p.Errorf("status --why says:\n%s", got)
	}
	if strings.Contains(p.ferry(0, "log", "t-fix"), key) {
		p.Error("the key is in the log")
	}
}

// TestRefusedEdit takes the approval away. codex and claude edit nothing and say
// that they are done; pi asks nobody, ever.
func TestRefusedEdit(t *testing.T) {
	eachCLI(t, func(t *testing.T, cli string) {
		p := newPerson(t, cli, script(mend, sayDone))
		p.enable()
		p.Set("prepare", `"true"`) // no check needs a warm cache here
		p.Set("bypass", "false")
		if cli == "pi" {
			p.prepare()
		}
		p.order("--max-attempts", "1")
		p.work()
		if cli == "pi" {
			p.verified(1, broken)
			return
		}
		reason := p.refuted()
		if !strings.Contains(reason, "refused edits") {
			p.Errorf("the refused edit is not named: %s", reason)
		}
	})
}

// TestSaysDoneButDidNothing plays a model that claims success.
func TestSaysDoneButDidNothing(t *testing.T) {
	eachCLI(t, func(t *testing.T, cli string) {
		p := newPerson(t, cli, script(sayDone))
		p.enable()
		p.Set("prepare", `"true"`) // no check needs a warm cache here
		p.order()
		p.work()
		p.refuted()
		if got := p.why(); !strings.Contains(got, "revision 1 was refuted: the engine changed nothing") {
			p.Errorf("status --why says:\n%s", got)
		}
	})
}

// refuted wants a result that changed nothing and can go nowhere, and gives why.
func (p *person) refuted() (reason string) {
	p.Helper()
	s := p.show()
	if s.Task.Landed != "" || len(s.Results) != 1 || s.Results[0].Evidence.Status != "refuted" || len(s.Results[0].Files) != 0 || s.Results[0].Standing {
		p.Fatalf("want one refuted result without a change: %+v", s)
	}
	reason = strings.Join(s.Results[0].Evidence.Reasons, "; ")
	if got := s.Results[0].Answer; got != sayDone.Text {
		p.Errorf("answer %q", got)
	}
	for _, verb := range [][]string{{"channel", "review", "t-fix", "--accept"}, {"channel", "land", "t-fix"}} {
		if got := p.ferry(1, verb...); !strings.Contains(got, reason) {
			p.Errorf("%s is refused with: %s", verb[1], got)
		}
	}
	if got := p.git("rev-list", "--count", branch); got != "2" {
		p.Errorf("%s commits, want 2", got)
	}
	return reason
}

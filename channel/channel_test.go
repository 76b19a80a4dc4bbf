package channel_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// judge stands for package evidence: a result with a failed check is refuted.
func judge(_ *ferry.Order, r *ferry.Result) ferry.Evidence {
	for _, c := range r.Checks {
		if c.Exit != 0 {
			return ferry.Evidence{Status: ferry.EvidenceRefuted, Reasons: []string{"the check " + c.Command + " failed"}}
		}
	}
	return ferry.Evidence{Status: ferry.EvidenceVerified}
}

func testKey(tb rapid.TB, name string) sign.Key {
	tb.Helper()
	k, err := sign.GenerateKey(bytes.NewReader(fmt.Appendf(nil, "%-32s", name)))
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

func testMember(k sign.Key, name string, grants ...ferry.Grant) ferry.Member {
	pub := k.Public()
	return ferry.Member{Writer: ferry.WriterID(pub.WriterID()), Key: pub.String(), Name: ferry.AgentName(name), Machine: "box", Grants: grants}
}

// site is one machine with a channel: the master and one agent.
type site struct {
	*channel.Channel
	cfg    channel.Config
	master *channel.Writer
	agent  *channel.Writer
}

func newSite(tb testing.TB) *site {
	tb.Helper()
	dir := tb.TempDir()
	s := &site{cfg: channel.Config{Folder: filepath.Join(dir, "folder"), State: filepath.Join(dir, "state"), Judge: judge}}
	c, err := channel.Found(tb.Context(), s.cfg, channel.FoundSpec{
		Project: "demo", Master: ferry.Member{Name: "esteban", Machine: "box"}, Key: testKey(tb, "master"), Now: start,
	})
	if err != nil {
		tb.Fatal(err)
	}
	s.Channel = c
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	s.master = s.writer(tb, "master")
	agent := testKey(tb, "agent")
	if _, err := s.master.Admit(tb.Context(), start, testMember(agent, "wisp", ferry.GrantWork)); err != nil {
		tb.Fatal(err)
	}
	s.agent = s.writer(tb, "agent")
	return s
}

func (s *site) writer(tb testing.TB, name string) *channel.Writer {
	tb.Helper()
	w, err := s.Writer(testKey(tb, name))
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

func (s *site) reopen(tb testing.TB) {
	tb.Helper()
	id := s.ID()
	if err := s.Close(); err != nil {
		tb.Fatal(err)
	}
	c, err := channel.Open(tb.Context(), s.cfg, id)
	if err != nil {
		tb.Fatal(err)
	}
	s.Channel = c
	s.master, s.agent = s.writer(tb, "master"), s.writer(tb, "agent")
}

func order(label string, deps ...ferry.RecordID) ferry.Order {
	return ferry.Order{Label: ferry.Label(label), Project: "demo", Text: "do " + label, DependsOn: deps}
}

func (s *site) issue(tb testing.TB, o ferry.Order) ferry.RecordID {
	tb.Helper()
	id, err := s.master.Issue(tb.Context(), start, o)
	if err != nil {
		tb.Fatal(err)
	}
	return id
}

// finish carries an order through claim, start, run and result.
func (s *site) finish(tb testing.TB, id ferry.RecordID, exit int64) (result ferry.RecordID) {
	tb.Helper()
	t := s.task(tb, id)
	n := t.Next.Attempt
	_, begun, err := s.agent.Begin(tb.Context(), start, channel.BeginSpec{Order: id, Attempt: n, Start: ferry.Start{Engine: "codex", Sandbox: "none"}})
	if err != nil {
		tb.Fatal(err)
	}
	added, err := s.agent.Update(tb.Context(), start, func(tx *channel.Tx) error {
		if _, err := tx.Add(&ferry.Run{Order: id, Start: begun, Attempt: n, N: 1, Engine: "codex", Outcome: ferry.OutcomeDone}); err != nil {
			return err
		}
		_, err := tx.Add(&ferry.Result{Order: id, Start: begun, Attempt: n, Revision: n, Checks: []ferry.Check{{Command: "true", Exit: exit}}})
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return added[1]
}

func (s *site) task(tb testing.TB, id ferry.RecordID) ferry.Task {
	tb.Helper()
	t, err := s.Task(tb.Context(), id.String())
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func (s *site) wantState(tb testing.TB, id ferry.RecordID, want ferry.State) {
	tb.Helper()
	if got := s.task(tb, id); got.State != want {
		tb.Errorf("order %s is %s (%s), want %s", got.Order.Label, got.State, got.Hold, want)
	}
}

func TestOrderToDone(t *testing.T) {
	s := newSite(t)
	first := s.issue(t, order("first"))
	second := s.issue(t, order("second", first))
	s.wantState(t, first, ferry.StateOpen)
	s.wantState(t, second, ferry.StateBlocked)
	snap, err := s.Snapshot(t.Context())
	if err != nil || len(snap.Active) != 2 || snap.Active[0].ID != first && snap.Active[1].ID != first {
		t.Fatalf("snapshot = %+v, %v", snap, err)
	}
	if again, err := s.Snapshot(t.Context()); err != nil || again != snap {
		t.Errorf("a snapshot with nothing new is another one (%v)", err)
	}
	s.finish(t, first, 0)
	s.wantState(t, first, ferry.StateDone)
	s.wantState(t, second, ferry.StateOpen)
	snap, err = s.Snapshot(t.Context())
	if err != nil || len(snap.Active) != 1 || snap.Active[0].ID != second {
		t.Errorf("active = %+v, %v", snap.Active, err)
	}
	before, err := s.Tasks(t.Context(), channel.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, lost := range []string{"", "index.db"} {
		if lost != "" {
			if err := os.Remove(filepath.Join(s.cfg.State, lost)); err != nil {
				t.Fatal(err)
			}
		}
		s.reopen(t)
		after, err := s.Tasks(t.Context(), channel.Filter{})
		if diff := cmp.Diff(before, after); diff != "" || err != nil {
			t.Errorf("without %q after a restart (-before +after, %v):\n%s", lost, err, diff)
		}
	}
}

func TestRefuse(t *testing.T) {
	s := newSite(t)
	ctx := t.Context()
	id := s.issue(t, order("first"))
	twin := id
	addressed := order("addressed")
	addressed.To = "other"
	to := s.issue(t, addressed)
	begin := channel.BeginSpec{Order: id, Attempt: 1, Start: ferry.Start{Engine: "codex", Sandbox: "none"}}
	if _, _, err := s.agent.Begin(ctx, start, begin); err != nil {
		t.Fatal(err)
	}
	var unknown ferry.RecordID
	unknown[0] = 1
	tests := []struct {
		name string
		err  func() error
		want error
		text string
	}{
		{"label taken", func() error { _, err := s.master.Issue(ctx, start, order("first")); return err }, channel.ErrLabelTaken, twin.String()[:12]},
		{"on itself", func() error { _, err := s.master.Issue(ctx, start, order("first", id)); return err }, channel.ErrCycle, "first"},
		{"unknown dependency", func() error { _, err := s.master.Issue(ctx, start, order("x", unknown)); return err }, channel.ErrNoOrder, "depends on"},
		{"begun twice", func() error { _, _, err := s.agent.Begin(ctx, start, begin); return err }, channel.ErrNotClaimable, "running"},
		{"addressed", func() error {
			_, _, err := s.agent.Begin(ctx, start, channel.BeginSpec{Order: to, Attempt: 1, Start: ferry.Start{Engine: "x"}})
			return err
		}, channel.ErrNotClaimable, "for other"},
		{"order by a worker", func() error { _, err := s.agent.Issue(ctx, start, order("x")); return err }, nil, "grant order"},
		{"cancel by a worker", func() error { _, err := s.agent.Cancel(ctx, start, ferry.Cancel{Order: id}); return err }, nil, "grant dispatch"},
		{"work by the master", func() error { _, _, err := s.master.Begin(ctx, start, begin); return err }, channel.ErrNotClaimable, "running"},
		{"verdict on nothing", func() error {
			_, err := s.master.Verdict(ctx, start, ferry.Verdict{Order: id, Result: unknown, Decision: ferry.DecisionKeep})
			return err
		}, nil, "no result"},
		{"unknown decision", func() error {
			_, err := s.master.Verdict(ctx, start, ferry.Verdict{Order: id, Decision: "maybe"})
			return err
		}, nil, "unknown decision"},
		{"body too large", func() error {
			_, err := s.master.Note(ctx, start, ferry.Note{Kind: "x", Text: strings.Repeat("x", 65<<10)})
			return err
		}, nil, "65536"},
		{"nobody", func() error { _, err := s.Writer(testKey(t, "stranger")); return err }, channel.ErrNotMember, "member"},
		{"no order", func() error { _, err := s.Task(ctx, "nothing"); return err }, channel.ErrNoOrder, "ferry channel tasks"},
	}
	before, err := s.Ledger(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		err := tt.err()
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(fmt.Sprint(err), tt.text) {
			t.Errorf("%s: error %v, want %v with %q", tt.name, err, tt.want, tt.text)
		}
	}
	if after, err := s.Ledger(ctx, 0); err != nil || len(after) != len(before) {
		t.Errorf("refused writes left %d records (%v)", len(after)-len(before), err)
	}
}

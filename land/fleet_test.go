package land_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/ferrytest"
	"github.com/ferry-fleet/ferry/internal/gitfacts"
	"github.com/ferry-fleet/ferry/internal/worktree"
	"github.com/ferry-fleet/ferry/land"
)

func TestMain(m *testing.M) {
	box.Main()
	if os.Getenv(landerEnv) != "" {
		os.Exit(childLander())
	}
	os.Exit(m.Run())
}

// fleet is one machine with an agent.
type fleet struct {
	t        *testing.T
	m        *ferrytest.Machine
	repo     string
	gate     *worktree.Gate
	level    box.Level
	ch       *channel.Channel
	operator *channel.Writer
	agent    *channel.Writer
	journal  string
	scratch  string
	now      time.Time
	runs     int
	forge    func(*ferry.Result) // what a lying worker does to its result
}

// now is the time at which everything here happens.
var now = time.Unix(1_800_000_000, 0).UTC()

func newFleet(t *testing.T, files map[string]string) *fleet {
	t.Helper()
	m := ferrytest.New(t, files)
	return &fleet{
		t: t, m: m, repo: m.Repo, gate: m.Gate, level: m.Level, ch: m.Channel, operator: m.Operator, agent: m.Agent("wisp"),
		journal: filepath.Join(m.State, "landing"), scratch: filepath.Join(m.State, "scratch"), now: now,
	}
}

func (f *fleet) must(err error) {
	f.t.Helper()
	f.m.Must(err)
}

func (f *fleet) want(ok bool) {
	f.t.Helper()
	if !ok {
		f.t.Fatal("that is not what was wanted")
	}
}

func (f *fleet) git(args ...string) string {
	f.t.Helper()
	return f.m.Git(args...)
}

func (f *fleet) write(dir string, files map[string]string) {
	f.t.Helper()
	f.m.Write(dir, files)
}

// commit is a commit of the person on the branch that is checked out.
func (f *fleet) commit(files map[string]string) ferry.Commit {
	f.t.Helper()
	return f.m.Commit(files)
}

func (f *fleet) read(name string) string {
	f.t.Helper()
	b, err := os.ReadFile(filepath.Join(f.repo, name))
	f.must(err)
	return string(b)
}

func (f *fleet) order(label string, edit func(*ferry.Order)) ferry.RecordID {
	f.t.Helper()
	base, err := f.gate.Base(f.t.Context(), "main")
	f.must(err)
	f.must(f.gate.Import(f.t.Context(), base.Commit))
	o := ferry.Order{Label: ferry.Label(label), Project: "demo", Text: "# Fix add\n\nIt subtracts.", Checks: []string{"sh check.sh"}, Target: "main", Base: base.Commit}
	if edit != nil {
		edit(&o)
	}
	id, err := f.operator.Issue(f.t.Context(), f.now, o)
	f.must(err)
	return id
}

func (f *fleet) task(id ferry.RecordID) ferry.Task {
	f.t.Helper()
	t, err := f.ch.Task(f.t.Context(), id.String())
	f.must(err)
	return t
}

// work does one attempt as the worker does it: claim, start, tree, snapshot,
// evidence, result. The engine is the function that writes files.
func (f *fleet) work(id ferry.RecordID, files map[string]string) ferry.Task {
	f.t.Helper()
	ctx, t := f.t.Context(), f.task(id)
	if !t.Next.Claimable {
		f.t.Fatalf("%s is not claimable: %s %s", t.Order.Label, t.State, t.Hold)
	}
	begun := ferry.Start{Engine: "script", Sandbox: string(f.level), From: t.Next.From}
	_, start, err := f.agent.Begin(ctx, f.now, channel.BeginSpec{Order: id, Attempt: t.Next.Attempt, Start: begun})
	f.must(err)
	f.runs++
	dir := filepath.Join(f.t.TempDir(), "run")
	tree, err := f.gate.NewTree(ctx, worktree.TreeSpec{Dir: dir, Commit: t.Next.From})
	f.must(err)
	f.write(tree.Work(), files)
	snap, err := f.gate.Snapshot(ctx, worktree.SnapSpec{
		Tree: tree, Ref: fmt.Sprintf("refs/ferry/attempts/%s/%d/%d", id, t.Next.Attempt, f.runs), Message: "attempt", Agent: "wisp", When: f.now, Level: f.level,
	})
	f.must(err)
	repo, err := gitfacts.Open(f.gate.Dir())
	f.must(err)
	defer repo.Close()
	found, err := evidence.Collect(ctx, evidence.Spec{
		Gate: f.gate, Repo: repo, Order: t.Order, Base: t.Order.Base, From: t.Next.From, Commit: snap.Commit, Skipped: snap.Skipped,
		Checks: checksIn(filepath.Join(f.t.TempDir(), "checks"), f.level),
	})
	f.must(err)
	r := &ferry.Result{
		Order: id, Attempt: t.Next.Attempt, Revision: t.Revision + 1, Start: start, Engine: "script", Branch: t.Branch(),
		Sandbox: ferry.Sandbox{Level: string(f.level), Net: "open"}, Answer: "done",
	}
	found.Fill(r)
	if f.forge != nil {
		f.forge(r)
	}
	_, err = f.agent.Update(ctx, f.now, func(tx *channel.Tx) error {
		_, err := tx.Add(r)
		return err
	})
	f.must(err)
	return f.task(id)
}

func (f *fleet) checks() evidence.ChecksSpec { return checksIn(f.scratch, f.level) }

func checksIn(dir string, level box.Level) evidence.ChecksSpec {
	return evidence.ChecksSpec{Dir: dir, Box: box.Spec{Level: level, Net: box.NetNone}, Timeout: time.Minute}
}

// asks is what a writer says of t-1.
func (f *fleet) asks(w *channel.Writer, d ferry.Decision, notes string) land.ReviewSpec {
	return land.ReviewSpec{Channel: f.ch, Writer: w, Gate: f.gate, Order: "t-1", Decision: d, Notes: notes, Now: f.now}
}

func (f *fleet) review(d ferry.Decision, notes string) land.Said {
	f.t.Helper()
	said, err := land.Review(f.t.Context(), f.asks(f.operator, d, notes))
	f.must(err)
	return said
}

func (f *fleet) approve() land.Said {
	f.t.Helper()
	said, err := land.Approve(f.t.Context(), f.asks(f.operator, "", ""))
	f.must(err)
	return said
}

func (f *fleet) spec(label string) land.Spec {
	return land.Spec{
		Channel: f.ch, Writer: f.operator, Gate: f.gate, Order: label, Explicit: true, Journal: f.journal, Checks: f.checks(), Now: f.now,
	}
}

func (f *fleet) land(label string) land.Outcome {
	f.t.Helper()
	out, err := land.Land(f.t.Context(), f.spec(label))
	f.must(err)
	return out
}

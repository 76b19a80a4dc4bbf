package attack_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/ferrytest"
	"github.com/ferry-fleet/ferry/internal/gitfacts"
	"github.com/ferry-fleet/ferry/land"
)

// yard is a machine with a repository in which something tells when it is run.
type yard struct {
	*ferrytest.Machine
	t      *testing.T
	agent  *channel.Writer
	canary string
	now    time.Time
}

func newYard(t *testing.T) *yard {
	t.Helper()
	m := ferrytest.New(t, map[string]string{"a.txt": "one\n"})
	return &yard{Machine: m, t: t, agent: m.Agent("wisp"), canary: filepath.Join(m.Dir, "canary"), now: time.Unix(1_800_000_000, 0).UTC()}
}

// commit makes a commit on a branch of its own and brings it into the gate.
func (y *yard) commit(branch string, files map[string]string) ferry.Commit {
	y.t.Helper()
	y.Git("checkout", "-q", "-b", branch)
	c := y.Commit(files)
	y.Git("checkout", "-q", "main")
	must(y.t, y.Gate.Import(y.t.Context(), c))
	return c
}

// result hands in a commit for an order, as the worker measures it, and then as a liar changes it.
func (y *yard) result(id ferry.RecordID, c ferry.Commit, edit func(*ferry.Result)) {
	y.t.Helper()
	ctx, t := y.t.Context(), y.Task(id.String())
	_, begun, err := y.agent.Begin(ctx, y.now, channel.BeginSpec{Order: id, Attempt: 1, Start: ferry.Start{Engine: "script", Sandbox: string(y.Level), From: t.Next.From}})
	must(y.t, err)
	repo, err := gitfacts.Open(y.Gate.Dir())
	must(y.t, err)
	defer repo.Close()
	found, err := evidence.Collect(ctx, evidence.Spec{Gate: y.Gate, Repo: repo, Order: t.Order, Base: t.Order.Base, From: t.Next.From, Commit: c, Checks: y.checks()})
	must(y.t, err)
	r := &ferry.Result{Order: id, Attempt: 1, Revision: 1, Start: begun, Engine: "script", Branch: t.Branch(), Sandbox: ferry.Sandbox{Level: string(y.Level), Net: "none"}}
	found.Fill(r)
	if edit != nil {
		edit(r)
	}
	write(y.t, y.agent, r)
}

func (y *yard) checks() evidence.ChecksSpec {
	return evidence.ChecksSpec{Dir: filepath.Join(y.t.TempDir(), "checks"), Box: box.Spec{Level: y.Level, Net: box.NetNone}, Timeout: time.Minute}
}

func (y *yard) land(label, into string) land.Outcome {
	y.t.Helper()
	out, err := land.Land(y.t.Context(), land.Spec{
		Channel: y.Channel, Writer: y.Operator, Gate: y.Gate, Order: label, Into: into, Explicit: true, Journal: filepath.Join(y.State, "landing"), Checks: y.checks(), Now: y.now,
	})
	if err != nil && !strings.Contains(err.Error(), "is not a branch name") {
		y.t.Fatal(err)
	}
	return out
}

func (y *yard) quiet(what string) {
	y.t.Helper()
	if _, err := os.Stat(y.canary); err == nil {
		y.t.Fatalf("%s: a program was run", what)
	}
}

// Nothing that stands in a signed order or result is an option or a command of git.
func TestFieldsThatReachGit(t *testing.T) {
	y := newYard(t)
	work := y.commit("work", map[string]string{"a.txt": "two\n"})
	main := y.Git("rev-parse", "main")
	run := "touch " + y.canary
	for i, target := range []string{
		"-x", "--exec=" + run, "--upload-pack=" + run, "ext::sh -c '" + run + "'", "HEAD", "@{-1}", "main:other", ":main", "+main", "main~1", "main^{}", "../main",
		"main\nother", "main other", "refs/heads/../../x", "$(" + run + ")", "`" + run + "`", ";" + run, "main.lock", "a..b", "-", "@", strings.Repeat("x", 300), "refs/ferry/landed/x", "x\x1by",
	} {
		label := fmt.Sprintf("t-%d", i)
		id := y.Order(label, func(o *ferry.Order) { o.Target = target })
		y.result(id, work, nil)
		for _, into := range []string{"", target} {
			if out := y.land(label, into); out.Decision.Allowed || out.Landed() {
				t.Errorf("it lands on %q: %+v", target, out)
			}
			y.quiet(target)
		}
	}
	evil := "--output=" + y.canary
	for i, edit := range []func(*ferry.Result){
		func(r *ferry.Result) { r.Branch = evil },
		func(r *ferry.Result) { r.Content = evil },
		func(r *ferry.Result) { r.Files[0].Path = evil },
		func(r *ferry.Result) { r.Files[0].ModeNew, r.Files[0].Status = evil, evil },
		func(r *ferry.Result) { r.Facts.Skipped = []string{evil} },
		func(r *ferry.Result) { r.Sandbox = ferry.Sandbox{Level: evil, Net: evil, Probe: evil} },
	} {
		label := fmt.Sprintf("r-%d", i)
		id := y.Order(label, func(o *ferry.Order) { o.NeedsReview = true })
		y.result(id, work, edit)
		y.land(label, "")
		y.quiet(label)
	}
	if got := y.Git("rev-parse", "main"); got != main {
		t.Errorf("main has moved to %s", got)
	}
	for _, bad := range []func(*ferry.Order){
		func(o *ferry.Order) { o.Label = "-x" }, func(o *ferry.Order) { o.Label = "a..b" }, func(o *ferry.Order) { o.Label = "x.lock" },
		func(o *ferry.Order) { o.Label = "../x" }, func(o *ferry.Order) { o.Base = "--all" }, func(o *ferry.Order) { o.Base = "HEAD" },
		func(o *ferry.Order) { o.Touches = []string{"../**"} }, func(o *ferry.Order) { o.Touches = []string{"/etc/*"} }, func(o *ferry.Order) { o.To = "--x" },
	} {
		o := order("fine")
		bad(o)
		if o.Check() == nil {
			t.Errorf("an order is read with %+v", o)
		}
	}
}

// What lies in the repository that is landed on, as hooks and settings, is not run; names that a commit holds are data.
func TestHooksAtLanding(t *testing.T) {
	y := newYard(t)
	work := y.commit("work", map[string]string{
		"a.txt": "two\n", "-rf": "x\n", "--upload-pack=x": "y\n", ".gitattributes": "* filter=evil diff=evil merge=evil\n", "$(touch x)": "z\n",
	})
	script := "#!/bin/sh\ntouch " + y.canary + "\ncat\n"
	tell := filepath.Join(y.Dir, "tell")
	must(t, os.WriteFile(tell, []byte(script), 0o755))
	for _, hook := range []string{
		"applypatch-msg", "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive",
		"update", "post-receive", "post-update", "reference-transaction", "post-index-change", "post-rewrite", "pre-merge-commit", "fsmonitor-watchman", "pre-auto-gc",
	} {
		must(t, os.WriteFile(filepath.Join(y.Repo, ".git", "hooks", hook), []byte(script), 0o755))
	}
	settings := strings.ReplaceAll(`
[core]
	fsmonitor = RUN
	editor = RUN
	pager = RUN
	askPass = RUN
	sshCommand = RUN
	alternateRefsCommand = RUN
[diff]
	external = RUN
[diff "evil"]
	textconv = RUN
	command = RUN
[merge "evil"]
	driver = RUN
[gpg]
	program = RUN
[commit]
	gpgSign = true
[credential]
	helper = !RUN
[uploadpack]
	packObjectsHook = RUN
[alias]
	update-ref = !RUN
	read-tree = !RUN
	status = !RUN
[trailer "x"]
	command = RUN
	key = x
`, "RUN", tell)
	config := filepath.Join(y.Repo, ".git", "config")
	had, err := os.ReadFile(config)
	must(t, err)
	must(t, os.WriteFile(config, append(had, settings...), 0o644))
	id := y.Order("t-1", nil)
	y.result(id, work, nil)
	y.quiet("the result")
	out := y.land("t-1", "")
	y.quiet("the landing")
	if out.Decision.Code != land.CodeLand {
		t.Fatalf("Land() = %+v", out.Decision)
	}
	for _, name := range []string{"-rf", "--upload-pack=x", "$(touch x)"} {
		if _, err := os.Stat(filepath.Join(y.Repo, name)); err != nil {
			t.Errorf("%s has not landed: %v", name, err)
		}
	}
	if again := y.land("t-1", ""); again.Decision.Code != land.CodeAlreadyLanded {
		t.Errorf("Land() again = %+v", again.Decision)
	}
	y.quiet("the landing again")
}

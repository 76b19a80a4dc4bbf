package evidence_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/internal/gitfacts"
	"github.com/ferry-fleet/ferry/internal/redact"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// oldKey and newKey have the form of a token and open nothing.
var (
	oldKey = "ghp_" + strings.Repeat("a1B2", 9)
	newKey = "ghp_" + strings.Repeat("c3D4", 9)
)

// collect measures what the commit changes against base, and classifies it.
func (r *repo) collect(o *ferry.Order, base, commit ferry.Commit) (evidence.Findings, ferry.Evidence) {
	r.t.Helper()
	facts, err := gitfacts.Open(r.gate.Dir())
	if err != nil {
		r.t.Fatal(err)
	}
	o.Base = base
	defer facts.Close()
	spec := evidence.Spec{
		Gate: r.gate, Repo: facts, Order: o, Base: base, From: base, Commit: commit, Redactor: redact.New([]string{"the-credential"}),
		Checks: r.checks(), Skipped: nil,
	}
	found, err := evidence.Collect(r.t.Context(), spec)
	if err != nil {
		r.t.Fatal(err)
	}
	res := ferry.Result{Revision: 1, Sandbox: ferry.Sandbox{Level: string(r.level)}}
	found.Fill(&res)
	return found, evidence.Classify(o, &res)
}

func TestCollect(t *testing.T) {
	files := map[string]string{
		"add.sh": "echo $(($1 - $2))\n", "check.sh": "test \"$(sh add.sh 1 2)\" = 3\n", "old.env": "token " + oldKey + "\n", "docs/a.md": "a\n",
	}
	fix := map[string]string{"add.sh": "echo $(($1 + $2))\n"}
	with := func(name, text string) map[string]string {
		return map[string]string{"add.sh": fix["add.sh"], name: text}
	}
	tests := []struct {
		name    string
		touches []string
		change  map[string]string
		want    ferry.EvidenceStatus
		reason  string
		facts   ferry.Facts
	}{
		{"fixed", []string{"add.sh"}, fix, ferry.EvidenceVerified, "", ferry.Facts{}},
		{"not fixed", nil, map[string]string{"add.sh": "echo 4\n"}, ferry.EvidenceRefuted, "`sh check.sh` failed with exit 1", ferry.Facts{}},
		{"the check is edited", nil, map[string]string{"check.sh": "true\n"}, ferry.EvidenceUnverified, "check.sh", ferry.Facts{CheckEdit: []string{"check.sh"}}},
		{"outside", []string{"add.sh"}, with("docs/a.md", "b\n"), ferry.EvidenceRefuted, "docs/a.md", ferry.Facts{Outside: []string{"docs/a.md"}}},
		{"a token is added", nil, with("new.env", "x\ntoken "+newKey+"\n"), ferry.EvidenceRefuted, "new.env: GitHub token", ferry.Facts{Secrets: []string{"new.env: GitHub token"}}},
		{"the credential is added", nil, with("docs/a.md", "the-credential\n"), ferry.EvidenceRefuted, "docs/a.md: secret", ferry.Facts{Secrets: []string{"docs/a.md: secret"}}},
		{"a token that was there", nil, with("old.env", "# moved\ntoken "+oldKey+"\n"), ferry.EvidenceVerified, "", ferry.Facts{}},
		{"a cache in the tree", nil, map[string]string{".cache/go-build/x": "poison", "add.sh": "echo 4\n"}, ferry.EvidenceRefuted, "exit 1", ferry.Facts{}},
	}
	r := newRepo(t, files)
	base := r.head()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.git("checkout", "-q", "-B", "case", string(base))
			commit := r.commit(tt.change)
			o := &ferry.Order{Label: "t", Text: "fix add", Touches: tt.touches, Checks: []string{"sh check.sh"}}
			found, got := r.collect(o, base, commit)
			if got.Status != tt.want || !strings.Contains(strings.Join(got.Reasons, "\n"), tt.reason) {
				t.Errorf("Classify() = %+v, want %s with %q", got, tt.want, tt.reason)
			}
			if diff := cmp.Diff(tt.facts, found.Facts); diff != "" {
				t.Errorf("facts: -want +got\n%s", diff)
			}
			if int(found.FilesTotal) != len(tt.change) || len(found.Content) != 64 || found.Tree != ferry.Commit(r.git("rev-parse", "HEAD^{tree}")) {
				t.Errorf("findings = %+v", found)
			}
			if text := fmt.Sprintf("%+v %+v", found, got); strings.Contains(text, newKey) || strings.Contains(text, "the-credential") {
				t.Error("a fact shows a secret")
			}
		})
	}
}

func TestCollectOfNothing(t *testing.T) {
	r := newRepo(t, map[string]string{"a": "x\n"})
	o := &ferry.Order{Label: "t", Text: "do", Checks: []string{"true"}}
	found, got := r.collect(o, r.head(), r.head())
	if found.FilesTotal != 0 || len(found.Checks) != 0 || got.Status != ferry.EvidenceRefuted || len(got.Reasons) != 1 {
		t.Errorf("Collect() = %+v, Classify() = %+v", found, got)
	}
}

func TestCollectBoundsItsLists(t *testing.T) {
	r := newRepo(t, map[string]string{"a": "x\n"})
	base := r.head()
	change := map[string]string{}
	for i := range ferry.MaxResultFiles + 20 {
		change[filepath.Join("d", fmt.Sprintf("f%03d", i))] = "x\n"
	}
	o := &ferry.Order{Label: "t", Text: "do", Touches: []string{"a"}}
	found, got := r.collect(o, base, r.commit(change))
	if len(found.Files) != ferry.MaxResultFiles || found.FilesTotal != int64(len(change)) || !found.Facts.Cut || len(found.Facts.Outside) > 50 {
		t.Errorf("%d files listed of %d, %d outside, cut %v", len(found.Files), found.FilesTotal, len(found.Facts.Outside), found.Facts.Cut)
	}
	if got.Status != ferry.EvidenceRefuted {
		t.Errorf("Classify() = %+v", got)
	}
}

func TestWhatTheSnapshotLeavesOutIsNamed(t *testing.T) {
	r := newRepo(t, map[string]string{"a": "x\n"})
	base := r.head()
	tree, err := r.gate.NewTree(t.Context(), worktree.TreeSpec{Dir: filepath.Join(t.TempDir(), "run"), Commit: base})
	r.m.Must(err)
	// Made from inside, one level at a time: no path of it could be opened from the root.
	at, err := unix.Open(tree.Work(), unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	r.m.Must(err)
	name := strings.Repeat("d", 100)
	for range 300 {
		r.m.Must(unix.Mkdirat(at, name, 0o755))
		next, err := unix.Openat(at, name, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		r.m.Must(errors.Join(err, unix.Close(at)))
		at = next
	}
	fd, err := unix.Openat(at, "file", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	r.m.Must(errors.Join(err, unix.Close(fd), unix.Close(at)))
	snap, err := r.gate.Snapshot(t.Context(), worktree.SnapSpec{Tree: tree, Ref: "refs/ferry/attempts/x/1/1", Message: "x", Level: r.level})
	r.m.Must(err)
	facts, err := gitfacts.Open(r.gate.Dir())
	r.m.Must(err)
	defer facts.Close()
	o := &ferry.Order{Label: "t", Text: "what is in d?", Base: base}
	found, err := evidence.Measure(t.Context(), evidence.Spec{Gate: r.gate, Repo: facts, Order: o, Base: base, From: base, Commit: snap.Commit, Skipped: snap.Skipped})
	r.m.Must(err)
	res := ferry.Result{Revision: 1, Answer: "done", Sandbox: ferry.Sandbox{Level: string(r.level)}}
	found.Fill(&res)
	got := evidence.Classify(o, &res)
	if reasons := strings.Join(got.Reasons, "\n"); got.Status != ferry.EvidenceUnverified || !strings.Contains(reasons, "ddd: path too long") {
		t.Errorf("Classify() = %+v of %q", got, snap.Skipped)
	}
}

func TestMeasureEndsWithItsContext(t *testing.T) {
	r := newRepo(t, map[string]string{"a": "x\n"})
	base := r.head()
	commit := r.commit(map[string]string{"a": "y\n", "b": "x\n"})
	facts, err := gitfacts.Open(r.gate.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer facts.Close()
	killed := errors.New("killed by the person")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(killed)
	s := evidence.Spec{Gate: r.gate, Repo: facts, Order: &ferry.Order{Checks: []string{"true"}}, Base: base, From: base, Commit: commit, Checks: r.checks()}
	if f, err := evidence.Collect(ctx, s); !errors.Is(err, killed) || len(f.Checks) > 0 {
		t.Errorf("Collect() after a kill = %+v, %v", f, err)
	}
}

func TestStrangeNamesAreFactsNotErrors(t *testing.T) {
	r := newRepo(t, map[string]string{"a": "x\n", "gone\x1b[31m": "x\n"})
	base := r.head()
	names := []string{"del\x7f", "esc\x1b[31m", "new\nline", "tab\there", "\xff\xfe", "dir\r/file", "back\\slash", "e\u202ee", " ", "sp ", "-rf", ":(top)x", `quo"te`}
	change := map[string]string{"a": "y\n", "gone\x1b[31m": ""}
	for _, n := range names {
		change[n] = "x\n"
	}
	commit := r.commit(change)
	o := &ferry.Order{Label: "t", Text: "do", Touches: []string{"a"}, Checks: []string{"true"}}
	found, got := r.collect(o, base, commit)
	if int(found.FilesTotal) != len(change) || got.Status != ferry.EvidenceRefuted || !strings.Contains(strings.Join(got.Reasons, "\n"), "may not land") {
		t.Errorf("%d files, Classify() = %+v", found.FilesTotal, got)
	}
	bad := strings.Join(found.Facts.BadPaths, "\n")
	for _, want := range []string{`del`, `esc`, `new`, `tab`, `dir`, `back`, `sp `} {
		if !strings.Contains(bad, want) {
			t.Errorf("the paths that may not land are\n%s\nwithout %s", bad, want)
		}
	}
	for _, s := range slices.Concat(got.Reasons, found.Facts.BadPaths, found.Facts.Outside) {
		if strings.ContainsFunc(s, unicode.IsControl) || strings.Contains(s, "\u202e") {
			t.Errorf("a fact is no visible line: %q", s)
		}
	}
	if want := fmt.Sprintf("%d changed files are outside", len(names)+1); !strings.Contains(got.Reasons[0], want) {
		t.Errorf("reason = %q, want %q: no file counts twice", got.Reasons[0], want)
	}
}

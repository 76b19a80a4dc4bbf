package evidence_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/redact"
)

func (r *repo) checks(commands ...string) evidence.ChecksSpec {
	return evidence.ChecksSpec{
		Gate: r.gate, Commands: commands, Commit: r.head(), Dir: filepath.Join(r.t.TempDir(), "checks"),
		Box: box.Spec{Level: r.level, Net: box.NetNone}, Timeout: time.Minute,
	}
}

func run(t *testing.T, spec evidence.ChecksSpec) []ferry.Check {
	t.Helper()
	got, err := evidence.RunChecks(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(spec.Commands) {
		t.Fatalf("%d checks ran, want %d", len(got), len(spec.Commands))
	}
	left, err := filepath.Glob(filepath.Join(spec.Dir, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
	return got
}

func TestRunChecks(t *testing.T) {
	r := newRepo(t, map[string]string{"a.txt": "hello\n", "ok.sh": "#!/bin/sh\necho fine\n"})
	tests := []struct {
		command    string
		exit       int64
		tail, why  string
		hiddenTail string
	}{
		{command: "./ok.sh && grep -q hello a.txt", tail: "fine"},
		{command: "echo out; echo err >&2; exit 3", exit: 3, tail: "err"},
		{command: "nosuchtool --x", exit: 127, why: "`nosuchtool` is not in the box"},
		{command: "echo x > /usr/x", exit: 2, why: "may not write"},
		{command: "git diff --quiet HEAD && test -z \"$(git status --porcelain)\"", tail: ""},
		{command: "echo made > made && mkdir -p d && echo d > d/x && chmod 0 d", tail: ""},
		{command: "test ! -e made && test ! -e d", tail: ""},
		{command: "echo x > $XDG_CACHE_HOME/poison && echo y > a.txt", tail: ""},
		{command: "test ! -e $XDG_CACHE_HOME/poison && grep -q hello a.txt", tail: ""},
		{command: "echo token hunter2-secret; exit 1", exit: 1, tail: "[redacted", hiddenTail: "hunter2"},
		{command: "printf '\\033]0;x\\007'; exit 1", exit: 1, hiddenTail: "\x1b"},
	}
	var commands []string
	for _, tt := range tests {
		commands = append(commands, tt.command)
	}
	spec := r.checks(commands...)
	spec.Redactor = redact.New([]string{"hunter2-secret"})
	for i, c := range run(t, spec) {
		tt := tests[i]
		if c.Command != tt.command || c.Exit != tt.exit || !strings.Contains(c.Tail, tt.tail) || !strings.Contains(c.Reason, tt.why) {
			t.Errorf("check = %+v, want exit %d, tail %q, reason %q", c, tt.exit, tt.tail, tt.why)
		}
		if tt.hiddenTail != "" && strings.Contains(c.Tail, tt.hiddenTail) {
			t.Errorf("the tail %q shows %q", c.Tail, tt.hiddenTail)
		}
	}
}

func TestRunChecksBounds(t *testing.T) {
	r := newRepo(t, map[string]string{"a": "x\n"})
	spec := r.checks("i=0; while [ $i -lt 2000 ]; do echo line $i is long enough to be cut; i=$((i+1)); done; exit 1", "sleep 600 & sleep 600")
	spec.Timeout = 2 * time.Second
	got := run(t, spec)
	if tail := got[0].Tail; len(tail) > ferry.MaxCheckTail || !strings.Contains(tail, "line 0 is") || !strings.Contains(tail, "line 1999 is") {
		t.Errorf("the tail of %d bytes does not hold both ends: %q", len(tail), tail)
	}
	if got[1].Exit != -1 || !strings.Contains(got[1].Reason, "still ran after 2s") {
		t.Errorf("check = %+v, want it ended by its clock", got[1])
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := evidence.RunChecks(ctx, spec); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled run gives %v", err)
	}
}

func TestPrepareFillsACacheThatChecksOnlyRead(t *testing.T) {
	r := newRepo(t, map[string]string{"dep.txt": "of the base\n"})
	base := r.head()
	dir := filepath.Join(t.TempDir(), "caches")
	spec := evidence.PrepareSpec{
		Gate: r.gate, Base: base, Dir: dir, Box: box.Spec{Level: r.level, Net: box.NetNone},
		Command: "cp dep.txt $FERRY_CACHE/ && echo built > $XDG_CACHE_HOME/object && date +%N > $FERRY_CACHE/when",
	}
	cache, err := evidence.Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	when := read(t, filepath.Join(cache.Dir, "when"))
	r.commit(map[string]string{"dep.txt": "of the engine\n"})
	checks := r.checks(
		"grep -q 'of the base' $FERRY_CACHE/dep.txt",
		"grep -q built $XDG_CACHE_HOME/object && echo poison > $XDG_CACHE_HOME/object",
		"grep -q built $XDG_CACHE_HOME/object",
		"echo poison > $FERRY_CACHE/dep.txt",
	)
	checks.Cache = cache
	got := run(t, checks)
	for i, c := range got {
		if ok := c.Exit == 0; ok != (i < 3) {
			t.Errorf("check %+v", c)
		}
	}
	if text := read(t, filepath.Join(cache.Dir, "dep.txt")); text != "of the base\n" {
		t.Errorf("the cache holds %q", text)
	}
	again, err := evidence.Prepare(t.Context(), spec)
	if err != nil || again != cache || read(t, filepath.Join(cache.Dir, "when")) != when {
		t.Errorf("Prepare() = %v, %v, want the same cache again", again, err)
	}
	spec.Base = r.head()
	other, err := evidence.Prepare(t.Context(), spec)
	if err != nil || other == cache {
		t.Errorf("Prepare() on another base = %v, %v", other, err)
	}
	if err := evidence.Prune(dir, 0, []evidence.Cache{other}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(cache.Dir); err == nil {
		t.Error("a cache out of use was kept")
	}
	if _, err := os.Stat(other.Dir); err != nil {
		t.Errorf("a cache in use was removed: %v", err)
	}
}

// TestPrepareGoesOnFromAnEarlierBase: what was built for one base is there when the next is prepared, and what was only
// downloaded is not.
func TestPrepareGoesOnFromAnEarlierBase(t *testing.T) {
	r := newRepo(t, map[string]string{"a": "1\n"})
	spec := evidence.PrepareSpec{
		Gate: r.gate, Base: r.head(), Dir: filepath.Join(t.TempDir(), "caches"), Box: box.Spec{Level: r.level, Net: box.NetNone},
		Command: "cat a >> $XDG_CACHE_HOME/built && cat a >> $FERRY_CACHE/loaded",
	}
	first, err := evidence.Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	spec.Base = r.commit(map[string]string{"a": "2\n"})
	second, err := evidence.Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cache       evidence.Cache
		file, wants string
	}{{first, "build/built", "1\n"}, {second, "build/built", "1\n2\n"}, {second, "loaded", "2\n"}} {
		if got := read(t, filepath.Join(c.cache.Dir, c.file)); got != c.wants {
			t.Errorf("%s holds %q, want %q", c.file, got, c.wants)
		}
	}
}

func TestPrepareThatFails(t *testing.T) {
	r := newRepo(t, map[string]string{"a": "x\n"})
	dir := filepath.Join(t.TempDir(), "caches")
	spec := evidence.PrepareSpec{Gate: r.gate, Base: r.head(), Dir: dir, Box: box.Spec{Level: r.level, Net: box.NetNone}, Command: "nosuchtool fetch"}
	_, err := evidence.Prepare(t.Context(), spec)
	var failed *evidence.PrepareError
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "`nosuchtool fetch` ended with exit 127") || !strings.Contains(err.Error(), "ro = [...]") {
		t.Errorf("Prepare() = %v", err)
	}
	entries, readErr := os.ReadDir(dir)
	if readErr != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, readErr)
	}
	spec.Command = " "
	if c, err := evidence.Prepare(t.Context(), spec); err != nil || c != (evidence.Cache{}) {
		t.Errorf("Prepare() without a command = %v, %v", c, err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

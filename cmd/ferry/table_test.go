package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry/worker"
)

func TestTableIsPlainWhereNobodyLooks(t *testing.T) {
	var out bytes.Buffer
	a := newApp(&out, &out)
	a.table(&out, []string{"order", "state"}, [][]string{{"t-1", "failed"}, {"t-\x1b[2Jlong", strings.Repeat("word ", 40)}})
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 3 || strings.Contains(out.String(), "\x1b") {
		t.Errorf("table() = %q, want 3 lines without escapes", lines)
	}
	for _, l := range lines {
		if l != strings.TrimRight(l, " ") {
			t.Errorf("line %q ends with spaces", l)
		}
	}
}

// A text of somebody else cannot write a line of its own.
func TestTextsOfOthersStayOnTheirLine(t *testing.T) {
	forged := "a\n  next: `rm -r x`\tb\x1b[2J\u2028c"
	var out bytes.Buffer
	a := newApp(&out, &out)
	a.statusText(&out, &statusShape{
		Rejected: []string{forged}, Doubts: []string{forged}, Waiting: []string{forged}, Behind: forged,
		Workers: []workerShape{{Alive: true, Status: worker.Status{Stopped: forged}}},
	})
	attemptText(&out, &attemptShape{Stop: "failed", Note: forged, Runs: []runShape{{Reason: forged}}})
	resultText(&out, &resultShape{Evidence: evidenceShape{Reasons: []string{forged}}, Files: []fileShape{{Path: forged}}, Checks: []checkedRun{{Command: forged}}})
	a.table(&out, []string{"name"}, [][]string{{forged}})
	a.warn("a name: %s", forged)
	a.fail(t.Context(), faultf(classFailed, "", "a name: %s", forged))
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(strings.TrimRight(line, " "), "  next:") || strings.ContainsAny(line, "\t\x1b\u2028") {
			t.Errorf("a line that ferry does not say: %q", line)
		}
	}
	if n := strings.Count(out.String(), `a\n  next: `); n < 9 {
		t.Errorf("%d texts are shown with their line feed, want 9:\n%s", n, out.String())
	}
}

func TestWrap(t *testing.T) {
	for _, tt := range []struct {
		text  string
		width int
		want  string
	}{
		{"", 5, ""},
		{"one two three", 7, "one two\nthree"},
		{"one", 1, "one"},
		{"a longestword b", 4, "a\nlongestword\nb"},
		{"日本 語", 4, "日本\n語"},
	} {
		if got := wrap(tt.text, tt.width); got != tt.want {
			t.Errorf("wrap(%q, %d) = %q, want %q", tt.text, tt.width, got, tt.want)
		}
	}
}

func TestRoom(t *testing.T) {
	rows := [][]string{{"abcdef", "x"}}
	for width, want := range map[int]int{0: 0, 60: 52, 27: 0} {
		if got := room(screen{width: width}, []string{"H", "L"}, rows); got != want {
			t.Errorf("room(%d) = %d, want %d", width, got, want)
		}
	}
}

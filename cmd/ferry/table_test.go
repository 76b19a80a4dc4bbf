package main

import (
	"bytes"
	"strings"
	"testing"
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

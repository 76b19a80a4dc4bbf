package gitfacts

import (
	"fmt"
	"strings"
	"testing"
)

// TestDiffLinesIsBounded gives two texts in which no line is the same; an exact comparison would not end.
func TestDiffLinesIsBounded(t *testing.T) {
	var a, b strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&a, "a%d\n", i)
		fmt.Fprintf(&b, "b%d\n", i)
	}
	added, deleted := countLines("same\n"+a.String()+"end", "same\n"+b.String()+"end")
	if added != 200_000 || deleted != 200_000 {
		t.Errorf("countLines = %d, %d", added, deleted)
	}
}

func TestFold(t *testing.T) {
	for _, pair := range [][2]string{{"README", "readme"}, {"K", "\u212a"}, {"Straße", "STRAẞE"}, {"Σ", "ς"}, {"É", "é"}} {
		if fold(pair[0]) != fold(pair[1]) {
			t.Errorf("fold(%q) = %q, fold(%q) = %q", pair[0], fold(pair[0]), pair[1], fold(pair[1]))
		}
	}
	if fold("a") == fold("b") {
		t.Error("two letters are one")
	}
}

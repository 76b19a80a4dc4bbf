package main

import (
	"strings"
	"testing"
)

// TestSecretInterrupted ends the question: the exit code says so, and nothing is set.
func TestSecretInterrupted(t *testing.T) {
	h := newHome(t, nil)
	term := newTerminal(t)
	ended := h.typedOn(term, "secret", "set", "TYPED_KEY")
	term.sees(t, `value of TYPED_KEY`)
	_, err := term.WriteString("half\x03")
	must(t, err)
	if code := ended(); code != 130 {
		t.Errorf("secret set ended with %d, want 130:\n%s", code, term.text())
	}
	if got, err := state(h.dir + "/state").secrets().Get("TYPED_KEY"); err == nil {
		t.Errorf("the value is %q, want none", got)
	}
}

// TestSecretOnATerminal types a value where it is asked for: the screen never shows it, and an engine gets it.
func TestSecretOnATerminal(t *testing.T) {
	h := newHome(t, nil)
	term := newTerminal(t)
	ended := h.typedOn(term, "secret", "set", "TYPED_KEY")
	term.sees(t, `value of TYPED_KEY \(it is not shown\): `)
	_, err := term.WriteString("hunter22-typed\n")
	must(t, err)
	term.sees(t, `secret TYPED_KEY is set`)
	if code := ended(); code != 0 {
		t.Errorf("secret set ended with %d:\n%s", code, term.text())
	}
	if strings.Contains(term.text(), "hunter22") {
		t.Errorf("the screen shows the value:\n%s", term.text())
	}
	got, err := state(h.dir + "/state").secrets().Get("TYPED_KEY")
	if err != nil || got != "hunter22-typed" {
		t.Errorf("the value is %q, %v", got, err)
	}
}

// Package enginetest owns the conformance suite that every kind of engine passes
// and the scripted engine of the tests: a real program, written in the shell,
// that prints, writes, waits and ends as a test says.
//
// It promises that the program is plain POSIX sh and does nothing beyond its
// steps. It is never part of the product and never stands in for a model in
// front of a person.
package enginetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Step is one thing that a scripted engine does: the first field that is set.
type Step struct {
	Print    string // to standard output, with a line end
	PrintErr string // to standard error, with a line end
	Write    string // the path of a file that gets Content
	Content  string
	Shell    string // lines of sh, run as they are
	Hang     bool   // wait until killed
	Exit     int    // end with this code
}

// Script writes the program of the steps to dir/name and returns its path. Its
// arguments are the engine's, so a Shell step finds the prompt where args put it.
func Script(t testing.TB, dir, name string, steps ...Step) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("#!/bin/sh\n# A scripted engine of a test: there is no model in it.\n")
	for _, s := range steps {
		b.WriteString(s.line() + "\n")
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(b.String()), 0o700); err != nil {
		t.Fatalf("write scripted engine: %v", err)
	}
	return path
}

func (s Step) line() string {
	switch {
	case s.Print != "":
		return "printf '%s\\n' " + quote(s.Print)
	case s.PrintErr != "":
		return "printf '%s\\n' " + quote(s.PrintErr) + " >&2"
	case s.Write != "":
		return fmt.Sprintf("printf '%%s' %s > %s", quote(s.Content), quote(s.Write))
	case s.Shell != "":
		return s.Shell
	case s.Hang:
		return "while :; do sleep 1000; done"
	}
	return fmt.Sprintf("exit %d", s.Exit)
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

package process_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry/internal/process"
)

const testPath = "PATH=/usr/local/bin:/usr/bin:/bin"

func sh(script string, args ...string) process.Spec {
	return process.Spec{Argv: append([]string{"sh", "-c", script, "sh"}, args...), Env: []string{testPath}}
}

// eventually polls cond until it holds; ten seconds without are a failure.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); !cond(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 10s", what)
		}
	}
}

func TestRunExit(t *testing.T) {
	tests := []struct {
		script, signal string
		code           int
	}{
		{"exit 0", "", 0},
		{"exit 7", "", 7},
		{"kill -KILL $$", "killed", -1},
	}
	for _, tt := range tests {
		exit, err := process.Run(t.Context(), sh(tt.script))
		if err != nil || exit.Code != tt.code || exit.Signal != tt.signal || exit.Wall <= 0 {
			t.Errorf("Run(%q) = %+v, %v; want code %d, signal %q", tt.script, exit, err, tt.code, tt.signal)
		}
	}
}

func TestStartRefuses(t *testing.T) {
	tests := []struct {
		name string
		spec process.Spec
		want string
	}{
		{"no program", process.Spec{}, "no program named"},
		{"not on PATH", process.Spec{Argv: []string{"no-such-program"}, Env: []string{testPath}}, "executable file not found"},
		{"relative PATH", process.Spec{Argv: []string{"sh"}, Env: []string{"PATH=.:bin"}}, "executable file not found"},
		{"missing file", process.Spec{Argv: []string{"/no/such/program"}}, "no such file"},
		{"missing directory", process.Spec{Argv: []string{"/bin/sh"}, Dir: "/no/such/dir"}, "no such file"},
		{"bad mark", process.Spec{Argv: []string{"/bin/sh"}, Mark: "../x"}, "only letters"},
		{"long mark", process.Spec{Argv: []string{"/bin/sh"}, Mark: strings.Repeat("x", 101)}, "longer than 100"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := process.Start(tt.spec)
			if err == nil {
				t.Fatalf("started pid %d", p.Pid())
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q does not say %q", err, tt.want)
			}
		})
	}
}

func TestStreams(t *testing.T) {
	spec := sh("cat; echo err >&2; cat <&3; env")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(w, "three")
	w.Close()
	var both bytes.Buffer
	spec.Stdin, spec.Stdout, spec.Stderr, spec.ExtraFiles = strings.NewReader("in\n"), &both, &both, []*os.File{r}
	spec.Env = append(spec.Env, "ONLY=this")
	if _, err := process.Run(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	r.Close()
	got := both.String()
	for _, want := range []string{"in\nerr\nthree\n", "ONLY=this\n", testPath + "\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("output %q lacks %q", got, want)
		}
	}
	if strings.Contains(got, "HOME=") {
		t.Errorf("the environment of ferry leaked: %q", got)
	}
}

func TestRunEndsWithContext(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	spec := sh("echo ready; sleep 1000")
	r, w := io.Pipe()
	spec.Stdout = w
	go func() {
		_, _ = r.Read(make([]byte, 8)) // ready
		cancel(cause)
		_, _ = io.Copy(io.Discard, r)
	}()
	exit, err := process.Run(ctx, spec)
	w.Close()
	if !errors.Is(err, cause) || exit.Signal != "killed" {
		t.Errorf("Run = %+v, %v; want killed, %v", exit, err, cause)
	}
	if _, err := process.Run(ctx, spec); !errors.Is(err, context.Canceled) {
		t.Errorf("Run with an ended context: %v", err)
	}
}

func TestBlockedInputHoldsNobody(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	spec := sh("exit 3")
	spec.Stdin = r
	exit, err := process.Run(t.Context(), spec)
	if err != nil || exit.Code != 3 {
		t.Errorf("Run = %+v, %v", exit, err)
	}
}

func TestOutput(t *testing.T) {
	tests := []struct {
		name, script, out, err string
		limit                  int64
	}{
		{"fits", "printf abc", "abc", "", 3},
		{"nothing", "exit 0", "", "", 0},
		{"too much", "printf abcd; exec sleep 1000", "abc", "more than 3 bytes of output", 3},
		{"status and standard error", "echo out; echo why >&2; exit 9", "out\n", "exit status 9: why", 10},
		{"endless", "yes", strings.Repeat("y\n", 50), "more than 100 bytes", 100},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, exit, err := process.Output(t.Context(), sh(tt.script), tt.limit)
			if string(out) != tt.out {
				t.Errorf("output %q, want %q", out, tt.out)
			}
			switch {
			case tt.err == "" && err != nil:
				t.Errorf("error %v", err)
			case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
				t.Errorf("error %v does not say %q (%+v)", err, tt.err, exit)
			}
		})
	}
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"plain": 0o644, "tool": 0o755} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ file, path, want string }{
		{"tool", "/no/such:" + dir, filepath.Join(dir, "tool")},
		{"plain", dir, ""},
		{"folder", dir, ""},
		{"tool", "", ""},
		{"./tool", "", "./tool"},
	}
	for _, tt := range tests {
		got, err := process.LookPath(tt.file, tt.path)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("LookPath(%q, %q) = %q, %v; want %q", tt.file, tt.path, got, err, tt.want)
		}
	}
}

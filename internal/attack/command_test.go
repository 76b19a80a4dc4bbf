package attack_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ferry-fleet/ferry/internal/process"
)

// builtEnv names the directory for the ferry command of this run.
const builtEnv = "FERRY_ATTACK_DIR"

// command builds the ferry command, once for all tests.
var command = sync.OnceValues(func() (string, error) {
	path := filepath.Join(os.Getenv(builtEnv), "ferry")
	var out bytes.Buffer
	exit, err := process.Run(context.Background(), process.Spec{
		Argv: []string{"go", "build", "-o", path, "github.com/ferry-fleet/ferry/cmd/ferry"}, Dir: ".", Env: os.Environ(), Stdout: &out, Stderr: &out,
	})
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("build ferry: %s", out.String())
	}
	return path, err
})

// seat is a person at a terminal: a home, a state directory and a repository.
type seat struct {
	t    testing.TB
	home string
	repo string
}

func newSeat(t testing.TB, name string) *seat {
	t.Helper()
	s := &seat{t: t, home: t.TempDir()}
	s.repo = filepath.Join(s.home, name)
	s.repository(s.repo)
	return s
}

// repository makes a repository with one commit.
func (s *seat) repository(dir string) {
	s.t.Helper()
	must(s.t, os.MkdirAll(dir, 0o755))
	must(s.t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("one\n"), 0o644))
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", "first"}} {
		s.run(dir, append([]string{"/usr/bin/env", "git", "-c", "user.name=p", "-c", "user.email=p@example.com"}, args...)...)
	}
}

func (s *seat) env() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "USER=ada", "FERRY_STATE_DIR=" + s.state(), "GIT_CONFIG_NOSYSTEM=1", "TZ=UTC", "COLUMNS=100"}
}

func (s *seat) state() string { return filepath.Join(s.home, "state") }

// run runs a program in a directory and gives what it printed, on both outputs.
func (s *seat) run(dir string, argv ...string) (out string, code int) {
	s.t.Helper()
	var b bytes.Buffer
	exit, err := process.Run(s.t.Context(), process.Spec{Argv: argv, Dir: dir, Env: s.env(), Stdout: &b, Stderr: &b})
	must(s.t, err)
	return b.String(), exit.Code
}

// ferry runs the ferry command and wants it to end with a code.
func (s *seat) ferry(want int, args ...string) string {
	s.t.Helper()
	path, err := command()
	must(s.t, err)
	out, code := s.run(s.repo, append([]string{path}, args...)...)
	if code != want {
		s.t.Fatalf("ferry %q ended with %d, want %d:\n%s", args, code, want, out)
	}
	return out
}

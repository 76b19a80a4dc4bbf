package process_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/ferry-fleet/ferry/internal/process"
)

// TestAsOrdinaryUser runs the tests about trees again as a user who may not create any cgroup.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("this is an ordinary user already")
	}
	dir, err := os.MkdirTemp("", "ordinary")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	test := filepath.Join(dir, "process.test")
	if err := os.WriteFile(test, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	out := &bytes.Buffer{}
	exit, err := process.Run(t.Context(), process.Spec{
		Argv: []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", test,
			"-test.run=Kill|Leader|Freeze|Sweep|Limit|Alive", "-test.timeout=120s", "-test.failfast"},
		Env: []string{testPath, "TMPDIR=" + dir}, Dir: dir, Stdout: out, Stderr: out,
	})
	if err != nil || exit.Code != 0 {
		t.Errorf("as an ordinary user: %v, %v\n%s", exit, err, out)
	}
}

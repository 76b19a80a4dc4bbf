package fleettests_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry/internal/process"
)

// binary is the ferry that every machine of every test runs.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleettests:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "ferry-fleettests-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return 1, err
	}
	binary = filepath.Join(dir, "ferry")
	if _, err := command(context.Background(), 0, root, os.Environ(), "go", "build", "-buildvcs=false", "-o", binary, "./cmd/ferry"); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// command runs a program that must end with the code, and gives what it printed, or what it complained about.
func command(ctx context.Context, code int, dir string, env []string, argv ...string) (string, error) {
	var out, errs bytes.Buffer
	exit, err := process.Run(ctx, process.Spec{Argv: argv, Env: env, Dir: dir, Stdout: &out, Stderr: &errs})
	if err == nil && exit.Code != code {
		err = fmt.Errorf("%s, want exit status %d\n%s%s", exit, code, errs.String(), out.String())
	}
	if err != nil {
		return errs.String(), fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	if code != 0 {
		return errs.String(), nil
	}
	return out.String(), nil
}

//go:build engines

package enginetests_test

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

	"github.com/ferry-fleet/ferry/internal/ferrytest"
	"github.com/ferry-fleet/ferry/internal/process"
)

const (
	module = "github.com/spf13/pflag"
	broken = "count.go"        // the file with the bug
	right  = "*i + 1"          // what counts one more
	wrong  = "*i + 2"          // the bug
	check  = "go test ./..."   // the module's own test suite
	atOnce = "2"               // tests at the same time: a CLI and a check each keep a core busy
	branch = "main"            // of every repository here
	who    = "you@example.com" // the person
)

// shared is what all tests use and none changes.
var shared struct {
	dir     string
	ferry   string   // the binary
	engines string   // the directory of the CLIs
	module  string   // the module's source with the bug, as a repository
	gocache string   // filled by its tests
	env     []string // of a person who works on it, without home and state
}

func TestMain(m *testing.M) {
	os.Exit(ferrytest.Main(m, setUp))
}

func setUp(ctx context.Context, dir string) error {
	if err := flag.Set("test.parallel", atOnce); err != nil {
		return err
	}
	cache := os.Getenv("FERRY_TEST_ENGINES")
	if cache == "" {
		return errors.New("FERRY_TEST_ENGINES does not say where the CLIs are: run scripts/test-engines")
	}
	shared.dir = dir
	shared.engines = filepath.Join(cache, "node_modules", ".bin")
	shared.ferry = filepath.Join(dir, "bin", "ferry")
	shared.module = filepath.Join(dir, "pflag")
	shared.gocache = filepath.Join(dir, "go-build")
	for _, step := range []func(context.Context) error{build, environment, breakModule, warm} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// build makes the binary that a person has.
func build(ctx context.Context) error { return ferrytest.Build(ctx, shared.ferry) }

// environment is that of a person whose CLIs and Go are on PATH.
func environment(ctx context.Context) error {
	modules, err := command(ctx, 0, "", os.Environ(), "go", "env", "GOMODCACHE")
	if err != nil {
		return err
	}
	shared.env = []string{
		"PATH=" + filepath.Dir(shared.ferry) + ":" + shared.engines + ":" + os.Getenv("PATH"),
		"GOMODCACHE=" + strings.TrimSpace(modules), "GOCACHE=" + shared.gocache, "GOPROXY=off", "GOTOOLCHAIN=local",
		"GIT_CONFIG_NOSYSTEM=1", "LANG=C.UTF-8",
	}
	return nil
}

// breakModule makes a repository of the module as the module cache has it, and
// commits a bug to it.
func breakModule(ctx context.Context) error {
	source, err := command(ctx, 0, "", os.Environ(), "go", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return err
	}
	if err := os.CopyFS(shared.module, os.DirFS(strings.TrimSpace(source))); err != nil {
		return err
	}
	commit := func(message string) error {
		for _, args := range [][]string{{"add", "-A"}, {"commit", "-q", "-m", message}} {
			if _, err := git(ctx, shared.module, args...); err != nil {
				return err
			}
		}
		return nil
	}
	if _, err := git(ctx, shared.module, "init", "-q", "-b", branch); err != nil {
		return err
	}
	if err := commit("pflag as released"); err != nil {
		return err
	}
	path := filepath.Join(shared.module, broken)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if n := bytes.Count(text, []byte(right)); n != 1 {
		return fmt.Errorf("%s has %q %d times, want once: put the bug elsewhere", path, right, n)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte(right), []byte(wrong), 1), 0o644); err != nil {
		return err
	}
	return commit("Count faster")
}

// warm runs the module's tests, which fill the build cache and fail.
func warm(ctx context.Context) error {
	_, err := command(ctx, 1, shared.module, append(shared.env, "HOME="+shared.dir), "sh", "-c", check)
	return err
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	env := append(shared.env, "HOME="+shared.dir)
	return command(ctx, 0, dir, env, append([]string{"git", "-c", "user.name=You", "-c", "user.email=" + who}, args...)...)
}

// command runs a program that must end with the code, and gives what it printed.
func command(ctx context.Context, code int, dir string, env []string, argv ...string) (string, error) {
	return ferrytest.Command(ctx, code, process.Spec{Argv: argv, Env: env, Dir: dir})
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/machine"
	"github.com/ferry-fleet/ferry/internal/process"
)

// atOnce is how many scripts run at the same time, where -parallel does not say it: many of them wait for the clocks of
// a worker.
const atOnce = "4"

func TestMain(m *testing.M) {
	box.Main()
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){
		"ferry": func() { os.Exit(run(scripted())) },
	})
}

// scripted is the machine of a script: what it puts into $WORK/machine. Where it
// puts nothing, nobody types and nothing is known of processor and memory.
func scripted() machine.System {
	dir := os.Getenv("FERRY_TEST_MACHINE")
	return machine.System{Proc: filepath.Join(dir, "proc"), Dev: filepath.Join(dir, "dev")}
}

// TestScripts runs testdata/script. Each script has a home, a state directory
// and a git repository `repo` with one commit, in which it begins.
func TestScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("every script runs real git and a real sandbox, which takes longer than -short allows")
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("FERRY_UPDATE_SCRIPTS") != "",
		Setup:               setup,
		Condition:           condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"labelled": labelled,
			"exits":    exits,
			"until":    until,
		},
	})
}

func setup(e *testscript.Env) error {
	home := filepath.Join(e.WorkDir, "home")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	gitconfig := "[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n"
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(gitconfig), 0o644); err != nil {
		return err
	}
	e.Setenv("HOME", home)
	e.Setenv("USER", "ada")
	e.Setenv("FERRY_TEST_MACHINE", filepath.Join(e.WorkDir, "machine"))
	e.Setenv("FERRY_STATE_DIR", filepath.Join(e.WorkDir, "state"))
	e.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	e.Setenv("TZ", "UTC")
	if err := makeRepo(e); err != nil {
		return err
	}
	scripts, err := filepath.Glob(filepath.Join(e.WorkDir, "*.sh"))
	if err != nil {
		return err
	}
	for _, f := range scripts {
		if err := os.Chmod(f, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// until runs a command again and again until its standard output matches.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN COMMAND ARG...")
	}
	want, err := regexp.Compile(args[0])
	ts.Check(err)
	deadline := time.Now().Add(time.Minute)
	for {
		err := ts.Exec(args[1], args[2:]...)
		if want.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s: no match for %q within a minute (last error %v)", strings.Join(args[1:], " "), args[0], err)
		}
		<-time.After(100 * time.Millisecond) // the processors are for what it waits for
	}
}

// condition knows `root`, as whom Landlock is refused, and `mounts`: whether a
// mount of one's own can be made.
func condition(name string) (bool, error) {
	switch name {
	case "root":
		return os.Geteuid() == 0, nil
	case "mounts":
		_, exit, err := process.Output(context.Background(), process.Spec{Argv: []string{"/usr/bin/env", "unshare", "-m", "true"}, Env: os.Environ(), Dir: "/"}, 1<<10)
		return err == nil && exit.Code == 0, nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

// makeRepo makes the repository `repo` of what the script puts there, with
// one commit.
func makeRepo(e *testscript.Env) error {
	repo := filepath.Join(e.WorkDir, "repo")
	if err := os.MkdirAll(repo, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(repo, "notes.txt"), []byte("one\n"), 0o644); err != nil {
		return err
	}
	e.Cd = repo
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "-m", "first"}} {
		spec := process.Spec{Argv: append([]string{"/usr/bin/env", "git"}, args...), Env: e.Vars, Dir: repo}
		if _, exit, err := process.Output(context.Background(), spec, 1<<20); err != nil || exit.Code != 0 {
			return fmt.Errorf("git %v: exit %d, %w", args, exit.Code, err)
		}
	}
	return nil
}

// exits runs a command and wants this exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARG...")
	}
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var ended interface{ ExitCode() int }
		if !errors.As(err, &ended) {
			ts.Fatalf("%s: %v", args[1], err)
		}
		code = ended.ExitCode()
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("%s ended with %d, want %s:\n%s", strings.Join(args[1:], " "), code, args[0], ts.ReadFile("stderr"))
	}
}

// labelled checks that standard output of the last command is the named JSON
// keys, one for each argument: a shape may grow, and nothing in it may go.
func labelled(ts *testscript.TestScript, neg bool, args []string) {
	out := ts.ReadFile("stdout")
	for _, key := range args {
		if strings.Contains(out, `"`+key+`":`) == neg {
			ts.Fatalf("key %q: present = %v in:\n%s", key, neg, out)
		}
	}
}

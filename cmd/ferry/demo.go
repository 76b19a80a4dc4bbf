package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/internal/process"
)

//go:embed demo/greet.sh
var demoGreet []byte

//go:embed demo/test.sh
var demoTest []byte

//go:embed demo/scripted-engine
var demoEngine []byte

func (a *app) demoCommand() *cobra.Command {
	var engine string
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "the whole loop in a temporary directory, explained step by step",
		Long: `Demo makes a small git repository with a failing test, and takes one order
through the whole loop: order, run, check, send back, second attempt, accept,
land, receipt. Everything is real but the engine: that is a script which says
so. Name a CLI with --engine to let that do the work instead.`,
		Example: `  ferry demo
  ferry demo --engine codex --keep`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), engine, keep) },
	}
	cmd.Flags().StringVar(&engine, "engine", "", "let the agent `CLI` do the work instead of the script")
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the directory, to look around")
	return cmd
}

// demonstration is one demo: a directory of its own and the commands typed in it.
type demonstration struct {
	app  *app
	self string // this binary
	dir  string
	repo string
	env  []string
}

func (a *app) demo(ctx context.Context, engine string, keep bool) (err error) {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("demo: where is this binary: %w", err)
	}
	dir, err := os.MkdirTemp("", "ferry-demo-")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	d := &demonstration{app: a, self: self, dir: dir, repo: filepath.Join(dir, "hello")}
	d.env = append(os.Environ(), "FERRY_STATE_DIR="+filepath.Join(dir, "state"),
		"GIT_AUTHOR_NAME=Demo", "GIT_AUTHOR_EMAIL=demo@example.com", "GIT_COMMITTER_NAME=Demo", "GIT_COMMITTER_EMAIL=demo@example.com")
	defer func() {
		if keep {
			fmt.Fprintf(a.out, "\nKept: cd %s; export FERRY_STATE_DIR=%s\n", d.repo, filepath.Join(dir, "state"))
			return
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	return d.run(ctx, engine)
}

func (d *demonstration) run(ctx context.Context, engine string) error {
	if engine == "" {
		engine = filepath.Join(d.dir, "scripted-engine")
	}
	if err := d.prepare(ctx); err != nil {
		return err
	}
	order := []string{"channel", "order", "--id", "t-greet", "--task",
		"greet.sh must end its greeting with an exclamation mark. Make the tests in test.sh pass; do not change them.",
		"--check", "sh test.sh", "--kind", "code-change", "--requires-review"}
	steps := []struct {
		say  string
		args []string
	}{
		{"Attach the repository. This founds a channel: you are its master, and an agent works under a key of its own.",
			[]string{"enable", "--project", "hello", "--email", "you@example.com", "--command", engine}},
		{"Give an order: a signed record in the channel. --check is how \"done\" will be decided.", order},
		{"Let the worker look once. It claims the order, makes a tree of its own, runs the engine in the sandbox, keeps\n" +
			"what it left as a commit, and runs the check again in a clean checkout.", []string{"agent", "run", "--once"}},
		{"What came of it: the files, the check as ferry ran it, and what can be said for the result.", []string{"channel", "show", "t-greet"}},
		{"Send it back with a note. The next attempt begins from the branch, with the note.",
			[]string{"channel", "review", "t-greet", "--send-back", "--notes", "also greet the world when called without a name"}},
		{"The worker takes revisions first.", []string{"agent", "run", "--once"}},
		{"Accept the second revision.", []string{"channel", "review", "t-greet", "--accept"}},
		{"Land it: one commit on your branch, and your checkout follows.", []string{"channel", "land", "t-greet"}},
		{"Check every signature, hash and chain of the channel.", []string{"channel", "verify"}},
		{"The way from the order to the commit, record by record.", []string{"channel", "receipt", "t-greet"}},
	}
	for i, s := range steps {
		if err := d.ferry(ctx, fmt.Sprintf("%d. %s", i+2, s.say), s.args...); err != nil {
			return err
		}
	}
	return d.end(ctx)
}

// prepare makes the repository and shows that its test fails.
func (d *demonstration) prepare(ctx context.Context) error {
	if err := atomicfile.MkdirAll(d.repo, 0o755); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	files := []struct {
		path string
		data []byte
		perm os.FileMode
	}{
		{filepath.Join(d.repo, "greet.sh"), demoGreet, 0o644},
		{filepath.Join(d.repo, "test.sh"), demoTest, 0o644},
		{filepath.Join(d.dir, "scripted-engine"), demoEngine, 0o755},
	}
	for _, f := range files {
		if err := atomicfile.Write(f.path, f.data, f.perm); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	d.say("1. A real repository with a test that fails. Everything here is in " + d.dir + ".")
	for _, c := range [][]string{{"git", "init", "-q", "-b", "main"}, {"git", "add", "."}, {"git", "commit", "-q", "-m", "A greeting"}} {
		if err := d.command(ctx, false, c...); err != nil {
			return err
		}
	}
	return d.command(ctx, true, "sh", "test.sh")
}

// end shows that the person's own checkout has the work and passes.
func (d *demonstration) end(ctx context.Context) error {
	d.say("12. Your checkout: the work is there, and the test passes.")
	if err := d.command(ctx, false, "git", "log", "--stat", "-1"); err != nil {
		return err
	}
	if err := d.command(ctx, false, "sh", "test.sh"); err != nil {
		return err
	}
	d.say("That was the whole loop. Next: docs/tutorial.md, or `ferry enable` in a repository of yours.")
	return nil
}

func (d *demonstration) say(text string) { fmt.Fprintf(d.app.out, "\n── %s\n", text) }

func (d *demonstration) ferry(ctx context.Context, say string, args ...string) error {
	d.say(say)
	return d.command(ctx, false, append([]string{"ferry"}, args...)...)
}

// command shows a command line as a person would type it, and runs it. A
// command that must fail here, and does not, is an error like any other.
func (d *demonstration) command(ctx context.Context, mustFail bool, argv ...string) error {
	fmt.Fprintf(d.app.out, "$ %s\n", typed(argv))
	run := argv
	if argv[0] == "ferry" {
		run = append([]string{d.self}, argv[1:]...)
	} else if path, err := process.LookPath(argv[0], environ("PATH")); err == nil {
		run = append([]string{path}, argv[1:]...)
	} else {
		return faultf(classConfig, "install it and run `ferry demo` again", "demo: %s is not on PATH", argv[0])
	}
	exit, err := process.Run(ctx, process.Spec{Argv: run, Env: d.env, Dir: d.repo, Stdout: d.app.out, Stderr: d.app.out})
	if err != nil {
		return fmt.Errorf("demo: %s: %w", typed(argv), err)
	}
	if failed := exit.Code != 0; failed != mustFail {
		return fmt.Errorf("demo: `%s` ended with %s", typed(argv), exit)
	}
	return nil
}

// typed words a command line for a shell.
func typed(argv []string) string {
	out := make([]string, len(argv))
	for i, s := range argv {
		if s == "" || strings.ContainsAny(s, " \t\n\"'$&|;<>*?()") {
			s = "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
		out[i] = s
	}
	return strings.Join(out, " ")
}

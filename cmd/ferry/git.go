package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ferry-fleet/ferry/internal/process"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// maxAnswer bounds what a small program may print, in bytes.
const maxAnswer = 1 << 20

// gitLine runs git in a directory of the person's own and gives its first
// line of output. Git runs with the person's configuration, as they would run
// it, and changes nothing.
func gitLine(ctx context.Context, dir string, args ...string) (string, error) {
	git, err := process.LookPath("git", environ("PATH"))
	if err != nil {
		return "", fmt.Errorf("%w: %w", worktree.ErrNoGit, err)
	}
	return toolLine(ctx, append([]string{git, "-C", dir}, args...), "GIT_OPTIONAL_LOCKS=0")
}

// toolLine runs a small program and gives its first line of output.
func toolLine(ctx context.Context, argv []string, extra ...string) (string, error) {
	env := append([]string{"LC_ALL=C"}, extra...)
	for _, name := range []string{"PATH", "HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"} {
		if v := environ(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	out, exit, err := process.Output(ctx, process.Spec{Argv: argv, Env: env, Dir: "/"}, maxAnswer)
	if err != nil {
		return "", err
	}
	if exit.Code != 0 {
		return "", fmt.Errorf("%s: exit %d", filepath.Base(argv[0]), exit.Code)
	}
	return firstLine(string(out)), nil
}

// repository is what enable has to know of the person's repository.
type repository struct {
	top     string // the work tree that gets .ferry
	exclude string // the file that keeps .ferry out of git's sight
	linked  bool   // the person stands in a linked work tree of it
}

// findRepository finds the repository that dir is in, and refuses what cannot
// carry a project.
func findRepository(ctx context.Context, dir string) (repository, error) {
	bare, err := gitLine(ctx, dir, "rev-parse", "--is-bare-repository")
	switch {
	case errors.Is(err, worktree.ErrNoGit):
		return repository{}, err
	case err != nil && strings.Contains(err.Error(), "dubious ownership"):
		return repository{}, faultf(classRepository, "run ferry as the user that owns it", "%s: the repository belongs to another user", dir)
	case err != nil:
		return repository{}, faultf(classRepository, "run `git init` and `git commit` there, or name a repository with -C DIR", "%s: not a git repository", dir)
	case bare == "true":
		return repository{}, faultf(classRepository, "enable a clone of it: `git clone "+dir+"`", "%s: a bare repository has no checkout to work in", dir)
	}
	top, err := gitLine(ctx, dir, "rev-parse", "--show-toplevel")
	if err != nil || top == "" {
		return repository{}, faultf(classRepository, "go to the work tree, or name it with -C DIR", "%s: not in a work tree", dir)
	}
	r := repository{top: top}
	if _, main, ok := linkedTree(top); ok && main != top {
		r.top, r.linked = main, true
	}
	if _, err := gitLine(ctx, top, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"); err != nil {
		return repository{}, faultf(classRepository, "make the first commit: `git add -A && git commit -m first`", "%s: %w", top, worktree.ErrEmptyRepository)
	}
	r.exclude, err = gitLine(ctx, r.top, "rev-parse", "--path-format=absolute", "--git-path", "info/exclude")
	if err != nil {
		return repository{}, fmt.Errorf("find the exclude file of %s: %w", r.top, err)
	}
	return r, nil
}

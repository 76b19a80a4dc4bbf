package worktree

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
)

// SquashSpec says which work to put onto which commit.
type SquashSpec struct {
	// Commit is the work: everything between its merge base with Onto and itself.
	Commit ferry.Commit
	// Onto is the tip of the target branch; it is brought into the gate when it is not there.
	Onto    ferry.Commit
	Message string
	// Author is who the commit names, "Name" or "Name <email>"; the committer is always ferry.
	Author string
	When   time.Time
}

// Squashed is the outcome of a squash. Commit is empty when Conflicts or Differs name a reason against it.
type Squashed struct {
	Commit ferry.Commit
	Tree   ferry.Commit
	// Conflicts are paths that both sides changed in a way that cannot be merged.
	Conflicts []string
	// Differs are paths whose merged content is not what was reviewed: the target changed them too.
	Differs []string
}

// Squash merges the work onto the tip of its target in the gate, with attributes, renames and merge drivers off, and
// makes one commit of it. It makes the commit only when the change from the tip is entry for entry the change that was
// reviewed. ErrNoChange means that the target holds the change already.
func (g *Gate) Squash(ctx context.Context, spec SquashSpec) (Squashed, error) {
	s, err := g.squash(ctx, spec)
	if err != nil {
		return s, fmt.Errorf("squash %s onto %s: %w", spec.Commit.Short(), spec.Onto.Short(), err)
	}
	return s, nil
}

func (g *Gate) squash(ctx context.Context, spec SquashSpec) (Squashed, error) {
	var s Squashed
	if !g.git.atLeast(mergeMajor, mergeMinor) {
		return s, fmt.Errorf("%w: merging needs %d.%d or newer, %s is %d.%d",
			ErrOldGit, mergeMajor, mergeMinor, g.git.path, g.git.major, g.git.minor)
	}
	for _, id := range []ferry.Commit{spec.Commit, spec.Onto} {
		if _, err := ferry.ParseCommit(string(id)); err != nil {
			return s, err
		}
	}
	if err := g.Import(ctx, spec.Onto); err != nil {
		return s, err
	}
	c := call{dir: g.dir}
	out, err := g.git.run(ctx, c, "merge-base", "--end-of-options", string(spec.Onto), string(spec.Commit))
	if err != nil {
		return s, fmt.Errorf("the work and its target share no history: %w", err)
	}
	base := strings.TrimSpace(out)
	out, err = g.git.run(ctx, c, "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages",
		string(spec.Onto), string(spec.Commit))
	if code := exitCode(err); code != 0 && code != 1 {
		return s, err
	}
	fields := nulFields(out)
	if len(fields) == 0 {
		return s, errors.New("git merge-tree gave no tree")
	}
	if s.Tree, err = ferry.ParseCommit(fields[0]); err != nil {
		return s, err
	}
	for _, p := range fields[1:] {
		s.Conflicts = append(s.Conflicts, visible(p))
	}
	if len(s.Conflicts) > 0 {
		return s, nil
	}
	if s.Differs, err = g.compare(ctx, [2]string{base, string(spec.Commit)}, [2]string{string(spec.Onto), string(s.Tree)}); err != nil {
		return s, err
	}
	if len(s.Differs) > 0 {
		return s, nil
	}
	s.Commit, err = g.commitTree(ctx, s.Tree, spec)
	return s, err
}

// compare returns the paths whose raw diff entries (modes and blob ids of both sides) are not the same in both diffs.
func (g *Gate) compare(ctx context.Context, reviewed, merged [2]string) ([]string, error) {
	want, err := g.rawDiff(ctx, reviewed[0], reviewed[1])
	if err != nil {
		return nil, err
	}
	got, err := g.rawDiff(ctx, merged[0], merged[1])
	if err != nil {
		return nil, err
	}
	if len(got) == 0 {
		return nil, ErrNoChange
	}
	var differs []string
	for _, p := range slices.Sorted(maps.Keys(want)) {
		if got[p] != want[p] {
			differs = append(differs, visible(p))
		}
	}
	for _, p := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[p]; !ok {
			differs = append(differs, visible(p))
		}
	}
	return differs, nil
}

// rawDiff maps each changed path to its modes, object ids and status.
func (g *Gate) rawDiff(ctx context.Context, from, to string) (map[string]string, error) {
	out, err := g.git.run(ctx, call{dir: g.dir}, "diff-tree", "-r", "--raw", "-z", "--full-index", "--no-renames",
		"--no-ext-diff", "--no-textconv", "--end-of-options", from, to)
	if err != nil {
		return nil, err
	}
	fields := nulFields(out)
	if len(fields)%2 != 0 {
		return nil, errors.New("git diff-tree gave an unfinished entry")
	}
	entries := make(map[string]string, len(fields)/2)
	for i := 0; i < len(fields); i += 2 {
		entries[fields[i+1]] = fields[i]
	}
	return entries, nil
}

func (g *Gate) commitTree(ctx context.Context, tree ferry.Commit, spec SquashSpec) (ferry.Commit, error) {
	author, email := person(spec.Author)
	when := fmt.Sprintf("%d +0000", spec.When.Unix())
	c := call{dir: g.dir, in: strings.NewReader(message(spec.Message, nil)), env: []string{
		"GIT_AUTHOR_NAME=" + author, "GIT_AUTHOR_EMAIL=" + email, "GIT_AUTHOR_DATE=" + when,
		"GIT_COMMITTER_NAME=ferry", "GIT_COMMITTER_EMAIL=" + agentEmail, "GIT_COMMITTER_DATE=" + when,
	}}
	out, err := g.git.run(ctx, c, "commit-tree", string(tree), "-p", string(spec.Onto))
	if err != nil {
		return "", err
	}
	return ferry.ParseCommit(strings.TrimSpace(out))
}

// person splits "Name <email>". What is missing is ferry's.
func person(author string) (name, email string) {
	name, email, _ = strings.Cut(strings.TrimSuffix(strings.TrimSpace(author), ">"), "<")
	plain := strings.NewReplacer("<", "", ">", "")
	if name = plain.Replace(clean(name, 200)); name == "" {
		name = "ferry"
	}
	if email = plain.Replace(clean(email, 200)); email == "" {
		email = agentEmail
	}
	return name, email
}

// maxRaw is the size in bytes of the largest commit object that Raw gives.
const maxRaw = 1 << 20

// Raw gives the bytes of a commit object of the gate, whose hash is the commit's id.
func (g *Gate) Raw(ctx context.Context, commit ferry.Commit) ([]byte, error) {
	if _, err := ferry.ParseCommit(string(commit)); err != nil {
		return nil, fmt.Errorf("read commit: %w", err)
	}
	out, err := g.git.run(ctx, call{dir: g.dir, limit: maxRaw}, "cat-file", "commit", string(commit))
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", commit.Short(), err)
	}
	return []byte(out), nil
}

package worktree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ferry-fleet/ferry"
)

// AttemptRef is where a remote keeps what one run of an attempt left. Its name holds the attempt, its writer and the run,
// so that two workers never meet on a ref.
func AttemptRef(order ferry.RecordID, attempt int64, w ferry.WriterID, run ferry.RunID) string {
	return fmt.Sprintf("refs/ferry/attempts/%s/%d-%s-%s", order, attempt, w[:min(len(w), 8)], run)
}

// BaseRef is where a remote keeps a commit that an order begins from and that none of its branches holds.
func BaseRef(commit ferry.Commit) string { return "refs/ferry/base/" + string(commit) }

// maxRefs is how many refs a commit is looked for under.
const maxRefs = 32

// RefsOf names the refs of a remote under which a commit of an order may be: of the runs that left it, the last ones
// first, and of a base.
func RefsOf(t *ferry.Task, commit ferry.Commit) []string {
	var refs []string
	for _, a := range slices.Backward(t.Attempts) {
		for _, run := range slices.Backward(a.Runs) {
			if run.Commit == commit && len(refs) < maxRefs-1 {
				refs = append(refs, AttemptRef(t.ID, a.N, a.Holder, run.Run))
			}
		}
	}
	return append(refs, BaseRef(commit))
}

// Remotes lists the names of the remotes that the person's repository has.
func (g *Gate) Remotes(ctx context.Context, env []string) ([]string, error) {
	dir := g.top
	if dir == "" {
		dir = g.common
	}
	out, err := g.newAccount(env).git(ctx, "-C", dir, "remote")
	if err != nil {
		return nil, fmt.Errorf("list the remotes of %s: %w", dir, err)
	}
	return strings.Fields(out), nil
}

// Keeps reports whether the gate holds a commit with all that belongs to it. It asks nobody else.
func (g *Gate) Keeps(ctx context.Context, commit ferry.Commit) bool {
	return g.pinned(ctx, commit) || g.Has(ctx, commit) && g.Import(ctx, commit) == nil
}

// Obtain makes sure that the gate holds a commit: it takes it from the person's repository, else from the remote, where
// refs names what may lead to it. Without a remote, and when the remote lacks it as well, it refuses with ErrAbsent.
func (g *Gate) Obtain(ctx context.Context, r *Remote, commit ferry.Commit, refs ...string) error {
	err := g.Import(ctx, commit)
	if err == nil || !isAbsent(err) {
		return err
	}
	if r == nil {
		return fmt.Errorf("%s: %w", commit.Short(), ErrAbsent)
	}
	return r.Bring(ctx, commit, refs...)
}

// isAbsent reports whether the other side of a fetch said that it does not have the commit, or gives none by its id.
func isAbsent(err error) bool {
	return exitCode(err) > 0 && (strings.Contains(err.Error(), "not our ref") || strings.Contains(err.Error(), "unadvertised object"))
}

// Bring fetches a commit from the remote into the gate, checked strictly, and pins it there. It asks for exactly this
// commit, never for a branch. A remote whose refs of that name all lead elsewhere is refused with ErrRefExists, and one
// that does not have the commit with ErrAbsent.
func (r *Remote) Bring(ctx context.Context, commit ferry.Commit, refs ...string) error {
	if err := r.bring(ctx, commit, refs); err != nil {
		return fmt.Errorf("fetch %s from %s: %w", commit.Short(), r, err)
	}
	return nil
}

func (r *Remote) bring(ctx context.Context, commit ferry.Commit, refs []string) error {
	if _, err := ferry.ParseCommit(string(commit)); err != nil {
		return err
	}
	if r.gate.pinned(ctx, commit) {
		return nil
	}
	known, err := r.leads(ctx, commit, refs)
	if err != nil {
		return err
	}
	err = unlocked(ctx, r.gate.dir, baseRef(commit), func() error {
		_, err := r.talk(ctx, "upload-pack", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-gc", "--update-shallow",
			"--end-of-options", r.address.url, string(commit)+":"+baseRef(commit))
		return err
	})
	switch {
	case err == nil, r.gate.pinned(ctx, commit):
		return nil
	case !known && isAbsent(err):
		return ErrAbsent
	}
	return err
}

// leads reports whether one of the refs is on the remote and names the commit.
func (r *Remote) leads(ctx context.Context, commit ferry.Commit, refs []string) (bool, error) {
	if len(refs) == 0 {
		refs = []string{BaseRef(commit)}
	}
	for _, ref := range refs {
		if badRef(ref) || !strings.HasPrefix(ref, "refs/ferry/") {
			return false, fmt.Errorf("%q is not a ref below refs/ferry/", ref)
		}
	}
	found, err := r.refs(ctx, refs...)
	if err != nil {
		return false, err
	}
	var wrong error
	for _, ref := range refs {
		switch at := found[ref]; {
		case at == commit:
			return true, nil
		case at != "":
			wrong = errors.Join(wrong, fmt.Errorf("%s is at %s: %w", ref, at.Short(), ErrRefExists))
		}
	}
	return false, wrong
}

// Carry puts a commit of the gate on the remote, under a ref that is created and never moved. Doing it again is success;
// a ref that names another commit is refused with ErrRefExists.
func (r *Remote) Carry(ctx context.Context, ref string, commit ferry.Commit) error {
	if err := r.carry(ctx, ref, commit); err != nil {
		return fmt.Errorf("push %s to %s: %w", commit.Short(), r, err)
	}
	return nil
}

func (r *Remote) carry(ctx context.Context, ref string, commit ferry.Commit) error {
	if badRef(ref) || !strings.HasPrefix(ref, "refs/ferry/") {
		return fmt.Errorf("%q is not a ref below refs/ferry/", ref)
	}
	if _, err := ferry.ParseCommit(string(commit)); err != nil {
		return err
	}
	to := *r
	if r.address.protocol != "file" {
		// A server whose branches have moved on still gets only what it lacks.
		to.set = append(slices.Clone(r.set), "push.negotiate=true")
	}
	_, pushErr := to.talk(ctx, "receive-pack", "push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags",
		"--recurse-submodules=no", "--force-with-lease="+ref+":", "--end-of-options", r.address.url, string(commit)+":"+ref)
	if pushErr == nil {
		return nil
	}
	if there, err := r.leads(ctx, commit, []string{ref}); there || errors.Is(err, ErrRefExists) {
		return err
	}
	return pushErr
}

// maxTips is how many branches of a remote are looked at.
const maxTips = 2000

// Holds reports whether a commit of the person's repository is surely on the remote: under its BaseRef, or in a branch
// whose tip is known here. When it is not sure it says no.
func (r *Remote) Holds(ctx context.Context, commit ferry.Commit) (bool, error) {
	out, err := r.talk(ctx, "upload-pack", "ls-remote", "--quiet", "--refs", "--end-of-options", r.address.url, "refs/heads/*", BaseRef(commit))
	if err != nil {
		return false, fmt.Errorf("ask %s about %s: %w", r, commit.Short(), err)
	}
	in, n := string(commit)+"\n", 0
	for line := range strings.Lines(out) {
		id, _, _ := strings.Cut(line, "\t")
		tip, err := ferry.ParseCommit(id)
		if err != nil {
			return false, fmt.Errorf("ask %s about %s: %w", r, commit.Short(), err)
		}
		if tip == commit {
			return true, nil
		}
		if n++; n <= maxTips {
			in += "^" + id + "\n"
		}
	}
	g := r.gate
	left, err := g.git.run(ctx, call{dir: g.common, in: strings.NewReader(in)}, "rev-list", "-n", "1", "--ignore-missing", "--stdin")
	if err != nil {
		return false, fmt.Errorf("look for %s in the branches of %s: %w", commit.Short(), r, err)
	}
	return strings.TrimSpace(left) == "", nil
}

// Missing words for people why a commit is not on this machine: what it is, such as "its base", and the error of Obtain.
// Remote is "" when none is set; push says who brings the commit there.
type Missing struct {
	What   string
	Commit ferry.Commit
	Remote string
	Push   string
}

// Words gives the sentence.
func (m Missing) Words(err error) string {
	it := fmt.Sprintf("%s %s is not on this machine", m.What, m.Commit.Short())
	switch {
	case errors.Is(err, ErrAbsent) && m.Remote == "":
		return it + ": fetch it into this repository, or set [land] remote in .ferry/agent.toml here and where it was made"
	case errors.Is(err, ErrAbsent):
		return it + ", and not on " + m.Remote + ": " + m.Push
	case errors.Is(err, ErrRefExists):
		return it + ", and " + m.Remote + " gives another commit in its place: " + err.Error()
	}
	return it + ", and cannot be fetched: " + err.Error()
}

package worktree

import "errors"

// The oldest git that ferry works with, and the oldest that can merge without a work tree.
const (
	minMajor, minMinor     = 2, 30
	mergeMajor, mergeMinor = 2, 38
)

// Errors that a caller may act on.
var (
	// ErrNoGit means that there is no git program that answers.
	ErrNoGit = errors.New("git not found")
	// ErrOldGit means that the git program is too old for what was asked.
	ErrOldGit = errors.New("git too old")
	// ErrNotRepository means that the directory is not in a git repository.
	ErrNotRepository = errors.New("not a git repository")
	// ErrEmptyRepository means that the repository has no commit to start from.
	ErrEmptyRepository = errors.New("the repository has no commit yet: make the first one with `git commit`")
	// ErrUnknownRef means that no branch, tag or commit has that name.
	ErrUnknownRef = errors.New("no such branch or commit")
	// ErrRefExists means that a create-only ref is there already and names another commit.
	ErrRefExists = errors.New("the ref exists and names another commit")
	// ErrNotSaved means that a tree's files are not yet reachable from a ref, so that it may not be removed.
	ErrNotSaved = errors.New("the tree has no snapshot that a ref reaches")
	// ErrBroken means that a run directory does not hold a tree that ferry made.
	ErrBroken = errors.New("not a tree made by ferry")
	// ErrDiverged means that a branch holds commits which the new commit does not contain.
	ErrDiverged = errors.New("the branch has diverged")
	// ErrCheckedOut means that a branch may not move because a checkout has it.
	ErrCheckedOut = errors.New("the branch is checked out")
	// ErrDirty means that a checkout of the branch has changes that a landing would touch or hide.
	ErrDirty = errors.New("the checkout has uncommitted changes")
	// ErrInTheWay means that a landing would overwrite a file of a checkout that git does not know.
	ErrInTheWay = errors.New("a file that is not in git is in the way")
	// ErrMoved means that a branch is not where the caller saw it.
	ErrMoved = errors.New("the branch has moved")
	// ErrAlreadyLanded means that the order has landed; the error is a *LandedError.
	ErrAlreadyLanded = errors.New("the order has landed already")
	// ErrCheckout means that a landing counts but a checkout of the branch has not followed yet.
	ErrCheckout = errors.New("landed, but the checkout has not followed")
	// ErrRemoteURL means that a remote cannot be used, because of where it is.
	ErrRemoteURL = errors.New("not a remote that ferry lands on")
	// ErrRemoteChanged means that a remote is at another place than at the landings before.
	ErrRemoteChanged = errors.New("the remote is at another place than before")
	// ErrRewound means that a branch of a remote lacks commits that it had.
	ErrRewound = errors.New("the branch of the remote lacks commits that it had")
	// ErrNoRemoteBranch means that a remote has no branch of that name.
	ErrNoRemoteBranch = errors.New("the remote has no such branch")
	// ErrRemote means that a remote did not answer, or refused. What it has done is not known.
	ErrRemote = errors.New("the remote did not take part")
	// ErrAbsent means that a commit is neither here nor where it was looked for.
	ErrAbsent = errors.New("the commit is not there")
	// ErrNoChange means that a merge would add nothing to its target.
	ErrNoChange = errors.New("the target already holds this change")
)

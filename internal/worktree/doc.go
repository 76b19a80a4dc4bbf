// Package worktree owns the git trees that engines and checks work in, and every write that ferry makes with git.
//
// For each project it keeps one bare repository of its own, the gate. A run gets a private bare repository that borrows
// the gate's objects read-only, and a git worktree of it:
//
//	<state>/gate/<project>.git        the gate: objects, pinned bases, attempts; no hooks, no user configuration
//	<run>/repo.git                    private to the run; the engine may write anything here
//	<run>/work                        its git worktree; `.git` holds the relative path ../repo.git/worktrees/work
//	<run>/host                        what ferry remembers about the tree; no box ever sees it
//
// It promises that nothing an engine writes is run or obeyed by git outside a box: git on the host never has its
// directory, configuration, index, hooks or attributes in <run>/repo.git or <run>/work. What the engine leaves is listed
// as data, hashed by git in a second box with a git directory that the engine never saw, and enters the gate as one
// strictly checked pack. Files are taken byte for byte: attributes and filters are off on the way in and on the way out.
// A tree is removed only when what it held is reachable from a ref, and a target branch moves in the same transaction
// that creates its order's landed ref, so that no order lands twice.
//
// A landing reaches a [Remote] by one atomic push from the gate: a fast-forward of the branch, and a ref that may not
// exist. Of the person's account only what ssh, proxies and credential helpers need is used there; of a repository's
// configuration only where the remote is.
//
// It never forces a ref, never moves a branch under a dirty checkout, never talks to a network but for a Remote, and
// never decides whether a commit is good.
package worktree

package gitfacts

import (
	"fmt"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/ferry-fleet/ferry"
)

// History is what lies between two commits.
type History struct {
	// Commits are those from the base, which is not among them, to the commit, oldest first.
	Commits []Entry
	// Linear reports whether each has exactly one parent and the first one's parent is the base.
	Linear bool
	// Why says what made a history not linear; "" otherwise.
	Why string
}

// Entry is one commit of a history.
type Entry struct {
	Commit  ferry.Commit
	Tree    ferry.Commit
	Author  string
	When    time.Time
	Message string
}

// walkLimit is the longest history that is followed.
const walkLimit = 1000

// Walk follows the commits from commit back to base. A merge, a root, or more than 1,000 commits end the walk and are the
// reason why the history is not linear; they are no error. A commit that is its own base has an empty linear history.
func (r *Repo) Walk(base, commit ferry.Commit) (History, error) {
	var h History
	end, err := hashOf(base)
	if err != nil {
		return h, fmt.Errorf("history of %s: %w", commit.Short(), err)
	}
	at, err := hashOf(commit)
	if err != nil {
		return h, fmt.Errorf("history of %s: %w", commit.Short(), err)
	}
	for at != end && h.Why == "" {
		c, err := read(r, func() (*object.Commit, error) { return object.GetCommit(r.store, at) })
		if err != nil {
			return h, fmt.Errorf("history of %s at %s: %w", commit.Short(), at, err)
		}
		h.Commits = append(h.Commits, Entry{Commit: ferry.Commit(at.String()), Tree: ferry.Commit(c.TreeHash.String()),
			Author: fmt.Sprintf("%s <%s>", c.Author.Name, c.Author.Email), When: c.Author.When, Message: c.Message})
		at, h.Why = step(c, len(h.Commits))
	}
	h.Linear = h.Why == ""
	for i, j := 0, len(h.Commits)-1; i < j; i, j = i+1, j-1 {
		h.Commits[i], h.Commits[j] = h.Commits[j], h.Commits[i]
	}
	return h, nil
}

// step returns the only parent of a commit, or why there is none to follow.
func step(c *object.Commit, seen int) (plumbing.Hash, string) {
	switch {
	case len(c.ParentHashes) == 0:
		return plumbing.ZeroHash, fmt.Sprintf("%s is a root: the history does not begin at the base", c.Hash)
	case len(c.ParentHashes) > 1:
		return plumbing.ZeroHash, fmt.Sprintf("%s is a merge", c.Hash)
	case seen >= walkLimit:
		return plumbing.ZeroHash, fmt.Sprintf("more than %d commits", walkLimit)
	}
	return c.ParentHashes[0], ""
}

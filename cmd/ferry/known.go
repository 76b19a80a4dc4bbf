package main

import (
	"errors"

	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/internal/worktree"
	"github.com/ferry-fleet/ferry/land"
)

// known finds the class of an error that another package made, and what to do
// about it where the error does not say so itself.
func known(err error) (class, next string) {
	if c, ok := errors.AsType[*configError](err); ok {
		return classConfig, c.next
	}
	if d, ok := errors.AsType[land.Decision](err); ok {
		return classRefused, d.Next
	}
	for _, k := range []struct {
		err         error
		class, next string
	}{
		{channel.ErrNoOrder, classNotFound, ""},
		{channel.ErrAmbiguous, classAmbiguous, ""},
		{channel.ErrLabelTaken, classRefused, "choose another --id"},
		{channel.ErrCycle, classRefused, ""},
		{channel.ErrOtherChannel, classChannel, "set channel in .ferry/agent.toml to the folder of this project's channel"},
		{channel.ErrNoRoot, classChannel, ""},
		{channel.ErrNotMember, classKey, "`ferry channel members` lists who is"},
		{channel.ErrUnpublished, classChannel, "mend the folder; the record is kept and published with the next command"},
		{channel.ErrForked, classChannel, "`ferry channel verify` shows where"},
		{worktree.ErrNoGit, classRepository, "install git: apt-get install git"},
		{worktree.ErrOldGit, classRepository, "install a newer git"},
		{worktree.ErrNotRepository, classRepository, "run this in a git repository, or name it with -C DIR"},
		{worktree.ErrEmptyRepository, classRepository, "make the first commit: `git commit`"},
		{worktree.ErrUnknownRef, classRepository, "`git branch` lists the branches"},
		{engines.ErrMissing, classEngine, "install it, or set command in .ferry/agent.toml"},
	} {
		if errors.Is(err, k.err) {
			return k.class, k.next
		}
	}
	return classFailed, ""
}

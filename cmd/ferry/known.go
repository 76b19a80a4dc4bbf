package main

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"

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
		{channel.ErrNoOrder, classNotFound, "`ferry channel tasks` lists them; name a label, or at least the first 4 digits of an id in lower case"},
		{channel.ErrAmbiguous, classAmbiguous, ""},
		{channel.ErrLabelTaken, classRefused, "choose another --id"},
		{channel.ErrCycle, classRefused, ""},
		{channel.ErrNoHandover, classRefused, ""},
		{channel.ErrOtherChannel, classChannel, "set channel in .ferry/agent.toml to the folder of this project's channel"},
		{channel.ErrNoRoot, classChannel, ""},
		{channel.ErrNotMember, classKey, "`ferry channel members` lists who is"},
		{channel.ErrUnpublished, classChannel, "mend the folder; the record is kept and published with the next command"},
		{channel.ErrBehind, classRefused, "wait until it has arrived; what never comes holds nothing up for more than ten minutes"},
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
	return classFailed, machineNext(err)
}

// machineNext is what to do where the machine and not the order is the cause.
// The index words its own errors, so these are told by their text.
func machineNext(err error) string {
	text := err.Error()
	switch {
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || strings.Contains(text, "disk is full") ||
		strings.Contains(text, syscall.ENOSPC.Error()):
		return "free some space on this disk, then do it again: nothing was half written"
	case errors.Is(err, syscall.EROFS) || strings.Contains(text, "readonly database"):
		return "make this directory writable, or set FERRY_STATE_DIR to one that is"
	case errors.Is(err, fs.ErrPermission):
		return "give yourself the right to it with chmod or chown; `ferry doctor` looks at the files of ferry"
	}
	return ""
}

// Package evidence owns what can be said about a result without trusting the
// engine that made it: facts of the change, the order's checks run again in a
// clean checkout, and the classification that every reader computes for
// itself.
//
// It promises that [Classify] is a pure function of the order and the record,
// so that all machines agree; that a check runs on exactly the files of the
// commit, in a fresh box, with build caches that no engine could write; and
// that no reason and no fact ever holds the value of a secret.
//
// It never believes an engine's words, never decides who may accept or land,
// and never moves a ref.
//
// # The decision table
//
// The rows are read from the top; all that apply within the first status that
// applies become the reasons.
//
//	status      when
//	refuted     a check failed, or the checks are not the order's, one by one
//	            nothing changed where a change was asked for
//	            nothing changed and the engine answered nothing
//	            a file outside the order's touches changed
//	            a path that may not land
//	            something that looks like a secret was added
//	            what the snapshot left out is named with them
//	unverified  nothing changed, but the snapshot left something out
//	n-a         nothing changed and nothing asked for a change: an answer in text
//	unverified  the order names no check
//	            the engine or the checks ran without a sandbox
//	            the change alters files that the checks run
//	            the snapshot left out files that git would have seen
//	            a list was cut, so that not everything was looked at
//	            the change was measured against another base than the order's
//	verified    otherwise: all that was asked for was checked and holds
//
// "Changed" means: the diff from the order's base is not empty and, when an
// earlier result exists, this attempt added to it. So an attempt that finds
// the work done by a run that was interrupted stands on it, and one that was
// sent back and did nothing is refuted.
//
// # Where the checks run
//
//	<dir>/<n>/work    export of the commit, one for each check, read-write
//	<dir>/<n>/cache   empty build caches ($XDG_CACHE_HOME, $GOCACHE, ...)
//	<dir>/<n>/box     private files of the box
//	$FERRY_CACHE      what `prepare` downloaded on the base commit, read-only
//
// All of <dir>/<n> is thrown away after the check, so nothing that one check
// or an engine wrote is seen by another.
package evidence

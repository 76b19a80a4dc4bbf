// Package ferry is the vocabulary of a fleet: what an order, a claim, a
// result and a task are, and how the state of a task follows from its
// records.
//
// It is pure: no file, no clock, no process. Everything here is a value, and
// [Fold] is a function of the set of records, so two machines that hold the
// same records see the same states, in whatever order the records arrived.
//
// A tour of the product, bottom-up:
//
//	ferry      the words (this package)
//	sign       keys and the envelope of every record; only Open makes a Verified
//	authority  who may write which record; one pure function answers
//	channel    records in, Snapshot out: layout, store, index, publishing
//	engines    one prompt, one place, one engine; and whether it is up
//	evidence   facts of a run, checks in a clean checkout, classification
//	land       review, approve, land: the merge gate and the receipt
//	worker     doing orders on this machine: Snapshot → plan → act
//	cmd/ferry  one file per verb
//
// It never reads the wall clock, and it never decides by a time that another
// machine wrote.
package ferry

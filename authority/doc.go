// Package authority owns the question who may do what in a channel: which key a writer signs with, and whether a record
// of a certain type by a certain writer counts.
//
// It promises that the answer is a pure function of the set of verified statements (the root record and the master's
// admissions), whatever order they arrived in, and that it only ever grows: a further statement can let more records count,
// never fewer. Authority begins at the root record whose id is the channel's id; names, paths and times have no part in it.
//
// It never reads a file, a clock or a signature: package channel hands it records whose signatures hold.
//
//	record               counts when its writer is
//	root, admit          the master
//	order                the master, or has the grant order
//	claim, start, run,
//	stop, result         not the master, and has the grant work
//	verdict              the master, or has the grant review; "reject" is the master's alone
//	approve              the master
//	landed               the master, or has the grant land
//	cancel, interrupt    the order's issuer, the master, or has the grant dispatch
//	question, note       any member
//	answer               the master, or has the grant answer
package authority

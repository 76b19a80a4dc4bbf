// Package land owns the merge gate: review, send back, deny, approve, land,
// and the receipt of what landed.
//
// It promises that an order lands at most once, only from a result that
// stands, and that nothing moves before every question was asked again: of
// the records, of git and, when the target has moved on, of the order's
// checks on the merged tree. A refusal is a [Decision] with a code, a reason
// and what to type next. A crash leaves either no trace on the target or a
// landing that the next call completes.
//
// It never forces a ref, never pushes but the one landing to the one remote
// that it was given, never touches a checkout with uncommitted changes, never
// lands a writer's own work, and never takes an engine's word for anything.
//
// A receipt's file ([MakeReceiptFile], [VerifyReceipt]) proves a landing to
// whoever has nothing else. It believes no more of the file than a channel
// believes of its folder.
//
// # The way of a landing
//
//	1  the task: a result stands, the keys that the order asks for are there
//	2  git: commit, tree and content digest are read again and compared with
//	   the result; the evidence is classified again from what git says
//	3  the target: the order's branch or --into; its tip comes into the gate
//	4  squash: one commit on the tip; conflicts refuse, with the files
//	5  when the tip is not the base: the order's checks on the merged tree
//	6  1 again, then one transaction moves the branch and creates
//	   refs/ferry/landed/<order>; a checkout of the branch follows
//	7  the `landed` record
//
// With a remote, 3 asks it where the branch is and takes that for the tip, and
// 6 begins with one push of the branch and the landed ref, in one transaction
// there. From the push on the order has landed; what follows here can wait.
//
// A crash between 6 and 7 leaves the ref without its record. A file in the
// journal says what the record would have been, and the squashed commit names
// order, result, verdict, approval and lander in its trailers, so the next
// Land or [Repair] writes the record. A push whose answer was lost is asked
// about on the remote.
//
// What another machine has landed and not recorded, whoever may land records:
// the commit at the ref has to name the order and a result, change exactly
// what that result says, and be on the branch. A result that does not count
// any more, because its writer forked, has landed all the same: then it takes
// the master's word.
package land

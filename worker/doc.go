// Package worker does orders on this machine.
//
// It owns the loop of one agent in one project: it reads the channel, decides
// with the pure function Plan what to do next and why not, and acts:
//
//	Snapshot → Fleet → Plan → begin | claim | start | cancel | freeze | thaw | steer | recover | release | ask | retire | hold
//
// Where workers on other machines may take the same order, one start comes of
// it by the claim protocol: a worker claims in its turn, waits whether another
// claim arrives, and starts; one that goes silent is superseded by a higher
// attempt, which fences it. Fleet is the memory of that, by this machine's own
// clocks: whom it heard when, how long the way is, what it claimed. A beat in
// the folder says that this worker lives, what it runs and what it has seen.
//
// One goroutine owns the state (Run). An attempt is a goroutine of its own: it
// makes the tree, runs the engine in the box, snapshots what was left, runs the
// checks, and sends one value back, which Run turns into records. A pass never
// waits for an engine.
//
// It promises: an engine runs only between a durable start and a stop or
// result of the same attempt; nothing is deleted before its commits are
// reachable from a ref; after any end of the process the next start of the
// worker finds what was left in the run directories, kills what survived, keeps
// the work and closes the attempt; every order that is not begun has a reason
// in the status file.
//
// It never opens the operator's key, never judges its own work, and never
// believes what an engine says about it.
//
// The directory of the runs holds a file boot, which counts the beginnings of
// the worker for its beats, and the run directories:
//
//	<runs>/<run>/run.json     the journal: what this run is and how far it came
//	<runs>/<run>/output.log   what the engine printed, bounded and redacted
//	<runs>/<run>/owed.json    while the remote has not got the commit of the run
//	<runs>/<run>/in/          the prompt, where it goes by file; read-only in the box
//	<runs>/<run>/attached/    the order's attachments, read-only in the box
//	<runs>/<run>/tree/        the engine's worktree and its private repository
//	<runs>/<run>/box/         the sandbox's own files
//	<runs>/<run>/checks/      clean checkouts of the commit
//
// All but the journal, the log and what is owed are gone when the run is retired.
//
// Between machines the commits travel by the git remote, beside the passes: what
// runs left is pushed before it is handed in, or later where the remote does not
// answer; an order whose commits are not here is held, not claimed, while they are
// fetched.
package worker

// Package engines runs one prompt in one place with one engine and says whether
// the engine was up. It owns the known agent CLIs (their command lines, login
// files, output formats), the engines that are a model behind an endpoint, the
// environment and the clocks of a run, the fault classes, the cool-off ladder and
// the probes.
//
// It promises that a run ends within its clocks, that nothing of it is alive
// afterwards, that what it hands out is bounded and redacted, that no secret is
// on a command line, and that an engine's fault is told apart from work that
// went badly:
//
//	the process ends, or a clock or the caller ends it     -> Reply.Ended
//	what the CLI printed in its machine-readable mode,
//	or what the endpoint answered                          -> Parsed
//	both, by rules that are narrow on purpose              -> Reply.Fault or none
//
// Each kind of engine has one Runner, and one conformance suite holds for all of
// them. A probe says no more of an engine than what it has seen it do.
//
// It never judges the work: an exit code is no verdict, and what changed in the
// tree is for git to tell. It never chooses an engine, never keeps a state on
// disk and never adds an engine's approval bypass outside a box.
package engines

// Package enginetests owns the tests of the whole loop with the real agent CLIs
// codex, claude and pi: the built ferry binary, typed at as a person types, on
// the source of a well-known public Go module whose own test suite is the check.
//
// It promises that each test has a home, a state directory and a repository of
// its own, that a CLI's only model is the scripted server on loopback, and that
// everything else is the real thing. It holds nothing but tests, which are built
// with the tag engines and run by scripts/test-engines.
package enginetests

// Package fleettests owns the tests of a whole fleet: the built ferry binary on two or three machines, each with a
// clone of one git remote, a home and a state directory of its own, around one channel folder. Their workers are killed
// without warning, or asked to stop, again and again.
//
// It promises that nothing of ferry is linked into what it runs but by the binary, and that what it counts comes from
// the commands that a person has, from git and from /proc. It holds nothing but tests; the long ones are built with the
// tag soak and run by scripts/soak.
package fleettests

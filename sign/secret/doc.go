// Package secret keeps the values that engines need and nobody else may read: API keys and tokens, sealed on this machine.
//
// It promises that a value is on disk in sealed form only: secrets.age is an age file, sealed to an X25519 identity that
// lies in a file of its own, mode 0600, in a directory of mode 0700. A write is whole or did not happen, and two processes
// that write do not lose each other's values. What is read is bounded before it is opened. A list gives names and times
// and cannot give a value. No error quotes a value.
//
// It protects what the sealed file alone shows: in a backup, a synced folder, a listing that somebody pastes. It does not
// protect from whoever can read both files, which is root, and every program that runs as the same user outside of a box.
//
// It never sends a value anywhere, never decides who gets one, and never makes a second identity where the values that are
// there need the first.
package secret

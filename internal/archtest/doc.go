// Package archtest holds the rules of the house: which package imports which, what every file and function looks like, and
// which calls have one home. It is a test and nothing else.
//
// It promises one line per offence with its file and line, in a few seconds, before any other test runs. The rules are data
// in table_test.go; an exception is a line there with its reason, and one that is no longer needed is an offence itself.
//
// It never judges test data and generated files, and never changes anything.
package archtest

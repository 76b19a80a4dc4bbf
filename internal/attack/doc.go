// Package attack owns the tests in which somebody who is not allowed to tries all
// the same: against the packages sign, authority, channel and land by what they
// export, with several machines over one real folder, and against the built ferry
// command where that is what a person looks at.
//
// It promises that every row of docs/threat-model.md names a test that exists. It
// holds nothing but tests.
package attack

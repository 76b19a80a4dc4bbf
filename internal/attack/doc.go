// Package attack owns the tests in which somebody who is not allowed to tries all
// the same: against the packages sign, authority, channel and land by what they
// export, with several machines over one real folder, and against the built ferry
// command where that is what a person looks at.
//
// It promises that every test that docs/threat-model.md names exists, and that every
// test of this package is named there. It holds nothing but tests.
//
// Those that try have a pen: it seals whatever it is told to with a real key, and puts
// it into the folder. What they try has to leave everything that any machine decides by
// exactly as it was, and what each machine has in its index has to be what follows from
// the bytes of its records.
//
// Cases of the suite that belong to parts which are not here:
//
//	15  Host and Origin, sessions, scopes of routes   the dashboard
//	18  strangers, replays and stale cards            the Telegram gateway
//	20  moved folders, missing markers, no peers      the carrier
package attack

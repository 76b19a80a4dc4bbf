// Package authority owns the question who may do what in a channel: which key a writer signs with, which part of its chains
// counts, and whether a record of a certain type by a certain writer counts.
//
// It promises that the answer is a pure function of the set of verified statements (roots, admissions, revocations,
// readmissions, delegations, invites, policies), whatever order they arrived in. Authority begins at the root record whose
// id is the channel's id; names, paths, times and the absence of a file have no part in it. [Evaluate] goes from the top
// down: the chain of roots, the members, the delegations, the policies. Each of them rests only on those before it.
//
// It never reads a file, a clock or a signature: package channel hands it records whose signatures hold, and for roots the
// keys that have signed.
//
// # Who may write what
//
// Any one of the columns is enough, and the strongest gives the record its level. The master has every right but work:
// grants are never the master's. A master that was replaced keeps what it wrote up to the cut.
//
//	record                   master  delegate, scope  member, grant    others
//	root                     see below
//	admit                    yes     admit
//	revoke, readmit,
//	delegate, invite         yes
//	policy engine            yes     improve
//	policy adversary, switch yes
//	redact                   yes
//	checkpoint               yes     timekeep         work
//	order                    yes     order            order
//	claim, start, run,
//	stop, result                                      work
//	verdict keep, changes    yes     review           review
//	verdict reject           yes
//	approve                  yes     review
//	landed                   yes                      land
//	cancel, interrupt,
//	retire, reassign         yes     dispatch         dispatch         the order's issuer
//	answer                   yes     answer           answer
//	inventory, seal (of its
//	own records), question,
//	note, anomaly, fork-proof yes                                      any member
//	a type that is not known                                           nobody
//
// A record that needs a newer ferry is judged by its type alone.
//
// # Roots
//
// The first root is the record whose id is the channel's; it is version 1 of generation 0. The project is the same for good.
//
//   - The next version names the root before it, and is signed by the threshold of that one's keys and of its own. The keys
//     are the master's and the further ones; each counts once. The recovery keys stay what they are.
//   - A higher generation begins with version 1, and is signed by a recovery key of the root that it names, which is any
//     valid one, and by its own master. It outranks every root of a lower generation, whatever its version.
//   - In one generation the versions are followed up from the first. Of two that claim one place, the smaller id counts. So
//     after a theft of the master's key only a higher generation helps, and a key that was stolen is never just rotated.
//   - A root is written in the chain of the master before, or, where that one is lost, as the first record of its own master.
//     The chain of a new master begins behind that root. A master that was replaced never comes back, and never had been a member.
//   - Keep ends the chain of the master before. Without it that chain ends with the root, if that is in it; otherwise nothing
//     of it counts but roots. Those whom the remaining chain admitted stay members, and its delegations stay in force.
//
// # Members
//
//   - The first admission of a writer and of a name counts, in the order of the masters' chains; names are unique whatever
//     their case, and are never free again. A further admission by the master adds grants.
//   - A revocation shuts a member out, and ends its delegations. Of its records those up to Keep count, and nothing of a
//     later epoch. With Seq 0 nothing of that epoch counts. A later revocation corrects an earlier one.
//   - A readmission begins the next epoch, with a key that nobody ever had, and cuts the epoch before. It lets one in again
//     that was revoked.
//   - An admission that answers an invite gives no grant that the invite does not, and comes after it; an invite that is
//     not for many is answered once. Whoever answers looks at its NotAfter.
//   - A delegate's admission gives no grant but order, work and review. It stands in the order where a statement of the
//     master shows that the master had seen it, otherwise at the end, and never takes a name that the master gives. A member
//     that only a delegate admitted cannot admit others.
//
// # Delegations
//
// A later delegation for the same member takes the place of the earlier. An act is judged by the last one that its Saw shows
// its writer to have seen: it holds a head of the chain of the master that wrote it, or of a later master, at or after it.
// Where a later delegation takes the scope away, the acts that the master had seen when it wrote that (its Saw) stay; where
// a revocation does, those up to its Keep. The project must be in the list, unless the list is empty. MaxUses counts the
// acts that are covered, in the order of the delegate's chain. NotAfter is judged by the clock of whoever lets the act have
// an effect; see [Roster.Expired]. With the scope review, a delegate never judges what it ordered or built, nor approves on
// its own verdict.
//
// # Policies
//
// Versions of a policy name the one before, with the version 1 higher, or begin with 1; the generation is that of the root in
// force where they were written. The pair of generation and version decides, then the master before a delegate, then
// what the master wrote first, then the smaller id. A later version that does not follow from the one in force is a hold: something is withheld here.
package authority

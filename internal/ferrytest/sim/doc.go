// Package sim simulates fleets: the production code of records, channel,
// states, claims and the decision to land runs on machines of a world that has
// one thread, one seed and no real time. It is for tests and scripts/simulate.
//
// # What is real and what is played
//
// Real are [sign.Seal] and [sign.Open] (each file is verified once for all
// machines), [channel.Replica] with [authority] and [ferry.Fold], [worker.Plan]
// and [worker.Fleet], [evidence.Classify] and [land.Decide]. Played are disks,
// clocks, the carrier of the folder, git's refs, engines, the loop around the
// plan, and the persons. The bytes of beats, joining, packs and money are not
// part of it. The loop follows package worker, the landing package land; what
// those do with real files and processes has its own tests.
//
// A seed draws the machines, a subset of the faults with their rates, and
// whether it is about safety (faults to the end) or liveness (they stop, and
// then every order has to end). Then all acting stops, everything spreads, and
// the machines are compared.
//
// # The invariants
//
//	I1      an order lands once, and its ref never changes
//	I2      a landing descends from the tip before it
//	I3      machines with equal records have equal states
//	I4      state that grew record by record is that of all records at once, in any order
//	I5      a final state is never left (where no fork voids the act)
//	I6      no number of a chain and no beat says two things, but by cloned keys
//	I7      an engine runs between its durable start and its stop or result
//	I8      who holds what fences an attempt makes no push and no result for it
//	I9      without faults each order is started once
//	I10     an engine ends within a poll after its machine holds the fence
//	I12     what lands was built by an engine, and accepted by somebody else who may
//	I13     other wall clocks change nothing (TestWallClocks)
//	I14     what an honest machine published is on every honest machine in the end
//	I15     in liveness runs every order ends
//	I18     nothing of a stranger is ever taken in
//	lapse   nobody is taken for gone before the whole silence was watched, awake
//	settle  a start stands on a claim that others still wait for
//
// I11 (memory of versions) follows here from the replica, which starts again
// from its disk; I17 (bounds) and I16 (money) have no part in the simulation.
//
// An order counts as ended, too, when main holds it and the record of that
// cannot be: the machine that landed it is gone for good, or a fork that was
// found later voids the result.
package sim

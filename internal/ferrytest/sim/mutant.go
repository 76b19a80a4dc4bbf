package sim

// Mutant is a rule of the protocol that is left out or turned round, to see that the invariants notice.
type Mutant string

// The mutants.
const (
	MutantNone          Mutant = ""
	MutantNoSettle      Mutant = "no-settle"           // start at once after the claim
	MutantMonoSettle    Mutant = "settle-by-monotonic" // a settle window does not see that the machine slept in it
	MutantNoFence       Mutant = "no-attempt-fence"    // a higher attempt does not stop a lower one
	MutantResultLoses   Mutant = "result-loses"        // a result does not end the other starts
	MutantLapseBoot     Mutant = "lapse-before-boot"   // the silence of the time before the own boot counts
	MutantLeaseOnMain   Mutant = "lease-on-main"       // a lease on the branch in place of a ref that is created once
	MutantPublishFirst  Mutant = "publish-first"       // a record is in the folder before it is in the journal
	MutantMinByTime     Mutant = "min-by-time"         // the earliest claim wins in place of the smallest rank
	MutantGraceNoFences Mutant = "grace-blocks-fences" // fences wait too, after a boot or a sleep
	MutantLandUnkept    Mutant = "land-unkept"         // what nobody has accepted yet is landed
)

// Mutants lists the mutants.
func Mutants() []Mutant {
	return []Mutant{
		MutantNoSettle, MutantMonoSettle, MutantNoFence, MutantResultLoses, MutantLapseBoot, MutantLeaseOnMain,
		MutantPublishFirst, MutantMinByTime, MutantGraceNoFences, MutantLandUnkept,
	}
}

package ferry

import "time"

// Type is the type of a record, as its header spells it.
type Type string

// The types of format v1. An unknown type is stored and has no effect.
const (
	TypeRoot       Type = "root"
	TypeAdmit      Type = "admit"
	TypeRevoke     Type = "revoke"
	TypeReadmit    Type = "readmit"
	TypeDelegate   Type = "delegate"
	TypeInvite     Type = "invite"
	TypePolicy     Type = "policy"
	TypeCheckpoint Type = "checkpoint"
	TypeInventory  Type = "inventory"
	TypeSeal       Type = "seal"
	TypeRedact     Type = "redact"
	TypeForkProof  Type = "fork-proof"
	TypeAnomaly    Type = "anomaly"
	TypeOrder      Type = "order"
	TypeClaim      Type = "claim"
	TypeStart      Type = "start"
	TypeRun        Type = "run"
	TypeStop       Type = "stop"
	TypeRetire     Type = "retire"
	TypeReassign   Type = "reassign"
	TypeResult     Type = "result"
	TypeVerdict    Type = "verdict"
	TypeApprove    Type = "approve"
	TypeLanded     Type = "landed"
	TypeCancel     Type = "cancel"
	TypeInterrupt  Type = "interrupt"
	TypeQuestion   Type = "question"
	TypeAnswer     Type = "answer"
	TypeNote       Type = "note"
)

// Body is the decoded body of a record. Subject gives the order it is about,
// or the zero id.
type Body interface {
	Type() Type
	Subject() RecordID
}

// Record is a verified record with its body. Only package channel makes them,
// from bytes that sign.Open accepted and authority let count.
type Record struct {
	ID     RecordID
	Writer WriterID
	Epoch  uint32
	Seq    uint64
	Time   time.Time // the writer's clock: for display, never for a decision of another machine
	Saw    []Head    // heads of other writers' chains that the writer had when it wrote
	Level  Level     // the authority under which it counts
	Body   Body
}

// Head names a record by its place in its writer's chain, and by the first half of its id.
type Head struct {
	Writer WriterID `json:"writer"`
	Epoch  uint32   `json:"epoch"`
	Seq    uint64   `json:"seq"`
	ID32   string   `json:"id32"` // the first 32 hex digits of the record's id
}

// Names reports whether the head is that of a record.
func (h Head) Names(r Record) bool {
	return h.Writer == r.Writer && h.Epoch == r.Epoch && h.Seq == r.Seq && h.ID32 == r.ID.String()[:32]
}

// Level says by which authority a record counts: the smaller, the stronger.
type Level uint8

// The levels, strongest first.
const (
	LevelMaster Level = iota
	LevelDelegate
	LevelGrant
)

// Claim says: I intend to run this attempt of the order.
type Claim struct {
	Order      RecordID   `json:"order"`
	Attempt    int64      `json:"attempt"`
	Supersedes []RecordID `json:"supersedes,omitempty"`
}

// Start says: my engine starts now. It is durable before the engine is.
type Start struct {
	Order   RecordID `json:"order"`
	Attempt int64    `json:"attempt"`
	Claim   RecordID `json:"claim"`
	Engine  string   `json:"engine"`
	Model   string   `json:"model,omitempty"`
	Sandbox string   `json:"sandbox"`
	From    Commit   `json:"from"` // commit the tree was made at
}

// Outcome is how a run ended.
type Outcome string

// The outcomes of a run. Only a run that was the order's own doing can count
// against the order; see StopReason.
const (
	OutcomeDone     Outcome = "done"     // the engine ended by itself and answered
	OutcomeFault    Outcome = "fault"    // the engine failed: credit, endpoint, nothing answered
	OutcomeTimeout  Outcome = "timeout"  // the order's wall clock ran out while it worked
	OutcomeKilled   Outcome = "killed"   // a person's kill or cancel
	OutcomeSteered  Outcome = "steered"  // stopped to begin again with a note
	OutcomeShutdown Outcome = "shutdown" // the worker was stopped
	OutcomeOrphan   Outcome = "orphan"   // the worker died under it
	OutcomeLimit    Outcome = "limit"    // a cap of tokens, money or disk
)

// Run is one engine process of an attempt, written when it has ended.
type Run struct {
	Order   RecordID   `json:"order"`
	Start   RecordID   `json:"start"`
	Attempt int64      `json:"attempt"`
	N       int64      `json:"n"`
	Run     RunID      `json:"run"`
	Engine  string     `json:"engine"`
	Model   string     `json:"model,omitempty"`
	Started string     `json:"started_at"` // RFC 3339, the runner's clock
	Ended   string     `json:"ended_at"`
	Outcome Outcome    `json:"outcome"`
	Reason  string     `json:"reason,omitempty"`
	Commit  Commit     `json:"commit,omitempty"` // what it left behind
	Usage   Usage      `json:"usage"`
	Steers  []RecordID `json:"steers,omitempty"` // interrupts that this run was told of
}

// StopReason says why a start ended without a result.
type StopReason string

// The reasons. StopFailed and StopTimeout count against the order; the others
// never do.
const (
	StopFailed   StopReason = "failed"
	StopTimeout  StopReason = "timeout"
	StopFault    StopReason = "engine-fault"
	StopOrphan   StopReason = "orphan"
	StopShutdown StopReason = "shutdown"
	StopKilled   StopReason = "killed"
	StopFenced   StopReason = "fenced"
	StopReleased StopReason = "released"
	StopRetired  StopReason = "retired" // never in a Stop: what Fold makes of a Retire or a Reassign
)

// Counts reports whether a stop for this reason uses up an attempt.
func (r StopReason) Counts() bool { return r == StopFailed || r == StopTimeout }

// Stop ends exactly one start, or gives back a claim that was never started.
type Stop struct {
	Order  RecordID   `json:"order"`
	Start  RecordID   `json:"start"`
	Claim  RecordID   `json:"claim"`
	Reason StopReason `json:"reason"`
	Note   string     `json:"note,omitempty"`
	Commit Commit     `json:"commit,omitempty"`
}

// Retire ends a start, or a claim that was never started, of a writer that is gone. It is the word of the order's issuer,
// the master or a dispatcher about somebody else's attempt; the writer's own word is a Stop. Overdue says that the start ran
// for longer than the order gives an attempt: what the writer starts of the order after it does not count, unless it comes to a result.
type Retire struct {
	Order   RecordID `json:"order"`
	Start   RecordID `json:"start"`
	Claim   RecordID `json:"claim"`
	Reason  string   `json:"reason,omitempty"`
	Overdue bool     `json:"overdue,omitempty"`
}

// Reassign gives an order to another agent, or with an empty name to any. Ends holds the live starts and claims that it
// ends.
type Reassign struct {
	Order  RecordID   `json:"order"`
	To     AgentName  `json:"to"`
	Ends   []RecordID `json:"ends,omitempty"`
	Reason string     `json:"reason,omitempty"`
}

// Verdict is what a reviewer says of exactly one result. A rejection may name
// the order alone.
type Verdict struct {
	Order    RecordID `json:"order"`
	Result   RecordID `json:"result"`
	Decision Decision `json:"decision"`
	Notes    string   `json:"notes,omitempty"`
	Commit   Commit   `json:"commit,omitempty"`
	Tree     Commit   `json:"tree,omitempty"`
	Content  string   `json:"content256,omitempty"`
}

// Decision is a reviewer's word.
type Decision string

// The decisions: keep the result, change it, or refuse the order's work for good.
const (
	DecisionKeep    Decision = "keep"
	DecisionChanges Decision = "changes"
	DecisionReject  Decision = "reject"
)

// Approve is the master's key on one result: it names what was read.
type Approve struct {
	Order   RecordID `json:"order"`
	Result  RecordID `json:"result"`
	Verdict RecordID `json:"verdict"`
	Commit  Commit   `json:"commit,omitempty"`
	Tree    Commit   `json:"tree,omitempty"`
	Content string   `json:"content256,omitempty"`
}

// Landed says that the order's one landing has happened. A master's that names the digest of what landed counts also where
// the result does not: a writer that is found to have forked takes nothing off a branch.
type Landed struct {
	Order   RecordID `json:"order"`
	Result  RecordID `json:"result"`
	Verdict RecordID `json:"verdict"`
	Approve RecordID `json:"approve"`
	Target  string   `json:"target"`
	Old     Commit   `json:"old"`
	Commit  Commit   `json:"commit"`               // the squashed commit on the target
	Content string   `json:"content256,omitempty"` // digest of what landed, which is that of the result
	Checks  []Check  `json:"checks,omitempty"`
}

// Cancel takes an order back.
type Cancel struct {
	Order  RecordID `json:"order"`
	Reason string   `json:"reason,omitempty"`
}

// Action is what an interrupt asks for.
type Action string

// The actions. Resume and retry name what they lift in Seen.
const (
	ActionKill   Action = "kill"
	ActionPause  Action = "pause"
	ActionResume Action = "resume"
	ActionSteer  Action = "steer"
	ActionRetry  Action = "retry"
)

// Interrupt acts on an order while it waits or runs. Seen holds the ids of
// the records that it answers: a resume names the pauses it lifts, a retry
// the failures (stops, refuted results, rejections) it forgives.
type Interrupt struct {
	Order  RecordID   `json:"order"`
	Action Action     `json:"action"`
	Note   string     `json:"note,omitempty"`
	Seen   []RecordID `json:"seen,omitempty"`
}

// Question is something that waits for a person. Key makes it one question
// however often its cause returns.
type Question struct {
	Order   RecordID   `json:"order"`
	Key     string     `json:"key"`
	Text    string     `json:"text"`
	Options []Option   `json:"options"`
	Seen    []RecordID `json:"seen,omitempty"`  // what an answer "retry" forgives
	Aside   bool       `json:"aside,omitempty"` // the order does not wait for the answer
}

// Option is one answer that a question offers.
type Option struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// The option names with an effect on the order; any other is only recorded.
const (
	OptionRetry  = "retry"
	OptionCancel = "cancel"
)

// Answer answers one question with one of its options.
type Answer struct {
	Order    RecordID `json:"order"`
	Question RecordID `json:"question"`
	Option   string   `json:"option"`
	Note     string   `json:"note,omitempty"`
}

// Note is a line of the ledger: an engine's fault, a release, a remark.
type Note struct {
	Order RecordID `json:"order"`
	Kind  string   `json:"kind"`
	Text  string   `json:"text"`
}

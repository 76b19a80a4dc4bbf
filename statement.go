package ferry

import "slices"

// Grant is what a writer may do in a channel.
type Grant string

// The grants that an admit record can carry. The master has them all but
// GrantWork: whoever gives orders does not also run engines under that key.
const (
	GrantOrder    Grant = "order"
	GrantWork     Grant = "work"
	GrantReview   Grant = "review"
	GrantLand     Grant = "land"
	GrantDispatch Grant = "dispatch" // cancel, interrupt, reassign and retire orders of others
	GrantAnswer   Grant = "answer"
)

// Scope is what the master lets a delegate do in its place.
type Scope string

// The scopes of a delegation. None of them reaches the adversary's policy, the root, the roster beyond admissions, or the
// delegation itself.
const (
	ScopeReview   Scope = "review" // verdict and approve
	ScopeAnswer   Scope = "answer"
	ScopeImprove  Scope = "improve" // the engine policy
	ScopeDispatch Scope = "dispatch"
	ScopeTimekeep Scope = "timekeep"
	ScopeOrder    Scope = "order"
	ScopeAdmit    Scope = "admit"
)

// Scopes lists every scope that a delegation can carry.
func Scopes() []Scope {
	return []Scope{ScopeReview, ScopeAnswer, ScopeImprove, ScopeDispatch, ScopeTimekeep, ScopeOrder, ScopeAdmit}
}

// Cut is the last record of a writer that counts. With Seq 0 none of that epoch does.
type Cut struct {
	Epoch int64    `json:"epoch"`
	Seq   int64    `json:"seq"`
	ID    RecordID `json:"id"`
}

// Root says whose key is the root of authority. The first one founds the channel: its record id is the channel's id. Each
// later one names the root before it, either as the next version of its generation, signed by enough keys of both, or as
// the first of a higher generation, signed by a recovery key of the root that it names and by its own master. A higher
// generation outranks every root of a lower one. Keys are hex.
type Root struct {
	Generation int64    `json:"generation"`
	Version    int64    `json:"version"`
	Project    string   `json:"project"`
	Master     Member   `json:"master"`
	Keys       []string `json:"keys,omitempty"` // further root keys beside the master's
	Threshold  int64    `json:"threshold"`      // how many of the root keys have to sign the next version
	Recovery   []string `json:"recovery"`
	Prev       RecordID `json:"prev"` // the root before; zero in the first
	Keep       Cut      `json:"keep"` // where the chain of the master before ends; zero: at this record, or nowhere if that is the same writer
}

// Member is one writer as the roster knows it.
type Member struct {
	Writer  WriterID  `json:"writer"`
	Key     string    `json:"key"` // hex of the ed25519 public key
	Name    AgentName `json:"name"`
	Machine string    `json:"machine"`
	Email   string    `json:"email,omitempty"`
	Grants  []Grant   `json:"grants,omitempty"`
}

// Admit lets a writer in: from here its records are read. One that answers a request to join names its invite and repeats
// its nonce, so that the new machine knows that the master was there after it had asked.
type Admit struct {
	Member Member   `json:"member"`
	Epoch  int64    `json:"epoch"`
	Invite RecordID `json:"invite"`
	Nonce  string   `json:"nonce,omitempty"`
	Auto   bool     `json:"auto,omitempty"` // nobody compared the words
}

// Revoke shuts a writer out: of its records only those up to Keep count.
type Revoke struct {
	Writer WriterID `json:"writer"`
	Keep   Cut      `json:"keep"`
	Reason string   `json:"reason,omitempty"`
}

// Readmit gives a member its next epoch, with a new key. Of the epoch before only the records up to Keep count: so it
// answers a fork, a lost state directory and a new key.
type Readmit struct {
	Writer WriterID `json:"writer"`
	Epoch  int64    `json:"epoch"`
	Key    string   `json:"key"`
	Keep   Cut      `json:"keep"`
	Nonce  string   `json:"nonce,omitempty"`
	Reason string   `json:"reason,omitempty"`
}

// Delegate lets a member act for the master. A later one for the same member takes the place of the earlier; one without
// scopes ends it.
type Delegate struct {
	To       WriterID `json:"to"`
	Scopes   []Scope  `json:"scopes,omitempty"`
	Projects []string `json:"projects,omitempty"`  // none means every project
	NotAfter string   `json:"not_after,omitempty"` // RFC 3339; read by the clock of whoever lets the act have an effect
	MaxUses  int64    `json:"max_uses,omitempty"`  // 0 means no limit
}

// Invite lets whoever holds its private key ask to join.
type Invite struct {
	Key      string  `json:"key"` // hex of the public half
	Grants   []Grant `json:"grants,omitempty"`
	NotAfter string  `json:"not_after"` // RFC 3339
	Many     bool    `json:"many,omitempty"`
}

// PolicyKind says which of the channel's policies a record is about.
type PolicyKind string

// The kinds of policies. The adversary's is the master's alone.
const (
	PolicyEngine    PolicyKind = "engine"
	PolicyAdversary PolicyKind = "adversary"
	PolicySwitch    PolicyKind = "switch"
)

// Policy is one version of a policy. It names the version before it, so that a version that is withheld is noticed.
type Policy struct {
	Kind       PolicyKind `json:"kind"`
	Generation int64      `json:"generation"` // of the root it was written under
	Version    int64      `json:"version"`    // 1 more than that of Prev, or 1
	Prev       RecordID   `json:"prev"`
	Requires   []string   `json:"requires,omitempty"` // features that a ferry must have to act under it
	Text       string     `json:"text"`
}

// Checkpoint says what its writer has seen of the authority.
type Checkpoint struct {
	Root   RecordID `json:"root"`
	Master Head     `json:"master"`
	Roster string   `json:"roster"` // hex SHA-256 of the members
}

// Inventory says what a machine's ferry can do. It is written when it changes.
type Inventory struct {
	Version  string       `json:"version"`
	Features []string     `json:"features,omitempty"`
	Platform string       `json:"platform,omitempty"`
	Slots    int64        `json:"slots,omitempty"`
	Engines  []EngineSeen `json:"engines,omitempty"` // in order of preference; none where the ferry does not tell of them
}

// EngineSeen is what a worker says of one of its engines. It holds nothing secret.
type EngineSeen struct {
	Name     EngineName `json:"name"`
	Kind     string     `json:"kind"` // cli, http
	Model    string     `json:"model,omitempty"`
	Tier     string     `json:"tier"`            // judge, build, chore
	Paid     string     `json:"paid,omitempty"`  // local, free-tier, prepaid, subscription
	State    string     `json:"state"`           // up, unknown, down, exhausted, blocked
	Proof    string     `json:"proof,omitempty"` // what was seen of it
	Reason   string     `json:"reason,omitempty"`
	Until    string     `json:"until,omitempty"` // RFC 3339: when that may end
	Class    string     `json:"class"`           // small, medium, large
	Can      []string   `json:"can,omitempty"`   // modalities
	ContextK int64      `json:"context_k,omitempty"`
	Local    bool       `json:"local,omitempty"` // nothing that it is given leaves the machine or its network
	Price    PriceSeen  `json:"price"`
	Requests int64      `json:"requests,omitempty"`  // in this week
	MicroUSD int64      `json:"micro_usd,omitempty"` // in this week, in millionths of a US dollar
	Verified int64      `json:"verified,omitempty"`  // results of it that were verified here
	Refuted  int64      `json:"refuted,omitempty"`
}

// PriceSeen is what an engine costs, in millionths of a US dollar, and who says so. Where the source is "unknown" the
// numbers mean nothing.
type PriceSeen struct {
	PerCall    int64  `json:"per_call_micro_usd,omitempty"`
	PerMTokIn  int64  `json:"per_mtok_in_micro_usd,omitempty"`
	PerMTokOut int64  `json:"per_mtok_out_micro_usd,omitempty"`
	Source     string `json:"source"`
}

// Seal says that records of its writer are in a pack as well, so that their files may go.
type Seal struct {
	Epoch int64  `json:"epoch"`
	From  int64  `json:"from"` // sequence numbers, both included
	To    int64  `json:"to"`
	Pack  string `json:"pack"` // hex SHA-256 of the pack's file
	Size  int64  `json:"size"`
}

// Redact takes texts out of records: from here the body given here is read in place of the one that was signed.
type Redact struct {
	Reason  string     `json:"reason"`
	Records []Redacted `json:"records"`
}

// Redacted is the body that takes the place of another: of the same type, about the same order, with the same decision.
type Redacted struct {
	ID   RecordID `json:"id"`
	Body string   `json:"body"` // JSON
}

// ForkProof shows that a writer has signed two records with one number.
type ForkProof struct {
	Writer  WriterID `json:"writer"`
	Epoch   int64    `json:"epoch"`
	Seq     int64    `json:"seq"`
	Headers []string `json:"headers"` // two, each with its signature lines
}

// Anomaly is something odd that a machine saw: for people, without effect.
type Anomaly struct {
	Kind   string   `json:"kind"`
	Writer WriterID `json:"writer,omitempty"`
	Detail string   `json:"detail"`
}

// Opaque stands for the body of a record that needs a newer ferry. It blocks the order that it is about.
type Opaque struct {
	Is    Type     `json:"is"`
	Order RecordID `json:"order"`
	Need  []string `json:"need"`
}

// The features of this version: what a record's need and a policy's requires may name.
const (
	FeatureClaims = "claim.1" // stagger, settle, beats, lapse and fences
	FeatureLand   = "land.1"  // one landing for each order, by a ref that is created once
)

// Features lists the features that this version understands.
func Features() []string { return []string{FeatureClaims, FeatureLand} }

// Missing gives those of the features that this version does not understand.
func Missing(features []string) []string {
	var out []string
	for _, f := range features {
		if !slices.Contains(Features(), f) {
			out = append(out, f)
		}
	}
	return out
}

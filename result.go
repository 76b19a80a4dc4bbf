package ferry

// Result is what a worker hands in. Everything in it but Answer was measured
// by ferry, not told by the engine.
type Result struct {
	Order      RecordID `json:"order"`
	Attempt    int64    `json:"attempt"`
	Revision   int64    `json:"revision"`
	Start      RecordID `json:"start"`
	Engine     string   `json:"engine"`
	Model      string   `json:"model,omitempty"`
	Base       Commit   `json:"base"`   // the order's base: the diff is base..commit
	From       Commit   `json:"from"`   // where this attempt began
	Commit     Commit   `json:"commit"` // equal to From when nothing changed
	Tree       Commit   `json:"tree"`
	Content    string   `json:"content256"`
	Branch     string   `json:"branch,omitempty"`
	Files      []File   `json:"files,omitempty"`
	FilesTotal int64    `json:"files_total"`
	Checks     []Check  `json:"checks,omitempty"`
	Facts      Facts    `json:"facts"`
	Sandbox    Sandbox  `json:"sandbox"`
	Usage      Usage    `json:"usage"`
	Answer     string   `json:"answer,omitempty"` // the engine's own words: a comment
	Summary    string   `json:"summary,omitempty"`
	Features   []string `json:"features,omitempty"` // of the ferry that made it
}

// Bounds of a result; what exceeds them is cut and counted.
const (
	MaxResultFiles  = 200
	MaxResultAnswer = 16 << 10 // bytes
	MaxCheckTail    = 4 << 10  // bytes of output kept per check
)

// File is one changed path between two commits. Modes are six octal digits,
// Status is A, M, D or T (type changed).
type File struct {
	Path    string `json:"path"`
	Status  string `json:"status"`
	ModeOld string `json:"mode_old,omitempty"`
	ModeNew string `json:"mode_new,omitempty"`
	OldBlob Commit `json:"old_blob,omitempty"`
	NewBlob Commit `json:"new_blob,omitempty"`
	Added   int64  `json:"added"`
	Deleted int64  `json:"deleted"`
	Binary  bool   `json:"binary,omitempty"`
}

// Check is one command of the order that ferry ran again in a clean checkout
// of the commit. Exit is -1 when it was ended by ferry; Reason then says why.
type Check struct {
	Command string `json:"command"`
	Exit    int64  `json:"exit"`
	Tail    string `json:"tail,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Millis  int64  `json:"millis"`
}

// Facts are what ferry found about a change beside its files.
type Facts struct {
	Outside   []string `json:"outside,omitempty"`    // paths outside the order's touches
	CheckEdit []string `json:"check_edit,omitempty"` // files of the base that the checks run and the change alters
	BadPaths  []string `json:"bad_paths,omitempty"`  // paths that may not land, with the reason
	Skipped   []string `json:"skipped,omitempty"`    // what the snapshot left out, with the reason
	Secrets   []string `json:"secrets,omitempty"`    // path and kind of what looks like a secret
	Denied    []string `json:"denied,omitempty"`     // edits that the engine refused itself
	Cut       bool     `json:"cut,omitempty"`        // a list was cut at its bound
}

// Sandbox says under which protection the engine and the checks ran.
type Sandbox struct {
	Level string `json:"level"` // bwrap, landlock, none
	Net   string `json:"net"`
	Probe string `json:"probe,omitempty"` // hash of the probe's report
}

// Usage is what a run used, as the engine reported it. Money is in millionths
// of a US dollar. CostSource says where the number comes from: "engine",
// "prices" or "" when unknown.
type Usage struct {
	Requests     int64  `json:"requests,omitempty"`
	TokensIn     int64  `json:"tokens_in,omitempty"`
	TokensOut    int64  `json:"tokens_out,omitempty"`
	CostMicroUSD int64  `json:"cost_micro_usd,omitempty"`
	CostSource   string `json:"cost_source,omitempty"`
}

// Add gives the sum of two usages; the cost source is kept when they agree.
func (u Usage) Add(v Usage) Usage {
	source := u.CostSource
	if source == "" {
		source = v.CostSource
	}
	return Usage{
		Requests: u.Requests + v.Requests, TokensIn: u.TokensIn + v.TokensIn, TokensOut: u.TokensOut + v.TokensOut,
		CostMicroUSD: u.CostMicroUSD + v.CostMicroUSD, CostSource: source,
	}
}

// EvidenceStatus is what a reader makes of a result's facts.
type EvidenceStatus string

// The four statuses. A refuted result never stands: it cannot be accepted or
// landed. EvidenceNone is for work that leaves nothing to check.
const (
	EvidenceVerified   EvidenceStatus = "verified"
	EvidenceUnverified EvidenceStatus = "unverified"
	EvidenceRefuted    EvidenceStatus = "refuted"
	EvidenceNone       EvidenceStatus = "n-a"
)

// Evidence is a status with the reasons a person can read.
type Evidence struct {
	Status  EvidenceStatus `json:"status"`
	Reasons []string       `json:"reasons,omitempty"`
}

// Judge classifies a result from its order and its own fields; package
// evidence provides it. It must be pure.
type Judge func(*Order, *Result) Evidence

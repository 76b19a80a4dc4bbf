package main

import "time"

// The shapes of --json. Tools rely on them: fields are added, never renamed.

type errorShape struct {
	Error struct {
		Class   string `json:"class"`
		Message string `json:"message"`
		Next    string `json:"next"`
	} `json:"error"`
}

type enableShape struct {
	Enabled           bool     `json:"enabled"`
	AlreadyConfigured bool     `json:"already_configured"`
	Project           string   `json:"project"`
	Agent             string   `json:"agent"`
	Channel           string   `json:"channel"`
	ChannelID         string   `json:"channel_id"`
	Engine            string   `json:"engine"`
	Sandbox           string   `json:"sandbox"`
	PublicKey         string   `json:"public_key"`
	OperatorKey       string   `json:"operator_public_key"`
	Files             []string `json:"files"`
	Found             []string `json:"found"`
	Warnings          []string `json:"warnings"`
}

const (
	statusOK   = "ok"
	statusWarn = "warn"
	statusFail = "fail"
)

type doctorShape struct {
	OK     bool         `json:"ok"`
	Checks []checkShape `json:"checks"`
	Tries  []tryShape   `json:"sandbox_tries,omitempty"`
}

type checkShape struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail"`
	Fix    string `json:"fix"`
}

type tryShape struct {
	Level string `json:"level"`
	Net   string `json:"net"`
	Name  string `json:"name"`
	Want  string `json:"want"`
	Got   string `json:"got"`
	OK    bool   `json:"ok"`
}

type issuedShape struct {
	ID    string `json:"id"`
	State string `json:"state"`
	Label string `json:"label"`
	Base  string `json:"base"`
}

type taskShape struct {
	ID        string    `json:"id"`
	Label     string    `json:"label"`
	Project   string    `json:"project"`
	State     string    `json:"state"`
	Hold      string    `json:"hold"`
	To        string    `json:"to"`
	Holder    string    `json:"holder"`
	Attempt   int64     `json:"attempt"`
	Revision  int64     `json:"revision"`
	Engine    string    `json:"engine"`
	Kind      string    `json:"kind"`
	Size      string    `json:"size"`
	IssuedBy  string    `json:"issued_by"`
	CreatedAt time.Time `json:"created_at"`
}

type tasksShape struct {
	Tasks []taskShape `json:"tasks"`
}

type wholeShape struct {
	taskShape
	Text             string   `json:"text"`
	Touches          []string `json:"touches"`
	Checks           []string `json:"checks"`
	DependsOn        []string `json:"depends_on"`
	Attachments      []string `json:"attachments"`
	RequiresReview   bool     `json:"requires_review"`
	RequiresApproval bool     `json:"requires_approval"`
	Target           string   `json:"target"`
	Base             string   `json:"base"`
	Branch           string   `json:"branch"`
	Landed           string   `json:"landed"`
}

type showShape struct {
	Task      wholeShape      `json:"task"`
	Attempts  []attemptShape  `json:"attempts"`
	Results   []resultShape   `json:"results"`
	Reviews   []reviewShape   `json:"reviews"`
	Findings  []findingShape  `json:"findings"`
	Questions []questionShape `json:"questions"`
	Ledger    []recordShape   `json:"ledger"`
}

type attemptShape struct {
	N      int64      `json:"n"`
	Holder string     `json:"holder"`
	Stop   string     `json:"stop"`
	Note   string     `json:"note"`
	Runs   []runShape `json:"runs"`
}

type runShape struct {
	Run       string     `json:"run"`
	Engine    string     `json:"engine"`
	Model     string     `json:"model"`
	StartedAt string     `json:"started_at"`
	EndedAt   string     `json:"ended_at"`
	Outcome   string     `json:"outcome"`
	Reason    string     `json:"reason"`
	Commit    string     `json:"commit"`
	Usage     usageShape `json:"usage"`
}

type resultShape struct {
	ID       string        `json:"id"`
	Revision int64         `json:"revision"`
	Attempt  int64         `json:"attempt"`
	Agent    string        `json:"agent"`
	Engine   string        `json:"engine"`
	Model    string        `json:"model"`
	Base     string        `json:"base"`
	Commit   string        `json:"commit"`
	Tree     string        `json:"tree"`
	Branch   string        `json:"branch"`
	Files    []fileShape   `json:"files"`
	Checks   []checkedRun  `json:"checks"`
	Evidence evidenceShape `json:"evidence"`
	Usage    usageShape    `json:"usage"`
	Routing  routingShape  `json:"routing"`
	Sandbox  string        `json:"sandbox"`
	Answer   string        `json:"answer"`
	Summary  string        `json:"summary"`
	Standing bool          `json:"standing"`
}

type fileShape struct {
	Path    string `json:"path"`
	Status  string `json:"status"`
	Added   int64  `json:"added"`
	Deleted int64  `json:"deleted"`
	Binary  bool   `json:"binary"`
}

type checkedRun struct {
	Command string `json:"command"`
	Exit    int64  `json:"exit"`
	Tail    string `json:"tail"`
	Reason  string `json:"reason"`
	Millis  int64  `json:"millis"`
}

type evidenceShape struct {
	Status  string   `json:"status"`
	Reasons []string `json:"reasons"`
}

type usageShape struct {
	Requests   int64   `json:"requests"`
	TokensIn   int64   `json:"tokens_in"`
	TokensOut  int64   `json:"tokens_out"`
	CostUSD    float64 `json:"cost_usd"`
	CostSource string  `json:"cost_source"`
}

// routingShape says which engine did the work, and why that one.
type routingShape struct {
	Engine string `json:"engine"`
	Model  string `json:"model"`
	Reason string `json:"reason"`
}

type reviewShape struct {
	Revision int64     `json:"revision"`
	Reviewer string    `json:"reviewer"`
	Accepted bool      `json:"accepted"`
	Decision string    `json:"decision"`
	Notes    string    `json:"notes"`
	At       time.Time `json:"at"`
}

// findingShape is what an adversary said about one result.
type findingShape struct {
	Revision int64  `json:"revision"`
	Author   string `json:"author"`
	Text     string `json:"text"`
}

type questionShape struct {
	ID      string        `json:"id"`
	Order   string        `json:"order"`
	Label   string        `json:"label"`
	Text    string        `json:"text"`
	Options []optionShape `json:"options"`
	At      time.Time     `json:"at"`
}

type optionShape struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

type recordShape struct {
	ID      string    `json:"id"`
	Type    string    `json:"type"`
	Writer  string    `json:"writer"`
	Seq     uint64    `json:"seq"`
	Time    time.Time `json:"time"`
	Order   string    `json:"order"`
	Says    string    `json:"says"`
	Counted bool      `json:"counted"`
	Why     string    `json:"why"`
}

type ledgerShape struct {
	Records []recordShape `json:"records"`
}

type inboxShape struct {
	Items []inboxItem `json:"items"`
}

type inboxItem struct {
	Order string    `json:"order"`
	Label string    `json:"label"`
	Kind  string    `json:"kind"`
	Why   string    `json:"why"`
	Next  string    `json:"next"`
	At    time.Time `json:"at"`
}

type memberShape struct {
	Name    string   `json:"name"`
	Writer  string   `json:"writer"`
	Key     string   `json:"key"`
	Machine string   `json:"machine"`
	Email   string   `json:"email"`
	Grants  []string `json:"grants"`
	Master  bool     `json:"master"`
	Here    bool     `json:"here"`

	Epoch    uint32     `json:"epoch"`
	Standing string     `json:"standing"` // master, member, revoked, forked or "was the master"
	Why      string     `json:"why"`
	Scopes   []string   `json:"scopes"` // what it may do for the master
	Last     *time.Time `json:"last"`   // of its newest record, by its clock
	Version  string     `json:"version"`
}

type membersShape struct {
	Members []memberShape `json:"members"`
	Guests  []guestShape  `json:"guests"`
}

type verifyShape struct {
	OK       bool           `json:"ok"`
	Writers  int            `json:"writers"`
	Records  int            `json:"records"`
	Problems []problemShape `json:"problems"`
	Digest   string         `json:"digest"`
}

type problemShape struct {
	Writer string `json:"writer"`
	Seq    uint64 `json:"seq"`
	Kind   string `json:"kind"`
	Detail string `json:"detail"`
}

// actedShape answers a verb that wrote one record about an order.
type actedShape struct {
	ID     string `json:"id"`
	Label  string `json:"label"`
	State  string `json:"state"`
	Hold   string `json:"hold"`
	Record string `json:"record"`
}

type landedShape struct {
	actedShape
	Target string `json:"target"`
	Old    string `json:"old"`
	Commit string `json:"commit"`
	Remote string `json:"remote,omitempty"` // that has it too
}

type pauseShape struct {
	Paused bool       `json:"paused"`
	Reason string     `json:"reason"`
	Since  *time.Time `json:"since"`
}

type versionShape struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

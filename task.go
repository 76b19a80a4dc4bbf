package ferry

import "time"

// State is where an order stands. docs/task-states.md has the table; the
// first row that matches is the state.
type State string

// The states of a task.
const (
	StateOpen             State = "open"
	StateOffered          State = "offered"
	StateClaimed          State = "claimed"
	StateRunning          State = "running"
	StateAwaitingReview   State = "awaiting_review"
	StateChangesRequested State = "changes_requested"
	StateAccepted         State = "accepted"
	StateApproved         State = "approved"
	StateLanded           State = "landed"
	StateDone             State = "done"
	StateRefuted          State = "refuted"
	StateFailed           State = "failed"
	StateCancelled        State = "cancelled"
	StateKilled           State = "killed"
	StateBlocked          State = "blocked"
)

// States lists every state in the order in which Fold tries them.
func States() []State {
	return []State{
		StateLanded, StateCancelled, StateKilled, StateFailed, StateRunning, StateClaimed, StateOffered,
		StateChangesRequested, StateRefuted, StateApproved, StateAccepted, StateAwaitingReview, StateDone,
		StateBlocked, StateOpen,
	}
}

// MeetsDependency reports whether an order that depends on one in this state
// may begin.
func (s State) MeetsDependency() bool {
	return s == StateDone || s == StateAccepted || s == StateApproved || s == StateLanded
}

// Final reports whether nothing can lead out of the state.
func (s State) Final() bool {
	return s == StateLanded || s == StateCancelled || s == StateKilled
}

// Task is one order with everything that follows from its records. It is
// made by Fold, and never stored as a truth of its own.
type Task struct {
	ID       RecordID  `json:"id"`
	Order    *Order    `json:"order"`
	Issuer   WriterID  `json:"issuer"`
	IssuedAt time.Time `json:"issued_at"`

	To AgentName `json:"to,omitempty"` // the only agent that may take it: of the order, or of the reassignment in force

	State State  `json:"state"`
	Hold  string `json:"hold,omitempty"` // why it waits, in words; empty when it does not

	Holder   WriterID  `json:"holder,omitempty"` // of the live start, else of the live claim
	Attempt  int64     `json:"attempt"`          // the highest attempt that began, 0 when none did
	Failures int       `json:"failures"`         // attempts that count against the order
	Revision int64     `json:"revision"`         // results handed in
	Attempts []Attempt `json:"attempts,omitempty"`
	Results  []Outturn `json:"results,omitempty"` // by attempt, oldest first
	Standing RecordID  `json:"standing"`          // the result that counts, zero when none does
	Approve  RecordID  `json:"approve"`           // the master's key on it
	Landed   *Landed   `json:"landed,omitempty"`
	LandedID RecordID  `json:"landed_id"`
	Unbacked *Landed   `json:"unbacked,omitempty"` // a landing whose result is not among Results, while none counts

	Live      RecordID   `json:"live"`             // the holder's live start
	LiveClaim RecordID   `json:"live_claim"`       // the first live claim while no start is live
	Claims    []Claimed  `json:"claims,omitempty"` // live claims of the attempt after Attempt, by rank, also while a start is live
	Opaque    []string   `json:"opaque,omitempty"` // what only a newer ferry can read; it is not begun and not landed here
	Paused    bool       `json:"paused,omitempty"`
	Pauses    []RecordID `json:"pauses,omitempty"`  // pauses that are not lifted
	Steers    []Steer    `json:"steers,omitempty"`  // notes that no run has been told of
	Steered   int64      `json:"steered,omitempty"` // how many notes there were in all
	Questions []Open     `json:"questions,omitempty"`
	Answered  []string   `json:"answered,omitempty"` // keys of the questions that were answered

	Next Next `json:"next"`
}

// Attempt is one try at an order by one writer.
type Attempt struct {
	N       int64      `json:"n"`
	Holder  WriterID   `json:"holder"`
	Start   RecordID   `json:"start"`
	Begun   *Start     `json:"begun"`
	At      time.Time  `json:"at"`
	Runs    []Run      `json:"runs,omitempty"`
	Stop    *Stop      `json:"stop,omitempty"`
	StopID  RecordID   `json:"stop_id"`
	EndedAt *time.Time `json:"ended_at,omitempty"` // of the stop or the result, its writer's clock
	Result  RecordID   `json:"result"`
	Fenced  bool       `json:"fenced,omitempty"` // a higher attempt began while it was live
}

// Claimed is a live claim: its writer intends to run the next attempt.
type Claimed struct {
	ID         RecordID   `json:"id"`
	Writer     WriterID   `json:"writer"`
	Supersedes []RecordID `json:"supersedes,omitempty"` // live starts whose writers it takes for gone
}

// Outturn is a result with what was made of it.
type Outturn struct {
	ID       RecordID  `json:"id"`
	Writer   WriterID  `json:"writer"`
	At       time.Time `json:"at"`
	Result   *Result   `json:"result"`
	Evidence Evidence  `json:"evidence"`
	Verdicts []Review  `json:"verdicts,omitempty"`
	Decision Decision  `json:"decision,omitempty"` // the verdict that counts, "" when none does
	Verdict  RecordID  `json:"verdict"`            // its record
}

// Stands reports whether the result may be reviewed, accepted and landed.
func (o *Outturn) Stands() bool {
	return o.Evidence.Status != EvidenceRefuted && o.Decision != DecisionChanges && o.Decision != DecisionReject
}

// Review is one counted verdict.
type Review struct {
	ID       RecordID  `json:"id"`
	Writer   WriterID  `json:"writer"`
	At       time.Time `json:"at"`
	Decision Decision  `json:"decision"`
	Notes    string    `json:"notes,omitempty"`
}

// Steer is a note for the engine that runs the order.
type Steer struct {
	ID   RecordID `json:"id"`
	Note string   `json:"note"`
}

// Open is a question that nobody has answered.
type Open struct {
	ID       RecordID  `json:"id"`
	At       time.Time `json:"at"`
	Question *Question `json:"question"`
}

// Next describes the attempt that would come now.
type Next struct {
	Claimable bool       `json:"claimable"`          // a worker may take it
	Takeover  bool       `json:"takeover,omitempty"` // a worker may take it from one that has gone silent
	Attempt   int64      `json:"attempt"`
	From      Commit     `json:"from"`             // where it begins: what the last run left, else the base
	Notes     []string   `json:"notes,omitempty"`  // what it must be told: send-backs, failed checks, steers
	Prefer    WriterID   `json:"prefer,omitempty"` // the worker that gets it first
	Behind    []WriterID `json:"behind,omitempty"` // workers that others go before: their attempts came to nothing twice
	Barred    []WriterID `json:"barred,omitempty"` // workers that may not take it: an attempt of theirs ran over its time
	Failed    []RecordID `json:"failed,omitempty"` // the records that a retry would forgive
}

// Active reports whether a worker has to look at the task.
func (t *Task) Active() bool {
	switch t.State {
	case StateOpen, StateOffered, StateClaimed, StateRunning, StateChangesRequested, StateRefuted, StateBlocked:
		return true
	}
	return !t.Live.IsZero() // a killed, cancelled or failed order whose engine still runs
}

// Holds reports whether a start holds the order: it is live, no other start fences it, and neither a result nor the end of
// the order does. Only then does its attempt hand in a result.
func (t *Task) Holds(start RecordID) bool {
	return t.State == StateRunning && t.Live == start
}

// StandingResult gives the result that counts, or nil.
func (t *Task) StandingResult() *Outturn {
	for i := range t.Results {
		if t.Results[i].ID == t.Standing && !t.Standing.IsZero() {
			return &t.Results[i]
		}
	}
	return nil
}

// LatestResult gives the result of the highest attempt, or nil.
func (t *Task) LatestResult() *Outturn {
	if len(t.Results) == 0 {
		return nil
	}
	return &t.Results[len(t.Results)-1]
}

// Branch gives the name of the branch that carries the order's work in the
// person's repository.
func (t *Task) Branch() string { return "ferry/" + string(t.Order.Label) + "-" + t.ID.Short() }

// Usage sums what all runs of the order used.
func (t *Task) Usage() Usage {
	var u Usage
	for _, a := range t.Attempts {
		for _, r := range a.Runs {
			u = u.Add(r.Usage)
		}
	}
	return u
}

// NeedsPerson reports whether the task waits for a person, and the words for it.
func (t *Task) NeedsPerson() (string, bool) {
	switch t.State {
	case StateAwaitingReview:
		return "a result waits for review", true
	case StateFailed:
		return "failed: " + t.Hold, true
	case StateAccepted:
		if t.Order.NeedsApproval {
			return "accepted, waits for the master's approval", true
		}
	}
	if len(t.Questions) > 0 && !t.State.Final() {
		return "a question is open", true
	}
	return "", false
}

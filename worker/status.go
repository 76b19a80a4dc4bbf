package worker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// Status is what a worker says about itself in its status file, which the
// commands of this machine read. It is replaced whole when something changes.
type Status struct {
	Agent   ferry.AgentName `json:"agent"`
	Writer  ferry.WriterID  `json:"writer"`
	PID     int             `json:"pid"`
	PIDMark uint64          `json:"pid_mark"` // start time of the process: a reused pid is another worker
	Machine string          `json:"machine"`
	Started time.Time       `json:"started_at"`
	Updated time.Time       `json:"updated_at"`
	Stopped string          `json:"paused,omitempty"` // why nothing new begins
	Slots   int             `json:"slots"`
	Running []RunningStatus `json:"running"`
	Holds   []HoldStatus    `json:"holds"`
	Engines []EngineStatus  `json:"engines"` // in order of preference
}

// RunningStatus is one attempt that runs.
type RunningStatus struct {
	Order   ferry.RecordID `json:"order"`
	Label   ferry.Label    `json:"label"`
	Run     ferry.RunID    `json:"run"`
	Attempt int64          `json:"attempt"`
	Engine  string         `json:"engine"`
	Phase   string         `json:"phase"`
	Since   time.Time      `json:"since"`
	Log     string         `json:"log"`
	Frozen  bool           `json:"frozen,omitempty"`
}

// HoldStatus is one order that this worker does not begin, and why.
type HoldStatus struct {
	Order  ferry.RecordID `json:"order"`
	Label  ferry.Label    `json:"label"`
	Reason string         `json:"reason"`
}

// EngineStatus is what the worker knows of one of its engines.
type EngineStatus struct {
	Name     string    `json:"name"`
	Model    string    `json:"model,omitempty"`
	Tier     string    `json:"tier"`
	State    string    `json:"state"` // up, unknown, down, exhausted, blocked
	Proof    string    `json:"proof,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Until    time.Time `json:"until,omitzero"`
	Failures int       `json:"failures,omitempty"`
}

// maxStatus bounds a status file when it is read, in bytes.
const maxStatus = 4 << 20

// ReadStatus reads a status file. The worker that wrote it may be gone: compare
// PID and PIDMark with the processes of this machine.
func ReadStatus(path string) (Status, error) {
	b, err := atomicfile.ReadBounded(path, maxStatus)
	if err != nil {
		return Status{}, err
	}
	var s Status
	if err := json.Unmarshal(b, &s); err != nil {
		return Status{}, fmt.Errorf("worker status %s: %w", path, err)
	}
	return s, nil
}

func (s Status) write(path string) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("worker status: %w", err)
	}
	return atomicfile.Write(path, append(b, '\n'), 0o600)
}

// same reports whether two statuses say the same, whenever they were said.
func same(a, b Status) bool {
	a.Updated, b.Updated = time.Time{}, time.Time{}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

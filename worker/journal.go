package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// Phase is how far a run has come. It is written before the step that it
// names begins, so a restart knows what may have happened.
type Phase string

// The phases of a run.
const (
	PhaseMade    Phase = "made"    // the directory exists; the tree may
	PhaseRunning Phase = "running" // the engine may have been started
	PhaseEnded   Phase = "ended"   // the engine has ended by itself and its answer is kept
	PhaseKept    Phase = "kept"    // what it left is a commit under a ref
	PhaseReady   Phase = "ready"   // the records that close the attempt are written here
	PhaseClosed  Phase = "closed"  // they are in the channel; the tree may go
)

// Journal is the run.json of a run directory.
type Journal struct {
	Run      ferry.RunID      `json:"run"`
	Order    ferry.RecordID   `json:"order"`
	Label    ferry.Label      `json:"label"`
	Start    ferry.RecordID   `json:"start"`
	Attempt  int64            `json:"attempt"`
	N        int64            `json:"n"`
	Engine   string           `json:"engine"`
	Model    string           `json:"model,omitempty"`
	Base     ferry.Commit     `json:"base"`
	From     ferry.Commit     `json:"from"`
	Sandbox  ferry.Sandbox    `json:"sandbox"`
	Phase    Phase            `json:"phase"`
	PID      int              `json:"pid,omitempty"`
	PIDMark  uint64           `json:"pid_mark,omitempty"`
	Started  time.Time        `json:"started_at"`
	Ended    time.Time        `json:"ended_at,omitzero"`
	Outcome  ferry.Outcome    `json:"outcome,omitempty"`
	Reason   string           `json:"reason,omitempty"`
	Answer   string           `json:"answer,omitempty"`
	Denied   []string         `json:"denied,omitempty"`
	Usage    ferry.Usage      `json:"usage"`
	Steers   []ferry.RecordID `json:"steers,omitempty"`
	Commit   ferry.Commit     `json:"commit,omitempty"`
	Tree     ferry.Commit     `json:"tree,omitempty"`
	Skipped  []string         `json:"skipped,omitempty"`
	Result   *ferry.Result    `json:"result,omitempty"`
	Stop     *ferry.Stop      `json:"stop,omitempty"`
	Reported bool             `json:"reported,omitempty"` // its run record is in the channel
}

// maxJournal bounds a journal when it is read, in bytes.
const maxJournal = 4 << 20

// JournalFile is the name of the journal in a run directory, LogFile that of
// the engine's output.
const (
	JournalFile = "run.json"
	LogFile     = "output.log"
)

func (j *Journal) save(dir string) error {
	b, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return fmt.Errorf("run %s: journal: %w", j.Run, err)
	}
	if err := atomicfile.Write(filepath.Join(dir, JournalFile), append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("run %s: journal: %w", j.Run, err)
	}
	return nil
}

// ReadJournal reads the journal of a run directory.
func ReadJournal(dir string) (*Journal, error) {
	b, err := atomicfile.ReadBounded(filepath.Join(dir, JournalFile), maxJournal)
	if err != nil {
		return nil, err
	}
	var j Journal
	if err := json.Unmarshal(b, &j); err != nil {
		return nil, fmt.Errorf("journal of %s: %w", dir, err)
	}
	return &j, nil
}

// ReadJournals reads the journals of all runs below a directory, oldest
// first. A run whose journal cannot be read is left out and named in the
// error, which does not void the others.
func ReadJournals(runs string) ([]*Journal, error) {
	entries, err := os.ReadDir(runs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("runs: %w", err)
	}
	var out []*Journal
	var bad error
	for _, e := range entries {
		if _, err := ferry.ParseRunID(e.Name()); err != nil || !e.IsDir() {
			continue
		}
		j, err := ReadJournal(filepath.Join(runs, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a run that is being made; nothing has begun in it
		}
		if err != nil {
			bad = errors.Join(bad, err)
			continue
		}
		out = append(out, j)
	}
	sortJournals(out)
	return out, bad
}

// record gives the run record of a run that has ended.
func (j *Journal) record() *ferry.Run {
	return &ferry.Run{
		Order: j.Order, Start: j.Start, Attempt: j.Attempt, N: j.N, Run: j.Run, Engine: j.Engine, Model: j.Model,
		Started: j.Started.UTC().Format(time.RFC3339Nano), Ended: j.Ended.UTC().Format(time.RFC3339Nano),
		Outcome: j.Outcome, Reason: j.Reason, Commit: j.Commit, Usage: j.Usage, Steers: j.Steers,
	}
}

// sortJournals puts them by their start, the oldest first.
func sortJournals(js []*Journal) {
	slices.SortStableFunc(js, func(a, b *Journal) int { return a.Started.Compare(b.Started) })
}

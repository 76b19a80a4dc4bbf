package worker

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/machine"
)

// health is what this worker knows of its machine.
type health struct {
	troubles   int            // failures of this machine in a row
	troubledBy ferry.RecordID // the order of the last
	until      time.Time
	reason     string
}

// worked notes an attempt that was carried through.
func (h *health) worked() { h.troubles, h.until, h.reason = 0, time.Time{}, "" }

// troubled notes a failure of this machine. When it is not one order alone that
// meets them, the machine rests: 10 s, doubled for each in a row, at most
// 10 min. A single order is left alone by the plan.
func (h *health) troubled(now time.Time, order ferry.RecordID, err error) {
	if h.troubles == 0 || h.troubledBy == order {
		h.troubles, h.troubledBy = 1, order
		return
	}
	h.troubles++
	h.troubledBy = order
	h.until = now.Add(min(10*time.Second<<min(h.troubles-2, 10), 10*time.Minute))
	h.reason = err.Error()
}

// trouble gives why this machine rests, or "".
func (w *Worker) trouble(now time.Time) string {
	if !now.Before(w.health.until) {
		return ""
	}
	return fmt.Sprintf("this machine rests until %s: %s", w.health.until.Format("15:04:05"), w.cfg.Redactor.String(w.health.reason))
}

// lowDisk gives the reason when the disk is below its floor, or "".
func (w *Worker) lowDisk() string {
	if w.cfg.MinDisk <= 0 {
		return ""
	}
	_, free, err := machine.DiskFree(w.cfg.Runs)
	if err != nil || free >= w.cfg.MinDisk {
		return "" // a disk that cannot be asked is no reason to stop; a write that fails is
	}
	return fmt.Sprintf("the disk of %s has %.1f %% left, below the floor of %.0f %%; free some space", w.cfg.Runs, free*100, w.cfg.MinDisk*100)
}

// Pause is the content of the pause file.
type Pause struct {
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

func pauseReason(b []byte) string {
	var p Pause
	if err := json.Unmarshal(b, &p); err != nil || strings.TrimSpace(p.Reason) == "" {
		return "this machine is paused; `ferry resume` lets it go on"
	}
	return "this machine is paused (" + p.Reason + "); `ferry resume` lets it go on"
}

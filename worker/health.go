package worker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/internal/machine"
)

// health is what this worker knows of its engine and of its machine.
type health struct {
	path   string
	engine engines.Health
	of     string // fingerprint of the engine's configuration it is about
	name   ferry.EngineName

	troubles   int            // failures of this machine in a row
	troubledBy ferry.RecordID // the order of the last
	until      time.Time
	reason     string
	last       time.Time // when the engine last worked
}

// healthFile is the stored form.
type healthFile struct {
	Of     string         `json:"of"`
	Engine engines.Health `json:"engine"`
}

// readHealth reads what an earlier process learnt. It is about one
// configuration: another model, command, argument or key begins with a clean
// sheet.
func readHealth(path string, e engines.Config) (health, error) {
	h := health{path: path, of: fingerprint(e), name: e.Name}
	if path == "" {
		return h, nil
	}
	b, err := atomicfile.ReadBounded(path, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return h, err
	}
	var f healthFile
	if err := json.Unmarshal(b, &f); err != nil {
		return h, fmt.Errorf("%s: %w; remove the file to forget the engine's failures", path, err)
	}
	if f.Of == h.of {
		h.engine = f.Engine
	}
	return h, nil
}

func fingerprint(e engines.Config) string {
	s := sha256.New()
	fmt.Fprintf(s, "%q %q %q %q %q", e.Name, e.Command, e.Args, e.Model, e.BaseURL)
	for _, m := range []map[string]string{e.Env, e.Credentials} {
		var lines []string
		for k, v := range m {
			lines = append(lines, k+"="+v)
		}
		slices.Sort(lines)
		fmt.Fprintf(s, "%q", lines)
	}
	return hex.EncodeToString(s.Sum(nil)[:16])
}

func (h *health) save() error {
	if h.path == "" {
		return nil
	}
	b, err := json.Marshal(healthFile{Of: h.of, Engine: h.engine})
	if err != nil {
		return err
	}
	return atomicfile.Write(h.path, b, 0o600)
}

func (h *health) fail(now time.Time, f engines.Fault) error {
	h.engine = h.engine.Fail(now, f)
	return h.save()
}

func (h *health) worked(now time.Time) error {
	h.troubles, h.until, h.reason, h.last = 0, time.Time{}, "", now
	if h.engine == (engines.Health{}) {
		return nil
	}
	h.engine = h.engine.Worked()
	return h.save()
}

// Rest gives why a worker with this health file and engine would give the
// engine no work at now, or "".
func Rest(path string, e engines.Config, now time.Time) (string, error) {
	h, err := readHealth(path, e)
	return h.hold(now), err
}

// hold gives the reason why the engine gets no work now, or "".
func (h *health) hold(now time.Time) string {
	if !h.engine.Resting(now) || h.lifted() {
		return ""
	}
	return fmt.Sprintf("engine %s rests until %s: %s: %s; `ferry doctor --fix` lets it try at once",
		h.name, h.engine.Until.Local().Format("Jan 2 15:04"), h.engine.Class, h.engine.Reason)
}

// lifted notices that a person removed the health file while this process ran,
// and forgets what was in it.
func (h *health) lifted() bool {
	if h.path == "" {
		return false
	}
	if _, err := os.Lstat(h.path); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	h.engine = engines.Health{}
	return true
}

// upFor is how long a run that worked proves that the engine is up: as long as
// the spec trusts a probe of a CLI.
const upFor = 15 * time.Minute

func (h *health) status(e engines.Config, now time.Time) EngineStatus {
	s := EngineStatus{Name: string(e.Name), State: "unknown", Failures: h.engine.Failures}
	if !h.last.IsZero() && now.Sub(h.last) < upFor {
		s.State = "up"
	}
	if h.engine.Resting(now) {
		s.State, s.Reason, s.Until = "down", h.engine.Reason, h.engine.Until
		if h.engine.Class == engines.FaultCredit {
			s.State = "exhausted"
		}
	}
	return s
}

func (h *health) note(name ferry.EngineName, f *engines.Fault) string {
	return fmt.Sprintf("engine %s: %s: %s; it rests until %s", name, f.Class, f.Reason, h.engine.Until.UTC().Format(time.RFC3339))
}

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

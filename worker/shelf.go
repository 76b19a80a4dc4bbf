package worker

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// shelf is what this worker knows of its engines, in order of preference. The goroutine that owns the worker owns it.
type shelf struct {
	path  string // of the faults, which `ferry doctor --fix` removes
	known []*known
}

// known is one engine on the shelf.
type known struct {
	Stand

	touched []string // orders that it has failed since it last worked, for people
	of      string   // fingerprint of the configuration that the faults are about
	probing bool
}

// healthFile is the stored form of the faults. A file of a worker that had one engine holds that one's in the first two
// fields.
type healthFile struct {
	Of      string                              `json:"of,omitempty"`
	Engine  *engines.Health                     `json:"engine,omitempty"`
	Engines map[ferry.EngineName]healthOfEngine `json:"engines,omitempty"`
}

type healthOfEngine struct {
	Of     string         `json:"of"`
	Health engines.Health `json:"health"`
}

// maxHealth bounds the file when it is read, in bytes.
const maxHealth = 1 << 20

// readShelf reads what an earlier process learnt. What was learnt is about one configuration: another model, command,
// argument or key begins with a clean sheet.
func readShelf(path string, list []engines.Config) (*shelf, error) {
	s := &shelf{path: path}
	for _, c := range list {
		s.known = append(s.known, &known{Stand: Stand{Engine: c, Profile: engines.ProfileOf(c)}, of: fingerprint(c)})
	}
	if path == "" {
		return s, nil
	}
	b, err := atomicfile.ReadBounded(path, maxHealth)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	var f healthFile
	if err := json.Unmarshal(b, &f); err != nil {
		return s, fmt.Errorf("%s: %w; remove the file to forget the faults of the engines", path, err)
	}
	for _, k := range s.known {
		if h := f.Engines[k.Engine.Name]; h.Of == k.of {
			k.Health = h.Health
		} else if f.Engine != nil && f.Of == k.of {
			k.Health = *f.Engine
		}
	}
	return s, nil
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
	if e.Key != "" {
		fmt.Fprintf(s, "%q", e.Key)
	}
	if e.Provider != "" || e.Wire != "" || e.KeyRef != "" {
		fmt.Fprintf(s, "%q %q %q", e.Provider, e.Wire, e.KeyRef)
	}
	return hex.EncodeToString(s.Sum(nil)[:16])
}

func (s *shelf) save() error {
	if s.path == "" {
		return nil
	}
	f := healthFile{Engines: map[ferry.EngineName]healthOfEngine{}}
	for _, k := range s.known {
		if k.Health != (engines.Health{}) {
			f.Engines[k.Engine.Name] = healthOfEngine{Of: k.of, Health: k.Health}
		}
	}
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return atomicfile.Write(s.path, b, 0o600)
}

// find gives an engine by its name, or nil.
func (s *shelf) find(name ferry.EngineName) *known {
	for _, k := range s.known {
		if k.Engine.Name == name {
			return k
		}
	}
	return nil
}

// stands gives what is known of every engine.
func (s *shelf) stands() []Stand {
	out := make([]Stand, len(s.known))
	for i, k := range s.known {
		out[i] = k.Stand
	}
	return out
}

// fail notes a fault of an engine.
func (s *shelf) fail(now time.Time, name ferry.EngineName, f engines.Fault) error {
	k := s.find(name)
	if k == nil {
		return nil
	}
	k.Health = k.Health.Fail(now, f)
	return s.save()
}

// worked notes a run that worked: its engine begins again with a clean sheet.
func (s *shelf) worked(now time.Time, name ferry.EngineName) error {
	k := s.find(name)
	if k == nil {
		return nil
	}
	k.Worked, k.touched = now, nil
	if k.Health == (engines.Health{}) {
		return nil
	}
	k.Health = k.Health.Worked()
	return s.save()
}

// refresh notices that a person removed the file while this process ran, and forgets what was in it.
func (s *shelf) refresh() {
	rests := slices.ContainsFunc(s.known, func(k *known) bool { return k.Health != (engines.Health{}) })
	if s.path == "" || !rests {
		return
	}
	if _, err := os.Lstat(s.path); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	for _, k := range s.known {
		k.Health, k.Proof = engines.Health{}, engines.Proof{}
	}
}

// proven takes what a probe found. A fault counts as one of a run.
func (s *shelf) proven(k *known, p engines.Proof) error {
	k.Proof = p
	if p.Fault != nil {
		return s.fail(p.At, k.Engine.Name, *p.Fault)
	}
	if p.State == engines.StateUp && k.Health != (engines.Health{}) {
		return s.worked(p.At, k.Engine.Name)
	}
	return nil
}

// Resting gives the engines that a worker with this file and list would give no work at now, because they have failed.
func Resting(path string, list []engines.Config, now time.Time) ([]Left, error) {
	s, err := readShelf(path, list)
	var out []Left
	for _, k := range s.known {
		if l, ok := k.resting(now); ok {
			l.Engine = k.Engine.Name
			out = append(out, l)
		}
	}
	return out, err
}

// upFor is how long a run or a probe that worked proves that an engine is up.
const upFor = 15 * time.Minute

// status gives what a person is told of an engine.
func (k *known) status(now time.Time) EngineStatus {
	s := EngineStatus{
		Name: string(k.Engine.Name), Model: k.Engine.Model, State: string(engines.StateUnknown), Proof: k.Proof.Proof,
		Tier: string(cmp.Or(k.Engine.Tier, engines.TierBuild)), Failures: k.Health.Failures,
	}
	l, out := k.leftOut(Need{}, now)
	switch {
	case out:
		s.State, s.Reason, s.Until = string(k.outState(now)), l.Why, l.Until
		if k.Health.Resting(now) && k.Blocked == "" {
			s.Reason = k.Health.Reason
		}
	case !k.Worked.IsZero() && now.Sub(k.Worked) < upFor:
		s.State = string(engines.StateUp)
	case k.Proof.State == engines.StateUp:
		s.State = string(engines.StateUp)
	}
	return s
}

// outState is the state of an engine that gets no work.
func (k *known) outState(now time.Time) engines.State {
	switch {
	case k.Blocked != "":
		return StateBlocked
	case k.Engine.Check() != nil:
		return engines.StateDown
	case k.Spent != "", k.Health.Resting(now) && k.Health.Class == engines.FaultCredit:
		return engines.StateExhausted
	case !k.Health.Resting(now) && k.Health.Failures > 0:
		return engines.StateUnknown
	}
	return engines.StateDown
}

// StateBlocked is the state of an engine that a person's word keeps out.
const StateBlocked engines.State = "blocked"

// Package ferrytest builds one machine of a fleet in a temporary directory:
// a repository of a person, its gate, a channel with a master, and agents with
// keys of their own. It is for tests only.
//
// Everything in it is the real thing: git, the channel, the sandbox. Only the
// engine is a shell script that plays the part of one. A Person has nothing of
// ferry but its binary, and types commands.
package ferrytest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/evidence"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/process"
	"github.com/ferry-fleet/ferry/internal/worktree"
	"github.com/ferry-fleet/ferry/sign"
)

// chosen proves once for all tests of a process which sandbox works here.
var chosen = sync.OnceValues(func() (box.Level, error) {
	dir, err := os.MkdirTemp("", "ferry-box-")
	if err != nil {
		return "", err
	}
	level, _, err := box.Choose(context.Background(), "auto", dir)
	return level, errors.Join(err, os.RemoveAll(dir))
})

// Machine is one machine: its directories, its channel and the person's key.
type Machine struct {
	T        testing.TB
	Dir      string
	Repo     string // the person's checkout
	State    string
	Folder   string // that of the channel
	Level    box.Level
	Gate     *worktree.Gate
	Channel  *channel.Channel
	Operator *channel.Writer
	Log      *slog.Logger
	keys     map[ferry.AgentName]sign.Key
}

// New makes a machine whose repository holds the files in one commit on main.
func New(t testing.TB, files map[string]string) *Machine {
	t.Helper()
	dir := t.TempDir()
	m := &Machine{
		T: t, Dir: dir, Repo: filepath.Join(dir, "repo"), State: filepath.Join(dir, "state"), Folder: filepath.Join(dir, "folder"),
		keys: map[ferry.AgentName]sign.Key{},
		Log:  slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	m.Must(os.MkdirAll(m.Repo, 0o755))
	m.Git("init", "-q", "-b", "main")
	m.Commit(files)
	var err error
	m.Level, err = chosen()
	m.Must(err)
	m.Gate, err = worktree.OpenGate(t.Context(), worktree.GateSpec{Dir: filepath.Join(m.State, "gate.git"), Repo: m.Repo, Log: m.Log})
	m.Must(err)
	master := m.newKey("operator")
	m.Channel, err = channel.Found(t.Context(), m.ChannelConfig(), channel.FoundSpec{
		Project: "demo", Master: ferry.Member{Name: "ada", Machine: "here"}, Key: master, Now: time.Now(),
	})
	m.Must(err)
	t.Cleanup(func() { m.Must(m.Channel.Close()) })
	m.Operator, err = m.Channel.Writer(master)
	m.Must(err)
	return m
}

// ChannelConfig says where the channel of the machine is.
func (m *Machine) ChannelConfig() channel.Config {
	return channel.Config{Folder: m.Folder, State: filepath.Join(m.State, "store"), Judge: evidence.Classify, Log: m.Log}
}

// Beside makes another machine of the same fleet: with a state, a store and keys of its own, and the person's repository. It
// reads the folder that is named; "" is that of m.
func (m *Machine) Beside(name, folder string) *Machine {
	m.T.Helper()
	o := *m
	o.State, o.keys = filepath.Join(m.Dir, "state-"+name), map[ferry.AgentName]sign.Key{}
	if folder != "" {
		o.Folder = folder
	}
	var err error
	o.Gate, err = worktree.OpenGate(m.T.Context(), worktree.GateSpec{Dir: filepath.Join(o.State, "gate.git"), Repo: m.Repo, Log: m.Log})
	m.Must(err)
	o.Channel, err = channel.Open(m.T.Context(), o.ChannelConfig(), m.Channel.ID())
	m.Must(err)
	m.T.Cleanup(func() { m.Must(o.Channel.Close()) })
	_, err = o.Channel.Refresh(m.T.Context())
	m.Must(err)
	return &o
}

// Carry brings what is in the folders of machines to all of them, as a carrier would.
func Carry(machines ...*Machine) {
	for _, from := range machines {
		for _, to := range machines {
			if from.Folder != to.Folder {
				from.carry(to.Folder)
			}
		}
	}
}

// carry copies the files that the other folder lacks, and the beats that are newer.
func (m *Machine) carry(to string) {
	m.T.Helper()
	m.Must(filepath.WalkDir(m.Folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			return ignoreGone(err)
		}
		rel, err := filepath.Rel(m.Folder, path)
		if err != nil {
			return err
		}
		here, err := d.Info()
		if err != nil {
			return ignoreGone(err)
		}
		if there, err := os.Stat(filepath.Join(to, rel)); err == nil && !here.ModTime().After(there.ModTime()) {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return ignoreGone(err)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, rel)), 0o755); err != nil {
			return err
		}
		dst := filepath.Join(to, rel)
		if err := atomicfile.Write(dst, data, 0o644); err != nil {
			return err
		}
		return os.Chtimes(dst, here.ModTime(), here.ModTime())
	}))
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil // replaced or put away while we looked
	}
	return err
}

// Must ends the test when err is not nil.
func (m *Machine) Must(err error) {
	m.T.Helper()
	if err != nil {
		m.T.Fatal(err)
	}
}

func (m *Machine) newKey(name ferry.AgentName) sign.Key {
	m.T.Helper()
	k, err := sign.GenerateKey(rand.Reader)
	m.Must(err)
	m.Must(os.MkdirAll(m.State, 0o700))
	m.Must(k.Save(m.KeyPath(name)))
	m.keys[name] = k
	return k
}

// KeyPath is the file of a key, for another process of the test.
func (m *Machine) KeyPath(name ferry.AgentName) string {
	return filepath.Join(m.State, string(name)+".key")
}

// Agent admits an agent and gives its writer; a second call gives it again.
func (m *Machine) Agent(name ferry.AgentName) *channel.Writer {
	m.T.Helper()
	m.NewAgent(name)
	_, err := m.Channel.Refresh(m.T.Context())
	m.Must(err)
	w, err := m.Channel.Writer(m.keys[name])
	m.Must(err)
	return w
}

// NewAgent makes the key of an agent on this machine and admits it, where that has not been done.
func (m *Machine) NewAgent(name ferry.AgentName) {
	m.T.Helper()
	if _, ok := m.keys[name]; ok {
		return
	}
	public := m.newKey(name).Public()
	_, err := m.Operator.Admit(m.T.Context(), time.Now(), ferry.Member{
		Writer: ferry.WriterID(public.WriterID()), Key: public.String(), Name: name, Machine: "here", Grants: []ferry.Grant{ferry.GrantWork},
	})
	m.Must(err)
}

// Agents names the agents whose keys are on this machine.
func (m *Machine) Agents() []ferry.AgentName { return slices.Collect(maps.Keys(m.keys)) }

// quick spares a test what only the years and a power cut of a repository need.
var quick = []string{"-c", "maintenance.auto=false", "-c", "core.fsync=none"}

// Git runs git in the person's repository.
func (m *Machine) Git(args ...string) string {
	m.T.Helper()
	var out bytes.Buffer
	exit, err := process.Run(m.T.Context(), process.Spec{
		Argv: slices.Concat([]string{"git", "-c", "user.name=p", "-c", "user.email=p@example.com"}, quick, args), Dir: m.Repo, Stdout: &out, Stderr: &out,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + m.Repo, "GIT_CONFIG_NOSYSTEM=1"},
	})
	if err != nil || exit.Code != 0 {
		m.T.Fatalf("git %q: %v %s\n%s", args, err, exit, out.String())
	}
	return strings.TrimSpace(out.String())
}

// Write writes files below a directory, scripts (.sh) executable; "" removes one.
func (m *Machine) Write(dir string, files map[string]string) {
	m.T.Helper()
	for name, text := range files {
		p := filepath.Join(dir, name)
		if text == "" {
			m.Must(os.Remove(p))
			continue
		}
		m.Must(os.MkdirAll(filepath.Dir(p), 0o755))
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		}
		m.Must(os.WriteFile(p, []byte(text), mode))
	}
}

// Commit is a commit of the person on the branch that is checked out; "" removes a file.
func (m *Machine) Commit(files map[string]string) ferry.Commit {
	m.T.Helper()
	m.Write(m.Repo, files)
	m.Git("add", "-A")
	m.Git("commit", "-q", "-m", "by the person")
	return ferry.Commit(m.Git("rev-parse", "HEAD"))
}

// Order issues an order on the tip of main.
func (m *Machine) Order(label string, edit func(*ferry.Order)) ferry.RecordID {
	m.T.Helper()
	base, err := m.Gate.Base(m.T.Context(), "main")
	m.Must(err)
	m.Must(m.Gate.Import(m.T.Context(), base.Commit))
	o := ferry.Order{Label: ferry.Label(label), Project: "demo", Text: "do " + label, Target: "main", Base: base.Commit}
	if edit != nil {
		edit(&o)
	}
	id, err := m.Operator.Issue(m.T.Context(), time.Now(), o)
	m.Must(err)
	return id
}

// Task gives an order as it stands.
func (m *Machine) Task(ref string) ferry.Task {
	m.T.Helper()
	_, err := m.Channel.Refresh(m.T.Context())
	m.Must(err)
	t, err := m.Channel.Task(m.T.Context(), ref)
	m.Must(err)
	return t
}

// Eventually waits until ok reports true; what describes it for the failure.
func (m *Machine) Eventually(what string, limit time.Duration, ok func() bool) {
	m.T.Helper()
	Eventually(m.T, what, limit, ok)
}

// Eventually waits until ok reports true.
func Eventually(t testing.TB, what string, limit time.Duration, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %s", what, limit)
		case <-tick.C:
		}
	}
}

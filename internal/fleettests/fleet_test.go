package fleettests_test

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry/internal/ferrytest"
)

// fleet is some machines around one channel folder and one git remote.
type fleet struct {
	*testing.T
	dir, folder, remote, engine string
	token                       string // in the environment of whatever an engine starts
	machines                    []*computer
}

// computer is one machine of a fleet, with an agent.
type computer struct {
	*ferrytest.Person
	f     *fleet
	name  string
	begun []time.Time // when its worker was started again
}

// script is an engine. It writes a line when it begins and one when it is done into the file that the order names, and
// leaves a process behind at every third order.
const script = `#!/bin/sh
name=$(printf '%s\n' "$*" | grep -o 't-[0-9]*\.txt' | head -n 1)
echo run >>"$name"
case $name in *[0369].txt) (setsid sleep 120 >/dev/null 2>&1 &) ;; esac
sleep 1
echo done >>"$name"
echo "wrote $name"
`

// newFleet sets up the machines as people would: the first founds the channel, the others are invited.
func newFleet(t *testing.T, machines int) *fleet {
	t.Helper()
	dir := t.TempDir()
	f := &fleet{
		T: t, dir: dir, folder: filepath.Join(dir, "channel"), remote: filepath.Join(dir, "remote.git"),
		engine: filepath.Join(dir, "engine.sh"), token: rand.Text(),
	}
	f.must(os.WriteFile(f.engine, []byte(script), 0o755))
	for i := range machines {
		f.machines = append(f.machines, f.computer(i))
	}
	f.seed()
	for _, m := range f.machines {
		m.Run("git", "clone", "-q", f.remote, m.Repo)
	}
	first := f.machines[0]
	first.Ferry(0, "enable", "--agent", first.name, "--command", f.engine, "--channel", f.folder)
	for _, m := range f.machines[1:] {
		m.join(first)
	}
	for _, m := range f.machines {
		m.configure()
	}
	t.Cleanup(f.end)
	return f
}

func (f *fleet) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fleet) computer(i int) *computer {
	home := filepath.Join(f.dir, fmt.Sprintf("machine-%d", i+1))
	return &computer{f: f, name: fmt.Sprintf("agent-%d", i+1), Person: ferrytest.NewPerson(f.T, ferrytest.PersonSpec{
		Dir: home, State: filepath.Join(home, "state"), Repo: "work", Binary: binary, Name: "Ada", Email: "ada@example.com",
		Env: []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + f.dir, "GIT_CONFIG_NOSYSTEM=1", "LANG=C.UTF-8"},
	})}
}

// seed makes the remote, with one commit.
func (f *fleet) seed() {
	f.Helper()
	m, repo := f.machines[0], filepath.Join(f.dir, "seed")
	m.Run("git", "init", "-q", repo)
	f.must(os.WriteFile(filepath.Join(repo, "notes.txt"), []byte("one\n"), 0o644))
	m.Run("git", "-C", repo, "add", "-A")
	m.Run("git", "-C", repo, "commit", "-q", "-m", "first")
	m.Run("git", "clone", "-q", "--bare", repo, f.remote)
}

// join brings a machine in: it asks, the master compares the words, and it finds the answer.
func (m *computer) join(master *computer) {
	m.Helper()
	var invited struct{ Code string }
	master.JSON(&invited, "channel", "invite", "--no-wait", "--name", m.name, "--json")
	ask := []string{"channel", "join", invited.Code, "--channel", m.f.folder, "--command", m.f.engine, "--no-wait", "--json"}
	var asked struct {
		Admitted bool
		Words    []string
	}
	m.JSON(&asked, ask...)
	master.Ferry(0, append([]string{"channel", "admit"}, asked.Words...)...)
	if m.JSON(&asked, ask...); !asked.Admitted {
		m.Fatalf("%s is not admitted", m.name)
	}
}

// configure sets what differs from the defaults, by the keys that a person has.
func (m *computer) configure() {
	m.Helper()
	m.Set("env", fmt.Sprintf("{ FLEET_TEST = %q }", m.f.token))
	m.Set("max_parallel", "2")
	m.Set("poll", `"1s"`)
	m.Set("pause_while_active", "false") // who runs the tests may type meanwhile
	m.Set("min_free_ram_mb", "0")
	data, err := os.ReadFile(m.ConfigPath())
	m.Must(err)
	m.Must(os.WriteFile(m.ConfigPath(), append(data, "\n[land]\nremote = \"origin\"\n"...), 0o600))
}

// work starts the worker of the machine. Its log is kept for when the test fails.
func (m *computer) work() {
	m.Helper()
	m.begun = append(m.begun, time.Now())
	m.Work(m.log())
}

func (m *computer) log() string { return filepath.Join(m.Dir, "worker.log") }

// interrupted is the exit code of a worker that was asked to stop before it had begun to work.
const interrupted = 130

// end sends a signal to the worker and waits for its end.
func (m *computer) end(s syscall.Signal) {
	m.Helper()
	if exit := m.Stop(s); s == syscall.SIGTERM && exit.Code != 0 && exit.Code != interrupted {
		m.Errorf("%s: the worker that was asked to stop: %s", m.name, exit)
	}
}

// end leaves nothing behind, and shows the logs when the test has failed.
func (f *fleet) end() {
	for _, m := range f.machines {
		m.Quit()
		if f.Failed() {
			f.Logf("log of %s:\n%s", m.name, tail(m.log()))
		}
	}
	for _, pid := range f.survivors() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			f.Error(err)
		}
	}
}

// tail gives the end of a log.
func tail(path string) string {
	const most = 16 << 10
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > most {
		if _, err := file.Seek(-most, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// survivors are the processes that came out of an engine and live: each has the token of the fleet in its environment.
func (f *fleet) survivors() []int {
	entries, err := os.ReadDir("/proc")
	f.must(err)
	var out []int
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscanf(e.Name(), "%d", &pid); err != nil {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err == nil && strings.Contains("\x00"+string(env), "\x00FLEET_TEST="+f.token+"\x00") {
			out = append(out, pid)
		}
	}
	return out
}

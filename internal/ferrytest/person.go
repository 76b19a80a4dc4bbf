package ferrytest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ferry-fleet/ferry/internal/process"
)

// Main runs the tests of a package after setUp has filled a directory that they share, and gives the exit code.
func Main(m *testing.M, setUp func(ctx context.Context, dir string) error) int {
	flag.Parse()
	code, err := inDirectory(m, setUp)
	if err != nil {
		fmt.Fprintln(os.Stderr, "set up the tests:", err)
		return 1
	}
	return code
}

func inDirectory(m *testing.M, setUp func(ctx context.Context, dir string) error) (code int, err error) {
	dir, err := os.MkdirTemp("", "ferry-tests-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := setUp(context.Background(), dir); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// Build makes the binary that a person has.
func Build(ctx context.Context, path string) error {
	_, err := Command(ctx, 0, process.Spec{
		Argv: []string{"go", "build", "-buildvcs=false", "-o", path, "github.com/ferry-fleet/ferry/cmd/ferry"}, Env: os.Environ(),
	})
	return err
}

// Command runs a program that must end with the code, and gives what it printed, or what it complained about.
func Command(ctx context.Context, code int, spec process.Spec) (string, error) {
	var out, errs bytes.Buffer
	spec.Stdout, spec.Stderr = &out, &errs
	exit, err := process.Run(ctx, spec)
	if err == nil && exit.Code != code {
		err = fmt.Errorf("%s, want exit status %d\n%s%s", exit, code, errs.String(), out.String())
	}
	if err != nil {
		return errs.String(), fmt.Errorf("%s: %w", strings.Join(spec.Argv, " "), err)
	}
	if code != 0 {
		return errs.String(), nil
	}
	return out.String(), nil
}

// Person is somebody at a machine who types commands: with a home, a state directory and a checkout.
type Person struct {
	*testing.T
	Dir    string   // of the machine: the home directory
	Repo   string   // the checkout, to be made
	Env    []string // of what is typed
	binary string
	worker *process.Proc
}

// PersonSpec says who the person is, and what is on the machine.
type PersonSpec struct {
	Dir, State  string   // the home, and ferry's own directory
	Repo        string   // the name of the checkout in the home
	Binary      string   // ferry
	Name, Email string   // who commits
	Env         []string // beside the directories
}

// NewPerson makes the home of a person.
func NewPerson(t *testing.T, s PersonSpec) *Person {
	t.Helper()
	p := &Person{T: t, Dir: s.Dir, Repo: filepath.Join(s.Dir, s.Repo), binary: s.Binary}
	p.Env = append([]string{"HOME=" + s.Dir, "FERRY_STATE_DIR=" + s.State}, s.Env...)
	p.Write(".gitconfig", fmt.Sprintf("[user]\n\tname = %s\n\temail = %s\n[init]\n\tdefaultBranch = main\n", s.Name, s.Email))
	return p
}

// Must ends the test when err is not nil.
func (p *Person) Must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// Write writes a file of the home directory.
func (p *Person) Write(name, text string) {
	p.Helper()
	path := filepath.Join(p.Dir, name)
	p.Must(os.MkdirAll(filepath.Dir(path), 0o700))
	p.Must(os.WriteFile(path, []byte(text), 0o600))
}

// Run runs a program at home; it must end well.
func (p *Person) Run(argv ...string) string {
	p.Helper()
	out, err := Command(p.Context(), 0, process.Spec{Argv: argv, Env: p.Env, Dir: p.Dir})
	p.Must(err)
	return out
}

// Try types a ferry command into the checkout, which must end with the code, and gives what it printed, or what it
// complained about.
func (p *Person) Try(code int, args ...string) (string, error) {
	return Command(p.Context(), code, process.Spec{Argv: append([]string{p.binary}, args...), Env: p.Env, Dir: p.Repo})
}

// Ferry is Try for a command that ends the test when it ends otherwise.
func (p *Person) Ferry(code int, args ...string) string {
	p.Helper()
	out, err := p.Try(code, args...)
	p.Must(err)
	return out
}

// JSON types a command and reads its --json.
func (p *Person) JSON(into any, args ...string) {
	p.Helper()
	out := p.Ferry(0, args...)
	if err := json.Unmarshal([]byte(out), into); err != nil {
		p.Fatalf("ferry %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// ConfigPath is the project's agent.toml.
func (p *Person) ConfigPath() string { return filepath.Join(p.Repo, ".ferry", "agent.toml") }

// Set changes the first line of agent.toml for a key, which may be there as a comment with its default.
func (p *Person) Set(name, value string) {
	p.Helper()
	data, err := os.ReadFile(p.ConfigPath())
	p.Must(err)
	lines := strings.Split(string(data), "\n")
	for i, l := range lines {
		if k, _, ok := strings.Cut(strings.TrimPrefix(l, "# "), " = "); ok && k == name {
			lines[i] = name + " = " + value
			p.Must(os.WriteFile(p.ConfigPath(), []byte(strings.Join(lines, "\n")), 0o600))
			return
		}
	}
	p.Fatalf("agent.toml has no line for %s:\n%s", name, data)
}

// Work starts `agent run`. What it logs is added to the file.
func (p *Person) Work(log string) {
	p.Helper()
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	p.Must(err)
	p.worker, err = process.Start(process.Spec{Argv: []string{p.binary, "agent", "run"}, Env: p.Env, Dir: p.Repo, Stdout: file, Stderr: file})
	p.Must(errors.Join(err, file.Close()))
}

// Stop sends a signal to the worker, by its process id, and says how it has ended. What it leaves is another's business.
func (p *Person) Stop(s syscall.Signal) process.Exit {
	p.Helper()
	p.Must(syscall.Kill(p.worker.Pid(), s))
	exit := p.worker.Wait()
	p.worker = nil
	return exit
}

// Quit kills the worker where there is one.
func (p *Person) Quit() {
	p.Helper()
	if p.worker != nil {
		p.Must(p.worker.Kill())
		p.worker = nil
	}
}

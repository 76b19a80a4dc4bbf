package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ferry-fleet/ferry/internal/process"
)

// terminal is a pseudo-terminal: what is typed goes in, and what a program shows on it comes out.
type terminal struct {
	*os.File
	program *os.File // the end that the program has
	mu      sync.Mutex
	shown   bytes.Buffer
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	fd := int(master.Fd())
	must(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	must(t, err)
	must(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 200}))
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	term := &terminal{File: master, program: slave}
	var reading sync.WaitGroup
	reading.Go(term.read)
	t.Cleanup(func() {
		must(t, slave.Close()) // nobody has the other end, which ends the reading
		reading.Wait()
		must(t, master.Close())
	})
	return term
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (term *terminal) read() {
	buf := make([]byte, 4096)
	for {
		n, err := term.File.Read(buf)
		term.mu.Lock()
		term.shown.Write(buf[:n])
		term.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (term *terminal) text() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.shown.String()
}

// sees waits until the screen shows something.
func (term *terminal) sees(t *testing.T, pattern string) string {
	t.Helper()
	want := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		if got := want.FindString(term.text()); got != "" {
			return got
		}
	}
	t.Fatalf("no %q on the screen within a minute:\n%s", pattern, term.text())
	return ""
}

// home is a person's machine, with a clone and a ferry to type.
type home struct {
	t         *testing.T
	dir, repo string
	ferry     string
	env       []string
}

// newHome makes a machine; its repository is a clone of another's, or has one commit.
func newHome(t *testing.T, from *home) *home {
	t.Helper()
	dir := t.TempDir()
	h := &home{t: t, dir: dir, repo: filepath.Join(dir, "repo"), ferry: filepath.Join(dir, "ferry")}
	self, err := os.Executable()
	must(t, err)
	must(t, os.Symlink(self, h.ferry))
	must(t, os.WriteFile(filepath.Join(dir, ".gitconfig"), []byte("[user]\n\tname = Ada\n\temail = ada@example.com\n"), 0o644))
	h.env = []string{"HOME=" + dir, "FERRY_STATE_DIR=" + filepath.Join(dir, "state"), "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "TERM=xterm"}
	if from != nil {
		h.run("git", "clone", "-q", from.repo, h.repo)
		return h
	}
	h.run("git", "init", "-q", "-b", "main", h.repo)
	h.run("git", "-C", h.repo, "commit", "-q", "--allow-empty", "-m", "first")
	return h
}

func (h *home) run(argv ...string) string {
	h.t.Helper()
	out, _, err := process.Output(context.Background(), process.Spec{Argv: argv, Env: h.env, Dir: h.dir}, 1<<20)
	must(h.t, err)
	return string(out)
}

// typed runs ferry in the repository.
func (h *home) typed(args ...string) string {
	h.t.Helper()
	return h.run(append([]string{h.ferry, "-C", h.repo}, args...)...)
}

// typedOn starts ferry on a terminal, which is its controlling one, and gives how it ended.
func (h *home) typedOn(term *terminal, args ...string) (ended func() int) {
	h.t.Helper()
	p, err := os.StartProcess(h.ferry, append([]string{h.ferry}, args...), &os.ProcAttr{
		Dir: h.repo, Env: h.env, Files: []*os.File{term.program, term.program, term.program},
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: true},
	})
	must(h.t, err)
	return func() int {
		h.t.Helper()
		stop := time.AfterFunc(time.Minute, func() { _ = p.Kill() })
		defer stop.Stop()
		state, err := p.Wait()
		must(h.t, err)
		return state.ExitCode()
	}
}

// TestInviteOnATerminal lets the master answer the question that invite asks on a terminal.
func TestInviteOnATerminal(t *testing.T) {
	for _, tt := range []struct {
		reply, then string
		keys        string // that end the wait
		code        int
		member      bool
	}{
		{"y\n", "wisp on .* is a member, and may work", "", 0, true},
		{"\n", "wisp was not let in", "\x03", 130, false},
	} {
		t.Run(fmt.Sprintf("%q", tt.reply), func(t *testing.T) {
			master := newHome(t, nil)
			folder := filepath.Join(master.dir, "chan")
			master.typed("enable", "--agent", "gale", "--command", "cat", "--channel", folder)
			other := newHome(t, master)
			term := newTerminal(t)
			ended := master.typedOn(term, "channel", "invite")
			code := term.sees(t, `ferry1\.[a-z2-7]+`)
			term.sees(t, "▄")
			term.sees(t, "Waiting for the machine to ask")
			asked := other.typed("channel", "join", code, "--channel", folder, "--agent", "wisp", "--command", "cat", "--no-wait", "--json")
			term.sees(t, `the same six words\? \[y/N\] `)
			words := regexp.MustCompile(`Its words:\s+([a-z]+(?: [a-z]+){5})\s`).FindStringSubmatch(term.text())
			if len(words) != 2 || !strings.Contains(strings.Join(strings.Fields(asked), ""), `"words":["`+strings.ReplaceAll(words[1], " ", `","`)+`"]`) {
				t.Errorf("the words %q are not those of the other machine:\n%s", words, asked)
			}
			_, err := term.WriteString(tt.reply)
			must(t, err)
			term.sees(t, tt.then)
			_, err = term.WriteString(tt.keys)
			must(t, err)
			if got := ended(); got != tt.code {
				t.Errorf("invite ended with %d, want %d:\n%s", got, tt.code, term.text())
			}
			members := master.typed("channel", "members")
			if got := regexp.MustCompile(`(?m)^wisp .* member$`).MatchString(members); got != tt.member {
				t.Errorf("a member: %v, want %v:\n%s", got, tt.member, members)
			}
		})
	}
}

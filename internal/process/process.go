// Package process owns every program that ferry starts: it is the only place of the product that may use os/exec.
//
// It promises that a tree of processes ends as a whole. A tree is a leader (what Start ran) and everything that came
// out of it, in whatever session or process group. The tree ends when the leader exits, when Kill is called, when
// the ferry process dies (Linux) or when Sweep is given its mark later; each of these looks again until nothing is
// left and says so when something is. Output goes to writers of the caller and a descendant that keeps a pipe open
// delays nobody for longer than a short grace.
//
// How a tree is found, best first: a cgroup of its own (version 2, and the pids and memory controllers of version 1,
// where ferry may create one), the session and process group of the leader, parents in /proc, and the mark in
// /proc/PID/environ. Everything works with no cgroup at all; then a descendant that has left the session, cleared
// its environment and lost its parent cannot be found. Outside Linux only the process group is known.
//
// It never reads the environment of ferry for a child, never runs a shell, and never touches a cgroup that it did
// not create.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// MarkVariable is the environment variable that carries Spec.Mark into every process of a tree.
const MarkVariable = "FERRY_MARK"

const (
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// pipeGrace is how long the output of a tree may go on after its leader has exited.
	pipeGrace = time.Second
	// endLimit is how long a tree may take to disappear after SIGKILL: only uninterruptible I/O takes longer.
	endLimit = 10 * time.Second
)

// Limits caps a process tree; the zero value of a field caps nothing. Pids and MemoryBytes hold for the whole tree
// where a cgroup can be had (which needs a mark), else for each user and each process by rlimits. FileBytes (the
// largest file that may be written) and OpenFiles always hold for each process. Outside Linux no limit holds.
type Limits struct {
	Pids        int
	MemoryBytes int64
	FileBytes   int64
	OpenFiles   int
}

// Spec says what to start. Argv[0] without a slash is looked up on the PATH of Env, never on ferry's own.
type Spec struct {
	Argv []string
	// Env is the exact environment; nil is an empty one.
	Env []string
	Dir string
	// Stdin is read in the background while the process lives; nil is /dev/null.
	Stdin io.Reader
	// Stdout and Stderr may be the same writer; nil drops the output.
	Stdout, Stderr io.Writer
	// ExtraFiles become descriptors 3, 4, ... of the child; the caller closes its own copies after Start.
	ExtraFiles []*os.File
	// Mark, when set, is added to Env as FERRY_MARK and names the cgroup, so that Sweep finds survivors after a
	// crash. One mark belongs to one tree at a time.
	Mark   string
	Limits Limits
}

// Exit says how a leader ended. Code is -1 when a signal ended it. CPU is of the whole tree where it has a cgroup,
// else of the leader and the children it waited for; MaxRSS is the largest single process of those.
type Exit struct {
	Code   int
	Signal string
	Wall   time.Duration
	CPU    time.Duration
	MaxRSS int64
	OOM    bool
}

// String returns the end in words, such as "exit status 2" or "killed by signal: killed".
func (e Exit) String() string {
	switch {
	case e.OOM && e.Code != 0:
		return "killed: out of memory"
	case e.Signal != "":
		return "killed by signal: " + e.Signal
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// Proc is a started tree. Its methods are safe for concurrent use.
type Proc struct {
	spec    Spec
	cmd     *exec.Cmd
	pid     int
	start   uint64
	began   time.Time
	group   *group
	streams *streams
	done    chan struct{} // closed when the leader is reaped and the tree has ended

	// pinned is held for reading while the pid of the leader must stay ours; the leader is reaped under its lock.
	pinned sync.RWMutex
	reaped bool

	mu     sync.Mutex
	exit   Exit
	endErr error
}

// Start starts spec in its own session and process group. The returned tree ends with its leader: what the leader
// leaves behind when it exits is killed, whether Wait is called or not. Without a mark that is its process group, for
// the price of one system call; with a mark it is the whole tree, verified.
func Start(spec Spec) (*Proc, error) {
	if len(spec.Argv) == 0 || spec.Argv[0] == "" {
		return nil, errors.New("start process: no program named")
	}
	if err := checkMark(spec.Mark); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Argv[0], err)
	}
	p := &Proc{spec: spec, done: make(chan struct{})}
	started := make(chan error)
	go p.live(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Argv[0], err)
	}
	return p, nil
}

// live is the life of one tree. It keeps one thread from start to end because the kernel ties both the parent-death
// signal and the version 1 cgroup of a new process to the thread that forked it.
func (p *Proc) live(started chan<- error) {
	runtime.LockOSThread()
	defer func() {
		if !p.group.stranded() { // else the thread ends with this goroutine
			runtime.UnlockOSThread()
		}
	}()
	err := p.launch()
	started <- err
	if err != nil {
		return
	}
	defer close(p.done)
	awaitExit(p.pid)
	p.streams.drain(pipeGrace)
	endErr := p.endRest()
	p.streams.close()
	exit := p.group.usage()
	waitErr := p.reap()
	exit.fill(p.cmd.ProcessState, waitErr)
	exit.Wall = time.Since(p.began)
	removeErr := p.group.remove()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exit, p.endErr = exit, errors.Join(endErr, removeErr)
}

func (p *Proc) launch() error {
	path, err := p.program()
	if err != nil {
		return err
	}
	if p.group, err = newGroup(p.spec.Mark, p.spec.Limits); err != nil {
		return err
	}
	if p.streams, err = openStreams(p.spec); err != nil {
		return errors.Join(err, p.group.remove())
	}
	p.began = time.Now()
	err = p.group.enter(func(attr *syscall.SysProcAttr) error {
		p.cmd = p.command(path, attr)
		return p.cmd.Start()
	})
	p.streams.started()
	if err != nil {
		p.streams.close()
		return errors.Join(err, p.group.remove())
	}
	p.pid = p.cmd.Process.Pid
	p.start, _ = startTime(p.pid) // a leader that is already gone keeps zero, which no live process has
	if err := limitTree(p.tree(), p.spec.Limits, p.group); err != nil {
		_, endErr := endTree(p.tree(), endLimit)
		p.streams.close()
		p.reap()
		return errors.Join(err, endErr, p.group.remove())
	}
	return nil
}

func (p *Proc) program() (string, error) {
	path := defaultPath
	for _, v := range p.spec.Env {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			path = value
		}
	}
	return LookPath(p.spec.Argv[0], path)
}

func (p *Proc) command(path string, attr *syscall.SysProcAttr) *exec.Cmd {
	env := append([]string{}, p.spec.Env...)
	if p.spec.Mark != "" {
		env = append(env, MarkVariable+"="+p.spec.Mark)
	}
	path, argv := gated(path, p.spec.Argv, p.spec.Limits)
	return &exec.Cmd{
		Path: path, Args: argv, Env: env, Dir: p.spec.Dir, ExtraFiles: p.spec.ExtraFiles,
		Stdin: p.streams.stdin, Stdout: p.streams.stdout, Stderr: p.streams.stderr, SysProcAttr: attr,
	}
}

// endRest ends what the leader left behind. The leader is a zombie, so its process group is still ours.
func (p *Proc) endRest() error {
	if p.spec.Mark == "" {
		killGroup(p.pid)
		return nil
	}
	_, err := endTree(p.tree(), endLimit)
	return err
}

// reap collects the leader. From here on its pid may belong to somebody else.
func (p *Proc) reap() error {
	p.pinned.Lock()
	defer p.pinned.Unlock()
	p.reaped = true
	return p.cmd.Wait()
}

func (p *Proc) tree() tree {
	return tree{leader: p.pid, start: p.start, mark: p.spec.Mark, group: p.group}
}

// Wait waits until the leader has exited and its tree has ended, and says how. It may be called any number of times.
func (p *Proc) Wait() Exit {
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit
}

// Kill ends the whole tree with SIGKILL and returns when nothing of it is left, or an error that names what is.
// It is safe to call twice and after the end.
func (p *Proc) Kill() error {
	p.pinned.RLock()
	var err error
	if !p.reaped {
		_, err = endTree(p.tree(), endLimit)
	}
	p.pinned.RUnlock()
	if err != nil {
		return fmt.Errorf("kill the tree of pid %d: %w", p.pid, err)
	}
	timer := time.NewTimer(2 * endLimit)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		return fmt.Errorf("kill the tree of pid %d: it is still there %v after SIGKILL", p.pid, 2*endLimit)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.endErr
}

// Freeze stops every process of the tree where it is, until Thaw. A tree that has ended is left alone.
func (p *Proc) Freeze() error {
	p.pinned.RLock()
	defer p.pinned.RUnlock()
	if p.reaped {
		return nil
	}
	if err := freezeTree(p.tree()); err != nil {
		return fmt.Errorf("freeze the tree of pid %d: %w", p.pid, err)
	}
	return nil
}

// Thaw lets a frozen tree go on. A tree that is not frozen is left alone.
func (p *Proc) Thaw() error {
	p.pinned.RLock()
	defer p.pinned.RUnlock()
	if p.reaped {
		return nil
	}
	if err := thawTree(p.tree()); err != nil {
		return fmt.Errorf("thaw the tree of pid %d: %w", p.pid, err)
	}
	return nil
}

// Pid returns the process id of the leader.
func (p *Proc) Pid() int { return p.pid }

// StartMark returns the start time of the leader in kernel ticks, which together with Pid names it for Alive. It is
// 0 outside Linux.
func (p *Proc) StartMark() uint64 { return p.start }

// Run starts spec and waits for its end; an exit status other than zero is not an error. When ctx ends first, the
// tree is killed and the cause of ctx is returned.
func Run(ctx context.Context, spec Spec) (Exit, error) {
	if err := ctx.Err(); err != nil {
		return Exit{Code: -1}, fmt.Errorf("run %s: %w", describe(spec.Argv), err)
	}
	p, err := Start(spec)
	if err != nil {
		return Exit{Code: -1}, err
	}
	select {
	case <-p.done:
		return p.Wait(), nil
	case <-ctx.Done():
		err := fmt.Errorf("run %s: %w", describe(spec.Argv), context.Cause(ctx))
		if killErr := p.Kill(); killErr != nil {
			return Exit{Code: -1}, errors.Join(err, killErr)
		}
		return p.Wait(), err
	}
}

// Output runs spec and returns its standard output. More than limit bytes, an end of ctx and an exit status other
// than zero are errors; the error carries the end of standard error and the Exit is filled in all the same.
func Output(ctx context.Context, spec Spec, limit int64) ([]byte, Exit, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := &capped{limit: limit, full: func() { cancel(fmt.Errorf("more than %d bytes of output", limit)) }}
	tail := NewKeep(512, 3584)
	spec.Stdout = out
	if spec.Stderr == nil {
		spec.Stderr = tail
	} else {
		spec.Stderr = io.MultiWriter(tail, spec.Stderr)
	}
	exit, err := Run(ctx, spec)
	if err == nil && out.isOver() {
		err = fmt.Errorf("run %s: %w", describe(spec.Argv), context.Cause(ctx))
	}
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("run %s: %s", describe(spec.Argv), exit)
		if said := strings.TrimSpace(string(tail.Bytes())); said != "" {
			err = fmt.Errorf("%w: %s", err, said)
		}
	}
	return out.collected(), exit, err
}

// LookPath returns the program that file names: file itself when it holds a slash, else the first executable of that
// name in the directories of path. Relative directories of path are passed over.
func LookPath(file, path string) (string, error) {
	if strings.ContainsRune(file, '/') {
		return file, nil
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		full := filepath.Join(dir, file)
		if info, err := os.Stat(full); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return full, nil
		}
	}
	return "", fmt.Errorf("find %s on PATH %q: %w", file, path, exec.ErrNotFound)
}

func (e *Exit) fill(state *os.ProcessState, err error) {
	e.Code = -1
	if state == nil {
		e.Signal = fmt.Sprintf("unknown: %v", err)
		return
	}
	e.Code = state.ExitCode()
	status, _ := state.Sys().(syscall.WaitStatus) // always this type on unix
	if status.Signaled() {
		e.Signal = status.Signal().String()
	}
	if e.CPU == 0 {
		e.CPU = state.UserTime() + state.SystemTime()
	}
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		e.MaxRSS = usage.Maxrss * rssUnit
	}
}

func checkMark(mark string) error {
	if len(mark) > 100 {
		return fmt.Errorf("mark %.20q... is longer than 100 bytes", mark)
	}
	bad := strings.IndexFunc(mark, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	})
	if bad >= 0 {
		return fmt.Errorf("mark %q: only letters, digits, '-', '_' and '.' may be in it", mark)
	}
	return nil
}

// describe names a command for an error: the program and its first words, without what may be long.
func describe(argv []string) string {
	words := slices.Clone(argv[:min(len(argv), 4)])
	if len(words) == 0 {
		return "nothing"
	}
	words[0] = filepath.Base(words[0])
	text := strings.Join(words, " ")
	if len(text) > 120 {
		text = strings.ToValidUTF8(text[:120], "") + "..."
	}
	return text
}

func sameWriter(a, b io.Writer) bool {
	return a != nil && b != nil && reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}

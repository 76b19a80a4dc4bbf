package box

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ferry-fleet/ferry/internal/process"
)

// probeLimit is how long one probe may take on a busy machine.
const probeLimit = 30 * time.Second

// probeTask tells the program in the box where the things are that it must not reach.
type probeTask struct {
	Secret   string   // a file of the host beside the tree
	Home     string   // the real home directory
	InHome   []string // some names in it, but for the one on the way to the probe's own directory
	Outside  string   // a directory of the host to write to
	Hooks    string   // a read-only bind
	TCP      string
	UDP      string
	Unix     string
	Abstract string
	Level    Level
	Pid      int    // a process of the host
	Token    string // what only that process has in its environment
}

// namesBeside gives names in home, at most a hundred, without the one that leads to dir: what a box shows below home
// makes that one appear in it.
func namesBeside(home, dir string) []string {
	entries, err := os.ReadDir(home)
	if err != nil {
		return nil // what we cannot list ourselves, the box need not hide
	}
	way, _ := filepath.Rel(home, dir)
	way, _, _ = strings.Cut(way, string(filepath.Separator))
	var out []string
	for _, e := range entries {
		if e.Name() != way && len(out) < 100 {
			out = append(out, e.Name())
		}
	}
	return out
}

// Probe builds the box and tries, from inside, what it must prevent and what must work. It judges only what the level
// promises; with Net "open" the network is not judged. The report says what happened, also where nothing could run.
func Probe(ctx context.Context, spec ProbeSpec) Report {
	r := Report{Level: spec.Level, Net: spec.Net, Version: levelVersion(spec.Level)}
	dir, err := probeDir(spec.State)
	if err != nil {
		return r.failed(err)
	}
	defer os.RemoveAll(dir) // what is left here is swept with the state directory
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	stage, err := newStage(dir)
	if err != nil {
		return r.failed(err)
	}
	defer stage.close()
	got, err := stage.run(ctx, spec)
	if err != nil {
		return r.failed(err)
	}
	for _, p := range promises {
		problem, tried := got[p.name]
		if !tried {
			continue
		}
		var what error
		if problem != "" {
			what = errors.New(problem)
		}
		r.Tries = append(r.Tries, judge(p.name, p.want(spec), what))
	}
	return r.finish()
}

func levelVersion(level Level) string {
	switch level {
	case LevelBwrap:
		program, err := process.LookPath("bwrap", hostPath)
		if err != nil {
			return ""
		}
		v, err := bwrapVersion(program)
		if err != nil {
			return ""
		}
		return fmt.Sprintf("bwrap %d.%d", v[0], v[1])
	case LevelLandlock:
		return fmt.Sprintf("landlock ABI %d", landlockABI())
	}
	return ""
}

// promise is one try and what each level promises of it.
type promise struct {
	name            string
	bwrap, landlock string
	network         bool // judged only with Net "none"
}

func (p promise) want(s ProbeSpec) string {
	switch {
	case p.network && s.Net == NetOpen:
		return wantNotJudged
	case s.Level == LevelBwrap:
		return p.bwrap
	case s.Level == LevelLandlock:
		return p.landlock
	}
	return wantNotPromised
}

// The names join what the program in the box reports with what is promised.
const (
	tryWork     = "write the work tree"
	tryTmp      = "write the temporary directory"
	tryHome     = "write its own home"
	tryExec     = "run a program"
	tryLoop     = "loopback inside"
	trySecret   = "read a secret beside the tree"
	tryStat     = "see that the secret exists"
	tryRealHome = "list the real home"
	tryOutside  = "write outside"
	tryHooks    = "write a read-only bind"
	tryTCP      = "connect to a port of the host"
	tryUDP      = "send a datagram to the host"
	tryRoute    = "find a way to the network"
	tryUnix     = "connect to a socket file of the host"
	tryAbstract = "connect to an abstract socket of the host"
	tryPids     = "read the environment of a host process"
	trySignal   = "kill a host process"
	tryPtrace   = "trace a process"
	tryMount    = "mount"
	tryUserns   = "make a user namespace"
	tryMem      = "open /dev/mem"
	tryTiocsti  = "type into the terminal"
	trySurvive  = "survive the end of the box"
)

var promises = []promise{
	{name: tryWork, bwrap: wantWorks, landlock: wantWorks},
	{name: tryTmp, bwrap: wantWorks, landlock: wantWorks},
	{name: tryHome, bwrap: wantWorks, landlock: wantWorks},
	{name: tryExec, bwrap: wantWorks, landlock: wantWorks},
	{name: tryLoop, bwrap: wantWorks, landlock: wantNotPromised, network: true},
	{name: trySecret, bwrap: wantDenied, landlock: wantDenied},
	{name: tryStat, bwrap: wantDenied, landlock: wantNotPromised},
	{name: tryRealHome, bwrap: wantDenied, landlock: wantDenied},
	{name: tryOutside, bwrap: wantDenied, landlock: wantDenied},
	{name: tryHooks, bwrap: wantDenied, landlock: wantDenied},
	{name: tryTCP, bwrap: wantDenied, landlock: wantDenied, network: true},
	{name: tryUDP, bwrap: wantDenied, landlock: wantNotPromised, network: true},
	{name: tryRoute, bwrap: wantDenied, landlock: wantNotPromised, network: true},
	{name: tryUnix, bwrap: wantDenied, landlock: wantNotPromised},
	{name: tryAbstract, bwrap: wantDenied, landlock: wantNotPromised, network: true},
	{name: tryPids, bwrap: wantDenied, landlock: wantDenied},
	{name: trySignal, bwrap: wantDenied, landlock: wantNotPromised},
	{name: tryPtrace, bwrap: wantDenied, landlock: wantDenied},
	{name: tryMount, bwrap: wantDenied, landlock: wantDenied},
	{name: tryUserns, bwrap: wantDenied, landlock: wantDenied},
	{name: tryMem, bwrap: wantDenied, landlock: wantDenied},
	{name: tryTiocsti, bwrap: wantDenied, landlock: wantDenied},
	{name: trySurvive, bwrap: wantDenied, landlock: wantDenied},
}

// stage is what a probe puts up on the host.
type stage struct {
	dir    string
	task   probeTask
	closer []io.Closer
	victim *process.Proc
}

func newStage(dir string) (*stage, error) {
	s := &stage{dir: dir}
	name := filepath.Base(dir)
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	s.task = probeTask{
		Secret: filepath.Join(dir, "secret"), Home: home, InHome: namesBeside(home, dir), Outside: filepath.Join(dir, "outside"),
		Hooks: filepath.Join(dir, "hooks"), Unix: filepath.Join(dir, "s"), Abstract: "@ferry-" + name, Token: name,
	}
	err = writePrivate(s.task.Secret, []byte(name))
	for _, d := range []string{s.task.Outside, s.task.Hooks, s.work()} {
		err = errors.Join(err, os.Mkdir(d, 0o755))
	}
	if err == nil {
		err = s.listen()
	}
	if err == nil {
		s.victim, err = process.Start(process.Spec{
			Argv: []string{"sleep", "60"}, Env: []string{"PATH=" + hostPath, "FERRY_PROBE=" + name},
		})
	}
	if err != nil {
		s.close()
		return nil, err
	}
	s.task.Pid = s.victim.Pid()
	return s, nil
}

func (s *stage) work() string { return filepath.Join(s.dir, "work") }

// listen opens what a box without network must not reach.
func (s *stage) listen() error {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.closer = append(s.closer, tcp)
	s.task.TCP = tcp.Addr().String()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.closer = append(s.closer, udp)
	s.task.UDP = udp.LocalAddr().String()
	for _, address := range []string{s.task.Unix, s.task.Abstract} {
		l, err := net.Listen("unix", address)
		if err != nil {
			return err
		}
		s.closer = append(s.closer, l)
	}
	return nil
}

func (s *stage) close() {
	for _, c := range s.closer {
		_ = c.Close() // listeners of the probe: nothing is lost
	}
	if s.victim != nil {
		_ = s.victim.Kill() // it may be dead already, which the report says
	}
}

// run starts the program in the box, reads what it reports, and ends the box.
func (s *stage) run(ctx context.Context, spec ProbeSpec) (map[string]string, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	mark := filepath.Base(s.dir)
	s.task.Level = spec.Level
	box := Spec{
		Level: spec.Level, Net: spec.Net, Work: s.work(), Mark: mark, State: s.dir, TmpBytes: 16 << 20,
		Binds:  []Bind{{Host: s.task.Hooks}, {Host: exe, Path: "/run/ferry/probe"}},
		Limits: process.Limits{Pids: 256},
	}
	inside := exe
	if spec.Level == LevelBwrap {
		inside = "/run/ferry/probe"
	}
	c, err := box.Command([]string{inside, helperProbe})
	if err != nil {
		return nil, err
	}
	got, err := s.talk(ctx, c)
	err = errors.Join(err, c.Close())
	left, sweepErr := process.Sweep(mark)
	if err = errors.Join(err, sweepErr); err != nil {
		return nil, err
	}
	got[trySurvive], got[trySignal] = "", ""
	if left == 0 {
		got[trySurvive] = "no process was left"
	}
	if process.Alive(s.victim.Pid(), s.victim.StartMark()) {
		got[trySignal] = "it lives"
	}
	return got, nil
}

// talk hands the task to the program and kills the box while its processes still run.
func (s *stage) talk(ctx context.Context, c *Command) (map[string]string, error) {
	text, err := json.Marshal(s.task)
	if err != nil {
		return nil, err
	}
	in, feed := io.Pipe()
	answer, out := io.Pipe()
	said := process.NewKeep(1024, 1024)
	c.Spec.Stdin, c.Spec.Stdout, c.Spec.Stderr = in, out, said
	p, err := process.Start(c.Spec)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = p.Kill() }) // reported by the Kill below
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { // the write ends when it is read, or when its other end is closed below
		_, _ = feed.Write(append(text, '\n'))
		p.Wait()
		_ = out.Close()
	})
	line, readErr := bufio.NewReader(answer).ReadBytes('\n')
	_ = answer.Close()
	killErr := p.Kill()
	_ = in.Close()
	wg.Wait()
	got := map[string]string{}
	if readErr != nil {
		return nil, fmt.Errorf("the probe ended early: %s: %s", p.Wait(), bytes.TrimSpace(said.Bytes()))
	}
	return got, errors.Join(json.Unmarshal(line, &got), killErr)
}

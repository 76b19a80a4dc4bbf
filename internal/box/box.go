// Package box owns the sandbox that engines, their tools and the checks run in.
//
// It promises what the level of a Spec says, and Probe proves it on this machine by trying the opposite:
//
//	bwrap     a root of its own with /usr, the tree (/work), what Binds and Login name, and nothing else of the host;
//	          own users, processes, hosts and, unless Net is "open", network; a system call filter; sized /tmp and home.
//	          With Net "proxy" one port of its loopback leads to Serve, outside, and nothing else leads anywhere
//	landlock  host paths, of which only the same things can be read or written; the same filter; Net "none" denies
//	          every socket, loopback as well. Not promised: hiding names and sizes of files (stat), pids, abstract
//	          sockets with Net "open", a size for the temporary directory. Refused as root
//	none      nothing is hidden; only the environment is the caller's. A person's explicit choice
//
// A Login is copied, never shown: the box gets a private writable copy that is thrown away. Outside Linux only "none"
// exists and Choose says so.
//
// It never shows a home directory, the root of the host or anything that holds them, never puts an environment value
// on a command line, and never falls back to a weaker level by itself.
package box

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ferry-fleet/ferry/internal/process"
)

// Level is how a box is built.
type Level string

// The levels, strongest first.
const (
	LevelBwrap    Level = "bwrap"
	LevelLandlock Level = "landlock"
	LevelNone     Level = "none"
)

// Net is what a box may reach.
type Net string

// NetOpen is the network of the host; NetNone is none, which with bwrap leaves a loopback of the box's own. NetProxy is
// such a loopback on which ProxyAddress leads to Spec.Serve; only bwrap has it.
const (
	NetOpen  Net = "open"
	NetNone  Net = "none"
	NetProxy Net = "proxy"
)

// ProxyAddress is where the programs of a box with Net "proxy" find what Serve answers.
const ProxyAddress = "127.0.0.1:3128"

const (
	workInside = "/work"
	homeInside = "/home/agent"
	boxPath    = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

	defaultTmpBytes = 1 << 30
	maxLoginBytes   = 8 << 20
	maxLoginFiles   = 256 // each is a descriptor while the box starts
)

// Bind shows one file or directory of the host in the box, read-only unless Write is set. Path is where (empty: the
// same path; only bwrap can move it). A missing Optional one is left out.
type Bind struct {
	Host, Path string
	Write      bool
	Optional   bool
}

// Spec describes a box.
type Spec struct {
	Level Level
	Net   Net
	// Serve answers, outside of the box, what its programs send to ProxyAddress; for Net "proxy". It is called when the box
	// has opened the port, on a goroutine of its own, and returns when the listener is closed, which Close does.
	Serve func(net.Listener)
	// Work is the tree: /work with bwrap, its host path otherwise.
	Work         string
	WorkReadOnly bool
	Binds        []Bind
	// Login names files or directories below the person's home directory. The box gets a private copy of each at the
	// same place below its own home; a missing one is left out, symbolic links inside a directory are left out, and
	// more than 8 MiB or 256 files in all are an error. With level none the real home is there and nothing is copied.
	Login []string
	// Env is what the caller allows. The box adds HOME, TMPDIR and USER, and PATH where it is missing.
	Env []string
	// Userns allows user namespaces in the box, which some sandboxes of engines want.
	Userns bool
	Limits process.Limits
	// TmpBytes is the size of the temporary directory and of the home of a bwrap box; 0 is 1 GiB.
	TmpBytes int64
	Mark     string
	// State is where private files of the box live until Close; needed for landlock.
	State string
}

// Command is a program in a box, ready to start. Stdin, Stdout and Stderr of Spec are the caller's to set. Close
// releases what the box holds and throws its private files away; call it after the process has ended, or in place of
// a start. Inside translates a path of the host into the path by which the box knows it.
type Command struct {
	Spec   process.Spec
	Close  func() error
	Inside func(host string) string
}

// Command prepares argv to run in the box. It fails on a Spec that would show more than it may, and where the level
// cannot be built on this machine.
func (s Spec) Command(argv []string) (*Command, error) {
	if len(argv) == 0 || argv[0] == "" {
		return nil, errors.New("box: no program named")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, fmt.Errorf("box: find the home directory: %w", err)
	}
	if err := s.check(home); err != nil {
		return nil, fmt.Errorf("box for %s: %w", argv[0], err)
	}
	var c *Command
	switch s.Level {
	case LevelBwrap:
		c, err = s.bwrap(argv, home)
	case LevelLandlock:
		c, err = s.landlock(argv, home)
	case LevelNone:
		c = s.bare(argv, home)
	}
	if err != nil {
		return nil, fmt.Errorf("box for %s: %w", argv[0], err)
	}
	return c, nil
}

// check refuses what no level may show.
func (s Spec) check(home string) error {
	if s.Level != LevelBwrap && s.Level != LevelLandlock && s.Level != LevelNone {
		return fmt.Errorf("sandbox level %q: want bwrap, landlock or none", s.Level)
	}
	if err := s.checkNet(); err != nil {
		return err
	}
	if s.Level == LevelNone {
		return absolute("work tree", s.Work)
	}
	if err := s.checkShown("work tree", s.Work, home); err != nil {
		return err
	}
	for _, b := range s.Binds {
		if err := s.checkShown("bind", b.Host, home); err != nil {
			return err
		}
		if err := checkInside(b); err != nil {
			return err
		}
	}
	for _, v := range s.Env {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" || strings.ContainsRune(v, 0) {
			return fmt.Errorf("environment entry %q: want NAME=value", name)
		}
	}
	return nil
}

// checkNet refuses a network that the level cannot give.
func (s Spec) checkNet() error {
	switch {
	case s.Net != NetOpen && s.Net != NetNone && s.Net != NetProxy:
		return fmt.Errorf("sandbox net %q: want open, none or proxy", s.Net)
	case s.Net != NetProxy:
		return nil
	case s.Level != LevelBwrap:
		// Landlock knows ports and not addresses: whoever may reach the proxy's port may reach that port of every machine.
		return fmt.Errorf("sandbox %s cannot hold a run to a list of hosts: install bubblewrap, or set net to open or none", s.Level)
	case s.Serve == nil:
		return errors.New("sandbox net proxy: nothing serves it")
	}
	return nil
}

// checkShown refuses a path of the host that would show a whole home directory or more.
func (s Spec) checkShown(what, path, home string) error {
	if err := absolute(what, path); err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil // a missing path is the level's to judge: it may be optional
	}
	if realHome, err := filepath.EvalSymlinks(home); err == nil {
		home = realHome
	}
	if within(home, real) {
		return fmt.Errorf("%s %s: it holds the home directory %s: name what is needed from it", what, path, home)
	}
	if slices.Contains([]string{"/", "/etc", "/proc", "/sys", "/dev", "/run", "/var", "/home"}, real) {
		return fmt.Errorf("%s %s: too much of the host: name what is needed from it", what, path)
	}
	return nil
}

// checkInside refuses a place in the box that the engine or the box itself controls.
func checkInside(b Bind) error {
	if b.Path == "" {
		return nil
	}
	if err := absolute("bind", b.Path); err != nil {
		return err
	}
	for _, taken := range []string{workInside, "/proc", "/dev", "/usr"} {
		if within(b.Path, taken) {
			return fmt.Errorf("bind %s at %s: %s belongs to the box", b.Host, b.Path, taken)
		}
	}
	if within(homeInside, b.Path) || within("/tmp", b.Path) {
		return fmt.Errorf("bind %s at %s: it would cover a directory of the box", b.Host, b.Path)
	}
	return nil
}

// bare is level none: the host as it is, with the caller's environment.
func (s Spec) bare(argv []string, home string) *Command {
	env := withDefaults(s.Env, [][2]string{{"HOME", home}, {"PATH", boxPath}})
	return &Command{
		Spec: process.Spec{
			Argv: argv, Env: env, Dir: s.Work, Mark: s.Mark, Limits: s.Limits,
		},
		Close:  func() error { return nil },
		Inside: filepath.Clean,
	}
}

// withDefaults returns env with each variable of defaults that it does not set.
func withDefaults(env []string, defaults [][2]string) []string {
	out := slices.Clone(env)
	for _, d := range defaults {
		set := slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, d[0]+"=") })
		if !set {
			out = append(out, d[0]+"="+d[1])
		}
	}
	return out
}

// without returns env without the named variables.
func without(env []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(names, name)
	})
}

func absolute(what, path string) error {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return fmt.Errorf("%s %q: want an absolute path", what, path)
	}
	return nil
}

// within reports whether path is dir or lies below it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

package box

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ferry-fleet/ferry/internal/process"
)

// dialLimit is enough for an answer of this machine, and a filtered network gives none.
const dialLimit = 500 * time.Millisecond

// probeInside runs in the box: it tries everything, writes one line that says how each try ended (empty for "it
// worked"), and stays until it is killed or its input ends.
func probeInside(in io.Reader, out io.Writer) error {
	r := bufio.NewReader(in)
	line, err := r.ReadBytes('\n')
	if err != nil {
		return err
	}
	var t probeTask
	if err := json.Unmarshal(line, &t); err != nil {
		return err
	}
	got := map[string]string{}
	for name, try := range t.tries() {
		got[name] = ""
		if err := try(); err != nil {
			got[name] = err.Error()
		}
	}
	t.killProcess() // last: other tries are about the same process
	if err := json.NewEncoder(out).Encode(got); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	return err
}

func (t probeTask) tries() map[string]func() error {
	return map[string]func() error{
		tryWork:     func() error { return touch(".") },
		tryTmp:      func() error { return touch(os.TempDir()) },
		tryHome:     func() error { return touch(os.Getenv("HOME")) },
		tryExec:     leaveSurvivor,
		tryLoop:     loopback,
		trySecret:   func() error { _, err := os.ReadFile(t.Secret); return err },
		tryStat:     func() error { _, err := os.Stat(t.Secret); return err },
		tryRealHome: t.listHome,
		tryOutside:  func() error { return touch(t.Outside) },
		tryHooks:    func() error { return touch(t.Hooks) },
		tryTCP:      func() error { return dial("tcp", t.TCP) },
		tryUDP:      func() error { return dial("udp", t.UDP) },
		tryRoute:    func() error { return dial("udp", "192.0.2.1:9") }, // reserved for documentation
		tryUnix:     func() error { return dial("unix", t.Unix) },
		tryAbstract: func() error { return dial("unix", t.Abstract) },
		tryPids:     t.findProcess,
		tryPtrace:   t.traceProcess,
		tryMount:    t.mount,
		tryUserns:   userNamespace,
		tryMem:      func() error { return openClose("/dev/mem") },
		tryTiocsti:  typeIntoTerminal,
	}
}

// listHome looks for what is in the real home. A directory of that name that holds only the way to what the box shows
// is not the real one.
func (t probeTask) listHome() error {
	entries, err := os.ReadDir(t.Home)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if slices.Contains(t.InHome, e.Name()) {
			return nil
		}
	}
	return errors.New("nothing of it is here")
}

// touch writes a file in dir and takes it away again.
func touch(dir string) error {
	f, err := os.CreateTemp(dir, "ferry-probe-")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func openClose(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// mount mounts over a directory of the probe's own and undoes it. Outside a box that would be done to the machine.
func (t probeTask) mount() error {
	if t.Level == LevelNone {
		return errors.New("not tried: there is no box around this process")
	}
	dir, err := os.MkdirTemp("", "ferry-probe-")
	if err != nil {
		return err
	}
	defer os.Remove(dir)
	if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
		return err
	}
	return unix.Unmount(dir, unix.MNT_DETACH)
}

// dial connects; for a datagram the answer is whether it can be sent, or for a foreign address where to.
func dial(network, address string) error {
	c, err := net.DialTimeout(network, address, dialLimit)
	if err != nil {
		return err
	}
	defer c.Close()
	if network != "udp" || address == "192.0.2.1:9" {
		return nil
	}
	// A second write reports the refusal that the first one met in a network namespace of our own.
	for range 2 {
		if _, err := c.Write([]byte("probe")); err != nil {
			return err
		}
	}
	return nil
}

// loopback talks to itself.
func loopback() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	return dial("tcp", l.Addr().String())
}

// leaveSurvivor starts a process that leaves its session and parent, to see whether the end of the box finds it.
func leaveSurvivor() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	env := []string{"PATH=" + boxPath, process.MarkVariable + "=" + os.Getenv(process.MarkVariable)}
	out, exit, err := process.Output(ctx, process.Spec{
		Argv: []string{"sh", "-c", "(setsid sleep 60 >/dev/null 2>&1 &) ; echo ran"}, Env: env,
	}, 100)
	if err != nil {
		return err
	}
	if string(out) != "ran\n" {
		return errors.New("sh: " + exit.String())
	}
	return nil
}

// findProcess looks for the process of the host by what it has in its environment.
func (t probeTask) findProcess() error {
	paths, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return err
	}
	for _, path := range paths {
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte("FERRY_PROBE="+t.Token)) {
			return nil
		}
	}
	return errors.New("not found")
}

// traceProcess traces the process of the host, or with bwrap, where that has no number, the first process of the box.
func (t probeTask) traceProcess() error {
	if t.Level == LevelBwrap {
		return unix.PtraceSeize(1)
	}
	return unix.PtraceSeize(t.Pid)
}

// killProcess sends the signal; the host looks whether it arrived. In a pid namespace the number may be our own.
func (t probeTask) killProcess() {
	if t.Pid != os.Getpid() && t.Pid != os.Getppid() {
		_ = unix.Kill(t.Pid, unix.SIGKILL)
	}
}

// userNamespace asks the tool for it, because a program with threads cannot; without the tool the call itself.
func userNamespace() error {
	if _, err := process.LookPath("unshare", boxPath); err != nil {
		return unix.Unshare(0)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, _, err := process.Output(ctx, process.Spec{
		Argv: []string{"unshare", "-Ur", "true"}, Env: []string{"PATH=" + boxPath},
	}, 1000)
	return err
}

// typeIntoTerminal pushes a character into the input of a terminal, with bits set that the kernel ignores.
func typeIntoTerminal() error {
	c := [1]byte{'x'}
	return ioctl(0, unix.TIOCSTI|1<<32, &c[0])
}

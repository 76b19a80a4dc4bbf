//go:build !linux

package process

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// rssUnit is the unit of Rusage.Maxrss.
const rssUnit = 1

// tree is the process group of a leader: nothing more is known here.
type tree struct {
	leader int
	start  uint64
	mark   string
	group  *group
}

// group stands for the cgroups that only Linux has.
type group struct{}

func newGroup(string, Limits) (*group, error) { return &group{}, nil }

func (g *group) enter(start func(*syscall.SysProcAttr) error) error {
	return start(&syscall.SysProcAttr{Setsid: true})
}

func (g *group) stranded() bool { return false }

func (g *group) usage() Exit { return Exit{} }

func (g *group) remove() error { return nil }

// awaitExit returns when the child pid has exited, and leaves it to be collected.
func awaitExit(pid int) {
	kq, err := unix.Kqueue()
	if err != nil {
		return // the caller collects the leader, which waits as well
	}
	defer unix.Close(kq)
	change := []unix.Kevent_t{{}}
	unix.SetKevent(&change[0], pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	change[0].Fflags = unix.NOTE_EXIT
	events := make([]unix.Kevent_t, 1)
	for {
		if _, err := unix.Kevent(kq, change, events, nil); !errors.Is(err, unix.EINTR) {
			return // an error says that it has exited already
		}
	}
}

// killGroup ends the process group of an uncollected leader.
func killGroup(leader int) {
	_ = unix.Kill(-leader, unix.SIGKILL) // fails only where the group is empty
}

// endTree kills the process group. A descendant that has left the group is not found.
func endTree(t tree, _ time.Duration) (int, error) {
	killGroup(t.leader)
	return 1, nil
}

func freezeTree(t tree) error { return unix.Kill(-t.leader, unix.SIGSTOP) }

func thawTree(t tree) error { return unix.Kill(-t.leader, unix.SIGCONT) }

// gated gives the program as it is: there are no limits to wait for.
func gated(path string, argv []string, _ Limits) (string, []string) { return path, argv }

// limitTree does nothing: no running process can be limited from outside here.
func limitTree(tree, Limits, *group) error { return nil }

func startTime(int) (uint64, bool) { return 0, true }

// Alive reports whether a process pid exists. Here start tells nothing, so that a later process with the same pid
// counts as alive.
func Alive(pid int, _ uint64) bool {
	err := unix.Kill(pid, 0)
	return err == nil || errors.Is(err, unix.EPERM)
}

// Sweep cannot find the processes of a mark on this system and says so.
func Sweep(mark string) (int, error) {
	return 0, fmt.Errorf("sweep %s: %s does not show the environment of processes: look for survivors by hand",
		mark, runtime.GOOS)
}

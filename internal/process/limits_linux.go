package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// gate is run in place of a program that gets rlimits: it waits to be limited and becomes the program then, so that
// nothing of it ever runs without them.
const gate = `kill -STOP $$; exec "$@"`

// gated gives the program and the arguments that begin behind the gate, where there is something to wait for.
func gated(path string, argv []string, limits Limits) (string, []string) {
	if limits == (Limits{}) {
		return path, argv
	}
	return "/bin/sh", append([]string{"sh", "-c", gate, "sh", path}, argv[1:]...)
}

// limitTree sets the rlimits of a tree whose leader waits at the gate, and opens that.
func limitTree(t tree, limits Limits, g *group) error {
	if limits == (Limits{}) {
		return nil
	}
	awaitStop(t.leader)
	if err := limitProcess(t.leader, rlimits(limits, g)); err != nil {
		return fmt.Errorf("limit pid %d: %w", t.leader, err)
	}
	if err := unix.Kill(t.leader, unix.SIGCONT); err != nil {
		return fmt.Errorf("let pid %d begin: %w", t.leader, err)
	}
	return nil
}

// awaitStop returns when the child pid stands still or has ended, and leaves that to be collected.
func awaitStop(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return // ECHILD: it is collected already; what follows finds out
		}
	}
}

// rlimits translates what no cgroup caps.
func rlimits(limits Limits, g *group) map[int]uint64 {
	caps := map[int]uint64{unix.RLIMIT_CORE: 0}
	if limits.FileBytes > 0 {
		caps[unix.RLIMIT_FSIZE] = uint64(limits.FileBytes)
	}
	if limits.OpenFiles > 0 {
		caps[unix.RLIMIT_NOFILE] = uint64(limits.OpenFiles)
	}
	if limits.MemoryBytes > 0 && g.memory == "" {
		// Not RLIMIT_AS: runtimes reserve far more address space than they use.
		caps[unix.RLIMIT_DATA] = uint64(limits.MemoryBytes)
	}
	if limits.Pids > 0 && g.pids == "" {
		caps[unix.RLIMIT_NPROC] = uint64(limits.Pids + tasksOf(os.Getuid()))
	}
	return caps
}

// limitProcess lowers the limits of pid; one that is lower already stays. A process that has ended is no error.
func limitProcess(pid int, caps map[int]uint64) error {
	for resource, want := range caps {
		var old unix.Rlimit
		err := unix.Prlimit(pid, resource, nil, &old)
		if err == nil {
			low := min(want, old.Max)
			err = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: min(low, old.Cur), Max: low}, nil)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("rlimit %d to %d: %w", resource, want, err)
		}
	}
	return nil
}

// tasksOf counts the processes and threads of a user: the kernel counts RLIMIT_NPROC over all of them.
func tasksOf(uid int) int {
	n := 0
	for _, e := range processes() {
		dir := "/proc/" + strconv.Itoa(e.pid)
		var st unix.Stat_t
		if unix.Stat(dir, &st) != nil || int(st.Uid) != uid {
			continue
		}
		threads, _ := os.ReadDir(dir + "/task")
		n += max(len(threads), 1)
	}
	return n
}

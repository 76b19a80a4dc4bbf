package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// limitTree sets the rlimits of a tree that has just begun: on the leader, and on what it may have forked since. A
// process that is born later inherits them, so a look that finds nobody new has reached everybody.
func limitTree(t tree, limits Limits, g *group) error {
	caps := rlimits(limits, g)
	if len(caps) == 0 {
		return nil
	}
	if err := limitProcess(t.leader, caps); err != nil {
		return fmt.Errorf("limit pid %d: %w", t.leader, err)
	}
	done := map[int]bool{t.leader: true}
	for queue := []int{t.leader}; len(queue) > 0; queue = queue[1:] {
		for _, pid := range children(queue[0]) {
			if done[pid] {
				continue
			}
			done[pid] = true
			queue = append(queue, pid)
			// A child may have ended, or changed its user: the leader is what must be limited.
			_ = limitProcess(pid, caps)
		}
	}
	return nil
}

// rlimits translates what no cgroup caps.
func rlimits(limits Limits, g *group) map[int]uint64 {
	caps := map[int]uint64{}
	if limits == (Limits{}) {
		return caps
	}
	caps[unix.RLIMIT_CORE] = 0
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

// children returns the direct children of pid.
func children(pid int) []int {
	task := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, _ := os.ReadDir(task)
	var pids []int
	for _, thread := range threads {
		b, _ := os.ReadFile(task + "/" + thread.Name() + "/children")
		for f := range strings.FieldsSeq(string(b)) {
			if child, err := strconv.Atoi(f); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
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

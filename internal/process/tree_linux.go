package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// rssUnit is the unit of Rusage.Maxrss.
const rssUnit = 1024

// tree says how the processes of one tree are recognised. A zero leader means that only mark and group count.
type tree struct {
	leader int
	start  uint64
	mark   string
	group  *group
}

// entry is what /proc/PID/stat says about a process.
type entry struct {
	pid, parent, pgrp, session int
	state                      byte
	start                      uint64
}

// gone reports whether the process has ended and is only waiting to be collected.
func (e entry) gone() bool { return e.state == 'Z' || e.state == 'X' }

// identity tells a process from a later one with the same pid.
type identity struct {
	pid   int
	start uint64
}

// awaitExit returns when the child pid has exited, and leaves it to be collected.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return // ECHILD: it is collected already, which is an exit as well
		}
	}
}

// killGroup ends the process group of an uncollected leader.
func killGroup(leader int) {
	_ = unix.Kill(-leader, unix.SIGKILL) // fails only where the group is empty
}

// unsureLooks bounds how often a look that found nothing is repeated because processes came up while it went on.
const unsureLooks = 20

// endTree kills every process of t and looks again until none is left. It returns how many it killed. A table of
// processes is not read in one instant: a chain of children that each outlive their parent can be missed in passing.
// So a look that found nothing counts when no process came up during it, or when it has been repeated often enough.
func endTree(t tree, limit time.Duration) (int, error) {
	deadline := time.Now().Add(limit)
	killed := map[identity]bool{}
	unsure := 0
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		t.group.kill()
		before := newestPid()
		live := stopAll(t)
		if len(live) == 0 {
			if unsure++; unsure >= unsureLooks || before != "" && before == newestPid() {
				return len(killed), nil
			}
			time.Sleep(time.Millisecond)
			continue
		}
		unsure = 0
		for _, e := range live {
			if err := e.signal(unix.SIGKILL); err != nil {
				return len(killed), fmt.Errorf("kill pid %d: %w", e.pid, err)
			}
			killed[identity{e.pid, e.start}] = true
		}
		if left := survivors(t, live); len(left) > 0 && time.Now().After(deadline) {
			return len(killed), fmt.Errorf("%d processes are left %v after SIGKILL: %v", len(left), limit, left)
		}
		time.Sleep(wait)
	}
}

// newestPid names the process or thread that was made last, "" where the system does not tell.
func newestPid() string {
	b, err := os.ReadFile("/proc/loadavg")
	f := strings.Fields(string(b))
	if err != nil || len(f) < 5 {
		return ""
	}
	return f[4]
}

// stopAll stops every process of t where it is and returns them all. It looks again until a look finds no new one: a
// process that is stopped cannot fork, so a fork loop runs out.
func stopAll(t tree) []entry {
	seen := map[identity]entry{}
	for range 100 {
		fresh := false
		for _, e := range t.members() {
			id := identity{e.pid, e.start}
			if _, ok := seen[id]; ok {
				continue
			}
			fresh = true
			seen[id] = e
			_ = e.signal(unix.SIGSTOP) // what may not be stopped is reported when it is killed
		}
		if !fresh {
			break
		}
	}
	all := make([]entry, 0, len(seen))
	for _, e := range seen {
		all = append(all, e)
	}
	return all
}

// survivors returns the pids of live that still run.
func survivors(t tree, live []entry) []int {
	var pids []int
	for _, e := range live {
		if Alive(e.pid, e.start) {
			pids = append(pids, e.pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// freezeTree stops the tree by its cgroup, else by SIGSTOP.
func freezeTree(t tree) error {
	if done, err := t.group.freeze(true); done {
		return err
	}
	for _, e := range stopAll(t) {
		if err := e.signal(unix.SIGSTOP); err != nil {
			return fmt.Errorf("stop pid %d: %w", e.pid, err)
		}
	}
	return nil
}

// thawTree undoes freezeTree.
func thawTree(t tree) error {
	if done, err := t.group.freeze(false); done {
		return err
	}
	for _, e := range t.members() {
		if err := e.signal(unix.SIGCONT); err != nil {
			return fmt.Errorf("continue pid %d: %w", e.pid, err)
		}
	}
	return nil
}

// members returns the live processes of the tree, without ferry itself.
func (t tree) members() []entry {
	table := processes()
	in := map[int]bool{}
	for _, pid := range t.group.procs() {
		in[pid] = true
	}
	for _, e := range table {
		if t.leader != 0 && (e.pid == t.leader || e.session == t.leader || e.pgrp == t.leader) {
			in[e.pid] = true
		}
		if t.mark != "" && !in[e.pid] && !e.gone() && marked(e.pid, t.mark) {
			in[e.pid] = true
		}
	}
	delete(in, os.Getpid())
	for grown := true; grown; {
		grown = false
		for _, e := range table {
			if !in[e.pid] && in[e.parent] && e.pid != os.Getpid() {
				in[e.pid], grown = true, true
			}
		}
	}
	var live []entry
	for _, e := range table {
		if in[e.pid] && !e.gone() {
			live = append(live, e)
		}
	}
	return live
}

// processes reads the process table. A process that ends meanwhile is left out.
func processes() []entry {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	table := make([]entry, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if e, ok := readStat(pid); ok {
			table = append(table, e)
		}
	}
	return table
}

func readStat(pid int) (entry, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return entry{}, false
	}
	return parseStat(pid, b)
}

// parseStat reads a stat line. The name in parentheses is the process's own choice and may hold anything.
func parseStat(pid int, b []byte) (entry, bool) {
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return entry{}, false
	}
	f := strings.Fields(string(b[end+1:]))
	if len(f) < 20 {
		return entry{}, false
	}
	e := entry{pid: pid, state: f[0][0]}
	var errs [4]error
	e.parent, errs[0] = strconv.Atoi(f[1])
	e.pgrp, errs[1] = strconv.Atoi(f[2])
	e.session, errs[2] = strconv.Atoi(f[3])
	e.start, errs[3] = strconv.ParseUint(f[19], 10, 64)
	return e, errors.Join(errs[:]...) == nil
}

// marked reports whether the environment of pid carries the mark. Of a process that may not be read it says no: it
// belongs to somebody else. While a process executes another program there is a moment in which it has no environment,
// so an empty one is read again.
func marked(pid int, mark string) bool {
	want := []byte(MarkVariable + "=" + mark)
	for range 20 {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if err != nil {
			return false
		}
		for v := range bytes.SplitSeq(b, []byte{0}) {
			if bytes.Equal(v, want) {
				return true
			}
		}
		if len(b) > 0 || environless(pid) {
			return false
		}
		time.Sleep(100 * time.Microsecond)
	}
	return false
}

// environless reports whether pid has no environment for good: it has ended, or is a thread of the kernel, or was
// started with an empty one.
func environless(pid int) bool {
	const kernelThread = 0x00200000 // PF_KTHREAD of linux/sched.h
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if err != nil || len(f) < 49 {
		return true
	}
	flags, err := strconv.ParseUint(f[6], 10, 64)
	begin, end := f[47], f[48] // 0 while the next program is being set up
	return err != nil || flags&kernelThread != 0 || f[0] == "Z" || f[0] == "X" || begin == end && begin != "0"
}

// signal sends s to exactly this process; one that has ended is no error.
func (e entry) signal(s unix.Signal) error {
	fd, err := unix.PidfdOpen(e.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err == nil {
		defer unix.Close(fd)
	}
	if now, ok := readStat(e.pid); !ok || now.start != e.start {
		return nil
	}
	if err == nil {
		err = unix.PidfdSendSignal(fd, s, nil, 0)
	} else { // no pidfd on this kernel
		err = unix.Kill(e.pid, s)
	}
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

func startTime(pid int) (uint64, bool) {
	e, ok := readStat(pid)
	return e.start, ok
}

// Alive reports whether the process pid that began at start (see Proc.StartMark) still runs. One that has exited and
// waits to be collected does not.
func Alive(pid int, start uint64) bool {
	e, ok := readStat(pid)
	return ok && e.start == start && !e.gone()
}

// Sweep kills every process that carries mark in its environment or sits in a cgroup of that mark, removes those
// cgroups, and returns how many it killed. It is for what a crashed ferry left behind; a mark that nothing carries is
// no error.
func Sweep(mark string) (int, error) {
	if mark == "" {
		return 0, errors.New("sweep: no mark given")
	}
	if err := checkMark(mark); err != nil {
		return 0, fmt.Errorf("sweep: %w", err)
	}
	if os.Getenv(MarkVariable) == mark {
		return 0, fmt.Errorf("sweep %s: this process itself runs under that mark", mark)
	}
	t := tree{mark: mark, group: findGroup(mark)}
	found := len(t.members())
	n, err := endTree(t, endLimit)
	n = max(n, found) // a cgroup is killed at once, before anybody counts
	if err = errors.Join(err, t.group.remove()); err != nil {
		return n, fmt.Errorf("sweep %s: %w", mark, err)
	}
	return n, nil
}

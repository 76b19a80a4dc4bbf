package process

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// groupPrefix begins the name of every cgroup that ferry creates; the mark follows.
const groupPrefix = "ferry-"

// group is the cgroups of one tree: at most one of version 2 and one for each version 1 controller. The zero value is
// a tree without any.
type group struct {
	v2     string
	v1     []v1Group
	pids   string // the directory whose pids.max holds, when one does
	memory string // the same for memory
	stray  bool   // the starting thread could not leave a version 1 group
}

type v1Group struct{ dir, home string } // home is the group that ferry itself is in

// hierarchy is one mounted cgroup tree: where ferry sits in it, and its mount point.
type hierarchy struct{ mount, own string }

// newGroup creates the cgroups for mark, as far as this process may. Only a mark that is still in use is an error.
func newGroup(mark string, limits Limits) (*group, error) {
	g := &group{}
	if mark == "" {
		return g, nil
	}
	found := hierarchies()
	if err := g.createV2(found[""], mark, limits); err != nil {
		return nil, err
	}
	if h, ok := found["pids"]; ok && g.pids == "" && (limits.Pids > 0 || g.v2 == "") {
		if err := g.createV1(h, mark, g.limitPids(limits)); err != nil {
			return nil, errors.Join(err, g.remove())
		}
	}
	if h, ok := found["memory"]; ok && g.memory == "" && limits.MemoryBytes > 0 {
		if err := g.createV1(h, mark, g.limitMemoryV1(limits)); err != nil {
			return nil, errors.Join(err, g.remove())
		}
	}
	return g, nil
}

// createV2 makes the version 2 group below our own or beside it, where the controllers that the limits need are.
func (g *group) createV2(h hierarchy, mark string, limits Limits) error {
	if h.mount == "" {
		return nil
	}
	parents := []string{h.own}
	if h.own != h.mount {
		parents = append(parents, filepath.Dir(h.own))
	}
	slices.SortStableFunc(parents, func(a, b string) int { return controllers(b, limits) - controllers(a, limits) })
	for _, parent := range parents {
		dir := filepath.Join(parent, groupPrefix+mark)
		switch made, err := makeGroup(dir); {
		case err != nil:
			return err
		case !made:
			continue
		}
		g.v2 = dir
		if limits.Pids > 0 && put(dir, "pids.max", int64(limits.Pids)) == nil {
			g.pids = dir
		}
		if limits.MemoryBytes > 0 && put(dir, "memory.max", limits.MemoryBytes) == nil {
			g.memory = dir
			// Both are absent on some kernels and only sharpen the limit.
			_ = put(dir, "memory.swap.max", 0)
			_ = put(dir, "memory.oom.group", 1)
		}
		return nil
	}
	return nil
}

// controllers counts the controllers for limits that children of dir would have.
func controllers(dir string, limits Limits) int {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return 0
	}
	have, n := strings.Fields(string(b)), 0
	if limits.Pids > 0 && slices.Contains(have, "pids") {
		n++
	}
	if limits.MemoryBytes > 0 && slices.Contains(have, "memory") {
		n++
	}
	return n
}

// createV1 makes a version 1 group and keeps it when limit accepts it.
func (g *group) createV1(h hierarchy, mark string, limit func(dir string) error) error {
	dir := filepath.Join(h.own, groupPrefix+mark)
	made, err := makeGroup(dir)
	if err != nil || !made {
		return err
	}
	if err := limit(dir); err != nil {
		_ = os.Remove(dir) // an empty group of ours; rlimits hold instead
		return nil
	}
	g.v1 = append(g.v1, v1Group{dir: dir, home: h.own})
	return nil
}

func (g *group) limitPids(limits Limits) func(string) error {
	return func(dir string) error {
		if limits.Pids == 0 {
			return nil
		}
		if err := put(dir, "pids.max", int64(limits.Pids)); err != nil {
			return err
		}
		g.pids = dir
		return nil
	}
}

func (g *group) limitMemoryV1(limits Limits) func(string) error {
	return func(dir string) error {
		if err := put(dir, "memory.limit_in_bytes", limits.MemoryBytes); err != nil {
			return err
		}
		g.memory = dir
		_ = put(dir, "memory.memsw.limit_in_bytes", limits.MemoryBytes) // absent without swap accounting
		return nil
	}
}

// makeGroup makes a cgroup directory, or takes over an empty one of the same mark. It reports false where this
// process may not, and an error when processes still sit in it.
func makeGroup(dir string) (bool, error) {
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		if pids := groupProcs(dir); len(pids) > 0 {
			return false, fmt.Errorf("mark %s is in use: %d processes run in %s: sweep it first",
				strings.TrimPrefix(filepath.Base(dir), groupPrefix), len(pids), dir)
		}
		err = nil
	}
	return err == nil, nil
}

// enter calls start so that the process it starts is born inside the group.
func (g *group) enter(start func(*syscall.SysProcAttr) error) error {
	plain := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	g.visit()
	defer g.leave()
	if g.v2 == "" {
		return start(plain)
	}
	fd, err := unix.Open(g.v2, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(fd)
		inside := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, UseCgroupFD: true, CgroupFD: fd}
		if err = start(inside); err == nil {
			return nil
		}
	}
	// Either the kernel refuses the group or the program cannot run at all; a start without the group tells.
	g.dropV2()
	return start(plain)
}

// visit moves this thread into the version 1 groups: a child is born in the groups of the thread that forks it.
func (g *group) visit() {
	g.v1 = slices.DeleteFunc(g.v1, func(v v1Group) bool {
		if put(v.dir, "tasks", int64(unix.Gettid())) == nil {
			return false
		}
		g.forget(v.dir)
		return true
	})
}

// leave moves this thread back home.
func (g *group) leave() {
	for _, v := range g.v1 {
		if put(v.home, "tasks", int64(unix.Gettid())) != nil {
			g.stray = true
		}
	}
}

func (g *group) dropV2() {
	g.forget(g.v2)
	g.v2 = ""
}

// forget removes an empty group of ours and the limits that it held; rlimits hold instead.
func (g *group) forget(dir string) {
	_ = os.Remove(dir) // a later Sweep of the mark removes it otherwise
	if g.pids == dir {
		g.pids = ""
	}
	if g.memory == dir {
		g.memory = ""
	}
}

// stranded reports whether the thread that started the tree must not run anything else.
func (g *group) stranded() bool { return g != nil && g.stray }

func (g *group) dirs() []string {
	var dirs []string
	if g.v2 != "" {
		dirs = append(dirs, g.v2)
	}
	for _, v := range g.v1 {
		dirs = append(dirs, v.dir)
	}
	return dirs
}

// kill kills what is in the version 2 group at once and stops every fork in a pids group. What it cannot do, the
// caller does process by process.
func (g *group) kill() {
	if g.v2 != "" {
		_ = put(g.v2, "cgroup.kill", 1)
	}
	if g.pids != "" {
		_ = put(g.pids, "pids.max", 0)
	}
}

// freeze stops or continues the version 2 group. It reports false where there is none.
func (g *group) freeze(on bool) (bool, error) {
	if g.v2 == "" {
		return false, nil
	}
	want := map[bool]int64{false: 0, true: 1}[on]
	if err := put(g.v2, "cgroup.freeze", want); err != nil {
		return false, nil
	}
	for deadline := time.Now().Add(2 * time.Second); ; time.Sleep(time.Millisecond) {
		if value(g.v2, "cgroup.events", "frozen") == want {
			return true, nil
		}
		if time.Now().After(deadline) {
			return true, fmt.Errorf("%s: the kernel did not report frozen %d within 2s", g.v2, want)
		}
	}
}

func (g *group) procs() []int {
	var pids []int
	for _, dir := range g.dirs() {
		pids = append(pids, groupProcs(dir)...)
	}
	return pids
}

// groupProcs returns the processes in dir and below it.
func groupProcs(dir string) []int {
	var pids []int
	// A group that vanishes during the walk has no processes.
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		b, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for f := range bytes.FieldsSeq(b) {
			if pid, err := strconv.Atoi(string(f)); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids
}

// usage returns what the groups know about the tree.
func (g *group) usage() Exit {
	var e Exit
	if g.v2 != "" {
		e.CPU = time.Duration(max(value(g.v2, "cpu.stat", "usage_usec"), 0)) * time.Microsecond
	}
	if g.memory != "" {
		e.OOM = value(g.memory, "memory.events", "oom_kill") > 0 || value(g.memory, "memory.oom_control", "oom_kill") > 0
	}
	return e
}

// remove removes the groups and what the processes made below them. The kernel may need a moment after the last exit.
func (g *group) remove() error {
	var errs []error
	for _, dir := range g.dirs() {
		errs = append(errs, removeGroup(dir))
	}
	return errors.Join(errs...)
}

func removeGroup(dir string) error {
	for deadline := time.Now().Add(2 * time.Second); ; time.Sleep(time.Millisecond) {
		var below []string
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				below = append(below, path)
			}
			return nil
		})
		var err error
		for _, path := range slices.Backward(below) {
			err = os.Remove(path)
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("remove cgroup: %w", err)
		}
	}
}

// findGroup returns the groups of mark wherever they are mounted: a crashed ferry may have run in another place.
func findGroup(mark string) *group {
	g := &group{}
	for controller, h := range hierarchies() {
		_ = filepath.WalkDir(h.mount, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil
			}
			if d.Name() != groupPrefix+mark {
				return nil
			}
			if controller == "" && g.v2 == "" {
				g.v2 = path
			} else {
				g.v1 = append(g.v1, v1Group{dir: path})
			}
			return fs.SkipDir
		})
	}
	return g
}

// hierarchies returns the cgroup trees that are mounted: version 2 under "", version 1 under its controller.
func hierarchies() map[string]hierarchy {
	own := map[string]string{}
	for line := range lines("/proc/self/cgroup") {
		if f := strings.SplitN(line, ":", 3); len(f) == 3 {
			for controller := range strings.SplitSeq(f[1], ",") {
				own[controller] = f[2]
			}
		}
	}
	found := map[string]hierarchy{}
	for line := range lines("/proc/self/mountinfo") {
		before, after, _ := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if len(left) < 5 || len(right) < 3 {
			continue
		}
		var names []string
		switch right[0] {
		case "cgroup2":
			names = []string{""}
		case "cgroup":
			names = strings.Split(right[2], ",")
		}
		for _, name := range names {
			path, ok := own[name]
			rel, err := filepath.Rel(left[3], path)
			if !ok || err != nil || strings.HasPrefix(rel, "..") || found[name].mount != "" {
				continue
			}
			found[name] = hierarchy{mount: left[4], own: filepath.Join(left[4], rel)}
		}
	}
	keep := map[string]hierarchy{}
	for _, name := range []string{"", "pids", "memory"} {
		if h, ok := found[name]; ok {
			keep[name] = h
		}
	}
	return keep
}

// lines yields the lines of a file of the kernel; one that cannot be read has none.
func lines(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		b, _ := os.ReadFile(path)
		for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
			if !yield(s.Text()) {
				return
			}
		}
	}
}

// put writes a number into a control file that exists.
func put(dir, file string, n int64) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strconv.FormatInt(n, 10))
	return errors.Join(err, f.Close())
}

// value reads "key number" from a control file; what is missing is -1.
func value(dir, file, key string) int64 {
	for line := range lines(filepath.Join(dir, file)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == key {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				return n
			}
		}
	}
	return -1
}

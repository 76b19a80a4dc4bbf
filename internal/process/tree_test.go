package process_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry/internal/process"
)

// dyingRole makes this test binary play a ferry that dies: it starts one tree and waits to be killed.
const dyingRole = "PROCESS_TEST_DYING_FERRY"

func TestMain(m *testing.M) {
	if script := os.Getenv(dyingRole); script != "" {
		spec := sh(script)
		spec.Mark = os.Getenv("PROCESS_TEST_MARK")
		spec.Env = append(spec.Env, "TREE="+os.Getenv("TREE_NAME"))
		p, err := process.Start(spec)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		p.Wait()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// treeName is a value of TREE in the environment that only this test gives to processes.
func treeName(t *testing.T) string {
	return strings.NewReplacer("/", "-", "#", "-").Replace(t.Name()) + "-" + strconv.Itoa(os.Getpid())
}

// carriers returns the live processes with TREE=name in their environment, by a way of looking of its own.
func carriers(t *testing.T, name string) []int {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err == nil && bytes.Contains(append([]byte{0}, b...), []byte("\x00TREE="+name+"\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// groupDirs returns the cgroups of mark that exist.
func groupDirs(mark string) []string {
	var dirs []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "ferry-"+mark {
			dirs = append(dirs, path)
		}
		return nil
	})
	return dirs
}

// trees are the ways in which a tree tries to stay. Each says "ready" when all of it is there.
var trees = []struct {
	name, script string
	atLeast      int // processes when ready
}{
	{"double fork with setsid", `setsid sh -c 'sleep 1000 & sleep 1000 & echo ready; wait' & wait`, 4},
	{"orphan of a setsid", `(setsid sh -c '(sleep 1000 & sleep 1000 & echo ready)' &) ; exec sleep 1000`, 3},
	{"deaf to signals", `trap '' TERM INT HUP QUIT; sh -c 'trap "" TERM HUP; echo ready; while :; do sleep 1; done'`, 2},
	{"fork loop", `echo ready; while :; do setsid sleep 1000 & n=$((n+1)); [ $n -gt 300 ] && sleep 1; done`, 1},
	{"hopping chain", `echo 'setsid sh "$0" & exit' >"$1"; setsid sh "$1" & echo ready; exec sleep 1000`, 1},
	{"holds the output", `sh -c 'sleep 1000' 2>&1 & echo ready; wait`, 2},
	{"stopped", `sh -c 'kill -STOP $$' & echo ready; wait`, 1},
}

func TestKillEndsTheTree(t *testing.T) {
	for _, tt := range trees {
		t.Run(tt.name, func(t *testing.T) {
			p, name, mark := startTree(t, tt.script)
			eventually(t, "the whole tree runs", func() bool { return len(carriers(t, name)) >= tt.atLeast })
			began := time.Now()
			if err := p.Kill(); err != nil {
				t.Errorf("Kill: %v", err)
			}
			t.Logf("killed in %v, cgroups %v", time.Since(began), groupDirs(mark))
			if left := carriers(t, name); len(left) > 0 {
				t.Errorf("survivors: %v", left)
			}
			if exit := p.Wait(); exit.Signal != "killed" || exit.Code != -1 {
				t.Errorf("Wait() = %+v, want killed", exit)
			}
			if err := p.Kill(); err != nil {
				t.Errorf("second Kill: %v", err)
			}
			if dirs := groupDirs(mark); len(dirs) > 0 {
				t.Errorf("cgroups are left: %v", dirs)
			}
		})
	}
}

// startTree starts script with a mark and waits until it says ready.
func startTree(t *testing.T, script string) (p *process.Proc, name, mark string) {
	t.Helper()
	name, mark = treeName(t), "test-"+strconv.Itoa(os.Getpid())+"-"+strings.ReplaceAll(filepath.Base(t.Name()), "_", "-")
	spec := sh(script, filepath.Join(t.TempDir(), "hop"))
	spec.Env = append(spec.Env, "TREE="+name)
	spec.Mark = mark
	r, w := io.Pipe()
	spec.Stdout = w
	p, err := process.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	line := make([]byte, 6)
	if _, err := io.ReadFull(r, line); err != nil || string(line) != "ready\n" {
		t.Fatalf("first output %q, %v", line, err)
	}
	go io.Copy(io.Discard, r) // ends with the test binary; the process never waits for it
	return p, name, mark
}

func TestTreeEndsWithItsLeader(t *testing.T) {
	p, name, _ := startTree(t, `setsid sh -c 'sleep 1000 & echo ready; wait' & sleep 0.1; exit 5`)
	began := time.Now()
	if exit := p.Wait(); exit.Code != 5 {
		t.Errorf("Wait() = %+v, want code 5", exit)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("a grandchild that holds the output held Wait for %v", took)
	}
	if left := carriers(t, name); len(left) > 0 {
		t.Errorf("survivors: %v", left)
	}
}

func TestLastOutputOfDescendantIsRead(t *testing.T) {
	var out bytes.Buffer
	spec := sh(`(sleep 0.1; echo late) & echo early`)
	spec.Stdout = &out
	if _, err := process.Run(t.Context(), spec); err != nil || out.String() != "early\nlate\n" {
		t.Errorf("output %q, %v", out.String(), err)
	}
}

func TestFreezeAndThaw(t *testing.T) {
	p, name, _ := startTree(t, `setsid sh -c 'echo ready; while :; do :; done' & while :; do :; done`)
	used := func() (ticks string) {
		for _, pid := range carriers(t, name) {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil {
				t.Fatal(err)
			}
			f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
			ticks += f[11] + "+" + f[12] + " "
		}
		return ticks
	}
	for range 2 {
		if err := p.Freeze(); err != nil {
			t.Fatal(err)
		}
		before := used()
		eventually(t, "another process gets time", func() bool {
			_, err := process.Run(t.Context(), sh("i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done"))
			return err == nil
		})
		if after := used(); after != before {
			t.Errorf("a frozen tree used time: %s, then %s", before, after)
		}
		if err := p.Thaw(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the tree goes on", func() bool { return used() != before })
	}
	if err := p.Freeze(); err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Errorf("Kill of a frozen tree: %v", err)
	}
	if left := carriers(t, name); len(left) > 0 {
		t.Errorf("survivors: %v", left)
	}
	if err := errors.Join(p.Freeze(), p.Thaw()); err != nil {
		t.Errorf("after the end: %v", err)
	}
}

func TestSweepAfterFerryDied(t *testing.T) {
	for _, tt := range trees {
		t.Run(tt.name, func(t *testing.T) {
			name, mark := treeName(t), "swept-"+strconv.Itoa(os.Getpid())
			ferry := startDyingFerry(t, tt.script, name, mark)
			eventually(t, "the tree runs", func() bool { return len(carriers(t, name)) >= tt.atLeast })
			if err := syscall.Kill(ferry.Pid(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			ferry.Wait()
			n, err := process.Sweep(mark)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("swept %d", n)
			if left := carriers(t, name); len(left) > 0 {
				t.Errorf("survivors: %v", left)
			}
			if dirs := groupDirs(mark); len(dirs) > 0 {
				t.Errorf("cgroups are left: %v", dirs)
			}
			if n, err := process.Sweep(mark); n != 0 || err != nil {
				t.Errorf("second Sweep = %d, %v; want nothing to do", n, err)
			}
		})
	}
}

func startDyingFerry(t *testing.T, script, name, mark string) *process.Proc {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script = strings.ReplaceAll(script, `"$1"`, filepath.Join(t.TempDir(), "hop"))
	ferry, err := process.Start(process.Spec{
		Argv: []string{exe},
		Env:  []string{testPath, dyingRole + "=" + script, "PROCESS_TEST_MARK=" + mark, "TREE_NAME=" + name},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ferry.Kill(); err != nil {
			t.Error(err)
		}
	})
	return ferry
}

func TestSweepRefuses(t *testing.T) {
	t.Setenv(process.MarkVariable, "mine")
	for mark, want := range map[string]string{"": "no mark", "a/b": "only letters", "mine": "this process itself"} {
		if _, err := process.Sweep(mark); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Sweep(%q) = %v, want %q", mark, err, want)
		}
	}
}

func TestMarkInUse(t *testing.T) {
	_, _, mark := startTree(t, "echo ready; sleep 1000")
	if len(groupDirs(mark)) == 0 {
		t.Skip("no cgroup can be created here, and without one a mark is not exclusive")
	}
	spec := sh("exit 0")
	spec.Mark = mark
	if _, err := process.Start(spec); err == nil || !strings.Contains(err.Error(), "sweep it first") {
		t.Errorf("second Start with the same mark: %v", err)
	}
}

func TestAlive(t *testing.T) {
	p, err := process.Start(sh("sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	if !process.Alive(p.Pid(), p.StartMark()) {
		t.Error("a running process is not alive")
	}
	if process.Alive(p.Pid(), p.StartMark()+1) {
		t.Error("another process with the same pid counts as alive")
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if process.Alive(p.Pid(), p.StartMark()) {
		t.Error("a killed process is alive")
	}
}

func TestLimits(t *testing.T) {
	tests := []struct {
		name, script string
		limits       process.Limits
		want         string
	}{
		{"file size", `dd if=/dev/zero of="$1" bs=1k count=100 2>/dev/null; wc -c <"$1"`, process.Limits{FileBytes: 8 << 10}, "8192"},
		{"open files", "ulimit -n; ulimit -c", process.Limits{OpenFiles: 17}, "17\n0"},
		{"forks", `n=0; while [ $n -lt 400 ]; do (exec sleep 1000) & n=$((n+1)); done 2>/dev/null; echo unlimited`,
			process.Limits{Pids: 50}, ""},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := sh(tt.script, filepath.Join(t.TempDir(), "file"))
			spec.Limits, spec.Mark = tt.limits, fmt.Sprintf("limits-%d-%d", os.Getpid(), i)
			out, exit, err := process.Output(t.Context(), spec, 1000)
			if got := strings.TrimSpace(string(out)); got != tt.want {
				t.Errorf("output %q (%+v, %v), want %q", got, exit, err, tt.want)
			}
		})
	}
}

func TestMemoryLimit(t *testing.T) {
	spec := sh(`head -c 200000000 /dev/zero | tail -c 200000000 | wc -c`)
	spec.Limits, spec.Mark = process.Limits{MemoryBytes: 50 << 20}, "memory-"+strconv.Itoa(os.Getpid())
	out, exit, err := process.Output(t.Context(), spec, 1000)
	if got := strings.TrimSpace(string(out)); got == "200000000" {
		t.Errorf("200 MB were held under a limit of 50 MiB (%+v, %v)", exit, err)
	}
	t.Logf("%+v", exit)
}

func TestThreadsStayHome(t *testing.T) {
	for i := range 20 {
		spec := sh("exit 0")
		spec.Limits, spec.Mark = process.Limits{Pids: 10, MemoryBytes: 100 << 20}, fmt.Sprintf("home-%d-%d", os.Getpid(), i)
		if _, err := process.Run(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	tasks, err := filepath.Glob("/proc/self/task/*/cgroup")
	if err != nil || len(tasks) == 0 {
		t.Fatalf("threads: %v, %v", tasks, err)
	}
	for _, task := range tasks {
		if b, _ := os.ReadFile(task); strings.Contains(string(b), "ferry-home") {
			t.Errorf("a thread of ferry stayed in a limited group: %s", b)
		}
	}
}

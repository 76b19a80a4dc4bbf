package atomicfile

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const childEnv = "ATOMICFILE_TEST_CHILD"

// TestMain lets the test binary play the process that is killed or that meets a limit.
func TestMain(m *testing.M) {
	if job := os.Getenv(childEnv); job != "" {
		os.Exit(child(strings.Split(job, ",")))
	}
	os.Exit(m.Run())
}

func child(job []string) int {
	if job[0] == "limit" {
		return writeUnderLimit(job[1])
	}
	s := steps{noUnname: job[0] == "link", at: func(step string) {
		if step == job[1] {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}}
	do := steps.create
	if job[0] == "write" {
		do = steps.replace
	}
	err := s.atPath(job[2], func(s steps, d *os.File, base string) error { return do(s, d, base, []byte("new content"), 0o600) }, job[0])
	if err != nil {
		return 1
	}
	return 0
}

func startChild(t *testing.T, job ...string) error {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(job, ","))
	return cmd.Run()
}

func TestKillBetweenSteps(t *testing.T) {
	for _, how := range []string{"write", "create", "link"} {
		for _, step := range []string{"opened", "written", "synced", "named"} {
			t.Run(how+"/"+step, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "file")
				want := ""
				if how == "write" {
					want = "old content"
					if err := Write(path, []byte(want), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if step == "named" {
					want = "new content"
				}
				var exit *exec.ExitError
				if err := startChild(t, how, step, path); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Fatalf("child ended with %v, want SIGKILL", err)
				}
				got, err := os.ReadFile(path)
				if string(got) != want || (want == "") != errors.Is(err, os.ErrNotExist) {
					t.Errorf("after the kill the file holds %q, %v, want %q", got, err, want)
				}
				if err := startChild(t, how, "none", path); err != nil {
					t.Errorf("the same write again: %v", err)
				}
				if _, err := RemoveTemps(dir); err != nil {
					t.Error(err)
				}
				if entries, _ := os.ReadDir(dir); len(entries) != 1 {
					t.Errorf("left over: %v", entries)
				}
			})
		}
	}
}

func TestCreateWithoutUnnamedFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	named := steps{noUnname: true}
	create := func(data string) error {
		return named.atPath(path, func(s steps, d *os.File, base string) error { return s.create(d, base, []byte(data), 0o600) }, "create")
	}
	if err := errors.Join(create("a"), create("a")); err != nil {
		t.Error(err)
	}
	if err := create("b"); !errors.Is(err, ErrDiffers) {
		t.Errorf("create = %v, want ErrDiffers", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left over: %v", entries)
	}
}

func TestRenameNoReplace(t *testing.T) {
	dir := t.TempDir()
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	temp, err := steps{}.writeTemp(d, []byte("x"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(dir, "taken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := renameNoReplace(d, temp, "taken"); err == nil {
		t.Error("renameNoReplace replaced a file")
	}
	if err := renameNoReplace(d, temp, "free"); err != nil && !errors.Is(err, unix.ENOTSUP) {
		t.Errorf("renameNoReplace = %v", err)
	}
}

// The walk is what runs where the kernel has no openat2; it must refuse the same paths.
func TestWalkBeneath(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(MkdirAll(filepath.Join(dir, "a", "b"), 0o700), Write(filepath.Join(dir, "a", "b", "f"), []byte("x"), 0o600),
		os.Symlink("a", filepath.Join(dir, "link")), os.Symlink("f", filepath.Join(dir, "a", "b", "last"))); err != nil {
		t.Fatal(err)
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for rel, ok := range map[string]bool{
		"a/b/f": true, "a/b": true, "link/b/f": false, "a/b/last": false, "a/../a/b/f": false, "/etc/passwd": false, "a/x/f": false, "a/b/f/g": false,
	} {
		fd, err := walkBeneath(d, rel, unix.O_RDONLY)
		if (err == nil) != ok {
			t.Errorf("walkBeneath(%q) = %v, want success %v", rel, err, ok)
		}
		if err == nil {
			unix.Close(fd)
		}
	}
}

func TestFileSizeLimit(t *testing.T) {
	dir := t.TempDir()
	if err := startChild(t, "limit", dir); err != nil {
		t.Error(err)
	}
}

// writeUnderLimit checks what a write does that runs out of room in its middle.
func writeUnderLimit(dir string) int {
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 4096, Max: 4096}); err != nil {
		return 2
	}
	return checkNoRoom(dir, make([]byte, 10_000))
}

// checkNoRoom does every kind of write with more data than fits and returns a code for the first thing that went wrong.
func checkNoRoom(dir string, big []byte) int {
	path := filepath.Join(dir, "file")
	if Write(path, []byte("old"), 0o600) != nil {
		return 3
	}
	if Write(path, big, 0o600) == nil || Create(filepath.Join(dir, "new"), big, 0o600) == nil {
		return 4
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		return 5
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		return 6
	}
	log, err := OpenLog(filepath.Join(dir, "log"))
	if err != nil {
		return 7
	}
	defer log.Close()
	if _, err := log.Append([]byte("good")); err != nil {
		return 8
	}
	if _, err := log.Append(big); err == nil {
		return 9
	}
	if size, _ := log.Size(); size > 4 {
		if _, err := log.Append([]byte("x")); !errors.Is(err, ErrTorn) {
			return 10
		}
	}
	if log.Truncate(4) != nil {
		return 11
	}
	if off, err := log.Append([]byte("more")); off != 4 || err != nil {
		return 12
	}
	return 0
}

package box

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ferry-fleet/ferry/internal/process"
)

// minABI is the first Landlock that denies truncating a file (Linux 6.2).
const minABI = 3

// The file rights by the Landlock version that knows them.
const (
	rightsRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR

	rightsV3 = unix.LANDLOCK_ACCESS_FS_TRUNCATE<<1 - 1 // every right up to truncate
	rightsV5 = rightsV3 | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

	// rightsFile are those that mean something on a file; the kernel refuses the others there.
	rightsFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// landlockRead is what every box may read. Of /proc only its own entry and what tells about the machine as a whole.
var landlockRead = slices.Concat([]string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/libx32", "/lib64", "/etc/passwd", "/etc/group",
	"/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/version",
	"/proc/filesystems", "/proc/sys/kernel/osrelease", "/proc/sys/vm/overcommit_memory", "/sys/devices/system/cpu",
	"/sys/kernel/mm/transparent_hugepage",
}, sharedEtc)

var landlockDevices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// landlockTask is what the helper is told, over a descriptor: environment values do not belong on a command line.
type landlockTask struct {
	Program string
	Argv    []string
	Env     []string
	Dir     string
	Read    []string
	Write   []string
	Net     Net
	Userns  bool
}

func (s Spec) landlock(argv []string, home string) (*Command, error) {
	if os.Geteuid() == 0 {
		return nil, errors.New("landlock does not hold root: run ferry as an ordinary user, or " + installs)
	}
	if abi := landlockABI(); abi < minABI {
		return nil, fmt.Errorf("landlock ABI %d on this kernel, %d is needed (Linux 6.2): %s", abi, minABI, installs)
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	login, err := readLogin(home, s.Login)
	if err != nil {
		return nil, err
	}
	own, err := s.privateDirs(login)
	if err != nil {
		return nil, err
	}
	discard := func() error { return os.RemoveAll(own) }
	task, err := s.landlockTask(argv, own)
	if err != nil {
		return nil, errors.Join(err, discard())
	}
	text, err := json.Marshal(task)
	if err != nil {
		return nil, errors.Join(err, discard())
	}
	file, err := memoryFile("task", text)
	if err != nil {
		return nil, errors.Join(err, discard())
	}
	return &Command{
		Spec: process.Spec{
			Argv: []string{exe, helperLandlock}, Env: []string{"PATH=" + hostPath}, Dir: s.Work,
			ExtraFiles: []*os.File{file}, Mark: s.Mark, Limits: s.Limits,
		},
		Close:  func() error { return errors.Join(file.Close(), discard()) },
		Inside: s.insideLandlock(home, filepath.Join(own, "home")),
	}, nil
}

func (s Spec) landlockTask(argv []string, own string) (landlockTask, error) {
	home, tmp := filepath.Join(own, "home"), filepath.Join(own, "tmp")
	env := append(without(s.Env, "HOME", "TMPDIR", "USER", process.MarkVariable),
		"HOME="+home, "TMPDIR="+tmp, "USER=agent")
	if s.Mark != "" {
		env = append(env, process.MarkVariable+"="+s.Mark)
	}
	t := landlockTask{
		Argv: argv, Dir: s.Work, Net: s.Net, Userns: s.Userns,
		// Git gives up on a system configuration that it may not read, and here it is not missing but forbidden.
		Env:  withDefaults(env, [][2]string{{"PATH", boxPath}, {"GIT_CONFIG_NOSYSTEM", "1"}}),
		Read: slices.Clone(landlockRead), Write: slices.Concat(landlockDevices, []string{home, tmp}),
	}
	if s.Net == NetOpen {
		t.Read = append(t.Read, networkEtc...)
	}
	for _, b := range append(slices.Clone(s.Binds), Bind{Host: s.Work, Write: !s.WorkReadOnly}) {
		if _, err := os.Stat(b.Host); b.Optional && errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return t, fmt.Errorf("bind: %w", err)
		}
		if b.Write {
			t.Write = append(t.Write, b.Host)
			continue
		}
		t.Read = append(t.Read, b.Host)
	}
	path := boxPath
	for _, v := range t.Env {
		if len(v) > 5 && v[:5] == "PATH=" {
			path = v[5:]
		}
	}
	var err error
	t.Program, err = process.LookPath(argv[0], path)
	return t, err
}

// privateDirs makes the home and the temporary directory of one box below State.
func (s Spec) privateDirs(login []loginFile) (string, error) {
	if err := absolute("state directory", s.State); err != nil {
		return "", err
	}
	if err := os.MkdirAll(s.State, 0o700); err != nil {
		return "", err
	}
	own, err := os.MkdirTemp(s.State, "box-")
	if err != nil {
		return "", err
	}
	err = errors.Join(os.Mkdir(filepath.Join(own, "home"), 0o700), os.Mkdir(filepath.Join(own, "tmp"), 0o700))
	for _, f := range login {
		if err == nil {
			err = writePrivate(filepath.Join(own, "home", f.rel), f.data)
		}
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(own))
	}
	return own, nil
}

// writePrivate writes a file that lives as long as the box: it needs no more than to be there.
func writePrivate(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

func (s Spec) insideLandlock(home, private string) func(string) string {
	return func(host string) string {
		for _, p := range s.Login {
			if rel, err := filepath.Rel(home, host); err == nil && within(host, p) {
				return filepath.Join(private, rel)
			}
		}
		return filepath.Clean(host)
	}
}

// landlockABI returns the version that the kernel has; 0 is none.
func landlockABI() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// restrict confines this thread, and so the program that it executes next, to what t names.
func (t landlockTask) restrict() error {
	abi := landlockABI()
	attr := unix.LandlockRulesetAttr{Handled_access_fs: rightsV3}
	if abi >= 4 && t.Net == NetNone {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if abi >= 5 {
		attr.Handled_access_fs = rightsV5
	}
	if abi >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	if abi >= 9 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return fmt.Errorf("create landlock ruleset: %w", errno)
	}
	defer unix.Close(int(fd))
	for _, path := range t.Read {
		if err := allow(int(fd), path, rightsRead); err != nil {
			return err
		}
	}
	for _, path := range t.Write {
		if err := allow(int(fd), path, attr.Handled_access_fs); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no new privileges: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("enter landlock: %w", errno)
	}
	return nil
}

// allow adds a rule; what is not there needs none.
func allow(ruleset int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("allow %s: %w", path, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("allow %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= rightsFile
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("allow %s: %w", path, errno)
	}
	return nil
}

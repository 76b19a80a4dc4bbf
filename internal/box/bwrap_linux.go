package box

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ferry-fleet/ferry/internal/process"
)

const (
	// hostPath is where tools of the host are looked for, whatever the environment says.
	hostPath = boxPath + ":/run/current-system/sw/bin"
	boxID    = "1000"
	installs = "install bubblewrap (apt-get install bubblewrap)"
)

// firstData is the descriptor of the first extra file in the child.
const firstData = 3

// sharedEtc is what programs need of /etc and what holds no secret; the rest of /etc is not there.
var sharedEtc = []string{
	"/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/pki/tls/certs",
	"/etc/pki/tls/cert.pem", "/etc/pki/ca-trust/extracted", "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf",
	"/etc/ld.so.conf.d", "/etc/localtime", "/etc/mime.types", "/etc/protocols", "/etc/services",
}

// networkEtc is what name lookups need; only a box with a network has it.
var networkEtc = []string{"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"}

// launch collects the arguments and the data files of one bwrap command.
type launch struct {
	args  []string
	files []*os.File
}

func (l *launch) add(args ...string) { l.args = append(l.args, args...) }

// data adds an option that reads content from a descriptor.
func (l *launch) data(name string, content []byte) (fd string, err error) {
	f, err := memoryFile(name, content)
	if err != nil {
		return "", err
	}
	l.files = append(l.files, f)
	return strconv.Itoa(firstData + len(l.files) - 1), nil
}

// file puts a file of this content into the box.
func (l *launch) file(dest string, perms string, content []byte) error {
	fd, err := l.data(path.Base(dest), content)
	if err != nil {
		return err
	}
	l.add("--perms", perms, "--file", fd, dest)
	return nil
}

func (l *launch) close() error {
	var errs []error
	for _, f := range l.files {
		errs = append(errs, f.Close())
	}
	l.files = nil
	return errors.Join(errs...)
}

func (s Spec) bwrap(argv []string, home string) (*Command, error) {
	program, err := process.LookPath("bwrap", hostPath)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, installs)
	}
	version, err := bwrapVersion(program)
	if err != nil {
		return nil, err
	}
	login, err := readLogin(home, s.Login)
	if err != nil {
		return nil, err
	}
	if s.Net == NetProxy {
		if s, err = s.withPortProgram(); err != nil {
			return nil, err
		}
	}
	l := &launch{}
	if err := s.compose(l, version, login); err != nil {
		return nil, errors.Join(err, l.close())
	}
	closing := l.close
	if s.Net == NetProxy {
		if argv, closing, err = s.port(l, argv); err != nil {
			return nil, errors.Join(err, l.close())
		}
	}
	fd, err := l.data("args", []byte(strings.Join(l.args, "\x00")+"\x00"))
	if err != nil {
		return nil, errors.Join(err, closing())
	}
	return &Command{
		Spec: process.Spec{
			Argv:       append([]string{program, "--args", fd, "--"}, argv...),
			Env:        []string{"PATH=" + hostPath},
			Dir:        "/",
			ExtraFiles: slices.Clone(l.files),
			Mark:       s.Mark,
			Limits:     s.Limits,
		},
		Close:  closing,
		Inside: s.insideBwrap(home),
	}, nil
}

// compose writes the options in the order in which bwrap carries them out.
func (s Spec) compose(l *launch, version [2]int, login []loginFile) error {
	l.add("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
		"--uid", boxID, "--gid", boxID, "--hostname", "ferry", "--clearenv")
	if s.Net == NetOpen {
		l.add("--share-net")
	}
	if !s.Userns && (version[0] > 0 || version[1] >= 8) {
		l.add("--disable-userns") // the filter denies the same; older versions lack the option
	}
	if err := system(l, s.Net); err != nil {
		return err
	}
	if err := s.private(l, login); err != nil {
		return err
	}
	if err := s.shown(l); err != nil {
		return err
	}
	program, err := filter(filterSpec{userns: s.Userns})
	if err != nil {
		return err
	}
	fd, err := l.data("seccomp", program)
	if err != nil {
		return err
	}
	l.add("--remount-ro", "/dev", "--remount-ro", "/", "--seccomp", fd, "--chdir", workInside)
	for _, v := range s.environment() {
		name, value, _ := strings.Cut(v, "=")
		l.add("--setenv", name, value)
	}
	return nil
}

func (s Spec) environment() []string {
	env := append(without(s.Env, "HOME", "TMPDIR", "USER", process.MarkVariable),
		"HOME="+homeInside, "TMPDIR=/tmp", "USER=agent")
	if s.Mark != "" {
		env = append(env, process.MarkVariable+"="+s.Mark)
	}
	return withDefaults(env, [][2]string{{"PATH", boxPath}})
}

// system adds the parts of the root that every box has.
func system(l *launch, net Net) error {
	l.add("--ro-bind", "/usr", "/usr")
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/libx32", "/lib64"} {
		info, err := os.Lstat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		case info.Mode()&fs.ModeSymlink == 0:
			l.add("--ro-bind", dir, dir)
			continue
		}
		target, err := os.Readlink(dir)
		if err != nil {
			return err
		}
		l.add("--symlink", target, dir)
	}
	etc := sharedEtc
	if net == NetOpen {
		etc = slices.Concat(sharedEtc, networkEtc)
	} else if err := l.file("/etc/hosts", "0444", []byte("127.0.0.1 localhost ferry\n::1 localhost ferry\n")); err != nil {
		return err
	}
	for _, file := range etc {
		l.add("--ro-bind-try", file, file)
	}
	passwd := "root:x:0:0:root:/:/sbin/nologin\nagent:x:1000:1000:agent:" + homeInside + ":/bin/sh\n" +
		"nobody:x:65534:65534:nobody:/:/sbin/nologin\n"
	group := "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n"
	return errors.Join(l.file("/etc/passwd", "0444", []byte(passwd)), l.file("/etc/group", "0444", []byte(group)))
}

// private adds what belongs to the box alone: its processes, devices, temporary directory and home.
func (s Spec) private(l *launch, login []loginFile) error {
	size := strconv.FormatInt(defaultTmpBytes, 10)
	if s.TmpBytes > 0 {
		size = strconv.FormatInt(s.TmpBytes, 10)
	}
	l.add("--proc", "/proc", "--dev", "/dev",
		"--perms", "1777", "--size", size, "--tmpfs", "/dev/shm",
		"--perms", "1777", "--size", size, "--tmpfs", "/tmp",
		"--perms", "0700", "--size", size, "--tmpfs", homeInside)
	made := map[string]bool{homeInside: true}
	for _, f := range login {
		dest := path.Join(homeInside, f.rel)
		var dirs []string
		for dir := path.Dir(dest); !made[dir]; dir = path.Dir(dir) {
			made[dir] = true
			dirs = append(dirs, dir)
		}
		for _, dir := range slices.Backward(dirs) {
			l.add("--perms", "0700", "--dir", dir)
		}
		if err := l.file(dest, "0600", f.data); err != nil {
			return err
		}
	}
	return nil
}

// shown adds the tree and the binds.
func (s Spec) shown(l *launch) error {
	for _, b := range s.Binds {
		if _, err := os.Lstat(b.Host); b.Optional && errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return fmt.Errorf("bind: %w", err)
		}
		l.add(map[bool]string{false: "--ro-bind", true: "--bind"}[b.Write], b.Host, b.inside())
	}
	if info, err := os.Stat(s.Work); err != nil {
		return fmt.Errorf("work tree: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("work tree %s: not a directory", s.Work)
	}
	l.add(map[bool]string{true: "--ro-bind", false: "--bind"}[s.WorkReadOnly], s.Work, workInside)
	return nil
}

func (b Bind) inside() string {
	if b.Path == "" {
		return filepath.Clean(b.Host)
	}
	return path.Clean(b.Path)
}

// insideBwrap translates by the most exact of the tree, the binds and the login.
func (s Spec) insideBwrap(home string) func(string) string {
	shown := map[string]string{filepath.Clean(s.Work): workInside}
	for _, b := range s.Binds {
		shown[filepath.Clean(b.Host)] = b.inside()
	}
	for _, p := range s.Login {
		if rel, err := filepath.Rel(home, p); err == nil {
			shown[filepath.Clean(p)] = path.Join(homeInside, rel)
		}
	}
	return func(host string) string {
		host = filepath.Clean(host)
		best := ""
		for dir := range shown {
			if within(host, dir) && len(dir) > len(best) {
				best = dir
			}
		}
		if best == "" {
			return host
		}
		rel, err := filepath.Rel(best, host)
		if err != nil { // unreachable: host lies below best
			return host
		}
		return path.Join(shown[best], rel)
	}
}

// bwrapVersion returns the first two numbers of the version, and an error for one that lacks what a box needs.
func bwrapVersion(program string) ([2]int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, _, err := process.Output(ctx, process.Spec{Argv: []string{program, "--version"}}, 1000)
	if err != nil {
		return [2]int{}, err
	}
	var v [2]int
	text := strings.TrimSpace(string(out))
	if _, err := fmt.Sscanf(text, "bubblewrap %d.%d", &v[0], &v[1]); err != nil {
		return v, fmt.Errorf("%s --version says %q: %w", program, text, err)
	}
	if v[0] == 0 && v[1] < 6 {
		return v, fmt.Errorf("%s is too old (%s): %s, 0.6 or later", program, text, installs)
	}
	return v, nil
}

// memoryFile returns a file without a name that holds content, read from its beginning.
func memoryFile(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create memory file: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(content); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := f.Seek(0, 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

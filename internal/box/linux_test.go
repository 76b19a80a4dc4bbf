package box_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/process"
)

// strongest is the level by which the tests that fit any level run.
func strongest() box.Level {
	if _, err := process.LookPath("bwrap", "/usr/local/bin:/usr/bin:/bin"); err == nil {
		return box.LevelBwrap
	}
	return box.LevelLandlock
}

// levels returns the sandboxes that this user may have here.
func levels(t *testing.T) []box.Level {
	t.Helper()
	var got []box.Level
	if strongest() == box.LevelBwrap {
		got = append(got, box.LevelBwrap)
	}
	if os.Getuid() != 0 {
		got = append(got, box.LevelLandlock)
	}
	if len(got) == 0 {
		t.Skip("bubblewrap is not installed, and Landlock does not hold root")
	}
	return got
}

func eachLevel(t *testing.T, f func(t *testing.T, level box.Level)) {
	for _, level := range levels(t) {
		t.Run(string(level), func(t *testing.T) { f(t, level) })
	}
}

func TestProbe(t *testing.T) {
	eachLevel(t, func(t *testing.T, level box.Level) {
		p := newPlace(t)
		for _, network := range []box.Net{box.NetNone, box.NetOpen} {
			r := box.Probe(t.Context(), box.ProbeSpec{Level: level, Net: network, State: p.state})
			if !r.OK {
				t.Errorf("net %s: %s", network, r.Failure())
			}
			if len(r.Tries) != 23 {
				t.Errorf("net %s: %d tries, want 23", network, len(r.Tries))
			}
			for _, try := range r.Tries {
				t.Logf("%-4s %-40s want %-12s got %s", network, try.Name, try.Want, try.Got)
			}
			again := box.Probe(t.Context(), box.ProbeSpec{Level: level, Net: network, State: p.state})
			if r.Hash == "" || r.Hash != again.Hash {
				t.Errorf("hashes of two equal probes: %q, %q", r.Hash, again.Hash)
			}
		}
		if left, err := os.ReadDir(p.state); err != nil || len(left) != 0 {
			t.Errorf("the probe left %v, %v", left, err)
		}
	})
}

// TestProbeWithStateBelowHome is how most people run ferry: what the box shows of the state directory makes the way to
// it appear, and that is not the person's home.
func TestProbeWithStateBelowHome(t *testing.T) {
	eachLevel(t, func(t *testing.T, level box.Level) {
		p := newPlace(t)
		home := filepath.Dir(p.state)
		t.Setenv("HOME", home)
		if err := os.WriteFile(filepath.Join(home, "diary"), []byte("private"), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := box.Probe(t.Context(), box.ProbeSpec{Level: level, Net: box.NetNone, State: p.state}); !r.OK {
			t.Error(r.Failure())
		}
	})
}

// TestProbeSeesAnOpenBox proves that the tries can succeed: in level none most of them do.
func TestProbeSeesAnOpenBox(t *testing.T) {
	p := newPlace(t)
	write(t, filepath.Join(p.home, "diary"), "private")
	r := box.Probe(t.Context(), box.ProbeSpec{Level: box.LevelNone, Net: box.NetNone, State: p.state})
	worked := map[string]bool{}
	for _, try := range r.Tries {
		worked[try.Name] = try.Got == "works"
	}
	for _, name := range []string{
		"read a secret beside the tree", "see that the secret exists", "list the real home", "write outside",
		"write a read-only bind", "connect to a port of the host", "send a datagram to the host",
		"connect to a socket file of the host", "connect to an abstract socket of the host",
		"read the environment of a host process", "kill a host process",
	} {
		if !worked[name] {
			t.Errorf("without a box %q did not work: the probe cannot tell", name)
		}
	}
}

func TestChoose(t *testing.T) {
	p := newPlace(t)
	want := levels(t)[0]
	level, report, err := box.Choose(t.Context(), "", p.state)
	if err != nil || level != want || !report.OK {
		t.Errorf("Choose = %s, %+v, %v; want %s", level, report, err, want)
	}
	if level, _, err := box.Choose(t.Context(), "none", p.state); err != nil || level != box.LevelNone {
		t.Errorf("Choose(none) = %s, %v", level, err)
	}
	if os.Getuid() != 0 {
		return
	}
	if _, _, err := box.Choose(t.Context(), "landlock", p.state); err == nil || !strings.Contains(err.Error(), "does not hold root") {
		t.Errorf("Choose(landlock) as root: %v", err)
	}
}

func TestWhatTheBoxSees(t *testing.T) {
	eachLevel(t, func(t *testing.T, level box.Level) {
		p := newPlace(t)
		s := p.spec(level, box.NetNone)
		secret := write(t, filepath.Join(p.home, ".ssh", "id"), "secret")
		ro := write(t, filepath.Join(filepath.Dir(p.home), "ro", "file"), "shown")
		rw := write(t, filepath.Join(filepath.Dir(p.home), "rw", "file"), "old")
		s.Binds = []box.Bind{
			{Host: filepath.Dir(ro)}, {Host: filepath.Dir(rw), Path: "/repo.git", Write: true}, {Host: "/no/such", Optional: true},
		}
		s.Env = []string{"GIVEN=a value", "HOME=/forged"}
		c, err := s.Command([]string{"true"})
		if err != nil {
			t.Fatal(err)
		}
		inside := c.Inside
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		tests := []struct{ name, script, arg, want string }{
			{"tree", `echo new > file && cat file && pwd`, "", "new\n" + inside(p.work)},
			{"read-only bind", `cat "$1"; echo x 2>/dev/null >"$1" || echo denied`, inside(ro), "showndenied"},
			{"bind to write", `echo changed >"$1"; cat "$1"`, inside(rw), "changed"},
			{"secret", `cat "$1" 2>/dev/null || echo denied`, secret, "denied"},
			{"environment", `echo "$GIVEN"; echo "$USER"; [ "$HOME" != /forged ] && echo own home`, "", "a value\nagent\nown home"},
			{"temporary directory", `echo ok >"$TMPDIR/x" && cat "$TMPDIR/x"`, "", "ok"},
			{"home", `echo ok >"$HOME/x" && cat "$HOME/x"`, "", "ok"},
			{"system", `echo x 2>/dev/null >/usr/bin/evil || echo denied; echo x 2>/dev/null >/evil || echo denied`, "", "denied\ndenied"},
			{"host files", `cat /etc/shadow 2>/dev/null || echo denied`, "", "denied"},
		}
		for _, tt := range tests {
			if got := sh(t, s, tt.script, tt.arg); got != tt.want {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			}
		}
		if b, err := os.ReadFile(filepath.Join(p.work, "file")); err != nil || string(b) != "new\n" {
			t.Errorf("the tree on the host has %q, %v", b, err)
		}
		s.WorkReadOnly = true
		if got := sh(t, s, `cat file; echo x 2>/dev/null >file || echo denied`); got != "new\ndenied" {
			t.Errorf("read-only tree: %q", got)
		}
	})
}

func TestInside(t *testing.T) {
	p := newPlace(t)
	s := p.spec(box.LevelBwrap, box.NetNone)
	if strongest() != box.LevelBwrap {
		t.Skip("bubblewrap is not installed")
	}
	s.Binds = []box.Bind{{Host: "/usr/share", Path: "/repo.git"}, {Host: "/usr/bin"}}
	s.Login = []string{filepath.Join(p.home, ".tool")}
	c, err := s.Command([]string{"true"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got := map[string]string{}
	for _, path := range []string{p.work, p.work + "/a/../b", "/usr/share/x", "/usr/bin/sh", "/elsewhere", s.Login[0] + "/auth"} {
		got[path] = c.Inside(path)
	}
	want := map[string]string{
		p.work: "/work", p.work + "/a/../b": "/work/b", "/usr/share/x": "/repo.git/x", "/usr/bin/sh": "/usr/bin/sh",
		"/elsewhere": "/elsewhere", s.Login[0] + "/auth": "/home/agent/.tool/auth",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Inside (-want +got):\n%s", diff)
	}
}

func TestLoginIsPrivate(t *testing.T) {
	eachLevel(t, func(t *testing.T, level box.Level) {
		p := newPlace(t)
		auth := write(t, filepath.Join(p.home, ".tool", "deep", "auth.json"), "token")
		write(t, filepath.Join(p.home, ".other"), "not named")
		single := write(t, filepath.Join(p.home, ".tool.json"), "single")
		if err := os.Symlink(filepath.Join(p.home, ".other"), filepath.Join(p.home, ".tool", "link")); err != nil {
			t.Fatal(err)
		}
		s := p.spec(level, box.NetNone)
		s.Login = []string{filepath.Join(p.home, ".tool"), single, filepath.Join(p.home, ".absent")}
		const script = `cd "$HOME"; cat .tool/deep/auth.json .tool.json; ls .other .tool/link .absent 2>/dev/null; stat -c %a .tool.json
			echo changed > .tool/new && mv .tool/new .tool/deep/auth.json && echo beside > .tool.json.lock && cat .tool/deep/auth.json`
		for range 2 { // the second box knows nothing of the first
			if got, want := sh(t, s, script), "tokensingle600\nchanged"; got != want {
				t.Errorf("in the box: %q, want %q", got, want)
			}
		}
		if b, err := os.ReadFile(auth); err != nil || string(b) != "token" {
			t.Errorf("the person's login is %q, %v", b, err)
		}
		if left, _ := os.ReadDir(p.state); len(left) != 0 {
			t.Errorf("private files are left: %v", left)
		}
	})
}

func TestNetwork(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "hello from the host\n")
			c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	const script = `exec 2>/dev/null; bash -c 'cat </dev/tcp/127.0.0.1/'"$1" || echo unreachable`
	eachLevel(t, func(t *testing.T, level box.Level) {
		p := newPlace(t)
		if got := sh(t, p.spec(level, box.NetOpen), script, port); got != "hello from the host" {
			t.Errorf("net open: %q", got)
		}
		if got := sh(t, p.spec(level, box.NetNone), script, port); got != "unreachable" {
			t.Errorf("net none: %q", got)
		}
	})
}

func TestLimits(t *testing.T) {
	eachLevel(t, func(t *testing.T, level box.Level) {
		p := newPlace(t)
		s := p.spec(level, box.NetNone)
		s.Mark = "box-limits-" + strconv.Itoa(os.Getpid())
		s.Limits = process.Limits{Pids: 60, FileBytes: 1 << 20, MemoryBytes: 1 << 30}
		forks := `n=0; while [ $n -lt 600 ]; do (exec sleep 30 >/dev/null 2>&1) & n=$((n+1)); done 2>/dev/null; echo unlimited`
		if os.Getuid() == 0 || level == box.LevelLandlock {
			if got := sh(t, s, forks); strings.Contains(got, "unlimited") {
				t.Error("600 processes were forked under a limit of 60")
			}
		}
		if got := sh(t, s, `dd if=/dev/zero of=file bs=64k count=64 2>/dev/null; stat -c %s file`); got != "1048576" {
			t.Errorf("a file of %s bytes was written under a limit of 1 MiB", got)
		}
		if level != box.LevelBwrap {
			return
		}
		s.Limits = process.Limits{}
		for _, dir := range []string{"/tmp", "/home/agent", "/dev/shm"} {
			if got := sh(t, s, `dd if=/dev/zero of="$1/f" bs=1M count=64 2>/dev/null; stat -c %s "$1/f"`, dir); got != "8388608" {
				t.Errorf("%s bytes fit into %s, want 8 MiB", got, dir)
			}
		}
		if got := sh(t, s, `for d in / /dev /run /etc; do echo x 2>/dev/null >$d/f && echo "wrote $d"; done; id -u`); got != "1000" {
			t.Errorf("directories without a size can be written: %s", got)
		}
	})
}

func TestKillLeavesNoSurvivor(t *testing.T) {
	eachLevel(t, func(t *testing.T, level box.Level) {
		p := newPlace(t)
		s := p.spec(level, box.NetNone)
		s.Mark = "box-kill-" + strconv.Itoa(os.Getpid())
		c, err := s.Command([]string{"sh", "-c", `(setsid sh -c 'trap "" TERM; (setsid sleep 1000 &); echo ready; sleep 1000' &); sleep 1000`})
		if err != nil {
			t.Fatal(err)
		}
		r, w := io.Pipe()
		c.Spec.Stdout = w
		proc, err := process.Start(c.Spec)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, 6)); err != nil {
			t.Error(err)
		}
		if err := proc.Kill(); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if n, err := process.Sweep(s.Mark); n != 0 || err != nil {
			t.Errorf("Sweep after Kill found %d, %v", n, err)
		}
	})
}

// TestFilter tries what the filter must refuse, and that threads, pipes and sockets go on.
func TestFilter(t *testing.T) {
	eachLevel(t, func(t *testing.T, level box.Level) {
		p := newPlace(t)
		s := p.spec(level, box.NetOpen)
		if got := sh(t, s, `unshare -Ur true 2>/dev/null && echo made || echo denied`); got != "denied" {
			t.Errorf("user namespace: %s", got)
		}
		s.Userns = true
		if got := sh(t, s, `unshare -Ur true 2>/dev/null && echo made || echo denied`); level == box.LevelBwrap && got != "made" {
			t.Errorf("user namespace with Userns: %s", got)
		}
	})
}

func TestToolchains(t *testing.T) {
	eachLevel(t, func(t *testing.T, level box.Level) {
		for _, tool := range []struct{ name, arg, script string }{
			{"node", "--version", `node -e 'require("child_process").execSync("true"); new (require("worker_threads").Worker)("0",{eval:true}); console.log("fine")'`},
			{"go", "version", `GOCACHE=$TMPDIR/c go list -deps fmt >/dev/null && echo fine`},
			{"git", "--version", `git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m m && git fsck && echo fine`},
		} {
			t.Run(tool.name, func(t *testing.T) {
				program, err := process.LookPath(tool.name, os.Getenv("PATH"))
				if err != nil {
					t.Skip("this machine has no " + tool.name)
				}
				s := newPlace(t).spec(level, box.NetNone)
				s.TmpBytes = 512 << 20
				if real, err := filepath.EvalSymlinks(program); err == nil && !strings.HasPrefix(real, "/usr/bin/") {
					s.Binds = []box.Bind{{Host: filepath.Dir(filepath.Dir(real))}}
				}
				s.Env = []string{"PATH=" + filepath.Dir(program) + ":/usr/bin:/bin"}
				if out, exit := run(t, s, tool.name, tool.arg); exit.Code != 0 {
					t.Errorf("%s %s: %v: %s", tool.name, tool.arg, exit, out)
				}
				if out := sh(t, s, tool.script); !strings.HasSuffix(out, "fine") {
					t.Errorf("%s at work: %s", tool.name, out)
				}
			})
		}
	})
}

// TestAsOrdinaryUser runs these tests again as a user who is nobody special; there Landlock is tested as well.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("this is an ordinary user already")
	}
	dir, err := os.MkdirTemp("", "ordinary")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	test := filepath.Join(dir, "box.test")
	if err := os.WriteFile(test, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	out := &bytes.Buffer{}
	exit, err := process.Run(t.Context(), process.Spec{
		Argv: []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", test, "-test.timeout=120s"},
		Env:  []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, "HOME=" + dir}, Dir: dir, Stdout: out, Stderr: out,
	})
	if err != nil || exit.Code != 0 {
		t.Errorf("as an ordinary user: %v, %v\n%s", exit, err, out)
	}
}

func BenchmarkBoxStart(b *testing.B) {
	for _, level := range []box.Level{box.LevelBwrap, box.LevelLandlock, box.LevelNone} {
		b.Run(string(level), func(b *testing.B) {
			s := newPlace(b).spec(level, box.NetNone)
			for b.Loop() {
				c, err := s.Command([]string{"true"})
				if err != nil {
					b.Skip(err)
				}
				if exit, err := process.Run(context.Background(), c.Spec); err != nil || exit.Code != 0 {
					b.Fatal(exit, err)
				}
				c.Close()
			}
		})
	}
}

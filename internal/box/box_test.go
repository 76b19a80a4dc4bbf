package box_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/process"
)

func TestMain(m *testing.M) {
	box.Main()
	os.Exit(m.Run())
}

// place is a home directory of a person with a tree beside it.
type place struct{ home, work, state string }

// newPlace makes a place that an ordinary user can enter and makes its home the home of this process.
func newPlace(t testing.TB) place {
	t.Helper()
	root := t.TempDir()
	p := place{filepath.Join(root, "home"), filepath.Join(root, "work"), filepath.Join(root, "state")}
	for _, dir := range []string{p.home, p.work} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", p.home)
	return p
}

func (p place) spec(level box.Level, net box.Net) box.Spec {
	return box.Spec{Level: level, Net: net, Work: p.work, State: p.state, TmpBytes: 8 << 20}
}

func write(t testing.TB, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs argv in the box and returns everything that it wrote.
func run(t testing.TB, s box.Spec, argv ...string) (string, process.Exit) {
	t.Helper()
	c, err := s.Command(argv)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c.Spec.Stdout, c.Spec.Stderr = &out, &out
	exit, err := process.Run(t.Context(), c.Spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	return out.String(), exit
}

func sh(t testing.TB, s box.Spec, script string, args ...string) string {
	t.Helper()
	out, _ := run(t, s, append([]string{"sh", "-c", script, "sh"}, args...)...)
	return strings.TrimSpace(out)
}

func TestCommandRefuses(t *testing.T) {
	p := newPlace(t)
	link := filepath.Join(p.home, "link")
	if err := os.Symlink(p.work, link); err != nil {
		t.Fatal(err)
	}
	homeLink := filepath.Join(filepath.Dir(p.home), "homelink")
	if err := os.Symlink(p.home, homeLink); err != nil {
		t.Fatal(err)
	}
	big := write(t, filepath.Join(p.home, "big"), strings.Repeat("x", 8<<20+1))
	for i := range 257 {
		write(t, filepath.Join(p.home, "many", fmt.Sprint(i)), "x")
	}
	tests := []struct {
		name   string
		change func(*box.Spec)
		want   string
	}{
		{"level", func(s *box.Spec) { s.Level = "chroot" }, `sandbox level "chroot"`},
		{"net", func(s *box.Spec) { s.Net = "" }, `sandbox net ""`},
		{"proxy without a server", func(s *box.Spec) { s.Net = box.NetProxy }, "nothing serves it"},
		{"proxy of a weak level", func(s *box.Spec) { s.Level, s.Net = box.LevelLandlock, box.NetProxy }, "cannot hold a run to a list of hosts"},
		{"relative work", func(s *box.Spec) { s.Work = "work" }, "want an absolute path"},
		{"missing work", func(s *box.Spec) { s.Work = "/no/such/tree" }, "no such file"},
		{"home as work", func(s *box.Spec) { s.Work = p.home }, "holds the home directory"},
		{"home by a link", func(s *box.Spec) { s.Binds = []box.Bind{{Host: homeLink}} }, "holds the home directory"},
		{"root", func(s *box.Spec) { s.Binds = []box.Bind{{Host: "/", Path: "/host"}} }, "holds the home directory"},
		{"etc", func(s *box.Spec) { s.Binds = []box.Bind{{Host: "/etc"}} }, "too much of the host"},
		{"missing bind", func(s *box.Spec) { s.Binds = []box.Bind{{Host: "/no/such"}} }, "no such file"},
		{"bind into the tree", func(s *box.Spec) { s.Binds = []box.Bind{{Host: "/usr/bin", Path: "/work/bin"}} }, "belongs to the box"},
		{"bind over home", func(s *box.Spec) { s.Binds = []box.Bind{{Host: "/usr/bin", Path: "/home"}} }, "would cover"},
		{"environment", func(s *box.Spec) { s.Env = []string{"NOVALUE"} }, "want NAME=value"},
		{"login outside", func(s *box.Spec) { s.Login = []string{"/etc/passwd"} }, "not below the home directory"},
		{"login is home", func(s *box.Spec) { s.Login = []string{p.home} }, "not below the home directory"},
		{"login is a link", func(s *box.Spec) { s.Login = []string{link} }, "symbolic link"},
		{"login too big", func(s *box.Spec) { s.Login = []string{big} }, "more than 8 MiB"},
		{"login too many", func(s *box.Spec) { s.Login = []string{filepath.Join(p.home, "many")} }, "more than 256 files"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := p.spec(strongest(), box.NetNone)
			tt.change(&s)
			c, err := s.Command([]string{"true"})
			if err == nil {
				c.Close()
				t.Fatal("the box was built")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q does not say %q", err, tt.want)
			}
		})
	}
	if _, err := p.spec(strongest(), box.NetNone).Command(nil); err == nil {
		t.Error("a box without a program was built")
	}
}

func TestNone(t *testing.T) {
	p := newPlace(t)
	s := p.spec(box.LevelNone, box.NetOpen)
	s.Env = []string{"ONLY=this"}
	s.Login = []string{filepath.Join(p.home, ".tool")}
	got := sh(t, s, `echo $ONLY $HOME; pwd; env | wc -l`)
	lines := strings.Split(got, "\n")
	if lines[0] != "this "+p.home || lines[1] != p.work {
		t.Errorf("in level none: %q", got)
	}
	t.Setenv("LEAK", "yes")
	if got := sh(t, s, `echo "<$LEAK>"`); got != "<>" {
		t.Errorf("the environment of ferry leaked: %s", got)
	}
}

func TestChooseRefuses(t *testing.T) {
	if _, _, err := box.Choose(t.Context(), "chroot", t.TempDir()); err == nil || !strings.Contains(err.Error(), "want auto") {
		t.Errorf("Choose of an unknown level: %v", err)
	}
	if _, _, err := box.Choose(t.Context(), "auto", "relative"); err == nil || !strings.Contains(err.Error(), `sandbox = "none"`) {
		t.Errorf("Choose without a place for its files: %v", err)
	}
}

package evidence_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/process"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// chosen proves once for all tests which sandbox works on this machine.
var chosen = sync.OnceValues(func() (box.Level, error) {
	dir, err := os.MkdirTemp("", "box-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	level, _, err := box.Choose(context.Background(), "auto", dir)
	return level, err
})

func TestMain(m *testing.M) {
	box.Main()
	os.Exit(m.Run())
}

// repo is a person's repository with its gate and a box level that works here.
type repo struct {
	t     *testing.T
	dir   string
	gate  *worktree.Gate
	level box.Level
}

func newRepo(t *testing.T, files map[string]string) *repo {
	t.Helper()
	r := &repo{t: t, dir: filepath.Join(t.TempDir(), "repo")}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.git("init", "-q", "-b", "main")
	r.commit(files)
	var err error
	if r.gate, err = worktree.OpenGate(t.Context(), worktree.GateSpec{Dir: filepath.Join(t.TempDir(), "gate.git"), Repo: r.dir}); err != nil {
		t.Fatal(err)
	}
	if r.level, err = chosen(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *repo) git(args ...string) string {
	r.t.Helper()
	var out bytes.Buffer
	exit, err := process.Run(r.t.Context(), process.Spec{
		Argv: append([]string{"git", "-c", "user.name=p", "-c", "user.email=p@example.com"}, args...), Dir: r.dir, Stdout: &out, Stderr: &out,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir, "GIT_CONFIG_NOSYSTEM=1"},
	})
	if err != nil || exit.Code != 0 {
		r.t.Fatalf("git %q: %v %s\n%s", args, err, exit, out.String())
	}
	return strings.TrimSpace(out.String())
}

// commit writes files ("" removes one), commits them and brings the commit into the gate.
func (r *repo) commit(files map[string]string) ferry.Commit {
	r.t.Helper()
	for name, text := range files {
		p := filepath.Join(r.dir, name)
		if text == "" {
			if err := os.Remove(p); err != nil {
				r.t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o755); err != nil {
			r.t.Fatal(err)
		}
	}
	r.git("add", "-A")
	r.git("commit", "-q", "-m", "change")
	id := ferry.Commit(r.git("rev-parse", "HEAD"))
	if r.gate != nil {
		if err := r.gate.Import(r.t.Context(), id); err != nil {
			r.t.Fatal(err)
		}
	}
	return id
}

func (r *repo) head() ferry.Commit {
	id := ferry.Commit(r.git("rev-parse", "HEAD"))
	if err := r.gate.Import(r.t.Context(), id); err != nil {
		r.t.Fatal(err)
	}
	return id
}

package evidence_test

import (
	"os"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/ferrytest"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

func TestMain(m *testing.M) {
	box.Main()
	os.Exit(m.Run())
}

// repo is a person's repository with its gate and a box level that works here.
type repo struct {
	t     *testing.T
	m     *ferrytest.Machine
	dir   string
	gate  *worktree.Gate
	level box.Level
}

func newRepo(t *testing.T, files map[string]string) *repo {
	t.Helper()
	m := ferrytest.New(t, files)
	return &repo{t: t, m: m, dir: m.Repo, gate: m.Gate, level: m.Level}
}

func (r *repo) git(args ...string) string {
	r.t.Helper()
	return r.m.Git(args...)
}

// commit writes files ("" removes one), commits them and brings the commit into the gate.
func (r *repo) commit(files map[string]string) ferry.Commit {
	r.t.Helper()
	id := r.m.Commit(files)
	r.m.Must(r.gate.Import(r.t.Context(), id))
	return id
}

func (r *repo) head() ferry.Commit {
	id := ferry.Commit(r.git("rev-parse", "HEAD"))
	if err := r.gate.Import(r.t.Context(), id); err != nil {
		r.t.Fatal(err)
	}
	return id
}

package worktree_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// origin makes a bare repository that the person has as their remote, whose every hook and setting leaves a canary when
// it runs.
func (p *person) origin() (dir, canary string) {
	p.t.Helper()
	dir, canary = filepath.Join(p.root, "origin.git"), filepath.Join(p.root, "canary")
	if _, err := os.Stat(dir); err == nil {
		return dir, canary
	}
	git(p.t, p.root, "clone", "-q", "--bare", p.dir, dir)
	git(p.t, p.dir, "remote", "add", "origin", dir)
	program := filepath.Join(p.root, "evil.sh")
	write(p.t, program, "#!/bin/sh\necho ran \"$0\" \"$@\" >> "+canary+"\n")
	must(p.t, os.Chmod(program, 0o755))
	for _, repo := range []string{dir, filepath.Join(p.dir, ".git")} {
		for _, hook := range []string{"pre-receive", "update", "post-receive", "post-update", "reference-transaction", "pre-push", "push-to-checkout", "post-merge", "post-checkout"} {
			write(p.t, filepath.Join(repo, "hooks", hook), "#!/bin/sh\nexec "+program+" "+hook+"\n")
			must(p.t, os.Chmod(filepath.Join(repo, "hooks", hook), 0o755))
		}
		for _, set := range [][2]string{{"core.fsmonitor", program}, {"core.sshCommand", program}, {"core.alternateRefsCommand", program}, {"credential.helper", "!" + program},
			{"uploadpack.packObjectsHook", program}, {"core.askPass", program}, {"gc.auto", "1"},
			{"remote.origin.uploadpack", program}, {"remote.origin.receivepack", program}, {"protocol.ext.allow", "always"}} {
			git(p.t, repo, "config", set[0], set[1])
		}
	}
	return dir, canary
}

func (p *person) remote(edit func(*worktree.RemoteSpec)) *worktree.Remote {
	p.t.Helper()
	spec := worktree.RemoteSpec{Name: "origin", Env: os.Environ()}
	if edit != nil {
		edit(&spec)
	}
	r, err := p.gate.Remote(p.t.Context(), spec)
	must(p.t, err)
	return r
}

func TestPushIsOneFastForwardAndOneRef(t *testing.T) {
	t.Parallel()
	p := newPerson(t, map[string]string{"a": "1\n"})
	dir, canary := p.origin()
	r := p.remote(nil)
	seen, err := r.Look(t.Context(), "main", order(1))
	if err != nil || seen.Tip != p.head || seen.Landed != "" {
		t.Fatalf("Look = %+v, %v", seen, err)
	}
	done := p.squash(p.work("r1", map[string]string{"a": "2\n"}), p.head).Commit
	other := p.squash(p.work("r2", map[string]string{"a": "3\n"}), p.head).Commit
	spec := worktree.LandSpec{Branch: "main", Old: p.head, New: done, Order: order(1)}
	must(t, r.Push(t.Context(), spec))
	if got := git(t, dir, "rev-parse", "main", "refs/ferry/landed/"+order(1).String()); got != string(done)+"\n"+string(done) {
		t.Errorf("the remote is at %s", got)
	}
	must(t, r.Push(t.Context(), spec)) // its answer was lost
	spec.New = other
	var landed *worktree.LandedError
	if err := r.Push(t.Context(), spec); !errors.As(err, &landed) || landed.Commit != done {
		t.Errorf("a second landing of the order = %v", err)
	}
	spec.Order = order(2)
	if err := r.Push(t.Context(), spec); !errors.Is(err, worktree.ErrMoved) {
		t.Errorf("a landing from an old tip = %v", err)
	}
	if got := git(t, dir, "for-each-ref", "--format=%(refname)", "refs/ferry"); got != "refs/ferry/landed/"+order(1).String() {
		t.Errorf("the refused landing left %s", got)
	}
	if data, err := os.ReadFile(canary); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a hook or a setting was run: %s %v", data, err)
	}
}

func TestLookTakesInWhatIsNewAndRefusesARewoundBranch(t *testing.T) {
	t.Parallel()
	p := newPerson(t, map[string]string{"a": "1\n"})
	dir, canary := p.origin()
	clone := filepath.Join(p.root, "clone")
	git(t, p.root, "clone", "-q", dir, clone)
	write(t, filepath.Join(clone, "b"), "1\n")
	git(t, clone, "add", "-A")
	git(t, clone, "commit", "-q", "-m", "of another machine")
	tip := ferry.Commit(git(t, clone, "rev-parse", "HEAD"))
	git(t, dir, "-c", "core.hooksPath=/dev/null", "fetch", "-q", clone, "main:main")
	r := p.remote(nil)
	seen, err := r.Look(t.Context(), "main", order(1))
	if err != nil || seen.Tip != tip || !p.gate.Has(t.Context(), tip) {
		t.Fatalf("Look = %+v, %v", seen, err)
	}
	git(t, dir, "-c", "core.hooksPath=/dev/null", "update-ref", "refs/heads/main", string(p.head))
	if _, err := r.Look(t.Context(), "main", order(1)); !errors.Is(err, worktree.ErrRewound) {
		t.Errorf("Look at a rewound branch = %v", err)
	}
	if seen, err := p.remote(func(s *worktree.RemoteSpec) { s.Accept = true }).Look(t.Context(), "main", order(1)); err != nil || seen.Tip != p.head {
		t.Errorf("Look at an accepted branch = %+v, %v", seen, err)
	}
	if _, err := r.Look(t.Context(), "main", order(1)); err != nil {
		t.Errorf("Look after it was accepted = %v", err)
	}
	if _, err := r.Look(t.Context(), "nosuch", order(1)); !errors.Is(err, worktree.ErrNoRemoteBranch) {
		t.Errorf("Look at no branch = %v", err)
	}
	if data, err := os.ReadFile(canary); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a hook or a setting was run: %s %v", data, err)
	}
}

func TestARemoteStaysWhereItIs(t *testing.T) {
	t.Parallel()
	p := newPerson(t, map[string]string{"a": "1\n"})
	dir, _ := p.origin()
	done := p.squash(p.work("r1", map[string]string{"a": "2\n"}), p.head).Commit
	must(t, p.remote(nil).Push(t.Context(), worktree.LandSpec{Branch: "main", Old: p.head, New: done, Order: order(1)}))
	elsewhere := filepath.Join(p.root, "elsewhere.git")
	git(t, p.root, "clone", "-q", "--bare", dir, elsewhere)
	git(t, p.dir, "remote", "set-url", "origin", elsewhere)
	spec := worktree.RemoteSpec{Name: "origin", Env: os.Environ()}
	if _, err := p.gate.Remote(t.Context(), spec); !errors.Is(err, worktree.ErrRemoteChanged) || !strings.Contains(err.Error(), dir) {
		t.Errorf("Remote at another place = %v", err)
	}
	for _, name := range []string{"upstream", "", "--all", "ext::sh -c true", p.dir, filepath.Join(p.dir, ".git")} {
		spec.Name = name
		if _, err := p.gate.Remote(t.Context(), spec); !errors.Is(err, worktree.ErrRemoteURL) {
			t.Errorf("Remote(%q) = %v", name, err)
		}
	}
}

func TestARemoteThatIsGone(t *testing.T) {
	t.Parallel()
	p := newPerson(t, map[string]string{"a": "1\n"})
	dir, _ := p.origin()
	r := p.remote(nil)
	must(t, os.Rename(dir, dir+".away"))
	if _, err := r.Look(t.Context(), "main", order(1)); !errors.Is(err, worktree.ErrRemote) {
		t.Errorf("Look = %v", err)
	}
	done := p.squash(p.work("r1", map[string]string{"a": "2\n"}), p.head).Commit
	if err := r.Push(t.Context(), worktree.LandSpec{Branch: "main", Old: p.head, New: done, Order: order(1)}); !errors.Is(err, worktree.ErrRemote) {
		t.Errorf("Push = %v", err)
	}
	if git(t, p.dir, "rev-parse", "main") != string(p.head) {
		t.Error("the branch here moved")
	}
}

// TestAServerIsReachedWithThePersonsAccount puts a program in the place of ssh: it sees what a real one would.
func TestAServerIsReachedWithThePersonsAccount(t *testing.T) {
	t.Parallel()
	p := newPerson(t, map[string]string{"a": "1\n"})
	dir, canary := p.origin()
	home := filepath.Join(p.root, "home")
	seen := filepath.Join(p.root, "seen")
	// The fake ssh drops its options and the host, and runs the command here.
	ssh := filepath.Join(p.root, "ssh.sh")
	write(t, ssh, "#!/bin/sh\nenv > "+seen+"\nfor c; do :; done\neval \"$c\"\n")
	must(t, os.Chmod(ssh, 0o755))
	write(t, filepath.Join(home, ".gitconfig"), "[core]\n\tsshCommand = "+ssh+"\n\thooksPath = /nonexistent\n[credential]\n\thelper = cache\n[alias]\n\tpush = !false\n")
	git(t, p.dir, "remote", "set-url", "origin", "git@example.com:"+dir)
	must(t, os.RemoveAll(filepath.Join(dir, "hooks"))) // those of a server are the server's
	r := p.remote(func(s *worktree.RemoteSpec) {
		s.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "SSH_AUTH_SOCK=/agent", "AWS_SECRET=x", "GIT_DIR=/etc", "GIT_CONFIG_NOSYSTEM=1"}
	})
	if got, err := r.Look(t.Context(), "main", order(1)); err != nil || got.Tip != p.head {
		t.Fatalf("Look = %+v, %v", got, err)
	}
	data, err := os.ReadFile(seen)
	must(t, err)
	for _, want := range []string{"SSH_AUTH_SOCK=/agent", "HOME=" + home, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ALLOW_PROTOCOL=ssh"} {
		if !strings.Contains(string(data), want+"\n") {
			t.Errorf("ssh was not given %s", want)
		}
	}
	for _, never := range []string{"AWS_SECRET", "GIT_DIR=/etc"} {
		if strings.Contains(string(data), never) {
			t.Errorf("ssh was given %s", never)
		}
	}
	if data, err := os.ReadFile(canary); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a setting of a repository was run: %s %v", data, err)
	}
}

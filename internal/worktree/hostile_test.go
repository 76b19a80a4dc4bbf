package worktree_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ferry-fleet/ferry/internal/worktree"
)

// engine is what a hostile engine can reach: its tree, its private repository, and a program that tells on whoever runs it.
type engine struct {
	t      *testing.T
	work   string
	repo   string
	canary string // appears when run is run
	run    string
	gate   string
	base   string
}

func (e *engine) write(path, content string) {
	e.t.Helper()
	must(e.t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(e.t, os.RemoveAll(path))
	must(e.t, os.WriteFile(path, []byte(content), 0o755))
}

func (e *engine) inWork(name, content string) {
	e.t.Helper()
	e.write(filepath.Join(e.work, name), content)
}
func (e *engine) inRepo(name, content string) {
	e.t.Helper()
	e.write(filepath.Join(e.repo, name), content)
}

// config is every setting of git that names a program or another place, pointing at the canary.
func (e *engine) config() string {
	r := e.run
	return strings.ReplaceAll(`[core]
	repositoryformatversion = 1
	fsmonitor = RUN
	hooksPath = HOOKS
	sshCommand = RUN
	editor = RUN
	pager = RUN
	askPass = RUN
	worktree = /
	alternateRefsCommand = RUN
	attributesFile = ATTR
[filter "evil"]
	clean = RUN
	smudge = RUN
	process = RUN
	required = true
[diff]
	external = RUN
[diff "evil"]
	textconv = RUN
	command = RUN
[merge "evil"]
	driver = RUN
[merge]
	default = evil
[include]
	path = INCLUDED
[includeIf "gitdir:/"]
	path = INCLUDED
[url "ext::sh -c RUN"]
	insteadOf = /
[alias]
	status = !RUN
	log = !RUN
	read-tree = !RUN
[gpg]
	program = RUN
[gpg "ssh"]
	program = RUN
[commit]
	gpgSign = true
[log]
	showSignature = true
[credential]
	helper = !RUN
[uploadpack]
	packObjectsHook = RUN
[protocol "ext"]
	allow = always
[remote "origin"]
	url = ext::sh -c RUN
	uploadpack = RUN
	receivepack = RUN
	vcs = ext
	promisor = true
[submodule "s"]
	update = !RUN
[extensions]
	partialClone = origin
	worktreeConfig = true
[fetch]
	bundleURI = ext::sh -c RUN
[sequence]
	editor = RUN
[trailer "x"]
	command = RUN
	key = x
`, "RUN", r)
}

// hostile is one trick, what must be named as left out, and what must be in the snapshot beside honest.txt.
type hostile struct {
	name  string
	do    func(e *engine)
	skips []string
	files []string
}

var pointerTricks = []hostile{
	{"pointer rewritten", func(e *engine) {
		e.inWork("evil/HEAD", "ref: refs/heads/main\n")
		e.inWork("evil/config", e.config())
		e.inWork("evil/objects/x", "")
		e.inWork("evil/refs/x", "")
		e.inWork(".git", "gitdir: evil\n")
	}, []string{".git: not as ferry wrote it", "evil: embedded bare repository"}, nil},
	{"pointer is a symlink", func(e *engine) {
		must(e.t, os.Remove(filepath.Join(e.work, ".git")))
		must(e.t, os.Symlink("/etc", filepath.Join(e.work, ".git")))
	}, []string{".git: not as ferry wrote it"}, nil},
	{"pointer is a directory", func(e *engine) {
		must(e.t, os.Remove(filepath.Join(e.work, ".git")))
		git(e.t, e.work, "init", "-q", ".")
		e.inWork(".git/config", e.config())
	}, []string{".git: not as ferry wrote it"}, nil},
	{"pointer is gone", func(e *engine) { must(e.t, os.Remove(filepath.Join(e.work, ".git"))) }, []string{".git: not as ferry wrote it"}, nil},
	{"pointer is a FIFO", func(e *engine) {
		must(e.t, os.Remove(filepath.Join(e.work, ".git")))
		must(e.t, unix.Mkfifo(filepath.Join(e.work, ".git"), 0o644))
	}, []string{".git: not as ferry wrote it"}, nil},
}

var repositoryTricks = []hostile{
	{"every setting that runs a program", func(e *engine) {
		e.inRepo("config", e.config())
		e.inRepo("worktrees/work/config.worktree", e.config())
		e.inRepo("config.worktree", e.config())
		e.inWork(".gitattributes", "* filter=evil diff=evil merge=evil\n")
		e.inWork("INCLUDED", e.config())
		e.inWork(".gitconfig", e.config())
	}, nil, []string{`100755 ".gitattributes"`, `100755 ".gitconfig"`}},
	{"hooks", func(e *engine) {
		for _, name := range []string{"post-checkout", "pre-commit", "reference-transaction", "post-index-change", "fsmonitor-watchman", "post-update"} {
			e.inRepo("hooks/"+name, "#!/bin/sh\n"+e.run+"\n")
		}
	}, nil, nil},
	{"commondir and gitdir", func(e *engine) {
		e.inRepo("worktrees/work/commondir", e.gate+"\n")
		e.inRepo("worktrees/work/gitdir", "/etc/.git\n")
	}, nil, nil},
	{"borrowed objects point at the root", func(e *engine) { e.inRepo("objects/info/alternates", "/\n/etc\n/proc/self\n../../..\n") }, nil, nil},
	{"replace refs, grafts, shallow", func(e *engine) {
		empty := git(e.t, e.work, "commit-tree", "-m", "evil", "4b825dc642cb6eb9a060e54bf8d69288fbee4904")
		e.inRepo("refs/replace/"+e.base, empty+"\n")
		e.inRepo("info/grafts", e.base+" "+empty+"\n")
		e.inRepo("shallow", e.base+"\n")
	}, nil, nil},
	{"forged commit graph and pack index", func(e *engine) {
		e.inRepo("objects/info/commit-graph", "CGPH\x01\x01\x00\x00"+strings.Repeat("\xff", 2000))
		e.inRepo("objects/pack/multi-pack-index", "MIDX"+strings.Repeat("\xff", 2000))
		e.inRepo("objects/pack/pack-"+strings.Repeat("0", 40)+".idx", "\xfftOc\x00\x00\x00\x02"+strings.Repeat("\xff", 3000))
		e.inRepo("objects/pack/pack-"+strings.Repeat("0", 40)+".pack", "PACK")
	}, nil, nil},
	{"HEAD names strange refs", func(e *engine) { e.inRepo("worktrees/work/HEAD", "ref: refs/heads/../../../../etc/passwd\n") }, nil, nil},
	{"HEAD is a FIFO", func(e *engine) {
		must(e.t, os.Remove(filepath.Join(e.repo, "worktrees/work/HEAD")))
		must(e.t, unix.Mkfifo(filepath.Join(e.repo, "worktrees/work/HEAD"), 0o644))
	}, nil, nil},
	{"HEAD is an option", func(e *engine) { e.inRepo("worktrees/work/HEAD", "--output=/etc/x\n") }, nil, nil},
	{"objects are a symlink", func(e *engine) {
		must(e.t, os.RemoveAll(filepath.Join(e.repo, "objects")))
		must(e.t, os.Symlink("/etc", filepath.Join(e.repo, "objects")))
		e.inRepo("refs/heads/ferry", strings.Repeat("1", 40)+"\n")
	}, nil, nil},
	{"repository is gone", func(e *engine) { must(e.t, os.RemoveAll(e.repo)) }, nil, nil},
	{"ten thousand refs", func(e *engine) {
		var b strings.Builder
		b.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
		for i := range 10_000 {
			fmt.Fprintf(&b, "%s refs/heads/many/%05d\n", e.base, i)
		}
		e.inRepo("packed-refs", b.String())
		e.inRepo("refs/heads/-x", e.base+"\n")
		e.inRepo("refs/heads/@{", e.base+"\n")
		e.inRepo("refs/heads/"+e.base, e.base+"\n")
	}, nil, nil},
	{"index locks left behind", func(e *engine) {
		e.inRepo("worktrees/work/index.lock", "")
		e.inRepo("HEAD.lock", "")
		e.inRepo("worktrees/work/index", "DIRC garbage")
	}, nil, nil},
	{"planted object", func(e *engine) {
		// The object that honest.txt will be, with other bytes: git must not think that it has it already.
		e.inRepo("objects/fc/"+strings.Repeat("0", 38), "garbage")
		id := git(e.t, e.work, "hash-object", "honest.txt")
		e.inRepo("objects/"+id[:2]+"/"+id[2:], "garbage")
	}, nil, nil},
}

var nestedTricks = []hostile{
	{"nested repository with a commit", func(e *engine) {
		git(e.t, e.work, "init", "-q", "sub")
		e.inWork("sub/file", "x")
		git(e.t, filepath.Join(e.work, "sub"), "add", "-A")
		git(e.t, filepath.Join(e.work, "sub"), "commit", "-q", "-m", "nested")
		e.inWork("sub/.git/config", e.config())
	}, []string{"sub/.git: nested git repository"}, []string{`100755 "sub/file"`}},
	{"nested repository without a commit", func(e *engine) {
		git(e.t, e.work, "init", "-q", "deep/er/sub")
		e.inWork("deep/er/sub/file", "x")
	}, []string{"deep/er/sub/.git: nested git repository"}, []string{`100755 "deep/er/sub/file"`}},
	{"nested .git file", func(e *engine) {
		e.inWork("sub/.git", "gitdir: ../../repo.git\n")
		e.inWork("sub/file", "x")
	}, []string{"sub/.git: nested git repository"}, []string{`100755 "sub/file"`}},
	{"embedded bare repository", func(e *engine) {
		git(e.t, e.work, "init", "-q", "--bare", "bare")
		e.inWork("bare/config", e.config())
	}, []string{"bare: embedded bare repository"}, nil},
	{"submodule settings", func(e *engine) {
		e.inWork(".gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = -u./payload\n\tupdate = !"+e.run+"\n")
	}, []string{".gitmodules: refused by git: gitmodules"}, nil},
	{"many submodule settings, no two the same", func(e *engine) {
		for i := range 30 {
			e.inWork(fmt.Sprintf("m%02d/.gitmodules", i), fmt.Sprintf("[submodule \"x%d\"]\n\tpath = -x%d\n\turl = -u./payload\n", i, i))
		}
	}, []string{"m00/.gitmodules: refused by git: gitmodules", "m29/.gitmodules: refused by git: "}, nil},
	{"attributes that git refuses", func(e *engine) {
		e.inWork(".gitattributes", strings.Repeat("a", 5000)+" text\n")
		e.inWork("x/.gitattributes", strings.Repeat("b", 5000)+" text\n")
	}, []string{".gitattributes: refused by git: gitattributes", "x/.gitattributes: refused by git"}, nil},
	{"files that git reads are symlinks", func(e *engine) {
		for _, name := range []string{".gitattributes", ".gitignore", ".mailmap", ".GITIGNORE"} {
			must(e.t, os.Symlink("README.md", filepath.Join(e.work, name)))
		}
	}, nil, []string{`120000 ".mailmap"`}},
	{".gitmodules is a symlink", func(e *engine) {
		must(e.t, os.Symlink("README.md", filepath.Join(e.work, ".gitmodules")))
		must(e.t, os.Symlink("README.md", filepath.Join(e.work, "GITMOD~1")))
	}, []string{".gitmodules: a symlink may not have this name", "GITMOD~1: a symlink"}, nil},
	{"names that some systems take for .git", func(e *engine) {
		for _, name := range []string{".GIT", ".git.", ".git ", "git~1", ".Git/config", ".g\u200cit", ".git::$INDEX_ALLOCATION", "x\\.git"} {
			e.inWork("names/"+name, "x")
		}
		e.inWork("names/.gitkeep", "x")
	}, []string{"names/.GIT: nested", "names/.git.: nested", "names/.git : nested", "names/git~1: nested", "names/.Git: nested",
		`"names/.g\u200cit": nested`, "names/.git::$INDEX_ALLOCATION: nested"}, []string{`100755 "names/.gitkeep"`}},
}

var fileTricks = []hostile{
	{"symlinks", func(e *engine) {
		for name, target := range map[string]string{"passwd": "/etc/passwd", "dangling": "nowhere/at/all", "loop": "loop", "up": "..", "dirloop": "."} {
			must(e.t, os.Symlink(target, filepath.Join(e.work, name)))
		}
	}, nil, []string{`120000 "passwd"`, `120000 "dangling"`, `120000 "loop"`, `120000 "up"`, `120000 "dirloop"`}},
	{"a tracked directory became a symlink", func(e *engine) {
		must(e.t, os.RemoveAll(filepath.Join(e.work, "src")))
		must(e.t, os.Symlink("/etc", filepath.Join(e.work, "src")))
	}, nil, []string{`120000 "src"`}},
	{"special files", func(e *engine) {
		must(e.t, unix.Mkfifo(filepath.Join(e.work, "fifo"), 0o644))
		must(e.t, unix.Mkfifo(filepath.Join(e.work, ".gitignore"), 0o644))
		must(e.t, unix.Mkfifo(filepath.Join(e.work, ".gitattributes"), 0o644))
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		must(e.t, err)
		work, err := os.Open(e.work) // its path may be longer than the name of a socket can be
		must(e.t, err)
		must(e.t, unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/sock", work.Fd())}))
		must(e.t, errors.Join(unix.Close(fd), work.Close()))
		must(e.t, os.Remove(filepath.Join(e.work, "README.md")))
		must(e.t, unix.Mkfifo(filepath.Join(e.work, "README.md"), 0o644))
	}, []string{"fifo: FIFO", ".gitignore: FIFO", "sock: socket", "README.md: FIFO"}, nil},
	{"modes", func(e *engine) {
		e.inWork("suid", "x")
		must(e.t, os.Chmod(filepath.Join(e.work, "suid"), 0o755|os.ModeSetuid|os.ModeSetgid|os.ModeSticky))
	}, nil, []string{`100755 "suid"`}},
	{"strange names", func(e *engine) {
		for _, name := range []string{"new\nline", "esc\x1b[31m", "-rf", "--all", ":(top)x", ":!x", "\xff\xfe", `quo"te\`, " ", "\"", "*", "[a]", "tab\t", "del\x7f", "c1\u009b31m"} {
			e.inWork(name, "x")
		}
	}, nil, []string{`100755 "new\nline"`, `100755 "esc\x1b[31m"`, `100755 "-rf"`, `100755 "--all"`, `100755 ":(top)x"`, `100755 ":!x"`,
		`100755 "\xff\xfe"`, `100755 "quo\"te\\"`, `100755 " "`, `100755 "\""`, `100755 "*"`, `100755 "[a]"`, `100755 "tab\t"`, `100755 "del\x7f"`}},
	{"locked away", func(e *engine) {
		e.inWork("locked/in/file", "x")
		must(e.t, os.Chmod(filepath.Join(e.work, "locked/in/file"), 0))
		must(e.t, os.Chmod(filepath.Join(e.work, "locked/in"), 0))
		must(e.t, os.Chmod(filepath.Join(e.work, "locked"), 0))
	}, nil, []string{`100644 "locked/in/file"`}},
	{"a sparse file of 300 MB", func(e *engine) {
		must(e.t, os.WriteFile(filepath.Join(e.work, "huge"), nil, 0o644))
		must(e.t, os.Truncate(filepath.Join(e.work, "huge"), 300<<20))
		must(e.t, os.Truncate(filepath.Join(e.work, "README.md"), 300<<20))
	}, []string{"huge: 314572800 bytes are more than 67108864", "README.md: 314572800 bytes"}, []string{`100644 "README.md"`}},
	{"attributes that change bytes", func(e *engine) {
		e.inWork(".gitattributes", "* ident text eol=crlf working-tree-encoding=UTF-16\n")
		e.inWork("id", "$Id$ \r\n")
	}, nil, []string{`100755 "id"`}},
	{"ferry's own directory", func(e *engine) { e.inWork(".ferry/agent.toml", "sandbox = \"none\"\n") }, []string{".ferry: ferry's own directory"}, nil},
	{"an ignore file that takes long to match", func(e *engine) {
		e.inWork(".gitignore", strings.Repeat("*a", 30)+"b\n"+strings.Repeat("**/", 30)+"b\n")
		e.inWork(strings.Repeat("a", 40), "x")
	}, nil, []string{`100755 "` + strings.Repeat("a", 40) + `"`}},
	{"hard links", func(e *engine) {
		must(e.t, os.Link(filepath.Join(e.work, "honest.txt"), filepath.Join(e.work, "twin")))
	}, nil, []string{`100755 "twin"`}},
}

func TestHostileTrees(t *testing.T) {
	t.Parallel()
	tricks := slices.Concat(pointerTricks, repositoryTricks, nestedTricks, fileTricks)
	if testing.Short() {
		tricks = pointerTricks
	}
	for _, level := range levels(t) {
		p := newPerson(t, nil)
		write(t, filepath.Join(p.dir, "README.md"), "stashed\n")
		git(t, p.dir, "stash", "-q")
		for i, h := range tricks {
			t.Run(string(level)+"/"+h.name, func(t *testing.T) {
				t.Parallel()
				p := p.in(t)
				h.test(t, p, worktree.SnapSpec{Tree: p.tree(fmt.Sprint("r", i)), Level: level})
			})
		}
	}
}

func (h hostile) test(t *testing.T, p *person, spec worktree.SnapSpec) {
	before := fingerprint(t, p.dir)
	tree := spec.Tree
	e := &engine{t: t, work: tree.Work(), repo: tree.Repo(), canary: tree.Dir() + ".canary", gate: p.gate.Dir(), base: string(p.head)}
	e.run = tree.Dir() + ".run"
	e.write(e.run, "#!/bin/sh\necho \"$0 $*\" >>"+e.canary+"\n")
	e.inWork("honest.txt", "honest\n")
	h.do(e)

	snap := p.snapshot(snapSpec(tree, spec.Level))
	listing := p.listing(snap.Commit)
	for _, want := range append([]string{`100755 "honest.txt"`}, h.files...) {
		if !strings.Contains("\n"+listing+"\n", "\n"+want+"\n") {
			t.Errorf("the snapshot lacks %s:\n%s", want, listing)
		}
	}
	if got := p.show(snap.Commit, "honest.txt"); got != "honest" {
		t.Errorf("honest.txt = %q", got)
	}
	skipped := strings.Join(snap.Skipped, "\n")
	for _, want := range h.skips {
		if !strings.Contains(skipped, want) {
			t.Errorf("left out is %q, without %q", skipped, want)
		}
	}
	if len(h.skips) == 0 && skipped != "" {
		t.Errorf("left out without a reason: %s", skipped)
	}
	if strings.Contains(listing, "160000") {
		t.Errorf("a nested repository became a submodule:\n%s", listing)
	}
	must(t, p.gate.Export(t.Context(), snap.Commit, tree.Dir()+".check"))
	if _, err := worktree.OpenTree(tree.Dir()); err != nil {
		t.Error(err)
	}
	must(t, p.gate.Retire(t.Context(), tree))
	if said, err := os.ReadFile(e.canary); err == nil {
		t.Errorf("the host ran: %s", said)
	}
	if fingerprint(t, p.dir) != before {
		t.Error("the person's repository changed")
	}
}

func TestSnapshotBytesAreExact(t *testing.T) {
	t.Parallel()
	const content = "$Id$ \r\nüber\r\n"
	p := newPerson(t, map[string]string{".gitattributes": "id text eol=crlf ident\nnew working-tree-encoding=UTF-16\n", "id": content})
	base := git(t, p.dir, "cat-file", "blob", "HEAD:id")
	tree := p.tree("r1")
	if got, err := os.ReadFile(filepath.Join(tree.Work(), "id")); err != nil || strings.TrimSpace(string(got)) != base {
		t.Errorf("the tree holds %q, the commit %q (%v)", got, base, err)
	}
	write(t, filepath.Join(tree.Work(), "new"), content)
	snap := p.snapshot(snapSpec(tree, levels(t)[0]))
	cmd := git(t, p.gate.Dir(), "cat-file", "-s", string(snap.Commit)+":new")
	if cmd != fmt.Sprint(len(content)) {
		t.Errorf("new has %s bytes, want %d", cmd, len(content))
	}
}

func TestSnapshotDevice(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can make a device")
	}
	p := newPerson(t, nil)
	tree := p.tree("r1")
	must(t, unix.Mknod(filepath.Join(tree.Work(), "null"), syscall.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	snap := p.snapshot(snapSpec(tree, levels(t)[0]))
	if want := []string{"null: device"}; len(snap.Skipped) != 1 || snap.Skipped[0] != want[0] {
		t.Errorf("skipped = %q", snap.Skipped)
	}
}

func TestDeepTree(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	tree := p.tree("r1")
	write(t, filepath.Join(tree.Work(), "honest.txt"), "honest\n")
	// Made from inside, one level at a time: no path of it could be opened from the root.
	at, err := unix.Open(tree.Work(), unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	for i := range 10_000 {
		must(t, unix.Mkdirat(at, "d", 0o755))
		next, err := unix.Openat(at, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err)
		must(t, unix.Close(at))
		if at = next; i == 5 || i == 9_999 {
			fd, err := unix.Openat(at, "file", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
			must(t, err)
			must(t, unix.Close(fd))
		}
	}
	must(t, unix.Close(at))
	snap := p.snapshot(snapSpec(tree, levels(t)[0]))
	if got := p.listing(snap.Commit); !strings.Contains(got, "d/d/d/d/d/d/file") || !strings.Contains(got, "honest.txt") {
		t.Errorf("files:\n%s", got)
	}
	if len(snap.Skipped) != 1 || !strings.HasSuffix(snap.Skipped[0], "path too long") {
		t.Errorf("skipped = %q", snap.Skipped)
	}
	must(t, p.gate.Retire(t.Context(), tree))
}

func TestADirectoryThatIsNotReadToItsEndIsNamed(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	tree := p.tree("r1")
	for i := range 20 {
		write(t, filepath.Join(tree.Work(), "d", fmt.Sprint(i)), "x")
	}
	spec := snapSpec(tree, levels(t)[0])
	spec.Limits.Names = 10
	snap := p.snapshot(spec)
	if want := []string{"d: not read to its end: more than 10 names"}; !slices.Equal(snap.Skipped, want) {
		t.Errorf("skipped = %q, want %q", snap.Skipped, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	spec.Ref += "-cancelled"
	if _, err := p.gate.Snapshot(ctx, spec); !errors.Is(err, context.Canceled) {
		t.Errorf("Snapshot() with an ended context = %v", err)
	}
}

func TestManyFiles(t *testing.T) {
	t.Parallel()
	p := newPerson(t, nil)
	tree := p.tree("r1")
	many := 8_000 // their names are more than a pipe holds
	if testing.Short() {
		many = 2_000
	}
	for i := range many {
		if i%100 == 0 {
			must(t, os.Mkdir(filepath.Join(tree.Work(), fmt.Sprintf("d%03d", i/100)), 0o755))
		}
		must(t, os.WriteFile(filepath.Join(tree.Work(), fmt.Sprintf("d%03d/%05d", i/100, i)), []byte{byte(i), byte(i >> 8), byte(i >> 16)}, 0o644))
	}
	snap := p.snapshot(snapSpec(tree, levels(t)[0]))
	if n := strings.Count(p.listing(snap.Commit), "\n") + 1; n != many+3 {
		t.Errorf("%d files", n)
	}
	spec := snapSpec(tree, levels(t)[0])
	spec.Ref += "-capped"
	spec.Limits.Files = 100
	capped := p.snapshot(spec)
	if n := strings.Count(p.listing(capped.Commit), "\n") + 1; n > 103 || len(capped.Skipped) != 201 || !strings.HasPrefix(capped.Skipped[200], "and ") {
		t.Errorf("capped: %d files, %d lines of what was left out", n, len(capped.Skipped))
	}
	must(t, p.gate.Retire(t.Context(), tree))
}

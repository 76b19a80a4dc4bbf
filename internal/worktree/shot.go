package worktree

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/process"
)

// shot is one snapshot at work. Its directory holds a git directory that no engine has seen:
//
//	snap/git   repository: its own configuration, index and objects; the gate's objects are borrowed
//	snap/skel  the tree's .gitignore files and nothing else, so that no other file of the tree takes part in the question
//	           which paths are ignored
//	snap/in    lists for git;  snap/out  what git answers
type shot struct {
	gate    *Gate
	spec    SnapSpec
	dir     string
	walk    *walk
	index   *index
	changed []file            // of the base
	fresh   []file            // not in the base
	gone    []string          // of the base
	refused map[string]string // paths that git's checks refused, and why
	ids     map[string]ferry.Commit
}

// made is what the box made.
type made struct {
	commit, tree ferry.Commit
	subjects     []string
}

// list finds out what differs from the base without reading any file.
func (s *shot) list(ctx context.Context) error {
	info, err := os.Stat(s.spec.Tree.index())
	if err != nil {
		return err
	}
	if s.index, err = readIndex(s.spec.Tree.index(), info.ModTime()); err != nil {
		return err
	}
	if s.walk, err = walkTree(ctx, s.spec.Tree.Work(), s.index, s.spec.Limits); err != nil {
		return err
	}
	s.changed, s.fresh, s.gone = nil, nil, nil
	present := make(map[string]bool, len(s.walk.files))
	for _, f := range s.walk.files {
		present[f.path] = true
		e, tracked := s.index.entries[f.path]
		switch {
		case tracked && (f.mode == modeRepo || s.index.same(e, f)):
		case s.refused[f.path] != "":
			s.walk.skip(f.path, s.refused[f.path], true)
		case f.bytes > s.spec.Limits.FileBytes && tracked:
			s.walk.skip(f.path, fmt.Sprintf("%d bytes are more than %d", f.bytes, s.spec.Limits.FileBytes), true)
		case tracked:
			s.changed = append(s.changed, f)
		default:
			s.fresh = append(s.fresh, f)
		}
	}
	for p := range s.index.entries {
		if !present[p] && !s.walk.kept[p] {
			s.gone = append(s.gone, p)
		}
	}
	slices.Sort(s.gone)
	return nil
}

// prepare makes the fresh git directory and the lists.
func (s *shot) prepare() error {
	if err := removeTree(s.dir); err != nil {
		return err
	}
	for _, d := range []string{"git/objects/info", "git/objects/pack", "git/refs/heads", "git/info", "skel", "in/link", "out", "box"} {
		if err := os.MkdirAll(filepath.Join(s.dir, d), 0o700); err != nil {
			return err
		}
	}
	index, err := atomicfile.ReadBounded(s.spec.Tree.index(), indexLimit)
	if err != nil {
		return err
	}
	git := filepath.Join(s.dir, "git")
	files := map[string]string{
		filepath.Join(git, "HEAD"):                          "ref: refs/heads/none\n",
		filepath.Join(git, "config"):                        s.gate.config(true) + boxConfig,
		filepath.Join(git, "info", "attributes"):            rawAttributes,
		filepath.Join(git, "objects", "info", "alternates"): s.gate.Objects() + "\n",
		filepath.Join(git, "index"):                         string(index),
		filepath.Join(s.dir, "in", "fresh"):                 s.freshList(),
	}
	if err := s.gate.copyShallow(files, git); err != nil {
		return err
	}
	if len(s.fresh) > 0 {
		s.skeleton(files)
	}
	return writeAll(files)
}

// boxConfig is added to the configuration of the git directory in the box.
const boxConfig = `[core]
	commitGraph = false
	multiPackIndex = false
	excludesFile = /dev/null
	protectHFS = true
	protectNTFS = true
	fsync = none
	logAllRefUpdates = false
	compression = 1
[advice]
	graftFileDeprecated = false
[index]
	version = 2
[pack]
	threads = 1
	writeReverseIndex = false
`

func (s *shot) freshList() string {
	var b strings.Builder
	for _, f := range s.fresh {
		// The prefix keeps a name that begins with a colon from being read as a pattern.
		b.WriteString("./" + f.path + "\x00")
	}
	return b.String()
}

// skeleton adds the tree's .gitignore files to files.
func (s *shot) skeleton(files map[string]string) {
	for _, p := range s.walk.ignores {
		data, err := s.walkIgnore(p)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(s.dir, "skel", p)), 0o700)
		}
		if err != nil {
			s.walk.skipped.add(p, "not obeyed: "+err.Error())
			continue
		}
		files[filepath.Join(s.dir, "skel", p)] = string(data)
	}
}

func (s *shot) walkIgnore(p string) ([]byte, error) {
	root, err := atomicfile.OpenRoot(s.spec.Tree.Work())
	if err != nil {
		return nil, err
	}
	defer root.Close()
	data, _, err := root.ReadFile(p, 1<<20)
	return data, err
}

// clean removes the directory of the snapshot; what stays is removed before the next one.
func (s *shot) clean() {
	if err := removeTree(s.dir); err != nil {
		s.gate.log.Warn("remove snapshot directory", "err", err)
	}
}

// script runs in the box. It stops twice and waits for a line, while ferry writes the next list. The two commands that
// read what the engine wrote for git (patterns, commits) have a cap on their processor time.
const script = `set -eu
umask 077
cd "$SNAP"
if [ -s in/fresh ]; then
	(ulimit -t 5; unset GIT_LITERAL_PATHSPECS; GIT_WORK_TREE="$SNAP/skel" git -C skel -c core.bare=false check-ignore -z --stdin) \
		<in/fresh >out/ignored || [ $? -eq 1 ] || echo failed >out/unsure
fi
if [ -n "$TIP" ]; then
	(ulimit -t 5; GIT_ALTERNATE_OBJECT_DIRECTORIES="$THEIRS" git log --first-parent -n 50 --no-show-signature \
		--encoding=UTF-8 --format='%H %s' "$TIP" --) >out/log 2>/dev/null || :
fi
echo listed
read -r _
(cd "$WORK" && git hash-object -w --no-filters --stdin-paths) <in/hash >out/ids
echo hashed
read -r _
git update-index -z --index-info <in/index
tree=$(git write-tree)
if [ "$tree" = "$(git rev-parse "$PARENT^{tree}")" ]; then
	echo "made $PARENT $tree"
	exit 0
fi
commit=$(git commit-tree "$tree" -p "$PARENT" <in/message)
printf '%s\n^%s\n' "$commit" "$PARENT" | git pack-objects --revs --thin --stdout -q >out/pack
echo "made $commit $tree"
`

// run lets git make the objects in a box.
func (s *shot) run(ctx context.Context) (made, error) {
	cmd, err := s.command()
	if err != nil {
		return made{}, err
	}
	defer func() {
		if err := cmd.Close(); err != nil {
			s.gate.log.Warn("close snapshot box", "err", err)
		}
	}()
	talk, err := startTalk(ctx, cmd.Spec)
	if err != nil {
		return made{}, err
	}
	m, err := s.converse(talk, cmd.Inside)
	if endErr := talk.end(ctx); endErr != nil {
		return made{}, endErr
	}
	return m, err
}

// command describes the box: the tree read-only, the borrowed objects read-only, the snapshot's own directory writable.
func (s *shot) command() (*box.Command, error) {
	t := s.spec.Tree
	git := s.gate.git
	spec := box.Spec{
		Level: s.spec.Level, Net: box.NetNone, Work: t.Work(), WorkReadOnly: true, State: filepath.Join(s.dir, "box"),
		Binds: []box.Bind{{Host: s.dir, Path: "/snap", Write: true}, s.gate.Bind()},
		Mark:  s.spec.Mark,
		Limits: process.Limits{
			FileBytes: s.spec.Limits.TotalBytes + 64<<20,
		},
	}
	path := "/usr/local/bin:/usr/bin:/bin"
	if git.execPath != "" {
		path = filepath.Dir(git.path) + ":" + path
		spec.Binds = append(spec.Binds, box.Bind{Host: filepath.Dir(git.path)}, box.Bind{Host: git.execPath})
	}
	tip, theirs := t.tip()
	if tip != "" {
		spec.Binds = append(spec.Binds, box.Bind{Host: theirs, Path: "/theirs"})
	}
	who := "ferry"
	if s.spec.Agent != "" {
		who = fmt.Sprintf("ferry (%s)", s.spec.Agent)
	}
	when := fmt.Sprintf("%d +0000", s.spec.When.Unix())
	// The paths are settled once the box has said where it shows them.
	spec.Env = append(environment(path), "GIT_AUTHOR_NAME="+who, "GIT_COMMITTER_NAME="+who, "GIT_AUTHOR_EMAIL="+agentEmail,
		"GIT_COMMITTER_EMAIL="+agentEmail, "GIT_AUTHOR_DATE="+when, "GIT_COMMITTER_DATE="+when,
		"PARENT="+string(s.spec.Parent), "TIP="+string(tip))
	spec.Env = append(spec.Env, s.insidePaths(theirs)...)
	return spec.Command([]string{"/bin/sh", "-c", script})
}

// insidePaths tells the script where the box shows its directories.
func (s *shot) insidePaths(theirs string) []string {
	snap, work := s.dir, s.spec.Tree.Work()
	if s.spec.Level == box.LevelBwrap {
		snap, work, theirs = "/snap", "/work", "/theirs"
	}
	return []string{"SNAP=" + snap, "WORK=" + work, "THEIRS=" + theirs, "GIT_DIR=" + snap + "/git"}
}

// converse answers the script's stops.
func (s *shot) converse(t *talk, inside func(string) string) (made, error) {
	var m made
	if err := t.expect("listed"); err != nil {
		return m, err
	}
	chosen, err := s.choose()
	if err != nil {
		return m, err
	}
	m.subjects = s.subjects()
	if err := s.writeHashList(chosen, inside); err != nil {
		return m, err
	}
	if err := t.next("hashed"); err != nil {
		return m, err
	}
	if err := s.writeIndexList(chosen); err != nil {
		return m, err
	}
	if err := s.put("in/message", message(s.spec.Message, m.subjects)); err != nil {
		return m, err
	}
	if err := t.send(); err != nil {
		return m, err
	}
	line, err := t.line()
	if err != nil {
		return m, err
	}
	fields := strings.Fields(line)
	if len(fields) != 3 || fields[0] != "made" {
		return m, fmt.Errorf("the box answers %q", line)
	}
	commit, err1 := ferry.ParseCommit(fields[1])
	tree, err2 := ferry.ParseCommit(fields[2])
	m.commit, m.tree = commit, tree
	return m, errors.Join(err1, err2)
}

// choose returns the files to hash: the changed ones and the new ones that are not ignored, within the caps.
func (s *shot) choose() ([]file, error) {
	ignored := map[string]bool{}
	if len(s.fresh) > 0 {
		list, err := atomicfile.ReadBounded(filepath.Join(s.dir, "out", "ignored"), outputLimit)
		if err != nil {
			return nil, err
		}
		for _, p := range nulFields(string(list)) {
			ignored[strings.TrimPrefix(p, "./")] = true
		}
		if _, err := os.Lstat(filepath.Join(s.dir, "out", "unsure")); err == nil {
			s.walk.skipped.add(".gitignore", "git could not apply it to every file")
		}
	}
	var chosen []file
	var total int64
	for _, f := range slices.Concat(s.changed, s.fresh) {
		_, tracked := s.index.entries[f.path]
		switch {
		case ignored[f.path]:
		case f.bytes > s.spec.Limits.FileBytes:
			s.walk.skip(f.path, fmt.Sprintf("%d bytes are more than %d", f.bytes, s.spec.Limits.FileBytes), tracked)
		case total+f.bytes > s.spec.Limits.TotalBytes:
			s.walk.skip(f.path, fmt.Sprintf("the files of one run may hold %d bytes", s.spec.Limits.TotalBytes), tracked)
		default:
			total += f.bytes
			chosen = append(chosen, f)
		}
	}
	return chosen, nil
}

// writeHashList names the files to hash. The target of a link is hashed from a file of ours.
func (s *shot) writeHashList(chosen []file, inside func(string) string) error {
	var list strings.Builder
	links := map[string]string{}
	for i, f := range chosen {
		p := f.path
		if f.mode == modeLink {
			host := filepath.Join(s.dir, "in", "link", fmt.Sprint(i))
			links[host] = f.target
			p = inside(host)
		}
		list.WriteString(quotePath(p) + "\n")
	}
	if err := writeAll(links); err != nil {
		return err
	}
	return s.put("in/hash", list.String())
}

// writeIndexList says how the index differs from the base: removals first, so that a directory can take a file's place.
func (s *shot) writeIndexList(chosen []file) error {
	out, err := atomicfile.ReadBounded(filepath.Join(s.dir, "out", "ids"), outputLimit)
	if err != nil {
		return err
	}
	ids := strings.Fields(string(out))
	if len(ids) != len(chosen) {
		return fmt.Errorf("git hashed %d of %d files", len(ids), len(chosen))
	}
	none := strings.Repeat("0", len(s.spec.Parent))
	var list strings.Builder
	for _, p := range s.gone {
		fmt.Fprintf(&list, "0 %s\t%s\x00", none, p)
	}
	s.ids = map[string]ferry.Commit{}
	for i, f := range chosen {
		fmt.Fprintf(&list, "%o %s\t%s\x00", f.mode, ids[i], f.path)
		s.ids[f.path] = ferry.Commit(ids[i])
	}
	return s.put("in/index", list.String())
}

func (s *shot) put(name, content string) error {
	return writeAll(map[string]string{filepath.Join(s.dir, name): content})
}

// talk is a process that stops at certain lines and waits for one.
type talk struct {
	proc   *process.Proc
	feed   *os.File
	out    *bufio.Reader
	said   *process.Keep
	stop   func() bool
	exited chan process.Exit
}

func startTalk(ctx context.Context, spec process.Spec) (*talk, error) {
	child, feed, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer child.Close()
	r, w := io.Pipe()
	t := &talk{feed: feed, out: bufio.NewReaderSize(r, 4096), said: process.NewKeep(2048, 6144), exited: make(chan process.Exit, 1)}
	spec.Stdin, spec.Stdout, spec.Stderr = child, w, t.said
	if t.proc, err = process.Start(spec); err != nil {
		return nil, errors.Join(err, feed.Close())
	}
	t.stop = context.AfterFunc(ctx, func() {
		_ = t.proc.Kill() // end reports what the process did
	})
	go func() {
		exit := t.proc.Wait()
		w.Close()
		t.exited <- exit
	}()
	return t, nil
}

func (t *talk) line() (string, error) {
	line, err := t.out.ReadSlice('\n')
	if err != nil {
		return "", fmt.Errorf("git in the box stopped early: %w", err)
	}
	return strings.TrimSpace(string(line)), nil
}

func (t *talk) expect(want string) error {
	line, err := t.line()
	if err == nil && line != want {
		err = fmt.Errorf("the box answers %q instead of %q", line, want)
	}
	return err
}

func (t *talk) send() error {
	_, err := t.feed.WriteString("go\n")
	return err
}

func (t *talk) next(want string) error {
	if err := t.send(); err != nil {
		return err
	}
	return t.expect(want)
}

// end closes the conversation and waits for the process. A process that failed is an error with its own words.
func (t *talk) end(ctx context.Context) error {
	closeErr := t.feed.Close()
	go func() { _, _ = io.Copy(io.Discard, t.out) }() // until the pipe is closed behind the last output
	exit := <-t.exited
	t.stop()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if exit.Code != 0 {
		return fmt.Errorf("git in the box: %s: %s", exit, lastLines(strings.TrimSpace(string(t.said.Bytes())), 6))
	}
	return closeErr
}

// message joins the caller's message and the engine's subjects.
func message(text string, subjects []string) string {
	text = strings.TrimSpace(strings.ReplaceAll(text, "\x00", "")) + "\n"
	if len(subjects) == 0 {
		return text
	}
	return text + "\nThe engine's own commits:\n- " + strings.Join(subjects, "\n- ") + "\n"
}

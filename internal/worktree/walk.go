package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Limits bounds what a snapshot takes from a tree. A zero field means the default.
type Limits struct {
	// FileBytes is the largest file, 64 MiB by default.
	FileBytes int64
	// TotalBytes is the most that changed and new files may hold together, 1 GiB by default.
	TotalBytes int64
	// Files is the most files and links that a tree may hold, 250,000 by default.
	Files int
	// Names is the most names of one directory that are looked at, 1,000,000 by default.
	Names int
}

func (l Limits) withDefaults() Limits {
	if l.FileBytes <= 0 {
		l.FileBytes = 64 << 20
	}
	if l.TotalBytes <= 0 {
		l.TotalBytes = 1 << 30
	}
	if l.Files <= 0 {
		l.Files = 250_000
	}
	if l.Names <= 0 {
		l.Names = 1_000_000
	}
	return l
}

const (
	// pathLimit keeps paths short enough to be opened from the root of a box.
	pathLimit = 3800
	// depthLimit is below what git accepts in a tree.
	depthLimit = 1000
	// skipLimit bounds the list of what was left out; the rest is counted.
	skipLimit = 200
)

// file is one thing of a tree that git can keep.
type file struct {
	path   string
	mode   uint32 // modeFile, modeExec, modeLink or modeRepo
	target string // of a link
	bytes  int64
	stamp  stamp
}

// walk lists a tree that nobody can be trusted to have left in order. It never follows a symlink, never opens anything
// but directories, and opens each directory element by element from the root.
type walk struct {
	root    int
	last    *os.File // the directory read last, kept open because the next one is mostly below it
	index   *index
	tracked map[string]bool // directories of the index
	limits  Limits
	files   []file
	kept    map[string]bool // paths of the index to keep though they were not read
	ignores []string        // .gitignore files
	skipped skips
}

// skips is what was left out, each as "path: why".
type skips struct {
	list []string
	more int
}

func (s *skips) add(path, why string) {
	if len(s.list) >= skipLimit {
		s.more++
		return
	}
	s.list = append(s.list, visible(path)+": "+why)
}

func (s *skips) all() []string {
	if s.more == 0 {
		return s.list
	}
	return append(slices.Clone(s.list), fmt.Sprintf("and %d more", s.more))
}

func walkTree(ctx context.Context, root string, ix *index, limits Limits) (*walk, error) {
	info, err := os.Lstat(root)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%w: %s is no longer a directory", ErrBroken, root)
	}
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EACCES) {
		if err = os.Chmod(root, 0o700); err == nil {
			fd, err = unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", root, err)
	}
	defer unix.Close(fd)
	w := &walk{root: fd, index: ix, limits: limits, tracked: map[string]bool{}, kept: map[string]bool{}}
	for p := range ix.entries {
		for d := path.Dir(p); d != "." && !w.tracked[d]; d = path.Dir(d) {
			w.tracked[d] = true
		}
	}
	defer w.remember(nil)
	w.checkPointer()
	// Directories wait in a list, not on the stack: how deep an engine nested them costs nothing.
	for queue := []string{"."}; len(queue) > 0; {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		dir := queue[len(queue)-1]
		queue = append(queue[:len(queue)-1], w.directory(dir)...)
	}
	slices.SortFunc(w.files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return w, nil
}

// checkPointer names a .git of the tree itself that is not the one ferry wrote. Nothing depends on it.
func (w *walk) checkPointer() {
	fd, err := unix.Openat(w.root, ".git", unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		f := os.NewFile(uintptr(fd), ".git")
		defer f.Close()
		info, statErr := f.Stat()
		buf := make([]byte, len(pointer)+1)
		if statErr == nil && info.Mode().IsRegular() {
			if n, _ := f.Read(buf); string(buf[:n]) == pointer { // an unreadable pointer is a changed one
				return
			}
		}
	}
	w.skipped.add(".git", "not as ferry wrote it")
}

// directory reads one directory and returns those below it.
func (w *walk) directory(dir string) []string {
	fd, err := w.open(dir)
	if err != nil {
		w.skip(dir, "unreadable: "+err.Error(), true)
		return nil
	}
	d := os.NewFile(uintptr(fd), dir)
	w.remember(d)
	var names []string
	for {
		part, err := d.Readdirnames(min(4096, w.limits.Names-len(names)+1))
		names = append(names, part...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && len(names) > w.limits.Names {
			err = fmt.Errorf("more than %d names", w.limits.Names)
		}
		if err != nil { // its names so far count
			w.skip(dir, "not read to its end: "+err.Error(), true)
			break
		}
	}
	slices.Sort(names)
	if dir != "." && !w.tracked[dir] && isBareRepository(fd, names) {
		w.skipped.add(dir, "embedded bare repository")
		return nil
	}
	var below []string
	for _, name := range names {
		if w.entry(fd, dir, name) {
			below = append(below, path.Join(dir, name))
		}
	}
	slices.Reverse(below)
	return below
}

// remember keeps d open in place of the directory before it.
func (w *walk) remember(d *os.File) {
	if w.last != nil {
		_ = w.last.Close() // it was only read
	}
	w.last = d
}

// open opens dir element by element, so that a symlink in any place is refused.
func (w *walk) open(dir string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	if w.last != nil && dir != "." && w.last.Name() == path.Dir(dir) {
		return unix.Openat(int(w.last.Fd()), path.Base(dir), flags, 0)
	}
	at, err := unix.Openat(w.root, ".", flags, 0)
	if err != nil || dir == "." {
		return at, err
	}
	for elem := range strings.SplitSeq(dir, "/") {
		next, err := unix.Openat(at, elem, flags, 0)
		unix.Close(at)
		if err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

// entry takes one name of a directory and reports whether it is a directory to read.
func (w *walk) entry(fd int, dir, name string) bool {
	p := path.Join(dir, name)
	if isGitDir(name) {
		if p != ".git" {
			w.skipped.add(p, "nested git repository")
		}
		return false
	}
	if p == ".ferry" && !w.tracked[p] {
		w.skipped.add(p, "ferry's own directory")
		return false
	}
	var st unix.Stat_t
	if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		w.skip(p, "unreadable: "+err.Error(), true)
		return false
	}
	if len(p) > pathLimit || strings.Count(p, "/") > depthLimit {
		w.skip(p, "path too long", false)
		return false
	}
	switch uint32(st.Mode) & unix.S_IFMT {
	case unix.S_IFDIR:
		return w.subdirectory(fd, name, p, &st)
	case unix.S_IFREG:
		w.regular(fd, name, p, &st)
	case unix.S_IFLNK:
		w.link(fd, name, p, &st)
	default:
		w.skip(p, kindOf(uint32(st.Mode)), false)
	}
	return false
}

func kindOf(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFIFO:
		return "FIFO"
	case unix.S_IFSOCK:
		return "socket"
	}
	return "device"
}

func (w *walk) subdirectory(fd int, name, p string, st *unix.Stat_t) bool {
	if e, ok := w.index.entries[p]; ok && e.mode == modeRepo {
		w.files = append(w.files, file{path: p, mode: modeRepo})
		if d, err := w.open(p); err == nil {
			f := os.NewFile(uintptr(d), p)
			if names, _ := f.Readdirnames(1); len(names) > 0 {
				w.skipped.add(p, "submodule: files in it are not taken")
			}
			f.Close()
		}
		return false
	}
	// What an engine locked away is still its work.
	if uint32(st.Mode)&0o700 != 0o700 {
		if err := unix.Fchmodat(fd, name, uint32(st.Mode)&0o777|0o700, 0); err != nil {
			w.skip(p, "unreadable: "+err.Error(), true)
			return false
		}
	}
	return true
}

func (w *walk) regular(fd int, name, p string, st *unix.Stat_t) {
	if !w.room(p) {
		return
	}
	f := file{path: p, mode: modeFile, bytes: st.Size, stamp: stampOf(st)}
	if uint32(st.Mode)&0o100 != 0 {
		f.mode = modeExec
	}
	if name == ".gitignore" {
		w.ignores = append(w.ignores, p)
	}
	if uint32(st.Mode)&0o400 == 0 {
		if err := unix.Fchmodat(fd, name, uint32(st.Mode)&0o777|0o400, 0); err != nil {
			w.skip(p, "unreadable: "+err.Error(), true)
			return
		}
	}
	w.files = append(w.files, f)
}

func (w *walk) link(fd int, name, p string, st *unix.Stat_t) {
	if isModules(name) {
		w.skip(p, "a symlink may not have this name", false)
		return
	}
	if !w.room(p) {
		return
	}
	buf := make([]byte, pathLimit+1)
	n, err := unix.Readlinkat(fd, name, buf)
	if err != nil || n > pathLimit {
		w.skip(p, "symlink with an unreadable or overlong target", true)
		return
	}
	w.files = append(w.files, file{path: p, mode: modeLink, target: string(buf[:n]), bytes: int64(n), stamp: stampOf(st)})
}

// room reports whether the tree may hold one file more.
func (w *walk) room(p string) bool {
	if len(w.files) < w.limits.Files {
		return true
	}
	w.skip(p, fmt.Sprintf("more than %d files", w.limits.Files), true)
	return false
}

// skip leaves p out and says why. With keep, what the base commit holds at p and below it stays, because nothing is
// known about it; without, it is gone.
func (w *walk) skip(p, why string, keep bool) {
	w.skipped.add(p, why)
	if !keep {
		return
	}
	if _, ok := w.index.entries[p]; ok {
		w.kept[p] = true
	}
	if p == "." || w.tracked[p] {
		for q := range w.index.entries {
			if p == "." || strings.HasPrefix(q, p+"/") {
				w.kept[q] = true
			}
		}
	}
}

// isBareRepository reports whether a directory looks to git like a repository, so that git run in it would obey its
// configuration.
func isBareRepository(fd int, names []string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, ok := slices.BinarySearch(names, name); !ok {
			return false
		}
	}
	var st unix.Stat_t
	err := unix.Fstatat(fd, "objects", &st, 0)
	return err == nil && uint32(st.Mode)&unix.S_IFMT == unix.S_IFDIR
}

func stampOf(st *unix.Stat_t) stamp {
	return stamp{
		mtime: unix.TimespecToNsec(st.Mtim), ctime: unix.TimespecToNsec(st.Ctim),
		inode: uint32(st.Ino), size: uint32(st.Size),
	}
}

package evidence

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/redact"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// Cache is what `prepare` left for one base commit. Boxes see it read-only, at
// the same path. The zero value is no cache.
type Cache struct {
	Dir string
}

// Binds gives what a box must see of the cache.
func (c Cache) Binds() []box.Bind {
	if c.Dir == "" {
		return nil
	}
	return []box.Bind{{Host: c.Dir}}
}

// Env gives the variables by which build tools find the cache, and write
// their own caches to build, a directory of that run alone.
func (c Cache) Env(build string) []string {
	env := []string{"XDG_CACHE_HOME=" + build}
	for _, v := range [][2]string{{"GOCACHE", "go-build"}, {"npm_config_cache", "npm"}, {"PIP_CACHE_DIR", "pip"}} {
		env = append(env, v[0]+"="+filepath.Join(build, v[1]))
	}
	if c.Dir == "" {
		return env
	}
	env = append(env, "FERRY_CACHE="+c.Dir)
	for _, v := range [][2]string{{"GOMODCACHE", "gomod"}, {"CARGO_HOME", "cargo"}, {"PYTHONPATH", "python"}} {
		env = append(env, v[0]+"="+filepath.Join(c.Dir, v[1]))
	}
	return env
}

// Shown gives the variables by which an engine finds what prepare downloaded.
// It builds with caches of its own.
func (c Cache) Shown() map[string]string {
	out := map[string]string{}
	for _, entry := range c.Env("") {
		if name, value, _ := strings.Cut(entry, "="); name == "FERRY_CACHE" || c.filled(value) {
			out[name] = value
		}
	}
	return out
}

// filled reports whether dir is a part of the cache that prepare put something into.
func (c Cache) filled(dir string) bool {
	if c.Dir == "" || filepath.Dir(dir) != c.Dir {
		return false
	}
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) > 0
}

// Environ adds Env to an environment. Where prepare has filled a cache, that
// one is used even if env names the host's.
func (c Cache) Environ(env []string, build string) []string {
	return withEnv(env, c.Env(build), func(entry string) bool {
		_, dir, _ := strings.Cut(entry, "=")
		return c.filled(dir)
	})
}

// maxBuildCache is the size in bytes up to which a run gets a copy of the
// build cache that prepare filled; with more, copying costs more than it saves.
const maxBuildCache = 512 << 20

// copyBuild gives a run its own copy of what prepare built.
func (c Cache) copyBuild(to string) error {
	from := filepath.Join(c.Dir, "build")
	if c.Dir == "" || !small(from, maxBuildCache) {
		return nil
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return fmt.Errorf("copy build cache: %w", err)
	}
	return nil
}

// small reports whether the regular files below dir hold at most most bytes.
func small(dir string, most int64) bool {
	var total int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		if total > most {
			return fs.ErrInvalid
		}
		return err
	})
	return err == nil
}

// PrepareSpec says how to fill a cache.
type PrepareSpec struct {
	Gate    *worktree.Gate
	Command string // `prepare` of [box]; empty makes no cache
	Base    ferry.Commit
	Dir     string   // holds the caches of the project
	Box     box.Spec // the template, usually with the network open
	Timeout time.Duration
	// Redactor cleans the output in an error; nil knows only the patterns of common secrets.
	Redactor *redact.Redactor
}

// Prepare runs the command on the base commit, with a cache directory that it
// may write, and gives that cache. What a base and a command once gave is used
// again; two at the same time fill two and share the first that is complete.
// No commit of an engine is ever in the box that fills a cache.
func Prepare(ctx context.Context, s PrepareSpec) (Cache, error) {
	if strings.TrimSpace(s.Command) == "" {
		return Cache{}, nil
	}
	family, key := s.names()
	if c, ok := cached(s.Dir, key); ok {
		return c, nil
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return Cache{}, fmt.Errorf("prepare: %w", err)
	}
	sweep(s.Dir)
	dir, err := os.MkdirTemp(s.Dir, key+"."+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return Cache{}, fmt.Errorf("prepare: %w", err)
	}
	if err := s.fill(ctx, dir, newest(s.Dir, family)); err != nil {
		return Cache{}, errors.Join(err, removeTree(dir))
	}
	err = os.Symlink(filepath.Base(dir), filepath.Join(s.Dir, key))
	if errors.Is(err, fs.ErrExist) {
		if err := removeTree(dir); err != nil {
			return Cache{}, fmt.Errorf("prepare: %w", err)
		}
	} else if err != nil {
		return Cache{}, fmt.Errorf("prepare: %w", err)
	}
	c, ok := cached(s.Dir, key)
	if !ok {
		return Cache{}, fmt.Errorf("prepare: the cache %s in %s was removed while it was made; run it again", key, s.Dir)
	}
	return c, nil
}

// names gives the name of the cache of a base commit, and how the names of the
// caches of the same command begin.
func (s PrepareSpec) names() (family, key string) {
	command := sha256.Sum256([]byte(s.Command + "\x00" + string(s.Box.Level)))
	family = hex.EncodeToString(command[:6]) + "_"
	base := sha256.Sum256([]byte(s.Base))
	return family, family + hex.EncodeToString(base[:8])
}

// newest finds the latest cache that the same command has filled.
func newest(dir, family string) Cache {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return Cache{}
	}
	var found Cache
	var made time.Time
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !strings.HasPrefix(e.Name(), family) || !info.ModTime().After(made) {
			continue
		}
		if c, ok := cached(dir, e.Name()); ok {
			found, made = c, info.ModTime()
		}
	}
	return found
}

// cached finds a complete cache: the link is made last.
func cached(dir, key string) (Cache, bool) {
	to, err := os.Readlink(filepath.Join(dir, key))
	if err != nil || to != filepath.Base(to) {
		return Cache{}, false
	}
	c := Cache{Dir: filepath.Join(dir, to, "files")}
	info, err := os.Lstat(c.Dir)
	return c, err == nil && info.IsDir()
}

// fill runs the command. It begins with what the command has built for an
// earlier base, which no engine has written either: build caches are made to
// be used again, and to know what is out of date.
func (s PrepareSpec) fill(ctx context.Context, dir string, earlier Cache) error {
	if s.Redactor == nil {
		s.Redactor = redact.New(nil)
	}
	if s.Timeout <= 0 {
		s.Timeout = DefaultCheckTimeout
	}
	work, c := filepath.Join(dir, "work"), Cache{Dir: filepath.Join(dir, "files")}
	if err := os.MkdirAll(filepath.Join(c.Dir, "build"), 0o700); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	if err := earlier.copyBuild(filepath.Join(c.Dir, "build")); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	if err := s.Gate.Export(ctx, s.Base, work); err != nil {
		return fmt.Errorf("prepare on %s: %w", s.Base.Short(), err)
	}
	b := s.Box
	b.Work, b.WorkReadOnly, b.State = work, false, filepath.Join(dir, "box")
	b.Binds = slices.Concat([]box.Bind{{Host: c.Dir, Write: true}, s.Gate.Bind()}, b.Binds)
	// What prepare downloads must go into the cache, whatever the host's own caches are called.
	b.Env = withEnv(b.Env, c.Env(filepath.Join(c.Dir, "build")), func(string) bool { return true })
	end, err := runBoxed(ctx, boxed{Box: b, Command: s.Command, Timeout: s.Timeout, Redactor: s.Redactor})
	if err != nil {
		return fmt.Errorf("prepare on %s: %w", s.Base.Short(), err)
	}
	if end.exit != 0 {
		return &PrepareError{Command: s.Command, Base: s.Base, Exit: end.exit, Reason: end.reason, Tail: end.tail}
	}
	return removeTree(work)
}

// PrepareError says that the project's `prepare` command failed.
type PrepareError struct {
	Command string
	Base    ferry.Commit
	Exit    int64
	Reason  string
	Tail    string
}

// Error names the command, the end of its output and what to change.
func (e *PrepareError) Error() string {
	s := fmt.Sprintf("prepare on %s: `%s` ended with exit %d; change `prepare` in [box] of .ferry/agent.toml", e.Base.Short(), clip(e.Command), e.Exit)
	if e.Reason != "" {
		s += " (" + e.Reason + ")"
	}
	return s + "; it printed last:\n" + e.Tail
}

// sweep removes what a process that is no more left half filled.
func sweep(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	whole := map[string]bool{}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil {
			whole[to] = true
		}
	}
	for _, e := range entries {
		_, rest, ok := strings.Cut(e.Name(), ".")
		id, _, _ := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(id)
		if !ok || !e.IsDir() || whole[e.Name()] || err != nil || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue
		}
		_ = removeTree(filepath.Join(dir, e.Name())) // what cannot be removed costs space only and is tried again
	}
}

// Prune removes the caches in dir but the newest most and those in use.
func Prune(dir string, most int, inUse []Cache) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("prune caches: %w", err)
	}
	type link struct {
		path, to string
		made     time.Time
	}
	var links []link
	for _, e := range entries {
		to, err := os.Readlink(filepath.Join(dir, e.Name()))
		info, statErr := e.Info()
		if err == nil && statErr == nil {
			links = append(links, link{filepath.Join(dir, e.Name()), filepath.Join(dir, filepath.Base(to)), info.ModTime()})
		}
	}
	slices.SortFunc(links, func(a, b link) int { return b.made.Compare(a.made) })
	for i, l := range links {
		used := slices.ContainsFunc(inUse, func(c Cache) bool { return filepath.Dir(c.Dir) == l.to })
		if i < most || used {
			continue
		}
		if err := errors.Join(os.Remove(l.path), removeTree(l.to)); err != nil {
			return fmt.Errorf("prune caches: %w", err)
		}
	}
	return nil
}

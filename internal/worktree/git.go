package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/process"
)

// outputLimit bounds what is read from one git command that lists paths or refs.
const outputLimit = 64 << 20

// hostPath is where helper programs of git are looked up; git itself is called by its absolute path.
const hostPath = "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin"

// rawAttributes stands in info/attributes of every repository that ferry makes. It has the last word over the
// .gitattributes files of a tree, so that bytes are the same in the objects and in the files.
const rawAttributes = "* -text -eol -crlf -ident -filter -working-tree-encoding !diff !merge !export-ignore !export-subst\n"

// program is the git of this machine.
type program struct {
	path         string
	major, minor int
	execPath     string // set when git does not live under /usr, where a box cannot see it by itself
}

// call is one git command. Dir is a git directory (bare or not); in is its standard input.
type call struct {
	dir   string
	tree  string   // a work tree, for the few commands that write one
	index string   // an index file of ferry's own
	set   []string // more settings, key=value
	env   []string
	in    io.Reader
	limit int64 // 0 means outputLimit
}

// settings are given to every git command; nothing a repository says about itself can turn them off.
var settings = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.commitGraph=false", "core.multiPackIndex=false",
	"core.attributesFile=/dev/null", "core.excludesFile=/dev/null", "core.protectHFS=true", "core.protectNTFS=true",
	"core.pager=cat", "core.alternateRefsCommand=true", "advice.graftFileDeprecated=false", "core.editor=false", "core.askPass=false", "core.sshCommand=false", "core.untrackedCache=false",
	"core.fsync=committed,loose-object,reference",
	"transfer.fsckObjects=true", "fetch.recurseSubmodules=false", "submodule.recurse=false", "fetch.writeCommitGraph=false",
	"fetch.prune=false", "fetch.pruneTags=false", "gc.auto=0", "maintenance.auto=false", "credential.helper=", "commit.gpgSign=false",
	"index.version=2", "index.threads=1", "core.splitIndex=false", "merge.renames=false",
	"merge.directoryRenames=false",
}

// tolerated are faults in old, honest histories; they harm nobody and must not keep a person's repository out.
var tolerated = []string{
	"badDate", "badDateOverflow", "badEmail", "badName", "badTimezone", "duplicateEntries", "emptyName", "missingEmail",
	"missingNameBeforeEmail", "missingSpaceBeforeDate", "missingSpaceBeforeEmail", "zeroPaddedDate", "zeroPaddedFilemode",
	"nullSha1", "missingTaggerEntry", "badTagName", "multipleAuthors",
}

// environment is the whole environment of every git command.
func environment(path string) []string {
	return []string{
		"PATH=" + path, "LC_ALL=C", "HOME=/nonexistent", "XDG_CONFIG_HOME=/nonexistent", "TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_GRAFT_FILE=/dev/null", "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_OPTIONAL_LOCKS=0", "GIT_ALLOW_PROTOCOL=file", "GIT_ASKPASS=false", "SSH_ASKPASS=false", "GIT_EDITOR=false",
		"GIT_PAGER=cat", "GIT_LITERAL_PATHSPECS=1",
	}
}

func findGit(ctx context.Context, path string) (program, error) {
	var p program
	if path == "" {
		path = "git"
	}
	full, err := process.LookPath(path, hostPath)
	if err != nil {
		return p, fmt.Errorf("%w: install git %d.%d or newer", ErrNoGit, minMajor, minMinor)
	}
	if p.path, err = filepath.Abs(full); err != nil {
		return p, fmt.Errorf("find git: %w", err)
	}
	spec := process.Spec{Argv: []string{p.path, "version"}, Env: environment(hostPath), Dir: "/"}
	out, _, err := process.Output(ctx, spec, 4096)
	if err != nil {
		return p, fmt.Errorf("%w: %v", ErrNoGit, err)
	}
	if p.major, p.minor, err = parseVersion(string(out)); err != nil {
		return p, fmt.Errorf("%w: %v", ErrNoGit, err)
	}
	if !p.atLeast(minMajor, minMinor) {
		return p, fmt.Errorf("%w: %s is version %d.%d, ferry needs %d.%d or newer",
			ErrOldGit, p.path, p.major, p.minor, minMajor, minMinor)
	}
	if !strings.HasPrefix(p.path, "/usr/") {
		out, _, err := process.Output(ctx, process.Spec{Argv: []string{p.path, "--exec-path"}, Env: environment(hostPath), Dir: "/"}, 4096)
		if err != nil {
			return p, fmt.Errorf("find git's programs: %w", err)
		}
		p.execPath = strings.TrimSpace(string(out))
	}
	return p, nil
}

func (p program) atLeast(major, minor int) bool {
	return p.major > major || p.major == major && p.minor >= minor
}

// parseVersion reads `git version 2.39.5 (Apple Git-154)`.
func parseVersion(s string) (major, minor int, err error) {
	fields := strings.Fields(s)
	if len(fields) >= 3 && fields[0] == "git" && fields[1] == "version" {
		parts := strings.Split(fields[2], ".")
		if len(parts) >= 2 {
			major, err = strconv.Atoi(parts[0])
			minor, err2 := strconv.Atoi(parts[1])
			if err == nil && err2 == nil {
				return major, minor, nil
			}
		}
	}
	return 0, 0, fmt.Errorf("git version says %q", strings.TrimSpace(s))
}

// run runs one git command on the git directory c.dir and returns its output. A command that ends with a status other
// than zero is an error of type *gitError.
func (p program) run(ctx context.Context, c call, args ...string) (string, error) {
	argv := []string{p.path, "--git-dir=" + c.dir}
	if c.tree != "" {
		argv = append(argv, "--work-tree="+c.tree)
	}
	return p.output(ctx, argv, c, args)
}

// output runs git with ferry's own environment and settings.
func (p program) output(ctx context.Context, argv []string, c call, args []string) (string, error) {
	for _, s := range slices.Concat(settings, c.set) {
		argv = append(argv, "-c", s)
	}
	env := append(environment(hostPath), c.env...)
	if c.index != "" {
		env = append(env, "GIT_INDEX_FILE="+c.index)
	}
	if c.limit == 0 {
		c.limit = outputLimit
	}
	dir := c.dir
	if c.tree != "" {
		dir = c.tree
	}
	return execute(ctx, process.Spec{Argv: append(argv, args...), Env: env, Dir: dir, Stdin: c.in}, args[0], c.limit)
}

// execute is the one place where git is started outside a box.
func execute(ctx context.Context, spec process.Spec, command string, limit int64) (string, error) {
	said := process.NewKeep(16<<10, 48<<10)
	spec.Stderr = said
	out, exit, err := process.Output(ctx, spec, limit)
	if err == nil {
		return string(out), nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return "", fmt.Errorf("git %s: %w", command, cause)
	}
	if exit.Code <= 0 {
		return string(out), fmt.Errorf("git %s: %w", command, err)
	}
	return string(out), &gitError{command: command, code: exit.Code, said: strings.TrimSpace(string(said.Bytes()))}
}

// gitError is a git command that ended with a status other than zero.
type gitError struct {
	command string
	code    int
	said    string
}

func (e *gitError) Error() string {
	said := e.said
	if said == "" {
		said = fmt.Sprintf("exit status %d", e.code)
	}
	return fmt.Sprintf("git %s: %s", e.command, lastLines(said, 6))
}

// exitCode returns the exit status behind err: 0 for none, -1 for an error of another kind.
func exitCode(err error) int {
	var ge *gitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ge):
		return ge.code
	}
	return -1
}

func lastLines(s string, n int) string {
	lines := strings.Split(s, "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "; ")
}

// resolve returns the object id that rev names, and whether it names one.
func (p program) resolve(ctx context.Context, dir, rev string) (ferry.Commit, bool, error) {
	out, err := p.run(ctx, call{dir: dir}, "rev-parse", "--verify", "--quiet", "--end-of-options", rev)
	if code := exitCode(err); code == 1 || code == 128 {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	id, err := ferry.ParseCommit(lastLine(out))
	return id, err == nil, err
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// nulFields splits the output of a -z command.
func nulFields(s string) []string {
	s = strings.TrimSuffix(s, "\x00")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\x00")
}

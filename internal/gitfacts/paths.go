package gitfacts

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/ferry-fleet/ferry"
)

// BadPath says why a path may not land, and "" when it may. It looks at the path alone; see BadEntries.
func BadPath(p string) string {
	switch {
	case p == "":
		return "empty path"
	case len(p) > 1024:
		return "longer than 1,024 bytes"
	case !utf8.ValidString(p):
		return "not UTF-8"
	case p[0] == '/':
		return "absolute path"
	}
	for elem := range strings.SplitSeq(p, "/") {
		if why := badElement(elem); why != "" {
			return why
		}
	}
	if first, _, _ := strings.Cut(p, "/"); fold(first) == ".ferry" {
		return "ferry's own directory"
	}
	return ""
}

func badElement(elem string) string {
	switch elem {
	case "":
		return "empty path element"
	case ".", "..":
		return "path element " + elem
	}
	if len(elem) > 255 {
		return "path element longer than 255 bytes"
	}
	for _, r := range elem {
		if why := badRune(r); why != "" {
			return why
		}
	}
	if strings.HasSuffix(elem, ".") || strings.HasSuffix(elem, " ") {
		return "name that ends with a dot or a space: another file on some systems"
	}
	lower := fold(elem)
	if gitOwn(lower) {
		return "a name that git keeps for itself"
	}
	return reserved(lower)
}

// gitOwn reports whether a folded name is .git, .gitmodules, or a short name that NTFS could give one of them. Files such
// as .gitignore are ordinary files that a reviewer sees.
func gitOwn(lower string) bool {
	return lower == ".git" || lower == ".gitmodules" || strings.HasPrefix(lower, "git~") ||
		strings.HasPrefix(lower, "gitmod~") || strings.HasPrefix(lower, "gi7eba~")
}

// badRune refuses what cannot be seen or is not the same name everywhere. Letters and their combining marks are stored
// composed by some systems and decomposed by others, so that only the composed form may land.
func badRune(r rune) string {
	switch {
	case unicode.IsControl(r):
		return "control character"
	case unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Co, r) || r == utf8.RuneError:
		return "invisible or direction-changing character"
	case r >= 0x300 && r <= 0x36f, r == 0x3099 || r == 0x309a, r >= 0x1160 && r <= 0x11ff:
		return "decomposed character: another file on some systems"
	case strings.ContainsRune("\\:", r):
		return fmt.Sprintf("character %q: a separator on some systems", r)
	}
	return ""
}

// reserved refuses the device names of Windows.
func reserved(lower string) string {
	stem, _, _ := strings.Cut(lower, ".")
	switch stem {
	case "con", "prn", "aux", "nul":
		return "a device name on some systems"
	}
	if len(stem) == 4 && (strings.HasPrefix(stem, "com") || strings.HasPrefix(stem, "lpt")) && stem[3] >= '0' && stem[3] <= '9' {
		return "a device name on some systems"
	}
	return ""
}

// fold maps names that differ only in case to the same name.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return unicode.ToLower(least)
	}, s)
}

// Bad is a changed path that may not land.
type Bad struct {
	Path string
	Why  string
}

// BadEntries returns the changed paths of a commit that may not land: bad paths, submodules, symlinks that leave the tree
// or point into .git, files above maxFile bytes, and names that another path of the whole tree takes on a system that
// ignores case. Deleted paths are never bad.
func (r *Repo) BadEntries(ctx context.Context, base, commit ferry.Commit, maxFile int64) ([]Bad, error) {
	list, err := r.entries(ctx, base, commit)
	if err != nil {
		return nil, fmt.Errorf("paths of %s: %w", commit.Short(), err)
	}
	twins, err := r.twins(ctx, commit)
	if err != nil {
		return nil, fmt.Errorf("paths of %s: %w", commit.Short(), err)
	}
	var bad []Bad
	for _, e := range list {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if e.new.none() {
			continue
		}
		why, err := r.badEntry(e, maxFile)
		if err != nil {
			return nil, fmt.Errorf("path %q of %s: %w", e.path, commit.Short(), err)
		}
		if why == "" {
			if twin := twins.of(e.path); twin != "" {
				why = fmt.Sprintf("the same name as %q on systems that ignore case", twin)
			}
		}
		if why != "" {
			bad = append(bad, Bad{Path: e.path, Why: why})
		}
	}
	return bad, nil
}

func (r *Repo) badEntry(e entry, maxFile int64) (string, error) {
	if why := BadPath(e.path); why != "" {
		return why, nil
	}
	switch e.new.mode {
	case filemode.Regular, filemode.Executable:
		blob, err := read(r, func() (*object.Blob, error) { return object.GetBlob(r.store, e.new.hash) })
		if err != nil {
			return "", err
		}
		if blob.Size > maxFile {
			return fmt.Sprintf("%d bytes are more than %d", blob.Size, maxFile), nil
		}
		return "", nil
	case filemode.Submodule:
		return "submodule", nil
	case filemode.Symlink:
		target, err := r.blob(e.new.hash, 4096)
		if errors.Is(err, ErrTooLarge) {
			return "symlink with an overlong target", nil
		}
		return badTarget(e.path, string(target)), err
	}
	return "mode " + e.new.modeText(), nil
}

// badTarget says why a symlink at p may not point to target.
func badTarget(p, target string) string {
	if target == "" || path.IsAbs(target) || strings.ContainsAny(target, "\\\x00") {
		return "symlink out of the tree"
	}
	depth := strings.Count(p, "/")
	for elem := range strings.SplitSeq(target, "/") {
		switch {
		case elem == "..":
			depth--
		case gitOwn(fold(elem)):
			return "symlink to a file that git obeys"
		case elem != "" && elem != ".":
			depth++
		}
		if depth < 0 {
			return "symlink out of the tree"
		}
	}
	return ""
}

// twins maps each folded name of a tree's paths and directories to the spellings it has.
type twins map[string][]string

// of returns another spelling of p or of one of its directories.
func (t twins) of(p string) string {
	for ; p != "."; p = path.Dir(p) {
		for _, other := range t[fold(p)] {
			if other != p {
				return other
			}
		}
	}
	return ""
}

func (r *Repo) twins(ctx context.Context, commit ferry.Commit) (twins, error) {
	root, err := r.treeOf(commit)
	if err != nil {
		return nil, err
	}
	t := twins{}
	return t, r.collect(ctx, "", root, t)
}

func (r *Repo) collect(ctx context.Context, prefix string, tree *object.Tree, t twins) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if strings.Count(prefix, "/") > depthLimit {
		return fmt.Errorf("%w: nested too deep", ErrTooLarge)
	}
	for _, e := range tree.Entries {
		p := prefix + e.Name
		t[fold(p)] = append(t[fold(p)], p)
		if e.Mode != filemode.Dir {
			continue
		}
		below, err := read(r, func() (*object.Tree, error) { return object.GetTree(r.store, e.Hash) })
		if err != nil {
			return fmt.Errorf("%q: %w", p, err)
		}
		if err := r.collect(ctx, p+"/", below, t); err != nil {
			return err
		}
	}
	return nil
}

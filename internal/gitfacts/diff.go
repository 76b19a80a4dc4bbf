package gitfacts

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/ferry-fleet/ferry"
)

// side is one side of a changed path; the zero value means that the path is not there.
type side struct {
	mode filemode.FileMode
	hash plumbing.Hash
}

func (s side) none() bool { return s == side{} }

func (s side) modeText() string {
	if s.none() {
		return ""
	}
	return fmt.Sprintf("%06o", uint32(s.mode))
}

func (s side) id() ferry.Commit {
	if s.none() {
		return ""
	}
	return ferry.Commit(s.hash.String())
}

// entry is one changed path.
type entry struct {
	path     string
	old, new side
}

// entries compares two trees and returns the changed files, sorted by path. Only trees that differ are read. A rename is
// a deletion and an addition.
func (r *Repo) entries(ctx context.Context, base, commit ferry.Commit) ([]entry, error) {
	from, err := r.treeOf(base)
	if err != nil {
		return nil, err
	}
	to, err := r.treeOf(commit)
	if err != nil {
		return nil, err
	}
	var list []entry
	if err := r.compare(ctx, "", pair{from, to}, &list); err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return list, nil
}

// depthLimit is more than any path of a work tree can have.
const depthLimit = 4096

// pair is the tree at one place on both sides; nil where there is none.
type pair struct{ from, to *object.Tree }

func (r *Repo) compare(ctx context.Context, prefix string, trees pair, list *[]entry) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if strings.Count(prefix, "/") > depthLimit {
		return fmt.Errorf("%q: %w: nested too deep", prefix[:80], ErrTooLarge)
	}
	for name, p := range trees.names() {
		if p.old == p.new {
			continue
		}
		path := prefix + name
		below := [2]*object.Tree{}
		for i, s := range []*side{&p.old, &p.new} {
			if s.mode != filemode.Dir || s.none() {
				continue
			}
			tree, err := read(r, func() (*object.Tree, error) { return object.GetTree(r.store, s.hash) })
			if err != nil {
				return fmt.Errorf("%q: %w", path, err)
			}
			below[i], *s = tree, side{}
		}
		if below[0] != nil || below[1] != nil {
			if err := r.compare(ctx, path+"/", pair{below[0], below[1]}, list); err != nil {
				return err
			}
		}
		if !p.old.none() || !p.new.none() {
			*list = append(*list, entry{path: path, old: p.old, new: p.new})
		}
	}
	return nil
}

// names gives both sides of every name that one of the trees has.
func (p pair) names() map[string]*entry {
	names := map[string]*entry{}
	at := func(name string) *entry {
		if names[name] == nil {
			names[name] = &entry{}
		}
		return names[name]
	}
	if p.from != nil {
		for _, e := range p.from.Entries {
			at(e.Name).old = side{mode: e.Mode, hash: e.Hash}
		}
	}
	if p.to != nil {
		for _, e := range p.to.Entries {
			at(e.Name).new = side{mode: e.Mode, hash: e.Hash}
		}
	}
	return names
}

// Changes returns the files that differ between two commits, sorted by path, without looking for renames. At most limit
// of them are returned; truncated reports whether there are more. Lines of files with a NUL byte in their first 8,000
// bytes, of files above 4 MiB and of submodules are not counted.
func (r *Repo) Changes(ctx context.Context, base, commit ferry.Commit, limit int) (files []ferry.File, truncated bool, err error) {
	list, err := r.entries(ctx, base, commit)
	if err != nil {
		return nil, false, fmt.Errorf("changes from %s to %s: %w", base.Short(), commit.Short(), err)
	}
	if len(list) > limit {
		list, truncated = list[:limit], true
	}
	for _, e := range list {
		if ctx.Err() != nil {
			return nil, false, context.Cause(ctx)
		}
		f := ferry.File{Path: e.path, Status: e.status(), ModeOld: e.old.modeText(), ModeNew: e.new.modeText(),
			OldBlob: e.old.id(), NewBlob: e.new.id()}
		old, new, binary, err := r.texts(e)
		if err != nil {
			return nil, false, fmt.Errorf("changes of %q: %w", e.path, err)
		}
		if f.Binary = binary; !binary {
			f.Added, f.Deleted = countLines(old, new)
		}
		files = append(files, f)
	}
	return files, truncated, nil
}

// status is A, M, D, or T when the kind of file changed.
func (e entry) status() string {
	kind := func(m filemode.FileMode) uint32 { return uint32(m) & 0o170000 }
	switch {
	case e.old.none():
		return "A"
	case e.new.none():
		return "D"
	case kind(e.old.mode) != kind(e.new.mode):
		return "T"
	}
	return "M"
}

// texts returns both sides of an entry, or that they are not text.
func (r *Repo) texts(e entry) (old, new string, binary bool, err error) {
	var text [2]string
	for i, s := range []side{e.old, e.new} {
		switch {
		case s.none():
		case s.mode == filemode.Submodule:
			text[i] = "Subproject commit " + s.hash.String() + "\n"
		default:
			data, err := r.blob(s.hash, blobLimit)
			if errors.Is(err, ErrTooLarge) {
				return "", "", true, nil
			}
			if err != nil {
				return "", "", false, err
			}
			if bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 {
				return "", "", true, nil
			}
			text[i] = string(data)
		}
	}
	return text[0], text[1], false, nil
}

// Content256 returns the digest of a change: the hex SHA-256 over one line for each changed path, sorted by the bytes of
// the path, each line being
//
//	mode SP sha256 SP path NUL
//
// with the new mode as six octal digits, the lowercase hex SHA-256 of the new blob's content (of the 40 hex digits of
// the commit id for a submodule), and the path as its bytes. For a deleted path the mode is 000000 and the digest is 64
// zeros. Two commits with the same base and the same digest hold the same files, whatever hash git names them by.
func (r *Repo) Content256(ctx context.Context, base, commit ferry.Commit) (string, error) {
	list, err := r.entries(ctx, base, commit)
	if err != nil {
		return "", fmt.Errorf("content of %s: %w", commit.Short(), err)
	}
	sum := sha256.New()
	for _, e := range list {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		digest := strings.Repeat("0", 64)
		switch {
		case e.new.none():
		case e.new.mode == filemode.Submodule:
			one := sha256.Sum256([]byte(e.new.hash.String()))
			digest = hex.EncodeToString(one[:])
		default:
			if digest, err = r.digest(e.new.hash); err != nil {
				return "", fmt.Errorf("content of %q: %w", e.path, err)
			}
		}
		fmt.Fprintf(sum, "%06o %s %s\x00", uint32(e.new.mode), digest, e.path)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// digest is the SHA-256 of a blob's content, read as a stream.
func (r *Repo) digest(hash plumbing.Hash) (string, error) {
	return read(r, func() (string, error) {
		sum := sha256.New()
		err := r.stream(hash, func(_ int64, f io.Reader) error {
			_, err := io.Copy(sum, f)
			return err
		})
		return hex.EncodeToString(sum.Sum(nil)), err
	})
}

// Patch returns the difference between two commits as a unified patch, with attributes and renames ignored. It holds at
// most maxBytes; truncated reports whether something is missing. A binary file is one line with both blob ids.
func (r *Repo) Patch(ctx context.Context, base, commit ferry.Commit, maxBytes int) (patch string, truncated bool, err error) {
	list, err := r.entries(ctx, base, commit)
	if err != nil {
		return "", false, fmt.Errorf("patch from %s to %s: %w", base.Short(), commit.Short(), err)
	}
	var b strings.Builder
	for _, e := range splitKinds(list) {
		if err := ctx.Err(); err != nil {
			return "", false, err
		}
		if err := r.patch(&b, e); err != nil {
			return "", false, fmt.Errorf("patch of %q: %w", e.path, err)
		}
		if b.Len() > maxBytes {
			return strings.ToValidUTF8(b.String()[:max(0, maxBytes)], "\uFFFD"), true, nil
		}
	}
	return b.String(), false, nil
}

// splitKinds turns a change of kind, such as a file that became a symlink, into a deletion and an addition, as patches do.
func splitKinds(list []entry) []entry {
	var split []entry
	for _, e := range list {
		if e.status() == "T" {
			split = append(split, entry{path: e.path, old: e.old}, entry{path: e.path, new: e.new})
			continue
		}
		split = append(split, e)
	}
	return split
}

func (r *Repo) patch(b *strings.Builder, e entry) error {
	old, new, binary, err := r.texts(e)
	if err != nil {
		return err
	}
	e.header(b)
	switch {
	case binary:
		fmt.Fprintf(b, "Binary files %s and %s differ\n", e.name("a/", e.old), e.name("b/", e.new))
	case old != new:
		fmt.Fprintf(b, "--- %s\n+++ %s\n", e.name("a/", e.old), e.name("b/", e.new))
		writeHunks(b, old, new)
	}
	return nil
}

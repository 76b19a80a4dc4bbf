// Package gitfacts reads facts from git objects: trees, diffs, files and histories.
//
// It reads a bare repository in process, with its own parser of git's formats: no git program, no hooks, no filters, no
// attributes, no replace refs and no grafts take part, so the same commits give every reader the same facts. Every
// answer is bounded; what a bound cut off is reported as such.
//
// It never writes, never runs a program, and never opens a repository that an engine could write to.
package gitfacts

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"

	"github.com/ferry-fleet/ferry"
)

// Errors that a caller may act on.
var (
	// ErrMissing means that the repository does not hold the object or the path.
	ErrMissing = errors.New("not in the repository")
	// ErrTooLarge means that an object is larger than the caller allows.
	ErrTooLarge = errors.New("too large")
	// ErrObjectFormat means that the repository names its objects with SHA-256, which this reader does not know.
	ErrObjectFormat = errors.New("sha256 repositories cannot be read")
)

// blobLimit is the largest blob that is compared line by line or shown; larger ones count as binary.
const blobLimit = 4 << 20

// Repo is an open repository. It sees objects that arrive after it was opened. It may not be used by several goroutines
// at the same time.
type Repo struct {
	dir   string
	store *filesystem.Storage
}

// Open opens the bare repository at dir.
func Open(dir string) (*Repo, error) {
	config, err := os.ReadFile(filepath.Join(dir, "config"))
	if err != nil {
		return nil, fmt.Errorf("open repository %s: %w", dir, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "objects")); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("open repository %s: it has no objects directory", dir)
	}
	if strings.Contains(strings.ToLower(string(config)), "sha256") {
		return nil, fmt.Errorf("open repository %s: %w", dir, ErrObjectFormat)
	}
	options := filesystem.Options{AlternatesFS: osfs.New("/"), KeepDescriptors: true}
	store := filesystem.NewStorageWithOptions(osfs.New(dir), cache.NewObjectLRU(16*cache.MiByte), options)
	return &Repo{dir: dir, store: store}, nil
}

// Close releases the open pack files.
func (r *Repo) Close() error { return r.store.Close() }

// packTries is how often the packs are looked for again: once for a new one, and more often for the case
// that they are joined at that moment.
const packTries = 5

// read calls get, and again after looking for packs when get misses an object or the pack that held it.
func read[T any](r *Repo, get func() (T, error)) (T, error) {
	v, err := get()
	for range packTries {
		// Its pack may be new, or joined with others since the index was read.
		if !errors.Is(err, plumbing.ErrObjectNotFound) && !errors.Is(err, dotgit.ErrPackfileNotFound) && !errors.Is(err, fs.ErrNotExist) {
			break
		}
		r.store.Reindex()
		v, err = get()
	}
	if errors.Is(err, plumbing.ErrObjectNotFound) || errors.Is(err, object.ErrFileNotFound) || errors.Is(err, object.ErrDirectoryNotFound) ||
		errors.Is(err, object.ErrEntryNotFound) {
		err = fmt.Errorf("%w (%v)", ErrMissing, err)
	}
	return v, err
}

func hashOf(id ferry.Commit) (plumbing.Hash, error) {
	if _, err := ferry.ParseCommit(string(id)); err != nil {
		return plumbing.ZeroHash, err
	}
	if len(id) != 40 {
		return plumbing.ZeroHash, ErrObjectFormat
	}
	return plumbing.NewHash(string(id)), nil
}

func (r *Repo) commit(id ferry.Commit) (*object.Commit, error) {
	hash, err := hashOf(id)
	if err != nil {
		return nil, err
	}
	return read(r, func() (*object.Commit, error) { return object.GetCommit(r.store, hash) })
}

func (r *Repo) treeOf(id ferry.Commit) (*object.Tree, error) {
	commit, err := r.commit(id)
	if err != nil {
		return nil, err
	}
	return read(r, commit.Tree)
}

// Tree returns the id of a commit's tree.
func (r *Repo) Tree(commit ferry.Commit) (ferry.Commit, error) {
	c, err := r.commit(commit)
	if err != nil {
		return "", fmt.Errorf("tree of %s: %w", commit, err)
	}
	return ferry.Commit(c.TreeHash.String()), nil
}

// Blob returns the content of a blob. More than max bytes are ErrTooLarge; an id that is not there, or is no blob, is
// ErrMissing. It does not look through any tree, so that reading all files of a change costs what they hold.
func (r *Repo) Blob(id ferry.Commit, max int64) ([]byte, error) {
	hash, err := hashOf(id)
	if err != nil {
		return nil, fmt.Errorf("read blob: %w", err)
	}
	data, err := r.blob(hash, max)
	if err != nil {
		return nil, fmt.Errorf("read blob %s: %w", id.Short(), err)
	}
	return data, nil
}

// blob returns the content of a blob of at most max bytes.
func (r *Repo) blob(hash plumbing.Hash, max int64) ([]byte, error) {
	return read(r, func() ([]byte, error) {
		var data []byte
		err := r.stream(hash, func(size int64, f io.Reader) (err error) {
			if size > max {
				return fmt.Errorf("%w: %d bytes are more than %d", ErrTooLarge, size, max)
			}
			data, err = io.ReadAll(io.LimitReader(f, max+1))
			if err == nil && int64(len(data)) > max {
				err = ErrTooLarge
			}
			return err
		})
		return data, err
	})
}

// stream gives the content of a blob to use. The pack that holds it may go away at any moment until then, so it belongs
// into one read as a whole.
func (r *Repo) stream(hash plumbing.Hash, use func(size int64, f io.Reader) error) error {
	blob, err := object.GetBlob(r.store, hash)
	if err != nil {
		return err
	}
	f, err := blob.Reader()
	if err != nil {
		return err
	}
	return errors.Join(use(blob.Size, f), f.Close())
}

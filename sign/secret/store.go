package secret

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"filippo.io/age"
	"github.com/gofrs/flock"

	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// The files of a store, below its directory.
const (
	SealedFile   = "secrets.age"
	IdentityFile = "identity.key"
	lockFile     = "lock"
)

// Caps of a store.
const (
	MaxValue   = 16 << 10 // bytes of one value
	maxNames   = 128
	maxSealed  = 2 << 20 // bytes of secrets.age
	maxOpened  = 1 << 20 // bytes of what is in it
	maxKeyFile = 4 << 10
)

// lockTime is how long a writer waits for another, which holds the lock for milliseconds.
const (
	lockTime  = 10 * time.Second
	lockEvery = 10 * time.Millisecond
)

// ErrNotSet reports that there is no secret of this name.
var ErrNotSet = errors.New("not set on this machine")

// ErrNoIdentity reports sealed values without the identity that opens them.
var ErrNoIdentity = errors.New("the identity that opens the values is gone")

var nameForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)

// CheckName checks the grammar of a secret's name.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return errors.New("a secret's name is 1 to 64 of A-Z, a-z, 0-9, underscore, dot, dash, and begins with a letter")
	}
	return nil
}

// CheckValue checks that a value can be kept and given to an engine. The error does not show it.
func CheckValue(value string) error {
	switch {
	case value == "":
		return errors.New("the value is empty")
	case len(value) > MaxValue:
		return fmt.Errorf("the value has more than %d bytes, the limit", MaxValue)
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return errors.New("the value is no UTF-8 text without NUL bytes")
	}
	return nil
}

// Store is the secrets of one machine. It reads the disk with every call, so that what another process set is seen.
type Store struct{ dir string }

// Open gives the store in dir, which need not exist.
func Open(dir string) Store { return Store{dir: dir} }

// Info is what may be told of a secret.
type Info struct {
	Name string
	Set  time.Time
}

// entry is one secret in the sealed file.
type entry struct {
	Value string    `json:"value"`
	Set   time.Time `json:"set"`
}

// sealed is what secrets.age holds.
type sealed struct {
	Version int              `json:"version"`
	Secrets map[string]entry `json:"secrets"`
}

// version is the form of what secrets.age holds.
const version = 1

// List gives the names that are set, sorted.
func (s Store) List() ([]Info, error) {
	all, err := s.read()
	if err != nil {
		return nil, err
	}
	out := make([]Info, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, Info{Name: name, Set: all[name].Set})
	}
	return out, nil
}

// Get gives the value of a name, or ErrNotSet.
func (s Store) Get(name string) (string, error) {
	all, err := s.read()
	if err != nil {
		return "", fmt.Errorf("secret %s: %w", name, err)
	}
	e, ok := all[name]
	if !ok {
		return "", fmt.Errorf("secret %s: %w", name, ErrNotSet)
	}
	return e.Value, nil
}

// Set keeps a value under a name. It reports whether the name had one before, which is gone.
func (s Store) Set(name, value string, now time.Time) (replaced bool, err error) {
	if err := errors.Join(CheckName(name), CheckValue(value)); err != nil {
		return false, fmt.Errorf("set secret: %w", err)
	}
	err = s.change(func(all map[string]entry) error {
		_, replaced = all[name]
		if !replaced && len(all) >= maxNames {
			return fmt.Errorf("there are %d secrets, the limit", len(all))
		}
		all[name] = entry{Value: value, Set: now.UTC().Truncate(time.Second)}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("set secret %s: %w", name, err)
	}
	return replaced, nil
}

// Remove forgets a name, or reports ErrNotSet.
func (s Store) Remove(name string) error {
	err := s.change(func(all map[string]entry) error {
		if _, ok := all[name]; !ok {
			return ErrNotSet
		}
		delete(all, name)
		return nil
	})
	if err != nil {
		return fmt.Errorf("remove secret %s: %w", name, err)
	}
	return nil
}

// change lets one process at a time read, change and write the values.
func (s Store) change(f func(map[string]entry) error) (err error) {
	if err := atomicfile.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockTime)
	defer cancel()
	lock := flock.New(filepath.Join(s.dir, lockFile), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockEvery); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Path(), err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	all, err := s.read()
	if err != nil {
		return err
	}
	if err := f(all); err != nil {
		return err
	}
	return s.write(all)
}

// read opens the sealed file. Without one there are no secrets.
func (s Store) read() (map[string]entry, error) {
	path := filepath.Join(s.dir, SealedFile)
	data, err := atomicfile.ReadBounded(path, maxSealed)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]entry{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	id, err := s.identity()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open %s: %w", path, ErrNoIdentity)
	}
	if err != nil {
		return nil, err
	}
	opened, err := age.Decrypt(bytes.NewReader(data), id)
	if err != nil {
		return nil, fmt.Errorf("open %s: it is damaged, or sealed to another identity than that of %s: %w", path, IdentityFile, err)
	}
	text, err := io.ReadAll(io.LimitReader(opened, maxOpened+1))
	if err != nil || len(text) > maxOpened {
		return nil, fmt.Errorf("open %s: it is damaged, or longer than %d bytes", path, maxOpened)
	}
	var v sealed
	if json.Unmarshal(text, &v) != nil {
		return nil, fmt.Errorf("open %s: what is in it is no list of secrets", path) // what JSON quotes could be a value
	}
	if v.Version != version {
		return nil, fmt.Errorf("open %s: it has version %d, and this ferry reads version %d", path, v.Version, version)
	}
	if v.Secrets == nil {
		v.Secrets = map[string]entry{}
	}
	return v.Secrets, nil
}

func (s Store) write(all map[string]entry) error {
	id, err := s.ownIdentity()
	if err != nil {
		return err
	}
	text, err := json.Marshal(sealed{Version: version, Secrets: all})
	if err != nil {
		return fmt.Errorf("seal the values: %w", err)
	}
	if len(text) > maxOpened {
		return fmt.Errorf("the values together have more than %d bytes, the limit", maxOpened)
	}
	var out bytes.Buffer
	w, err := age.Encrypt(&out, id.Recipient())
	if err != nil {
		return fmt.Errorf("seal the values: %w", err)
	}
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("seal the values: %w", err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("seal the values: %w", err)
	}
	return atomicfile.Write(filepath.Join(s.dir, SealedFile), out.Bytes(), 0o600)
}

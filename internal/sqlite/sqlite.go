// Package sqlite owns the one way in which ferry opens a SQLite file.
//
// Every file it opens is an index: it can be built again from something else. So it promises that Open gives an empty or a
// sound database with the wanted schema, and says when what was there is gone. A file with an older schema is replaced, a
// damaged one is moved aside, one of a newer ferry is refused and left alone.
//
// It never migrates, never keeps the only copy of anything, and never knows what the tables mean.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"github.com/mattn/go-sqlite3"
	"golang.org/x/sys/unix"

	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// ErrNewer reports a file that a newer version of ferry wrote.
var ErrNewer = errors.New("written by a newer ferry")

// Database is an open database and what became of the file that was there before.
type Database struct {
	*sql.DB
	Rebuilt bool   // the tables are empty: there was no file, or not one that could be used
	Aside   string // where a damaged file was moved to, or ""
}

// Open opens the database at path with schema, a list of SQL statements whose version, at least 1, is kept in the file. The
// file is readable by its owner only. Transactions take the write lock when they begin.
func Open(ctx context.Context, path, schema string, version int) (*Database, error) {
	if version < 1 {
		return nil, fmt.Errorf("open database %s: version %d is not positive", path, version)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	unlock, err := lock(path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	defer unlock()
	out := &Database{}
	// A damaged and an older file each need one more look.
	for range 3 {
		have, err := out.look(ctx, path)
		switch {
		case err == nil && have == version:
			return out, nil
		case err == nil && have > version:
			return nil, errors.Join(fmt.Errorf("open database %s: schema %d, this ferry knows %d: %w: update ferry, or remove the file to have it built again",
				path, have, version, ErrNewer), out.Close())
		case err == nil && have == empty:
			out.Rebuilt = true
			if err := out.apply(ctx, schema, version); err != nil {
				return nil, errors.Join(fmt.Errorf("open database %s: %w", path, err), out.Close())
			}
			return out, nil
		case err == nil:
			err = errors.Join(out.Close(), remove(path))
		case Damaged(err):
			out.Aside, err = MoveAside(path)
		}
		if err != nil {
			return nil, fmt.Errorf("open database %s: %w", path, err)
		}
	}
	return nil, fmt.Errorf("open database %s: it is damaged again after each attempt to build it", path)
}

// empty is the version of a database without tables.
const empty = -1

// look opens the file and returns the version of its schema. On an error nothing is left open.
func (d *Database) look(ctx context.Context, path string) (version int, err error) {
	// The file is made here, and not by SQLite, for its mode.
	if err := atomicfile.Create(path, nil, 0o600); err != nil && !errors.Is(err, atomicfile.ErrDiffers) {
		return 0, err
	}
	if d.DB, err = sql.Open("sqlite3", dsn(path)); err != nil {
		return 0, err
	}
	var tables int
	err = d.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version)
	if err == nil {
		err = d.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&tables)
	}
	if err != nil {
		return 0, errors.Join(err, d.Close())
	}
	if version == 0 && tables == 0 {
		return empty, nil
	}
	return version, nil
}

func (d *Database) apply(ctx context.Context, schema string, version int) error {
	tx, err := d.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return errors.Join(fmt.Errorf("apply schema: %w", err), tx.Rollback())
	}
	if _, err := tx.ExecContext(ctx, "PRAGMA user_version = "+strconv.Itoa(version)); err != nil {
		return errors.Join(fmt.Errorf("set schema version: %w", err), tx.Rollback())
	}
	return tx.Commit()
}

func dsn(path string) string {
	options := url.Values{
		"_journal_mode": {"WAL"}, "_busy_timeout": {"5000"}, "_foreign_keys": {"1"}, "_synchronous": {"NORMAL"}, "_txlock": {"immediate"},
		"_stmt_cache_size": {"64"}, "_cache_size": {"-8192"}, // KiB
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: options.Encode()}).String()
}

// Damaged reports whether err says that the file is not a sound database. The caller then closes it, calls MoveAside and
// opens it again.
func Damaged(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && (e.Code == sqlite3.ErrCorrupt || e.Code == sqlite3.ErrNotADB)
}

// MoveAside renames the damaged database at path, which nobody may have open, to the first free name of the form
// path.corrupt-1, and returns that name.
func MoveAside(path string) (string, error) {
	for n := 1; ; n++ {
		aside := path + ".corrupt-" + strconv.Itoa(n)
		if _, err := os.Lstat(aside); err == nil {
			continue
		}
		if err := os.Rename(path, aside); err != nil {
			return "", fmt.Errorf("move damaged database aside: %w", err)
		}
		return aside, remove(path)
	}
}

// remove deletes the database with its side files. A write-ahead log without its database would be taken for a part of
// the next one.
func remove(path string) error {
	for _, suffix := range []string{"-wal", "-shm", ""} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// lock waits until no other process is opening the same database.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

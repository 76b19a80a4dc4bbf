package channel

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// memory is what this process remembers of the folder beside its directories, guarded by the lock of the channel where
// nothing else is said.
type memory struct {
	clock     func() time.Time             // nil is the clock of the machine
	opened    func(name string)            // nil, or told of every file that is opened
	lacks     map[ferry.WriterID]time.Time // since when files of a writer are missing
	usage     map[string]int64             // bytes by directory
	top       dirStamp                     // of the folder itself
	odd       map[string]string            // names in it that are not read
	strangers strangers
	promised  map[ferry.RecordID]bool // records that redactions by a master name, as far as this process has seen them come
	hollow    map[ferry.RecordID]bool // bare records without a body from anywhere

	mu    sync.Mutex
	beats map[ferry.WriterID]*heardBeat // guarded by mu
	put   map[string]bool               // writers whose beats this process writes; guarded by mu
	forks map[chain]bool                // chains in which a number was signed twice; guarded by mu
	asked int64                         // size of the store when forks were looked for
}

func newMemory() *memory {
	return &memory{
		lacks: map[ferry.WriterID]time.Time{}, strangers: strangers{looked: map[string]bool{}, waits: map[string]bool{}, dirs: map[string]dirStamp{}},
		beats: map[ferry.WriterID]*heardBeat{}, put: map[string]bool{}, promised: map[ferry.RecordID]bool{},
	}
}

// dirStamp tells whether names came to or went from a directory since an earlier look.
type dirStamp struct {
	ino   uint64
	mtime int64
}

func stampOf(info fs.FileInfo) dirStamp {
	s := dirStamp{mtime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.ino = st.Ino
	}
	return s
}

// settled reports whether a later change of the directory will show in its stamp. A filesystem whose clock ticks coarsely
// can change twice in one tick.
func (s dirStamp) settled(now time.Time) bool {
	tick := 20 * time.Millisecond
	if s.mtime%int64(time.Second) == 0 {
		tick = 2 * time.Second
	}
	return now.UnixNano()-s.mtime > int64(tick)
}

// now is the one place where a look at the folder reads the clock: for whether a file has settled, for how long something
// has been missing and for the day of a quota. What counts never depends on it.
func (c *Channel) now() time.Time {
	if c.seen.clock != nil {
		return c.seen.clock()
	}
	return time.Now()
}

// scan is one look at the folder.
type scan struct {
	ingest
	report Report
	now    time.Time
	clean  map[string]dirStamp // directories in which nothing happened since an earlier look, if they still look like this
	own    map[ferry.WriterID]bool
	held   string // why only those who govern are read, or empty
	usage  usage  // what is taken in of the folder, as of this moment
	quotas map[ferry.WriterID]*quota
	loose  map[ferry.WriterID]int      // files opened
	packs  map[string]int              // packs opened, by account
	parked map[string]int              // by directory, what waits for a predecessor
	due    map[ferry.WriterID]struct{} // writers of other machines whose files may be missing
}

// scan takes in what the folder has, and puts back what is missing from it. It needs the lock, and an index that covers the
// store.
func (c *Channel) scan(ctx context.Context) (Report, error) {
	if err := c.repunch(); err != nil {
		return Report{}, err
	}
	root, err := atomicfile.OpenRoot(c.cfg.Folder)
	s := &scan{
		ingest: ingest{c: c, root: root, tips: map[chain]tip{}}, now: c.now(),
		clean: map[string]dirStamp{}, own: map[ferry.WriterID]bool{}, quotas: map[ferry.WriterID]*quota{},
		loose: map[ferry.WriterID]int{}, packs: map[string]int{}, parked: map[string]int{}, due: map[ferry.WriterID]struct{}{},
	}
	if err != nil {
		why := map[string]string{".": "the folder cannot be opened: " + err.Error()}
		return s.report, s.reject(ctx, "", why)
	}
	defer root.Close()
	if err := s.pass(ctx); err != nil {
		return s.report, err
	}
	s.report.New = s.taken
	for _, n := range s.parked {
		s.report.Parked += n
	}
	return s.report, nil
}

func (s *scan) pass(ctx context.Context) error {
	if err := s.recall(ctx); err != nil {
		return err
	}
	if err := s.room(ctx); err != nil {
		return err
	}
	// What one directory lacks another may have, so what was parked is tried again while anything comes in.
	for range 3 {
		before := s.taken + s.told
		if err := s.writers(ctx); err != nil {
			return err
		}
		if len(s.parked) == 0 || s.taken+s.told == before {
			break
		}
	}
	if err := s.hearNobody(ctx); err != nil {
		return err
	}
	if err := s.forked(ctx); err != nil {
		return err
	}
	if err := s.others(ctx); err != nil {
		return err
	}
	if err := s.relays(ctx); err != nil {
		return err
	}
	if err := s.flush(ctx); err != nil {
		return err
	}
	if err := s.strip(ctx); err != nil {
		return err
	}
	return s.keepQuotas(ctx)
}

// recall reads what is remembered of the directories, and which writers are of this machine.
func (s *scan) recall(ctx context.Context) error {
	err := s.recallHollow(ctx)
	if err != nil {
		return err
	}
	err = each(ctx, s.c.db, func(rows *sql.Rows) error {
		var name string
		var st dirStamp
		if err := rows.Scan(&name, &st.ino, &st.mtime); err != nil {
			return err
		}
		s.clean[name] = st
		return nil
	}, `SELECT dir, ino, mtime FROM dirs`)
	if err != nil {
		return err
	}
	err = each(ctx, s.c.db, func(rows *sql.Rows) error {
		var w ferry.WriterID
		err := rows.Scan(&w)
		s.own[w] = true
		return err
	}, `SELECT DISTINCT writer FROM own`)
	if err != nil {
		return err
	}
	return s.recallQuotas(ctx)
}

// readable gives the writers whose directories are read, the master first.
func readable(r *authority.Roster) []ferry.WriterID { return r.Known() }

// writers looks at the directories of every known writer, the master's first: it lets the others in.
func (s *scan) writers(ctx context.Context) error {
	done := map[ferry.WriterID]bool{}
	for {
		known := readable(s.c.authority())
		i := slices.IndexFunc(known, func(w ferry.WriterID) bool { return !done[w] })
		if i < 0 && len(s.batch)+len(s.after) == 0 {
			return nil
		}
		if i < 0 { // what was collected may let further writers in
			if err := s.flush(ctx); err != nil {
				return err
			}
			continue
		}
		w := known[i]
		done[w] = true
		if err := s.writer(ctx, w); err != nil {
			return err
		}
	}
}

// dirState is what a look at a directory found.
type dirState uint8

const (
	dirAbsent dirState = iota
	dirClean           // nothing happened in it since an earlier look
	dirOdd             // it cannot be listed
	dirListed
)

// listing is one look at a directory.
type listing struct {
	dir     string
	state   dirState
	entries []fs.DirEntry
	stamp   dirStamp
	more    bool // than were read
	gone    bool // absent, and there at an earlier look
}

// list reads the names of a directory that may have changed since the stamp of an earlier look.
func (s *scan) list(ctx context.Context, dir string, earlier dirStamp) (listing, error) {
	l := listing{dir: dir}
	info, err := s.root.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d := s.c.dirs[dir]
		if _, was := s.clean[dir]; was || d != nil && d.stamp != (dirStamp{}) {
			l.gone = true
			return l, s.forget(ctx, dir)
		}
		return l, nil
	case err != nil || !info.IsDir():
		l.state = dirOdd
		return l, s.reject(ctx, dir, map[string]string{".": "not a directory that can be opened without following a symlink"})
	}
	if l.stamp = stampOf(info); l.stamp == earlier {
		l.state = dirClean
		return l, nil
	}
	if l.entries, l.more, err = s.root.ReadDir(dir, maxNames); err != nil {
		l.state = dirOdd
		return l, s.reject(ctx, dir, map[string]string{".": err.Error()})
	}
	l.state = dirListed
	return l, nil
}

// forget drops what is remembered of a directory that is gone.
func (s *scan) forget(ctx context.Context, dir string) error {
	if d := s.c.dirs[dir]; d != nil {
		*d = dirMemory(d.seals)
	}
	delete(s.parked, dir)
	if err := s.reject(ctx, dir, nil); err != nil {
		return err
	}
	if err := errors.Join(s.forgetPacks(ctx, dir, nil), s.used(ctx, dir, 0)); err != nil {
		return err
	}
	return s.unsettle(ctx, dir)
}

// done ends a look: it reports why names are not read, and remembers the directory if no further look is due before it
// changes.
func (s *scan) done(ctx context.Context, l listing, why map[string]string, again bool) error {
	if l.more {
		why["."] = fmt.Sprintf("holds more than %d names; some are not read", maxNames)
	}
	if err := s.reject(ctx, l.dir, why); err != nil || again || l.state != dirListed || !l.stamp.settled(s.now) {
		return err
	}
	s.c.at("listed")
	s.clean[l.dir] = l.stamp
	return s.c.settle(ctx, l.dir, l.stamp)
}

// settle remembers that a directory needs no further look before it changes.
func (c *Channel) settle(ctx context.Context, name string, st dirStamp) error {
	_, err := c.db.ExecContext(ctx, `INSERT OR REPLACE INTO dirs VALUES (?, ?, ?)`, name, int64(st.ino), st.mtime)
	if err != nil {
		return fmt.Errorf("remember the directory %s: %w", name, err)
	}
	return nil
}

// unsettle makes the next pass look at a directory.
func (s *scan) unsettle(ctx context.Context, name string) error {
	if _, settled := s.clean[name]; !settled {
		return nil
	}
	delete(s.clean, name)
	if _, err := s.c.db.ExecContext(ctx, `DELETE FROM dirs WHERE dir = ?`, name); err != nil {
		return fmt.Errorf("forget the directory %s: %w", name, err)
	}
	return nil
}

// reject remembers what of a directory is not read, and reports what was not known before.
func (s *scan) reject(ctx context.Context, dir string, why map[string]string) error {
	names := slices.Sorted(maps.Keys(why))
	if len(names) > maxReported {
		why = maps.Clone(why)
		why[".."] = fmt.Sprintf("%d more names are not read", len(names)-maxReported)
		names = append([]string{".."}, names[:maxReported]...)
	}
	before := map[string]string{}
	err := each(ctx, s.c.db, func(rows *sql.Rows) error {
		var name, reason string
		err := rows.Scan(&name, &reason)
		before[name] = reason
		return err
	}, `SELECT name, reason FROM rejected WHERE dir = ?`, dir)
	if err != nil {
		return err
	}
	after := map[string]string{}
	for _, name := range names {
		after[name] = why[name]
		if before[name] != why[name] {
			s.report.Rejected = append(s.report.Rejected, Rejected{Name: path.Join(dir, name), Reason: why[name]})
		}
	}
	if maps.Equal(before, after) {
		return nil
	}
	return s.c.setRejected(ctx, dir, after)
}

func (c *Channel) setRejected(ctx context.Context, dir string, why map[string]string) error {
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing; before it, the error is known already
	if _, err := tx.ExecContext(ctx, `DELETE FROM rejected WHERE dir = ?`, dir); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	for name, reason := range why {
		if _, err := tx.ExecContext(ctx, `INSERT INTO rejected VALUES (?, ?, ?)`, dir, name, reason); err != nil {
			return fmt.Errorf("index: %w", err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	return nil
}

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
	"syscall"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/sign"
)

// dir is what this process remembers of one writer's directory.
type dir struct {
	names map[string]place // records of the writer that the store has
	bad   map[string]badFile
}

// badFile is a file that was looked at and not taken, so that it is not read again before it changes. A parked one is read
// again when the store has grown.
type badFile struct {
	size  int64
	mtime time.Time
	store int64
	verdict
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

// scan is one look at the folder.
type scan struct {
	ingest
	report Report
	clean  map[string]dirStamp // directories in which nothing happened since an earlier look, if they still look like this
	own    map[ferry.WriterID]bool
}

// scan takes in what the folder has, and puts back what is missing from it. It needs the lock, and an index that covers the
// store.
func (c *Channel) scan(ctx context.Context) (Report, error) {
	root, err := atomicfile.OpenRoot(c.cfg.Folder)
	s := &scan{ingest: ingest{c: c, root: root, tips: map[chain]tip{}}, clean: map[string]dirStamp{}, own: map[ferry.WriterID]bool{}}
	if err != nil {
		why := map[string]string{".": "the folder cannot be opened: " + err.Error()}
		return s.report, s.reject(ctx, "", why)
	}
	defer root.Close()
	if err := s.reject(ctx, "", nil); err != nil {
		return s.report, err
	}
	if err := s.recall(ctx); err != nil {
		return s.report, err
	}
	if err := s.writers(ctx); err != nil {
		return s.report, err
	}
	if err := s.strangers(ctx); err != nil {
		return s.report, err
	}
	s.report.New = s.taken
	return s.report, nil
}

func (s *scan) recall(ctx context.Context) error {
	err := each(ctx, s.c.db, func(rows *sql.Rows) error {
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
	return each(ctx, s.c.db, func(rows *sql.Rows) error {
		var w ferry.WriterID
		err := rows.Scan(&w)
		s.own[w] = true
		return err
	}, `SELECT writer FROM own`)
}

// writers looks at the directory of every member, the master's first: it lets the others in.
func (s *scan) writers(ctx context.Context) error {
	done := map[ferry.WriterID]bool{}
	for {
		members := s.c.authority().Members()
		i := slices.IndexFunc(members, func(m ferry.Member) bool { return !done[m.Writer] })
		if i < 0 {
			return nil
		}
		w := members[i].Writer
		done[w] = true
		if err := s.writer(ctx, w); err != nil {
			return err
		}
	}
}

func (s *scan) writer(ctx context.Context, w ferry.WriterID) error {
	name := recordsPath(w)
	info, err := s.root.Stat(name)
	var stamp dirStamp
	var entries []fs.DirEntry
	var more bool
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if !s.own[w] {
			return nil
		}
	case err != nil || !info.IsDir():
		return s.reject(ctx, name, map[string]string{".": "not a directory that can be opened without following a symlink"})
	default:
		if stamp = stampOf(info); s.clean[name] == stamp {
			return nil
		}
		if entries, more, err = s.root.ReadDir(name, maxNames); err != nil {
			return s.reject(ctx, name, map[string]string{".": err.Error()})
		}
	}
	why, loose, err := s.files(ctx, w, entries)
	if err != nil {
		return err
	}
	if more {
		why["."] = fmt.Sprintf("holds more than %d names; some are not read", maxNames)
	}
	if s.own[w] {
		left, err := s.listed(ctx, w, entries)
		if err != nil {
			why["."] = "an own file cannot be put back: " + err.Error()
		}
		loose = loose || left || err != nil
	}
	if err := s.reject(ctx, name, why); err != nil || loose || !stamp.settled(time.Now()) {
		return err
	}
	return s.c.settle(ctx, name, stamp)
}

// settle remembers that a directory needs no further look before it changes.
func (c *Channel) settle(ctx context.Context, name string, st dirStamp) error {
	_, err := c.db.ExecContext(ctx, `INSERT OR REPLACE INTO dirs VALUES (?, ?, ?)`, name, int64(st.ino), st.mtime)
	if err != nil {
		return fmt.Errorf("remember the directory %s: %w", name, err)
	}
	return nil
}

// files looks at what is not in the store yet. It returns why names are not read, and whether one of them may become
// readable without a change of the directory.
func (s *scan) files(ctx context.Context, w ferry.WriterID, entries []fs.DirEntry) (why map[string]string, loose bool, err error) {
	d, err := s.c.dir(ctx, w)
	if err != nil {
		return nil, false, err
	}
	why, bad := map[string]string{}, map[string]badFile{}
	for _, e := range entries {
		name := e.Name()
		if _, have := d.names[name]; have || hidden(name) {
			continue
		}
		if reason := misfit(name); reason != "" {
			why[name] = reason
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		b, err := s.entry(ctx, w, e)
		if err != nil {
			return nil, false, err
		}
		if b.kind > known {
			bad[name] = b
		}
	}
	for name, b := range bad {
		switch b.kind {
		case parked:
			s.report.Parked++
			loose = true
		case incomplete:
			why[name], loose = b.reason, true
		case misnamed, rejected:
			why[name] = b.reason
		}
	}
	d.bad = bad
	return why, loose, s.flush(ctx)
}

// entry looks at one file, unless it looks the same as when it was not taken before.
func (s *scan) entry(ctx context.Context, w ferry.WriterID, e fs.DirEntry) (badFile, error) {
	info, err := e.Info()
	if err != nil {
		return badFile{verdict: verdict{kind: vanished}}, nil // it went away while we looked
	}
	s.c.mu.Lock()
	store := s.c.synced
	s.c.mu.Unlock()
	b := badFile{size: info.Size(), mtime: info.ModTime(), store: store}
	old, seen := s.c.dirs[string(w)].bad[e.Name()]
	if seen && old.size == b.size && old.mtime.Equal(b.mtime) && (old.kind != parked || old.store == b.store && len(s.batch) == 0) {
		return old, nil
	}
	b.verdict, err = s.file(ctx, w, e.Name())
	return b, err
}

// dir gives what is remembered of a writer's directory, with the names of all its records in the store.
func (c *Channel) dir(ctx context.Context, w ferry.WriterID) (*dir, error) {
	err := each(ctx, c.db, func(rows *sql.Rows) error {
		var writer string
		var epoch uint32
		var seq uint64
		var pl place
		var id sql.RawBytes
		if err := rows.Scan(&c.named, &writer, &epoch, &seq, &id, &pl.off, &pl.size); err != nil {
			return err
		}
		copy(pl.id[:], id)
		c.remembered(writer).names[recordName(epoch, seq, pl.id)] = pl
		return nil
	}, `SELECT n, writer, epoch, seq, id, off, size FROM records WHERE n > ? ORDER BY n`, c.named)
	return c.remembered(string(w)), err
}

func (c *Channel) remembered(w string) *dir {
	d := c.dirs[w]
	if d == nil {
		d = &dir{names: map[string]place{}, bad: map[string]badFile{}}
		c.dirs[w] = d
	}
	return d
}

// listed puts back the own files that a listing of the directory lacks or shows with another size. It reports whether it
// left or changed something, so that another look is due.
func (s *scan) listed(ctx context.Context, w ferry.WriterID, entries []fs.DirEntry) (left bool, err error) {
	d, err := s.c.dir(ctx, w)
	if err != nil {
		return false, err
	}
	missing := maps.Clone(d.names)
	var damaged []string
	for _, e := range entries {
		pl, mine := missing[e.Name()]
		if !mine {
			s.sweep(w, e.Name())
			continue
		}
		delete(missing, e.Name())
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.Size() == int64(pl.size) {
			continue
		}
		damaged = append(damaged, e.Name())
	}
	names := append(damaged, slices.Sorted(maps.Keys(missing))...)
	for _, name := range names[:min(len(names), maxRepublish)] {
		if err := s.putBack(w, name, d.names[name]); err != nil {
			return true, err
		}
		s.report.Republished++
	}
	return len(names) > 0, nil
}

// sweep removes what a killed write of this machine left under a temporary name.
func (s *scan) sweep(w ferry.WriterID, name string) {
	if len(name) > len(atomicfile.TempPrefix) && name[:len(atomicfile.TempPrefix)] == atomicfile.TempPrefix {
		if err := s.root.Remove(path.Join(recordsPath(w), name)); err != nil {
			s.c.log.Debug("a temporary file stays", "err", err)
		}
	}
}

func (s *scan) putBack(w ferry.WriterID, name string, pl place) error {
	data, err := s.c.store.read(pl.off, pl.size)
	if err != nil {
		return err
	}
	if err := s.root.MkdirAll(recordsPath(w), folderMode); err != nil {
		return err
	}
	return s.root.Write(path.Join(recordsPath(w), name), data, fileMode)
}

// strangers counts what lies beside the directories of the members. It opens nothing of it.
func (s *scan) strangers(ctx context.Context) error {
	info, err := s.root.Stat(writersDir)
	if err != nil || !info.IsDir() || s.clean[writersDir] == stampOf(info) {
		return nil
	}
	entries, more, err := s.root.ReadDir(writersDir, maxWriters)
	if err != nil {
		return s.reject(ctx, writersDir, map[string]string{".": err.Error()})
	}
	why := map[string]string{}
	roster := s.c.authority()
	for _, e := range entries {
		_, member := roster.Member(ferry.WriterID(e.Name()))
		_, err := sign.ParseWriterID(e.Name())
		switch {
		case member || hidden(e.Name()):
		case err != nil:
			why[e.Name()] = "not the name of a writer; it is not opened"
		default:
			why[e.Name()] = "an unknown writer: no admission names it, so it is not opened"
		}
	}
	if more {
		why["."] = fmt.Sprintf("holds more than %d names; some are not counted", maxWriters)
	}
	if err := s.reject(ctx, writersDir, why); err != nil {
		return err
	}
	if stamp := stampOf(info); stamp.settled(time.Now()) {
		return s.c.settle(ctx, writersDir, stamp)
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

package channel

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/sign"
)

// maxStrip bounds the records whose bodies one pass takes out of the store, and those whose copies it looks for.
const maxStrip = 64

// strip takes the bodies that a redaction replaces out of the store, of the files of this machine in the folder and of the
// index, some with each pass.
func (s *scan) strip(ctx context.Context) error {
	var bodies, copies, pages bool
	if _, err := one(ctx, s.c.db, []any{&bodies, &copies, &pages}, `SELECT EXISTS (SELECT 1 FROM strip),
		EXISTS (SELECT 1 FROM bare WHERE files = 1), EXISTS (SELECT 1 FROM scrub)`); err != nil {
		return err
	}
	if bodies {
		if err := s.bodies(ctx); err != nil {
			return err
		}
	}
	if bodies || copies {
		if err := s.copies(ctx); err != nil {
			return err
		}
	}
	if bodies || pages {
		return s.c.scrub(ctx)
	}
	return nil
}

// bodies takes bodies out of the store.
func (s *scan) bodies(ctx context.Context) error {
	queued, err := ids(ctx, s.c.db, `SELECT id FROM strip LIMIT ?`, maxStrip)
	if err != nil {
		return err
	}
	var holes, done []hole
	for _, id := range queued {
		h, full, err := s.c.holeOf(ctx, id)
		if err != nil {
			return err
		}
		if h.keep > 0 {
			done = append(done, h)
		}
		if full {
			holes = append(holes, h)
		}
	}
	if len(holes) > 0 {
		if err := s.c.punch(holes); err != nil {
			return err
		}
		s.report.Stripped += len(holes)
	}
	return s.c.stripped(ctx, queued, done)
}

// holeOf says what of a record has to go. It is the zero hole where nothing does, as when no redaction of it counts, and full is
// false where it is gone already.
func (c *Channel) holeOf(ctx context.Context, id ferry.RecordID) (h hole, full bool, err error) {
	at, err := places(ctx, c.db, `SELECT `+placeColumns+` FROM records WHERE id = ?`, id[:])
	if err != nil || len(at) == 0 {
		return h, false, err
	}
	p, err := c.load(at[0])
	if err != nil {
		return h, false, err
	}
	if p.bare {
		return hole{id: id, off: p.off, keep: p.size}, false, nil
	}
	by, err := c.redactionsOf(ctx, c.db, id)
	if err != nil || len(by) == 0 || p.head.Blob || len(p.body) == 0 {
		return h, false, err
	}
	roster := c.authority()
	rec, _ := p.record()
	if v, is := rec.Body.(*ferry.Verdict); is && v.Decision == ferry.DecisionReject && !mastered(roster, rec.Writer) {
		return h, false, nil // that it is no use of a delegation can only be seen in what was signed
	}
	whole, _, ok := inForce(rec, by, roster)
	rec.Body = gone{of: ferry.Type(p.head.Type)}
	bare, _, also := inForce(rec, by, roster)
	if !ok || !also || !reflect.DeepEqual(whole, bare) {
		return h, false, nil
	}
	return hole{id: id, off: p.off, size: p.size, keep: p.size - len(p.body)}, true, nil
}

// stripped notes in the index which bodies are gone.
func (c *Channel) stripped(ctx context.Context, queued []ferry.RecordID, done []hole) error {
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing; before it, the error is known already
	for _, h := range done {
		_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO bare
			SELECT id, 0, 1, writer IN (SELECT writer FROM own) FROM records WHERE id = ?`, h.id[:])
		if err == nil {
			_, err = tx.ExecContext(ctx, `UPDATE records SET size = ? WHERE id = ?`, h.keep, h.id[:])
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, `INSERT OR IGNORE INTO scrub VALUES (1)`)
		}
		if err != nil {
			return fmt.Errorf("index: %w", err)
		}
	}
	for _, id := range queued {
		if _, err := tx.ExecContext(ctx, `DELETE FROM strip WHERE id = ?`, id[:]); err != nil {
			return fmt.Errorf("index: %w", err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	c.at("stripped")
	return nil
}

// copied is a bare record of which this machine may have whole copies in the folder.
type copied struct {
	place
	ch  chain
	seq uint64
}

// copies puts the bare form in the place of the whole copies that writers of this machine have in the folder: their own files,
// and those that they relay. Packs of their own need a seal, and so their key (Writer.SealLoose).
func (s *scan) copies(ctx context.Context) error {
	var found []copied
	err := each(ctx, s.c.db, func(rows *sql.Rows) error {
		var k copied
		var id sql.RawBytes
		err := rows.Scan(&id, &k.off, &k.size, &k.ch.writer, &k.ch.epoch, &k.seq)
		copy(k.id[:], id)
		found = append(found, k)
		return err
	}, `SELECT id, off, size, writer, epoch, seq FROM records WHERE id IN (SELECT id FROM bare WHERE files = 1 LIMIT ?)`, maxStrip)
	if err != nil {
		return err
	}
	for _, k := range found {
		if err := s.copiesOf(ctx, k); err != nil {
			// A folder that cannot be written to stops no pass: the next one tries again.
			s.c.log.Debug("copies of a redacted record stay in the folder", "id", k.id.Short(), "err", err)
			return nil
		}
		if _, err := s.c.db.ExecContext(ctx, `UPDATE bare SET files = 0 WHERE id = ?`, k.id[:]); err != nil {
			return fmt.Errorf("index: %w", err)
		}
	}
	return nil
}

func (s *scan) copiesOf(ctx context.Context, k copied) error {
	want, err := s.c.store.read(k.off, k.size)
	if err != nil {
		return err
	}
	for me := range s.own {
		dir := recordsPath(me)
		if me != k.ch.writer {
			dir = relayPath(me, k.ch.writer, recordsDir)
			if err := s.repackRelay(ctx, relayPath(me, k.ch.writer, packsDir), k); err != nil {
				return err
			}
		}
		name := path.Join(dir, recordName(k.ch.epoch, k.seq, k.id))
		have, _, err := s.root.ReadFile(name, sign.MaxRecord)
		if err != nil || string(have) == string(want) {
			continue // what is no file of this machine is not its copy
		}
		if err := s.put(name, want); err != nil {
			return err
		}
		s.c.at("copy")
	}
	return nil
}

// repackRelay makes the packs anew that this machine relays and that hold a record.
func (s *scan) repackRelay(ctx context.Context, dir string, k copied) error {
	entries, _, err := s.root.ReadDir(dir, maxNames)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		n := fileName{}
		if !n.parsePack(e.Name()) || n.epoch != k.ch.epoch || k.seq < n.from || k.seq > n.to {
			continue
		}
		p, err := s.c.packRange(ctx, k.ch, numbers{n.from, n.to})
		if err != nil {
			return err
		}
		name := path.Base(p.name(k.ch.writer))
		if name == e.Name() {
			continue
		}
		if p.to == n.to {
			if err := errors.Join(s.put(path.Join(dir, name), p.bytes), samePack(s.root, path.Join(dir, name), p.bytes)); err != nil {
				return err
			}
		}
		if err := s.root.Remove(path.Join(dir, e.Name())); err != nil {
			return err
		}
		s.c.at("relayed pack")
	}
	return nil
}

// scrub writes the index anew, so that no page of it holds what was read of a record before. It waits until every body is out of
// the store.
func (c *Channel) scrub(ctx context.Context) error {
	var due bool
	if _, err := one(ctx, c.db, []any{&due}, `SELECT EXISTS (SELECT 1 FROM scrub) AND NOT EXISTS (SELECT 1 FROM strip)`); err != nil || !due {
		return err
	}
	if err := c.removeAside(); err != nil {
		return err
	}
	if _, err := c.db.ExecContext(ctx, `VACUUM`); err != nil {
		c.log.Info("the index is not written anew yet", "err", err)
		return nil
	}
	var busy, pages, moved int
	if _, err := one(ctx, c.db, []any{&busy, &pages, &moved}, `PRAGMA wal_checkpoint(TRUNCATE)`); err != nil || busy != 0 {
		return nil // somebody reads: the next pass tries again
	}
	c.at("scrubbed")
	if _, err := c.db.ExecContext(ctx, `DELETE FROM scrub`); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	return nil
}

// removeAside removes the damaged indexes that were moved aside: they hold what was read of records before.
func (c *Channel) removeAside() error {
	root, err := atomicfile.OpenRoot(c.cfg.State)
	if err != nil {
		return err
	}
	defer root.Close()
	entries, _, err := root.ReadDir(".", maxNames)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(c.cfg.indexPath())+".corrupt-") {
			if err := root.Remove(e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

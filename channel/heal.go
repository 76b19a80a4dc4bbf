package channel

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// putBackRecords puts back the own files that a listing lacks or that are not as they were written, except those that are
// sealed in a pack. It reports whether it left or changed something, so that another look is due.
func (s *scan) putBackRecords(ctx context.Context, w ferry.WriterID, l listing) (left bool, err error) {
	missing, err := s.c.unsealed(ctx, w)
	if err != nil {
		return false, err
	}
	var damaged []string
	at := map[string]place{}
	d, same, room := s.c.dirAt(l.dir), map[string]int64{}, maxRepublish
	for _, e := range l.entries {
		pl, mine := missing[e.Name()]
		if !mine {
			s.sweep(l.dir, e.Name())
			continue
		}
		delete(missing, e.Name())
		when, ok := intact(e, int64(pl.size))
		if ok && room > 0 && d.same[e.Name()] != when {
			room--
			ok = s.same(path.Join(l.dir, e.Name()), pl)
		}
		if !ok {
			damaged, at[e.Name()] = append(damaged, e.Name()), pl
		} else if room > 0 || d.same[e.Name()] == when {
			same[e.Name()] = when
		}
	}
	d.same = same
	maps.Copy(at, missing)
	names := append(damaged, slices.Sorted(maps.Keys(missing))...)
	for _, name := range names[:min(len(names), maxRepublish)] {
		data, err := s.c.store.read(at[name].off, at[name].size)
		if err == nil {
			err = s.put(path.Join(l.dir, name), data)
		}
		if err != nil {
			return true, err
		}
		s.report.Republished++
	}
	return len(names) > 0, nil
}

// same reports whether an own file has the bytes of the store. When those cannot be read there is nothing to put back.
func (s *scan) same(name string, pl place) bool {
	want, err := s.c.store.read(pl.off, pl.size)
	if err != nil {
		return true
	}
	have, _, err := s.root.ReadFile(name, int64(pl.size))
	return err == nil && bytes.Equal(have, want)
}

// putBackPacks does the same for packs, which it builds again from the store.
func (s *scan) putBackPacks(ctx context.Context, w ferry.WriterID, l listing) (left bool, err error) {
	seals, err := s.c.sealsOf(ctx, w)
	if err != nil || len(seals.list) == 0 {
		return false, err
	}
	missing := map[string]ferry.Seal{}
	for _, seal := range seals.list {
		missing[sealedName(seal.Seal)] = seal.Seal
	}
	for _, e := range l.entries {
		if seal, mine := missing[e.Name()]; !mine {
			s.sweep(l.dir, e.Name())
		} else if _, ok := intact(e, seal.Size); ok && s.c.dirAt(l.dir).bad[e.Name()].kind <= outKnown {
			delete(missing, e.Name())
		}
	}
	names := slices.Sorted(maps.Keys(missing))
	for i, name := range names {
		if i == maxPacksBack {
			return true, nil
		}
		file, err := s.c.rebuild(ctx, w, missing[name])
		if errors.Is(err, errOtherBytes) {
			stale, staleErr := s.c.stale(ctx, w, missing[name])
			if staleErr != nil {
				return true, staleErr
			}
			if stale {
				left = true
				continue // Writer.SealLoose makes it anew
			}
		}
		if err == nil && samePack(s.root, path.Join(l.dir, name), file) == nil {
			continue // what is not taken in from it is for another reason than damage
		}
		if err == nil {
			err = s.put(path.Join(l.dir, name), file)
		}
		if err != nil {
			return true, err
		}
		left = true
		s.report.Republished++
	}
	return left, nil
}

// maxPacksBack bounds the packs that one pass builds again.
const maxPacksBack = 8

// intact reports whether a name is that of a file of a size, and when that changed.
func intact(e fs.DirEntry, size int64) (when int64, ok bool) {
	info, err := e.Info()
	if err != nil {
		return 0, false
	}
	return info.ModTime().UnixNano(), info.Mode().IsRegular() && info.Size() == size
}

// put writes a file and the directories above it.
func (s *scan) put(name string, data []byte) error {
	if err := s.root.MkdirAll(path.Dir(name), folderMode); err != nil {
		return err
	}
	err := s.root.Write(name, data, fileMode)
	s.c.at("put")
	return err
}

// sweep removes what a killed write of this machine left under a temporary name.
func (s *scan) sweep(dir, name string) {
	if len(name) > len(atomicfile.TempPrefix) && name[:len(atomicfile.TempPrefix)] == atomicfile.TempPrefix {
		if err := s.root.Remove(path.Join(dir, name)); err != nil {
			s.c.log.Debug("a temporary file stays", "err", err)
		}
	}
}

// unsealed gives the records of a writer that are in no pack, and that which begins a master's chain, by the names of their
// files.
func (c *Channel) unsealed(ctx context.Context, w ferry.WriterID) (map[string]place, error) {
	seals, err := c.sealsOf(ctx, w)
	if err != nil {
		return nil, err
	}
	last, err := c.epochs(ctx, w)
	if err != nil {
		return nil, err
	}
	out := map[string]place{}
	for epoch := range last {
		err := each(ctx, c.db, func(rows *sql.Rows) error {
			var seq uint64
			var id sql.RawBytes
			var pl place
			if err := rows.Scan(&seq, &id, &pl.off, &pl.size); err != nil {
				return err
			}
			copy(pl.id[:], id)
			out[recordName(epoch, seq, pl.id)] = pl
			return nil
		}, `SELECT seq, id, off, size FROM records WHERE writer = ?1 AND epoch = ?2 AND seq > ?3
			UNION SELECT seq, id, off, size FROM records WHERE writer = ?1 AND epoch = ?2 AND epoch = 1 AND seq = 1 AND type = 'root'`,
			string(w), epoch, int64(seals.upTo[epoch]))
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// epochs gives the highest number of each epoch of a writer.
func (c *Channel) epochs(ctx context.Context, w ferry.WriterID) (map[uint32]uint64, error) {
	out := map[uint32]uint64{}
	for epoch := uint32(0); ; {
		var next sql.NullInt64
		if _, err := one(ctx, c.db, []any{&next}, `SELECT min(epoch) FROM records WHERE writer = ? AND epoch > ?`, string(w), epoch); err != nil {
			return nil, err
		}
		if !next.Valid {
			return out, nil
		}
		epoch = uint32(next.Int64)
		var seq uint64
		if _, err := one(ctx, c.db, []any{&seq}, `SELECT max(seq) FROM records WHERE writer = ? AND epoch = ?`, string(w), epoch); err != nil {
			return nil, err
		}
		out[epoch] = seq
	}
}

// sealed is what a writer has in packs.
type sealed struct {
	n    int64 // the last record that was looked at
	list []sealedRange
	upTo map[uint32]uint64 // by epoch, the number up to which all records are in packs
}

// sealedRange is a seal with its place.
type sealedRange struct {
	ferry.Seal
	seq uint64
	rec ferry.Record
}

// sealsOf gives the seals of a writer, each of which goes on where the one before it ended, or is in the place of one with the
// same range.
func (c *Channel) sealsOf(ctx context.Context, w ferry.WriterID) (*sealed, error) {
	s := &c.dirAt(packsPath(w)).seals
	if s.upTo == nil {
		s.upTo = map[uint32]uint64{}
	}
	var at []place
	err := each(ctx, c.db, func(rows *sql.Rows) error {
		var pl place
		err := rows.Scan(&s.n, &pl.off, &pl.size)
		at = append(at, pl)
		return err
	}, `SELECT n, off, size FROM records WHERE writer = ? AND type = 'seal' AND n > ? ORDER BY n`, string(w), s.n)
	if err != nil {
		return nil, err
	}
	for _, pl := range at {
		r, err := c.load(pl)
		if err != nil {
			return nil, err
		}
		rec, _ := r.record()
		b, ok := rec.Body.(*ferry.Seal)
		if !ok || !soundSeal(b) {
			continue
		}
		if done := s.upTo[uint32(b.Epoch)]; uint64(b.From) <= done {
			if i := s.find(uint32(b.Epoch), uint64(b.From)); i >= 0 && s.list[i].From == b.From && s.list[i].To == b.To {
				s.list[i] = sealedRange{*b, rec.Seq, rec}
			}
			continue
		} else if uint64(b.From) != done+1 {
			continue
		}
		s.upTo[uint32(b.Epoch)] = uint64(b.To)
		s.list = append(s.list, sealedRange{*b, rec.Seq, rec})
	}
	return s, nil
}

// soundSeal reports whether a seal names a pack that there can be.
func soundSeal(b *ferry.Seal) bool {
	if b.Epoch < 1 || b.From < 1 || b.To < b.From || b.Size < 1 || b.Size > maxPackBytes || len(b.Pack) != 64 {
		return false
	}
	n := fileName{}
	return n.parsePack(sealedName(*b))
}

// rebuild makes the pack of a seal again, with the very same bytes.
func (c *Channel) rebuild(ctx context.Context, w ferry.WriterID, seal ferry.Seal) ([]byte, error) {
	p, err := c.packRange(ctx, chain{w, uint32(seal.Epoch)}, numbers{uint64(seal.From), uint64(seal.To)})
	if err != nil {
		return nil, err
	}
	if packSum(p.bytes) != seal.Pack {
		return nil, fmt.Errorf("the pack %s of the writer %s cannot be built again: %w", sealedName(seal), w, errOtherBytes)
	}
	return p.bytes, nil
}

// packRange packs the records of a range on the branch that counts, or as many from its beginning as a pack can hold.
func (c *Channel) packRange(ctx context.Context, w chain, r numbers) (*pack, error) {
	var at []place
	next := r.from
	err := each(ctx, c.db, func(rows *sql.Rows) error {
		var seq uint64
		var pl place
		if err := rows.Scan(&seq, &pl.off, &pl.size); err != nil || seq != next {
			return err
		}
		next++
		at = append(at, pl)
		return nil
	}, `SELECT seq, off, size FROM records WHERE writer = ? AND epoch = ? AND seq BETWEEN ? AND ? ORDER BY seq, main DESC LIMIT ?`,
		string(w.writer), w.epoch, int64(r.from), int64(r.to), maxPackRecords)
	if err != nil {
		return nil, err
	}
	var out packWriter
	for _, pl := range at {
		data, err := c.store.read(pl.off, pl.size)
		if err != nil {
			return nil, err
		}
		if !out.add(data) {
			break
		}
	}
	if out.n == 0 {
		return nil, fmt.Errorf("pack of the writer %s from %d on: the store does not have the record", w.writer, r.from)
	}
	return &pack{bytes: out.finish(), epoch: w.epoch, from: r.from, to: r.from + uint64(out.n) - 1}, nil
}

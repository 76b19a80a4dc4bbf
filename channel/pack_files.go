package channel

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/sign"
)

// readPack says which pack was read to its end, so that it is not read again before it changes.
type readPack struct {
	size, mtime int64
	epoch       uint32
	numbers
}

// packFiles looks at a directory of packs of one writer.
func (s *scan) packFiles(ctx context.Context, w ferry.WriterID, name string) error {
	mine := s.own[w] && name == packsPath(w)
	l, err := s.list(ctx, name, s.clean[name])
	if err != nil || l.state == dirClean || l.state == dirOdd {
		return err
	}
	if l.state == dirAbsent {
		if l.gone {
			s.expect(w)
		}
		if !mine {
			return nil
		}
		_, err := s.putBackPacks(ctx, w, l)
		if err != nil {
			err = s.reject(ctx, name, map[string]string{".": "an own pack cannot be put back: " + err.Error()})
		}
		return err
	}
	s.expect(w)
	read, err := s.readPacks(ctx, name)
	if err != nil {
		return err
	}
	why, again, err := s.packEntries(ctx, w, l, read)
	if err != nil {
		return err
	}
	if mine {
		if err := s.flush(ctx); err != nil { // it may hold the seals that say which packs there are
			return err
		}
		left, err := s.putBackPacks(ctx, w, l)
		if err != nil {
			why["."] = "an own pack cannot be put back: " + err.Error()
		}
		again = again || left || err != nil
	}
	s.then(func() error { return s.done(ctx, l, why, again) })
	return nil
}

func (s *scan) readPacks(ctx context.Context, dir string) (map[string]readPack, error) {
	out := map[string]readPack{}
	err := each(ctx, s.c.db, func(rows *sql.Rows) error {
		var name string
		var p readPack
		err := rows.Scan(&name, &p.size, &p.mtime, &p.epoch, &p.from, &p.to)
		out[name] = p
		return err
	}, `SELECT name, size, mtime, epoch, low, high FROM packs WHERE dir = ?`, dir)
	return out, err
}

// packEntries reads the packs that were not read before.
func (s *scan) packEntries(ctx context.Context, w ferry.WriterID, l listing, read map[string]readPack) (why map[string]string, again bool, err error) {
	d := s.c.dirAt(l.dir)
	why = map[string]string{}
	bad, here, cover := map[string]badFile{}, map[string]bool{}, coverage{}
	parked, used := 0, int64(0)
	for _, e := range l.entries {
		name := e.Name()
		if hidden(name) {
			continue
		}
		if reason := misfitPack(name); reason != "" {
			why[name] = reason
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // it went away while we looked
		}
		p, was := read[name]
		if !was || p.size != info.Size() || p.mtime != info.ModTime().UnixNano() {
			var b badFile
			if b, p, err = s.pack(ctx, w, path.Join(l.dir, name), info); err != nil {
				return nil, false, err
			}
			if b.kind > outKnown {
				bad[name] = b
				again = again || b.mayChange(s.now)
				if b.reason != "" && b.kind != outWaits {
					why[name] = b.reason
				}
				if b.kind == outWaits {
					parked++
				}
				continue
			}
		}
		here[name], used = true, used+info.Size()
		cover[p.epoch] = append(cover[p.epoch], p.numbers)
	}
	s.park(l.dir, parked)
	if full := s.full(w, l.dir); full != "" && full != s.held && hasLater(bad) {
		why["."] = full
	}
	d.bad, d.cover, d.stamp = bad, cover.merged(), l.stamp
	if err := s.used(ctx, l.dir, used); err != nil {
		return nil, false, err
	}
	for name := range read {
		if !here[name] {
			return why, again, s.forgetPacks(ctx, l.dir, here)
		}
	}
	return why, again, nil
}

// pack reads one pack, unless it looks the same as when it was not taken before.
func (s *scan) pack(ctx context.Context, w ferry.WriterID, name string, info fs.FileInfo) (badFile, readPack, error) {
	b := badFile{size: info.Size(), mtime: info.ModTime(), store: s.covered(), since: s.now}
	if b.size > maxPackBytes {
		b.outcome = tooLarge("a pack", maxPackBytes)
		return b, readPack{}, nil
	}
	dir := path.Dir(name)
	old, seen := s.c.dirAt(dir).bad[path.Base(name)]
	if seen && old.kind != outLater && old.size == b.size && old.mtime.Equal(b.mtime) {
		due, err := s.filled(ctx, old)
		if err != nil || !due {
			return old, readPack{}, err
		}
	}
	if s.packs[account(dir)] == maxPacks || s.full(w, dir) != "" {
		b.kind = outLater
		return b, readPack{}, nil
	}
	s.packs[account(dir)]++
	data, why := s.readFile(name, maxPackBytes, "a pack")
	if data == nil {
		b.outcome = why
		return b, readPack{}, nil
	}
	records, err := parsePackFile(data)
	switch {
	case errors.Is(err, sign.ErrIncomplete):
		b.outcome = outcome{outGrowing, "truncated: " + err.Error()}
		return b, readPack{}, nil
	case err != nil:
		b.outcome = outcome{outRefused, err.Error()}
		return b, readPack{}, nil
	}
	p := readPack{size: info.Size(), mtime: info.ModTime().UnixNano()}
	if err := s.unpack(ctx, w, records, &b, &p); err != nil || b.kind > outKnown {
		return b, p, err
	}
	s.usage.add(dir, b.size)
	s.then(func() error {
		_, err := s.c.db.ExecContext(ctx, `INSERT OR REPLACE INTO packs VALUES (?, ?, ?, ?, ?, ?, ?)`,
			dir, path.Base(name), p.size, p.mtime, p.epoch, int64(p.from), int64(p.to))
		if err != nil {
			return fmt.Errorf("remember the pack %s: %w", name, err)
		}
		return nil
	})
	return b, p, nil
}

// unpack offers the records of a pack to the store. The pack counts as read when the store has every one of them: that is
// when the batch has been flushed.
func (s *scan) unpack(ctx context.Context, w ferry.WriterID, records [][]byte, b *badFile, p *readPack) error {
	line, wrong := lineOf(records, p)
	have, err := s.have(ctx, chain{w, p.epoch}, p.numbers)
	if err != nil {
		return err
	}
	line = slices.DeleteFunc(line, func(u form) bool { return have[u.ID()] })
	roster := s.c.authority()
	a := openAhead(line, func(h sign.Header) (sign.PublicKey, bool) {
		key, _, ok := roster.Key(ferry.WriterID(h.Writer), h.Epoch)
		return key, ok
	})
	defer a.close()
	s.promises(line, a)
	for i, u := range line {
		if err := ctx.Err(); err != nil {
			return err
		}
		v, err := s.judge(ctx, w, u, func(key sign.PublicKey) (form, error) { return a.open(i, key) })
		if err != nil {
			return err
		}
		if out := v.outcome(); out.kind > outKnown {
			b.outcome, b.at, b.seq, b.lacks = out, chain{w, p.epoch}, u.Header().Seq, s.lacks(u, out)
			if out.reason != "" {
				b.reason = fmt.Sprintf("record %d of the pack: %s", b.seq-p.from+1, out.reason)
			}
			return nil
		}
	}
	if wrong != "" {
		b.outcome = outcome{outRefused, wrong}
	}
	return nil
}

// promises notes what the redactions in a pack name, before the first record is taken in: it may be bare, and wait for one of
// them.
func (s *scan) promises(line []form, a *ahead) {
	for i, u := range line {
		if len(named(s.c.authority(), u)) == 0 {
			continue
		}
		h := u.Header()
		if key, _, ok := s.c.authority().Key(ferry.WriterID(h.Writer), h.Epoch); ok && ferry.RecordID(h.Channel) == s.c.id {
			if v, err := a.open(i, key); err == nil {
				s.promise(v)
			}
		}
	}
}

// lineOf takes the records of a pack apart up to the first that is wrong, and notes in p which they are.
func lineOf(records [][]byte, p *readPack) (line []form, wrong string) {
	line = make([]form, 0, len(records))
	for i, data := range records {
		u, err := formOf(data)
		if err != nil {
			return line, fmt.Sprintf("record %d of the pack: %v", i+1, err)
		}
		h := u.Header()
		if i == 0 {
			p.epoch, p.from = h.Epoch, h.Seq
		}
		if h.Epoch != p.epoch || h.Seq != p.from+uint64(i) {
			return line, fmt.Sprintf("record %d of the pack does not follow the one before it", i+1)
		}
		p.to = h.Seq
		line = append(line, u)
	}
	return line, ""
}

// have gives the ids of a part of a chain that the store has, whose signatures then held.
func (s *scan) have(ctx context.Context, w chain, r numbers) (map[ferry.RecordID]bool, error) {
	found, err := ids(ctx, s.c.db, `SELECT id FROM records WHERE writer = ? AND epoch = ? AND seq BETWEEN ? AND ?`,
		string(w.writer), w.epoch, int64(r.from), int64(r.to))
	have := make(map[ferry.RecordID]bool, len(found))
	for _, id := range found {
		have[id] = !s.c.seen.hollow[id]
	}
	return have, err
}

// forgetPacks drops what is remembered of packs of a directory that are not there any more.
func (s *scan) forgetPacks(ctx context.Context, dir string, here map[string]bool) error {
	read, err := s.readPacks(ctx, dir)
	if err != nil {
		return err
	}
	for name := range read {
		if here[name] {
			continue
		}
		if _, err := s.c.db.ExecContext(ctx, `DELETE FROM packs WHERE dir = ? AND name = ?`, dir, name); err != nil {
			return fmt.Errorf("forget the pack %s: %w", name, err)
		}
	}
	return nil
}

package channel

import (
	"context"
	"database/sql"
	"maps"
	"path"
	"slices"

	"github.com/ferry-fleet/ferry"
)

// expect notes that files of a writer of another machine came or went, so that some may be missing.
func (s *scan) expect(w ferry.WriterID) {
	if !s.own[w] {
		s.due[w] = struct{}{}
	}
}

// relays writes again, in the directory of a writer of this machine, what the store has of other writers and the folder has
// been lacking for a while.
func (s *scan) relays(ctx context.Context) error {
	known := readable(s.c.authority())
	roster := s.c.authority()
	i := slices.IndexFunc(known, func(w ferry.WriterID) bool { return s.own[w] && roster.Epoch(w) != 0 })
	if i < 0 {
		return nil
	}
	me, room := known[i], maxRepublish
	for _, w := range slices.Sorted(maps.Keys(s.due)) {
		if !slices.Contains(known, w) {
			continue
		}
		gaps, forks, err := s.lacking(ctx, w)
		if err != nil {
			return err
		}
		if len(gaps) == 0 && len(forks) == 0 {
			delete(s.c.seen.lacks, w)
			continue
		}
		if err := s.unsettle(ctx, recordsPath(w)); err != nil { // so that the next pass asks again
			return err
		}
		since, noticed := s.c.seen.lacks[w]
		if !noticed {
			s.c.seen.lacks[w] = s.now
			continue
		}
		if s.now.Sub(since) < s.c.cfg.Limits.filled().Relay {
			continue
		}
		missing, err := s.missing(ctx, w, gaps)
		if err != nil {
			return err
		}
		for _, f := range forks {
			if !slices.ContainsFunc(missing, func(m missingFile) bool { return m.name == f.name }) {
				missing = append(missing, f)
			}
		}
		n, err := s.relay(ctx, me, w, missing[:min(len(missing), room)])
		room -= n
		s.report.Relayed += n
		if err != nil {
			// A folder that cannot be written to stops no pass: own files that cannot be put back are reported.
			s.c.log.Debug("files of another writer are not written again", "writer", w, "err", err)
			return nil
		}
	}
	return nil
}

// missingFile is a file that the folder lacks: a record, or a pack.
type missingFile struct {
	name string // in its directory
	at   place
	seal *ferry.Seal
}

// relay writes missing files of a writer.
func (s *scan) relay(ctx context.Context, me, of ferry.WriterID, missing []missingFile) (int, error) {
	for i, m := range missing {
		var data []byte
		var err error
		dir := recordsDir
		if m.seal != nil {
			dir = packsDir
			data, err = s.c.rebuild(ctx, of, *m.seal)
		} else {
			data, err = s.c.store.read(m.at.off, m.at.size)
		}
		if err == nil {
			err = s.put(path.Join(relayPath(me, of, dir), m.name), data)
		}
		if err != nil {
			return i, err
		}
	}
	return len(missing), nil
}

// lacking gives the numbers of each epoch, and the records of the branches of a fork, that the store has of a writer and no
// directory of the folder.
func (s *scan) lacking(ctx context.Context, w ferry.WriterID) (map[uint32][]numbers, []missingFile, error) {
	have, err := s.coverage(ctx, w)
	if err != nil {
		return nil, nil, err
	}
	last, err := s.c.epochs(ctx, w)
	if err != nil {
		return nil, nil, err
	}
	gaps := map[uint32][]numbers{}
	for epoch, seq := range last {
		if g := have.gaps(epoch, seq); len(g) > 0 {
			gaps[epoch] = g
		}
	}
	forks, err := s.missingForks(ctx, w)
	return gaps, forks, err
}

// missing gives the files that fill gaps, about as many as one pass writes. What is in a pack that can be built again is
// one file.
func (s *scan) missing(ctx context.Context, w ferry.WriterID, gaps map[uint32][]numbers) ([]missingFile, error) {
	var out []missingFile
	for _, epoch := range slices.Sorted(maps.Keys(gaps)) {
		packs, err := s.missingPacks(ctx, w, epoch, gaps[epoch])
		if err != nil {
			return nil, err
		}
		out = append(out, packs...)
		for _, gap := range gaps[epoch] {
			filled := coverage{}
			for _, m := range packs {
				filled[epoch] = append(filled[epoch], numbers{uint64(m.seal.From), uint64(m.seal.To)})
			}
			filled[epoch] = append(filled[epoch], numbers{1, gap.from - 1})
			for _, rest := range filled.merged().gaps(epoch, gap.to) {
				if len(out) >= maxRepublish {
					return out, nil
				}
				if out, err = s.missingRecords(ctx, chain{w, epoch}, rest, out); err != nil {
					return nil, err
				}
			}
		}
	}
	return out, nil
}

// missingPacks gives the seals whose records are all missing and whose packs can be built again.
func (s *scan) missingPacks(ctx context.Context, w ferry.WriterID, epoch uint32, gaps []numbers) ([]missingFile, error) {
	seals, err := s.c.sealsOf(ctx, w)
	if err != nil {
		return nil, err
	}
	var out []missingFile
	for _, seal := range seals.list {
		inside := slices.ContainsFunc(gaps, func(g numbers) bool { return g.from <= uint64(seal.From) && uint64(seal.To) <= g.to })
		if uint32(seal.Epoch) != epoch || !inside || len(out) == maxPacksBack {
			continue
		}
		if _, err := s.c.rebuild(ctx, w, seal.Seal); err == nil {
			out = append(out, missingFile{name: sealedName(seal.Seal), seal: &seal.Seal})
		}
	}
	return out, nil
}

func (s *scan) missingRecords(ctx context.Context, w chain, gap numbers, out []missingFile) ([]missingFile, error) {
	err := each(ctx, s.c.db, func(rows *sql.Rows) error {
		var seq uint64
		var id sql.RawBytes
		var m missingFile
		if err := rows.Scan(&seq, &id, &m.at.off, &m.at.size); err != nil {
			return err
		}
		copy(m.at.id[:], id)
		m.name = recordName(w.epoch, seq, m.at.id)
		out = append(out, m)
		return nil
	}, `SELECT seq, id, off, size FROM records WHERE writer = ? AND epoch = ? AND seq BETWEEN ? AND ? ORDER BY seq LIMIT ?`,
		string(w.writer), w.epoch, int64(gap.from), int64(gap.to), maxRepublish-len(out))
	return out, err
}

// missingForks gives the records from a fork on whose files are missing: both branches are evidence.
func (s *scan) missingForks(ctx context.Context, w ferry.WriterID) ([]missingFile, error) {
	var out []missingFile
	err := each(ctx, s.c.db, func(rows *sql.Rows) error {
		var epoch uint32
		var seq uint64
		var id sql.RawBytes
		var m missingFile
		if err := rows.Scan(&epoch, &seq, &id, &m.at.off, &m.at.size); err != nil {
			return err
		}
		copy(m.at.id[:], id)
		m.name = recordName(epoch, seq, m.at.id)
		out = append(out, m)
		return nil
	}, `SELECT r.epoch, r.seq, r.id, r.off, r.size FROM forks f JOIN records r ON r.writer = f.writer AND r.epoch = f.epoch AND r.seq >= f.seq
		WHERE f.writer = ? AND f.seq > 0 ORDER BY r.epoch, r.seq, r.id LIMIT ?`, string(w), maxForkFiles)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(out, func(m missingFile) bool {
		for _, dir := range s.recordDirs(w) {
			if d := s.c.dirs[dir]; d != nil {
				if _, here := d.names[m.name]; here {
					return true
				}
			}
		}
		return false
	}), nil
}

// maxForkFiles bounds what is relayed of the branches of a fork.
const maxForkFiles = 64

// recordDirs gives the directories in which records of a writer can lie.
func (s *scan) recordDirs(w ferry.WriterID) []string {
	return s.dirsOf(w, recordsPath(w), recordsDir)
}

func (s *scan) dirsOf(w ferry.WriterID, own, kind string) []string {
	out := []string{own}
	for _, by := range readable(s.c.authority()) {
		if d := s.c.dirs[relaysPath(by)]; d != nil && slices.Contains(d.subs, w) {
			out = append(out, relayPath(by, w, kind))
		}
	}
	return out
}

// coverage gives the numbers of a writer that the store and the folder have.
func (s *scan) coverage(ctx context.Context, w ferry.WriterID) (coverage, error) {
	sum := coverage{}
	for _, kind := range []struct {
		dirs []string
		look func(context.Context, ferry.WriterID, string) error
	}{
		{s.recordDirs(w), s.recordFiles},
		{s.dirsOf(w, packsPath(w), packsDir), s.packFiles},
	} {
		for _, dir := range kind.dirs {
			// What another process has looked at, this one has not seen.
			if stamp, settled := s.clean[dir]; settled && (s.c.dirs[dir] == nil || s.c.dirs[dir].stamp != stamp) {
				delete(s.clean, dir)
				if err := kind.look(ctx, w, dir); err != nil {
					return nil, err
				}
			}
			if d := s.c.dirs[dir]; d != nil {
				sum = sum.with(d.cover)
			}
		}
	}
	return sum, nil
}

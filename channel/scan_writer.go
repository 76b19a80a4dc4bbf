package channel

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/sign"
)

// dir is what this process remembers of one directory.
type dir struct {
	stamp dirStamp             // of the last look
	names map[string]knownFile // files whose records the store has
	bad   map[string]badFile
	cover coverage         // the numbers that the store and the directory have
	subs  []ferry.WriterID // of a directory of relays: whose files are in it
	seals sealed           // of an own directory of packs
	same  map[string]int64 // of an own directory: when the files changed that had the bytes of the store
}

// knownFile is a file whose record the store has.
type knownFile struct {
	epoch uint32
	seq   uint64
	size  int64
}

// badFile is a file that was looked at and not taken, so that it is not opened again before it changes. One that waits for
// its predecessor is opened again when that may be here.
type badFile struct {
	size  int64
	mtime time.Time
	store int64 // size of the store at the time
	since time.Time
	at    chain // its place, where it has the form of a record
	seq   uint64
	lacks ferry.RecordID // of a bare record: it waits for a redaction that names this
	outcome
}

// growTime is how long a file may be growing in its place without a change of its directory. Carriers put whole files there.
const growTime = 10 * time.Minute

// mayChange reports whether a file may become readable without a change of its directory.
func (b badFile) mayChange(now time.Time) bool {
	return b.kind != outRefused && (b.kind != outGrowing || now.Sub(b.since) < growTime)
}

// outcome is what became of a file.
type outcome struct {
	kind   outcomeKind
	reason string
}

type outcomeKind uint8

const (
	outTaken   outcomeKind = iota // its record came into the store
	outKnown                      // the store had it
	outGone                       // it went away while we looked
	outLater                      // not opened in this pass
	outWaits                      // for its predecessor
	outGrowing                    // it ends too early
	outRefused
)

func (c *Channel) dirAt(name string) *dir {
	d := c.dirs[name]
	if d == nil {
		empty := dirMemory(sealed{})
		d = &empty
		c.dirs[name] = d
	}
	return d
}

// dirMemory remembers nothing of a directory. The seals of its writer do not depend on it.
func dirMemory(seals sealed) dir {
	return dir{names: map[string]knownFile{}, bad: map[string]badFile{}, seals: seals}
}

// writer looks at everything in the directory of one writer.
func (s *scan) writer(ctx context.Context, w ferry.WriterID) error {
	if err := s.top(ctx, w); err != nil {
		return err
	}
	if err := s.files(ctx, w, w); err != nil {
		return err
	}
	relayed, err := s.relayed(ctx, w)
	for _, of := range relayed {
		if err := s.files(ctx, w, of); err != nil {
			return err
		}
	}
	return err
}

// files looks at what the directory of one writer has of a writer: itself, or one that it relays.
func (s *scan) files(ctx context.Context, in, of ferry.WriterID) error {
	records, packs := recordsPath(of), packsPath(of)
	if in != of {
		records, packs = relayPath(in, of, recordsDir), relayPath(in, of, packsDir)
	}
	if err := s.packFiles(ctx, of, packs); err != nil {
		return err
	}
	before := s.taken
	if err := s.recordFiles(ctx, of, records); err != nil || s.parked[packs] == 0 || s.taken == before {
		return err
	}
	// What the packs waited for was loose. The orders in them are folded once if they come before the work on them.
	return s.packFiles(ctx, of, packs)
}

// top looks at the names beside a writer's directories, and at its beat.
func (s *scan) top(ctx context.Context, w ferry.WriterID) error {
	name := writerPath(w)
	changed, wrong, err := s.beat(ctx, w)
	if err != nil {
		return err
	}
	earlier := dirStamp{}
	if d := s.c.dirs[name]; d != nil && !changed {
		earlier = d.stamp
	}
	l, err := s.list(ctx, name, earlier)
	if err != nil || l.state != dirListed {
		return err
	}
	why := map[string]string{}
	if wrong != "" {
		why[beatName] = wrong
	}
	for _, e := range l.entries {
		switch n := e.Name(); {
		case n == beatName || n == recordsDir || n == packsDir || n == relaysDir || hidden(n):
		case conflictCopy(n) && len(n) > len(beatName) && n[:len(beatName)] == beatName:
			why[n] = "a conflict copy of the writer's beat: two machines may be writing under one key; it is not opened"
		default:
			why[n] = "not a name of the format; it is not opened"
		}
	}
	s.c.dirAt(name).stamp = s.lasting(l)
	return s.reject(ctx, name, why)
}

// lasting gives the stamp of a listing if a later change will show in it.
func (s *scan) lasting(l listing) dirStamp {
	if l.stamp.settled(s.now) {
		return l.stamp
	}
	return dirStamp{}
}

// relayed gives the known writers whose files the directory of a writer relays.
func (s *scan) relayed(ctx context.Context, w ferry.WriterID) ([]ferry.WriterID, error) {
	name := relaysPath(w)
	earlier := dirStamp{}
	if d := s.c.dirs[name]; d != nil {
		earlier = d.stamp
	}
	l, err := s.list(ctx, name, earlier)
	if err != nil || l.state == dirAbsent || l.state == dirOdd {
		return nil, err
	}
	d := s.c.dirAt(name)
	if l.state == dirListed {
		why := map[string]string{}
		d.subs, d.stamp = nil, s.lasting(l)
		for _, e := range l.entries {
			switch n := e.Name(); {
			case hidden(n):
			case !isWriter(n) || n == string(w):
				why[n] = "not the name of another writer; it is not opened"
			default:
				d.subs = append(d.subs, ferry.WriterID(n))
			}
		}
		if err := s.reject(ctx, name, why); err != nil {
			return nil, err
		}
	}
	known := readable(s.c.authority())
	var out []ferry.WriterID
	for _, of := range d.subs {
		if slices.Contains(known, of) {
			out = append(out, of)
		}
	}
	return out, nil
}

// recordFiles looks at a directory of records of one writer.
func (s *scan) recordFiles(ctx context.Context, w ferry.WriterID, name string) error {
	mine := s.own[w] && name == recordsPath(w)
	l, err := s.list(ctx, name, s.clean[name])
	if err != nil || l.state == dirClean || l.state == dirOdd {
		return err
	}
	s.expect(w)
	if l.state == dirAbsent && !mine {
		return nil
	}
	why, again, err := s.records(ctx, w, l)
	if err != nil {
		return err
	}
	if mine {
		left, err := s.putBackRecords(ctx, w, l)
		if err != nil {
			why["."] = notPutBack + Cause(err)
		}
		again = again || left || err != nil
	}
	return s.done(ctx, l, why, again)
}

// records looks at what is not in the store yet. It returns why names are not read, and whether one of them may become
// readable without a change of the directory.
func (s *scan) records(ctx context.Context, w ferry.WriterID, l listing) (why map[string]string, again bool, err error) {
	d := s.c.dirAt(l.dir)
	names, bad := make(map[string]knownFile, len(l.entries)), map[string]badFile{}
	why = map[string]string{}
	var used int64
	for _, e := range l.entries {
		name := e.Name()
		if hidden(name) {
			continue
		}
		if k, have := d.names[name]; have && !s.grown(k, e) {
			names[name], used = k, used+k.size
			continue
		}
		if reason := misfit(name); reason != "" {
			why[name] = reason
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		b, err := s.entry(ctx, w, l.dir, e)
		if err != nil {
			return nil, false, err
		}
		switch b.kind {
		case outTaken, outKnown:
			used += b.size
			names[name] = knownFile{b.at.epoch, b.seq, b.size}
		case outGone:
		default:
			bad[name] = b
		}
	}
	parked := 0
	for name, b := range bad {
		again = again || b.mayChange(s.now)
		if b.kind == outWaits {
			parked++
		}
		if b.reason != "" && b.kind != outWaits {
			why[name] = b.reason
		}
	}
	s.park(l.dir, parked)
	if s.over(w) {
		why["."] = s.quotas[w].String()
	} else if full := s.full(w, l.dir); full != "" && full != s.held && hasLater(bad) { // the disk has its own line
		why["."] = full
	}
	d.names, d.bad, d.cover, d.stamp = names, bad, coverageOf(names), l.stamp
	if err := s.used(ctx, l.dir, used); err != nil {
		return nil, false, err
	}
	return why, again, s.flush(ctx)
}

// grown reports whether a file has another size than before, where that may be the whole record that is wanted for a bare one.
func (s *scan) grown(k knownFile, e fs.DirEntry) bool {
	if len(s.c.seen.hollow) == 0 {
		return false
	}
	info, err := e.Info()
	return err == nil && info.Size() != k.size
}

// hasLater reports whether a file was left for a later pass.
func hasLater(bad map[string]badFile) bool {
	for _, b := range bad {
		if b.kind == outLater {
			return true
		}
	}
	return false
}

func (s *scan) park(dir string, n int) {
	delete(s.parked, dir)
	if n > 0 {
		s.parked[dir] = n
	}
}

// entry looks at one file, unless it looks the same as when it was not taken before.
func (s *scan) entry(ctx context.Context, w ferry.WriterID, dir string, e fs.DirEntry) (badFile, error) {
	info, err := e.Info()
	if err != nil {
		return badFile{outcome: outcome{kind: outGone}}, nil // it went away while we looked
	}
	b := badFile{size: info.Size(), mtime: info.ModTime(), store: s.covered(), since: s.now}
	if b.size > sign.MaxRecord {
		b.outcome = tooLarge("a record", sign.MaxRecord)
		return b, nil
	}
	old, seen := s.c.dirs[dir].bad[e.Name()]
	if seen && old.kind != outLater && old.size == b.size && old.mtime.Equal(b.mtime) {
		due, err := s.filled(ctx, old)
		if err != nil || !due {
			return old, err
		}
	} else if err := s.stored(ctx, w, e.Name(), &b); err != nil || b.kind == outKnown {
		return b, err
	}
	if s.loose[w] == maxLoose || s.over(w) || s.full(w, dir) != "" {
		b.kind = outLater
		return b, nil
	}
	s.loose[w]++
	return b, s.open(ctx, w, path.Join(dir, e.Name()), &b)
}

// covered gives the size of the store that the index covers.
func (c *Channel) covered() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.synced
}

func (s *scan) covered() int64 { return s.c.covered() }

// filled reports whether a file that waited for its predecessor, or for the key of its epoch, has to be opened again.
func (s *scan) filled(ctx context.Context, b badFile) (bool, error) {
	switch {
	case b.kind == outWaits && s.c.seen.promised[b.lacks]:
		return true, nil
	case b.kind != outWaits || b.store == s.covered() && len(s.batch) == 0:
		return false, nil
	case !b.lacks.IsZero():
		return s.c.promised(ctx, b.lacks)
	}
	if _, _, ok := s.c.authority().Key(b.at.writer, b.at.epoch); !ok || b.seq <= 1 {
		return ok, nil
	}
	if t, ok := s.tips[b.at]; ok && t.seq+1 >= b.seq {
		return true, nil
	}
	var n int
	return one(ctx, s.c.db, []any{&n}, `SELECT n FROM records WHERE writer = ? AND epoch = ? AND seq = ? LIMIT 1`,
		string(b.at.writer), b.at.epoch, b.seq-1)
}

// stored finds out by its name whether a record is in the store: then its file is not opened.
func (s *scan) stored(ctx context.Context, w ferry.WriterID, name string, b *badFile) error {
	epoch, seq, id32, err := sign.ParseName(name)
	if err != nil {
		return nil
	}
	low, high, _ := prefixRange(id32)
	var id []byte
	found, err := one(ctx, s.c.db, []any{&id}, `SELECT id FROM records WHERE writer = ? AND epoch = ? AND seq = ? AND id BETWEEN ? AND ?`,
		string(w), epoch, seq, low, high)
	if found && hex.EncodeToString(id[:16]) == id32 && !s.c.seen.hollow[ferry.RecordID(id)] {
		b.kind, b.at, b.seq = outKnown, chain{w, epoch}, seq
	}
	return err
}

// open reads one file of records and offers it to the store.
func (s *scan) open(ctx context.Context, w ferry.WriterID, name string, b *badFile) error {
	data, why := s.readFile(name, sign.MaxRecord, "a record")
	if data == nil {
		b.outcome = why
		return nil
	}
	u, err := formOf(data)
	if errors.Is(err, sign.ErrIncomplete) {
		b.outcome = outcome{outGrowing, "truncated: " + err.Error()}
		return nil
	}
	if err != nil {
		b.outcome = outcome{outRefused, err.Error()}
		return nil
	}
	h := u.Header()
	b.at, b.seq = chain{ferry.WriterID(h.Writer), h.Epoch}, h.Seq
	if b.outcome, err = s.offer(ctx, w, u); err != nil {
		return err
	}
	b.lacks = s.lacks(u, b.outcome)
	if b.kind == outTaken {
		s.count(w, len(data))
		s.usage.add(path.Dir(name), b.size)
	}
	if own := u.Name(); (b.kind == outTaken || b.kind == outKnown) && own != path.Base(name) {
		b.outcome = outcome{outRefused, "its name is not its own; it holds " + own}
	}
	return nil
}

// readFile reads one file of the folder; without data, the outcome says why.
func (s *scan) readFile(name string, limit int64, what string) ([]byte, outcome) {
	if s.c.seen.opened != nil {
		s.c.seen.opened(name)
	}
	data, _, err := s.root.ReadFile(name, limit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, outcome{kind: outGone}
	case errors.Is(err, atomicfile.ErrTooLarge):
		return nil, tooLarge(what, limit)
	case errors.Is(err, atomicfile.ErrNotRegular):
		return nil, outcome{outRefused, "a symlink or a special file; it is not opened"}
	case err != nil:
		return nil, outcome{outRefused, err.Error()}
	case len(data) == 0:
		return nil, outcome{outGrowing, "truncated: it is empty"}
	}
	return data, outcome{}
}

// tooLarge refuses a file by its size.
func tooLarge(what string, limit int64) outcome {
	return outcome{outRefused, fmt.Sprintf("larger than %s can be (%d bytes)", what, limit)}
}

// offer gives a record to the ingest, which judges it.
func (s *scan) offer(ctx context.Context, w ferry.WriterID, u form) (outcome, error) {
	v, err := s.judge(ctx, w, u, func(key sign.PublicKey) (form, error) { return openForm(u, key) })
	return v.outcome(), err
}

// lacks gives the record that a redaction has to name before a bare one is taken in.
func (s *scan) lacks(u form, o outcome) ferry.RecordID {
	if o.kind == outWaits && o.reason == whyAlone {
		return u.ID()
	}
	return ferry.RecordID{}
}

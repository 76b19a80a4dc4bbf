package channel

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/sign"
)

// beatNote is the body of the file of a beat: the beat, and where it belongs.
type beatNote struct {
	Channel ferry.RecordID `json:"channel"`
	Writer  ferry.WriterID `json:"writer"`
	ferry.Beat
}

// heardBeat is what this process knows of the beat of one writer.
type heardBeat struct {
	size, mtime int64
	ino         uint64
	wrong       string // why the file is not read
	beat        *ferry.Beat
	at          int64 // mtime of the file that brought it
}

// heardStep is how often it is written down that a member was heard of.
const heardStep = time.Hour

// PutBeat replaces the beat of the writer that a key belongs to. It needs no lock: a beat has one writer, and what others
// make of it never depends on the store.
func (c *Channel) PutBeat(key sign.Key, b ferry.Beat) error {
	w, epoch, ok := writerOf(c.authority(), key.Public())
	if !ok || epoch != b.Epoch {
		return fmt.Errorf("write beat: the key is that of no member in epoch %d: %w", b.Epoch, ErrNotMember)
	}
	body, err := sign.EncodeJSON(beatNote{Channel: c.id, Writer: w, Beat: b})
	if err != nil {
		return fmt.Errorf("write beat: %w", err)
	}
	file, err := sign.SealNote(key, sign.TypeBeat, body)
	if err != nil {
		return fmt.Errorf("write beat: %w", err)
	}
	root, err := atomicfile.OpenRoot(c.cfg.Folder)
	if err != nil {
		return fmt.Errorf("write beat: %w", err)
	}
	defer root.Close()
	err = root.Write(beatPath(w), file, fileMode)
	if errors.Is(err, fs.ErrNotExist) {
		if err = root.MkdirAll(writerPath(w), folderMode); err == nil {
			err = root.Write(beatPath(w), file, fileMode)
		}
	}
	if info, odd := root.Stat(beatPath(w)); err != nil && odd == nil && info.IsDir() {
		if err = root.RemoveDir(beatPath(w)); err == nil {
			err = root.Write(beatPath(w), file, fileMode)
		} else {
			err = fmt.Errorf("a directory that cannot be removed stands in the place of the file, move it away: %w", err)
		}
	}
	if err != nil {
		return fmt.Errorf("write beat: %w", err)
	}
	c.seen.mu.Lock()
	defer c.seen.mu.Unlock()
	h := c.seen.heard(w)
	if b.After(h.beat) {
		h.beat = &b
	}
	c.seen.put[string(w)] = true
	return nil
}

// Beats gives the highest beat that this process knows of each member, as of the last Refresh. What is there was signed by
// the member; that there is none proves nothing.
func (c *Channel) Beats() map[ferry.WriterID]ferry.Beat {
	roster := c.authority()
	c.seen.mu.Lock()
	defer c.seen.mu.Unlock()
	out := map[ferry.WriterID]ferry.Beat{}
	for w, h := range c.seen.beats {
		if h.beat != nil && c.seen.mayBeat(roster, chain{w, h.beat.Epoch}) {
			out[w] = *h.beat
		}
	}
	return out
}

// mayBeat reports whether what a writer says in an epoch is listened to; mu is held.
func (m *memory) mayBeat(r *authority.Roster, at chain) bool {
	return at.epoch != 0 && r.Epoch(at.writer) == at.epoch && !m.forks[at]
}

// forked finds out which chains have a fork that nobody has answered, when anything came in.
func (s *scan) forked(ctx context.Context) error {
	size := s.covered()
	if s.c.seen.asked == size {
		return nil
	}
	forks := map[chain]bool{}
	err := each(ctx, s.c.db, func(rows *sql.Rows) error {
		var at chain
		err := rows.Scan(&at.writer, &at.epoch)
		forks[at] = true
		return err
	}, `SELECT writer, epoch FROM forks WHERE open = 1`)
	if err != nil {
		return err
	}
	s.c.seen.mu.Lock()
	defer s.c.seen.mu.Unlock()
	s.c.seen.forks, s.c.seen.asked = forks, size
	return nil
}

// heard gives the memory of a writer's beat; mu is held.
func (m *memory) heard(w ferry.WriterID) *heardBeat {
	h := m.beats[w]
	if h == nil {
		h = &heardBeat{}
		m.beats[w] = h
	}
	return h
}

// beat reads the beat of a writer if its file has changed. It reports that, and why the file is not read.
func (s *scan) beat(ctx context.Context, w ferry.WriterID) (changed bool, wrong string, err error) {
	info, err := s.root.Stat(beatPath(w))
	if errors.Is(err, fs.ErrNotExist) {
		return false, "", nil // a file that is being replaced is absent for a moment
	}
	seen := heardBeat{wrong: "a symlink or a special file; it is not opened"}
	if err == nil {
		st := stampOf(info)
		seen.size, seen.mtime, seen.ino = info.Size(), st.mtime, st.ino
	}
	s.c.seen.mu.Lock()
	old := *s.c.seen.heard(w)
	s.c.seen.mu.Unlock()
	if old.size == seen.size && old.mtime == seen.mtime && old.ino == seen.ino && (err == nil || old.wrong == seen.wrong) {
		return false, old.wrong, nil
	}
	seen.beat, seen.at = old.beat, old.at
	if err == nil {
		var b *ferry.Beat
		if b, seen.wrong = s.readBeat(w); b != nil && b.After(old.beat) {
			seen.beat, seen.at = b, seen.mtime
		}
	}
	s.c.seen.mu.Lock()
	s.c.seen.beats[w] = &seen
	s.c.seen.mu.Unlock()
	if seen.beat != old.beat {
		return true, seen.wrong, s.hear(ctx, w)
	}
	return true, seen.wrong, nil
}

// readBeat reads and checks the file of a beat. A beat that is older than a known one is neither an error nor news.
func (s *scan) readBeat(w ferry.WriterID) (*ferry.Beat, string) {
	data, out := s.readFile(beatPath(w), sign.MaxNote, "a beat")
	if data == nil {
		return nil, out.reason
	}
	n, err := sign.ParseNote(data)
	if err != nil {
		return nil, err.Error()
	}
	var b beatNote
	if n.PayloadType() != sign.TypeBeat {
		return nil, "a note of the type " + n.PayloadType() + ", not a beat"
	}
	if _, err := sign.DecodeJSON(n.Body(), &b, sign.Ignore); err != nil {
		return nil, err.Error()
	}
	if b.Channel != s.c.id || b.Writer != w {
		return nil, "the beat of another channel or writer"
	}
	roster := s.c.authority()
	key, _, ok := roster.Key(w, b.Epoch)
	if !ok || b.Epoch != roster.Epoch(w) {
		return nil, fmt.Sprintf("a beat of epoch %d, in which the writer may not write", b.Epoch)
	}
	if err := n.Verify(key); err != nil {
		return nil, err.Error()
	}
	return &b.Beat, ""
}

// hear notes by the clock of this machine that a member is there.
func (s *scan) hear(ctx context.Context, w ferry.WriterID) error {
	_, err := s.c.db.ExecContext(ctx, `INSERT INTO heard VALUES (?, ?) ON CONFLICT DO UPDATE SET at = excluded.at WHERE excluded.at > at + ?`,
		string(w), s.now.Unix(), int64(heardStep/time.Second))
	if err != nil {
		return fmt.Errorf("note that %s was heard of: %w", w, err)
	}
	return nil
}

// hearNobody begins the silence of members who were never heard of.
func (s *scan) hearNobody(ctx context.Context) error {
	heard, err := s.c.heard(ctx)
	if err != nil {
		return err
	}
	for _, w := range readable(s.c.authority()) {
		if _, ok := heard[w]; ok {
			continue
		}
		if err := s.hear(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// heard gives when each member was last heard of.
func (c *Channel) heard(ctx context.Context) (map[ferry.WriterID]time.Time, error) {
	out := map[ferry.WriterID]time.Time{}
	err := each(ctx, c.db, func(rows *sql.Rows) error {
		var w ferry.WriterID
		var at int64
		err := rows.Scan(&w, &at)
		out[w] = time.Unix(at, 0)
		return err
	}, `SELECT writer, at FROM heard`)
	return out, err
}

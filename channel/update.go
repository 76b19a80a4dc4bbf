package channel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/sign"
)

// ErrUnpublished reports that records were written and hold, but are not in the folder yet, so that other machines do not
// see them. Every later Refresh tries again. It comes with the ids of the records.
var ErrUnpublished = errors.New("recorded here, but not yet in the folder")

// ErrForked reports that the key of a writer has signed one number twice, as happens when a state directory is copied or an
// old copy of it is put back. The writer writes no more.
var ErrForked = errors.New("the writer has signed one number twice")

// ErrDamaged reports that the store has lost records of a writer of this machine. It writes no more until the folder has
// brought them back, because it would sign a number twice.
var ErrDamaged = errors.New("the store is damaged")

// Writer writes records under one key.
type Writer struct {
	c   *Channel
	key sign.Key
	id  ferry.WriterID
}

// Writer gives the writer of a key, which must belong to a member of the channel.
func (c *Channel) Writer(key sign.Key) (*Writer, error) {
	id := ferry.WriterID(key.Public().WriterID())
	if _, ok := c.authority().Member(id); !ok {
		return nil, fmt.Errorf("writer %s: %w; the master admits it with `ferry enable` in this project", id, ErrNotMember)
	}
	return &Writer{c: c, key: key, id: id}, nil
}

// ID gives the writer's id.
func (w *Writer) ID() ferry.WriterID { return w.id }

// Tx is one write in progress. It sees the channel with everything that has arrived and with what it added itself. It ends
// with the function that it was given to.
type Tx struct {
	reader
	w       *Writer
	now     time.Time
	epoch   uint32
	tip     tip
	prev    ferry.RecordID
	frames  []frame
	names   []string
	added   []ferry.Record
	folding map[ferry.RecordID]ferry.Task
}

// Update is the one way to write. It takes the lock of this machine, catches up with the store and the folder, calls f, and
// makes all that f added durable at once; then it creates the files in the folder. When f returns an error nothing is
// written. With ErrUnpublished the records hold.
func (w *Writer) Update(ctx context.Context, now time.Time, f func(tx *Tx) error) ([]ferry.RecordID, error) {
	c := w.c
	if err := c.lock.acquire(ctx); err != nil {
		return nil, err
	}
	defer c.lock.release()
	c.at("locked")
	if err := c.catchUp(ctx); err != nil {
		return nil, err
	}
	if _, err := c.scan(ctx); err != nil {
		return nil, err
	}
	tx, err := w.begin(ctx, now)
	if err != nil {
		return nil, err
	}
	if err := f(tx); err != nil {
		return nil, err
	}
	if len(tx.frames) == 0 {
		return nil, nil
	}
	c.at("signed")
	end, err := c.store.append(tx.frames)
	if err != nil {
		return nil, err
	}
	c.at("appended")
	added := make([]ferry.RecordID, len(tx.added))
	for i, r := range tx.added {
		added[i] = r.ID
	}
	clean, err := c.cleanStamp(ctx, w.id)
	if err == nil {
		err = c.apply(ctx, tx.frames, end)
	}
	c.at("indexed")
	err = errors.Join(err, c.publish(ctx, tx, clean))
	c.at("published")
	if err != nil {
		return added, fmt.Errorf("%s: %w: %w; the next refresh tries again", describe(added), ErrUnpublished, err)
	}
	return added, nil
}

func describe(added []ferry.RecordID) string {
	if len(added) == 1 {
		return "record " + added[0].Short()
	}
	return fmt.Sprintf("%d records from %s on", len(added), added[0].Short())
}

func (w *Writer) begin(ctx context.Context, now time.Time) (*Tx, error) {
	c := w.c
	roster := c.authority()
	const epoch = 1
	key, first, ok := roster.Key(w.id, epoch)
	if !ok || key != w.key.Public() {
		return nil, fmt.Errorf("writer %s: %w", w.id, ErrNotMember)
	}
	at := chain{w.id, epoch}
	var n int
	forked, err := one(ctx, c.db, []any{&n}, `SELECT n FROM records WHERE main = 0 AND writer = ? AND epoch = ? LIMIT 1`, string(w.id), epoch)
	if err != nil {
		return nil, err
	}
	if forked {
		return nil, fmt.Errorf("writer %s: %w; `ferry channel verify` shows where, and a new key has to be admitted", w.id, ErrForked)
	}
	t, err := readTip(ctx, c.db, at)
	if err != nil {
		return nil, err
	}
	var signed uint64
	if _, err := one(ctx, c.db, []any{&signed}, `SELECT seq FROM own WHERE writer = ?`, string(w.id)); err != nil {
		return nil, err
	}
	if t.seq < signed {
		return nil, fmt.Errorf("writer %s: %w: the store has number %d, the last was %d; bring the folder back, which has the rest", w.id, ErrDamaged, t.seq, signed)
	}
	prev := t.id
	if t.seq == 0 {
		prev = first
	}
	return &Tx{
		reader: reader{c: c, q: c.db, roster: roster, fresh: map[ferry.RecordID]parsed{}},
		w:      w, now: now, epoch: epoch, tip: t, prev: prev,
	}, nil
}

// Add signs a record and puts it into the write. Secrets in its texts are the caller's to redact before.
func (tx *Tx) Add(b ferry.Body) (ferry.RecordID, error) {
	body, err := encodeBody(b)
	if err != nil {
		return ferry.RecordID{}, fmt.Errorf("write %w", err)
	}
	file, err := sign.Seal(tx.w.key, sign.Header{
		Channel: tx.c.id, Type: string(b.Type()), Writer: sign.WriterID(tx.w.id), Epoch: tx.epoch, Seq: tx.tip.seq + 1,
		Prev: tx.prev, Time: tx.now,
	}, body)
	if err != nil {
		return ferry.RecordID{}, fmt.Errorf("write %s: %w", b.Type(), err)
	}
	r, err := parseStored(file)
	if err != nil {
		return ferry.RecordID{}, fmt.Errorf("write %s: %w", b.Type(), err)
	}
	// What readers decode counts, not the value that was passed in: it can change later.
	rec, why := r.record()
	if why != "" {
		return ferry.RecordID{}, fmt.Errorf("write %s: %s", b.Type(), why)
	}
	if err := tx.permitted(rec); err != nil {
		return ferry.RecordID{}, err
	}
	tx.tip, tx.prev, tx.folding = tip{r.head.Seq, r.id}, r.id, nil
	tx.frames = append(tx.frames, frame{data: file, own: true})
	tx.names = append(tx.names, recordName(tx.epoch, r.head.Seq, r.id))
	tx.added = append(tx.added, rec)
	return r.id, nil
}

// permitted refuses a record that no reader would count.
func (tx *Tx) permitted(rec ferry.Record) error {
	var issuer ferry.WriterID
	if id, ok := subject(rec); ok && id != rec.ID {
		t, err := tx.Task(id)
		if err != nil {
			return fmt.Errorf("write %s: %w", rec.Body.Type(), err)
		}
		issuer = t.Issuer
	}
	if _, why, ok := tx.roster.Counts(rec, issuer); !ok {
		return fmt.Errorf("write %s: %s", rec.Body.Type(), why)
	}
	if rec.Body.Type() != ferry.TypeAdmit {
		return nil
	}
	statements, err := tx.c.statements(context.Background(), tx.q)
	if err != nil {
		return err
	}
	roster := authority.Build(append(append(statements, tx.added...), rec), tx.c.id)
	if _, why, ok := roster.Counts(rec, ""); !ok {
		return fmt.Errorf("write %s: %s", rec.Body.Type(), why)
	}
	tx.roster = roster
	return nil
}

// publish creates the files of a write. A directory that was known to be clean before stays so.
func (c *Channel) publish(ctx context.Context, tx *Tx, clean *dirStamp) error {
	root, err := atomicfile.OpenRoot(c.cfg.Folder)
	if err != nil {
		return err
	}
	defer root.Close()
	dir := recordsPath(tx.w.id)
	if clean != nil {
		if info, err := root.Stat(dir); err != nil || stampOf(info) != *clean {
			clean = nil
		}
	}
	for i, name := range tx.names {
		err := root.Create(path.Join(dir, name), tx.frames[i].data, fileMode)
		if errors.Is(err, fs.ErrNotExist) {
			if err = root.MkdirAll(dir, folderMode); err == nil {
				err = root.Create(path.Join(dir, name), tx.frames[i].data, fileMode)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.cfg.Folder, plain(err))
		}
		c.at("file")
	}
	if clean == nil {
		return nil
	}
	info, err := root.Stat(dir)
	if err != nil {
		return err
	}
	return c.settle(ctx, dir, stampOf(info))
}

// plain cuts what a person cannot use off the error of a file.
func plain(err error) error {
	if errors.Is(err, atomicfile.ErrDiffers) {
		return fmt.Errorf("a foreign file holds the name of an own record: %w", err)
	}
	return err
}

// cleanStamp gives the stamp of a writer's directory if nothing in it needs a look.
func (c *Channel) cleanStamp(ctx context.Context, w ferry.WriterID) (*dirStamp, error) {
	var s dirStamp
	found, err := one(ctx, c.db, []any{&s.ino, &s.mtime}, `SELECT ino, mtime FROM dirs WHERE dir = ?`, recordsPath(w))
	if !found || err != nil {
		return nil, err
	}
	return &s, nil
}

// publishRoot puts the root record of a new channel into the folder.
func (c *Channel) publishRoot(ctx context.Context) error {
	report, err := c.Refresh(ctx)
	if err != nil {
		return err
	}
	var wrong []string
	for _, r := range report.Rejected {
		wrong = append(wrong, r.Name+": "+r.Reason)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s: %w: %s", c.cfg.Folder, ErrUnpublished, strings.Join(wrong, "; "))
	}
	return nil
}

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

// ErrLost reports that a writer of this machine has signed records that its store does not have from signing them: the state
// directory is an old or a second copy. The writer writes no more, because it would sign a number twice.
var ErrLost = errors.New("this machine does not remember what the writer has signed")

// ErrRevoked reports that the master has shut a writer out, or has given it another key.
var ErrRevoked = errors.New("the master has taken the key back")

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
	id, err := memberOf(c.authority(), key.Public())
	if err != nil {
		return nil, err
	}
	return &Writer{c: c, key: key, id: id}, nil
}

// memberOf finds the writer that writes with a key.
func memberOf(r *authority.Roster, key sign.PublicKey) (ferry.WriterID, error) {
	if w, _, ok := writerOf(r, key); ok {
		return w, nil
	}
	for _, ch := range chainsOf(r) {
		if past, _, _ := r.Key(ch.writer, ch.epoch); past == key {
			return "", fmt.Errorf("writer %s: %w; `%s` asks for a new one", ch.writer, ErrRevoked, rejoin(r, ch.writer))
		}
	}
	return "", fmt.Errorf("writer %s: %w; the master admits it with `ferry enable` in this project", key.WriterID(), ErrNotMember)
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
	saw     []sign.Head
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
	return c.write(ctx, tx)
}

// write makes a write durable and creates its files.
func (c *Channel) write(ctx context.Context, tx *Tx) ([]ferry.RecordID, error) {
	asked := len(tx.added)
	tx.evidence(ctx)
	if len(tx.frames) == 0 {
		return nil, nil
	}
	c.at("signed")
	end, err := c.store.append(tx.frames)
	if err != nil {
		return nil, err
	}
	c.at("appended")
	added := make([]ferry.RecordID, asked)
	for i, r := range tx.added[:asked] {
		added[i] = r.ID
	}
	clean, err := c.cleanStamp(ctx, tx.w.id)
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
	switch len(added) {
	case 0:
		return "the proof of a fork"
	case 1:
		return "record " + added[0].Short()
	}
	return fmt.Sprintf("%d records from %s on", len(added), added[0].Short())
}

func (w *Writer) begin(ctx context.Context, now time.Time) (*Tx, error) {
	c := w.c
	roster := c.authority()
	if id, err := memberOf(roster, w.key.Public()); err != nil {
		return nil, err
	} else if id != w.id {
		return nil, fmt.Errorf("writer %s: %w", w.id, ErrNotMember)
	}
	ch := chain{w.id, roster.Epoch(w.id)}
	_, first, _ := roster.Key(ch.writer, ch.epoch)
	t, err := w.next(ctx, ch)
	if err != nil {
		return nil, err
	}
	prev := t.id
	if t.seq == 0 {
		prev = first
	}
	saw, err := c.heads(ctx, roster, w.id)
	return &Tx{
		reader: reader{c: c, q: c.db, roster: roster},
		w:      w, now: now, epoch: ch.epoch, tip: t, prev: prev, saw: signHeads(saw),
	}, err
}

// next gives the last record of the writer's chain, if it is certain that the number behind it was never signed.
func (w *Writer) next(ctx context.Context, ch chain) (tip, error) {
	c := w.c
	var fork uint64
	if _, err := one(ctx, c.db, []any{&fork}, `SELECT seq FROM forks WHERE writer = ? AND epoch = ?`, string(ch.writer), ch.epoch); err != nil {
		return tip{}, err
	}
	if fork != 0 {
		return tip{}, fmt.Errorf("writer %s: %w: number %d; %s", w.id, ErrForked, fork, w.rejoin())
	}
	last, err := lastOf(ctx, c.db, ch, "")
	if err != nil {
		return last, err
	}
	var signed uint64
	if _, err := one(ctx, c.db, []any{&signed}, `SELECT seq FROM own WHERE writer = ? AND epoch = ?`, string(ch.writer), ch.epoch); err != nil {
		return last, err
	}
	switch there := max(last.seq, c.ahead[ch]); {
	case last.seq < signed:
		return last, fmt.Errorf("writer %s: %w: the store has number %d, the last was %d; bring the folder back, which has the rest", w.id, ErrDamaged, last.seq, signed)
	case there > signed:
		return last, fmt.Errorf("writer %s: %w: number %d is signed, and this state directory knows of %d; was it copied, or an old copy put back? %s",
			w.id, ErrLost, there, signed, w.rejoin())
	}
	return last, nil
}

// rejoin says what to type when a chain cannot be gone on with.
func (w *Writer) rejoin() string {
	roster := w.c.authority()
	if m, ok := roster.Master(); ok && m.Writer == w.id {
		return "it is the master's: a root record that is signed with the recovery key has to name a new key and the branch to keep"
	}
	return "`" + rejoin(roster, w.id) + "` asks the master for a new epoch"
}

// rejoin is the command that asks for the next key of a writer: without a name it means the agent of the project, which a
// person is not.
func rejoin(r *authority.Roster, w ferry.WriterID) string {
	m, _ := r.Member(w)
	return strings.TrimSpace("ferry channel rejoin " + string(m.Name))
}

// Add signs a record and puts it into the write. Secrets in its texts are the caller's to redact before.
func (tx *Tx) Add(b ferry.Body) (ferry.RecordID, error) { return tx.AddSigned(b) }

// AddSigned is Add for a record that further keys sign as well, as a root needs it.
func (tx *Tx) AddSigned(b ferry.Body, with ...sign.Key) (ferry.RecordID, error) {
	body, err := encodeBody(b)
	if err != nil {
		return ferry.RecordID{}, fmt.Errorf("write %w", err)
	}
	file, err := sign.Seal(tx.w.key, sign.Header{
		Channel: tx.c.id, Type: string(b.Type()), Writer: sign.WriterID(tx.w.id), Epoch: tx.epoch, Seq: tx.tip.seq + 1,
		Prev: tx.prev, Time: tx.now, Saw: tx.saw,
	}, body)
	for _, k := range with {
		if err == nil {
			file, err = sign.Cosign(k, file)
		}
	}
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
	if err := tx.permitted(rec, file); err != nil {
		return ferry.RecordID{}, err
	}
	tx.tip, tx.prev, tx.folding = tip{r.head.Seq, r.id}, r.id, nil
	tx.frames = append(tx.frames, frame{data: file, own: true})
	tx.names = append(tx.names, recordName(tx.epoch, r.head.Seq, r.id))
	tx.added = append(tx.added, rec)
	return r.id, nil
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

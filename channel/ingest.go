package channel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/sign"
)

// Report says what one look at the folder found.
type Report struct {
	New         int        // records taken into the store
	Rejected    []Rejected // what cannot be read and was not reported by an earlier look
	Parked      int        // records that wait for a predecessor
	Republished int        // own files that were missing or damaged and were created again
	Relayed     int        // files of other writers that had been missing for a while and were written again
	Busy        bool       // another process was looking at the time, so this one did not
}

// Rejected is a name in the folder that is not read, and why.
type Rejected struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Refresh takes what is new in the folder into the store, and puts own files back that are missing from it. While another
// process does the same it leaves that to it. An error means that the store or the index could not be written or read;
// whatever is wrong with the folder is in the report.
func (c *Channel) Refresh(ctx context.Context) (Report, error) {
	free, err := c.lock.try()
	if err != nil || !free {
		return Report{Busy: err == nil}, err
	}
	defer c.lock.release()
	if err := c.catchUp(ctx); err != nil {
		return Report{}, err
	}
	return c.scan(ctx)
}

// verdict is what became of a file.
type verdict struct {
	kind   verdictKind
	reason string
}

type verdictKind uint8

const (
	accepted   verdictKind = iota
	known                  // it is in the store already
	misnamed               // it is in the store, and its name is not its own
	parked                 // it waits for its predecessor
	incomplete             // it ends too early, and may still be growing
	rejected
	vanished
)

// ingest collects verified records of the folder and takes them into the store in batches.
type ingest struct {
	c     *Channel
	root  *atomicfile.Root
	batch []frame
	bytes int
	tips  map[chain]tip
	taken int
}

// file looks at one file of a writer's directory.
func (g *ingest) file(ctx context.Context, w ferry.WriterID, name string) (verdict, error) {
	data, _, err := g.root.ReadFile(path.Join(recordsPath(w), name), sign.MaxRecord)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return verdict{kind: vanished}, nil
	case errors.Is(err, atomicfile.ErrTooLarge):
		return verdict{rejected, fmt.Sprintf("larger than a record can be (%d bytes)", sign.MaxRecord)}, nil
	case errors.Is(err, atomicfile.ErrNotRegular):
		return verdict{rejected, "a symlink or a special file; it is not opened"}, nil
	case err != nil:
		return verdict{rejected, err.Error()}, nil
	}
	v, err := g.record(ctx, w, data)
	if err != nil || v.kind > known {
		return v, err
	}
	if u, err := sign.ParseHeader(data); err == nil && u.Name() != name {
		return verdict{misnamed, "its name is not its own; it holds " + u.Name()}, nil
	}
	return v, nil
}

// record verifies the bytes of one record and takes it into the batch. No byte of it is believed before sign.Open.
func (g *ingest) record(ctx context.Context, w ferry.WriterID, data []byte) (verdict, error) {
	u, err := sign.ParseHeader(data)
	if errors.Is(err, sign.ErrIncomplete) {
		return verdict{incomplete, "truncated: " + err.Error()}, nil
	}
	if err != nil {
		return verdict{rejected, err.Error()}, nil
	}
	h := u.Header()
	if ferry.WriterID(h.Writer) != w {
		return verdict{rejected, "a record of the writer " + string(h.Writer) + " in the directory of another"}, nil
	}
	if ferry.RecordID(h.Channel) != g.c.id && ferry.RecordID(u.ID()) != g.c.id {
		return verdict{rejected, "a record of the channel " + ferry.RecordID(h.Channel).String()}, nil
	}
	key, first, ok := g.c.authority().Key(w, h.Epoch)
	if !ok {
		return verdict{rejected, fmt.Sprintf("no admission gives a key for epoch %d", h.Epoch)}, nil
	}
	v, err := sign.Open(data, key)
	if err != nil {
		return verdict{rejected, err.Error()}, nil
	}
	return g.chain(ctx, v, first)
}

// chain takes a verified record in behind its predecessor.
func (g *ingest) chain(ctx context.Context, v sign.Verified, first ferry.RecordID) (verdict, error) {
	h, id := v.Header(), ferry.RecordID(v.ID())
	w := chain{ferry.WriterID(h.Writer), h.Epoch}
	t, ok := g.tips[w]
	if !ok {
		var err error
		if t, err = readTip(ctx, g.c.db, w); err != nil {
			return verdict{}, err
		}
		g.tips[w] = t
	}
	next := h.Seq == t.seq+1 && (t.seq == 0 && ferry.RecordID(h.Prev) == first || t.seq > 0 && ferry.RecordID(h.Prev) == t.id)
	switch {
	case id == t.id:
		return verdict{kind: known}, nil
	case next:
		g.tips[w] = tip{h.Seq, id}
		return verdict{kind: accepted}, g.take(ctx, v)
	}
	return g.offBranch(ctx, v, first)
}

// offBranch handles what does not follow the tip: a repetition, a gap or a fork. The batch is flushed first, so that the
// index knows everything.
func (g *ingest) offBranch(ctx context.Context, v sign.Verified, first ferry.RecordID) (verdict, error) {
	if err := g.flush(ctx); err != nil {
		return verdict{}, err
	}
	h, id := v.Header(), ferry.RecordID(v.ID())
	var n int
	if found, err := one(ctx, g.c.db, []any{&n}, `SELECT n FROM records WHERE id = ?`, id[:]); err != nil || found {
		return verdict{kind: known}, err
	}
	follows := h.Seq == 1 && ferry.RecordID(h.Prev) == first
	if h.Seq > 1 {
		var err error
		follows, err = one(ctx, g.c.db, []any{&n}, `SELECT n FROM records WHERE id = ? AND writer = ? AND epoch = ? AND seq = ?`,
			h.Prev[:], string(h.Writer), h.Epoch, h.Seq-1)
		if err != nil {
			return verdict{}, err
		}
	}
	if !follows {
		return verdict{parked, "waits for its predecessor"}, nil
	}
	if err := g.take(ctx, v); err != nil {
		return verdict{}, err
	}
	return verdict{kind: accepted}, g.flush(ctx)
}

func (g *ingest) take(ctx context.Context, v sign.Verified) error {
	data := v.Bytes()
	g.batch, g.bytes = append(g.batch, frame{data: data}), g.bytes+len(data)
	if len(g.batch) < batchFrames && g.bytes < batchBytes {
		return nil
	}
	return g.flush(ctx)
}

// flush makes the batch durable and indexes it.
func (g *ingest) flush(ctx context.Context) error {
	clear(g.tips)
	if len(g.batch) == 0 {
		return nil
	}
	batch := g.batch
	g.batch, g.bytes = nil, 0
	end, err := g.c.store.append(batch)
	if err != nil {
		return err
	}
	g.taken += len(batch)
	return g.c.apply(ctx, batch, end)
}

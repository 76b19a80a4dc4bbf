package channel

import (
	"context"
	"fmt"
	"slices"

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
	Stripped    int        // records whose bodies were taken out of the store
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

// verdict is what became of the bytes of a record.
type verdict struct {
	kind   verdictKind
	reason string
}

type verdictKind uint8

const (
	accepted verdictKind = iota
	known                // it is in the store already
	parked               // it waits for its predecessor
	rejected
)

func (v verdict) outcome() outcome {
	switch v.kind {
	case accepted:
		return outcome{kind: outTaken}
	case known:
		return outcome{kind: outKnown}
	case parked:
		return outcome{outWaits, v.reason}
	}
	return outcome{outRefused, v.reason}
}

// ingest collects verified records of the folder and takes them into the store in batches.
type ingest struct {
	c     *Channel
	root  *atomicfile.Root
	batch []frame
	bytes int
	tips  map[chain]tip
	after []func() error // what waits for the batch to be durable
	taken int
	told  int // records that redactions were found to name
}

// then does something when what was collected until here is in the store and in the index.
func (g *ingest) then(f func() error) { g.after = append(g.after, f) }

// judge takes a record into the batch when open says that it is signed. No byte of it is believed before that.
func (g *ingest) judge(ctx context.Context, w ferry.WriterID, u form, open func(sign.PublicKey) (form, error)) (verdict, error) {
	h := u.Header()
	if ferry.WriterID(h.Writer) != w {
		return verdict{rejected, "a record of the writer " + string(h.Writer) + " in the directory of another"}, nil
	}
	if ferry.RecordID(h.Channel) != g.c.id && ferry.RecordID(u.ID()) != g.c.id {
		return verdict{rejected, "a record of the channel " + ferry.RecordID(h.Channel).String()}, nil
	}
	ch := chain{w, h.Epoch}
	key, first, ok, err := g.key(ctx, ch)
	if err != nil {
		return verdict{}, err
	}
	if !ok {
		return g.unknown(ctx, ch, u)
	}
	v, err := open(key)
	if err != nil {
		return verdict{rejected, err.Error()}, nil
	}
	if h.Seq == 1 && ferry.RecordID(h.Prev) != first {
		return verdict{rejected, fmt.Sprintf("number 1 of epoch %d does not name the record %s that gave the epoch", h.Epoch, first.Short())}, nil
	}
	g.promise(v)
	switch {
	case isBare(v):
		return g.bare(ctx, v)
	case g.c.seen.hollow[v.ID()]:
		return g.whole(ctx, v)
	}
	return g.chain(ctx, v)
}

// key gives the key of a chain. What was collected is indexed first where it may hold the admission.
func (g *ingest) key(ctx context.Context, ch chain) (key sign.PublicKey, first ferry.RecordID, ok bool, err error) {
	if key, first, ok = g.c.authority().Key(ch.writer, ch.epoch); ok || len(g.batch) == 0 {
		return key, first, ok, nil
	}
	if err := g.flush(ctx); err != nil {
		return key, first, false, err
	}
	key, first, ok = g.c.authority().Key(ch.writer, ch.epoch)
	return key, first, ok, nil
}

// unknown takes in a root record that a recovery key vouches for. Everything else of a writer or an epoch without a key waits.
func (g *ingest) unknown(ctx context.Context, ch chain, u form) (verdict, error) {
	id := ferry.RecordID(u.ID())
	if u.Header().Type == string(ferry.TypeRoot) && u.Header().Seq == 1 && len(sign.Signers(u.Bytes(), g.c.authority().RecoveryKeys())) > 0 {
		if _, err := openHeir(u.Bytes(), g.c.id); err != nil {
			return verdict{rejected, err.Error()}, nil
		}
		var n int
		found, err := one(ctx, g.c.db, []any{&n}, `SELECT n FROM records WHERE id = ?`, id[:])
		if err != nil || found {
			return verdict{kind: known}, err
		}
		g.batch, g.bytes = append(g.batch, frame{data: u.Bytes()}), g.bytes+len(u.Bytes())
		return verdict{kind: accepted}, g.flush(ctx)
	}
	return verdict{parked, noKey(ch.epoch)}, nil
}

// chain takes a verified record in behind its predecessor.
func (g *ingest) chain(ctx context.Context, v form) (verdict, error) {
	h, id := v.Header(), ferry.RecordID(v.ID())
	ch := chain{ferry.WriterID(h.Writer), h.Epoch}
	t, ok := g.tips[ch]
	if !ok {
		var err error
		if t, err = lastOf(ctx, g.c.db, ch, ""); err != nil {
			return verdict{}, err
		}
		g.tips[ch] = t
	}
	switch {
	case id == t.id:
		return verdict{kind: known}, nil
	case h.Seq == t.seq+1 && (t.seq == 0 || ferry.RecordID(h.Prev) == t.id):
		g.tips[ch] = tip{h.Seq, id}
		return verdict{kind: accepted}, g.take(ctx, v)
	}
	return g.offBranch(ctx, ch, v)
}

// offBranch handles what does not follow the last record: a repetition, a gap or a fork. The batch is flushed first, so that
// the index knows everything.
func (g *ingest) offBranch(ctx context.Context, ch chain, v form) (verdict, error) {
	if err := g.flush(ctx); err != nil {
		return verdict{}, err
	}
	h, id := v.Header(), ferry.RecordID(v.ID())
	var n int
	if found, err := one(ctx, g.c.db, []any{&n}, `SELECT n FROM records WHERE id = ?`, id[:]); err != nil || found {
		return verdict{kind: known}, err
	}
	if h.Seq > 1 {
		follows, err := one(ctx, g.c.db, []any{&n}, `SELECT n FROM records WHERE id = ? AND writer = ? AND epoch = ? AND seq = ?`,
			h.Prev[:], string(h.Writer), h.Epoch, h.Seq-1)
		if err != nil {
			return verdict{}, err
		}
		if !follows {
			g.c.signed(ch, h.Seq)
			return verdict{parked, "waits for its predecessor"}, nil
		}
	}
	if err := g.take(ctx, v); err != nil {
		return verdict{}, err
	}
	return verdict{kind: accepted}, g.flush(ctx)
}

func (g *ingest) take(ctx context.Context, v form) error {
	data := v.Bytes()
	read := parsed{head: v.Header(), id: v.ID(), body: v.Body(), file: data, size: len(data), bare: isBare(v)}
	g.batch, g.bytes = append(g.batch, frame{data: data, read: &read}), g.bytes+len(data)
	if len(g.batch) < batchFrames && g.bytes < batchBytes {
		return nil
	}
	return g.flush(ctx)
}

// flush makes the batch durable, indexes it, and does what waited for that.
func (g *ingest) flush(ctx context.Context) error {
	if err := g.write(ctx); err != nil {
		return err
	}
	after := g.after
	g.after = nil
	for _, f := range after {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

func (g *ingest) write(ctx context.Context) error {
	clear(g.tips)
	if len(g.batch) == 0 {
		return nil
	}
	batch := g.batch
	g.batch, g.bytes = nil, 0
	var end int64
	for part := range slices.Chunk(batch, appendFrames) {
		var err error
		if end, err = g.c.store.append(part); err != nil {
			return err
		}
	}
	g.c.at("taken")
	g.taken += len(batch)
	err := g.c.apply(ctx, batch, end)
	g.c.at("ingested")
	return err
}

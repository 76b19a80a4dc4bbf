package channel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/sign"
)

// When loose records are packed.
const (
	sealCount  = 256
	sealAge    = 7 * 24 * time.Hour
	maxRemoved = 1024 // loose files that one call removes
)

// SealReport says what SealLoose did.
type SealReport struct {
	Pack    string // path of the pack that was made, or empty
	Records int    // in it
	Removed int    // loose files that are in packs
	Anew    int    // packs that were made again without the bodies that a redaction took out
}

// errNothingToSeal ends a write without a record.
var errNothingToSeal = errors.New("nothing to seal")

// SealLoose packs the writer's own loose records, when there are 256 or the oldest has waited for a week, and says so in a
// seal record. Loose files go later: when the pack was read back from the folder and is what the store gives, and either
// every active member has said that it has the seal or 30 days have passed. It is cheap when nothing is due.
func (w *Writer) SealLoose(ctx context.Context, now time.Time) (SealReport, error) {
	var report SealReport
	var err error
	if report.Anew, err = w.repack(ctx, now); err != nil {
		return report, fmt.Errorf("seal: %w", err)
	}
	p, err := w.pack(ctx, now)
	if err != nil {
		return report, fmt.Errorf("seal: %w", err)
	}
	if p != nil {
		seal := &ferry.Seal{Epoch: int64(p.epoch), From: int64(p.from), To: int64(p.to), Pack: packSum(p.bytes), Size: int64(len(p.bytes))}
		_, err := w.Update(ctx, now, func(tx *Tx) error {
			// Another process of this writer may have sealed meanwhile.
			if seals, err := w.c.sealsOf(ctx, w.id); err != nil || seals.upTo[p.epoch]+1 != p.from {
				return errors.Join(err, errNothingToSeal)
			}
			_, err := tx.Add(seal)
			return err
		})
		if err != nil && !errors.Is(err, errNothingToSeal) {
			return report, fmt.Errorf("seal: %w", err)
		}
		report.Pack, report.Records = p.name(w.id), int(p.to-p.from)+1
	}
	if report.Removed, err = w.removeSealed(ctx, now); err != nil {
		return report, fmt.Errorf("seal: %w", err)
	}
	return report, nil
}

// SealFull is SealLoose for a writer that nobody looks after all the time: while there is a seal among the last 256 records it
// only makes packs anew.
func (w *Writer) SealFull(ctx context.Context, now time.Time) (SealReport, error) {
	c := w.c
	anew, err := w.repack(ctx, now)
	if err != nil {
		return SealReport{Anew: anew}, fmt.Errorf("seal: %w", err)
	}
	at := chain{w.id, c.authority().Epoch(w.id)}
	last, err := readTip(ctx, c.db, at)
	if err != nil || last.seq < sealCount {
		return SealReport{Anew: anew}, err
	}
	var n int
	recent, err := one(ctx, c.db, []any{&n}, `SELECT 1 FROM records WHERE writer = ? AND epoch = ? AND seq > ? AND type = 'seal' LIMIT 1`,
		string(at.writer), at.epoch, int64(last.seq-sealCount))
	if err != nil || recent {
		return SealReport{Anew: anew}, err
	}
	report, err := w.SealLoose(ctx, now)
	report.Anew += anew
	return report, err
}

// pack writes the next pack into the folder and reads it back. It is nil when none is due.
func (w *Writer) pack(ctx context.Context, now time.Time) (*pack, error) {
	c := w.c
	if err := c.lock.acquire(ctx); err != nil {
		return nil, err
	}
	defer c.lock.release()
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
	seals, err := c.sealsOf(ctx, w.id)
	if err != nil {
		return nil, err
	}
	at, from := chain{w.id, tx.epoch}, seals.upTo[tx.epoch]+1
	due, err := c.sealDue(ctx, at, numbers{from, tx.tip.seq}, now)
	if err != nil || !due {
		return nil, err
	}
	p, err := c.packRange(ctx, at, numbers{from, tx.tip.seq})
	if err != nil {
		return nil, err
	}
	c.at("packed")
	err = c.putPack(w.id, p, "pack")
	c.at("verified")
	return p, err
}

// putPack writes a pack of this writer into the folder and reads it back. Its name says what is in it: whatever else is there
// is a damaged copy. The step is that in which it is written and not yet read.
func (c *Channel) putPack(id ferry.WriterID, p *pack, step string) error {
	root, err := atomicfile.OpenRoot(c.cfg.Folder)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(packsPath(id), folderMode); err != nil {
		return err
	}
	if err := root.Write(p.name(id), p.bytes, fileMode); err != nil {
		return err
	}
	c.at(step)
	return samePack(root, p.name(id), p.bytes)
}

// sealDue reports whether a range of loose records is to be packed. A seal alone is not.
func (c *Channel) sealDue(ctx context.Context, w chain, r numbers, now time.Time) (bool, error) {
	if r.to < r.from+1 {
		return false, nil
	}
	if r.to-r.from+1 >= sealCount {
		return true, nil
	}
	at, err := places(ctx, c.db, `SELECT `+placeColumns+` FROM records WHERE writer = ? AND epoch = ? AND seq = ? LIMIT 1`,
		string(w.writer), w.epoch, int64(r.from))
	if err != nil || len(at) == 0 {
		return false, err
	}
	oldest, err := c.load(at[0])
	return err == nil && now.Sub(oldest.head.Time) > sealAge, err
}

// samePack reads a pack from the folder and compares it with what the store gives.
func samePack(root *atomicfile.Root, name string, want []byte) error {
	have, _, err := root.ReadFile(name, maxPackBytes)
	if err != nil {
		return err
	}
	if !bytes.Equal(have, want) {
		return fmt.Errorf("the pack %s is not as it was written", name)
	}
	return nil
}

// removeSealed removes the loose files of the seals that everybody has.
func (w *Writer) removeSealed(ctx context.Context, now time.Time) (int, error) {
	c := w.c
	if err := c.lock.acquire(ctx); err != nil {
		return 0, err
	}
	defer c.lock.release()
	seals, err := c.sealsOf(ctx, w.id)
	if err != nil || len(seals.list) == 0 {
		return 0, err
	}
	root, err := atomicfile.OpenRoot(c.cfg.Folder)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	entries, _, err := root.ReadDir(recordsPath(w.id), maxNames)
	if err != nil {
		return 0, err
	}
	begins, err := c.begins(ctx, w.id)
	if err != nil {
		return 0, err
	}
	removed := 0
	for _, seal := range seals.list {
		var loose []string
		for _, e := range entries {
			epoch, seq, _, err := sign.ParseName(e.Name())
			if err == nil && e.Name() != begins && int64(epoch) == seal.Epoch && seq >= uint64(seal.From) && seq <= uint64(seal.To) {
				loose = append(loose, e.Name())
			}
		}
		if len(loose) == 0 || removed+len(loose) > maxRemoved+maxPackRecords {
			continue
		}
		known, err := c.sealKnown(ctx, w.id, seal, now)
		if err != nil {
			return removed, err
		}
		if !known {
			continue
		}
		n, err := c.removeLoose(ctx, root, w.id, seal.Seal, loose)
		if removed += n; err != nil || removed >= maxRemoved {
			return removed, err
		}
	}
	return removed, nil
}

// begins gives the name of the root record that begins a master's chain, or "". Its file stays beside the pack that has it: a
// machine that does not know the channel yet finds it by that file.
func (c *Channel) begins(ctx context.Context, w ferry.WriterID) (string, error) {
	found, err := ids(ctx, c.db, `SELECT id FROM records WHERE writer = ? AND epoch = 1 AND seq = 1 AND type = 'root' AND main = 1`, string(w))
	if err != nil || len(found) == 0 {
		return "", err
	}
	return recordName(1, 1, found[0]), nil
}

// removeLoose removes the files of a seal whose pack is in the folder, byte for byte as the store gives it.
func (c *Channel) removeLoose(ctx context.Context, root *atomicfile.Root, w ferry.WriterID, seal ferry.Seal, loose []string) (int, error) {
	file, err := c.rebuild(ctx, w, seal)
	if err != nil {
		return 0, err
	}
	if err := samePack(root, path.Join(packsPath(w), sealedName(seal)), file); err != nil {
		return 0, nil // the next pass writes it again; until then the loose files stay
	}
	records, err := parsePackFile(file)
	if err != nil {
		return 0, err
	}
	packed := map[string]bool{}
	for _, data := range records {
		u, err := formOf(data)
		if err != nil {
			return 0, err
		}
		packed[u.Name()] = true
	}
	n := 0
	for _, name := range loose {
		if !packed[name] {
			continue // another branch: evidence of a fork
		}
		if err := root.Remove(path.Join(recordsPath(w), name)); err != nil {
			return n, err
		}
		c.at("removed")
		n++
	}
	return n, nil
}

// sealKnown reports whether every member that is not silent has the seal, or has had time enough.
func (c *Channel) sealKnown(ctx context.Context, w ferry.WriterID, seal sealedRange, now time.Time) (bool, error) {
	silence := c.cfg.Limits.filled().Silence
	if now.Sub(seal.rec.Time) > silence {
		return true, nil
	}
	heard, err := c.heard(ctx)
	if err != nil {
		return false, err
	}
	members := c.authority().Members()
	on := c.sealOn(members, w, seal)
	for _, m := range members {
		mine := m.Writer == w
		if !mine {
			var n int
			if mine, err = one(ctx, c.db, []any{&n}, `SELECT 1 FROM own WHERE writer = ? LIMIT 1`, string(m.Writer)); err != nil {
				return false, err
			}
		}
		if at, ok := heard[m.Writer]; mine || ok && now.Sub(at) > silence {
			continue
		}
		if !on[m.Writer] {
			return false, nil
		}
	}
	return true, nil
}

// sealOn gives the members on whose machines a seal is. The writers of a machine share its store, and a person has no beat
// of its own: that of a worker beside it stands for it. Whoever names a wrong machine only has to read the pack.
func (c *Channel) sealOn(members []ferry.Member, w ferry.WriterID, seal sealedRange) map[ferry.WriterID]bool {
	beats := c.Beats()
	out, machines := map[ferry.WriterID]bool{}, map[string]bool{}
	for _, m := range members {
		if b, ok := beats[m.Writer]; ok && sawSeal(b, w, seal) {
			out[m.Writer], machines[m.Machine] = true, true
		}
	}
	for _, m := range members {
		if _, ok := beats[m.Writer]; !ok && m.Machine != "" && machines[m.Machine] {
			out[m.Writer] = true
		}
	}
	return out
}

func sawSeal(b ferry.Beat, w ferry.WriterID, seal sealedRange) bool {
	for _, h := range b.Saw {
		if h.Writer == w && (h.Epoch > seal.rec.Epoch || h.Epoch == seal.rec.Epoch && h.Seq >= seal.seq) {
			return true
		}
	}
	return false
}

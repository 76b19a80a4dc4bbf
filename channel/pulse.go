package channel

import (
	"context"
	"fmt"

	"github.com/ferry-fleet/ferry"
)

// maxSaw bounds the heads of a beat.
const maxSaw = 40

// Pulse begins a beat: with the writer's own head, and with what this machine has of the other members.
func (w *Writer) Pulse(ctx context.Context) (ferry.Beat, error) {
	roster := w.c.authority()
	b := ferry.Beat{Epoch: roster.Epoch(w.id)}
	own, err := readTip(ctx, w.c.db, chain{w.id, b.Epoch})
	if err != nil {
		return b, fmt.Errorf("beat: %w", err)
	}
	b.Seq, b.ID = own.seq, own.id
	for _, m := range roster.Members() {
		if m.Writer == w.id || len(b.Saw) == maxSaw {
			continue
		}
		epoch := roster.Epoch(m.Writer)
		t, err := readTip(ctx, w.c.db, chain{m.Writer, epoch})
		if err != nil {
			return b, fmt.Errorf("beat: %w", err)
		}
		if t.seq > 0 {
			b.Saw = append(b.Saw, ferry.Head{Writer: m.Writer, Epoch: epoch, Seq: t.seq, ID32: t.id.String()[:32]})
		}
	}
	return b, nil
}

// PutBeat replaces the beat of this writer.
func (w *Writer) PutBeat(b ferry.Beat) error { return w.c.PutBeat(w.key, b) }

// Beats gives the highest beat that is known here of each member.
func (w *Writer) Beats() map[ferry.WriterID]ferry.Beat { return w.c.Beats() }

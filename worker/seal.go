package worker

import (
	"context"
	"time"
)

// sealEvery is how often a worker packs its records where its configuration does not say; after a failure it tries again
// after sealAgain.
const (
	sealEvery = time.Hour
	sealAgain = time.Minute
)

// sealing is when the worker packs its records the next time, and why it could not the last time.
type sealing struct {
	due time.Duration // Clock.Mono
	why string
}

// seal packs the records of this worker that lie in single files, when it is time. What is in the way stops nothing: the
// records count as they are.
func (w *Worker) seal(ctx context.Context, now time.Time) {
	every := w.cfg.Seal
	if every <= 0 {
		every = sealEvery
	}
	c := w.clock()
	if c.Mono < w.sealing.due {
		return
	}
	w.sealing = sealing{due: c.Mono + every}
	r, err := w.cfg.Writer.SealLoose(ctx, now)
	if err != nil && ctx.Err() == nil {
		w.log.Error("pack the records of this worker", "err", err)
		w.sealing = sealing{due: c.Mono + min(every, sealAgain), why: "its records cannot be packed, it is tried again: " + err.Error()}
	}
	if r.Pack != "" || r.Removed > 0 {
		w.log.Info("packed the records of this worker", "pack", r.Pack, "records", r.Records, "removed", r.Removed)
	}
}

// holds words for the status why nothing is packed.
func (s *sealing) holds() []HoldStatus {
	if s.why == "" {
		return nil
	}
	return []HoldStatus{{Reason: s.why}}
}

package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
)

// reach is whether what this worker writes gets into the folder.
type reach struct {
	others bool          // the channel has members beside this one
	why    string        // why nothing may begin, as of the last look; "" when it may
	warned time.Duration // Clock.Mono of the last warning
	shut   bool          // the key of this worker writes no more
	beat   string        // why the beat could not be written the last time
	beaten time.Duration // Clock.Mono of the last warning about it
}

// warnAgain is how often a warning is repeated while its cause lasts.
const warnAgain = time.Minute

// shutOut is why a worker whose key was taken back begins nothing.
const shutOut = "the master has taken this worker's key back; `ferry channel members` says why, `ferry channel rejoin %s` asks for another key"

// unreached words why nothing may begin while the folder does not take what this worker writes.
func (w *Worker) unreached(cause string) string {
	return fmt.Sprintf("the folder %s cannot be written: %s; nothing is begun until it can", w.cfg.Channel.Folder(), cause)
}

// cutOff gives the reason why nothing may begin because records of this worker, or its beat, are not in the folder, or "":
// nobody else could know of what it begins, and would begin the same.
func (w *Worker) cutOff(ctx context.Context, c Clock, members []ferry.Member) (string, error) {
	w.reach.others = len(members) > 1
	why, err := w.cfg.Writer.Unpublished(ctx)
	if err != nil {
		return "", err
	}
	if _, fleet := w.fleet.mute(c); why == "" && fleet {
		why = w.reach.beat
	}
	if why != "" {
		why = w.unreached(why)
	}
	r := &w.reach
	if r.shut || !slices.ContainsFunc(members, func(m ferry.Member) bool { return m.Writer == w.cfg.Writer.ID() }) {
		why = fmt.Sprintf(shutOut, w.cfg.Agent)
	}
	if why != "" && (r.why == "" || c.Mono-r.warned >= warnAgain) {
		r.warned = c.Mono
		w.log.Warn("nothing is begun", "reason", why)
	}
	r.why = why
	return why, nil
}

// sooner is when the next pass is due, which looks early whether the folder takes something again.
func (w *Worker) sooner(next time.Duration) time.Duration {
	again := w.retryBeat()
	if w.reach.why == "" || next > 0 && next < again {
		return next
	}
	return again
}

// unbeaten notes whether the beat could be written, and warns of it when that changes and from time to time.
func (w *Worker) unbeaten(c Clock, err error) {
	r := &w.reach
	r.shut = errors.Is(err, channel.ErrNotMember)
	if err == nil || r.shut {
		r.beat = ""
		return
	}
	if r.beat == "" || c.Mono-r.beaten >= warnAgain {
		r.beaten = c.Mono
		w.log.Warn("the beat cannot be written; others may take this worker for gone", "err", err)
	}
	r.beat = "the beat of this worker: " + channel.Cause(err)
}

// holds words for the status that others cannot hear this worker.
func (r *reach) holds() []HoldStatus {
	if r.beat == "" {
		return nil
	}
	return []HoldStatus{{Reason: "cannot be written, others may take this worker for gone: " + r.beat}}
}

// hidden gives the error of a claim or a start that is not in the folder, nil for any other error.
func (w *Worker) hidden(err error) error {
	if !errors.Is(err, channel.ErrUnpublished) || !w.reach.others {
		return nil
	}
	w.wakeIn(minPulse)
	cause := channel.Cause(err)
	if no := syscall.Errno(0); errors.As(err, &no) {
		cause = no.Error()
	}
	return errors.New(w.unreached(cause))
}

// unstart closes a start that is not in the folder: the others cannot know of it.
func (w *Worker) unstart(ctx context.Context, now time.Time, stop ferry.Stop) error {
	stop.Reason = ferry.StopReleased
	return w.write(ctx, now, func(tx *channel.Tx) error {
		_, err := tx.Add(&stop)
		return err
	})
}

package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Clocks are how long an answer may make no sound: until its first byte, and from
// one read to the next. A clock that is 0 takes 60 and 90 seconds.
type Clocks struct {
	First time.Duration
	Idle  time.Duration
}

const (
	firstClock = 60 * time.Second
	idleClock  = 90 * time.Second
)

// limits are what one body may cost. total is 0 where there is no limit.
type limits struct {
	bytes       int64
	idle, total time.Duration
}

// The limits of the kinds of bodies beside streams, whose clock is that of the
// client.
func plainLimits() limits  { return limits{32 << 20, 30 * time.Second, 120 * time.Second} }
func statusLimits() limits { return limits{256 << 10, 10 * time.Second, 30 * time.Second} }
func listLimits() limits   { return limits{8 << 20, 10 * time.Second, 20 * time.Second} }

// clockError is the cause of a request that a clock has ended.
type clockError struct {
	what string
	wait time.Duration
}

func (e *clockError) Error() string { return fmt.Sprintf("%s within %s", e.what, e.wait) }

// watch ends a request when its clock runs out.
type watch struct {
	end   context.CancelCauseFunc
	timer *time.Timer // until the next sign of life
	total *time.Timer
}

// newWatch returns a context for a request whose first byte is due within first.
func newWatch(ctx context.Context, first time.Duration) (context.Context, *watch) {
	ctx, end := context.WithCancelCause(ctx)
	w := &watch{end: end}
	w.timer = time.AfterFunc(first, func() { end(&clockError{"no answer began", first}) })
	return ctx, w
}

// body puts the body of an answer under limits.
func (w *watch) body(r io.Reader, l limits) io.Reader {
	w.timer.Stop()
	w.timer = time.AfterFunc(l.idle, func() { w.end(&clockError{"the answer made no sound", l.idle}) })
	if l.total > 0 {
		w.total = time.AfterFunc(l.total, func() { w.end(&clockError{"the answer was not complete", l.total}) })
	}
	return &watched{r: r, w: w, idle: l.idle, left: l.bytes}
}

// stop ends the request, if it has not ended, and its clocks.
func (w *watch) stop() {
	w.timer.Stop()
	if w.total != nil {
		w.total.Stop()
	}
	w.end(nil)
}

// watched is a body whose every read resets the clock and counts. The time that
// passes between two reads is the caller's and stands under no clock.
type watched struct {
	r    io.Reader
	w    *watch
	idle time.Duration
	left int64
}

func (b *watched) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, fmt.Errorf("%w: it is too large", errBound)
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1] // one more than may come tells that more would
	}
	b.w.timer.Reset(b.idle)
	n, err := b.r.Read(p)
	b.w.timer.Stop()
	if b.left -= int64(n); b.left < 0 {
		return n, fmt.Errorf("%w: it is too large", errBound)
	}
	return n, err
}

// failure makes the error of a request that did not come to its end. ctx is that
// of the request, parent that of the caller.
func failure(parent, ctx context.Context, err error) *Error {
	var clock *clockError
	switch {
	case parent.Err() != nil:
		return &Error{Class: Aborted, Message: "ended by the caller", Err: context.Cause(parent)}
	case errors.As(context.Cause(ctx), &clock):
		return &Error{Class: Silent, Message: clock.Error(), Err: clock}
	case errors.Is(err, errBound):
		return &Error{Class: Malformed, Message: err.Error(), Err: err}
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return &Error{Class: Incomplete, Message: "the connection closed before the answer was complete", Err: err}
	}
	return &Error{Class: Incomplete, Message: "the answer broke off: " + plain(err), Err: err}
}

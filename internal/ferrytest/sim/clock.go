package sim

import "time"

// clocks are the three clocks of one machine. Their rate is wrong by drift; only boottime counts what the machine sleeps,
// and only the wall clock survives a boot, with an error of its own.
type clocks struct {
	booted  instant
	asleep  time.Duration // since booted, sleeps that are over
	since   instant       // of the present sleep
	sleeps  bool
	drift   int64         // parts per million
	wallOff time.Duration // skew and steps; no other clock knows of it
}

func (c *clocks) rate(d time.Duration) time.Duration { return d + d/1_000_000*time.Duration(c.drift) }

// mono is the monotonic clock of Go programs on Linux: it stands still during sleep.
func (c *clocks) mono(now instant) time.Duration {
	if c.sleeps {
		now = c.since
	}
	return c.rate(now - c.booted - c.asleep)
}

// boottime goes on during sleep.
func (c *clocks) boottime(now instant) time.Duration { return c.rate(now - c.booted) }

// wall is what the machine believes the date to be.
func (c *clocks) wall(now instant) time.Time { return dayZero().Add(c.rate(now) + c.wallOff) }

// dayZero is the date at which every world begins.
func dayZero() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

func (c *clocks) boot(now instant) { c.booted, c.asleep, c.sleeps = now, 0, false }

func (c *clocks) sleep(now instant) { c.sleeps, c.since = true, now }

func (c *clocks) wake(now instant) {
	c.asleep += now - c.since
	c.sleeps = false
}

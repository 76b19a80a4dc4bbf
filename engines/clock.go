package engines

import "time"

// clocks are the two clocks of a run. Both stand still while it is frozen.
type clocks struct {
	wall, stall  time.Duration // 0 = no limit
	spent, quiet time.Duration
	at           time.Time // until when both are counted
	frozen       bool
}

func newClocks(wall, stall time.Duration, now time.Time) clocks {
	return clocks{wall: wall, stall: stall, at: now}
}

func (c *clocks) advance(now time.Time) {
	if !c.frozen && now.After(c.at) {
		c.spent += now.Sub(c.at)
		c.quiet += now.Sub(c.at)
	}
	c.at = now
}

// moved notes a sign of life.
func (c *clocks) moved(now time.Time) {
	c.advance(now)
	c.quiet = 0
}

func (c *clocks) freeze(now time.Time, frozen bool) {
	c.advance(now)
	c.frozen = frozen
}

// next says when to look again, and which clock has run out, if one has.
func (c *clocks) next(now time.Time) (wait time.Duration, over Ended) {
	c.advance(now)
	const idle = time.Hour
	wait = idle
	for _, l := range []struct {
		limit, used time.Duration
		over        Ended
	}{{c.wall, c.spent, EndedTimeout}, {c.stall, c.quiet, EndedStalled}} {
		if l.limit == 0 {
			continue
		}
		if l.used >= l.limit {
			return 0, l.over
		}
		wait = min(wait, l.limit-l.used)
	}
	if c.frozen {
		return idle, ""
	}
	return wait, ""
}

package engines

import "time"

// creditWait is how long an engine without credit is parked when it names no reset.
const creditWait = 6 * time.Hour

// ladder is how long an engine rests after each failure in a row.
var ladder = [...]time.Duration{15 * time.Minute, time.Hour, 4 * time.Hour}

// Cooloff says how long an engine rests after its failures-th failure in a row.
// Out of credit it rests until the stated reset. Another engine that names a time
// never rests shorter than that.
func Cooloff(failures int, f Fault) time.Duration {
	if f.Class == FaultCredit {
		if f.RetryAfter > 0 {
			return f.RetryAfter
		}
		return creditWait
	}
	step := min(max(failures, 1), len(ladder)) - 1
	return max(ladder[step], f.RetryAfter)
}

// Health is what is remembered about an engine on one machine for one agent. The
// zero Health is that of an engine nothing is known against.
type Health struct {
	Failures int       `json:"failures,omitempty"` // in a row
	Until    time.Time `json:"until,omitzero"`
	Class    Class     `json:"class,omitempty"`
	Reason   string    `json:"reason,omitempty"`
}

// Resting reports whether the engine is given no work at now.
func (h Health) Resting(now time.Time) bool { return now.Before(h.Until) }

// Fail returns the health after a fault. A fault that arrives while the engine
// already rests is of a run that was under way: it counts nothing, and can only
// make the rest longer.
func (h Health) Fail(now time.Time, f Fault) Health {
	out := h
	if !h.Resting(now) {
		out.Failures++
		out.Until = time.Time{}
	}
	if until := now.Add(Cooloff(out.Failures, f)); until.After(out.Until) {
		if !h.Resting(now) || f.Class == FaultCredit {
			out.Until, out.Class, out.Reason = until, f.Class, f.Reason
		}
	}
	return out
}

// Lift returns the health of an engine whose rest somebody ends at now: it is
// probed at once, and its failures still count.
func (h Health) Lift(now time.Time) Health {
	if h.Resting(now) {
		h.Until = now
	}
	return h
}

// Worked returns the health after a run that worked.
func (h Health) Worked() Health { return Health{} }

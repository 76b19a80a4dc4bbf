package worker

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
)

// Clock is one reading of this machine's own clocks, both taken in the same moment. No other clock has a part in the claim
// protocol.
type Clock struct {
	Mono time.Duration // stands still while the machine is suspended
	Boot time.Duration // goes on
}

// Timing holds the windows of the claim protocol. What is zero follows from Beat, and Beat from its default of 15 s.
type Timing struct {
	Beat      time.Duration // how often a worker that runs something says so; one that does not, every fourth time
	Quiet     time.Duration // who heard nobody for so long doubts itself before it takes others for gone: 6 beats
	Lapse     time.Duration // least silence after which a holder has lapsed: 8 beats
	Settle    time.Duration // settle window until a round trip was measured: 1 beat
	MinSettle time.Duration // a 50th of a beat
	MaxSettle time.Duration // 8 beats
	Check     time.Duration // what an attempt is given for each check of its order, and twice for all else beside the engine: 40 beats
	MinClaim  time.Duration // least time that a claim counts without a start: a third of a beat
	Prefer    time.Duration // least first right of a worker to the revision of its own work: 2 s
}

func (t Timing) filled() Timing {
	t.Beat = cmp.Or(t.Beat, 15*time.Second)
	t.Quiet = cmp.Or(t.Quiet, 6*t.Beat)
	t.Lapse = cmp.Or(t.Lapse, 8*t.Beat)
	t.Settle = cmp.Or(t.Settle, t.Beat)
	t.MinSettle = cmp.Or(t.MinSettle, t.Beat/50)
	t.MaxSettle = cmp.Or(t.MaxSettle, 8*t.Beat)
	t.Check = cmp.Or(t.Check, 40*t.Beat)
	t.MinClaim = cmp.Or(t.MinClaim, t.Beat/3)
	t.Prefer = cmp.Or(t.Prefer, 2*time.Second)
	return t
}

// fresh is how long a beat shows that its writer is there: longer than two beats of an idle worker are apart.
func (t Timing) fresh() time.Duration { return 10 * t.Beat }

// FleetSpec describes the fleet as one worker sees it.
type FleetSpec struct {
	Channel ferry.RecordID
	Me      ferry.WriterID
	Boot    int64 // of this worker's beats
	Timing  Timing
}

// Sight is what one look at the channel shows.
type Sight struct {
	Tasks   []ferry.Task // the active ones
	Beats   map[ferry.WriterID]ferry.Beat
	Workers []ferry.WriterID        // members that may take orders
	Local   map[ferry.WriterID]bool // those of them that write into the same store as we do: the lock of the store keeps us apart
}

// Fleet is the memory of the claim protocol: when this worker heard whom, how long the way to the others is, what it claimed
// itself. It reads no clock and no file; every method that needs a time is given one. Look is to be called before each Plan.
type Fleet struct {
	spec FleetSpec
	t    Timing

	last    Clock
	woke    Clock // when the worker began, or its machine woke up
	looked  bool
	sight   Sight
	members map[ferry.WriterID]*member
	alive   map[ferry.RecordID]time.Duration // live starts of others: when their writer last named them
	ran     map[ferry.RecordID]time.Duration // the same: for how long they were seen to run
	retired map[ferry.RecordID]bool          // the same: this worker has retired them
	open    map[ferry.RecordID]opening
	seen    map[claimKey]time.Duration // claims of others: when the first of the attempt came in
	weak    map[claimKey]bool          // claims beyond what their writer can start
	own     map[ferry.RecordID]ownClaim
	sent    []sentBeat
	counter int64
	greets  bool          // a writer has begun that we have not answered yet
	failing bool          // the own beat could not be written
	since   time.Duration // for the first time in a row
	settle  time.Duration
	delay   time.Duration // the largest round trip that was measured
}

// member is what is known of another writer.
type member struct {
	beat  ferry.Beat
	beats bool            // a beat has come in
	at    time.Duration   // when it did
	known bool            // anything has come in
	heard time.Duration   // when it did
	trips []time.Duration // the last round trips
}

// maxTrips is how many round trips of a member are looked at, maxSent how many own beats an answer can be about.
const (
	maxTrips = 8
	maxSent  = 64
)

// opening is an attempt that this worker may take: open, claimed, or held by somebody who has lapsed.
type opening struct {
	attempt int64
	live    ferry.RecordID // the start that has lapsed
	at      time.Duration
}

// claimKey is the claim of one writer to one attempt, however often it is repeated: repeating it wins no time.
type claimKey struct {
	order   ferry.RecordID
	attempt int64
	writer  ferry.WriterID
}

// ownClaim is a claim of this worker that waits to settle.
type ownClaim struct {
	at     time.Duration // by Clock.Boot: a window that the machine slept through has not been watched
	settle time.Duration
}

type sentBeat struct {
	counter int64
	at      time.Duration
}

// NewFleet makes the memory of a worker that has just begun.
func NewFleet(spec FleetSpec) *Fleet {
	return &Fleet{
		spec: spec, t: spec.Timing.filled(), members: map[ferry.WriterID]*member{}, alive: map[ferry.RecordID]time.Duration{},
		open: map[ferry.RecordID]opening{}, seen: map[claimKey]time.Duration{}, weak: map[claimKey]bool{},
		own: map[ferry.RecordID]ownClaim{}, ran: map[ferry.RecordID]time.Duration{}, retired: map[ferry.RecordID]bool{},
	}
}

// Look takes in what a look at the channel has shown. It notices by the clocks that the machine was suspended, or that this
// process stood still: what it knew of the others is old then.
func (f *Fleet) Look(c Clock, s Sight) {
	slept := (c.Boot - f.last.Boot) - (c.Mono - f.last.Mono)
	if !f.looked || slept > time.Second || c.Mono-f.last.Mono > 4*f.t.Beat {
		f.woke = c
	}
	passed := c.Mono - f.last.Mono
	if f.woke == c {
		passed = 0
	}
	f.last, f.looked, f.sight = c, true, s
	f.watch(passed)
	f.hear(c)
	f.measure(c)
	f.claims(c)
	f.starts(c)
	f.openings(c)
}

// hear takes in the beats, with the round trips that their echoes tell.
func (f *Fleet) hear(c Clock) {
	for w, b := range f.sight.Beats {
		if w == f.spec.Me {
			continue
		}
		m := f.member(w)
		if m.beats && !b.After(&m.beat) {
			continue
		}
		f.greets = f.greets || !m.beats || m.beat.Boot != b.Boot
		m.beat, m.beats, m.at = b, true, c.Mono
		m.hear(c)
		for _, e := range b.Echo {
			f.trip(c, m, e)
		}
	}
}

func (f *Fleet) member(w ferry.WriterID) *member {
	m := f.members[w]
	if m == nil {
		m = &member{}
		f.members[w] = m
	}
	return m
}

func (m *member) hear(c Clock) { m.known, m.heard = true, c.Mono }

// trip takes the round trip of an own beat from its answer. What was sent before a sleep says nothing.
func (f *Fleet) trip(c Clock, m *member, e ferry.Echo) {
	if e.Writer != f.spec.Me || e.Boot != f.spec.Boot || e.Held < 0 {
		return
	}
	for _, s := range f.sent {
		if s.counter != e.Beat || s.at < f.woke.Mono {
			continue
		}
		took := max(c.Mono-s.at-time.Duration(e.Held)*time.Millisecond, 0)
		m.trips = append(m.trips, took)
		m.trips = m.trips[max(len(m.trips)-maxTrips, 0):]
		f.delay = max(f.delay, min(took, f.t.MaxSettle))
	}
}

// measure finds the settle window: one and a half times the longest way to a worker that is there. While that is not known it
// is guessed; with nobody there to be heard it is the least, because no window helps against who cannot be heard.
func (f *Fleet) measure(c Clock) {
	alone, measured, unknown, longest := true, false, false, time.Duration(0)
	for _, w := range f.sight.Workers {
		if w == f.spec.Me || f.sight.Local[w] {
			continue
		}
		alone = false
		if !f.present(c, w) {
			continue
		}
		trips := f.members[w].trips
		measured, unknown = measured || len(trips) > 0, unknown || len(trips) == 0
		for _, t := range trips {
			longest = max(longest, t)
		}
	}
	waits := !measured && (f.heardAny(c, "") || c.Mono-f.woke.Mono <= f.t.Quiet)
	f.settle = min(max(longest*3/2, f.t.MinSettle), f.t.MaxSettle)
	switch {
	case alone:
		f.settle = 0
	case unknown || waits:
		f.settle = max(f.settle, f.t.Settle)
	}
}

// present reports whether a beat of a writer is fresh.
func (f *Fleet) present(c Clock, w ferry.WriterID) bool {
	m := f.members[w]
	return m != nil && m.beats && c.Mono-m.at <= f.t.fresh()
}

// heardAny reports whether anything of another machine but that of a writer came in a short while ago.
func (f *Fleet) heardAny(c Clock, but ferry.WriterID) bool {
	for w, m := range f.members {
		if w != but && !f.sight.Local[w] && m.known && c.Mono-m.heard <= f.t.Quiet {
			return true
		}
	}
	return false
}

// claims notes when each claim of another came in, and which of them their writers cannot mean.
func (f *Fleet) claims(c Clock) {
	seen, own := map[claimKey]time.Duration{}, map[ferry.RecordID]ownClaim{}
	by := map[ferry.WriterID][]claimKey{}
	for i := range f.sight.Tasks {
		t := &f.sight.Tasks[i]
		for _, cl := range t.Claims {
			if o, ok := f.own[cl.ID]; ok {
				own[cl.ID] = o
			}
			if cl.Writer == f.spec.Me {
				continue
			}
			k := claimKey{t.ID, t.Next.Attempt, cl.Writer}
			at, known := f.seen[k]
			if !known {
				at = c.Mono
				f.member(cl.Writer).hear(c)
			}
			seen[k] = at
			if c.Mono-at < f.TTL() {
				by[cl.Writer] = append(by[cl.Writer], k)
			}
		}
	}
	f.seen, f.own, f.weak = seen, own, map[claimKey]bool{}
	for w, keys := range by {
		slices.SortFunc(keys, func(a, b claimKey) int {
			return cmp.Or(cmp.Compare(seen[a], seen[b]), bytes.Compare(a.order[:], b.order[:]))
		})
		for _, k := range keys[min(f.inFlight(w), len(keys)):] {
			f.weak[k] = true
		}
	}
}

// maxInFlight is the most claims of one writer that are waited for at a time.
const maxInFlight = 8

// inFlight is how many claims of a writer are waited for: as many as it has free slots.
func (f *Fleet) inFlight(w ferry.WriterID) int {
	slots := int64(1)
	if m := f.members[w]; m != nil {
		slots = m.beat.Slots
	}
	return int(min(max(slots, 1), maxInFlight))
}

// starts notes when the holders of live starts last said that they run them.
func (f *Fleet) starts(c Clock) {
	alive := map[ferry.RecordID]time.Duration{}
	for i := range f.sight.Tasks {
		t := &f.sight.Tasks[i]
		if t.Live.IsZero() || t.Holder == f.spec.Me {
			continue
		}
		at, known := f.alive[t.Live]
		if !known {
			at = c.Mono
			f.member(t.Holder).hear(c)
		}
		if m := f.members[t.Holder]; m != nil && slices.Contains(m.beat.Running, t.Live) {
			at = max(at, m.at)
		}
		alive[t.Live] = at
	}
	f.alive = alive
}

// openings notes since when each attempt may be taken here.
func (f *Fleet) openings(c Clock) {
	open := map[ferry.RecordID]opening{}
	for i := range f.sight.Tasks {
		t := &f.sight.Tasks[i]
		o := opening{attempt: t.Next.Attempt, at: c.Mono}
		switch {
		case t.Next.Claimable, t.Next.Takeover && t.State == ferry.StateClaimed:
		case t.Next.Takeover && t.Holder != f.spec.Me && f.lapse(c, t) <= 0:
			o.live = t.Live
		default:
			continue
		}
		if old, ok := f.open[t.ID]; ok && old.attempt == o.attempt && old.live == o.live {
			o = old
		}
		open[t.ID] = o
	}
	f.open = open
}

// silence is for how long nothing was heard of the holder of a live start, as far as this worker can tell: what it did not
// watch itself does not count.
func (f *Fleet) silence(c Clock, t *ferry.Task) time.Duration {
	return c.Mono - max(f.alive[t.Live], f.woke.Mono)
}

// lapse is how much more silence it takes until the holder of a live start counts as gone; 0 or less when it does. Who
// hears nobody at all may be the one that is cut off, and waits four times as long.
func (f *Fleet) lapse(c Clock, t *ferry.Task) time.Duration {
	after := f.Silence()
	if !f.sight.Local[t.Holder] && !f.heardAny(c, t.Holder) {
		after *= 4
	}
	return after - f.silence(c, t)
}

// Settle is the settle window: how long a claim waits for others.
func (f *Fleet) Settle() time.Duration { return f.settle }

// TTL is how long a claim counts without a start.
func (f *Fleet) TTL() time.Duration { return max(6*f.settle, f.t.MinClaim) }

// Silence is the silence after which a holder has lapsed.
func (f *Fleet) Silence() time.Duration { return max(f.t.Lapse, 4*f.t.Beat+4*f.settle) }

// Grace is for how long after its start, or after a sleep, this worker publishes no claim, start or result: what happened
// meanwhile may still be on its way. 0 when it may.
func (f *Fleet) Grace(c Clock) time.Duration {
	if f.settle == 0 {
		return 0
	}
	return max(f.woke.Boot+2*f.settle+f.delay-c.Boot, 0)
}

// Claimed notes an own claim, right after it was published.
func (f *Fleet) Claimed(c Clock, claim ferry.RecordID) {
	f.own[claim] = ownClaim{at: c.Boot, settle: f.settle}
}

// before counts the workers that are there, are free, and have a smaller rank for the attempt than this one.
func (f *Fleet) before(c Clock, t *ferry.Task) (n int) {
	mine := f.rank(t, f.spec.Me)
	for _, w := range f.sight.Workers {
		if w == f.spec.Me || !f.present(c, w) {
			continue
		}
		if b := f.members[w].beat; b.Paused || b.Slots < 1 {
			continue
		}
		if other := f.rank(t, w); bytes.Compare(other[:], mine[:]) < 0 {
			n++
		}
	}
	return n
}

// rank orders the writers for the next attempt of an order, the smaller first: as the claims of a task are ordered.
func (f *Fleet) rank(t *ferry.Task, w ferry.WriterID) (out [33]byte) {
	if slices.Contains(t.Next.Behind, w) {
		out[0] = 1
	}
	hash := ferry.Rank(f.spec.Channel, t.ID, t.Next.Attempt, w)
	copy(out[1:], hash[:])
	return out
}

// counts is for how long a claim of another is waited for, 0 or less when it is not.
func (f *Fleet) counts(c Clock, t *ferry.Task, w ferry.WriterID) time.Duration {
	k := claimKey{t.ID, t.Next.Attempt, w}
	at, ok := f.seen[k]
	if !ok || f.weak[k] {
		return 0
	}
	return f.TTL() - (c.Mono - at)
}

// mine gives the own live claim of the next attempt.
func (f *Fleet) mine(t *ferry.Task) (id ferry.RecordID, o ownClaim, ok bool) {
	for _, cl := range t.Claims {
		if cl.Writer == f.spec.Me {
			o, ok = f.own[cl.ID]
			return cl.ID, o, ok
		}
	}
	return ferry.RecordID{}, ownClaim{}, false
}

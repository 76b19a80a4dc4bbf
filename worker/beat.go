package worker

import (
	"cmp"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
)

// Beat completes a beat of this worker: its number, and the answers to the beats of the others.
func (f *Fleet) Beat(c Clock, b ferry.Beat) ferry.Beat {
	f.counter++
	b.Boot, b.Counter, b.Echo = f.spec.Boot, f.counter, f.echoes(c)
	return b
}

// maxEchoes bounds the answers of a beat: those to the members that were heard last.
const maxEchoes = 16

// Greets reports whether a writer has begun that no own beat has answered yet: it measures the way by the answer.
func (f *Fleet) Greets() bool { return f.greets }

func (f *Fleet) echoes(c Clock) []ferry.Echo {
	var from []ferry.WriterID
	for w := range f.members {
		if f.present(c, w) {
			from = append(from, w)
		}
	}
	slices.SortFunc(from, func(a, b ferry.WriterID) int {
		return cmp.Or(cmp.Compare(f.members[b].at, f.members[a].at), cmp.Compare(a, b))
	})
	var out []ferry.Echo
	for _, w := range from[:min(len(from), maxEchoes)] {
		m := f.members[w]
		out = append(out, ferry.Echo{
			Writer: w, Seq: m.beat.Seq, Boot: m.beat.Boot, Beat: m.beat.Counter, Held: (c.Mono - m.at).Milliseconds(),
		})
	}
	return out
}

// Beaten notes that a beat was written, or that it could not be.
func (f *Fleet) Beaten(c Clock, b ferry.Beat, ok bool) {
	if !ok {
		if !f.failing {
			f.failing, f.since = true, c.Mono
		}
		return
	}
	f.failing, f.greets = false, false
	f.sent = append(f.sent, sentBeat{b.Counter, c.Mono})
	f.sent = f.sent[max(len(f.sent)-maxSent, 0):]
}

// mute is how much longer this worker may run what it runs while its beat cannot be written: half of the silence after which
// others take its orders over. ok is false while the beat can be written, or nobody else could take them.
func (f *Fleet) mute(c Clock) (left time.Duration, ok bool) {
	others := slices.ContainsFunc(f.sight.Workers, func(w ferry.WriterID) bool { return w != f.spec.Me })
	if !f.failing || !others {
		return 0, false
	}
	return f.Silence()/2 - (c.Mono - f.since), true
}

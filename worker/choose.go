package worker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/engines"
)

// Need is what an order asks of an engine.
type Need struct {
	Tier       engines.Tier
	Modalities []string
	ContextK   int64 // thousands of tokens; 0 asks for nothing
}

// NeedOf tells what an order asks of an engine, from what is signed into it. Whatever may be a change of files needs an
// engine that edits them: one that answers in text would be blamed for work that it could never do.
func NeedOf(o *ferry.Order) Need {
	n := Need{Tier: cmp.Or(engines.Tier(o.Tier), engines.TierBuild), Modalities: o.Needs, ContextK: o.MinContextK}
	if len(n.Modalities) > 0 {
		return n
	}
	media := map[string]string{
		"transcribe": engines.ModalityAudioIn, "image": engines.ModalityImage, "video": engines.ModalityVideo, "audio": engines.ModalityAudioOut,
	}
	switch m := media[o.Kind]; {
	case m != "":
		n.Modalities = []string{m}
	case !o.AsksForChange() && slices.Contains([]string{"review", "plan", "research"}, o.Kind):
		n.Modalities = []string{engines.ModalityText}
	default:
		n.Modalities = []string{engines.ModalityCode}
	}
	return n
}

// Stand is one engine with what is known of it.
type Stand struct {
	Engine  engines.Config
	Profile engines.Profile
	Health  engines.Health
	Proof   engines.Proof // of the last probe
	Worked  time.Time     // when a run last worked
	Blocked string        // why a person's word keeps it out; empty where none does
	Spent   string        // why its budget lets nothing run; empty where it does
	Opens   time.Time     // when the budget opens again
}

// Left is an engine that an order does not go to, and why.
type Left struct {
	Engine ferry.EngineName
	Why    string
	Until  time.Time // when that may end by itself; zero where time alone does not help
	Soon   bool      // it is being asked whether it answers
}

// Choice is the engine that an order goes to. Its name is empty where none is left.
type Choice struct {
	Engine engines.Config
	Left   []Left // the others
}

// Router chooses among the engines that may do an order, of which there is at least one, and gives the index of the one
// that is tried. It cannot choose one that was left out.
type Router func(need Need, may []Stand) int

// Search is everything that a choice follows from.
type Search struct {
	Stands []Stand // in order of preference
	Need   Need
	Tried  []ferry.EngineName // they have failed the order in this attempt
	Now    time.Time
	Route  Router // nil prefers the engines in their order
}

// Choose gives the engine that an order goes to, and why each other was left out. It is pure.
func Choose(q Search) Choice {
	var out Choice
	var may []Stand
	need, now := q.Need.within(q.Stands), q.Now
	for _, s := range q.Stands {
		if slices.Contains(q.Tried, s.Engine.Name) {
			out.Left = append(out.Left, Left{Engine: s.Engine.Name, Why: "it has failed this attempt"})
		} else if l, ok := s.leftOut(need, now); ok {
			l.Engine = s.Engine.Name
			out.Left = append(out.Left, l)
		} else {
			may = append(may, s)
		}
	}
	if len(may) == 0 {
		return out
	}
	i := -1
	if q.Route != nil {
		i = q.Route(need, may)
	}
	if i < 0 || i >= len(may) {
		i = preferred(need, may)
	}
	out.Engine = may[i].Engine
	return out
}

// within lets go of what no engine of the agent can do at all where the agent has only engines that answer in text: they
// take what there is, and the evidence says what came of it.
func (n Need) within(stands []Stand) Need {
	edits := slices.ContainsFunc(stands, func(s Stand) bool { return s.Engine.Kind != engines.KindHTTP })
	if !edits && slices.Equal(n.Modalities, []string{engines.ModalityCode}) {
		n.Modalities = []string{engines.ModalityText}
	}
	return n
}

// leftOut says why an engine gets no order with such a need, if it does not.
func (s *Stand) leftOut(need Need, now time.Time) (Left, bool) {
	for _, why := range []func() (Left, bool){
		func() (Left, bool) { return s.unfit(need) },
		func() (Left, bool) { return Left{Why: s.Blocked}, s.Blocked != "" },
		func() (Left, bool) { return s.resting(now) },
		s.unproven,
		func() (Left, bool) { return Left{Why: s.Spent, Until: s.Opens}, s.Spent != "" },
	} {
		if l, ok := why(); ok {
			return l, true
		}
	}
	return Left{}, false
}

// climb gives the place of a tier. Work goes to its own or to a higher one.
func climb(t engines.Tier) int {
	switch t {
	case engines.TierChore:
		return 0
	case engines.TierJudge:
		return 2
	}
	return 1
}

// unfit says what of the order the engine cannot do, whatever its state.
func (s *Stand) unfit(need Need) (Left, bool) {
	if err := s.Engine.Check(); err != nil {
		return Left{Why: err.Error()}, true
	}
	if climb(s.Engine.Tier) < climb(need.Tier) {
		return Left{Why: fmt.Sprintf("engine %s is for %s work, and the order asks for %s", s.Engine.Name, cmp.Or(s.Engine.Tier, engines.TierBuild), need.Tier)}, true
	}
	for _, m := range need.Modalities {
		if !slices.Contains(s.Profile.Modalities, m) {
			return Left{Why: fmt.Sprintf("engine %s does not do %s, which the order needs; it does: %s",
				s.Engine.Name, m, strings.Join(s.Profile.Modalities, ", "))}, true
		}
	}
	if k := s.Profile.ContextK; k > 0 && k < need.ContextK {
		return Left{Why: fmt.Sprintf("engine %s has a context of %dk tokens, and the order asks for %dk", s.Engine.Name, k, need.ContextK)}, true
	}
	return Left{}, false
}

func (s *Stand) resting(now time.Time) (Left, bool) {
	if !s.Health.Resting(now) {
		return Left{}, false
	}
	return Left{Until: s.Health.Until, Why: fmt.Sprintf("engine %s rests until %s: %s: %s; `ferry doctor --fix` lets it try at once",
		s.Engine.Name, s.Health.Until.Local().Format("Jan 2 15:04"), s.Health.Class, s.Health.Reason)}, true
}

// unproven keeps back an engine whose rest is over until it was seen to answer, and one that the last probe found down.
func (s *Stand) unproven() (Left, bool) {
	h, p := s.Health, s.Proof
	switch {
	case h.Failures > 0 && p.At.Before(h.Until):
		return Left{Soon: true, Why: fmt.Sprintf("the rest of engine %s is over, and it is asked whether it answers", s.Engine.Name)}, true
	case p.State != engines.StateDown && p.State != engines.StateExhausted || s.Worked.After(p.At):
		return Left{}, false
	}
	return Left{Why: fmt.Sprintf("engine %s is %s: %s", s.Engine.Name, p.State, p.Reason)}, true
}

// behind reports whether an engine goes behind those that have answered: it could be asked, and was not seen to answer. One
// that cannot be tried without a price is not held against.
func (s *Stand) behind() bool {
	if s.Proof.State == engines.StateUp || s.Worked.After(s.Proof.At) {
		return false
	}
	return s.Engine.Kind != engines.KindCLI || s.Engine.BaseURL != ""
}

// preferred chooses the lowest tier that may do the order, in it one that has answered, and of those the first in the
// agent's list.
func preferred(_ Need, may []Stand) int {
	best := 0
	for i := range may {
		a, b := &may[i], &may[best]
		tier := cmp.Compare(climb(a.Engine.Tier), climb(b.Engine.Tier))
		if tier < 0 || tier == 0 && !a.behind() && b.behind() {
			best = i
		}
	}
	return best
}

// words gives in one line why no engine is left.
func words(left []Left) string {
	if len(left) == 1 {
		return left[0].Why
	}
	parts := make([]string, len(left))
	for i, l := range left {
		parts[i] = l.Why
		if !strings.Contains(l.Why, "engine "+string(l.Engine)) {
			parts[i] = fmt.Sprintf("engine %s: %s", l.Engine, l.Why)
		}
	}
	return "no engine may do it now: " + strings.Join(parts, "; ")
}

// lack is why no engine may do an order now, for the plan; empty where one may.
func (c *Choice) lack(now time.Time) Lack {
	if c.Engine.Name != "" {
		return Lack{}
	}
	l := Lack{Why: words(c.Left)}
	for _, left := range c.Left {
		l.Soon = l.Soon || left.Soon
		if wait := left.Until.Sub(now); wait > 0 && (l.Wait == 0 || wait < l.Wait) {
			l.Wait = wait
		}
	}
	return l
}

package worker

import (
	"fmt"
	"time"

	"github.com/ferry-fleet/ferry/internal/machine"
)

// Governor says when this machine begins nothing, whatever waits. What runs goes on. The zero Governor lets all begin.
type Governor struct {
	Window   *Window // the hours in which work may begin; nil means any
	Presence bool    // a person at the machine comes first
	BusyCPU  int     // per cent of all cores; with less in use, work begins beside a person
	MinRAM   int64   // bytes that must be free; 0 does not look
}

// Window is a part of every day, in minutes since midnight: From counts, To does not, and a To before From lies on the
// next day.
type Window struct {
	From, To int
	UTC      bool // else by the clock of this machine
}

// Facts is what a Governor decides by. What the machine does not say holds nothing up.
type Facts struct {
	Now   time.Time
	Next  time.Duration // until the machine is looked at again
	Input time.Time     // of a person, the last; zero when it is not known
	CPU   *float64      // per cent of all cores since the last look
	RAM   *int64        // bytes that are free
}

// Limit is the key of agent.toml by which nothing begins.
type Limit string

// The limits, in the order in which they are asked: the first that holds is the reason that is told, and a person can
// predict a window best.
const (
	LimitWindow   Limit = "claim_window"
	LimitPresence Limit = "pause_while_active"
	LimitRAM      Limit = "min_free_ram_mb"
)

// away is how long nobody has typed on a machine that counts as left.
const away = 5 * time.Minute

// Decide gives the limit that lets nothing begin, with its reason for a person, or "". The limit that held at the last
// look goes on until its value is well on the other side, so that one that is near its edge does not flap.
func (g Governor) Decide(f Facts, held Limit) (Limit, string) {
	if reason := g.window(f); reason != "" {
		return LimitWindow, reason
	}
	if reason := g.presence(f, held == LimitPresence); reason != "" {
		return LimitPresence, reason
	}
	if reason := g.memory(f, held == LimitRAM); reason != "" {
		return LimitRAM, reason
	}
	return "", ""
}

func (g Governor) window(f Facts) string {
	if g.Window == nil {
		return ""
	}
	now, opens := g.Window.opens(f.Now)
	if opens.IsZero() {
		return ""
	}
	return fmt.Sprintf("outside the hours of claim_window in agent.toml: it is %s, and work begins again at %s", g.Window.clock(now), g.Window.clock(opens))
}

func (g Governor) presence(f Facts, held bool) string {
	quiet := f.Now.Sub(f.Input)
	if !g.Presence || f.Input.IsZero() || quiet >= away || quiet < -time.Minute { // a clock that was set back says nothing
		return ""
	}
	edge, from := float64(g.BusyCPU), ""
	if held {
		edge = max(edge-10, edge/2)
		from = fmt.Sprintf("; it goes on below %.0f %%", edge)
	}
	said := fmt.Sprintf("pause_while_active in agent.toml: somebody typed on this machine %d s ago", max(0, int(quiet.Seconds())))
	if g.BusyCPU > 0 {
		if f.CPU == nil || *f.CPU < edge {
			return ""
		}
		said += fmt.Sprintf(", and %.0f %% of the processor is in use (busy_cpu_percent is %d%s)", *f.CPU, g.BusyCPU, from)
	}
	return said + fmt.Sprintf("; it is asked again within %s, and ends at %s when nobody types", f.Next, f.Input.In(f.Now.Location()).Add(away).Format("15:04:05"))
}

func (g Governor) memory(f Facts, held bool) string {
	edge, from := g.MinRAM, ""
	if held {
		edge += edge / 8
		from = fmt.Sprintf(", and work goes on from %d MB", edge>>20)
	}
	if f.RAM == nil || g.MinRAM <= 0 || *f.RAM >= edge {
		return ""
	}
	return fmt.Sprintf("min_free_ram_mb in agent.toml: %d MB of memory are free of the %d that must be%s; it is asked again within %s", *f.RAM>>20, g.MinRAM>>20, from, f.Next)
}

// opens gives the time by the clock of the window, and when it opens next; zero while it is open.
func (w Window) opens(now time.Time) (clock, next time.Time) {
	if w.UTC {
		now = now.UTC()
	}
	minute := now.Hour()*60 + now.Minute()
	open := w.From <= minute && minute < w.To
	if w.To < w.From {
		open = w.From <= minute || minute < w.To
	}
	if open {
		return now, time.Time{}
	}
	year, month, day := now.Date()
	if minute > w.From {
		day++
	}
	return now, time.Date(year, month, day, 0, w.From, 0, 0, now.Location())
}

func (w Window) clock(t time.Time) string {
	if w.UTC {
		return t.Format("15:04 UTC")
	}
	return t.Format("15:04")
}

// Watch keeps what a Governor needs from one look to the next. It belongs to one goroutine.
type Watch struct {
	rule    Governor
	system  machine.System
	held    Limit
	since   machine.CPUTimes // where the load is measured from
	at      time.Time
	percent *float64
}

// measured is how long the load of the processors is measured at least: what is shorter is the noise of one process.
const measured = 2 * time.Second

// NewWatch begins to watch a machine.
func NewWatch(rule Governor, system machine.System, now time.Time) *Watch {
	w := &Watch{rule: rule, system: system}
	if times, err := system.CPUTimes(); err == nil {
		w.since, w.at = times, now
	}
	return w
}

// Held gives the limit that lets nothing begin now, with its reason, or "". It is asked again after next.
func (w *Watch) Held(now time.Time, next time.Duration) (Limit, string) {
	f := Facts{Now: now, Next: next}
	if w.rule.Presence {
		if at, err := w.system.LastInput(); err == nil {
			f.Input = at
		}
		f.CPU = w.load(now)
	}
	if w.rule.MinRAM > 0 {
		if n, err := w.system.MemoryAvailable(); err == nil {
			f.RAM = &n
		}
	}
	limit, reason := w.rule.Decide(f, w.held)
	w.held = limit
	return limit, reason
}

// load gives how busy the processors were lately, or nil while that is not known. The first look takes the time since the
// watch began, however short.
func (w *Watch) load(now time.Time) *float64 {
	passed := now.Sub(w.at)
	if w.percent != nil && passed >= 0 && passed < measured {
		return w.percent
	}
	times, err := w.system.CPUTimes()
	if err != nil {
		w.percent = nil
		return nil
	}
	if p, ok := times.Percent(w.since); ok {
		w.percent = &p
	}
	w.since, w.at = times, now
	return w.percent
}

// governed gives why nothing may begin on this machine by agent.toml, or "".
func (w *Worker) governed(now time.Time) string {
	if w.cfg.Governor == nil {
		return ""
	}
	before := w.cfg.Governor.held
	limit, reason := w.cfg.Governor.Held(now, w.poll(true))
	if limit != before && limit != "" {
		w.log.Info("nothing begins", "reason", reason)
	}
	return reason
}

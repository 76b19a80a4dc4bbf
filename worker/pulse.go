package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// pulse is what the worker last said of itself in its beat.
type pulse struct {
	begun bool
	at    time.Duration // Clock.Mono
	said  ferry.Beat
	news  bool // records of others came in: they are answered at once
}

// bootFile, in the directory of the runs, holds how often the worker has begun.
const bootFile = "boot"

// nextBoot counts the beginnings of this worker: its beats outrank those of the process before. When the file is lost, the
// beat in the folder tells.
func nextBoot(cfg Config) (int64, error) {
	path := filepath.Join(cfg.Runs, bootFile)
	b, err := atomicfile.ReadBounded(path, 64)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("worker: %w", err)
	}
	last, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		last = 0
	}
	last = max(last, cfg.Writer.Beats()[cfg.Writer.ID()].Boot)
	if err := atomicfile.Write(path, strconv.AppendInt(nil, last+1, 10), 0o600); err != nil {
		return 0, fmt.Errorf("worker: %w", err)
	}
	return last + 1, nil
}

// minPulse is the least time between two beats.
const minPulse = 200 * time.Millisecond

// sight gathers what the fleet is to look at.
func (w *Worker) sight(tasks []ferry.Task, members []ferry.Member) Sight {
	s := Sight{Tasks: tasks, Beats: w.cfg.Writer.Beats()}
	var here []ferry.AgentName
	if w.cfg.Local != nil && len(members) > 1 {
		here = w.cfg.Local()
	}
	for _, m := range members {
		if !slices.Contains(m.Grants, ferry.GrantWork) {
			continue
		}
		s.Workers = append(s.Workers, m.Writer)
		if m.Writer == w.cfg.Writer.ID() || slices.Contains(here, m.Name) {
			if s.Local == nil {
				s.Local = map[ferry.WriterID]bool{}
			}
			s.Local[m.Writer] = true
		}
	}
	return s
}

func names(members []ferry.Member) map[ferry.WriterID]string {
	out := make(map[ferry.WriterID]string, len(members))
	for _, m := range members {
		out[m.Writer] = string(m.Name)
		if m.Machine != "" {
			out[m.Writer] += " on " + m.Machine
		}
	}
	return out
}

// beat writes the beat of this worker when one is due: when it has something new to say, when others have, and from time to
// time. It sees to it that the next one is not missed.
func (w *Worker) beat(ctx context.Context) {
	c, p, b := w.clock(), &w.pulse, w.present()
	every := 4 * w.fleet.t.Beat
	if len(b.Running) > 0 {
		every = w.fleet.t.Beat
	}
	changed := p.news || w.fleet.Greets() || !slices.Equal(b.Running, p.said.Running) || b.Slots != p.said.Slots || b.Paused != p.said.Paused
	wait := every - (c.Mono - p.at)
	if changed {
		wait = minPulse - (c.Mono - p.at)
	}
	if p.begun && wait > 0 {
		w.wakeIn(wait)
		return
	}
	own, err := w.cfg.Writer.Pulse(ctx)
	if err == nil {
		b.Epoch, b.Seq, b.ID, b.Saw, b.Lines = own.Epoch, own.Seq, own.ID, own.Saw, w.lines()
		b = w.fleet.Beat(c, b)
		if err = w.cfg.Writer.PutBeat(b); err != nil && len(b.Lines) > 0 {
			b.Lines = nil // what an engine prints must not be able to silence the worker
			err = w.cfg.Writer.PutBeat(b)
		}
	}
	w.fleet.Beaten(c, b, err == nil)
	p.begun, p.at, p.said, p.news = true, c.Mono, b, false
	if w.reach.beat != "" && err == nil {
		every = minPulse // what was held for it may begin
	}
	w.unbeaten(c, err)
	if err != nil {
		p.news, every = true, w.retryBeat()
	}
	w.wakeIn(every)
}

// retryBeat is after how long what could not be written to the folder is tried again.
func (w *Worker) retryBeat() time.Duration { return max(minPulse, w.fleet.t.Beat/15) }

func (w *Worker) wakeIn(d time.Duration) {
	if w.next <= 0 || d < w.next {
		w.next = d
	}
}

// present is the part of a beat that others decide by.
func (w *Worker) present() ferry.Beat {
	b := ferry.Beat{Paused: w.why != ""}
	for start, a := range w.running {
		if !a.ending {
			b.Running = append(b.Running, start)
		}
	}
	slices.SortFunc(b.Running, byID)
	if !b.Paused {
		b.Slots = int64(max(w.cfg.MaxParallel-len(w.running), 0))
	}
	return b
}

// maxLines and maxLineBytes bound what a beat shows of the output of what runs.
const (
	maxLines     = 20
	maxLineBytes = 2 << 10
)

// lines gives the end of the output of what runs, for people who look on from another machine. The logs are redacted.
func (w *Worker) lines() []string {
	var all []RunningStatus
	for _, a := range w.running {
		if s := a.status(); s.Log != "" {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b RunningStatus) int { return a.Since.Compare(b.Since) })
	var out []string
	for _, s := range all[:min(len(all), maxLines)] {
		prefix := ""
		if len(all) > 1 {
			prefix = string(s.Label) + ": "
		}
		out = append(out, tail(s.Log, maxLines/len(all), maxLineBytes/len(all), prefix)...)
	}
	return out
}

// tail gives the last whole lines of a file within both bounds, without what a terminal would obey.
func tail(path string, lines, size int, prefix string) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil // the run has not begun to print
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	buf := make([]byte, min(info.Size(), int64(size)))
	n, err := f.ReadAt(buf, info.Size()-int64(len(buf)))
	if err != nil && n == 0 {
		return nil
	}
	text := strings.ToValidUTF8(strings.TrimRight(string(buf[:n]), "\n"), "")
	all := strings.Split(text, "\n")
	var out []string
	for _, line := range slices.Backward(all[max(len(all)-lines, 0):]) {
		line = prefix + strings.Map(func(r rune) rune {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				return -1
			}
			return r
		}, line)
		if size -= len(line); size < 0 {
			break
		}
		if utf8.ValidString(line) && strings.TrimSpace(line) != "" {
			out = append(out, line)
		}
	}
	slices.Reverse(out)
	return out
}

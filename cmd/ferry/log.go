package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/redact"
	"github.com/ferry-fleet/ferry/worker"
)

// followEvery is how often a followed log is looked at: a person sees lines as
// they come, and it costs a stat.
const followEvery = 200 * time.Millisecond

type localLogShape struct {
	Attempts []localRunShape `json:"attempts"`
	Holds    []localHold     `json:"holds"`
}

type localRunShape struct {
	Run       string    `json:"run"`
	Order     string    `json:"order"`
	Label     string    `json:"label"`
	Agent     string    `json:"agent"`
	Attempt   int64     `json:"attempt"`
	Engine    string    `json:"engine"`
	Phase     string    `json:"phase"`
	Outcome   string    `json:"outcome"`
	Reason    string    `json:"reason"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	Log       string    `json:"log"`
}

type localHold struct {
	Agent  string `json:"agent"`
	Order  string `json:"order"`
	Label  string `json:"label"`
	Reason string `json:"reason"`
}

func (a *app) logCommand() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "log [ORDER]",
		Short: "this machine's attempts and why claims were declined; with an order, its output",
		Example: `  ferry log
  ferry log -f t-first`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				if follow {
					return misuse("`ferry log -f ORDER`", "log -f: name the order to follow")
				}
				return a.localLog(cmd.Context())
			}
			return a.output(cmd.Context(), args[0], follow)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the order is no longer being worked on")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) localLog(ctx context.Context) error {
	return a.with(ctx, func(p *project) error {
		shape := localLogShape{Attempts: []localRunShape{}, Holds: []localHold{}}
		for _, r := range p.runs(ferry.RecordID{}) {
			shape.Attempts = append(shape.Attempts, localRunOf(r))
		}
		for _, w := range p.workersAlive() {
			for _, h := range w.Holds {
				shape.Holds = append(shape.Holds, localHold{Agent: string(w.Agent), Order: h.Order.String(), Label: string(h.Label), Reason: h.Reason})
			}
		}
		return a.print(shape, func(w io.Writer) { a.localLogText(w, &shape) })
	})
}

func localRunOf(r localRun) localRunShape {
	return localRunShape{
		Run: string(r.Run), Order: r.Order.String(), Label: string(r.Label), Agent: string(r.agent), Attempt: r.Attempt, Engine: r.Engine,
		Phase: string(r.Phase), Outcome: string(r.Outcome), Reason: r.Reason, StartedAt: r.Started.UTC(), EndedAt: r.Ended.UTC(),
		Log: filepath.Join(r.dir, worker.LogFile),
	}
}

func (a *app) localLogText(w io.Writer, s *localLogShape) {
	if len(s.Attempts) == 0 {
		fmt.Fprintln(w, "no attempts on this machine")
	} else {
		var rows [][]string
		for _, r := range s.Attempts {
			took := ""
			if !r.EndedAt.IsZero() {
				took = r.EndedAt.Sub(r.StartedAt).Round(time.Second).String()
			}
			how := r.Outcome
			if how == "" {
				how = r.Phase
			}
			rows = append(rows, []string{
				r.StartedAt.Local().Format("2006-01-02 15:04:05"), r.Label, r.Agent, strconv.FormatInt(r.Attempt, 10), r.Engine, how, took, r.Reason,
			})
		}
		a.table(w, []string{"begun", "order", "agent", "try", "engine", "how", "took", "why"}, rows)
	}
	if len(s.Holds) > 0 {
		fmt.Fprintln(w, "\nnot taken now")
		var rows [][]string
		for _, h := range s.Holds {
			rows = append(rows, []string{h.Label, h.Agent, h.Reason})
		}
		a.table(w, []string{"order", "agent", "why"}, rows)
	}
}

// output prints what an order's runs printed on this machine.
func (a *app) output(ctx context.Context, ref string, follow bool) error {
	if a.json {
		return misuse("`ferry channel show "+ref+" --json` has the runs", "log %s --json: the output of a run is text", clip(ref, 64))
	}
	return a.with(ctx, func(p *project) error {
		t, err := p.channel.Task(ctx, ref)
		if err != nil {
			return err
		}
		f := &follower{p: p, order: t.ID, at: map[ferry.RunID]*tail{}}
		if err := f.look(a.out); err != nil {
			return err
		}
		if follow {
			if err := f.follow(ctx, &t); err != nil {
				return err
			}
		}
		if err := f.end(a.out); err != nil {
			return err
		}
		if len(f.at) == 0 {
			a.warn("%s has not run on this machine; it is %s", t.Order.Label, stateLine(&t))
		}
		return nil
	})
}

// follower prints the logs of an order's runs as they grow.
type follower struct {
	p     *project
	order ferry.RecordID
	at    map[ferry.RunID]*tail
}

// tail is how far one log was printed, and the line that is not complete yet.
type tail struct {
	off  int64
	line []byte
}

// follow prints until the order is not being worked on any more: it waits for
// an order that has not begun.
func (f *follower) follow(ctx context.Context, t *ferry.Task) error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	waits := t.Active() && t.Live.IsZero()
	if waits {
		f.p.app.warn("%s is %s; waiting for it to begin (Ctrl-C ends this)", t.Order.Label, stateLine(t))
	}
	for t.Active() && (waits || !t.Live.IsZero()) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if _, err := f.p.channel.Refresh(ctx); err != nil {
			return fmt.Errorf("read the channel: %w", err)
		}
		now, err := f.p.channel.Task(ctx, f.order.String())
		if err != nil {
			return err
		}
		*t = now
		waits = waits && t.Live.IsZero()
		if err := f.look(f.p.app.out); err != nil {
			return err
		}
	}
	return nil
}

// look prints what came since the last look.
func (f *follower) look(w io.Writer) error {
	for _, r := range f.p.runs(f.order) {
		t, seen := f.at[r.Run]
		if !seen {
			t = &tail{}
			f.at[r.Run] = t
			fmt.Fprintf(w, "== %s attempt %d, run %s: %s by %s ==\n", r.Label, r.Attempt, r.Run, oneLine(r.Engine), r.agent)
		}
		if err := t.print(w, filepath.Join(r.dir, worker.LogFile)); err != nil {
			return err
		}
	}
	return nil
}

// end prints lines that were never completed.
func (f *follower) end(w io.Writer) error {
	if err := f.look(w); err != nil {
		return err
	}
	for _, t := range f.at {
		if len(t.line) > 0 {
			fmt.Fprintln(w, redact.Visible(string(t.line)))
			t.line = nil
		}
	}
	return nil
}

// maxLook bounds what one look reads of a log, in bytes.
const maxLook = 1 << 20

// print writes the complete lines that came since the last time.
func (t *tail) print(w io.Writer, path string) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	defer file.Close()
	for {
		buf := make([]byte, maxLook)
		n, err := file.ReadAt(buf, t.off)
		t.off += int64(n)
		t.line = append(t.line, buf[:n]...)
		if i := bytes.LastIndexByte(t.line, '\n'); i >= 0 {
			if _, err := io.WriteString(w, redact.Visible(string(t.line[:i+1]))); err != nil {
				return fmt.Errorf("write the log: %w", err)
			}
			t.line = t.line[i+1:]
		}
		if err != nil || n < len(buf) {
			return nil // the end for now; a file that cannot be read on is looked at again
		}
	}
}

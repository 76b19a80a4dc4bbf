package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/authority"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/internal/machine"
	"github.com/ferry-fleet/ferry/worker"
)

type statusShape struct {
	Project   string         `json:"project"`
	Dir       string         `json:"dir"`
	Channel   string         `json:"channel"`
	ChannelID string         `json:"channel_id"`
	Machine   string         `json:"machine"`
	Sandbox   string         `json:"sandbox"`
	Paused    bool           `json:"paused"`
	Reason    string         `json:"reason"`
	Workers   []workerShape  `json:"workers"`
	Counts    map[string]int `json:"counts"`
	Inbox     int            `json:"inbox"`
	Rejected  []string       `json:"rejected"`
	Behind    string         `json:"behind"`  // what of the authority is waited for
	Doubts    []string       `json:"doubts"`  // what was waited for in vain
	Waiting   []string       `json:"waiting"` // keys of this machine that cannot write or wait to be admitted
	works     bool           // there is an agent here
}

type workerShape struct {
	worker.Status
	Alive bool `json:"alive"`
}

type whyShape struct {
	ID      string   `json:"id"`
	Label   string   `json:"label"`
	State   string   `json:"state"`
	Hold    string   `json:"hold"`
	Reasons []string `json:"reasons"`
}

func (a *app) statusCommand() *cobra.Command {
	var why string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "what this machine is doing, and why an order is not moving",
		Example: `  ferry status
  ferry status --why t-first`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("why") {
				return a.why(cmd.Context(), why)
			}
			return a.status(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&why, "why", "", "say why this `ORDER` is not moving")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) status(ctx context.Context) error {
	return a.with(ctx, func(p *project) error {
		shape, err := p.status(ctx)
		if err != nil {
			return err
		}
		return a.print(shape, func(w io.Writer) { a.statusText(w, &shape) })
	})
}

func (p *project) status(ctx context.Context) (statusShape, error) {
	s := statusShape{
		Project: p.config.Project, Dir: p.dir, Channel: p.config.Channel, ChannelID: p.config.ChannelID.String(),
		Machine: machine.Name(), Sandbox: p.config.Sandbox, Workers: []workerShape{}, Counts: map[string]int{}, Rejected: []string{}, Waiting: []string{},
		Doubts: []string{},
	}
	pause, paused, err := p.state.paused()
	if err != nil {
		return s, err
	}
	s.Paused, s.Reason, s.works = paused, pause.Reason, p.config.Agent != ""
	all, alive := p.workers()
	for i := range all {
		s.Workers = append(s.Workers, workerShape{Status: all[i], Alive: alive[i]})
	}
	tasks, err := p.channel.Tasks(ctx, channel.Filter{})
	if err != nil {
		return s, err
	}
	for i := range tasks {
		s.Counts[string(tasks[i].State)]++
		s.Inbox += len(needs(&tasks[i]))
	}
	stopped, err := p.stoppedKeys(ctx)
	if err != nil {
		return s, err
	}
	for _, k := range stopped {
		s.Waiting = append(s.Waiting, k.state+"; "+k.next)
	}
	waiting, err := p.asked(ctx)
	if err != nil {
		return s, err
	}
	for _, q := range waiting {
		s.Waiting = append(s.Waiting, q.state()+"; "+q.next())
	}
	snap, err := p.channel.Snapshot(ctx)
	if err != nil {
		return s, err
	}
	for _, r := range snap.Rejected {
		s.Rejected = append(s.Rejected, r.Name+": "+r.Reason)
	}
	s.Behind = cmp.Or(snap.Behind, snap.Hold)
	roster, err := p.channel.Roster(ctx)
	for _, d := range snap.Doubts {
		witness, _ := roster.Member(d.Witness)
		s.Doubts = append(s.Doubts, string(witness.Name)+" "+doubtWords(roster, d))
	}
	if err != nil {
		return s, err
	}
	return s, nil
}

func (a *app) statusText(w io.Writer, s *statusShape) {
	fmt.Fprintf(w, "%s on %s\n", s.Project, s.Machine)
	for _, q := range s.Waiting {
		field(w, "waits", q)
	}
	field(w, "channel", s.Channel)
	if s.Sandbox == "none" {
		field(w, "sandbox", "none: engines see this machine as you do (sandbox = \"none\" in agent.toml)")
	}
	if s.Paused {
		field(w, "paused", "nothing new begins"+because(s.Reason)+"; `ferry resume` ends it")
	}
	field(w, "orders", countsLine(s.Counts))
	if s.Inbox > 0 {
		field(w, "inbox", fmt.Sprintf("%d wait for you: `ferry channel inbox`", s.Inbox))
	}
	if s.Behind != "" {
		field(w, "behind", "nothing lands yet: "+s.Behind)
	}
	for _, d := range s.Doubts {
		field(w, "witness", d)
	}
	for _, r := range s.Rejected {
		field(w, "rejected", r)
	}
	running := false
	for i := range s.Workers {
		if s.Workers[i].Alive {
			running = true
			a.workerText(w, &s.Workers[i])
		}
	}
	if !running && s.works {
		field(w, "worker", "none runs here: `ferry agent run`")
	}
}

// doubtWords says what a witness has claimed in vain.
func doubtWords(roster *authority.Roster, d channel.Doubt) string {
	of, _ := roster.Member(d.Head.Writer)
	return fmt.Sprintf("says that it has seen record %d of %s, which never came: nothing waits for that", d.Head.Seq, of.Name)
}

func countsLine(counts map[string]int) string {
	var parts []string
	for _, s := range ferry.States() {
		if n := counts[string(s)]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// workerText prints what one worker is doing.
func (a *app) workerText(w io.Writer, s *workerShape) {
	now := a.now()
	fmt.Fprintf(w, "\nworker %s, pid %d, for %s%s\n", s.Agent, s.PID, age(now, s.Started), onlyEngine(s.Engines, now))
	if len(s.Engines) > 1 {
		for _, e := range s.Engines {
			fmt.Fprintln(w, indentLine("engine "+engineLine(e, now)))
		}
	}
	if s.Stopped != "" {
		fmt.Fprintln(w, indentLine("begins nothing new: "+s.Stopped))
	}
	for _, r := range s.Running {
		frozen := ""
		if r.Frozen {
			frozen = ", paused"
		}
		fmt.Fprintln(w, indentLine(fmt.Sprintf("%s attempt %d: %s for %s%s (`ferry log -f %s`)", r.Label, r.Attempt, r.Phase, age(now, r.Since), frozen, r.Label)))
	}
	if len(s.Running) == 0 {
		fmt.Fprintln(w, "  idle")
	}
	for _, h := range s.Holds {
		fmt.Fprintln(w, indentLine(string(h.Label)+" waits: "+h.Reason))
	}
}

// onlyEngine tells of the engine of a worker that has one.
func onlyEngine(all []worker.EngineStatus, now time.Time) string {
	if len(all) != 1 {
		return ""
	}
	return ", engine " + engineLine(all[0], now)
}

func engineLine(e worker.EngineStatus, now time.Time) string {
	line := e.Name + " " + e.State
	if e.Proof != "" {
		line += ", " + e.Proof
	}
	if e.Reason != "" {
		line += " (" + e.Reason + ")"
	}
	if e.Until.After(now) {
		line += " until " + e.Until.Local().Format("15:04")
	}
	return oneLine(line)
}

// resting gives which engines this project's worker would not use now because
// they have failed, or "".
func (p *project) resting() string {
	list, err := p.engines()
	if err != nil {
		return "" // the worker says it, and so does doctor
	}
	left, err := worker.Resting(p.state.health(p.config.ChannelID, p.config.Agent), list, p.app.now())
	if err != nil {
		return err.Error()
	}
	why := make([]string, len(left))
	for i, l := range left {
		why[i] = l.Why
	}
	return strings.Join(why, "; ")
}

func (a *app) why(ctx context.Context, ref string) error {
	return a.with(ctx, func(p *project) error {
		t, err := p.channel.Task(ctx, ref)
		if err != nil {
			return err
		}
		members, err := p.channel.Members(ctx)
		if err != nil {
			return err
		}
		p.holdStale(&t)
		people, err := p.people(ctx)
		if err != nil {
			return err
		}
		end, err := p.ended(ctx, &t, people)
		if err != nil {
			return err
		}
		shape := whyShape{
			ID: t.ID.String(), Label: string(t.Order.Label), State: string(t.State), Hold: t.Hold, Reasons: p.reasons(&t, members, people),
		}
		if end != "" {
			shape.Reasons = append([]string{end}, shape.Reasons...)
		}
		return a.print(shape, func(w io.Writer) {
			fmt.Fprintf(w, "%s is %s\n", shape.Label, shape.State)
			for _, r := range shape.Reasons {
				fmt.Fprintln(w, indentLine("- "+r))
			}
		})
	})
}

// reasons says why a task is where it is, the order's own reason first, then
// what the workers of this machine say, then what would move it.
func (p *project) reasons(t *ferry.Task, members, people []ferry.Member) []string {
	reasons := []string{}
	add := func(format string, args ...any) {
		if s := fmt.Sprintf(format, args...); s != "" && !slices.Contains(reasons, s) {
			reasons = append(reasons, s)
		}
	}
	items := needs(t)
	if !slices.ContainsFunc(items, func(i inboxItem) bool { return strings.Contains(t.Hold, i.Why) }) {
		add("%s", t.Hold)
	}
	alive := p.workersAlive()
	for _, w := range alive {
		for _, r := range w.Running {
			if r.Order == t.ID {
				add("%s runs attempt %d here: %s since %s (`ferry log -f %s`)", w.Agent, r.Attempt, r.Phase, r.Since.Local().Format("15:04:05"), t.Order.Label)
			}
		}
		for _, h := range w.Holds {
			if h.Order == t.ID && h.Reason != t.Hold {
				add("%s: %s", w.Agent, h.Reason)
			}
		}
	}
	if t.Active() {
		p.lastReasons(t, people, add)
		if t.Live.IsZero() {
			p.idleReasons(t, members, alive, add)
		} else {
			add("%s holds attempt %d", name(people, t.Holder), t.Attempt)
		}
	}
	for _, item := range items {
		add("%s: `%s`", item.Why, item.Next)
	}
	if t.State == ferry.StateDone || t.State == ferry.StateAccepted && !t.Order.NeedsApproval || t.State == ferry.StateApproved {
		add("it can be landed: `ferry channel land %s`", t.Order.Label)
	}
	if len(reasons) == 0 && t.Active() {
		add("nothing holds it: the next look of a worker takes it")
	}
	return reasons
}

// lastReasons says how the last attempt ended, where that is why there has to
// be another one.
func (p *project) lastReasons(t *ferry.Task, people []ferry.Member, add func(string, ...any)) {
	if t.State == ferry.StateRefuted {
		last := t.LatestResult()
		add("revision %d was refuted: %s", last.Result.Revision, strings.Join(last.Evidence.Reasons, "; "))
		return
	}
	if n := len(t.Attempts); n > 0 && t.Live.IsZero() && t.Attempts[n-1].Stop != nil {
		at := t.Attempts[n-1]
		add("attempt %d of %s ended: %s%s", at.N, name(people, at.Holder), at.Stop.Reason, because(at.Stop.Note))
	}
}

// idleReasons says what keeps every worker from an order that one may take.
func (p *project) idleReasons(t *ferry.Task, members []ferry.Member, alive []worker.Status, add func(string, ...any)) {
	if pause, paused, err := p.state.paused(); err == nil && paused {
		add("this machine is paused%s: `ferry resume`", because(pause.Reason))
	}
	to := t.To
	known := to == "" || slices.ContainsFunc(members, func(m ferry.Member) bool { return m.Name == to })
	switch {
	case !known:
		add("it is addressed to %s, who is not a member of the channel", to)
	case len(alive) == 0 && p.config.Agent == "":
		add("no agent works on this machine: it waits for one on another")
	case len(alive) == 0:
		add("%s", p.resting())
		add("no worker runs on this machine: `ferry agent run`")
	case to != "" && !slices.ContainsFunc(alive, func(s worker.Status) bool { return s.Agent == to }):
		add("it is addressed to %s, and no such worker runs on this machine", to)
	}
}

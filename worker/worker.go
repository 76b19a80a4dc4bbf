package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/machine"
	"github.com/ferry-fleet/ferry/internal/process"
	"github.com/ferry-fleet/ferry/internal/redact"
	"github.com/ferry-fleet/ferry/internal/worktree"
)

// Config is everything a worker needs; cmd/ferry fills it.
type Config struct {
	Agent   ferry.AgentName
	Machine string
	Version string // of this ferry, which the channel is told; "" tells it nothing
	Channel *channel.Channel
	Writer  *channel.Writer
	Gate    *worktree.Gate
	Engines []engines.Config // in order of preference
	// An engine's place in the box, and that of the checks: level, network, binds,
	// environment and limits. The worker fills in tree, state and mark.
	Box       box.Spec
	ChecksBox box.Spec
	Probe     string // hash of the sandbox's probe report
	Prepare   string // the command of [box] that fills the caches
	Caches    string // directory of those caches
	Runs      string // directory of the run directories
	Health    string // file that remembers the failures of the engines
	Status    string // status file
	Pause     string // file whose presence stops new work on this machine

	MaxParallel  int
	Poll         time.Duration
	Timeout      time.Duration // of a run, where the order names none
	CheckTimeout time.Duration
	Timing       Timing        // of the claim protocol
	Seal         time.Duration // how often the worker packs its records; 0 means hourly
	Width        int           // how many orders may run in the whole fleet; 0 means no limit
	Backoff      func(failures int) time.Duration
	MinDisk      float64 // share of the disk that must stay free, 0 to 1
	Governor     *Watch  // when this machine begins nothing; nil lets all begin
	Redactor     *redact.Redactor
	Log          *slog.Logger

	// Remote gives the remote that commits travel by, to fetch from it or to push what attempts left; nil without an error
	// where there is none. It is asked each time, and may be nil itself.
	Remote func(ctx context.Context, push bool) (*worktree.Remote, error)

	Spend      string // file of what the engines have used of their budgets
	Desk       string // file that remembers what was asked about the engines, and which are blocked
	AlertAfter int    // faults of an engine in a row after which the master is asked; 0 means 2
	MaxEngines int    // that one attempt goes through when they fail, 1 to 16; 0 means 3
	Route      Router // chooses among the engines that may do an order; nil prefers them in their order

	Local func() []ferry.AgentName // the agents whose keys are on this machine, and which use the same store; nil means ours alone
	Clock func() Clock             // nil means the clocks of this machine
}

// Worker is one agent in one project. Use New.
type Worker struct {
	cfg Config
	log *slog.Logger

	// Owned by the goroutine of Run or Pass.
	running   map[ferry.RecordID]*attempt // by start
	events    chan event
	poke      chan struct{} // an attempt has come a step further: the status is out of date
	steps     []Step        // of the last pass, for the status
	why       string        // nothing new may begin, of the last pass
	shelf     *shelf
	desk      desk
	purse     purse
	health    health
	fleet     *Fleet
	pulse     pulse
	reach     reach
	sealing   sealing
	intro     introduction
	next      time.Duration            // after which a pass is due though nothing has happened
	unsaid    []*closing               // closed attempts whose records could not be written yet
	left      map[ferry.RunID]leftover // what an earlier process left and cannot be looked after yet
	again     time.Time                // when that is tried again
	last      Status
	started   time.Time
	clock     func() Clock
	carrier   carrier         // what the remote is owed
	wants     wants           // what is missing here
	dry       bool            // nothing is done, also not fetched
	probes    context.Context // of the probes; nil while there are none
	endProbes context.CancelFunc
	ready     bool // what an earlier process left has been looked for
}

// New checks the configuration and makes a worker. It starts nothing.
func New(cfg Config) (*Worker, error) {
	if cfg.Channel == nil || cfg.Writer == nil || cfg.Gate == nil || cfg.Runs == "" || cfg.Log == nil {
		return nil, errors.New("worker: channel, writer, gate, runs and log are needed")
	}
	if err := usable(cfg.Engines); err != nil {
		return nil, err
	}
	if cfg.MaxEngines == 0 {
		cfg.MaxEngines = defaultEngines
	}
	if cfg.AlertAfter == 0 {
		cfg.AlertAfter = defaultAlert
	}
	cfg.MaxEngines = min(max(cfg.MaxEngines, 1), mostEngines)
	if cfg.Backoff == nil {
		cfg.Backoff = Backoff
	}
	if cfg.Redactor == nil {
		var secrets []string
		for _, e := range cfg.Engines {
			secrets = append(secrets, e.Secrets()...)
		}
		cfg.Redactor = redact.New(secrets)
	}
	cfg.MaxParallel = max(cfg.MaxParallel, 1)
	if cfg.Clock == nil {
		began := time.Now()
		cfg.Clock = func() Clock { return Clock{Mono: time.Since(began), Boot: machine.Boottime()} }
	}
	w := &Worker{
		clock: cfg.Clock,
		cfg:   cfg, log: cfg.Log.With("agent", string(cfg.Agent)), running: map[ferry.RecordID]*attempt{},
		events: make(chan event), poke: make(chan struct{}, 1),
	}
	known, err := readShelf(cfg.Health, cfg.Engines)
	if err != nil {
		return nil, err
	}
	w.shelf = known
	if w.purse, err = readPurse(cfg.Spend, time.Now()); err != nil {
		return nil, err
	}
	if w.desk, err = readDesk(cfg.Desk); err != nil {
		return nil, err
	}
	for name, why := range w.desk.file.Blocked {
		if k := known.find(name); k != nil {
			k.Blocked = why
		}
	}
	boot, err := nextBoot(cfg)
	if err != nil {
		return nil, err
	}
	w.fleet = NewFleet(FleetSpec{Channel: cfg.Channel.ID(), Me: cfg.Writer.ID(), Boot: boot, Timing: cfg.Timing})
	return w, nil
}

// The engines that one attempt goes through when they fail, unless the configuration says so, and at most; and the faults in
// a row of one after which the master is asked.
const (
	defaultEngines = 3
	mostEngines    = 16
	defaultAlert   = 2
)

// usable reports what is wrong with the first engine where none can run.
func usable(list []engines.Config) error {
	if len(list) == 0 {
		return errors.New("worker: an engine is needed")
	}
	var first error
	for _, e := range list {
		err := e.Check()
		if err == nil {
			return nil
		}
		first = cmp.Or(first, err)
	}
	return first
}

// Run works until ctx ends: it passes on every change of the channel, when
// something is due, and after every attempt. When ctx ends it starts nothing more, stops
// what runs, keeps its work, closes it in the channel and returns nil.
func (w *Worker) Run(ctx context.Context) error {
	wake, err := w.cfg.Channel.Watch(ctx)
	if err != nil {
		w.log.Warn("no file notifications, polling only", "err", err)
		wake = nil
	}
	look := time.NewTimer(0)
	defer look.Stop()
	for pass := true; ; {
		if pass {
			if err := w.Pass(ctx, time.Now()); err != nil && ctx.Err() == nil {
				w.log.Error("pass", "err", err)
			}
			look.Reset(w.rest(wake != nil))
		}
		pass = true
		select {
		case <-ctx.Done():
			return w.stop(ctx)
		case _, ok := <-wake:
			if !ok {
				wake = nil
			}
		case <-look.C:
		case <-w.poke:
			w.report(w.steps, w.why, time.Now())
			pass = false
		case e := <-w.events:
			w.take(context.WithoutCancel(ctx), e, time.Now())
		}
	}
}

// rest is how long the worker sleeps when nothing happens.
func (w *Worker) rest(watched bool) time.Duration {
	if poll := w.poll(watched); w.next <= 0 || poll < w.next {
		return poll
	}
	return w.next
}

// poll gives the safety net's period: 10 s where notifications work, else 2 s.
func (w *Worker) poll(watched bool) time.Duration {
	switch {
	case w.cfg.Poll > 0:
		return w.cfg.Poll
	case watched:
		return 10 * time.Second
	}
	return 2 * time.Second
}

// Drain waits for what runs, passing on nothing new but what other workers keep
// waiting for a moment: `agent run --once`.
func (w *Worker) Drain(ctx context.Context) error {
	defer w.silence(context.WithoutCancel(ctx))
	for slices.ContainsFunc(w.steps, func(s Step) bool { return s.Soon || s.Do == DoClaim }) {
		due := time.NewTimer(w.rest(false))
		select {
		case <-ctx.Done():
			due.Stop()
			return w.stop(ctx)
		case <-due.C:
		case e := <-w.events:
			w.take(context.WithoutCancel(ctx), e, time.Now())
		}
		due.Stop()
		if err := w.Pass(ctx, time.Now()); err != nil {
			return err
		}
	}
	for len(w.running) > 0 {
		select {
		case <-ctx.Done():
			return w.stop(ctx)
		case e := <-w.events:
			w.take(context.WithoutCancel(ctx), e, time.Now())
		}
	}
	w.carrier.beside.Wait()
	return w.flush(context.WithoutCancel(ctx), time.Now())
}

// silence ends the probes that are on their way and takes what they say.
func (w *Worker) silence(ctx context.Context) {
	if w.endProbes == nil {
		return
	}
	w.endProbes()
	for w.probing() {
		w.take(ctx, <-w.events, time.Now())
	}
	w.probes, w.endProbes = nil, nil
}

// stop ends every attempt for the shutdown of the worker and waits for them.
func (w *Worker) stop(ctx context.Context) error {
	for _, a := range w.running {
		a.end(shutdown())
	}
	out := context.WithoutCancel(ctx)
	w.silence(out)
	for len(w.running) > 0 {
		w.take(out, <-w.events, time.Now())
	}
	w.carrier.beside.Wait()
	err := w.flush(out, time.Now())
	w.report(nil, "the worker is stopped", time.Now())
	w.why, w.pulse.begun = "the worker is stopped", false
	w.beat(out) // the others wait for its turn no more
	if removed := os.Remove(w.cfg.Status); removed != nil && !errors.Is(removed, os.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return err
}

// Pass is one complete look: it reads the channel, plans, and acts. It never
// waits for an engine.
func (w *Worker) Pass(ctx context.Context, now time.Time) error {
	w.next = time.Second // when something goes wrong
	w.shelf.refresh()
	w.purse.exhausted(w.shelf, now)
	w.probe(ctx, now)
	steps, stopped, err := w.plan(ctx, now)
	if err != nil {
		return err
	}
	for i, s := range steps {
		if err := w.act(ctx, s, now); err != nil {
			w.log.Error("step", "do", string(s.Do), "task", string(s.Label), "err", err)
			steps[i].Do, steps[i].Reason = DoHold, err.Error()
		}
	}
	w.steps, w.why = steps, stopped
	w.held(ctx, steps, now)
	w.deliver(ctx, now)
	w.report(steps, stopped, now)
	w.introduce(ctx, now)
	w.beat(ctx)
	w.seal(ctx, now)
	return nil
}

// Preview gives the plan of a pass and does nothing: `agent run --dry-run`.
func (w *Worker) Preview(ctx context.Context, now time.Time) ([]Step, error) {
	w.dry = true
	steps, _, err := w.look(ctx, now)
	return steps, err
}

func (w *Worker) plan(ctx context.Context, now time.Time) ([]Step, string, error) {
	if w.started.IsZero() {
		w.started = now
	}
	steps, stopped, err := w.look(ctx, now)
	if err != nil {
		return nil, "", err
	}
	again := false
	if len(w.unsaid) > 0 {
		again = true
		if err := w.flush(ctx, now); err != nil {
			w.log.Error("write what is owed to the channel", "err", err)
		}
	}
	if !w.ready {
		again = true
		if err := w.recover(ctx, now); err != nil {
			return nil, "", err
		}
		w.ready = true
	} else if len(w.left) > 0 && !now.Before(w.again) {
		again = true
		w.retry(ctx, now)
	}
	if again {
		return w.look(ctx, now)
	}
	return steps, stopped, nil
}

// look reads the channel and plans.
func (w *Worker) look(ctx context.Context, now time.Time) ([]Step, string, error) {
	report, err := w.cfg.Channel.Refresh(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("refresh the channel: %w", err)
	}
	snap, err := w.cfg.Channel.Snapshot(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("read the channel: %w", err)
	}
	members, err := w.cfg.Channel.Members(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("read the members: %w", err)
	}
	dispatch, err := w.mayDispatch(ctx, members, now)
	if err != nil {
		return nil, "", err
	}
	w.pulse.news = w.pulse.news || report.New > 0
	if !w.dry && w.desk.seen != snap { // it is the same one while nothing has changed
		w.desk.seen = snap
		w.answers(ctx, now)
	}
	clock := w.clock()
	w.fleet.Look(clock, w.sight(snap.Active, members))
	cut, err := w.cutOff(ctx, clock, members)
	if err != nil {
		return nil, "", err
	}
	in := Input{
		Now: now, Clock: clock, Me: w.cfg.Writer.ID(), Agent: w.cfg.Agent, Tasks: snap.Active, Running: w.runningView(),
		Slots: w.cfg.MaxParallel, Width: w.cfg.Width, Stopped: cmp.Or(w.stopped(now), cut), Engine: w.engineFor(now), Backoff: w.cfg.Backoff,
		Fleet: w.fleet, Names: names(members), Lacks: w.lacks(ctx, snap.Active, now), Dispatch: dispatch,
	}
	steps, next := Plan(in)
	w.next = w.sooner(next)
	return steps, in.Stopped, nil
}

func (w *Worker) runningView() map[ferry.RecordID]Running {
	out := make(map[ferry.RecordID]Running, len(w.running))
	for start, a := range w.running {
		out[start] = Running{Order: a.task.ID, Frozen: a.frozen, Ending: a.ending, Told: a.told}
	}
	for _, c := range w.unsaid {
		out[c.start] = Running{Order: c.order, Ending: true, Idle: true}
	}
	for _, l := range w.left {
		out[l.journal.Start] = Running{Order: l.journal.Order, Ending: true, Idle: true}
	}
	return out
}

// act carries out one step.
func (w *Worker) act(ctx context.Context, s Step, now time.Time) error {
	a := w.running[s.Start]
	switch s.Do {
	case DoBegin, DoStart:
		return w.begin(ctx, s, now)
	case DoClaim:
		return w.claim(ctx, s, now)
	case DoCancel:
		if a != nil {
			a.end(endOf(s.Why, s.Reason))
		}
	case DoFreeze, DoThaw:
		if a != nil {
			a.freeze(s.Do == DoFreeze)
		}
	case DoSteer:
		if a != nil {
			a.steer(s.Steers)
		}
	case DoRecover:
		return w.orphan(ctx, s, now)
	case DoRelease:
		return w.write(ctx, now, func(tx *channel.Tx) error {
			_, err := tx.Add(&ferry.Stop{Order: s.Order, Claim: s.Claim, Reason: s.Why, Note: s.Reason})
			return err
		})
	case DoRetire:
		return w.endOverdue(ctx, s, now)
	case DoAsk:
		_, err := w.cfg.Writer.Ask(ctx, now, *s.Ask)
		return w.unpublished(err)
	case DoHold:
	}
	return nil
}

// report writes the status file when it says something new.
func (w *Worker) report(steps []Step, stopped string, now time.Time) {
	s := Status{
		Agent: w.cfg.Agent, Writer: w.cfg.Writer.ID(), PID: os.Getpid(), PIDMark: process.StartMark(os.Getpid()),
		Machine: w.cfg.Machine, Started: w.started, Stopped: stopped, Slots: w.cfg.MaxParallel,
		Running: []RunningStatus{}, Holds: []HoldStatus{}, Engines: []EngineStatus{},
	}
	for _, k := range w.shelf.known {
		s.Engines = append(s.Engines, k.status(now))
	}
	for _, a := range w.running {
		s.Running = append(s.Running, a.status())
	}
	slices.SortFunc(s.Running, func(a, b RunningStatus) int { return a.Since.Compare(b.Since) })
	for _, st := range steps {
		if st.Do == DoHold {
			s.Holds = append(s.Holds, HoldStatus{Order: st.Order, Label: st.Label, Reason: st.Reason})
		}
	}
	for _, l := range w.left {
		s.Holds = append(s.Holds, HoldStatus{Order: l.journal.Order, Label: l.journal.Label, Reason: l.reason()})
	}
	s.Holds = append(append(s.Holds, w.sealing.holds()...), w.reach.holds()...)
	for _, c := range w.unsaid {
		s.Holds = append(s.Holds, HoldStatus{Order: c.order, Label: c.label, Reason: "its end is not in the channel yet; it is tried again"})
	}
	s.Holds = append(s.Holds, w.carrier.holds()...)
	if same(s, w.last) {
		return
	}
	s.Updated = now
	if err := s.write(w.cfg.Status); err != nil {
		w.log.Error("status", "err", err)
		return
	}
	w.last = s
}

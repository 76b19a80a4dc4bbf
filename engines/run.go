package engines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/egress"
	"github.com/ferry-fleet/ferry/internal/process"
	"github.com/ferry-fleet/ferry/internal/redact"
)

// Control is what a person does to a run while it lasts. To end it, end the
// context.
type Control string

// The controls. Freeze and Thaw stop and continue the whole tree with its clocks.
const (
	Freeze Control = "freeze"
	Thaw   Control = "thaw"
)

// Request is one prompt for one engine in one place.
type Request struct {
	Engine   Config
	Contract Contract
	Prompt   string
	// PromptDir is an empty private directory of this run for the prompt file. It
	// is shown to the engine read-only, at the same path.
	PromptDir string
	// Box is the place: tree, binds, level, net, login, limits. The engine's own
	// package and the environment are added here.
	Box     box.Spec
	Environ []string         // of the worker; what passes is for Environ to say
	Redact  *redact.Redactor // knows the engine's secrets
	Log     io.Writer        // gets the log while the run lasts; nil for none
	Started func(pid int, mark uint64)
	Control <-chan Control
	// The clocks, where they are not those of the engine; 0 takes the engine's.
	Timeout time.Duration
	Stall   time.Duration
	// Limit is what the run may use; a part of 0 has no limit. The run is ended when the engine says that it has used as
	// much, which an engine that tells its usage at its end says too late.
	Limit Amount
}

// Reply is what became of a run. Everything in it is bounded and redacted.
type Reply struct {
	Text     string
	Usage    ferry.Usage
	Exit     int // -1 when a signal ended it
	Ended    Ended
	Over     string // which limit was reached, where Ended is EndedLimit
	Fault    *Fault
	Denied   []string
	Tail     string // the end of the log
	Started  time.Time
	Duration time.Duration
	OOM      bool
	// Net is what a run with a list of hosts reached and was refused.
	Net []egress.Decision
	// Err is why the run did not start, why something of it may be alive, or why
	// its log is not whole. It is never the engine's fault.
	Err error
}

// CLI runs engines that are commands.
type CLI struct{}

// Run runs the command in its box. No process of it is alive when it returns.
func (CLI) Run(ctx context.Context, req Request) Reply {
	r := begin(req)
	return r.end(r.do(ctx))
}

// run is one run of any kind.
type run struct {
	Request

	reply Reply
	out   *output
}

func begin(req Request) *run {
	r := &run{Request: req, reply: Reply{Started: time.Now(), Exit: -1, Ended: EndedStartError}}
	if r.Redact == nil {
		r.Redact = redact.New(req.Engine.Secrets())
	}
	if r.Timeout == 0 {
		r.Timeout = req.Engine.Timeout
	}
	if r.Stall == 0 {
		r.Stall = req.Engine.Stall
	}
	return r
}

// listen makes the output of a run, and with that starts its clocks.
func (r *run) listen(k Contract) {
	r.out = newOutput(k, r.Redact, r.Log, newClocks(r.Timeout, r.Stall, time.Now()))
	r.out.meter = Meter{Limit: r.Limit, Price: CapPrice(r.Engine)}
}

// end completes the reply of a run that went wrong with err, or did not.
func (r *run) end(err error) Reply {
	if err != nil {
		r.reply.Err = errors.New(r.Redact.String(err.Error()))
		if errors.Is(err, ErrMissing) {
			r.reply.Fault = &Fault{Class: FaultMissing, Reason: r.reply.Err.Error(), Engine: r.Engine.Name}
		}
	}
	r.reply.Duration = time.Since(r.reply.Started)
	return r.reply
}

func (r *run) do(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		r.reply.Ended = EndedCancelled
		return nil
	}
	if err := r.Engine.Check(); err != nil {
		return err
	}
	way, err := r.outlet(ctx)
	if err != nil {
		return err
	}
	defer way.Close() // what it ends is of a box that has ended
	cmd, err := r.command(way)
	if err != nil {
		return err
	}
	r.listen(r.Contract)
	spec := cmd.Spec
	spec.Stdout, spec.Stderr = stream{r.out, 0}, stream{r.out, 1}
	p, err := process.Start(spec)
	if err != nil {
		return errors.Join(fmt.Errorf("start engine %s: %w", r.Engine.Name, err), cmd.Close())
	}
	if r.Started != nil {
		r.Started(p.Pid(), p.StartMark())
	}
	done := make(chan process.Exit, 1)
	go func() { done <- p.Wait() }()
	exit, err := watch(ctx, r, p, done)
	r.account(way)
	err = errors.Join(err, cmd.Close(), r.out.close())
	_, textual := r.out.parser.(*textParser)
	r.reply.Exit, r.reply.OOM = exit.Code, exit.OOM
	r.finish(r.out.parser.end(), !textual)
	return err
}

// command puts the engine into its box, with its way out.
func (r *run) command(way *outlet) (*box.Command, error) {
	path := pathOf(r.Environ)
	in, err := Resolve(r.Engine.Command, path)
	if err != nil {
		return nil, err
	}
	prompt, err := r.prompt()
	if err != nil {
		return nil, err
	}
	inv, err := r.Contract.Invoke(way.engine, prompt, r.Box.Level)
	if err != nil {
		return nil, fmt.Errorf("engine %s: %w", r.Engine.Name, err)
	}
	spec := r.Box
	spec.Binds = slices.Clone(spec.Binds)
	for _, dir := range in.Dirs {
		spec.Binds = append(spec.Binds, box.Bind{Host: dir})
	}
	if prompt.File != "" {
		spec.Binds = append(spec.Binds, box.Bind{Host: r.PromptDir})
	}
	spec.Env = withPath(Environ(r.Environ, way.engine, r.Contract, spec.Level), in.PathDirs)
	cmd, err := way.attach(spec).Command(append([]string{in.Path}, inv.Args...))
	if err != nil {
		return nil, fmt.Errorf("box of engine %s: %w", r.Engine.Name, err)
	}
	if inv.ByStdin {
		cmd.Spec.Stdin = strings.NewReader(inv.Stdin)
	}
	return cmd, nil
}

// prompt writes the prompt file where the args ask for one.
func (r *run) prompt() (Prompt, error) {
	p := Prompt{Text: r.Prompt}
	if r.PromptDir == "" || !slices.ContainsFunc(r.Contract.arguments(r.Engine, r.Box.Level), usesFile) {
		return p, nil
	}
	p.File = filepath.Join(r.PromptDir, "prompt.md")
	f, err := os.OpenFile(p.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return p, fmt.Errorf("write the prompt file: %w", err)
	}
	_, err = io.WriteString(f, r.Prompt)
	if err = errors.Join(err, f.Close()); err != nil {
		return p, fmt.Errorf("write the prompt file: %w", err)
	}
	return p, nil
}

// running is what a run is about: a tree of processes, or a request.
type running interface {
	Kill() error
	Freeze() error
	Thaw() error
}

// lastWords is how long an engine that has reached its limit may take to end by itself: what it told last may be of its last
// turn.
const lastWords = 2 * time.Second

// watch waits until a run has come to its end by itself, which done tells, and
// brings the end about when it is due.
func watch[T any](ctx context.Context, r *run, p running, done <-chan T) (T, error) {
	r.reply.Ended = EndedExited
	timer := time.NewTimer(0)
	defer timer.Stop()
	control := r.Control
	var failed error
	var last <-chan time.Time // when a run that reached its limit is ended
	stop := func(why Ended) (T, error) {
		r.reply.Ended = why
		err := p.Kill()
		return <-done, errors.Join(failed, err)
	}
	for {
		select {
		case end := <-done:
			// What the engine left behind ends with it.
			r.reply.Over = ""
			return end, errors.Join(failed, p.Kill())
		case <-ctx.Done():
			return stop(EndedCancelled)
		case c, ok := <-control:
			if !ok {
				control = nil
				continue
			}
			failed = errors.Join(failed, r.freeze(p, c == Freeze))
		case over := <-r.out.over:
			r.reply.Over, last = over, time.After(lastWords)
		case <-last:
			return stop(EndedLimit)
		case <-timer.C:
		}
		wait, over := r.out.next()
		if over != "" {
			return stop(over)
		}
		timer.Reset(wait)
	}
}

// freeze stops or continues the engine. The clocks follow only what happened.
func (r *run) freeze(p running, frozen bool) error {
	act := p.Thaw
	if frozen {
		act = p.Freeze
	}
	if err := act(); err != nil {
		return fmt.Errorf("freeze or thaw engine %s: %w", r.Engine.Name, err)
	}
	r.out.freeze(frozen)
	return nil
}

// finish tells the fault of a run and bounds what came of it. known says that
// parsed is from a form that a machine can read.
func (r *run) finish(parsed Parsed, known bool) {
	clock := r.Timeout
	if r.reply.Ended == EndedStalled {
		clock = r.Stall
	}
	r.reply.Fault = Classify(Observed{
		Engine: r.Engine.Name, Ended: r.reply.Ended, Exit: r.reply.Exit, Parsed: parsed,
		Last: r.out.lastLine(), Known: known, KeyHint: r.Engine.keyHint(), Clock: clock, Now: time.Now(),
	})
	if f := r.reply.Fault; f != nil {
		f.Reason = r.Redact.String(f.Reason)
	}
	r.reply.Usage = r.priced(parsed.Usage)
	r.reply.Text = cut(r.Redact.String(parsed.Text), maxText)
	r.reply.Denied = r.denied(parsed.Denied)
	r.reply.Tail = strings.ToValidUTF8(string(r.out.tail.Bytes()), "")
}

// priced gives what a run cost where the engine has not told it, which it does at an end that it may not have come to.
func (r *run) priced(u ferry.Usage) ferry.Usage {
	price := ProfileOf(r.Engine).Price
	if r.reply.Ended == EndedLimit {
		price = CapPrice(r.Engine) // which it was held to
	}
	if cost, source := Cost(u, price); u.CostSource == "" && cost > 0 {
		u.CostMicroUSD, u.CostSource = cost, source
	}
	return u
}

// maxDenied bounds the list of refused edits.
const maxDenied = 50

func (r *run) denied(all []string) []string {
	var out []string
	for _, d := range all[:min(len(all), maxDenied)] {
		out = append(out, r.Redact.String(d))
	}
	return out
}

func pathOf(environ []string) string {
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			return v
		}
	}
	return ""
}

func withPath(env, dirs []string) []string {
	if len(dirs) == 0 {
		return env
	}
	front := strings.Join(dirs, string(filepath.ListSeparator))
	for i, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			env[i] = "PATH=" + front + string(filepath.ListSeparator) + v
			return env
		}
	}
	return append(env, "PATH="+front)
}

package engines

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/provider"
)

// HTTP runs engines that are a model behind an endpoint: one question, one answer
// in text. It can change no file, needs no box and starts no process.
type HTTP struct {
	// Client makes the connections; with nil each run has its own.
	Client *http.Client
}

// Run asks the endpoint. Its request is over when it returns. Started is called
// with the pid 0: there is no process that could outlive the run.
func (h HTTP) Run(ctx context.Context, req Request) Reply {
	r := begin(req)
	return r.end(r.ask(ctx, h.Client))
}

func (r *run) ask(ctx context.Context, client *http.Client) error {
	if err := ctx.Err(); err != nil {
		r.reply.Ended = EndedCancelled
		return nil
	}
	if err := r.Engine.Check(); err != nil {
		return err
	}
	if client == nil {
		client = provider.HTTPClient()
		defer client.CloseIdleConnections()
	}
	r.listen(Contract{parser: func() parser { return &textParser{} }})
	// How long the endpoint may be silent is for the clocks of the run, which stand
	// still while it is frozen.
	const never = 24 * time.Hour
	endpoint, err := r.Engine.reach(client, r.Engine.wire(), provider.Clocks{First: never, Idle: never}, r.out.now)
	if err != nil {
		return fmt.Errorf("engine %s: %w", r.Engine.Name, err)
	}
	// Only Kill ends the request, so that an end is told from a cancel.
	callCtx, kill := context.WithCancel(context.WithoutCancel(ctx))
	call := &call{kill: kill, out: r.out}
	done := make(chan answered, 1)
	go func() { done <- call.ask(callCtx, endpoint, r.question()) }()
	if r.Started != nil {
		r.Started(0, 0)
	}
	got, err := watch(ctx, r, call, done)
	parsed := r.heard(got)
	err = errors.Join(err, r.out.close())
	r.finish(parsed, true)
	return err
}

func (r *run) question() provider.Request {
	q := provider.Request{Model: r.Engine.Model, Messages: []provider.Message{provider.Text(provider.RoleUser, r.Prompt)}, Stream: true}
	if r.Engine.SupportsEffort {
		q.Effort = r.Engine.Effort
	}
	return q
}

// heard says what an answer amounts to, and puts its end into the log. Where a
// clock or the caller has ended it, there is what had come.
func (r *run) heard(got answered) Parsed {
	if r.reply.Ended != EndedExited {
		r.out.note("ended by ferry: " + string(r.reply.Ended))
		return r.out.parser.end()
	}
	var failed *provider.Error
	if errors.As(got.err, &failed) {
		r.reply.Exit = 1
		r.out.note("error: " + firstLine(failed.Error(), 500))
		f := failureOf(failed, r.out.now())
		return Parsed{Failure: &f}
	}
	r.reply.Exit = 0
	u := usageOf(got.result.Usage)
	r.out.note(fmt.Sprintf("tokens: %d in, %d out", u.TokensIn, u.TokensOut))
	text := strings.TrimSpace(got.result.Text)
	return Parsed{Text: text, Usage: u, Answered: text != ""}
}

func usageOf(u provider.Usage) ferry.Usage {
	out := ferry.Usage{Requests: 1, TokensIn: u.In, TokensOut: u.Out, CostMicroUSD: u.CostMicroUSD}
	if u.CostTold { // that it cost nothing is told as well
		out.CostSource = "engine"
	}
	return out
}

// failureOf is the error of an endpoint as the rules of faults see it. Where the
// endpoint told a status, they judge it as they do for a CLI.
func failureOf(e *provider.Error, now time.Time) Failure {
	f := Failure{Status: e.Status, Message: e.Message}
	if e.RetryAfter > 0 {
		f.Resets = now.Add(e.RetryAfter)
	}
	told := e.Status >= 400
	switch {
	case e.Class == provider.Budget:
		f.Class = FaultCredit
	case e.Class == provider.Silent:
		f.Class = FaultSilent
	case e.Empty:
		f.Class = FaultEmpty
	case e.Class == provider.Incomplete || e.Class == provider.Malformed || e.Class == provider.Transient && !told:
		f.Class = FaultEndpoint
	case e.Class == provider.Auth && !told:
		f.Class = FaultAuth
	case e.Class == provider.RateLimited && !told:
		f.Status = http.StatusTooManyRequests
	}
	return f
}

// answered is what came of a request.
type answered struct {
	result provider.Result
	err    error
}

// call is a request that is under way.
type call struct {
	kill context.CancelFunc
	out  *output

	mu   sync.Mutex
	shut chan struct{} // closed by the thaw; nil while nothing is frozen
}

func (c *call) ask(ctx context.Context, endpoint *provider.Client, q provider.Request) answered {
	res, err := endpoint.Stream(ctx, q, func(e provider.Event) {
		c.pass(ctx)
		if e.Kind != provider.EventText {
			c.out.alive()
			return
		}
		// It never fails.
		_, _ = stream{c.out, 0}.Write([]byte(e.Text))
	})
	return answered{res, err}
}

// pass waits while the call is frozen. Nothing is read then, and the endpoint
// waits as well when its buffers are full.
func (c *call) pass(ctx context.Context) {
	c.mu.Lock()
	shut := c.shut
	c.mu.Unlock()
	if shut == nil {
		return
	}
	select {
	case <-shut:
	case <-ctx.Done():
	}
}

// Kill ends the request.
func (c *call) Kill() error {
	c.kill()
	return nil
}

// Freeze stops the reading of the answer.
func (c *call) Freeze() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shut == nil {
		c.shut = make(chan struct{})
	}
	return nil
}

// Thaw continues it.
func (c *call) Thaw() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shut != nil {
		close(c.shut)
		c.shut = nil
	}
	return nil
}

package engines

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ferry-fleet/ferry/internal/provider"
	"github.com/ferry-fleet/ferry/internal/redact"
)

// State is what is known about an engine from its last probe.
type State string

// The states. Only an engine that has just answered is up.
const (
	StateUp        State = "up"
	StateDown      State = "down"
	StateUnknown   State = "unknown"
	StateExhausted State = "exhausted" // no money, or no quota until a reset
)

// What a probe has proven, where no answer was seen. An engine that is reachable
// only goes behind those that have answered; one that cannot be tried without a
// price is not held against.
const (
	ProofReachable = "reachable only"
	ProofNone      = "unprobed"
)

// The forms of Config.Probe.
const (
	ProbeChat   = "chat"
	ProbeModels = "models"
)

const (
	httpProbeClock   = 20 * time.Second
	cliProbeClock    = 45 * time.Second
	httpProbeEvery   = 10 * time.Minute
	cliProbeEvery    = 15 * time.Minute
	probePrompt      = "Reply with the single word: ok"
	maxProbeReason   = 500
	balanceClock     = 5 * time.Second
	responsesLeast   = 16 // tokens, below which the Responses wire refuses
	completionTokens = 1
)

// Proof is what a probe found.
type Proof struct {
	State State `json:"state"`
	// Proof says what was seen: "answered in 0.9 s", ProofReachable or ProofNone.
	Proof   string        `json:"proof,omitempty"`
	Reason  string        `json:"reason,omitempty"`
	Latency time.Duration `json:"latency,omitempty"`
	Balance *Balance      `json:"balance,omitempty"` // nil when not told
	Routes  []Route       `json:"routes,omitempty"`  // of a gateway
	At      time.Time     `json:"at,omitzero"`
	// Fault is what the probe met, for Health.Fail; nil when nothing is wrong.
	Fault *Fault `json:"-"`
}

// ProbeDeps are what a probe needs.
type ProbeDeps struct {
	Client *http.Client // nil makes one for the probe
	// Place is a run of this agent without an engine and a prompt: the box, the
	// environment and the prompt directory that a command is tried in.
	Place Request
	Now   func() time.Time
}

// Probe finds out whether an engine answers, within a minute and a half. A
// command without an endpoint is only looked for: running it costs a request.
func Probe(ctx context.Context, d ProbeDeps, c Config) Proof {
	if d.Client == nil {
		d.Client = provider.HTTPClient()
		defer d.Client.CloseIdleConnections()
	}
	p := probe{ProbeDeps: d, config: c}
	out := p.probe(ctx)
	out.At = d.Now()
	out.Reason = p.shown(out.Reason)
	return out
}

type probe struct {
	ProbeDeps

	config Config
}

func (p *probe) probe(ctx context.Context) Proof {
	if err := p.config.Check(); err != nil {
		return Proof{State: StateDown, Reason: err.Error()}
	}
	if p.config.BaseURL == "" {
		return p.look()
	}
	balance, empty := p.wallet(ctx)
	if empty {
		reason := fmt.Sprintf("the balance at %s is %s", p.config.Vendor(), balance)
		return Proof{State: StateExhausted, Reason: reason, Balance: balance, Fault: p.fault(FaultCredit, reason)}
	}
	out := p.try(ctx)
	out.Balance = balance
	return out
}

// look finds a command and leaves it alone.
func (p *probe) look() Proof {
	if _, err := Resolve(p.config.Command, pathOf(p.Place.Environ)); err != nil {
		return p.failed(p.fault(FaultMissing, err.Error()))
	}
	return Proof{State: StateUnknown, Proof: ProofNone}
}

func (p *probe) try(ctx context.Context) Proof {
	how := p.config.Probe
	switch {
	case how == ProbeModels:
		return p.list(ctx)
	case p.config.Kind == KindCLI:
		return p.command(ctx)
	case how == "" && p.config.Vendor() == ProviderOmniRoute:
		return p.list(ctx)
	}
	return p.complete(ctx)
}

// complete asks the endpoint for one token, in the way in which a run asks.
func (p *probe) complete(ctx context.Context) Proof {
	client, err := p.config.reach(p.Client, p.config.wire(), provider.Clocks{First: httpProbeClock, Idle: httpProbeClock}, p.Now)
	if err != nil {
		return Proof{State: StateDown, Reason: err.Error()}
	}
	limited, cancel := context.WithTimeout(ctx, httpProbeClock)
	defer cancel()
	q := provider.Request{
		Model: p.config.Model, Messages: []provider.Message{provider.Text(provider.RoleUser, probePrompt)},
		MaxTokens: completionTokens, Stream: true,
	}
	if p.config.wire() == provider.WireResponses {
		q.MaxTokens = responsesLeast
	}
	begin := p.Now()
	res, err := client.Stream(limited, q, nil)
	if err != nil {
		return p.refused(ctx, err, fmt.Sprintf("took the request but returned no completion within %s", httpProbeClock))
	}
	// One token may be a thought that nobody is shown.
	if res.Text == "" && res.Usage.Out == 0 && res.Stop != provider.StopLength {
		return p.failed(p.fault(FaultEmpty, "returned an empty completion"))
	}
	return p.answered(begin)
}

func (p *probe) answered(begin time.Time) Proof {
	took := p.Now().Sub(begin)
	return Proof{State: StateUp, Proof: fmt.Sprintf("answered in %.1f s", took.Seconds()), Latency: took}
}

// refused is the proof of a request that an error ended; late says what it means
// that a clock did.
func (p *probe) refused(ctx context.Context, err error, late string) Proof {
	if ctx.Err() != nil {
		return Proof{State: StateUnknown, Reason: "the probe was stopped"}
	}
	var e *provider.Error
	if !errors.As(err, &e) {
		return Proof{State: StateDown, Reason: err.Error()} // unreachable: the client makes no others
	}
	if e.Class == provider.Aborted || e.Class == provider.Silent {
		return p.failed(p.fault(FaultSilent, late))
	}
	f := failureFault(failureOf(e, p.Now()), true, p.Now())
	f.Engine = p.config.Name
	if hint := p.config.keyHint(); f.Class == FaultAuth && hint != "" {
		f.Reason += "; " + hint
	}
	return p.failed(f)
}

// list reads the models of the endpoint, which says nothing of what is behind it.
func (p *probe) list(ctx context.Context) Proof {
	client, err := p.config.reach(p.Client, p.config.wire(), provider.Clocks{}, p.Now)
	if err != nil {
		return Proof{State: StateDown, Reason: err.Error()}
	}
	limited, cancel := context.WithTimeout(ctx, httpProbeClock)
	defer cancel()
	begin := p.Now()
	models, err := client.Models(limited)
	if err != nil {
		return p.refused(ctx, err, fmt.Sprintf("did not list its models within %s", httpProbeClock))
	}
	out := Proof{State: StateUnknown, Proof: ProofReachable, Latency: p.Now().Sub(begin)}
	if p.config.Vendor() == ProviderOmniRoute {
		out.Routes = routes(limited, client, models)
	}
	if !lists(models, p.config.Model) {
		out.Reason = fmt.Sprintf("the list of models does not name %q", p.config.Model)
	}
	return out
}

func lists(models []provider.Model, name string) bool {
	for _, m := range models {
		if m.ID == name {
			return true
		}
	}
	return name == ""
}

// command runs the smallest prompt through the engine's command: what hangs may
// be the command and not what is behind it.
func (p *probe) command(ctx context.Context) Proof {
	req := p.Place
	req.Engine, req.Contract, req.Prompt = p.config, ContractOf(p.config.Command), probePrompt
	req.Timeout, req.Stall = cliProbeClock, cliProbeClock
	begin := p.Now()
	got := CLI{}.Run(ctx, req)
	late := fmt.Sprintf("the command returned no answer within %s", cliProbeClock)
	switch {
	case got.Ended == EndedCancelled:
		return Proof{State: StateUnknown, Reason: "the probe was stopped"}
	case got.Fault != nil && got.Fault.Class == FaultSilent:
		return p.failed(p.fault(FaultSilent, late))
	case got.Fault != nil:
		return p.failed(got.Fault)
	case got.Err != nil:
		return Proof{State: StateUnknown, Reason: "the probe could not run: " + got.Err.Error()}
	case got.Ended != EndedExited:
		return p.failed(p.fault(FaultSilent, late))
	case got.Exit != 0:
		return p.failed(p.fault(FaultEmpty, fmt.Sprintf("exit %d: %s", got.Exit, firstLine(cmp.Or(got.Text, got.Tail), 200))))
	case got.Text == "" && got.Usage.TokensOut == 0:
		return p.failed(p.fault(FaultEmpty, "the command ended without an answer"))
	}
	return p.answered(begin)
}

func (p *probe) fault(class Class, reason string) *Fault {
	return &Fault{Class: class, Reason: reason, Engine: p.config.Name}
}

// shown makes one redacted line of a text.
func (p *probe) shown(s string) string {
	return firstLine(redact.New(p.config.Secrets()).String(s), maxProbeReason)
}

func (p *probe) failed(f *Fault) Proof {
	redacted := *f
	redacted.Reason = p.shown(f.Reason)
	out := Proof{State: StateDown, Reason: redacted.Reason, Fault: &redacted}
	if f.Class == FaultCredit {
		out.State = StateExhausted
	}
	return out
}

// Due reports whether an engine is to be probed at now. While it rests it is left
// alone. When a rest has ended since its last probe it is probed at once.
func Due(last Proof, h Health, c Config, now time.Time) bool {
	every := httpProbeEvery
	if c.Kind == KindCLI {
		every = cliProbeEvery
	}
	switch {
	case h.Resting(now):
		return false
	case last.At.Before(h.Until):
		return true
	}
	// A clock that was set back must not keep an old proof for ever.
	age := now.Sub(last.At)
	return age >= every || age < 0
}

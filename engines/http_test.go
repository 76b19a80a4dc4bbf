package engines_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/engines/enginetest"
	"github.com/ferry-fleet/ferry/internal/modelserver"
	"github.com/google/go-cmp/cmp"
)

// wired is an engine behind an endpoint in memory.
type wired struct {
	server *modelserver.Server
	client *http.Client
	open   *atomic.Int64 // requests whose answer is not closed
	config engines.Config
}

// endpoint serves a script to an engine on a wire.
func endpoint(t *testing.T, wire string, script modelserver.Script) *wired {
	t.Helper()
	server, err := modelserver.New(script)
	if err != nil {
		t.Fatal(err)
	}
	client, stop := modelserver.Pipe(server)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	w := &wired{server: server, open: new(atomic.Int64), config: engines.Config{
		Name: "wired", Kind: engines.KindHTTP, BaseURL: "https://models.example/v1", Model: "m1", Wire: wire,
		Key: enginetest.Secret, KeyRef: "secret:WIRED", Timeout: time.Minute, Stall: 30 * time.Second,
	}}
	w.client = &http.Client{Transport: &counted{client.Transport, w.open}}
	return w
}

func (w *wired) run(t *testing.T, set func(*engines.Request)) engines.Reply {
	t.Helper()
	req := engines.Request{Engine: w.config, Prompt: "do it"}
	if set != nil {
		set(&req)
	}
	return engines.HTTP{Client: w.client}.Run(t.Context(), req)
}

// counted counts the requests that are under way.
type counted struct {
	http.RoundTripper

	open *atomic.Int64
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.RoundTripper.RoundTrip(r)
	if err == nil {
		c.open.Add(1)
		resp.Body = &countedBody{resp.Body, c.open}
	}
	return resp, err
}

type countedBody struct {
	io.ReadCloser

	open *atomic.Int64
}

func (b *countedBody) Close() error {
	b.open.Add(-1)
	return b.ReadCloser.Close()
}

// refuse is an address that nothing listens on.
type refuse struct{ err error }

func (r refuse) RoundTrip(*http.Request) (*http.Response, error) { return nil, r.err }

func behind(wire string) enginetest.Subject {
	play := func(t *testing.T, s enginetest.Scenario) enginetest.Case {
		step := map[enginetest.Scenario]modelserver.Step{
			enginetest.Answers: {Do: modelserver.DoText, Text: enginetest.Answer},
			enginetest.Refused: {Do: modelserver.DoError, Status: 402, Body: `{"error":{"message":"no credit for ` + enginetest.Secret + `"}}`},
			enginetest.Silent:  {Do: modelserver.DoHang},
			enginetest.Cut:     {Do: modelserver.DoCut, Text: "half of an answer of several words"},
			enginetest.Nothing: {Do: modelserver.DoEmpty},
			enginetest.Missing: {Do: modelserver.DoEmpty},
			enginetest.Leaks:   {Do: modelserver.DoText, Text: "the key is " + enginetest.Secret},
			enginetest.Floods:  {Do: modelserver.DoText, Text: strings.Repeat("a-long-word-of-a-flood-in-one-line", 10) + strings.Repeat(" word", 30_000)},
		}[s]
		w := endpoint(t, wire, modelserver.Script{Key: enginetest.Secret, Steps: []modelserver.Step{step}})
		client := w.client
		if s == enginetest.Missing {
			client = &http.Client{Transport: refuse{&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}}}
		}
		return enginetest.Case{
			Request: engines.Request{Engine: w.config, Prompt: "do it"}, Runner: engines.Own(client),
			Left: func(*testing.T) int { return int(w.open.Load()) },
		}
	}
	return enginetest.Subject{Play: play, Tells: true, Gone: engines.FaultEndpoint}
}

func TestConformanceHTTP(t *testing.T) {
	for _, wire := range []string{"chat", "responses", "anthropic"} {
		t.Run(wire, func(t *testing.T) { enginetest.Run(t, behind(wire)) })
	}
}

// TestHTTPFaults shows that an endpoint has the faults of a CLI by the same rules.
func TestHTTPFaults(t *testing.T) {
	fails := func(status int, body string, header ...string) modelserver.Step {
		s := modelserver.Step{Do: modelserver.DoError, Status: status, Body: body, Headers: map[string]string{}}
		for i := 0; i < len(header); i += 2 {
			s.Headers[header[i]] = header[i+1]
		}
		return s
	}
	for _, tt := range []struct {
		name  string
		step  modelserver.Step
		class engines.Class
		wait  time.Duration
		has   string // in the reason
	}{
		{"402", fails(402, ""), engines.FaultCredit, 0, "Payment Required"},
		{"no money, with another status", fails(400, `{"error":{"message":"Your credit balance is too low"}}`), engines.FaultCredit, 0, "credit balance"},
		{"no quota", fails(429, `{"error":{"message":"m","code":"insufficient_quota"}}`), engines.FaultCredit, 0, "m"},
		{"429", fails(429, ""), engines.FaultRate, 0, "Too Many Requests"},
		{"429 for a short time", fails(429, "", "Retry-After", "9"), engines.FaultRate, 9 * time.Second, "Too Many"},
		{"429 for a long time", fails(429, "", "Retry-After", "3600"), engines.FaultCredit, time.Hour, "Too Many"},
		{"429 until a reset", fails(429, "", "X-RateLimit-Reset", "7200", "X-RateLimit-Remaining", "0"), engines.FaultCredit, 2 * time.Hour, "Too Many"},
		{"429 with a time in words", fails(429, `{"error":{"message":"try again in 20 minutes"}}`), engines.FaultCredit, 20 * time.Minute, "try again"},
		{"401", fails(401, ""), engines.FaultAuth, 0, "Unauthorized; run `ferry secret set WIRED`"},
		{"403", fails(403, ""), engines.FaultAuth, 0, "Forbidden"},
		{"404", fails(404, ""), engines.FaultEndpoint, 0, "Not Found"},
		{"408", fails(408, ""), engines.FaultEndpoint, 0, "Request Timeout"},
		{"500", fails(500, ""), engines.FaultEndpoint, 0, "Internal Server Error"},
		{"503", fails(503, `{"error":"the model is being loaded"}`), engines.FaultEndpoint, 0, "loaded"},
		{"a bad request", fails(400, `{"error":{"message":"no such parameter"}}`), engines.FaultEmpty, 0, "no such parameter"},
		{"cut", modelserver.Step{Do: modelserver.DoCut}, engines.FaultEndpoint, 0, "closed before the answer was complete"},
		{"garbage", modelserver.Step{Do: modelserver.DoMalformed}, engines.FaultEndpoint, 0, "no chat chunk"},
		{"empty", modelserver.Step{Do: modelserver.DoEmpty}, engines.FaultEmpty, 0, "before the answer was complete"},
		{"reset", modelserver.Step{Do: modelserver.DoReset}, engines.FaultEndpoint, 0, "models.example"},
		{"silent", modelserver.Step{Do: modelserver.DoHang}, engines.FaultSilent, 0, "nothing for 30s"},
		{"silent behind the headers", modelserver.Step{Do: modelserver.DoHangMid}, engines.FaultSilent, 0, "nothing for 30s"},
		{"a web page", modelserver.Step{Do: modelserver.DoText, Headers: map[string]string{"Content-Type": "text/html"}}, "", 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := endpoint(t, "chat", modelserver.Script{Steps: []modelserver.Step{tt.step}})
				got := w.run(t, nil)
				f := engines.Fault{}
				if got.Fault != nil {
					f = *got.Fault
				}
				if f.Class != tt.class || f.RetryAfter != tt.wait || !strings.Contains(f.Reason, tt.has) || got.Err != nil {
					t.Errorf("fault %q after %s: %s; err %v", f.Class, f.RetryAfter, f.Reason, got.Err)
				}
			})
		})
	}
}

func TestHTTPNotThere(t *testing.T) {
	for name, err := range map[string]error{
		"refused": &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "no such host": &net.DNSError{Err: "no such host", Name: "models.example"},
		"certificate": errors.New("tls: failed to verify certificate"), "slow": &net.OpError{Op: "dial", Err: context.DeadlineExceeded},
	} {
		w := endpoint(t, "chat", modelserver.Script{Steps: []modelserver.Step{{Do: modelserver.DoText}}})
		w.client = &http.Client{Transport: refuse{err}}
		if got := w.run(t, nil); got.Fault == nil || got.Fault.Class != engines.FaultEndpoint || !strings.Contains(got.Fault.Reason, err.Error()) {
			t.Errorf("%s: fault %v", name, got.Fault)
		}
	}
}

// TestHTTPClocks shows that a slow answer lives as long as it comes, and what its
// end by the clock of the whole run is.
func TestHTTPClocks(t *testing.T) {
	words := strings.Repeat("word ", 10)
	for _, tt := range []struct {
		name    string
		delay   int // ms
		timeout time.Duration
		ended   engines.Ended
		fault   engines.Class
	}{
		{"slow", 7_000, time.Hour, engines.EndedExited, ""},
		{"too slow", 31_000, time.Hour, engines.EndedStalled, engines.FaultSilent},
		{"too long", 7_000, time.Minute, engines.EndedTimeout, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := endpoint(t, "chat", modelserver.Script{Steps: []modelserver.Step{{Do: modelserver.DoDrip, Text: words, DelayMS: tt.delay}}})
				got := w.run(t, func(r *engines.Request) { r.Timeout = tt.timeout })
				class := engines.Class("")
				if got.Fault != nil {
					class = got.Fault.Class
				}
				if got.Ended != tt.ended || class != tt.fault {
					t.Errorf("ended %s after %s, fault %v, text %q", got.Ended, got.Duration, got.Fault, got.Text)
				}
				if tt.ended == engines.EndedTimeout && !strings.HasPrefix(got.Text, "word word") {
					t.Errorf("what had come is lost: %q", got.Text)
				}
			})
		})
	}
}

func TestHTTPAsks(t *testing.T) {
	for _, tt := range []struct {
		name    string
		set     func(*engines.Config)
		want    string // in the request
		without string
	}{
		{"model and prompt", nil, `"content":"do it","role":"user"`, "reasoning_effort"},
		{"effort", func(c *engines.Config) { c.Effort, c.SupportsEffort = "high", true }, `"reasoning_effort":"high"`, "tools"},
		{"effort that it does not take", func(c *engines.Config) { c.Effort = "high" }, `"model":"m1"`, "reasoning_effort"},
		{"the wire of a provider", func(c *engines.Config) { c.Wire, c.Provider = "", engines.ProviderAnthropic }, `"max_tokens":8192`, "stream_options"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := endpoint(t, "", modelserver.Script{Key: enginetest.Secret, Steps: []modelserver.Step{{Do: modelserver.DoText, Text: "yes"}}})
			if tt.set != nil {
				tt.set(&w.config)
			}
			got := w.run(t, nil)
			if got.Text != "yes" || got.Fault != nil || len(w.server.Journal()) != 1 {
				t.Fatalf("text %q, fault %v, err %v, %d requests", got.Text, got.Fault, got.Err, len(w.server.Journal()))
			}
			if body := w.server.Journal()[0].Body; !strings.Contains(body, tt.want) || strings.Contains(body, tt.without) {
				t.Errorf("asked %s", body)
			}
		})
	}
}

func TestHTTPCost(t *testing.T) {
	for told, want := range map[string]ferry.Usage{
		"":       {Requests: 1, TokensIn: 100, TokensOut: 10},
		"0":      {Requests: 1, TokensIn: 100, TokensOut: 10, CostSource: "engine"},
		"0.0125": {Requests: 1, TokensIn: 100, TokensOut: 10, CostSource: "engine", CostMicroUSD: 12_500},
	} {
		w := endpoint(t, "", modelserver.Script{Steps: []modelserver.Step{{Do: modelserver.DoText, Text: "yes", Headers: map[string]string{"X-OmniRoute-Response-Cost": told}}}})
		w.config.BaseURL = "http://localhost:20128/v1"
		if d := cmp.Diff(want, w.run(t, nil).Usage); d != "" {
			t.Errorf("%q (-want +got):\n%s", told, d)
		}
	}
}

func TestHTTPRefusesConfig(t *testing.T) {
	w := endpoint(t, "", modelserver.Script{Steps: []modelserver.Step{{Do: modelserver.DoText}}})
	w.config.Wire = "soap"
	got := w.run(t, nil)
	if got.Ended != engines.EndedStartError || got.Err == nil || got.Fault != nil || !strings.Contains(got.Err.Error(), `wire "soap" is unknown`) {
		t.Errorf("ended %s, fault %v, err %v", got.Ended, got.Fault, got.Err)
	}
}

// TestRunners shows that the kind of the engine chooses the runner.
func TestRunners(t *testing.T) {
	rs := engines.Own(nil)
	rs[engines.KindNative] = native{}
	req := engines.Request{Engine: engines.Config{Name: "n", Kind: engines.KindNative}}
	if got := rs.Run(t.Context(), req); got.Text != "native" {
		t.Errorf("text %q, err %v", got.Text, got.Err)
	}
	got := engines.Run(t.Context(), req)
	if got.Ended != engines.EndedStartError || got.Err == nil || fmt.Sprint(got.Err) != `engine n: kind "native" cannot be run here` {
		t.Errorf("ended %s, err %v", got.Ended, got.Err)
	}
}

type native struct{}

func (native) Run(context.Context, engines.Request) engines.Reply {
	return engines.Reply{Text: "native"}
}

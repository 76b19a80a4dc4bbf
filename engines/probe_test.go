package engines_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/engines/enginetest"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/modelserver"
	"github.com/ferry-fleet/ferry/internal/process"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// probed tries the engine of a server in the time of a bubble.
func (w *wired) probed(t *testing.T) engines.Proof {
	t.Helper()
	got := engines.Probe(t.Context(), engines.ProbeDeps{Client: w.client, Now: time.Now}, w.config)
	if data, err := json.Marshal(got); err != nil || strings.Contains(string(data)+fmt.Sprint(got.Fault), enginetest.Secret) {
		t.Errorf("err %v, proof %s", err, data)
	}
	if n := w.open.Load(); n != 0 {
		t.Errorf("%d requests are open", n)
	}
	return got
}

func TestProbeHTTP(t *testing.T) {
	fails := func(status int, body string) modelserver.Step {
		return modelserver.Step{Do: modelserver.DoError, Status: status, Body: body}
	}
	for _, tt := range []struct {
		name  string
		step  modelserver.Step
		set   func(*engines.Config)
		want  engines.Proof
		class engines.Class
	}{
		{"answers", modelserver.Step{Do: modelserver.DoDrip, Text: "ok", DelayMS: 180}, nil, engines.Proof{State: engines.StateUp, Proof: "answered in 0.9 s", Latency: 900 * time.Millisecond}, ""},
		{"hangs", modelserver.Step{Do: modelserver.DoHang}, nil, engines.Proof{State: engines.StateDown, Reason: "took the request but returned no completion within 20s"}, engines.FaultSilent},
		{"hangs behind the headers", modelserver.Step{Do: modelserver.DoHangMid}, nil, engines.Proof{State: engines.StateDown, Reason: "took the request but returned no completion within 20s"}, engines.FaultSilent},
		{"drips for too long", modelserver.Step{Do: modelserver.DoDrip, Text: "a b c", DelayMS: 9000}, nil, engines.Proof{State: engines.StateDown, Reason: "took the request but returned no completion within 20s"}, engines.FaultSilent},
		{"nothing", modelserver.Step{Do: modelserver.DoEmpty}, nil, engines.Proof{State: engines.StateDown, Reason: "the connection closed before the answer was complete"}, engines.FaultEmpty},
		{"no credit", fails(402, `{"error":{"message":"no credit for `+enginetest.Secret+`"}}`), nil, engines.Proof{State: engines.StateExhausted, Reason: "no credit for [redacted secret]"}, engines.FaultCredit},
		{"a wrong key", fails(401, ""), nil, engines.Proof{State: engines.StateDown, Reason: "Unauthorized; run `ferry secret set WIRED` with a key that it takes"}, engines.FaultAuth},
		{"a key that is not there", fails(401, ""), func(c *engines.Config) { c.Key, c.KeyRef = "", "" }, engines.Proof{State: engines.StateDown, Reason: `Unauthorized; name its key in agent.toml: key = "secret:NAME"`}, engines.FaultAuth},
		{"an error of several lines", fails(500, `{"error":"one\ntwo"}`), nil, engines.Proof{State: engines.StateDown, Reason: "one …"}, engines.FaultEndpoint},
		{"a listed model that is not there", fails(404, ""), nil, engines.Proof{State: engines.StateDown, Reason: "Not Found"}, engines.FaultEndpoint},
		{"models only", modelserver.Step{Do: modelserver.DoHang}, func(c *engines.Config) { c.Probe, c.Model = engines.ProbeModels, "scripted" }, engines.Proof{State: engines.StateUnknown, Proof: engines.ProofReachable}, ""},
		{"models only, and not this one", modelserver.Step{Do: modelserver.DoHang}, func(c *engines.Config) { c.Probe = engines.ProbeModels }, engines.Proof{State: engines.StateUnknown, Proof: engines.ProofReachable, Reason: `the list of models does not name "m1"`}, ""},
		{"settings that are wrong", modelserver.Step{Do: modelserver.DoHang}, func(c *engines.Config) { c.Model = "" }, engines.Proof{State: engines.StateDown, Reason: "engine wired: model is empty: name the model that the endpoint is asked for"}, ""},
		{"a wire that is wrong", modelserver.Step{Do: modelserver.DoHang}, func(c *engines.Config) { c.Wire = "soap" }, engines.Proof{State: engines.StateDown, Reason: `wire "soap" is unknown: use one of chat, responses, anthropic`}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := endpoint(t, "chat", modelserver.Script{Steps: []modelserver.Step{tt.step}})
				if tt.set != nil {
					tt.set(&w.config)
				}
				got := w.probed(t)
				checkProof(t, tt.want, tt.class, got)
			})
		})
	}
}

func checkProof(t *testing.T, want engines.Proof, class engines.Class, got engines.Proof) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(engines.Proof{}, "At", "Fault")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	has := engines.Class("")
	if got.Fault != nil {
		has = got.Fault.Class
	}
	if has != class || got.At.IsZero() {
		t.Errorf("fault %v, want %q; at %s", got.Fault, class, got.At)
	}
}

func TestProbeAsksForOneToken(t *testing.T) {
	for wire, want := range map[string]string{"chat": `"max_tokens":1,`, "anthropic": `"max_tokens":1,`, "responses": `"max_output_tokens":16,`} {
		w := endpoint(t, wire, modelserver.Script{Key: enginetest.Secret, Steps: []modelserver.Step{{Do: modelserver.DoText, Text: "ok"}}})
		if got := w.probed(t); got.State != engines.StateUp {
			t.Errorf("%s: %+v", wire, got)
		}
		if body := w.server.Journal()[0].Body; !strings.Contains(body, want) || !strings.Contains(body, `"stream":true`) {
			t.Errorf("%s: asked %s", wire, body)
		}
	}
}

func TestProbeNotThere(t *testing.T) {
	w := endpoint(t, "chat", modelserver.Script{Steps: []modelserver.Step{{Do: modelserver.DoHang}}})
	w.client = &http.Client{Transport: refuse{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}}
	checkProof(t, engines.Proof{State: engines.StateDown, Reason: "models.example: dial: connection refused"}, engines.FaultEndpoint, w.probed(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := engines.Probe(ctx, engines.ProbeDeps{Client: w.client, Now: time.Now}, w.config)
	checkProof(t, engines.Proof{State: engines.StateUnknown, Reason: "the probe was stopped"}, "", got)
}

// TestProbeWallet shows that an empty wallet is known before anything is asked of
// the model, and that a wallet which cannot be read says nothing.
func TestProbeWallet(t *testing.T) {
	deepSeek := func(doc string) map[string]json.RawMessage {
		return map[string]json.RawMessage{"/user/balance": json.RawMessage(doc)}
	}
	credits := func(doc string) map[string]json.RawMessage {
		return map[string]json.RawMessage{"/api/v1/credits": json.RawMessage(doc)}
	}
	usd := func(micro int64) *engines.Balance { return &engines.Balance{Micro: micro, Currency: "USD"} }
	const deep, router = "https://api.deepseek.com", "https://openrouter.ai/api/v1"
	for _, tt := range []struct {
		name, url, model string
		docs             map[string]json.RawMessage
		state            engines.State
		want             *engines.Balance
		reason           string
	}{
		{"deepseek", deep, "m", deepSeek(`{"is_available":true,"balance_infos":[{"currency":"USD","total_balance":"1.25"}]}`), engines.StateUp, usd(1_250_000), ""},
		{"deepseek, in another currency", deep, "m", deepSeek(`{"is_available":true,"balance_infos":[{"currency":"USD","total_balance":"0.00"},{"currency":"CNY","total_balance":"9"}]}`), engines.StateUp, &engines.Balance{Micro: 9_000_000, Currency: "CNY"}, ""},
		{"deepseek, empty", deep, "m", deepSeek(`{"is_available":false,"balance_infos":[{"currency":"USD","total_balance":"0.00"}]}`), engines.StateExhausted, usd(0), "the balance at deepseek is 0.00 USD"},
		{"deepseek, not available", deep, "m", deepSeek(`{"is_available":false,"balance_infos":[{"currency":"USD","total_balance":"0.01"}]}`), engines.StateExhausted, usd(10_000), "the balance at deepseek is 0.01 USD"},
		{"deepseek, another shape", deep, "m", deepSeek(`{"balance":0}`), engines.StateUp, nil, ""},
		{"deepseek, not to be read", deep, "m", nil, engines.StateUp, nil, ""},
		{"openrouter", router, "m", credits(`{"data":{"total_credits":10,"total_usage":7.5}}`), engines.StateUp, usd(2_500_000), ""},
		{"openrouter, empty", router, "m", credits(`{"data":{"total_credits":10,"total_usage":10}}`), engines.StateExhausted, usd(0), "the balance at openrouter is 0.00 USD"},
		{"openrouter, empty and free", router, "m:free", credits(`{"data":{"total_credits":0,"total_usage":0}}`), engines.StateUp, usd(0), ""},
		{"openrouter, in debt and free", router, "m:free", credits(`{"data":{"total_credits":0,"total_usage":1}}`), engines.StateExhausted, usd(-1_000_000), "the balance at openrouter is -1.00 USD"},
		{"nobody's", "https://models.example/v1", "m", deepSeek(`{"is_available":false,"balance_infos":[{"currency":"USD","total_balance":"0"}]}`), engines.StateUp, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := endpoint(t, "", modelserver.Script{Key: enginetest.Secret, Documents: tt.docs, Steps: []modelserver.Step{{Do: modelserver.DoText, Text: "ok"}}})
			w.config.BaseURL, w.config.Model = tt.url, tt.model
			got := w.probed(t)
			if d := cmp.Diff(tt.want, got.Balance); got.State != tt.state || got.Reason != tt.reason || d != "" {
				t.Errorf("%s %q (-want +got):\n%s", got.State, got.Reason, d)
			}
			if asked := w.server.Requests(); (asked == 0) != (tt.state == engines.StateExhausted) {
				t.Errorf("the model was asked %d times", asked)
			}
		})
	}
}

// TestProbeKeyWallet reads what is left of a key that may not read the account.
func TestProbeKeyWallet(t *testing.T) {
	for doc, want := range map[string]engines.State{
		`{"data":{"limit_remaining":0}}`: engines.StateExhausted, `{"data":{"limit_remaining":0.5}}`: engines.StateUp, `{"data":{"limit_remaining":null}}`: engines.StateUp,
	} {
		w := endpoint(t, "", modelserver.Script{Documents: map[string]json.RawMessage{"/api/v1/key": json.RawMessage(doc)}, Steps: []modelserver.Step{{Do: modelserver.DoText, Text: "ok"}}})
		w.config.BaseURL = "https://openrouter.ai/api/v1"
		w.client = &http.Client{Transport: forbid{w.client.Transport, "/api/v1/credits"}}
		if got := w.probed(t); got.State != want {
			t.Errorf("%s: %+v", doc, got)
		}
	}
}

// forbid is an endpoint with a path that the key may not read.
type forbid struct {
	http.RoundTripper

	path string
}

func (f forbid) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == f.path {
		return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	}
	return f.RoundTripper.RoundTrip(r)
}

func TestProbeOmniRoute(t *testing.T) {
	docs := map[string]json.RawMessage{
		"/v1/models":  json.RawMessage(`{"data":[{"id":"free-stack","owned_by":"combo"},{"id":"mixed","owned_by":"combo"},{"id":"nvidia/nemotron:free","owned_by":"nvidia"},{"id":"cc/opus","owned_by":"cc"}]}`),
		"/api/combos": json.RawMessage(`{"combos":[{"name":"free-stack","models":["nvidia/nemotron:free",{"kind":"model","model":"glm/flash:free","weight":1},{"kind":"combo-ref","comboName":"other"}]},{"name":"mixed","models":["cc/opus",{"kind":"unheard-of"}]}]}`),
	}
	routes := []engines.Route{
		{Name: "free-stack", Combo: true, Steps: []string{"nvidia/nemotron:free", "glm/flash:free", "other"}},
		{Name: "mixed", Combo: true}, {Name: "nvidia/nemotron:free"},
	}
	for _, tt := range []struct {
		name string
		set  func(*engines.Config)
		want engines.Proof
	}{
		{"by its port", func(c *engines.Config) { c.BaseURL = "http://localhost:20128/v1" }, engines.Proof{State: engines.StateUnknown, Proof: engines.ProofReachable, Routes: routes}},
		{"by its name", func(c *engines.Config) { c.Provider, c.Model = engines.ProviderOmniRoute, "gone" }, engines.Proof{State: engines.StateUnknown, Proof: engines.ProofReachable, Routes: routes, Reason: `the list of models does not name "gone"`}},
		{"asked", func(c *engines.Config) { c.Provider, c.Probe = engines.ProviderOmniRoute, engines.ProbeChat }, engines.Proof{State: engines.StateUp, Proof: "answered in 0.0 s"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := endpoint(t, "", modelserver.Script{Key: enginetest.Secret, Documents: docs, Steps: []modelserver.Step{{Do: modelserver.DoText, Text: "ok"}}})
				w.config.Model = "free-stack"
				tt.set(&w.config)
				checkProof(t, tt.want, "", w.probed(t))
			})
		})
	}
}

func TestProbeCLI(t *testing.T) {
	asks := enginetest.Step{Shell: `[ "$2" = "Reply with the single word: ok" ] || exit 9`}
	for _, tt := range []struct {
		name  string
		url   string
		steps []enginetest.Step
		gone  bool
		state engines.State
		has   string // in the proof or the reason
		class engines.Class
	}{
		{"answers", "https://models.example/v1", []enginetest.Step{asks, {Print: "ok"}}, false, engines.StateUp, "answered in ", ""},
		{"fails", "https://models.example/v1", []enginetest.Step{asks, {Print: "the shim is broken"}, {Exit: 4}}, false, engines.StateDown, "exit 4: the shim is broken", engines.FaultEmpty},
		{"says nothing", "https://models.example/v1", []enginetest.Step{asks}, false, engines.StateDown, "ended without an answer", engines.FaultEmpty},
		{"no credit", "https://models.example/v1", []enginetest.Step{asks, {PrintErr: "Insufficient credits"}, {Exit: 1}}, false, engines.StateExhausted, "Insufficient credits", engines.FaultCredit},
		{"missing", "https://models.example/v1", nil, true, engines.StateDown, "command is missing", engines.FaultMissing},
		{"without an endpoint", "", []enginetest.Step{{Shell: "touch was-run"}}, false, engines.StateUnknown, engines.ProofNone, ""},
		{"without an endpoint, missing", "", nil, true, engines.StateDown, "command is missing", engines.FaultMissing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			place := request(t, box.LevelNone, "my-agent", tt.steps...)
			config := place.Engine
			config.BaseURL = tt.url
			if tt.gone {
				if err := os.Remove(config.Command); err != nil {
					t.Fatal(err)
				}
			}
			got := engines.Probe(t.Context(), engines.ProbeDeps{Client: &http.Client{}, Place: place, Now: time.Now}, config)
			class := engines.Class("")
			if got.Fault != nil {
				class = got.Fault.Class
			}
			if got.State != tt.state || class != tt.class || !strings.Contains(got.Proof+got.Reason, tt.has) {
				t.Errorf("proof %+v, fault %v", got, got.Fault)
			}
			if files, err := os.ReadDir(place.Box.Work); err != nil || len(files) != 0 {
				t.Errorf("the command was run: %v, err %v", files, err)
			}
			if n, err := process.Sweep(place.Box.Mark); n != 0 || err != nil {
				t.Errorf("%d processes survived, err %v", n, err)
			}
		})
	}
}

func TestDue(t *testing.T) {
	at := func(d time.Duration) time.Time { return testNow.Add(d) }
	http, cli := engines.Config{Kind: engines.KindHTTP}, engines.Config{Kind: engines.KindCLI}
	rest := engines.Health{}.Fail(at(0), engines.Fault{Class: engines.FaultSilent}) // for 15 minutes
	for _, tt := range []struct {
		name string
		last time.Time
		h    engines.Health
		c    engines.Config
		now  time.Time
		want bool
	}{
		{"never", time.Time{}, engines.Health{}, http, at(0), true},
		{"http, soon", at(0), engines.Health{}, http, at(10*time.Minute - 1), false},
		{"http, late", at(0), engines.Health{}, http, at(10 * time.Minute), true},
		{"cli, soon", at(0), engines.Health{}, cli, at(15*time.Minute - 1), false},
		{"cli, late", at(0), engines.Health{}, cli, at(15 * time.Minute), true},
		{"while it rests", time.Time{}, rest, http, at(15*time.Minute - 1), false},
		{"at once when the rest ends", at(-time.Minute), rest, cli, at(15 * time.Minute), true},
		{"not again after the rest", at(15 * time.Minute), rest, cli, at(16 * time.Minute), false},
		{"at once when the rest is lifted", at(-time.Minute), rest.Lift(at(2 * time.Minute)), cli, at(2 * time.Minute), true},
		{"lifting what does not rest", at(0), engines.Health{}.Lift(at(time.Minute)), cli, at(time.Minute), false},
		{"a clock that was set back", at(time.Hour), engines.Health{}, cli, at(0), true},
	} {
		if got := engines.Due(engines.Proof{At: tt.last}, tt.h, tt.c, tt.now); got != tt.want {
			t.Errorf("%s: Due() = %v, want %v", tt.name, got, tt.want)
		}
	}
	if got := rest.Lift(at(time.Minute)); got.Resting(at(time.Minute)) || got.Failures != 1 {
		t.Errorf("Lift() = %+v", got)
	}
}

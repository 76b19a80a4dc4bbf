package provider_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ferry-fleet/ferry/internal/modelserver"
	"github.com/ferry-fleet/ferry/internal/provider"
	"github.com/google/go-cmp/cmp"
)

// play asks a scripted server on a wire, with a tool on offer.
func play(t *testing.T, wire string, stream bool, step modelserver.Step) (provider.Result, error) {
	t.Helper()
	s, err := modelserver.New(modelserver.Script{Key: key, Usage: modelserver.Usage{In: 7, Out: 3, Cached: 2}, Steps: []modelserver.Step{step}})
	if err != nil {
		t.Fatal(err)
	}
	h, stop := modelserver.Pipe(s)
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	c, err := provider.New(provider.Config{Wire: wire, BaseURL: "https://models.example", Key: key, HTTP: h, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return c.Stream(t.Context(), provider.Request{
		Model: "m", Messages: []provider.Message{provider.Text(provider.RoleUser, "hi")}, Stream: stream,
		Tools: []provider.Tool{{Name: "bash", Schema: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`)}},
	}, nil)
}

// TestModelServer plays the scripted server of the agent CLIs on every wire.
func TestModelServer(t *testing.T) {
	const streamed, whole = "streamed", "not streamed"
	for _, tt := range []struct {
		name  string
		step  modelserver.Step
		how   string // "" for both
		text  string
		calls string
		class provider.Class
	}{
		{"text", modelserver.Step{Do: "text", Text: "all is well"}, "", "all is well", "", ""},
		{"call", modelserver.Step{Do: "shell", Cmd: "ls"}, "", "", `bash {"command":"ls"}`, ""},
		{"drip", modelserver.Step{Do: "drip", Text: "a b c", DelayMS: 50_000}, streamed, "a b c", "", ""},
		{"cut", modelserver.Step{Do: "cut"}, streamed, "", "", provider.Incomplete},
		{"garbage", modelserver.Step{Do: "malformed"}, streamed, "", "", provider.Malformed},
		{"empty", modelserver.Step{Do: "empty"}, "", "", "", provider.Incomplete},
		{"reset", modelserver.Step{Do: "reset"}, "", "", "", provider.Transient},
		{"silent", modelserver.Step{Do: "hang"}, "", "", "", provider.Silent},
		{"silent in the middle", modelserver.Step{Do: "hang_mid"}, streamed, "", "", provider.Silent},
		{"a stream that nobody asked for", modelserver.Step{Do: "hang_mid"}, whole, "", "", provider.Silent},
		{"no money", modelserver.Step{Do: "error", Status: 402}, "", "", "", provider.Budget},
		{"too many", modelserver.Step{Do: "error", Status: 429}, "", "", "", provider.RateLimited},
		{"out of order", modelserver.Step{Do: "error", Status: 503}, "", "", "", provider.Transient},
	} {
		for _, how := range []string{streamed, whole} {
			if tt.how != "" && tt.how != how {
				continue
			}
			for _, wire := range provider.Wires() {
				t.Run(tt.name+"/"+how+"/"+wire, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						got, err := play(t, wire, how == streamed, tt.step)
						calls := ""
						for _, c := range got.Calls {
							calls += c.Name + " " + string(c.Input)
						}
						if class(err) != tt.class || got.Text != tt.text || calls != tt.calls {
							t.Errorf("text %q, calls %q, err %v", got.Text, calls, err)
						}
						want := provider.Usage{In: 7, Out: 3, Cached: 2}
						if wire == provider.WireAnthropic { // counts the cached apart
							want.In = 9
						}
						if d := cmp.Diff(want, got.Usage); d != "" && tt.class == "" {
							t.Errorf("(-want +got):\n%s", d)
						}
					})
				})
			}
		}
	}
}

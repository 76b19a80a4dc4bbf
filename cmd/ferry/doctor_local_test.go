package main

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
)

// answers are model servers without a network: what each port says.
type answers map[string]struct {
	status int
	body   string
}

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Hostname() != "127.0.0.1" || r.URL.Path != "/v1/models" || r.Method != http.MethodGet {
		return nil, errors.New("asked for " + r.Method + " " + r.URL.String())
	}
	s, ok := a[r.URL.Port()]
	if !ok {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: s.status, Body: io.NopCloser(strings.NewReader(s.body)), Request: r}, nil
}

func TestCheckLocalModels(t *testing.T) {
	const two = `{"data":[{"id":"text-embedding-x"},{"id":"qwen2.5-coder"}]}`
	type server = struct {
		status int
		body   string
	}
	for _, tt := range []struct {
		name   string
		c      config
		server answers
		want   []checkShape
	}{
		{"none", config{}, answers{}, nil},
		{"another program", config{}, answers{"1234": server{404, "no"}, "11434": server{200, "<html>"}}, nil},
		{"one", config{}, answers{"11434": server{200, two}}, []checkShape{{
			"Ollama", statusOK, "it answers on port 11434, with 2 models",
			"add to agent.toml: engines = [\"ollama\"]\n[engine.ollama]\nbase_url = \"http://localhost:11434/v1\"\nmodel = \"qwen2.5-coder\"",
		}}},
		{"beside a command", config{Command: "/opt/codex"}, answers{"1234": server{200, `{"data":[]}`}}, []checkShape{{
			"LM Studio", statusOK, "it answers on port 1234, with 0 models",
			"add to agent.toml: engines = [\"codex\", \"lmstudio\"]\n[engine.lmstudio]\nbase_url = \"http://localhost:1234/v1\"\nmodel = \"NAME-OF-A-MODEL\"",
		}}},
		{"in use", config{Engines: []ferry.EngineName{"mine"}, Engine: map[ferry.EngineName]*engineTable{"mine": {BaseURL: "http://localhost:1234/v1"}}},
			answers{"1234": server{200, two}}, []checkShape{{"LM Studio", statusOK, "it answers on port 1234, with 2 models, and is engine mine", ""}}},
		{"gateway that wants a key", config{Engines: []ferry.EngineName{"a"}}, answers{"20128": server{401, ""}}, []checkShape{{
			"OmniRoute", statusOK, "it answers on port 20128, with 0 models",
			"add to agent.toml: engines = [\"a\", \"omniroute\"]\n[engine.omniroute]\nbase_url = \"http://localhost:20128/v1\"\nmodel = \"NAME-OF-A-MODEL\"\nprovider = \"omniroute\"",
		}}},
		{"list without an end", config{}, answers{"1234": server{200, `{"data":[` + strings.Repeat(`{"id":"x"},`, 50_000)}}, nil},
	} {
		d := &doctor{at: place{config: tt.c}, look: &http.Client{Transport: tt.server}}
		d.checkLocalModels(t.Context())
		if diff := cmp.Diff(tt.want, d.shape.Checks); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		for _, c := range d.shape.Checks {
			lines := strings.TrimPrefix(c.Fix, "add to agent.toml: ")
			var got config
			if err := parseConfig(&got, "agent.toml", []byte("command = \"c\"\n"+lines)); err != nil {
				t.Errorf("%s: what is to be added is no agent.toml: %v", tt.name, err)
			}
		}
	}
}

// TestLookStaysHere asks for what is not this machine.
func TestLookStaysHere(t *testing.T) {
	for _, url := range []string{"http://192.0.2.1/v1/models", "http://localhost:1/v1/models", "http://[::1]:1/v1/models"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := lookClient().Do(req)
		if err == nil {
			reply.Body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "is not this machine") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

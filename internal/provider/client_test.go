package provider_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ferry-fleet/ferry/internal/provider"
	"github.com/google/go-cmp/cmp"
)

// conversation has one block of every kind.
func conversation(field string) []provider.Message {
	return []provider.Message{
		provider.Text(provider.RoleSystem, "be brief"), provider.Text(provider.RoleUser, "hi"),
		{Role: provider.RoleAssistant, Blocks: []provider.Block{
			{Reason: &provider.Reason{Text: "hm", Field: field, Opaque: `{"type":"reasoning","id":"r1"}`}}, {Text: "I look"},
			{Call: &provider.Call{ID: "c1", Name: "ls", Raw: `{"x":1}`, Input: json.RawMessage(`{"x":1}`)}},
			{Call: &provider.Call{ID: "c2", Raw: `{"x"`, Fault: provider.CallMalformed}},
		}},
		{Role: provider.RoleTool, Blocks: []provider.Block{{Answer: &provider.Answer{CallID: "c1", Text: "a.txt"}}, {Answer: &provider.Answer{CallID: "c2", Text: "no", Failed: true}}}},
		provider.Text(provider.RoleUser, "and?"),
	}
}

func TestRequests(t *testing.T) {
	for _, tt := range []struct{ wire, field, url, header, want string }{
		{"chat", "reasoning_content", "https://models.example/v1/chat/completions", "Authorization: Bearer " + key, `{
			"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":5,"reasoning_effort":"high",
			"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"},
				{"role":"assistant","content":"I look","reasoning_content":"hm","tool_calls":[
					{"id":"c1","type":"function","function":{"name":"ls","arguments":"{\"x\":1}"}},
					{"id":"c2","type":"function","function":{"name":"unnamed","arguments":"{\"unparsed\":\"{\\\"x\\\"\"}"}}]},
				{"role":"tool","tool_call_id":"c1","content":"a.txt"},{"role":"tool","tool_call_id":"c2","content":"no"},{"role":"user","content":"and?"}],
			"tools":[{"type":"function","function":{"name":"cat","description":"","parameters":{"type":"object","properties":{}}}},
				{"type":"function","function":{"name":"ls","description":"lists","parameters":{"type":"object"}}}]}`},
		{"responses", "reasoning_item", "https://models.example/v1/responses", "Authorization: Bearer " + key, `{
			"model":"m","stream":true,"store":false,"max_output_tokens":5,"reasoning":{"effort":"high"},"include":["reasoning.encrypted_content"],"instructions":"be brief",
			"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]},{"type":"reasoning","id":"r1"},
				{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look"}]},
				{"type":"function_call","call_id":"c1","name":"ls","arguments":"{\"x\":1}"},
				{"type":"function_call","call_id":"c2","name":"unnamed","arguments":"{\"unparsed\":\"{\\\"x\\\"\"}"},
				{"type":"function_call_output","call_id":"c1","output":"a.txt"},{"type":"function_call_output","call_id":"c2","output":"no"},
				{"type":"message","role":"user","content":[{"type":"input_text","text":"and?"}]}],
			"tools":[{"type":"function","name":"cat","description":"","parameters":{"type":"object","properties":{}},"strict":false},
				{"type":"function","name":"ls","description":"lists","parameters":{"type":"object"},"strict":false}]}`},
		{"anthropic", "thinking", "https://models.example/v1/messages", "X-Api-Key: " + key, `{
			"model":"m","stream":true,"max_tokens":5,"output_config":{"effort":"high"},"system":"be brief",
			"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]},
				{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"{\"type\":\"reasoning\",\"id\":\"r1\"}"},{"type":"text","text":"I look"},
					{"type":"tool_use","id":"c1","name":"ls","input":{"x":1}},{"type":"tool_use","id":"c2","name":"unnamed","input":{"unparsed":"{\"x\""}}]},
				{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"a.txt"},{"type":"tool_result","tool_use_id":"c2","content":"no","is_error":true},{"type":"text","text":"and?"}]}],
			"tools":[{"name":"cat","description":"","input_schema":{"type":"object","properties":{}}},{"name":"ls","description":"lists","input_schema":{"type":"object"}}]}`},
	} {
		t.Run(tt.wire, func(t *testing.T) {
			h := &endpoint{replies: []reply{{status: 500}}}
			c := client(t, tt.wire, h)
			req := provider.Request{
				Model: "m", Messages: conversation(tt.field), MaxTokens: 5, Effort: "high", Stream: true,
				Tools: []provider.Tool{{Name: "ls", Description: "lists", Schema: json.RawMessage(`{"type":"object"}`)}, {Name: "cat"}},
			}
			if _, err := c.Stream(t.Context(), req, nil); err == nil {
				t.Fatal("a status of 500 is no error")
			}
			var want map[string]any
			if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, h.asked[0].Body); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			name, value, _ := strings.Cut(tt.header, ": ")
			if got := h.asked[0]; got.URL != tt.url || got.Header.Get(name) != value || len(h.asked) != 1 {
				t.Errorf("asked %d times, %s with %s %q", len(h.asked), got.URL, name, got.Header.Get(name))
			}
			// What came from another wire stays where it is.
			req.Messages = conversation("of another wire")
			if _, err := c.Stream(t.Context(), req, nil); err == nil {
				t.Fatal("a status of 500 is no error")
			}
			if data, err := json.Marshal(h.asked[1].Body); err != nil || strings.Contains(string(data), "hm") {
				t.Errorf("err %v, asked %s", err, data)
			}
		})
	}
}

// TestRefusedFields shows that a field which the endpoint refuses by name is left
// out, and stays out.
func TestRefusedFields(t *testing.T) {
	no := func(field string) reply {
		return reply{status: 400, body: `{"error":{"message":"Unsupported parameter: '` + field + `'"}}`}
	}
	h := &endpoint{replies: []reply{no("stream_options"), no("reasoning_effort"), no("max_tokens"), {body: events(`{"choices":[{"delta":{"content":"a"}}]}`, `[DONE]`)}}}
	c := client(t, "chat", h)
	req := provider.Request{Model: "m", Messages: conversation(""), MaxTokens: 5, Effort: "high", Stream: true}
	for range 2 {
		if res, err := c.Stream(t.Context(), req, nil); err != nil || res.Text != "a" {
			t.Fatalf("text %q, err %v", res.Text, err)
		}
	}
	if len(h.asked) != 5 {
		t.Errorf("asked %d times", len(h.asked))
	}
	for _, a := range h.asked[3:] {
		if a.Body["max_completion_tokens"] != 5.0 || a.Body["max_tokens"] != nil || a.Body["stream_options"] != nil || a.Body["reasoning_effort"] != nil {
			t.Errorf("asked %v", a.Body)
		}
	}
	// Refused for good, nothing is remembered of it.
	h = &endpoint{replies: []reply{no("stream_options")}}
	c = client(t, "chat", h)
	for range 2 {
		if _, err := c.Stream(t.Context(), req, nil); err == nil {
			t.Fatal("no error")
		}
	}
	if len(h.asked) != 4 || h.asked[2].Body["stream_options"] == nil {
		t.Errorf("asked %d times", len(h.asked))
	}
}

func TestAddresses(t *testing.T) {
	for _, tt := range []struct{ base, wire, want string }{
		{"https://a.example", "chat", "https://a.example/v1/chat/completions"},
		{"https://a.example/", "chat", "https://a.example/v1/chat/completions"},
		{"https://a.example/v1", "chat", "https://a.example/v1/chat/completions"},
		{"https://a.example/v1/", "chat", "https://a.example/v1/chat/completions"},
		{"https://a.example/v1/chat/completions", "chat", "https://a.example/v1/chat/completions"},
		{"https://a.example/v1/chat/completions/", "responses", "https://a.example/v1/responses"},
		{"https://a.example/v1/models", "chat", "https://a.example/v1/chat/completions"},
		{"https://a.example/api/paas/v4", "chat", "https://a.example/api/paas/v4/chat/completions"},
		{"https://a.example", "anthropic", "https://a.example/v1/messages"},
		{"https://a.example/anthropic", "anthropic", "https://a.example/anthropic/v1/messages"},
		{"https://a.example/v1/messages", "anthropic", "https://a.example/v1/messages"},
		{"http://127.0.0.1:1234", "chat", "http://127.0.0.1:1234/v1/chat/completions"},
	} {
		h := &endpoint{replies: []reply{{status: 500}}}
		c, err := provider.New(provider.Config{Wire: tt.wire, BaseURL: tt.base, HTTP: &http.Client{Transport: h}, Now: time.Now})
		if err != nil {
			t.Errorf("%s: %v", tt.base, err)
			continue
		}
		_, err = c.Stream(t.Context(), provider.Request{Model: "m"}, nil)
		if err == nil || h.asked[0].URL != tt.want {
			t.Errorf("%s on %s asks %s, want %s", tt.base, tt.wire, h.asked[0].URL, tt.want)
		}
		if len(h.asked[0].Header["Authorization"])+len(h.asked[0].Header["X-Api-Key"]) != 0 {
			t.Errorf("a key that is not there was sent: %v", h.asked[0].Header)
		}
	}
}

func TestRefusedConfig(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(*provider.Config)
		want string
	}{
		{"wire", func(c *provider.Config) { c.Wire = "soap" }, `wire "soap" is unknown: use one of chat, responses, anthropic`},
		{"no address", func(c *provider.Config) { c.BaseURL = "" }, "base_url is empty: write"},
		{"no host", func(c *provider.Config) { c.BaseURL = "models.example/v1" }, "does not begin with http://"},
		{"another scheme", func(c *provider.Config) { c.BaseURL = "file:///x" }, "does not begin with http://"},
		{"a key in the user", func(c *provider.Config) { c.BaseURL = "https://" + key + "@a.example" }, "holds a user"},
		{"a key in the query", func(c *provider.Config) { c.BaseURL = "https://a.example/?key=" + key }, "holds a user, a query"},
		{"no address at all", func(c *provider.Config) { c.BaseURL = "https://" + key + "%zz" }, "is no address"},
		{"a key in the clear", func(c *provider.Config) { c.BaseURL = "http://a.example/v1" }, "without encryption: write https://"},
		{"a key in the clear to an address like ours", func(c *provider.Config) { c.BaseURL = "http://127.0.0.1.example/v1" }, "without encryption"},
		{"a key with a header behind it", func(c *provider.Config) { c.Key += "\r\nX: y" }, "holds a line end"},
		{"fine", func(*provider.Config) {}, ""},
		{"no key in the clear", func(c *provider.Config) { c.BaseURL, c.Key = "http://a.example/v1", "" }, ""},
		{"in the clear, to this machine", func(c *provider.Config) { c.BaseURL = "http://localhost:1/v1" }, ""},
		{"in the clear, to this machine by IPv6", func(c *provider.Config) { c.BaseURL = "http://[::1]:1/v1" }, ""},
		{"in the clear, allowed", func(c *provider.Config) { c.BaseURL, c.AllowHTTP = "http://a.example/v1", true }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := provider.Config{Wire: "chat", BaseURL: "https://a.example/v1", Key: key, HTTP: &http.Client{}, Now: time.Now}
			tt.set(&c)
			_, err := provider.New(c)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err %v, want %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), key) {
				t.Errorf("the key is in the error: %v", err)
			}
		})
	}
}

// slow is an endpoint in the time of a bubble: its headers come after a while,
// then its pieces, each after a while of its own.
type slow struct {
	headers time.Duration
	pieces  []string
	each    time.Duration
	hang    bool // instead of an end
	status  int
	kind    string
}

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	wait := func(d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
	if err := wait(s.headers); err != nil {
		return nil, err
	}
	body, w := io.Pipe()
	go func() {
		for _, p := range s.pieces {
			if err := wait(s.each); err != nil {
				w.CloseWithError(err)
				return
			}
			if _, err := io.WriteString(w, p); err != nil {
				return
			}
		}
		if s.hang {
			<-r.Context().Done()
			w.CloseWithError(r.Context().Err())
			return
		}
		w.Close()
	}()
	return &http.Response{StatusCode: max(s.status, 200), Header: http.Header{"Content-Type": {s.kind}}, Body: body, Request: r}, nil
}

func repeat(n int, s string) (out []string) {
	for range n {
		out = append(out, s)
	}
	return out
}

func TestClocks(t *testing.T) {
	const json, sse = "application/json", "text/event-stream"
	comment := ": still here\n\n"
	done := events(`{"choices":[{"delta":{"content":"a"}}]}`, `[DONE]`)
	for _, tt := range []struct {
		name  string
		in    slow
		class provider.Class
		after time.Duration
	}{
		{"no headers", slow{headers: time.Hour}, provider.Silent, 60 * time.Second},
		{"headers just in time", slow{headers: 59 * time.Second, kind: sse, pieces: []string{done}}, "", 59 * time.Second},
		{"headers, then nothing", slow{kind: sse, hang: true}, provider.Silent, 90 * time.Second},
		{"a sound every 89 s", slow{kind: sse, pieces: append(repeat(7, comment), done), each: 89 * time.Second}, "", 8 * 89 * time.Second},
		{"a sound every 89 s, then nothing", slow{kind: sse, pieces: repeat(7, comment), each: 89 * time.Second, hang: true}, provider.Silent, 7*89*time.Second + 90*time.Second},
		{"a document that stops", slow{kind: json, pieces: []string{"{"}, hang: true}, provider.Silent, 30 * time.Second},
		{"a document that drips", slow{kind: json, pieces: repeat(9, " "), each: 20 * time.Second}, provider.Silent, 120 * time.Second},
		{"an error that stops", slow{status: 500, pieces: []string{"x"}, hang: true}, provider.Transient, 10 * time.Second},
		{"an error that drips", slow{status: 500, pieces: repeat(9, "x"), each: 9 * time.Second}, provider.Transient, 30 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				_, err := client(t, "chat", tt.in).Stream(t.Context(), provider.Request{Model: "m", Stream: true}, nil)
				if class(err) != tt.class || time.Since(begin) != tt.after {
					t.Errorf("err %v after %s, want %q after %s", err, time.Since(begin), tt.class, tt.after)
				}
			})
		})
	}
	t.Run("the reader's time is its own", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			in := slow{kind: sse, pieces: []string{events(`{"choices":[{"delta":{"content":"a"}}]}`), done}}
			_, err := client(t, "chat", in).Stream(t.Context(), provider.Request{Model: "m", Stream: true}, func(provider.Event) { time.Sleep(time.Hour) })
			if err != nil {
				t.Error(err)
			}
		})
	})
}

func class(err error) provider.Class {
	var e *provider.Error
	if errors.As(err, &e) {
		return e.Class
	}
	return ""
}

func TestCancelled(t *testing.T) {
	for name, in := range map[string]slow{"before the headers": {headers: time.Hour}, "in the answer": {kind: "text/event-stream", hang: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				_, err := client(t, "chat", in).Stream(ctx, provider.Request{Model: "m", Stream: true}, nil)
				if class(err) != provider.Aborted || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("err %v", err)
				}
			})
		})
	}
}

func TestModels(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       []provider.Model
		class      provider.Class
	}{
		{"openai", `{"data":[{"id":"a","owned_by":"combo","context_length":1000},{"id":"b","max_model_len":2000},{"id":5},{"name":"no id"}]}`, []provider.Model{{ID: "a", Owner: "combo", Context: 1000}, {ID: "b", Context: 2000}, {ID: "no id"}}, ""},
		{"ollama", `{"models":[{"name":"a"}]}`, []provider.Model{{ID: "a"}}, ""},
		{"a bare list", ` [{"id":"a"}]`, []provider.Model{{ID: "a"}}, ""},
		{"none", `{"data":[]}`, []provider.Model{}, ""},
		{"another shape", `{"data":"x"}`, nil, provider.Malformed},
		{"no JSON", `<html>`, nil, provider.Malformed},
		{"too large", strings.Repeat(" ", 8<<20+1), nil, provider.Malformed},
		{"too many", `{"data":[` + strings.Repeat(`{"id":"a"},`, 20_000) + `{"id":"a"}]}`, nil, provider.Malformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &endpoint{replies: []reply{{body: tt.body}}}
			got, err := client(t, "chat", h).Models(t.Context())
			if d := cmp.Diff(tt.want, got); d != "" || class(err) != tt.class {
				t.Errorf("err %v (-want +got):\n%s", err, d)
			}
			if a := h.asked[0]; a.URL != "https://models.example/v1/models" || a.Header.Get("Authorization") != "Bearer "+key {
				t.Errorf("asked %s with %v", a.URL, a.Header)
			}
		})
	}
	h := &endpoint{replies: []reply{{status: 401, body: key}}}
	var v any
	err := client(t, "chat", h).Get(t.Context(), "/user/balance", &v)
	if class(err) != provider.Auth || h.asked[0].URL != "https://models.example/user/balance" || strings.Contains(err.Error(), key) {
		t.Errorf("err %v, asked %s", err, h.asked[0].URL)
	}
}

func TestResultAsMessage(t *testing.T) {
	r := provider.Result{Text: "a", Reasons: []provider.Reason{{Text: "hm", Field: "f"}}, Calls: []provider.Call{{ID: "c"}}}
	want := provider.Message{Role: provider.RoleAssistant, Blocks: []provider.Block{{Reason: &r.Reasons[0]}, {Text: "a"}, {Call: &r.Calls[0]}}}
	if d := cmp.Diff(want, r.Message()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

package provider_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry/internal/provider"
	"github.com/google/go-cmp/cmp"
)

const key = "sk-canary-9f1c2e7a4b55"

var testNow = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// reply is one answer of an endpoint. The default is a stream with status 200.
type reply struct {
	status int
	header map[string]string
	body   string
}

// asked is what an endpoint was asked.
type asked struct {
	URL    string
	Header http.Header
	Body   map[string]any
}

// endpoint gives the replies in turn, the last of them for ever.
type endpoint struct {
	replies []reply
	asked   []asked
}

func (e *endpoint) RoundTrip(r *http.Request) (*http.Response, error) {
	a := asked{URL: r.URL.String(), Header: r.Header}
	if data, err := io.ReadAll(r.Body); err != nil {
		return nil, err
	} else if len(data) > 0 {
		if err := json.Unmarshal(data, &a.Body); err != nil {
			return nil, err
		}
	}
	e.asked = append(e.asked, a)
	rep := e.replies[min(len(e.asked), len(e.replies))-1]
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "text/event-stream")
	for k, v := range rep.header {
		w.Header().Set(k, v)
	}
	if rep.status != 0 {
		w.WriteHeader(rep.status)
	}
	w.WriteString(rep.body)
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

func client(t *testing.T, wire string, h http.RoundTripper) *provider.Client {
	t.Helper()
	c, err := provider.New(provider.Config{
		Wire: wire, BaseURL: "https://models.example/v1", Key: key, HTTP: &http.Client{Transport: h},
		CostHeader: "X-Cost", Now: func() time.Time { return testNow },
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask asks an endpoint with one reply and returns what was heard as well.
func ask(t *testing.T, wire string, r reply) (res provider.Result, heard string, err error) {
	t.Helper()
	req := provider.Request{Model: "m", Messages: []provider.Message{provider.Text(provider.RoleUser, "hi")}, Stream: true}
	res, err = client(t, wire, &endpoint{replies: []reply{r}}).Stream(t.Context(), req, func(e provider.Event) {
		heard += fmt.Sprintf("%s:%s;", e.Kind, e.Text)
	})
	return res, heard, err
}

// events writes a stream: each line one event.
func events(lines ...string) string {
	return "data: " + strings.Join(lines, "\n\ndata: ") + "\n\n"
}

func TestAnswers(t *testing.T) {
	usage := provider.Usage{In: 7, Out: 3, Cached: 2, Reasoning: 1}
	call := provider.Call{ID: "c1", Name: "ls", Raw: `{"x":1}`, Input: json.RawMessage(`{"x":1}`)}
	for _, tt := range []struct {
		name, wire string
		in         reply
		want       provider.Result
		heard      string
	}{
		{"text", "chat", reply{body: events(
			`{"model":"m1","choices":[]}`, `{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`,
			`{"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}`, `{"choices":[{"delta":{"content":"Grü"}}]}`,
			`{"choices":[{"delta":{"content":[{"type":"text","text":"ße"}]}}]}`, `{"choices":[{"delta":{"content":null}},{"index":1,"delta":{"content":"no"}}]}`,
			`{"choices":[{"delta":null,"finish_reason":"stop"}]}`,
			`{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":2},"completion_tokens_details":{"reasoning_tokens":1}}}`, `[DONE]`,
		)}, provider.Result{Model: "m1", Text: "Grüße", Stop: provider.StopEnd, Usage: usage, Reasons: []provider.Reason{{Text: "hm", Field: "reasoning_content"}}}, "reason:hm;text:Grü;text:ße;"},
		{"no finish in a delta", "chat", reply{body: events(`{"choices":[{"delta":{"content":"a"}}]}`, `{"choices":[{"finish_reason":"length"}]}`, `[DONE]`)}, provider.Result{Text: "a", Stop: provider.StopLength}, "text:a;"},
		{"call", "chat", reply{body: events(
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"ls","arguments":""}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}}]}}]}`, `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}}]}`,
			`{"choices":[{"delta":{},"finish_reason":"stop"}]}`, `[DONE]`,
		)}, provider.Result{Calls: []provider.Call{call}, Stop: provider.StopTool}, "call:ls;call:ls;call:ls;"},
		{"arguments as an object", "chat", reply{body: events(`{"choices":[{"delta":{"tool_calls":[{"id":"c1","function":{"name":"ls","arguments":{"x":1}}}]}}]}`, `[DONE]`)}, provider.Result{Calls: []provider.Call{call}, Stop: provider.StopTool}, "call:ls;"},
		{"not streamed", "chat", reply{header: map[string]string{"Content-Type": "application/json; charset=utf-8", "X-Cost": "0.25"}, body: `{"choices":[{"message":{"content":"a","tool_calls":[{"id":"c1","function":{"name":"ls","arguments":"{\"x\":1}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":-5,"completion_tokens":3}}`},
			provider.Result{Text: "a", Calls: []provider.Call{call}, Stop: provider.StopTool, Usage: provider.Usage{Out: 3, CostTold: true, CostMicroUSD: 250_000}}, "text:a;call:ls;"},
		{"a cost in the usage, and of nothing in the header", "chat", reply{header: map[string]string{"X-Cost": "0"}, body: events(`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":1,"cost":0.5}}`, `[DONE]`)}, provider.Result{Text: "a", Usage: provider.Usage{In: 1, CostTold: true}}, "text:a;"},

		{"text", "responses", reply{body: events(
			`{"type":"response.created","response":{"status":"in_progress"}}`, `{"type":"response.reasoning_summary_text.delta","delta":"hm"}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","encrypted_content":"s"}}`,
			`{"type":"response.output_text.delta","delta":"a"}`, `{"type":"response.unheard_of"}`,
			`{"type":"response.completed","response":{"model":"m1","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"a"}]}],"usage":{"input_tokens":7,"output_tokens":3,"input_tokens_details":{"cached_tokens":2},"output_tokens_details":{"reasoning_tokens":1}}}}`,
		)}, provider.Result{Model: "m1", Text: "a", Stop: provider.StopEnd, Usage: usage, Reasons: []provider.Reason{{Text: "hm", Field: "reasoning_item", Opaque: `{"type":"reasoning","encrypted_content":"s"}`}}}, "reason:hm;text:a;"},
		{"call", "responses", reply{body: events(
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c1","name":"ls","arguments":""}}`,
			`{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"x\":"}`, `{"type":"response.function_call_arguments.done","output_index":0,"arguments":"{\"x\":1}"}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"c1","name":"ls","arguments":"{\"x\":1}"}}`,
			`{"type":"response.completed","response":{"status":"completed"}}`,
		)}, provider.Result{Calls: []provider.Call{call}, Stop: provider.StopTool}, "call:ls;call:ls;call:ls;call:ls;"},
		{"all at the end", "responses", reply{body: events(`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"reasoning","summary":[{"text":"hm"}]},{"type":"message","content":[{"text":"a"},{"refusal":"b"}]}]}}`)},
			provider.Result{Text: "ab", Stop: provider.StopLength, Reasons: []provider.Reason{{Text: "hm", Field: "reasoning_item"}}}, "reason:hm;text:a;text:b;"},
		{"filter, not streamed", "responses", reply{header: map[string]string{"Content-Type": "application/json"}, body: `{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}`}, provider.Result{Stop: provider.StopFilter}, ""},

		{"text", "anthropic", reply{body: events(
			`{"type":"message_start","message":{"model":"m1","usage":{"input_tokens":4,"cache_read_input_tokens":2,"cache_creation_input_tokens":1,"output_tokens":1}}}`, `{"type":"ping"}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"r"}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"a"}}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}`, `{"type":"message_stop"}`,
		)}, provider.Result{Model: "m1", Text: "a", Stop: provider.StopEnd, Usage: provider.Usage{In: 7, Out: 3, Cached: 2}, Reasons: []provider.Reason{{Text: "hm", Field: "thinking", Opaque: "s"}, {Field: "redacted_thinking", Opaque: "r"}}}, "reason:hm;text:a;"},
		{"call", "anthropic", reply{body: events(
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c1","name":"ls","input":{}}}`, `{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"x\":"}}`, `{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"1}"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`, `{"type":"message_stop"}`,
		)}, provider.Result{Calls: []provider.Call{call}, Stop: provider.StopTool}, "call:ls;call:ls;call:ls;"},
		{"a refusal, not streamed", "anthropic", reply{header: map[string]string{"Content-Type": "application/json"}, body: `{"type":"message","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"c1","name":"ls","input":{"x":1}}],"stop_reason":"refusal","usage":{"input_tokens":1,"output_tokens":2}}`},
			provider.Result{Text: "a", Calls: []provider.Call{call}, Stop: provider.StopFilter, Usage: provider.Usage{In: 1, Out: 2}}, "text:a;call:ls;"},
	} {
		t.Run(tt.wire+"/"+tt.name, func(t *testing.T) {
			got, heard, err := ask(t, tt.wire, tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if heard != tt.heard {
				t.Errorf("heard %q, want %q", heard, tt.heard)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	json := map[string]string{"Content-Type": "application/json"}
	half := events(`{"choices":[{"delta":{"content":"a"}}]}`)
	for _, tt := range []struct {
		name, wire string
		in         reply
		want       provider.Error
	}{
		{"no money", "chat", reply{status: 402, body: `{"error":{"message":"Insufficient Balance","code":"x"}}`}, provider.Error{Class: provider.Budget, Status: 402, Code: "x", Message: "Insufficient Balance"}},
		{"no quota", "chat", reply{status: 429, body: `{"error":{"message":"m","type":"insufficient_quota","code":null}}`}, provider.Error{Class: provider.Budget, Status: 429, Code: "insufficient_quota", Message: "m"}},
		{"too many, in seconds", "chat", reply{status: 429, header: map[string]string{"Retry-After": "7"}}, provider.Error{Class: provider.RateLimited, Status: 429, Message: "Too Many Requests", RetryAfter: 7 * time.Second}},
		{"too many, in milliseconds", "chat", reply{status: 429, header: map[string]string{"Retry-After-Ms": "1500", "Retry-After": "2"}}, provider.Error{Class: provider.RateLimited, Status: 429, Message: "Too Many Requests", RetryAfter: 1500 * time.Millisecond}},
		{"too many, as a date", "chat", reply{status: 429, header: map[string]string{"Retry-After": testNow.Add(time.Hour).Format(http.TimeFormat)}}, provider.Error{Class: provider.RateLimited, Status: 429, Message: "Too Many Requests", RetryAfter: time.Hour}},
		{"too many, for ever", "chat", reply{status: 429, header: map[string]string{"Retry-After": "1e300"}}, provider.Error{Class: provider.RateLimited, Status: 429, Message: "Too Many Requests", RetryAfter: 35 * 24 * time.Hour}},
		{"the limit that is used up", "chat", reply{status: 429, header: map[string]string{"X-Ratelimit-Reset-Requests": "1s", "X-Ratelimit-Remaining-Requests": "5", "X-Ratelimit-Reset-Tokens": "6m0s", "X-Ratelimit-Remaining-Tokens": "0"}}, provider.Error{Class: provider.RateLimited, Status: 429, Message: "Too Many Requests", RetryAfter: 6 * time.Minute}},
		{"a reset in RFC 3339", "anthropic", reply{status: 429, header: map[string]string{"Anthropic-Ratelimit-Tokens-Reset": testNow.Add(time.Minute).Format(time.RFC3339)}, body: `{"type":"error","error":{"type":"rate_limit_error","message":"m"}}`}, provider.Error{Class: provider.RateLimited, Status: 429, Code: "rate_limit_error", Message: "m", RetryAfter: time.Minute}},
		{"a reset in the body", "chat", reply{status: 429, body: fmt.Sprintf(`{"error":{"message":"m","code":429,"metadata":{"headers":{"X-RateLimit-Reset":"%d","X-RateLimit-Remaining":"0"}}}}`, testNow.Add(3*time.Hour).UnixMilli())}, provider.Error{Class: provider.RateLimited, Status: 429, Message: "m", RetryAfter: 3 * time.Hour}},
		{"a wrong key that is shown", "chat", reply{status: 401, body: `{"error":"no such key: ` + key + `"}`}, provider.Error{Class: provider.Auth, Status: 401, Message: "no such key: [redacted secret]"}},
		{"forbidden", "chat", reply{status: 403}, provider.Error{Class: provider.Auth, Status: 403, Message: "Forbidden"}},
		{"not there", "chat", reply{status: 404, body: "<html>"}, provider.Error{Class: provider.Transient, Status: 404, Message: "Not Found"}},
		{"late", "chat", reply{status: 408}, provider.Error{Class: provider.Transient, Status: 408, Message: "Request Timeout"}},
		{"too large", "anthropic", reply{status: 413, body: `{"error":{"type":"request_too_large"}}`}, provider.Error{Class: provider.Overflow, Status: 413, Code: "request_too_large", Message: "Request Entity Too Large"}},
		{"a long context", "chat", reply{status: 400, body: `{"error":{"message":"m","code":"context_length_exceeded","type":"invalid_request_error"}}`}, provider.Error{Class: provider.Overflow, Status: 400, Code: "context_length_exceeded", Message: "m"}},
		{"a bad request", "chat", reply{status: 400, body: `{"message":"m","type":"invalid_request_error"}`}, provider.Error{Class: provider.BadRequest, Status: 400, Code: "invalid_request_error", Message: "m"}},
		{"out of order", "chat", reply{status: 529, header: map[string]string{"Retry-After": "1"}}, provider.Error{Class: provider.Transient, Status: 529, RetryAfter: time.Second}},
		{"elsewhere", "chat", reply{status: 307, header: map[string]string{"Location": "https://evil.example/"}}, provider.Error{Class: provider.Transient, Status: 307, Message: "the endpoint sends on to https://evil.example/, which is not followed: if that is right, write it as base_url"}},
		{"in a stream", "chat", reply{body: half + events(`{"error":{"message":"m","code":502}}`)}, provider.Error{Class: provider.Transient, Status: 502, Message: "m", Exposed: true}},
		{"in a stream, by type", "anthropic", reply{body: events(`{"type":"error","error":{"type":"overloaded_error","message":"m"}}`)}, provider.Error{Class: provider.Transient, Code: "overloaded_error", Message: "m"}},
		{"in a stream, by code", "responses", reply{body: events(`{"type":"error","code":"rate_limit_exceeded","message":"m"}`)}, provider.Error{Class: provider.RateLimited, Code: "rate_limit_exceeded", Message: "m"}},
		{"a response that failed", "responses", reply{body: events(`{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"m"}}}`)}, provider.Error{Class: provider.Transient, Code: "server_error", Message: "m"}},
		{"a close without an end", "chat", reply{body: half + events(`{"choices":[{"delta":{},"finish_reason":"stop"}]}`)}, provider.Error{Class: provider.Incomplete, Message: "the connection closed before the answer was complete", Exposed: true}},
		{"a close without an end", "anthropic", reply{body: events(`{"type":"message_start"}`)}, provider.Error{Class: provider.Incomplete, Message: "the connection closed before the answer was complete"}},
		{"a close without an end", "responses", reply{body: events(`{"type":"response.created"}`)}, provider.Error{Class: provider.Incomplete, Message: "the connection closed before the answer was complete"}},
		{"nothing at all", "chat", reply{}, provider.Error{Class: provider.Incomplete, Message: "the connection closed before the answer was complete", Empty: true}},
		{"nothing at all, not streamed", "chat", reply{header: json}, provider.Error{Class: provider.Incomplete, Message: "the answer is empty", Empty: true}},
		{"a web page", "chat", reply{header: map[string]string{"Content-Type": "text/html"}, body: "<html>"}, provider.Error{Class: provider.Malformed, Status: 200, Message: "the endpoint answers with a web page: base_url is not the address of a model"}},
		{"no choices", "chat", reply{header: json, body: `{"object":"list"}`}, provider.Error{Class: provider.Malformed, Message: "the endpoint answered with something that is no answer of a model"}},
		{"garbage", "chat", reply{body: half + "data: {this is not json\n\n"}, provider.Error{Class: provider.Malformed, Message: "an event is no chat chunk: invalid character 't' looking for beginning of object key string", Exposed: true}},
		{"a line without an end", "chat", reply{body: "data: " + strings.Repeat("x", 2<<20)}, provider.Error{Class: provider.Malformed, Message: "the answer exceeds a bound: a line of more than 1048576 bytes"}},
		{"a text without an end", "chat", reply{body: strings.Repeat(events(`{"choices":[{"delta":{"content":"`+strings.Repeat("x", 1<<19)+`"}}]}`), 17)}, provider.Error{Class: provider.Malformed, Message: "the answer exceeds a bound: a text of more than 8388608 bytes", Exposed: true}},
		{"thoughts without an end", "chat", reply{body: strings.Repeat(events(`{"choices":[{"delta":{"reasoning":"`+strings.Repeat("x", 1<<19)+`"}}]}`), 17)}, provider.Error{Class: provider.Malformed, Message: "the answer exceeds a bound: reasoning of more than 8388608 bytes"}},
		{"a document without an end", "chat", reply{header: json, body: strings.Repeat(" ", 32<<20+1)}, provider.Error{Class: provider.Malformed, Message: "the answer exceeds a bound: it is too large"}},
	} {
		t.Run(tt.wire+"/"+tt.name, func(t *testing.T) {
			_, _, err := ask(t, tt.wire, tt.in)
			var got *provider.Error
			if !errors.As(err, &got) {
				t.Fatalf("err %v", err)
			}
			if strings.Contains(fmt.Sprintf("%s %+v %v", err, *got, errors.Unwrap(err)), key) {
				t.Errorf("the key is in the error: %+v", got)
			}
			bare := *got
			bare.Body, bare.Err = "", nil
			if d := cmp.Diff(tt.want, bare); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if tt.in.status != 0 && len(got.Body) != len(strings.ReplaceAll(tt.in.body, key, "[redacted secret]")) {
				t.Errorf("Body = %q", got.Body)
			}
		})
	}
}

func TestErrorBodyIsBounded(t *testing.T) {
	_, _, err := ask(t, "chat", reply{status: 500, body: strings.Repeat("ü", 1<<20)})
	var got *provider.Error
	if !errors.As(err, &got) || len(got.Body) > 8<<10 || len(got.Body) < 8000 {
		t.Errorf("err %.200v", err)
	}
}

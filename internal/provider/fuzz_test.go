package provider_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry/internal/provider"
)

// FuzzAnswer gives whatever an endpoint may send to each wire: there is an answer
// that is sound, or an error of a class.
func FuzzAnswer(f *testing.F) {
	f.Add(uint8(0), true, 200, "", events(`{"choices":[{"delta":{"content":"a","tool_calls":[{"index":0,"function":{"name":"x","arguments":"{"}}]}}],"usage":{"prompt_tokens":1}}`, `[DONE]`))
	f.Add(uint8(1), true, 200, "", events(`{"type":"response.output_item.added","item":{"type":"function_call","call_id":"c"}}`, `{"type":"response.completed","response":{"status":"completed"}}`))
	f.Add(uint8(2), true, 200, "", events(`{"type":"content_block_start","content_block":{"type":"tool_use","input":{}}}`, `{"type":"message_stop"}`))
	f.Add(uint8(0), false, 200, "", `{"choices":[{"message":{"content":null}}]}`)
	f.Add(uint8(2), false, 200, "", `{"type":"message","content":[{"type":"text","text":"a"}]}`)
	f.Add(uint8(1), false, 429, "12", `{"error":{"message":"m","code":429,"metadata":{"headers":{"X-RateLimit-Reset":"1"}}}}`)
	f.Fuzz(func(t *testing.T, wire uint8, stream bool, status int, retry, body string) {
		if status < 200 || status > 599 {
			status = 200
		}
		name := provider.Wires()[int(wire)%len(provider.Wires())]
		kind := "application/json"
		if stream {
			kind = "text/event-stream"
		}
		h := &endpoint{replies: []reply{{status: status, header: map[string]string{"Content-Type": kind, "Retry-After": retry}, body: body}}}
		res, err := client(t, name, h).Stream(t.Context(), provider.Request{Model: "m", Stream: stream}, nil)
		if err != nil {
			var e *provider.Error
			if !errors.As(err, &e) || e.Class == "" || e.RetryAfter < 0 || e.RetryAfter > 35*24*time.Hour || len(e.Body) > 8<<10 {
				t.Fatalf("err %#v", err)
			}
			return
		}
		for _, c := range res.Calls {
			if (c.Input == nil) == (c.Fault == "") || c.ID == "" {
				t.Errorf("call %+v", c)
			}
		}
		if u := res.Usage; u.In < 0 || u.Out < 0 || u.Cached < 0 || u.CostMicroUSD < 0 {
			t.Errorf("usage %+v", u)
		}
		// What was answered can be asked with again.
		req := provider.Request{Model: "m", Messages: []provider.Message{res.Message()}, Stream: stream}
		var e *provider.Error
		if _, err := client(t, name, h).Stream(t.Context(), req, nil); errors.As(err, &e) && e.Class == provider.BadRequest {
			t.Errorf("the answer cannot be sent back: %v", err)
		}
	})
}

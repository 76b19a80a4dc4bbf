package modelserver_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry/internal/modelserver"
	"github.com/google/go-cmp/cmp"
)

// asks are the same request on each wire: with the tools write and bash, and with
// as many tool results as %s holds.
var asks = map[string]struct{ path, body, result string }{
	"chat": {
		"/v1/chat/completions",
		`{"model":"m","stream":%v,"messages":[{"role":"user","content":"hello"}%s],"tools":[{"type":"function","function":{"name":"write","parameters":{"properties":{"path":{"type":"string"},"content":{"type":"string"}}}}},{"type":"function","function":{"name":"bash","parameters":{"properties":{"command":{"type":"string"}}}}}]}`,
		`,{"role":"tool","tool_call_id":"call_0","content":"ok"}`,
	},
	"responses": {
		"/v1/responses",
		`{"model":"m","stream":%v,"input":[{"type":"message","role":"user","content":[]}%s],"tools":[{"type":"function","name":"exec_command","parameters":{"properties":{"cmd":{"type":"string"}},"required":["cmd","why"]}},{"type":"web_search"}]}`,
		`,{"type":"function_call_output","call_id":"call_0","output":"ok"}`,
	},
	"messages": {
		"/v1/messages",
		`{"model":"m","stream":%v,"messages":[{"role":"user","content":"hello"}%s],"tools":[{"name":"Write","input_schema":{"properties":{"file_path":{"type":"string"},"content":{"type":"string"}}}},{"name":"Bash","input_schema":{"properties":{"command":{"type":"string"}}}}]}`,
		`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_call_0","content":"ok"}]}`,
	},
}

func start(t *testing.T, script modelserver.Script) (*modelserver.Server, string) {
	t.Helper()
	s, err := modelserver.New(script)
	if err != nil {
		t.Fatal(err)
	}
	url, stop, err := modelserver.Listen(s, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return s, url
}

// post sends the request of a wire and returns the status and what can be read of
// the body.
func post(t *testing.T, url, wire string, stream bool, results int) (status int, body string, err error) {
	t.Helper()
	a := asks[wire]
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+a.path,
		strings.NewReader(fmt.Sprintf(a.body, stream, strings.Repeat(a.result, results))))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer right")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	data, err := io.ReadAll(resp.Body)
	if cerr := resp.Body.Close(); cerr != nil {
		t.Error(cerr)
	}
	return resp.StatusCode, string(data), err
}

func TestTurns(t *testing.T) {
	s, url := start(t, modelserver.Script{Usage: modelserver.Usage{In: 7, Out: 3}, Steps: []modelserver.Step{
		{Do: "write", Path: "a/b.txt", Content: "it's"},
		{Do: "shell", Cmd: "ls"},
		{Do: "call", Tool: "x", Args: json.RawMessage(`{"y":1}`)},
		{Do: "text", Text: "all is done"},
	}})
	write := map[string]string{
		"chat": `{\"content\":\"it's\",\"path\":\"a/b.txt\"}`, "messages": `"file_path":"a/b.txt"`,
		"responses": `printf %s 'it'`,
	}
	shell := map[string]string{"chat": `\"command\":\"ls\"`, "messages": `"command":"ls"`, "responses": `\"cmd\":\"ls\"`}
	for wire := range asks {
		for turn, want := range []string{write[wire], shell[wire], `"x"`, "all is done", "script of this stand-in model is over"} {
			status, body, err := post(t, url, wire, false, turn)
			if status != http.StatusOK || err != nil || !strings.Contains(body, want) || !json.Valid([]byte(body)) {
				t.Errorf("%s turn %d: status %d, err %v, body %s, want %s", wire, turn, status, err, body, want)
			}
			if !strings.Contains(body, `_tokens":7`) || !strings.Contains(body, `_tokens":3`) {
				t.Errorf("%s turn %d: usage is not 7 and 3: %s", wire, turn, body)
			}
		}
	}
	if got := s.Requests(); got != 15 {
		t.Errorf("Requests() = %d", got)
	}
	for _, e := range s.Journal() {
		if e.Model != "m" || e.Wire == "" || len(e.Tools) == 0 || e.Size == 0 {
			t.Errorf("journal entry %+v", e)
		}
	}
}

func TestStreams(t *testing.T) {
	_, url := start(t, modelserver.Script{Steps: []modelserver.Step{{Do: "shell", Cmd: "ls"}, {Do: "text", Text: "one two three"}}})
	last := map[string]string{"chat": "data: [DONE]", "responses": `"type":"response.completed"`, "messages": `"type":"message_stop"`}
	for wire := range asks {
		for turn, want := range []string{"ls", "three"} {
			_, body, err := post(t, url, wire, true, turn)
			if err != nil || !strings.Contains(body, want) || !strings.Contains(body, last[wire]) {
				t.Errorf("%s turn %d: err %v, %s", wire, turn, err, body)
			}
			for line := range strings.SplitSeq(body, "\n") {
				data, ok := strings.CutPrefix(line, "data: ")
				if ok && data != "[DONE]" && !json.Valid([]byte(data)) {
					t.Errorf("%s turn %d: %s", wire, turn, line)
				}
			}
		}
	}
}

func TestBroken(t *testing.T) {
	for wire := range asks {
		for _, tt := range []struct {
			do     string
			status int
			whole  bool   // the body could be read to its end
			has    string // in the body
		}{
			{"cut", 200, false, "data: "},
			{"reset", 0, false, ""},
			{"empty", 200, true, ""},
			{"malformed", 200, true, "{this is not json"},
			{"drip", 200, true, "data: "},
		} {
			_, url := start(t, modelserver.Script{Steps: []modelserver.Step{{Do: tt.do, DelayMS: 1}}})
			status, body, err := post(t, url, wire, true, 0)
			if status != tt.status || (err == nil) != tt.whole || !strings.Contains(body, tt.has) {
				t.Errorf("%s %s: status %d, err %v, body %q", wire, tt.do, status, err, body)
			}
			if tt.do == "empty" && body != "" {
				t.Errorf("%s empty: %q", wire, body)
			}
		}
	}
}

// TestHang shows that a server that hangs can be stopped.
func TestHang(t *testing.T) {
	for _, do := range []string{"hang", "hang_mid"} {
		s, url := start(t, modelserver.Script{Steps: []modelserver.Step{{Do: do}}})
		got := make(chan string, 1)
		go func() {
			_, body, err := post(t, url, "chat", true, 0)
			got <- fmt.Sprintf("%s %v", body, err != nil)
		}()
		for s.Requests() == 0 {
			select {
			case g := <-got:
				t.Fatalf("%s: it answered: %s", do, g)
			case <-time.After(time.Millisecond):
			}
		}
		s.Close()
		s.Close()
		g := <-got
		if !strings.HasSuffix(g, "true") || strings.Contains(g, "data: ") != (do == "hang_mid") {
			t.Errorf("%s: %s", do, g)
		}
	}
}

func TestErrors(t *testing.T) {
	_, url := start(t, modelserver.Script{Steps: []modelserver.Step{{
		Do: "error", Status: 429, Headers: map[string]string{"Retry-After": "2"}, Times: 2,
		Then: &modelserver.Step{Do: "error", Status: 402, Body: `{"mine":true}`, Times: 1},
	}}})
	var got []int
	for range 4 {
		status, body, err := post(t, url, "messages", true, 0)
		if err != nil {
			t.Fatal(err)
		}
		if status == 402 && body != `{"mine":true}` {
			t.Errorf("body %s", body)
		}
		got = append(got, status)
	}
	if d := cmp.Diff([]int{429, 429, 402, 200}, got); d != "" {
		t.Errorf("statuses (-want +got):\n%s", d)
	}
}

func TestKeyScenesAndPaths(t *testing.T) {
	s, url := start(t, modelserver.Script{Key: "right", Scenes: []modelserver.Scene{
		{When: "goodbye", Steps: []modelserver.Step{{Do: "text", Text: "wrong scene"}}},
		{When: "hello", Steps: []modelserver.Step{{Do: "text", Text: "right scene"}}},
	}})
	if _, body, err := post(t, url, "chat", false, 0); err != nil || !strings.Contains(body, "right scene") {
		t.Errorf("%v %s", err, body)
	}
	for path, want := range map[string]int{
		"/v1/models": 200, "/__journal": 200, "/v1/other": 404, "/v1/messages": 404, // GET
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := new(http.Client).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(resp.Body).ReadString('\n'); resp.StatusCode != want || !json.Valid([]byte(line)) {
			t.Errorf("GET %s: %d %s %v", path, resp.StatusCode, line, err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, tt := range []struct {
		key, body string
		want      int
	}{{"wrong", "{}", 401}, {"", "{}", 401}, {"right", "not json", 400}, {"right", "{}", 400}} {
		for _, path := range []string{"/v1/chat/completions", "/v1/responses", "/v1/messages"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Api-Key", tt.key)
			resp, err := new(http.Client).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != tt.want {
				t.Errorf("%s with key %q and %s: %d, want %d", path, tt.key, tt.body, resp.StatusCode, tt.want)
			}
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if s.Requests() != 13 {
		t.Errorf("Requests() = %d", s.Requests())
	}
}

// TestPipe asks a server without a port, for a document and for an answer with a
// header.
func TestPipe(t *testing.T) {
	s, err := modelserver.New(modelserver.Script{
		Key: "right", Documents: map[string]json.RawMessage{"/user/balance": json.RawMessage(`{"left":1}`)},
		Steps: []modelserver.Step{{Do: "text", Text: "hello", Headers: map[string]string{"X-Cost": "2"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	client, stop := modelserver.Pipe(s)
	for _, tt := range []struct {
		method, path, key, header, want string
		status                          int
	}{
		{"GET", "/user/balance", "right", "", `{"left":1}`, 200},
		{"GET", "/user/balance", "wrong", "", "invalid API key", 401},
		{"POST", "/v1/chat/completions", "right", "2", "hello", 200},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, "http://anywhere.example"+tt.path, strings.NewReader(`{"messages":[{"role":"user"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+tt.key)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if resp.StatusCode != tt.status || err != nil || !strings.Contains(string(body), tt.want) || resp.Header.Get("X-Cost") != tt.header {
			t.Errorf("%s %s: %d %q %s, err %v", tt.method, tt.path, resp.StatusCode, resp.Header.Get("X-Cost"), body, err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := client.Get("http://anywhere.example/v1/models"); err == nil {
		t.Error("a closed server answers")
	}
}

func TestReadScript(t *testing.T) {
	for _, tt := range []struct{ script, err string }{
		{`{"steps":[{"do":"text","text":"x"}]}`, ""},
		{`{"scenes":[{"when":"a","steps":[{"do":"hang"}]}]}`, ""},
		{`{}`, "no steps"},
		{`{"steps":[{"do":"dance"}]}`, `step 0: do "dance" is none of`},
		{`{"steps":[{"do":"text"},{"do":"write"}]}`, "step 1: write: path is empty"},
		{`{"steps":[{"do":"shell"}]}`, "cmd is empty"},
		{`{"steps":[{"do":"call","tool":"x"}]}`, "args in JSON"},
		{`{"steps":[{"do":"error","status":200}]}`, "status 200"},
		{`{"steps":[{"do":"error","status":500,"then":{"do":"x"}}]}`, `"x"`},
		{`{"scenes":[{"steps":[{"do":"hang"}]}]}`, "when is empty"},
		{`{"steps":[{"do":"hang"}],"documents":{"/a":{}}}`, ""},
		{`{"steps":[{"do":"hang"}],"documents":{"a":{}}}`, "begins with /"},
		{`{"stepz":[]}`, "unknown field"},
		{`{"steps":[{"do":"text"}]} x`, "after the end"},
		{strings.Repeat(" ", modelserver.MaxScriptBytes+1), "more than"},
	} {
		_, err := modelserver.ReadScript(strings.NewReader(tt.script))
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("ReadScript(%.60s) = %v, want %q", tt.script, err, tt.err)
		}
	}
}

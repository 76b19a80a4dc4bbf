package engines_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/engines/enginetest"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/process"
)

// asks is a request of the engine for a path below its base URL, with its key; the answer's lines go to the log.
const asks = `bash -c '
url=${MY_BASE_URL#http://}; host=${url%%%%/*}; path=/${url#*/}
exec 3<>/dev/tcp/${host%%:*}/${host##*:}
printf "POST %%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %%s\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}" "$path%s" "$MY_API_KEY" >&3
cat <&3' | tr -d '\r'`

// keyed is a model's endpoint that counts who asks with the real key.
func keyed(t *testing.T, known *atomic.Int32) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer "+enginetest.Secret {
			known.Add(1)
		}
		fmt.Fprintln(w, "answer of", r.URL.Path)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v1"
}

func boxed(t *testing.T, net string, steps ...enginetest.Step) engines.Request {
	t.Helper()
	if _, err := process.LookPath("bwrap", "/usr/local/bin:/usr/bin:/bin"); err != nil {
		t.Skip("bubblewrap is not installed")
	}
	req := request(t, box.LevelBwrap, "my-agent", steps...)
	req.Engine.Args, req.Engine.Net = []string{"{prompt}"}, net
	req.Engine.Credentials = map[string]string{"MY_API_KEY": enginetest.Secret}
	return req
}

// The engine asks its endpoint through the proxy with a word that is not the key, and nothing of the key is in the box.
func TestKeyStaysOutOfTheBox(t *testing.T) {
	var known atomic.Int32
	req := boxed(t, "allow:api.example.com",
		enginetest.Step{Shell: fmt.Sprintf(asks, "/chat/completions")},
		enginetest.Step{Shell: fmt.Sprintf(asks, "/files")},
		enginetest.Step{Shell: `printf 'key %s\n' "$MY_API_KEY"; env >seen; cat /proc/self/environ /proc/1/environ >>seen 2>/dev/null; true`},
	)
	var log bytes.Buffer
	req.Log = &log
	req.Engine.Env = map[string]string{"MY_BASE_URL": keyed(t, &known)}
	got := engines.Run(t.Context(), req)
	if got.Err != nil || got.Exit != 0 || known.Load() != 1 {
		t.Fatalf("exit %d, %v; asked %d times with the key; log:\n%s", got.Exit, got.Err, known.Load(), log.String())
	}
	for _, want := range []string{"answer of /v1/chat/completions", "403 Forbidden", "key ferry-run-", "net: refused 127.0.0.1:", "net: allowed 127.0.0.1:", "with the key of engine scripted"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not hold %q:\n%s", want, log.String())
		}
	}
	seen, err := os.ReadFile(req.Box.Work + "/seen")
	if err != nil || bytes.Contains(seen, []byte(enginetest.Secret)) || !bytes.Contains(seen, []byte("MY_API_KEY=ferry-run-")) {
		t.Errorf("what the box saw: %v\n%s", err, seen)
	}
	if len(got.Net) != 2 || got.Net[0].Allowed || !got.Net[1].Allowed {
		t.Errorf("decisions %+v", got.Net)
	}
}

// net of the engine goes before net of the box.
func TestNetOfTheEngine(t *testing.T) {
	for net, want := range map[string]string{
		"":                      "lo and more",
		"open":                  "lo and more",
		"none":                  "lo",
		"allow:api.example.com": "lo",
	} {
		req := boxed(t, net, enginetest.Step{Shell: `n=$(tail -n +3 /proc/net/dev | wc -l); if [ "$n" = 1 ]; then echo lo; else echo lo and more; fi; echo "proxy ${HTTPS_PROXY-none}"`})
		got := engines.Run(t.Context(), req)
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		lines := strings.Split(strings.TrimSpace(got.Tail), "\n")
		if hostHasOnlyLoopback(t) {
			want = "lo"
		}
		proxied := strings.Contains(got.Tail, "proxy http://"+box.ProxyAddress)
		if lines[0] != want || proxied != strings.HasPrefix(net, "allow") {
			t.Errorf("net %q: %q, want %q", net, got.Tail, want)
		}
	}
}

func hostHasOnlyLoopback(t *testing.T) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(text, []byte("\n")) == 3
}

func TestNetThatCannotBeHeld(t *testing.T) {
	for name, tt := range map[string]struct {
		level box.Level
		net   string
		want  string
	}{
		"no box":          {box.LevelNone, "allow:api.example.com", "cannot hold a run to a list of hosts"},
		"landlock":        {box.LevelLandlock, "allow:api.example.com", "cannot hold a run to a list of hosts"},
		"unknown command": {box.LevelBwrap, "allow", "which hosts"},
		"odd host":        {box.LevelBwrap, "allow:0x7f.1:80", "unusual notation"},
		"star of all":     {box.LevelBwrap, "allow:*.com", "it is too much"},
	} {
		req := boxed(t, tt.net)
		req.Box.Level = tt.level
		if got := engines.Run(t.Context(), req); got.Err == nil || !strings.Contains(got.Err.Error(), tt.want) || got.Ended != engines.EndedStartError {
			t.Errorf("%s: %v (%s), want %q", name, got.Err, got.Ended, tt.want)
		}
	}
}

// asClaude gives the engine of r the name and the contract of claude, and its key.
func asClaude(t *testing.T, r *engines.Request) {
	t.Helper()
	name := filepath.Join(filepath.Dir(r.Engine.Command), "claude")
	if err := os.Rename(r.Engine.Command, name); err != nil {
		t.Fatal(err)
	}
	r.Engine.Command, r.Engine.Net, r.Contract = name, "allow", engines.ContractOf("claude")
	r.Engine.Credentials = map[string]string{"ANTHROPIC_API_KEY": enginetest.Secret}
}

func TestEndpointOfTheRun(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*engines.Request)
		want   string // NAME=value of what the engine gets, with KEY for a word of the run and ROUTE for its base URL
	}{
		"base_url and key in env": {func(r *engines.Request) {
			r.Engine.BaseURL, r.Engine.Args = "https://api.example.com/v1", []string{"{base_url}", "{prompt}"}
		}, "arg=ROUTE key=KEY base="},
		"no key": {func(r *engines.Request) {
			r.Engine.BaseURL, r.Engine.Args, r.Engine.Credentials = "http://127.0.0.1:9/v1", []string{"{base_url}", "{prompt}"}, nil
		}, "arg=ROUTE key= base="},
		"two keys": {func(r *engines.Request) {
			r.Engine.BaseURL, r.Engine.Args = "https://api.example.com/v1", []string{"{base_url}", "{prompt}"}
			r.Engine.Credentials["OTHER_API_KEY"] = "another-secret-value"
		}, "arg=https://api.example.com/v1 key=SECRET base="},
		"claude's own": {func(r *engines.Request) {
			asClaude(t, r)
		}, "claude=KEY base=ROUTE"},
		"claude behind a gateway": {func(r *engines.Request) {
			asClaude(t, r)
			r.Environ = append(r.Environ, "ANTHROPIC_BASE_URL=http://127.0.0.1:9")
		}, "claude=KEY base=ROUTE"},
	} {
		t.Run(name, func(t *testing.T) {
			req := boxed(t, "allow:api.example.com", enginetest.Step{Shell: `printf 'arg=%s key=%s base=%s claude=%s base=%s\n' "$1" "$MY_API_KEY" "$MY_BASE_URL" "$ANTHROPIC_API_KEY" "$ANTHROPIC_BASE_URL" >seen`})
			tt.change(&req)
			if got := engines.Run(t.Context(), req); got.Err != nil {
				t.Fatal(got.Err)
			}
			seen, err := os.ReadFile(req.Box.Work + "/seen")
			if err != nil {
				t.Fatal(err)
			}
			text := strings.ReplaceAll(string(seen), "http://"+box.ProxyAddress+"/e/scripted", "ROUTE")
			text = strings.ReplaceAll(text, enginetest.Secret, "SECRET")
			if i := strings.Index(text, "ferry-run-"); i >= 0 {
				text = strings.ReplaceAll(text, text[i:i+len("ferry-run-")+32], "KEY")
			}
			if !strings.Contains(text, tt.want) {
				t.Errorf("the engine saw %q, want %q in it", text, tt.want)
			}
		})
	}
}

package egress_test

import (
	"bufio"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/egress"
)

const realKey = "real-key-0123456789"

// newRouteScene has the route "wisp" to the TLS server below /base, with a key.
func newRouteScene(t *testing.T, change func(*scene, *egress.Route)) *scene {
	t.Helper()
	return newScene(t, func(s *scene) {
		r := egress.Route{Name: "wisp", Upstream: "https://127.0.0.1:" + s.port(s.tls) + "/base/", Key: realKey}
		if change != nil {
			change(s, &r)
		}
		s.policy.Routes = []egress.Route{r}
		s.policy.Roots = x509.NewCertPool()
		s.policy.Roots.AddCert(s.tls.Certificate())
	})
}

// ask asks the route as a run does, with "WORD" in headers replaced by the run's word.
func (s *scene) ask(method, path, body string, headers ...string) *http.Response {
	s.t.Helper()
	base, word, ok := s.proxy.Base("wisp")
	if !ok {
		s.t.Fatal("there is no route")
	}
	base = strings.Replace(base, box.ProxyAddress, s.address, 1)
	req, err := http.NewRequest(method, base+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], strings.ReplaceAll(headers[i+1], "WORD", word))
	}
	tr := &http.Transport{}
	s.t.Cleanup(tr.CloseIdleConnections)
	resp, err := tr.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestRoutePutsTheKeyIn(t *testing.T) {
	for name, header := range map[string][2]string{
		"bearer": {"Authorization", "Bearer "}, "x-api-key": {"X-Api-Key", ""}, "api-key": {"Api-Key", ""}, "google": {"X-Goog-Api-Key", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var seen http.Header
			s := newRouteScene(t, func(s *scene, _ *egress.Route) {
				s.fromServers = func(w http.ResponseWriter, r *http.Request) bool { seen = r.Header.Clone(); return false }
			})
			_, word, _ := s.proxy.Base("wisp")
			resp := s.ask("POST", "/v1/messages?beta=true", "say WORD", header[0], header[1]+"WORD", "Cookie", "a=b", "X-Forwarded-For", "1.2.3.4", "Anthropic-Version", "2023-06-01")
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != 200 || string(body) != "hello\n" {
				t.Errorf("%d %q", resp.StatusCode, body)
			}
			if want := []string{"POST 127.0.0.1:" + s.port(s.tls) + " /base/v1/messages?beta=true"}; !slices.Equal(s.reached(), want) {
				t.Errorf("asked %v, want %v", s.reached(), want)
			}
			if got := seen.Get(header[0]); got != header[1]+realKey {
				t.Errorf("%s: %q", header[0], got)
			}
			if seen.Get("Cookie") != "" || seen.Get("X-Forwarded-For") != "" || seen.Get("Anthropic-Version") != "2023-06-01" {
				t.Errorf("headers %v", seen)
			}
			if strings.Contains(s.bodies[0], realKey) || strings.Contains(word, realKey) {
				t.Error("the key is where it does not belong")
			}
			if d := s.find("127.0.0.1", true); d.Reason != "with the key of engine wisp" || d.Sent != 8 || d.Received != 6 {
				t.Errorf("%+v", d)
			}
		})
	}
}

func TestRouteRefuses(t *testing.T) {
	auth := []string{"Authorization", "Bearer WORD"}
	for name, tt := range map[string]struct {
		method, path string
		headers      []string
		status       int
	}{
		"no word":               {"POST", "/v1/messages", nil, 401},
		"another word":          {"POST", "/v1/messages", []string{"Authorization", "Bearer ferry-run-00"}, 401},
		"word of another kind":  {"POST", "/v1/messages", []string{"Authorization", "Basic WORD"}, 401},
		"two words":             {"POST", "/v1/messages", []string{"X-Api-Key", "WORD", "X-Api-Key", "WORD"}, 401},
		"word in another place": {"POST", "/v1/messages", []string{"X-Other", "WORD"}, 401},
		"method":                {"DELETE", "/v1/models/x", auth, 403},
		"path":                  {"POST", "/v1/files", auth, 403},
		"dots":                  {"GET", "/v1/models/../../admin", auth, 403},
		"escaped dots":          {"GET", "/v1/models/%2e%2e/admin", auth, 403},
		"escaped slash":         {"GET", "/v1/models/a%2fb", auth, 403},
		"two slashes":           {"POST", "//v1/messages", auth, 403},
		"backslash":             {"POST", `/v1\messages`, auth, 403},
		"only the base":         {"GET", "", auth, 403},
		"upgrade":               {"POST", "/v1/messages", []string{"Authorization", "Bearer WORD", "Connection", "Upgrade", "Upgrade", "websocket"}, 501},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRouteScene(t, nil)
			if resp := s.ask(tt.method, tt.path, "x", tt.headers...); resp.StatusCode != tt.status || len(s.reached()) != 0 {
				t.Errorf("status %d, want %d; asked %v", resp.StatusCode, tt.status, s.reached())
			}
		})
	}
	s := newRouteScene(t, nil)
	for _, path := range []string{"/", "/e/", "/e/other/v1/models", "/e", "/E/wisp/v1/models", "/%65/wisp/v1/models"} {
		if got := s.raw("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 404") {
			t.Errorf("%s: %q", path, got)
		}
	}
	if got := s.proxy; got != nil {
		if _, _, ok := got.Base("other"); ok {
			t.Error("there is a route that nobody made")
		}
	}
}

func TestRouteCountsRequests(t *testing.T) {
	s := newRouteScene(t, func(_ *scene, r *egress.Route) { r.MaxRequests = 2 })
	for i, want := range []int{401, 200, 200, 429, 429} {
		word := "Bearer WORD"
		if i == 0 {
			word = "Bearer x" // costs nothing
		}
		if resp := s.ask("POST", "/chat/completions", "{}", "Authorization", word); resp.StatusCode != want {
			t.Errorf("request %d: %d, want %d", i, resp.StatusCode, want)
		}
	}
}

func TestRouteWithoutAKey(t *testing.T) {
	s := newRouteScene(t, func(s *scene, r *egress.Route) {
		r.Key, r.Upstream = "", "http://127.0.0.1:"+s.port(s.plain)+"/v1"
	})
	if resp := s.ask("GET", "/models", "", "Authorization", "Bearer something"); resp.StatusCode != 200 {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// A route to a public name does not lead to a private address.
func TestRouteIsCheckedLikeAnyHost(t *testing.T) {
	s := newRouteScene(t, func(_ *scene, r *egress.Route) { r.Upstream = "https://api.example.test" })
	if resp := s.ask("POST", "/v1/messages", "", "X-Api-Key", "WORD"); resp.StatusCode != 403 {
		t.Errorf("status %d", resp.StatusCode)
	}
	s.find("api.example.test", false)
}

// The key never enters the box, also when the endpoint repeats it, in whatever pieces.
func TestEndpointThatRepeatsTheKey(t *testing.T) {
	s := newRouteScene(t, func(s *scene, _ *egress.Route) {
		s.fromServers = func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("X-Echo", r.Header.Get("Authorization"))
			w.Header().Set("Set-Cookie", "k="+realKey)
			w.Header().Set("Trailer", "X-Later")
			for _, piece := range []string{"wrong key ", realKey[:3], realKey[3:9], realKey[9:] + " and " + realKey, "! " + realKey[:7]} {
				io.WriteString(w, piece)
				w.(http.Flusher).Flush()
			}
			w.Header().Set("X-Later", realKey)
			return true
		}
	})
	resp := s.ask("POST", "/v1/messages", "", "Authorization", "Bearer WORD")
	body, err := io.ReadAll(resp.Body)
	hidden := strings.Repeat("*", len(realKey))
	if want := "wrong key " + hidden + " and " + hidden + "! " + realKey[:7]; err != nil || string(body) != want {
		t.Errorf("body %q, %v, want %q", body, err, want)
	}
	if all := fmt.Sprint(resp.Header, resp.Trailer); strings.Contains(all, realKey) || !strings.Contains(all, "X-Later") {
		t.Errorf("fields %s", all)
	}
}

func TestPackedAnswerIsRefused(t *testing.T) {
	s := newRouteScene(t, func(s *scene, _ *egress.Route) {
		s.fromServers = func(w http.ResponseWriter, r *http.Request) bool {
			if got := r.Header.Get("Accept-Encoding"); got != "" {
				t.Errorf("asked for %q", got)
			}
			w.Header().Set("Content-Encoding", "gzip")
			io.WriteString(w, "xx")
			return true
		}
	})
	if resp := s.ask("POST", "/v1/messages", "", "Authorization", "Bearer WORD", "Accept-Encoding", "gzip"); resp.StatusCode != 502 {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// An answer that comes in pieces goes on in the same pieces, at once.
func TestStreamIsNotHeldBack(t *testing.T) {
	next := make(chan struct{})
	s := newRouteScene(t, func(s *scene, _ *egress.Route) {
		s.fromServers = func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 3 {
				fmt.Fprintf(w, "data: %d\n\n", i)
				w.(http.Flusher).Flush()
				select {
				case <-next:
				case <-r.Context().Done():
				}
			}
			return true
		}
	})
	resp := s.ask("POST", "/responses", "{}", "Authorization", "Bearer WORD")
	lines := bufio.NewReader(resp.Body)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	context.AfterFunc(ctx, func() { resp.Body.Close() })
	for i := range 3 {
		line, err := lines.ReadString('\n')
		if err != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("event %d: %q, %v", i, line, err)
		}
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		next <- struct{}{} // the server waits for it, so nothing can be read ahead
	}
}

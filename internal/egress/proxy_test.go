package egress_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry/internal/egress"
)

// scene is a proxy with two servers that it may reach by the names plain.test and tls.test, and every name leads here.
type scene struct {
	t           *testing.T
	plain, tls  *httptest.Server
	proxy       *egress.Proxy
	address     string
	policy      egress.Policy
	mu          sync.Mutex
	asked       []string // by the servers: method, host and path
	bodies      []string
	lookups     []string
	resolveTo   []netip.Addr
	fromServers func(w http.ResponseWriter, r *http.Request) bool // answers in their place
}

func newScene(t *testing.T, change func(*scene)) *scene {
	t.Helper()
	s := &scene{t: t, resolveTo: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}
	s.plain = httptest.NewServer(http.HandlerFunc(s.answer))
	s.tls = httptest.NewUnstartedServer(http.HandlerFunc(s.answer))
	s.tls.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that the tests break off
	s.tls.StartTLS()
	s.policy = egress.Policy{Allow: s.entries("plain.test:"+s.port(s.plain), "tls.test:"+s.port(s.tls)), Resolve: s.resolve}
	if change != nil {
		change(s)
	}
	var err error
	if s.proxy, err = egress.Start(t.Context(), s.policy); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	served := make(chan struct{})
	go func() { defer close(served); s.proxy.Serve(l) }()
	t.Cleanup(func() {
		if err := s.proxy.Close(); err != nil {
			t.Error(err)
		}
		<-served
		s.plain.Close()
		s.tls.Close()
	})
	return s
}

func (s *scene) answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.Host+" "+r.URL.RequestURI())
	s.bodies = append(s.bodies, string(body))
	s.mu.Unlock()
	if s.fromServers == nil || !s.fromServers(w, r) {
		fmt.Fprintln(w, "hello")
	}
}

func (s *scene) resolve(_ context.Context, host string) ([]netip.Addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lookups = append(s.lookups, host)
	if strings.HasPrefix(host, "missing.") {
		return nil, errors.New("no such host")
	}
	return s.resolveTo, nil
}

func (s *scene) reached() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *scene) port(server *httptest.Server) string {
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	return port
}

func (s *scene) entries(words ...string) []egress.Entry {
	s.t.Helper()
	out, err := egress.ParseList(strings.Join(words, ","))
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// client uses the proxy as programs do.
func (s *scene) client() *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(s.tls.Certificate())
	tr := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: s.address}),
		TLSClientConfig: &tls.Config{RootCAs: pool, InsecureSkipVerify: true}, // the certificate is for example.com
	}
	s.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

// raw writes text to the proxy and returns what comes back until the proxy ends the connection.
func (s *scene) raw(text string) string {
	s.t.Helper()
	c := s.dial()
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		s.t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	out, _ := io.ReadAll(c)
	return string(out)
}

func (s *scene) dial() net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// connect opens a tunnel and returns it with the status.
func (s *scene) connect(target string) (net.Conn, int) {
	s.t.Helper()
	c := s.dial()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	resp, err := http.ReadResponse(bufio.NewReaderSize(c, 16), &http.Request{Method: http.MethodConnect})
	if err != nil {
		s.t.Fatal(err)
	}
	return c, resp.StatusCode
}

// find returns the decision about a host.
func (s *scene) find(host string, allowed bool) egress.Decision {
	s.t.Helper()
	all := s.proxy.Decisions()
	for _, d := range all {
		if strings.Contains(d.Host, host) && d.Allowed == allowed {
			return d
		}
	}
	s.t.Errorf("no decision about %s, allowed %v, among %v", host, allowed, all)
	return egress.Decision{}
}

func TestAllowedHostsAreReached(t *testing.T) {
	s := newScene(t, nil)
	for _, u := range []string{"http://plain.test:" + s.port(s.plain) + "/a?b=c", "https://tls.test:" + s.port(s.tls) + "/d"} {
		resp, err := s.client().Get(u)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 || string(body) != "hello\n" {
			t.Errorf("%s: %d %q, %v", u, resp.StatusCode, body, err)
		}
		resp.Body.Close()
	}
	want := []string{"GET plain.test:" + s.port(s.plain) + " /a?b=c", "GET tls.test:" + s.port(s.tls) + " /d"}
	if got := s.reached(); !slices.Equal(got, want) {
		t.Errorf("the servers were asked %v, want %v", got, want)
	}
	if d := s.find("plain.test", true); d.Count != 1 || d.Received != 6 || d.Reason != "plain HTTP" {
		t.Errorf("account: %+v", d)
	}
	if d := s.find("tls.test", true); d.Count != 1 || d.Sent == 0 || d.Received == 0 || d.Reason != "tunnel" {
		t.Errorf("account: %+v", d)
	}
	if got, want := egress.Summary(s.proxy.Decisions()), "reached tls.test:"+s.port(s.tls)+", plain.test:"+s.port(s.plain); got != want {
		t.Errorf("summary %q, want %q", got, want)
	}
}

// TestBypasses sends what has led around other proxies. None may reach a server or be looked up.
func TestBypasses(t *testing.T) {
	for name, tt := range map[string]struct{ request, status string }{
		"host not on the list":           {"GET http://evil.test:PLAIN/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", "403"},
		"other port of an allowed host":  {"GET http://plain.test:1/ HTTP/1.1\r\nHost: plain.test\r\n\r\n", "403"},
		"connect to port 22":             {"CONNECT tls.test:22 HTTP/1.1\r\nHost: tls.test\r\n\r\n", "403"},
		"connect without a port":         {"CONNECT tls.test HTTP/1.1\r\nHost: tls.test\r\n\r\n", "400"},
		"connect with a body":            {"CONNECT tls.test:TLS HTTP/1.1\r\nHost: tls.test\r\nContent-Length: 3\r\n\r\nabc", "400"},
		"connect to a path":              {"CONNECT /tls.test:TLS HTTP/1.1\r\nHost: tls.test\r\n\r\n", "400"},
		"suffix of another name":         {"CONNECT evilexample.test:443 HTTP/1.1\r\nHost: x\r\n\r\n", "403"},
		"the bare name of a star":        {"CONNECT example.test:443 HTTP/1.1\r\nHost: x\r\n\r\n", "403"},
		"NUL":                            {"CONNECT evil.test\x00.example.test:443 HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
		"trailing dot":                   {"CONNECT tls.test.:TLS HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
		"userinfo in front":              {"CONNECT tls.test:TLS@evil.test:443 HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
		"userinfo in a URL":              {"GET http://plain.test:PLAIN@evil.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n", "400"},
		"userinfo of an allowed host":    {"GET http://a:b@plain.test:PLAIN/ HTTP/1.1\r\nHost: plain.test\r\n\r\n", "400"},
		"backslash in a URL":             {"GET http://evil.test\\@plain.test:PLAIN/ HTTP/1.1\r\nHost: plain.test\r\n\r\n", "400"},
		"escape in a URL's host":         {"GET http://plain%2etest:PLAIN/ HTTP/1.1\r\nHost: plain.test\r\n\r\n", "400"},
		"no host in a URL":               {"GET http:///plain.test/ HTTP/1.1\r\nHost: plain.test:PLAIN\r\n\r\n", "404"},
		"URL without slashes":            {"GET http:plain.test:PLAIN/ HTTP/1.1\r\nHost: plain.test:PLAIN\r\n\r\n", "40"},
		"path with a Host header":        {"GET / HTTP/1.1\r\nHost: plain.test:PLAIN\r\n\r\n", "404"},
		"path that looks like a host":    {"GET //plain.test:PLAIN/ HTTP/1.1\r\nHost: plain.test:PLAIN\r\n\r\n", "404"},
		"TLS asked of the proxy":         {"GET https://tls.test:TLS/ HTTP/1.1\r\nHost: tls.test\r\n\r\n", "400"},
		"another scheme":                 {"GET ftp://plain.test:PLAIN/ HTTP/1.1\r\nHost: plain.test\r\n\r\n", "400"},
		"plain text to the port of TLS":  {"GET http://a.example.test:443/ HTTP/1.1\r\nHost: plain.test\r\n\r\n", "400"},
		"address of the host":            {"GET http://127.0.0.1:PLAIN/ HTTP/1.1\r\nHost: plain.test\r\n\r\n", "403"},
		"decimal address":                {"GET http://2130706433:PLAIN/ HTTP/1.1\r\nHost: plain.test\r\n\r\n", "400"},
		"hex address":                    {"GET http://0x7f.0x0.0x0.0x1:PLAIN/ HTTP/1.1\r\nHost: plain.test\r\n\r\n", "400"},
		"octal address":                  {"GET http://0177.0.0.1:PLAIN/ HTTP/1.1\r\nHost: plain.test\r\n\r\n", "400"},
		"v4 in v6":                       {"GET http://[::ffff:127.0.0.1]:PLAIN/ HTTP/1.1\r\nHost: plain.test\r\n\r\n", "400"},
		"metadata address":               {"GET http://169.254.169.254/latest HTTP/1.1\r\nHost: plain.test\r\n\r\n", "403"},
		"upgrade":                        {"GET http://plain.test:PLAIN/ HTTP/1.1\r\nHost: plain.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "501"},
		"two lengths":                    {"POST http://plain.test:PLAIN/ HTTP/1.1\r\nHost: plain.test\r\nContent-Length: 3\r\nContent-Length: 40\r\n\r\nabc", "400"},
		"two hosts":                      {"GET http://plain.test:PLAIN/ HTTP/1.1\r\nHost: plain.test\r\nHost: evil.test\r\n\r\n", "400"},
		"no host header":                 {"GET http://plain.test:PLAIN/ HTTP/1.1\r\n\r\n", "400"},
		"space before the colon":         {"GET http://plain.test:PLAIN/ HTTP/1.1\r\nHost: plain.test\r\nContent-Length : 3\r\n\r\nabc", "400"},
		"unknown coding":                 {"POST http://plain.test:PLAIN/ HTTP/1.1\r\nHost: plain.test\r\nTransfer-Encoding: x, chunked\r\n\r\n", "501"},
		"the second version of HTTP":     {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "404"},
		"SOCKS":                          {"\x05\x01\x00\r\n\r\n", "400"},
		"name without a server behind":   {"CONNECT missing.example.test:443 HTTP/1.1\r\nHost: x\r\n\r\n", "502"},
		"name that leads to a loopback":  {"CONNECT a.example.test:443 HTTP/1.1\r\nHost: x\r\n\r\n", "403"},
		"star with a port to a loopback": {"GET http://a.example.net:8080/ HTTP/1.1\r\nHost: x\r\n\r\n", "403"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, func(s *scene) {
				s.policy.Allow = append(s.policy.Allow, s.entries("*.example.test", "*.example.net:8080")...)
			})
			request := strings.NewReplacer("PLAIN", s.port(s.plain), "TLS", s.port(s.tls)).Replace(tt.request)
			got := s.raw(request)
			if want := "HTTP/1.1 " + tt.status; tt.status != "" && !strings.HasPrefix(got, want) && !strings.HasPrefix(got, "HTTP/1.0 "+tt.status) {
				t.Errorf("answer %q, want %s", got, want)
			}
			if asked := s.reached(); len(asked) != 0 || strings.Contains(got, "hello") || strings.Contains(got, " 200 ") {
				t.Errorf("a server was reached: %v, %q", asked, got)
			}
			for _, host := range s.lookups {
				if !strings.HasSuffix(host, ".example.test") && !strings.HasSuffix(host, ".example.net") {
					t.Errorf("%q was looked up", host)
				}
			}
		})
	}
}

// The Host header of a request is not what it is about: the URL is, and the server sees only that.
func TestHostHeaderIsReplaced(t *testing.T) {
	s := newScene(t, nil)
	got := s.raw("GET http://plain.test:" + s.port(s.plain) + "/ HTTP/1.1\r\nHost: evil.test\r\nProxy-Authorization: x\r\nConnection: close\r\n\r\n")
	if want := []string{"GET plain.test:" + s.port(s.plain) + " /"}; !strings.Contains(got, "hello") || !slices.Equal(s.reached(), want) {
		t.Errorf("%q, asked %v, want %v", got, s.reached(), want)
	}
}

// Each request of a connection is decided by itself.
func TestSecondRequestIsDecidedToo(t *testing.T) {
	s := newScene(t, nil)
	allowed := "GET http://plain.test:" + s.port(s.plain) + "/ HTTP/1.1\r\nHost: plain.test\r\n\r\n"
	got := s.raw(allowed + strings.ReplaceAll(allowed, "plain.test", "evil.test") + allowed)
	if strings.Count(got, "hello") != 1 || !strings.Contains(got, "403 Forbidden") || len(s.reached()) != 1 {
		t.Errorf("answers %q, asked %v", got, s.reached())
	}
}

// A body with a length and chunks is framed anew: what one reader takes for a second request is body for all.
func TestTwoFramingsAreOneRequest(t *testing.T) {
	s := newScene(t, nil)
	hidden := "GET http://plain.test:" + s.port(s.plain) + "/hidden HTTP/1.1\r\nHost: plain.test\r\n\r\n"
	s.raw(fmt.Sprintf("POST http://plain.test:%s/ HTTP/1.1\r\nHost: plain.test\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", s.port(s.plain), len(hidden), hidden))
	if got := s.reached(); len(got) > 1 || len(got) == 1 && s.bodies[0] != hidden {
		t.Errorf("asked %v with %q", got, s.bodies)
	}
}

// A redirect is the client's to follow, and is decided like any other request.
func TestRedirectIsNotFollowed(t *testing.T) {
	s := newScene(t, func(s *scene) {
		s.fromServers = func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "http://evil.test/", http.StatusFound)
			return true
		}
	})
	resp, err := s.client().Get("http://plain.test:" + s.port(s.plain) + "/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden || len(s.reached()) != 1 {
		t.Errorf("status %d, asked %v", resp.StatusCode, s.reached())
	}
	if d := s.find("evil.test", false); d.Reason != "not on the list" {
		t.Errorf("decision %+v", d)
	}
}

// A name on the list that leads to a place which the list does not name is refused, whichever of its addresses does.
func TestRebinding(t *testing.T) {
	for _, tt := range []struct{ addrs, reason string }{
		{"127.0.0.1", "private"}, {"10.0.0.1", "private"}, {"192.168.1.1", "private"}, {"172.16.0.1", "private"}, {"100.64.0.1", "private"},
		{"::1", "private"}, {"fd00::1", "private"}, {"::ffff:10.0.0.1", "private"},
		{"169.254.169.254", "link-local"}, {"fe80::1", "link-local"}, {"::ffff:169.254.169.254", "link-local"}, {"0.0.0.0", "link-local"},
		{"::", "link-local"}, {"224.0.0.1", "link-local"}, {"ff02::1", "link-local"}, {"255.255.255.255", "link-local"}, {"240.0.0.1", "link-local"},
		{"198.18.0.1", "link-local"}, {"64:ff9b::7f00:1", "link-local"}, {"2002:7f00:1::", "link-local"}, {"2001::1", "link-local"}, {"::127.0.0.1", "link-local"},
		{"203.0.113.1 127.0.0.1", "link-local"}, {"8.8.8.8 127.0.0.1", "private"},
	} {
		s := newScene(t, func(s *scene) {
			s.policy.Allow = s.entries("*.example.test", "api.example.org")
			s.resolveTo = nil
			for _, a := range strings.Fields(tt.addrs) {
				s.resolveTo = append(s.resolveTo, netip.MustParseAddr(a))
			}
		})
		for _, host := range []string{"a.example.test", "api.example.org"} {
			if got := s.raw("CONNECT " + host + ":443 HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 403") {
				t.Errorf("%s at %s: %q", host, tt.addrs, got)
			}
			if d := s.find(host, false); !strings.Contains(d.Reason, tt.reason) {
				t.Errorf("%s at %s: %+v, want %q", host, tt.addrs, d, tt.reason)
			}
		}
		if len(s.lookups) != 2 {
			t.Errorf("%s: %d lookups for 2 requests", tt.addrs, len(s.lookups))
		}
	}
}

// A host that is written with its port may be private, but a name never leads to link-local addresses.
func TestExplicitHostMayBePrivate(t *testing.T) {
	s := newScene(t, func(s *scene) { s.resolveTo = []netip.Addr{netip.MustParseAddr("169.254.169.254")} })
	if got := s.raw("CONNECT tls.test:" + s.port(s.tls) + " HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 403") {
		t.Errorf("a name that leads to the metadata address: %q", got)
	}
	s = newScene(t, func(s *scene) { s.policy.Allow = s.entries("127.0.0.1:" + s.port(s.plain)) })
	if got := s.raw("GET http://127.0.0.1:" + s.port(s.plain) + "/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.Contains(got, "hello") {
		t.Errorf("an address that is on the list: %q", got)
	}
}

func TestAccountIsBounded(t *testing.T) {
	var logged int
	var mu sync.Mutex
	s := newScene(t, func(s *scene) {
		s.policy.Log = func(egress.Decision) { mu.Lock(); logged++; mu.Unlock() }
	})
	for i := range 250 {
		s.raw(fmt.Sprintf("CONNECT h%d.test:443 HTTP/1.1\r\nHost: x\r\n\r\n", i))
	}
	all := s.proxy.Decisions()
	total := int64(0)
	for _, d := range all {
		total += d.Count
	}
	if len(all) != 201 || total != 250 || logged != 201 {
		t.Errorf("%d decisions, %d in all, %d logged; want 201, 250, 201", len(all), total, logged)
	}
	long := s.raw("CONNECT " + strings.Repeat("a", 5000) + "\x01:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	if !strings.HasPrefix(long, "HTTP/1.1 400") {
		t.Errorf("a long host: %q", long)
	}
}

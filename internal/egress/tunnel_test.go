package egress_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry/internal/egress"
)

// helloFor returns the first bytes of a TLS client.
func helloFor(t *testing.T, cfg *tls.Config) []byte {
	t.Helper()
	mine, theirs := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tls.Client(mine, cfg).Handshake() // it ends when the pipe is closed
	}()
	buf := make([]byte, 64<<10)
	n, err := theirs.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	rest := make(chan []byte, 1)
	go func() {
		more, _ := io.ReadAll(theirs)
		rest <- more
	}()
	_ = theirs.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	first := append(buf[:n:n], <-rest...)
	theirs.Close()
	<-done
	mine.Close()
	return first
}

func TestTunnelIsForTheNamedHost(t *testing.T) {
	plainHello := helloFor(t, &tls.Config{ServerName: "tls.test"})
	for name, tt := range map[string]struct {
		first  []byte
		reason string // "" for a tunnel that stands
	}{
		"its name":          {plainHello, ""},
		"its name in case":  {bytes.Replace(plainHello, []byte("tls.test"), []byte("TLS.Test"), 1), ""},
		"another name":      {helloFor(t, &tls.Config{ServerName: "evil.test"}), "TLS for another host name"},
		"other allowed one": {helloFor(t, &tls.Config{ServerName: "plain.test"}), "TLS for another host name"},
		"name with a NUL":   {bytes.Replace(plainHello, []byte("tls.test"), []byte("tls\x00test"), 1), "TLS for another host name"},
		"no name":           {helloFor(t, &tls.Config{InsecureSkipVerify: true}), "TLS without a host name"},
		"encrypted hello":   {helloFor(t, encrypted(t, "tls.test")), "TLS with an encrypted hello"},
		"plain HTTP":        {[]byte("GET / HTTP/1.1\r\nHost: tls.test\r\n\r\n"), "a tunnel without TLS in it"},
		"SSH":               {[]byte("SSH-2.0-OpenSSH_9.2\r\n"), "a tunnel without TLS in it"},
		"SSL 2":             {[]byte("\x80\x2e\x01\x00\x02" + strings.Repeat("a", 41)), "a tunnel without TLS in it"},
		"cut off":           {plainHello[:20], "a tunnel without TLS in it"},
		"endless":           {endlessHello(), "a tunnel without TLS in it"},
		"nothing":           {nil, "a tunnel without TLS in it"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, nil)
			c, status := s.connect("tls.test:" + s.port(s.tls))
			defer c.Close()
			if status != 200 {
				t.Fatalf("CONNECT: %d", status)
			}
			go func() {
				_, _ = c.Write(tt.first)
				_ = c.(*net.TCPConn).CloseWrite()
			}()
			answer, _ := io.ReadAll(c)
			if tt.reason == "" {
				if d := s.find("tls.test", true); len(answer) == 0 || answer[0] != 22 || d.Sent < int64(len(tt.first)) {
					t.Errorf("the server answered %d bytes; %+v", len(answer), d)
				}
				return
			}
			if d := s.find("tls.test", false); d.Reason != tt.reason || len(answer) != 0 {
				t.Errorf("decision %+v, want %q; %d bytes came back", d, tt.reason, len(answer))
			}
		})
	}
}

// endlessHello is the beginning of a message of the largest size, in the smallest records.
func endlessHello() []byte {
	out := []byte{22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff}
	for range 20_000 {
		out = append(out, 22, 3, 1, 0, 1, 0)
	}
	return out
}

// encrypted is a client that hides a name behind the public one.
func encrypted(t *testing.T, public string) *tls.Config {
	t.Helper()
	key := bytes.Repeat([]byte{9}, 32) // any point will do: nobody decrypts it
	contents := append([]byte{1, 0, 32, 0, 32}, key...)
	contents = append(contents, 0, 4, 0, 1, 0, 1, 16, byte(len(public)))
	contents = append(append(contents, public...), 0, 0)
	config := append([]byte{0xfe, 0x0d, 0, byte(len(contents))}, contents...)
	list := append([]byte{0, byte(len(config))}, config...)
	return &tls.Config{ServerName: "hidden.test", EncryptedClientHelloConfigList: list, MinVersion: tls.VersionTLS13}
}

func TestTunnelThatSaysNothingEnds(t *testing.T) {
	s := newScene(t, func(s *scene) { s.policy.Limits.Hello = 20 * time.Millisecond })
	c, _ := s.connect("tls.test:" + s.port(s.tls))
	defer c.Close()
	if _, err := io.ReadAll(c); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Errorf("the tunnel stayed open: %v", err)
	}
	s.find("tls.test", false)
}

func TestIdleTunnelEnds(t *testing.T) {
	s := newScene(t, func(s *scene) { s.policy.Limits.Idle = 50 * time.Millisecond })
	c, _ := s.connect("tls.test:" + s.port(s.tls))
	defer c.Close()
	conn := tls.Client(c, &tls.Config{ServerName: "tls.test", InsecureSkipVerify: true})
	if err := conn.Handshake(); err != nil && !errors.Is(err, io.EOF) { // on a busy machine it ends before that
		t.Fatal(err)
	}
	if _, err := io.ReadAll(c); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Errorf("the tunnel stayed open: %v", err)
	}
}

func TestBytesAreBounded(t *testing.T) {
	s := newScene(t, func(s *scene) { s.policy.Limits.Bytes = 10_000 })
	resp, err := s.client().Post("http://plain.test:"+s.port(s.plain)+"/", "text/plain", strings.NewReader(strings.Repeat("x", 20_000)))
	if err == nil {
		resp.Body.Close()
		if resp.StatusCode != 429 && resp.StatusCode != 502 {
			t.Errorf("status %d", resp.StatusCode)
		}
	}
	if got := s.raw("CONNECT tls.test:" + s.port(s.tls) + " HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 429") {
		t.Errorf("after the last byte: %q", got)
	}
}

func TestBodyIsBounded(t *testing.T) {
	s := newScene(t, func(s *scene) { s.policy.Limits.Body = 1000 })
	resp, err := s.client().Post("http://plain.test:"+s.port(s.plain)+"/", "text/plain", strings.NewReader(strings.Repeat("x", 2000)))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 413 {
		t.Errorf("status %d, want 413", resp.StatusCode)
	}
}

// One connection too many waits, and gets its turn.
func TestConnectionsAreBounded(t *testing.T) {
	s := newScene(t, func(s *scene) { s.policy.Limits.Conns = 1 })
	first, _ := s.connect("tls.test:" + s.port(s.tls))
	second := s.dial()
	defer second.Close()
	if _, err := io.WriteString(second, "CONNECT evil.test:443 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	_ = second.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := second.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("a second connection was answered while the first stood")
	}
	first.Close()
	_ = second.SetReadDeadline(time.Now().Add(10 * time.Second))
	if got, _ := io.ReadAll(second); !bytes.HasPrefix(got, []byte("HTTP/1.1 403")) {
		t.Errorf("after the first has ended: %q", got)
	}
}

func TestCloseEndsTunnels(t *testing.T) {
	s := newScene(t, nil)
	c, _ := s.connect("tls.test:" + s.port(s.tls))
	defer c.Close()
	conn := tls.Client(c, &tls.Config{ServerName: "tls.test", InsecureSkipVerify: true})
	if err := conn.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := s.proxy.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(c); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Errorf("the tunnel stayed open: %v", err)
	}
}

func TestStartRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		route egress.Route
		want  string
	}{
		"no name":      {egress.Route{Upstream: "https://a.test"}, "name of its engine"},
		"odd name":     {egress.Route{Name: "a/b", Upstream: "https://a.test"}, "name of its engine"},
		"no URL":       {egress.Route{Name: "a"}, "https://host/path"},
		"other scheme": {egress.Route{Name: "a", Upstream: "file:///etc/passwd"}, "https://host/path"},
		"user":         {egress.Route{Name: "a", Upstream: "https://u:secret@a.test"}, "https://host/path"},
		"query":        {egress.Route{Name: "a", Upstream: "https://a.test/?k=secret"}, "https://host/path"},
		"odd host":     {egress.Route{Name: "a", Upstream: "https://a_b.test"}, "no name has"},
		"unreadable":   {egress.Route{Name: "a", Upstream: "https://a.test/%zzsecret"}, "cannot be read"},
		"odd key":      {egress.Route{Name: "a", Upstream: "https://a.test", Key: "secret\r\nHost: x"}, "the key has"},
		"odd rule":     {egress.Route{Name: "a", Upstream: "https://a.test", Rules: []egress.Rule{{Method: "GET", Path: "/["}}}, "syntax error"},
	} {
		_, err := egress.Start(t.Context(), egress.Policy{Routes: []egress.Route{tt.route}})
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func TestNamesAreLookedUpForTunnels(t *testing.T) {
	s := newScene(t, func(s *scene) { s.resolveTo = []netip.Addr{netip.MustParseAddr("127.0.0.1")} })
	c, status := s.connect("TLS.test:" + s.port(s.tls))
	c.Close()
	if status != 200 || len(s.lookups) != 1 || s.lookups[0] != "tls.test" {
		t.Errorf("status %d, lookups %v", status, s.lookups)
	}
}

package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ferry-fleet/ferry/internal/box"
)

// Proxy is the way out of one run. Its methods are safe for concurrent use.
type Proxy struct {
	limits  Limits
	allow   *dialer
	routes  map[string]*route
	account *account
	server  *http.Server
	plain   *http.Transport
	ctx     context.Context
	end     context.CancelFunc
}

// Start makes the proxy of one run. It answers where Attach or Serve put it, until ctx ends or Close is called.
func Start(ctx context.Context, policy Policy) (*Proxy, error) {
	if len(policy.Allow) > maxEntries {
		return nil, fmt.Errorf("start egress proxy: %d allowed hosts, at most %d can be named", len(policy.Allow), maxEntries)
	}
	resolve := policy.Resolve
	if resolve == nil {
		resolve = systemResolve
	}
	p := &Proxy{
		limits:  policy.Limits.withDefaults(),
		allow:   &dialer{entries: slices.Clone(policy.Allow), resolve: resolve},
		routes:  map[string]*route{},
		account: &account{log: policy.Log, lines: map[key]*Decision{}},
	}
	p.plain = transport(p.allow, nil)
	for _, r := range policy.Routes {
		made, err := p.newRoute(r, resolve, policy.Roots)
		if err != nil {
			return nil, fmt.Errorf("start egress proxy: route %s: %w", shown(r.Name), err)
		}
		p.routes[r.Name] = made
	}
	p.ctx, p.end = context.WithCancel(ctx)
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.handle), ErrorLog: log.New(io.Discard, "", 0), MaxHeaderBytes: 64 << 10,
		ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return p.ctx },
	}
	context.AfterFunc(p.ctx, func() { _ = p.server.Close() }) // listeners and connections: nothing is lost
	return p, nil
}

// transport speaks HTTP/1 to what d allows.
func transport(d *dialer, roots *x509.CertPool) *http.Transport {
	return &http.Transport{
		DialContext: d.dialContext, DisableCompression: true, TLSHandshakeTimeout: connectLimit,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		MaxResponseHeaderBytes: 256 << 10, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute,
	}
}

// Serve answers what comes in by l, until l is closed or the proxy ends.
func (p *Proxy) Serve(l net.Listener) {
	err := p.server.Serve(&limited{Listener: l, slots: make(chan struct{}, p.limits.Conns), end: p.ctx.Done()})
	if err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		p.account.refused("the proxy itself", 0, "it stopped: "+plain(err))
	}
}

// Attach returns spec with the proxy as its only way out. A box that cannot hold to that is refused by spec.Command.
func (p *Proxy) Attach(spec box.Spec) box.Spec {
	spec.Net, spec.Serve = box.NetProxy, p.Serve
	spec.Env = append(slices.DeleteFunc(slices.Clone(spec.Env), proxyVariable), p.environ()...)
	return spec
}

func proxyVariable(kv string) bool {
	name, _, _ := strings.Cut(kv, "=")
	return slices.Contains([]string{"http_proxy", "https_proxy", "no_proxy", "all_proxy", "ftp_proxy", "node_use_env_proxy"}, strings.ToLower(name))
}

// environ tells programs of the proxy. The box's own loopback is reached directly, but for a name on the list: that one
// is a service of the host's.
func (p *Proxy) environ() []string {
	direct := slices.DeleteFunc([]string{"localhost", "127.0.0.1", "::1"}, func(host string) bool {
		return slices.ContainsFunc(p.allow.entries, func(e Entry) bool { return e.Host == host })
	})
	const url = "http://" + box.ProxyAddress
	except := strings.Join(direct, ",")
	return []string{
		"HTTP_PROXY=" + url, "HTTPS_PROXY=" + url, "NO_PROXY=" + except,
		"http_proxy=" + url, "https_proxy=" + url, "no_proxy=" + except, "NODE_USE_ENV_PROXY=1",
	}
}

// Base returns the base URL by which the run reaches a route, and the word that it is to use as its key there.
func (p *Proxy) Base(name string) (url, word string, ok bool) {
	r, ok := p.routes[name]
	if !ok {
		return "", "", false
	}
	return "http://" + box.ProxyAddress + routePrefix + name, r.word, true
}

// Decisions returns what was decided so far.
func (p *Proxy) Decisions() []Decision { return p.account.decisions() }

// Close ends every connection of the run.
func (p *Proxy) Close() error {
	p.end()
	p.plain.CloseIdleConnections()
	for _, r := range p.routes {
		r.transport.CloseIdleConnections()
	}
	return p.server.Close()
}

// handle decides one request.
func (p *Proxy) handle(w http.ResponseWriter, r *http.Request) {
	if !p.account.within(p.limits.Bytes) {
		p.refuse(w, Target{Host: "any"}, &refusal{http.StatusTooManyRequests, "the run has moved as many bytes as it may"})
		return
	}
	switch {
	case r.Method == http.MethodConnect:
		p.tunnel(w, r)
	case r.URL.Host == "" || r.URL.Host == box.ProxyAddress:
		p.routed(w, r)
	default:
		p.forward(w, r)
	}
}

// refuse answers with the reason and counts it.
func (p *Proxy) refuse(w http.ResponseWriter, t Target, err error) {
	no := &refusal{http.StatusBadGateway, plain(err)}
	errors.As(err, &no)
	p.account.refused(t.Host, t.Port, no.reason)
	w.Header().Set("Connection", "close")
	w.Header().Set("X-Ferry-Egress", "refused")
	http.Error(w, "ferry: "+no.reason+": this run may reach only what net in agent.toml names", no.status)
}

// limited bounds the connections of a listener.
type limited struct {
	net.Listener

	slots chan struct{}
	end   <-chan struct{}
}

// Accept waits for a free place, then for a connection.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.end:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &placed{Conn: c, free: sync.OnceFunc(func() { <-l.slots })}, nil
}

// placed is a connection that gives its place back when it is closed.
type placed struct {
	net.Conn

	free func()
}

// Close closes the connection.
func (c *placed) Close() error {
	defer c.free()
	return c.Conn.Close()
}

// CloseWrite ends one direction.
func (c *placed) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

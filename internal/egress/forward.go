package egress

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
)

// forward answers a plain HTTP request for another host.
func (p *Proxy) forward(w http.ResponseWriter, r *http.Request) {
	t, err := plainTarget(r)
	if err != nil {
		p.refuse(w, Target{Host: shown(r.URL.Host)}, err)
		return
	}
	if _, no := p.allow.find(t); no != nil {
		p.refuse(w, t, no)
		return
	}
	p.pass(w, r, passage{target: t, how: "plain HTTP", transport: p.plain, rewrite: func(out *http.Request) {
		out.URL.Scheme, out.URL.Host, out.Host = "http", t.String(), t.authority(80)
	}})
}

// plainTarget reads what an absolute URL asks for. The Host header does not count: the server put the URL's in its place.
func plainTarget(r *http.Request) (Target, error) {
	switch {
	case r.URL.Scheme != "http":
		return Target{}, &refusal{http.StatusBadRequest, "not a plain HTTP request: use CONNECT for TLS"}
	case r.URL.User != nil:
		return Target{}, &refusal{http.StatusBadRequest, "a user in the URL"}
	case r.Header.Get("Upgrade") != "":
		return Target{}, &refusal{http.StatusNotImplemented, "an upgrade to another protocol"}
	}
	t, err := ParseTarget(r.URL.Host, 80)
	if err != nil {
		return t, &refusal{http.StatusBadRequest, err.Error()}
	}
	if t.Port == 443 {
		return t, &refusal{http.StatusBadRequest, "plain HTTP to a port of TLS"}
	}
	return t, nil
}

// authority is the Host header for t, which leaves out the scheme's own port.
func (t Target) authority(port uint16) string {
	if t.Port == port {
		return strings.TrimSuffix(t.String(), ":"+strconv.Itoa(int(port)))
	}
	return t.String()
}

// passage is one request on its way to where it may go.
type passage struct {
	target    Target
	how       string
	transport *http.Transport
	rewrite   func(out *http.Request)
	answer    func(*http.Response) error
}

// dropped are headers that are of this connection, or that name who is behind it.
var dropped = []string{"Proxy-Authorization", "Proxy-Connection", "Upgrade", "Via", "X-Real-Ip"}

// pass sends a request on and its answer back, as it comes.
func (p *Proxy) pass(w http.ResponseWriter, r *http.Request, way passage) {
	f := &flow{}
	r.Body = &counted{ReadCloser: http.MaxBytesReader(w, r.Body, p.limits.Body), count: func(n int64) bool {
		return p.account.move(f, n, 0, p.limits.Bytes)
	}}
	proxy := &httputil.ReverseProxy{
		Transport: way.transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(pr *httputil.ProxyRequest) {
			for _, name := range dropped {
				pr.Out.Header.Del(name)
			}
			if _, set := pr.Out.Header["User-Agent"]; !set {
				pr.Out.Header["User-Agent"] = nil // and no name of ours
			}
			way.rewrite(pr.Out)
		},
		ModifyResponse: func(resp *http.Response) error {
			if resp.StatusCode == http.StatusSwitchingProtocols {
				return &refusal{http.StatusBadGateway, "an upgrade that nobody asked for"}
			}
			p.account.allowed(f, way.target, way.how)
			resp.Header.Del("Alt-Svc") // of a way that does not lead through here
			if way.answer != nil {
				if err := way.answer(resp); err != nil {
					return err
				}
			}
			resp.Body = &counted{ReadCloser: resp.Body, count: func(n int64) bool { return p.account.move(f, 0, n, p.limits.Bytes) }}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			var long *http.MaxBytesError
			if errors.As(err, &long) {
				err = &refusal{http.StatusRequestEntityTooLarge, "a request body that is too large"}
			}
			p.refuse(w, way.target, err)
		},
	}
	proxy.ServeHTTP(w, r)
}

// counted is a body whose bytes are counted, and that ends when there are too many of them.
type counted struct {
	io.ReadCloser

	count func(int64) bool
}

// Read reads on.
func (c *counted) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	if n > 0 && !c.count(int64(n)) {
		return 0, &refusal{http.StatusTooManyRequests, "the run has moved as many bytes as it may"}
	}
	return n, err
}

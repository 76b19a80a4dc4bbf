package egress

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
)

// routePrefix is where routes begin in the box.
const routePrefix = "/e/"

// route is a Route in use.
type route struct {
	Route

	upstream  *url.URL
	target    Target
	transport *http.Transport
	word      string // what the run has for the key
	asked     atomic.Int64
}

func (p *Proxy) newRoute(r Route, resolve func(context.Context, string) ([]netip.Addr, error), roots *x509.CertPool) (*route, error) {
	u, e, err := r.check()
	if err != nil {
		return nil, err
	}
	if p.routes[r.Name] != nil {
		return nil, errors.New("it is there twice")
	}
	if len(r.Rules) == 0 {
		r.Rules = APIRules()
	}
	var random [16]byte
	_, _ = rand.Read(random[:]) // it cannot fail
	d := &dialer{entries: []Entry{e}, resolve: resolve}
	return &route{
		Route: r, upstream: u, target: Target{Host: e.Host, Port: e.Port, addr: e.addr}, transport: transport(d, roots),
		word: "ferry-run-" + hex.EncodeToString(random[:]),
	}, nil
}

// keyHeaders carry keys.
var keyHeaders = []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"}

// unneeded are headers of the run that no endpoint needs, and Accept-Encoding: an answer must be readable here.
var unneeded = []string{"Accept-Encoding", "Cookie", "Origin", "Referer"}

// plainPath is a path that every server reads in the same way.
var plainPath = regexp.MustCompile(`^(/[A-Za-z0-9_~:@-][A-Za-z0-9._~:@-]*)+$`)

// routed answers a request to the proxy itself.
func (p *Proxy) routed(w http.ResponseWriter, r *http.Request) {
	name, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), routePrefix), "/")
	rest = "/" + rest
	rt := p.routes[name]
	if rt == nil || !strings.HasPrefix(r.URL.EscapedPath(), routePrefix) {
		p.refuse(w, Target{Host: "the proxy itself"}, &refusal{http.StatusNotFound, "no such route"})
		return
	}
	header, no := rt.admit(r, rest)
	if no != nil {
		p.refuse(w, rt.target, no)
		return
	}
	key := r.Header.Get(header)
	p.pass(w, r, passage{
		target: rt.target, how: "with the key of engine " + rt.Name, transport: rt.transport, answer: rt.clean,
		rewrite: func(out *http.Request) {
			for _, name := range slices.Concat(keyHeaders, unneeded) {
				out.Header.Del(name)
			}
			if header != "" {
				out.Header.Set(header, strings.Replace(key, rt.word, rt.Key, 1))
			}
			port := map[string]uint16{"http": 80, "https": 443}[rt.upstream.Scheme]
			out.URL.Scheme, out.URL.Host, out.Host = rt.upstream.Scheme, rt.target.String(), rt.target.authority(port)
			out.URL.Path, out.URL.RawPath = rt.upstream.Path+rest, ""
		},
	})
}

// admit decides a request by its method, path and word, and returns the header in which the key belongs.
func (rt *route) admit(r *http.Request, rest string) (header string, no *refusal) {
	switch {
	case r.Header.Get("Upgrade") != "":
		return "", &refusal{http.StatusNotImplemented, "an upgrade to another protocol"}
	case !plainPath.MatchString(rest) || !allows(rt.Rules, r.Method, rest):
		return "", &refusal{http.StatusForbidden, "this method and path of the endpoint are not allowed"}
	}
	if rt.Key != "" {
		at := slices.IndexFunc(keyHeaders, func(name string) bool {
			values := r.Header.Values(name)
			return len(values) == 1 && (values[0] == rt.word || name == "Authorization" && values[0] == "Bearer "+rt.word)
		})
		if at < 0 {
			return "", &refusal{http.StatusUnauthorized, "the request does not carry the key word of this run"}
		}
		header = keyHeaders[at]
	}
	if n := rt.asked.Add(1); rt.MaxRequests > 0 && n > rt.MaxRequests {
		return "", &refusal{http.StatusTooManyRequests, "the run has asked as often as it may"}
	}
	return header, nil
}

// clean keeps the key out of an answer, should the endpoint repeat it.
func (rt *route) clean(resp *http.Response) error {
	if e := resp.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return &refusal{http.StatusBadGateway, "a packed answer that was not asked for"}
	}
	resp.Header.Del("Set-Cookie")
	if rt.Key == "" {
		return nil
	}
	rt.cleanFields(resp.Header)
	// Fields behind the body are there when it has ended.
	resp.Body = &masked{body: resp.Body, key: []byte(rt.Key), end: func() { rt.cleanFields(resp.Trailer) }}
	return nil
}

func (rt *route) cleanFields(fields http.Header) {
	for _, values := range fields {
		for i := range values {
			values[i] = strings.ReplaceAll(values[i], rt.Key, rt.word)
		}
	}
}

package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ferry-fleet/ferry/internal/redact"
)

// Config says where a model is and how it is spoken to.
type Config struct {
	Wire    string // one of Wires
	BaseURL string // with or without version and path
	Key     string // "" where the endpoint wants none
	// AllowHTTP lets the key go over plain HTTP to another machine.
	AllowHTTP bool
	// HTTP makes the connections. Its own time limit and its redirects are not used.
	HTTP   *http.Client
	Clocks Clocks
	// CostHeader names the header in which a gateway tells the price of an answer
	// in dollars, or is "".
	CostHeader string
	Now        func() time.Time // for the waits that are told as a time of day
}

// HTTPClient returns a client with connections of its own. Close it with its
// CloseIdleConnections.
func HTTPClient() *http.Client {
	dial := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dial.DialContext, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 60 * time.Second,
		MaxIdleConnsPerHost: 4, MaxResponseHeaderBytes: 256 << 10,
	}}
}

// Client asks one endpoint. It is safe for concurrent use.
type Client struct {
	config Config
	wire   wire
	base   *url.URL
	http   *http.Client
	redact *redact.Redactor

	mu      sync.Mutex
	without map[string]bool // optional fields that the endpoint does not know
}

// New returns a client, or says what is wrong with c.
func New(c Config) (*Client, error) {
	w, ok := wireOf(c.Wire)
	if !ok {
		return nil, fmt.Errorf("wire %q is unknown: use one of %s", c.Wire, strings.Join(Wires(), ", "))
	}
	base, err := addressOf(c.BaseURL, c.Wire)
	if err != nil {
		return nil, err
	}
	if err := checkPlain(base, c.Key, c.AllowHTTP); err != nil {
		return nil, err
	}
	if strings.ContainsAny(c.Key, "\r\n\x00") {
		return nil, errors.New("the key holds a line end: write it in one line")
	}
	if c.Clocks.First == 0 {
		c.Clocks.First = firstClock
	}
	if c.Clocks.Idle == 0 {
		c.Clocks.Idle = idleClock
	}
	// A redirect would carry the key and the prompt to an address that nobody chose.
	h := *c.HTTP
	h.Timeout = 0
	h.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{config: c, wire: w, base: base, http: &h, redact: redact.New([]string{c.Key}), without: map[string]bool{}}, nil
}

// Stream asks the model and returns its whole answer; sink hears it as it comes.
// Every error is an *Error. A field that the endpoint refuses by name is left out
// in another try, before anything of an answer has come.
func (c *Client) Stream(ctx context.Context, r Request, sink Sink) (Result, error) {
	c.mu.Lock()
	without := maps.Clone(c.without)
	c.mu.Unlock()
	for {
		body := c.wire.body(r, func(field string) bool { return without[field] })
		res, err := c.once(ctx, r, body, sink)
		if err == nil {
			c.mu.Lock()
			maps.Copy(c.without, without)
			c.mu.Unlock()
			return res, nil
		}
		field := c.refused(err, body)
		if field == "" {
			return Result{}, c.shown(err)
		}
		without[field] = true
	}
}

// refused names the optional field of the body that the endpoint has refused, or
// "". Each is found at most once, because it is not in the next body.
func (c *Client) refused(err *Error, body object) string {
	if err.Status != http.StatusBadRequest && err.Status != http.StatusUnprocessableEntity {
		return ""
	}
	for _, field := range c.wire.optional {
		if _, sent := body[field]; sent && strings.Contains(err.Body, field) {
			return field
		}
	}
	return ""
}

// once asks once.
func (c *Client) once(parent context.Context, r Request, body object, sink Sink) (Result, *Error) {
	data, err := json.Marshal(body)
	if err != nil {
		return Result{}, &Error{Class: BadRequest, Message: "the request cannot be written: " + err.Error(), Err: err}
	}
	accept := "application/json"
	if r.Stream {
		accept = "text/event-stream"
	}
	ctx, w := newWatch(parent, c.config.Clocks.First)
	defer w.stop()
	resp, failed := c.send(parent, ctx, question{http.MethodPost, c.base.JoinPath(c.wire.path), data, accept})
	if failed != nil {
		return Result{}, failed
	}
	defer resp.Body.Close() // what matters of it was read
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return Result{}, c.status(resp, w)
	}
	t := &turn{sink: sink}
	if failed = c.hear(parent, ctx, t, w, resp, r.Stream); failed != nil {
		failed.Exposed = t.exposed
		return Result{}, failed
	}
	res := t.result()
	c.cost(resp, &res.Usage)
	return res, nil
}

// question is one HTTP request.
type question struct {
	method string
	url    *url.URL
	body   []byte
	accept string
}

func (c *Client) send(parent, ctx context.Context, q question) (*http.Response, *Error) {
	req, err := http.NewRequestWithContext(ctx, q.method, q.url.String(), bytes.NewReader(q.body))
	if err != nil {
		return nil, &Error{Class: BadRequest, Message: plain(err), Err: err}
	}
	req.Header.Set("Accept", q.accept)
	req.Header.Set("User-Agent", "ferry")
	if q.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	c.wire.header(req.Header, c.config.Key)
	resp, err := c.http.Do(req)
	if err != nil {
		e := failure(parent, ctx, err)
		if e.Class == Incomplete { // nothing has come: the endpoint is not there
			e = &Error{Class: Transient, Message: c.base.Host + ": " + plain(err), Err: err}
		}
		return nil, e
	}
	return resp, nil
}

// plain is an error of net/http without the address, which its reader knows.
func plain(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err.Error()
	}
	return err.Error()
}

// status makes the error of an answer that is no success.
func (c *Client) status(resp *http.Response, w *watch) *Error {
	data, err := io.ReadAll(w.body(resp.Body, statusLimits()))
	// What came of the body is enough; the status says the rest.
	f := faultOf(data)
	e := faultError(resp.StatusCode, f)
	e.Err = err
	if waits(resp.StatusCode) {
		now := c.config.Now()
		if e.RetryAfter = retryAfter(resp.Header, now); e.RetryAfter == 0 {
			e.RetryAfter = retryAfter(f.header(), now)
		}
	}
	if to := resp.Header.Get("Location"); to != "" && resp.StatusCode < 400 {
		e.Message = "the endpoint sends on to " + to + ", which is not followed: if that is right, write it as base_url"
	}
	if e.Message == "" {
		e.Message = http.StatusText(resp.StatusCode)
	}
	e.Body = string(data)
	return e
}

// shown makes an error fit to be shown: redacted, bounded, text.
func (c *Client) shown(e *Error) *Error {
	e.Message = cut(c.redact.String(strings.ToValidUTF8(e.Message, "")), 2<<10)
	e.Body = cut(c.redact.String(strings.ToValidUTF8(e.Body, "")), maxErrorBody)
	e.Code = c.redact.String(e.Code)
	if e.Err != nil {
		e.Err = &hidden{c.redact.String(e.Err.Error()), e.Err}
	}
	return e
}

// hidden is a cause whose text was redacted.
type hidden struct {
	text string
	err  error
}

func (h *hidden) Error() string { return h.text }

// Is finds the cause without giving it away.
func (h *hidden) Is(target error) bool { return errors.Is(h.err, target) }

// cut shortens s to limit bytes at a rune.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}

// hear hears a success to its end.
func (c *Client) hear(parent, ctx context.Context, t *turn, w *watch, resp *http.Response, stream bool) *Error {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case err == nil && (kind == "text/html" || kind == "application/xhtml+xml"):
		return &Error{Class: Malformed, Status: resp.StatusCode, Message: "the endpoint answers with a web page: base_url is not the address of a model"}
	case !stream || kind == "application/json":
		return c.hearWhole(parent, ctx, t, w.body(resp.Body, plainLimits()))
	}
	events := newSSEReader(w.body(resp.Body, limits{bytes: maxSSEBytes, idle: c.config.Clocks.Idle}))
	for n := 0; !t.done; n++ {
		e, err := events.next()
		if err != nil {
			f := failure(parent, ctx, err)
			f.Empty = n == 0 && errors.Is(err, io.EOF)
			return f
		}
		if err := c.wire.event(t, e.name, e.data); err != nil {
			return broken(err)
		}
	}
	return nil
}

func (c *Client) hearWhole(parent, ctx context.Context, t *turn, r io.Reader) *Error {
	data, err := io.ReadAll(r)
	switch {
	case err != nil:
		return failure(parent, ctx, err)
	case len(bytes.TrimSpace(data)) == 0:
		return &Error{Class: Incomplete, Message: "the answer is empty", Empty: true}
	}
	if err := c.wire.whole(t, data); err != nil {
		return broken(err)
	}
	if !t.done {
		return &Error{Class: Malformed, Message: "the endpoint answered with something that is no answer of a model"}
	}
	return nil
}

// broken is the error of an answer that broke the protocol, a bound, or that
// holds an error itself.
func broken(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Class: Malformed, Message: err.Error(), Err: err}
}

// cost takes over the price that a gateway tells in a header, or behind a stream.
func (c *Client) cost(resp *http.Response, u *Usage) {
	if c.config.CostHeader == "" {
		return
	}
	for _, h := range []http.Header{resp.Header, resp.Trailer} {
		told := strings.TrimPrefix(strings.TrimSpace(h.Get(c.config.CostHeader)), "$")
		if dollars, err := strconv.ParseFloat(told, 64); err == nil {
			u.CostTold, u.CostMicroUSD = true, microUSD(dollars)
		}
	}
}

package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// tunnel answers CONNECT: it dials, says so, and passes bytes on when the first of them are the beginning of TLS with
// the host that was asked for.
func (p *Proxy) tunnel(w http.ResponseWriter, r *http.Request) {
	t, err := ParseTarget(r.RequestURI, 0)
	if err != nil {
		p.refuse(w, Target{Host: shown(r.RequestURI)}, &refusal{http.StatusBadRequest, err.Error()})
		return
	}
	if r.ContentLength != 0 {
		p.refuse(w, t, &refusal{http.StatusBadRequest, "a CONNECT with a body"})
		return
	}
	up, err := p.allow.dial(r.Context(), t)
	if err != nil {
		p.refuse(w, t, err)
		return
	}
	defer up.Close()
	down, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil { // unreachable: the server speaks HTTP/1 only
		p.refuse(w, t, &refusal{http.StatusInternalServerError, "no tunnel on this connection"})
		return
	}
	defer down.Close()
	stop := context.AfterFunc(p.ctx, func() { _, _ = up.Close(), down.Close() }) // the copies end by that
	defer stop()
	if _, err := io.WriteString(down, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	first, err := p.hello(down, buffered, t)
	if err != nil {
		p.account.refused(t.Host, t.Port, err.Error())
		return
	}
	f := &flow{}
	p.account.allowed(f, t, "tunnel")
	if !p.account.move(f, int64(len(first)), 0, p.limits.Bytes) {
		return
	}
	if _, err := up.Write(first); err != nil {
		return
	}
	p.splice(down, up, f)
}

// hello reads the client's first message in its time and returns its bytes.
func (p *Proxy) hello(down net.Conn, buffered *bufio.ReadWriter, t Target) ([]byte, error) {
	late := time.AfterFunc(p.limits.Hello, func() { _ = down.SetReadDeadline(time.Unix(1, 0)) }) // the read ends by that
	defer late.Stop()
	first, name, err := readHello(buffered)
	if err != nil {
		return nil, err
	}
	if !late.Stop() {
		return nil, errors.New("TLS did not begin in time")
	}
	if name == "" {
		return nil, errors.New("TLS without a host name")
	}
	host, _, err := parseHost(name)
	if err != nil || host != t.Host {
		return nil, errors.New("TLS for another host name")
	}
	rest, err := buffered.Peek(buffered.Reader.Buffered()) // what came with it
	return append(first, rest...), err
}

// maxHello bounds the bytes before TLS has said what it wants.
const maxHello = 64 << 10

// encryptedHello is the extension by which a client hides the host name that it really wants.
const encryptedHello = 0xfe0d

// errRead ends a handshake whose first message was read.
var errRead = errors.New("the hello was read")

// readHello reads a ClientHello with the parser of crypto/tls, which takes no name twice and no extension twice, and
// returns what it read and the host name in it.
func readHello(r io.Reader) (first []byte, name string, err error) {
	rec := &recorder{from: r}
	var hello *tls.ClientHelloInfo
	err = tls.Server(rec, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		hello = h
		return nil, errRead
	}}).Handshake()
	switch {
	case hello == nil || !errors.Is(err, errRead):
		return nil, "", errors.New("a tunnel without TLS in it")
	case slices.Contains(hello.Extensions, encryptedHello):
		return nil, "", errors.New("TLS with an encrypted hello")
	}
	return rec.read.Bytes(), hello.ServerName, nil
}

// recorder is the connection of a handshake that is only read: it keeps what came and drops what would be answered.
type recorder struct {
	net.Conn // nil: nothing else of it is used

	from io.Reader
	read bytes.Buffer
}

// Read reads on, up to maxHello in all.
func (r *recorder) Read(b []byte) (int, error) {
	left := maxHello - r.read.Len()
	if left <= 0 {
		return 0, errors.New("the hello is too long")
	}
	n, err := r.from.Read(b[:min(len(b), left)])
	r.read.Write(b[:n])
	return n, err
}

// Write drops b.
func (r *recorder) Write(b []byte) (int, error) { return len(b), nil }

// Close does nothing: the connection goes on.
func (r *recorder) Close() error { return nil }

// SetWriteDeadline does nothing: no write waits.
func (r *recorder) SetWriteDeadline(time.Time) error { return nil }

// splice passes bytes both ways until both are done, nothing has moved for too long, or too much has.
func (p *Proxy) splice(down, up net.Conn, f *flow) {
	end := func() { _, _ = up.Close(), down.Close() } // the copies end by that
	idle := time.AfterFunc(p.limits.Idle, end)
	defer idle.Stop()
	pass := func(to, from net.Conn, count func(int64) bool) {
		buf := make([]byte, 32<<10)
		for {
			n, err := from.Read(buf)
			idle.Reset(p.limits.Idle)
			if n > 0 {
				if !count(int64(n)) {
					end()
					return
				}
				if _, err := to.Write(buf[:n]); err != nil {
					end()
					return
				}
			}
			if err != nil {
				_ = closeWrite(to) // the other direction may go on
				return
			}
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { pass(up, down, func(n int64) bool { return p.account.move(f, n, 0, p.limits.Bytes) }) })
	wg.Go(func() { pass(down, up, func(n int64) bool { return p.account.move(f, 0, n, p.limits.Bytes) }) })
	wg.Wait()
}

package modelserver

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Pipe serves s in memory: whatever address the returned client asks, with http
// or https, s answers.
// It takes no port and works in a bubble of testing/synctest. The returned close
// ends the requests under way.
func Pipe(s *Server) (client *http.Client, stop func() error) {
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	srv := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	transport := &http.Transport{DialContext: l.dial, DialTLSContext: l.dial}
	stop = func() error {
		s.Close()
		transport.CloseIdleConnections()
		err := srv.Close()
		<-done
		return err
	}
	return &http.Client{Transport: transport}, stop
}

// pipeListener is a net.Listener whose connections are pairs of pipes.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept returns the other end of the next connection.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close lets no further connection in.
func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr names the listener.
func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

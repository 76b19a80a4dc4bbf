package box_test

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ferry-fleet/ferry/internal/box"
)

// greeter answers every connection with one line, until its listener is closed.
func greeter(served *atomic.Int32) func(net.Listener) {
	return func(l net.Listener) {
		served.Add(1)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(c, "hello from outside")
			c.Close()
		}
	}
}

func (p place) ported(t *testing.T, serve func(net.Listener)) box.Spec {
	t.Helper()
	if strongest() != box.LevelBwrap {
		t.Skip("bubblewrap is not installed")
	}
	s := p.spec(box.LevelBwrap, box.NetProxy)
	s.Serve = serve
	return s
}

func TestPortLeadsOutside(t *testing.T) {
	var served atomic.Int32
	s := newPlace(t).ported(t, greeter(&served))
	for range 2 { // each box has a port of its own
		got := sh(t, s, `bash -c 'cat <"/dev/tcp/127.0.0.1/3128"'; ls -l /proc/self/fd | grep -c socket; cat /proc/net/dev | tail -n +3 | cut -d: -f1`)
		// No socket of ferry's is left open in the box, and loopback is its only interface.
		if want := "hello from outside 0 lo"; strings.Join(strings.Fields(got), " ") != want {
			t.Errorf("the box said %q, want %q", got, want)
		}
	}
	if served.Load() != 2 {
		t.Errorf("served %d boxes, want 2", served.Load())
	}
}

func TestPortKeepsTheExitStatus(t *testing.T) {
	var served atomic.Int32
	if _, exit := run(t, newPlace(t).ported(t, greeter(&served)), "sh", "-c", "exit 7"); exit.Code != 7 {
		t.Errorf("exit %v, want status 7", exit)
	}
}

// A box that never starts, or whose program is not there, ends without a listener and without waiting.
func TestPortOfABoxThatDoesNotStart(t *testing.T) {
	var served atomic.Int32
	s := newPlace(t).ported(t, greeter(&served))
	c, err := s.Command([]string{"true"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	out, exit := run(t, s, "no-such-program")
	if exit.Code != 125 || !strings.Contains(out, "no-such-program") {
		t.Errorf("a missing program: %v, %q", exit, out)
	}
	if served.Load() != 0 {
		t.Errorf("served %d boxes, want none", served.Load())
	}
}

// A listener that nobody answers is closed with the box.
func TestPortEndsWithTheBox(t *testing.T) {
	gone := make(chan error, 1)
	s := newPlace(t).ported(t, func(l net.Listener) {
		_, err := l.Accept()
		gone <- err
	})
	if _, exit := run(t, s, "true"); exit.Code != 0 {
		t.Errorf("exit %v", exit)
	}
	select {
	case err := <-gone:
		if err == nil {
			t.Error("Accept returned a connection")
		}
	default:
		t.Error("the box was closed before what serves it had ended")
	}
}

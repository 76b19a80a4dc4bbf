package box

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ferry-fleet/ferry/internal/process"
)

// portProgram is ferry itself in a box that has a port.
const portProgram = "/run/ferry/box"

// port is the outer half of a box's one port. A socket stays in the network where it was made, whoever holds it: the
// helper in the box listens and hands the listener out, so that no process and no file of the host's is left inside.
type port struct {
	conn *net.UnixConn
	done chan struct{} // closed when Serve has returned or will not be called
	err  error         // to be read when done is closed

	mu       sync.Mutex
	closed   bool
	listener net.Listener
}

// withPortProgram returns s with ferry itself shown in the box.
func (s Spec) withPortProgram() (Spec, error) {
	exe, err := os.Executable()
	if err != nil {
		return s, err
	}
	s.Binds = append(slices.Clone(s.Binds), Bind{Host: exe, Path: portProgram})
	return s, nil
}

// port makes argv the command that opens the port first, and returns what closes the box.
func (s Spec) port(l *launch, argv []string) ([]string, func() error, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	l.files = append(l.files, os.NewFile(uintptr(pair[1]), "port inside"))
	fd := strconv.Itoa(firstData + len(l.files) - 1)
	outer := os.NewFile(uintptr(pair[0]), "port outside")
	conn, err := net.FileConn(outer)
	if err = errors.Join(err, outer.Close()); err != nil {
		return nil, nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	p := &port{conn: conn.(*net.UnixConn), done: make(chan struct{})} // what was made above is one
	go p.serve(s.Serve)
	return append([]string{portProgram, helperPort, fd}, argv...), func() error { return errors.Join(p.close(), l.close()) }, nil
}

func (p *port) serve(serve func(net.Listener)) {
	defer close(p.done)
	listener, err := p.receive()
	p.err = err
	p.mu.Lock()
	p.listener = listener
	closed := p.closed
	p.mu.Unlock()
	if listener == nil {
		return
	}
	if closed { // between the message and now
		_ = listener.Close() // nobody used it
		return
	}
	serve(listener)
}

// receive returns the listener of the box, or nil when the box ended without one.
func (p *port) receive() (net.Listener, error) {
	word, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := p.conn.ReadMsgUnix(word, rights)
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("receive the port of the box: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err == nil && len(messages) != 1 {
		err = errors.New("nothing came with the message")
	}
	if err != nil {
		return nil, fmt.Errorf("receive the port of the box: %w", err)
	}
	fds, err := unix.ParseUnixRights(&messages[0]) // there is room for one
	if err != nil {
		return nil, fmt.Errorf("receive the port of the box: %w", err)
	}
	file := os.NewFile(uintptr(fds[0]), "port of the box")
	defer file.Close() // FileListener has a copy
	return net.FileListener(file)
}

// close ends the listener and waits for Serve.
func (p *port) close() error {
	p.mu.Lock()
	p.closed = true
	if p.listener != nil {
		_ = p.listener.Close() // Serve may have closed it
	}
	p.mu.Unlock()
	_ = p.conn.Close() // again, when the box is closed twice
	<-p.done
	return p.err
}

// openPort is the helper in the box: it listens, hands the listener out over the descriptor fd, and becomes the program.
func openPort(fd string, argv []string) error {
	n, err := strconv.Atoi(fd)
	if err != nil || n < firstData {
		return fmt.Errorf("%s is started by ferry, not by hand", helperPort)
	}
	program, err := process.LookPath(argv[0], os.Getenv("PATH"))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", ProxyAddress)
	if err != nil {
		return err
	}
	file, err := listener.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	err = unix.Sendmsg(n, []byte{1}, unix.UnixRights(int(file.Fd())), nil, 0)
	if err = errors.Join(err, file.Close(), listener.Close(), unix.Close(n)); err != nil {
		return fmt.Errorf("hand out the port of the box: %w", err)
	}
	return fmt.Errorf("run %s: %w", program, syscall.Exec(program, argv, os.Environ()))
}

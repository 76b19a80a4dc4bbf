package egress

import (
	"bytes"
	"io"
)

// masked is a body in which the key is overwritten, whatever pieces it comes in. It holds back no more than may be the
// beginning of a key, so that a stream is not delayed.
type masked struct {
	body io.ReadCloser
	key  []byte
	end  func() // called when body has ended
	text []byte // read and not passed on yet
	safe int    // so much of text can be passed on
	err  error  // of body, when text is passed on
}

// Read passes on what is known not to be the key.
func (m *masked) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for m.safe == 0 {
		if m.err != nil {
			return 0, m.err
		}
		m.more()
	}
	n := copy(b, m.text[:m.safe])
	m.text, m.safe = m.text[n:], m.safe-n
	return n, nil
}

// more reads once and decides how far text is safe.
func (m *masked) more() {
	buf := make([]byte, 16<<10)
	n, err := m.body.Read(buf)
	m.text = append(m.text, buf[:n]...)
	if bytes.Contains(m.text, m.key) {
		m.text = bytes.ReplaceAll(m.text, m.key, bytes.Repeat([]byte{'*'}, len(m.key)))
	}
	m.safe = len(m.text)
	if m.err = err; err != nil {
		m.end()
		return
	}
	for tail := min(len(m.key)-1, len(m.text)); tail > 0; tail-- {
		if bytes.HasSuffix(m.text, m.key[:tail]) {
			m.safe -= tail
			return
		}
	}
}

// Close closes the body.
func (m *masked) Close() error { return m.body.Close() }

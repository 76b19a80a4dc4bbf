package provider

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Bounds of a stream.
const (
	maxSSELine   = 1 << 20
	maxSSEEvent  = 2 << 20
	maxSSEBytes  = 64 << 20
	maxSSEEvents = 100_000
)

// errBound is the cause of a stream that exceeds one of its bounds.
var errBound = errors.New("the answer exceeds a bound")

// sseEvent is one server-sent event.
type sseEvent struct {
	name string
	data []byte
}

// sseReader cuts a stream into events by the rules of the HTML standard: lines
// end with CR, LF or both, an empty line ends the event, a line that begins with
// a colon is a comment, a mark at the very start is passed over.
type sseReader struct {
	r      *bufio.Reader
	line   []byte
	read   int64
	events int
	begun  bool
	cr     bool // the last line ended with CR, so a LF belongs to it
}

func newSSEReader(r io.Reader) *sseReader { return &sseReader{r: bufio.NewReader(r)} }

// next returns the next event that has data. The data is valid until the next
// call. At the end of the stream it returns io.EOF; an event that no empty line
// has ended is dropped.
func (s *sseReader) next() (sseEvent, error) {
	var e sseEvent
	var data []byte
	has := false
	for {
		line, err := s.readLine()
		if err != nil {
			return sseEvent{}, err
		}
		if len(line) == 0 {
			if !has {
				e = sseEvent{}
				continue
			}
			if s.events++; s.events > maxSSEEvents {
				return sseEvent{}, fmt.Errorf("%w: more than %d events", errBound, maxSSEEvents)
			}
			e.data = data
			return e, nil
		}
		field, value := splitField(line)
		switch field {
		case "event":
			e.name = string(value)
		case "data":
			if has {
				data = append(data, '\n')
			}
			has = true
			if len(data)+len(value) > maxSSEEvent {
				return sseEvent{}, fmt.Errorf("%w: an event of more than %d bytes", errBound, maxSSEEvent)
			}
			data = append(data, value...)
		}
	}
}

// splitField cuts a line at its first colon; one space behind it does not count.
// A comment has the empty field.
func splitField(line []byte) (field string, value []byte) {
	for i, c := range line {
		if c != ':' {
			continue
		}
		value = line[i+1:]
		if len(value) > 0 && value[0] == ' ' {
			value = value[1:]
		}
		return string(line[:i]), value
	}
	return string(line), nil
}

// readLine takes what is buffered piece by piece: byte by byte would cost more
// than all that is done with the line.
func (s *sseReader) readLine() ([]byte, error) {
	s.line = s.line[:0]
	for {
		if _, err := s.r.Peek(1); err != nil {
			return nil, err
		}
		have, err := s.r.Peek(s.r.Buffered())
		if err != nil {
			return nil, err
		}
		n := bytes.IndexAny(have, "\r\n")
		part, taken, ended := have, len(have), n >= 0
		if ended {
			part, taken = have[:n], n+1
		}
		skip := s.cr && ended && n == 0 && have[0] == '\n'
		s.cr = ended && have[n] == '\r'
		if s.read += int64(taken); s.read > maxSSEBytes {
			return nil, fmt.Errorf("%w: a stream of more than %d bytes", errBound, maxSSEBytes)
		}
		if len(s.line)+len(part) > maxSSELine {
			return nil, fmt.Errorf("%w: a line of more than %d bytes", errBound, maxSSELine)
		}
		s.line = append(s.line, part...)
		if _, err := s.r.Discard(taken); err != nil {
			return nil, err
		}
		if ended && !skip {
			return s.firstLine(s.line), nil
		}
	}
}

// firstLine takes the byte order mark off the first line of the stream.
func (s *sseReader) firstLine(line []byte) []byte {
	const mark = "\xef\xbb\xbf"
	if !s.begun && len(line) >= len(mark) && string(line[:len(mark)]) == mark {
		line = line[len(mark):]
	}
	s.begun = true
	return line
}

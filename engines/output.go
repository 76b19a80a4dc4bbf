package engines

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ferry-fleet/ferry/internal/process"
	"github.com/ferry-fleet/ferry/internal/redact"
)

const (
	maxLog  = 8 << 20  // bytes of a run's log
	maxLine = 16 << 10 // bytes of one line of it
	maxTail = 4 << 10  // bytes kept for the people who look at the end
	// maxEvent bounds one line of a CLI's machine-readable output.
	maxEvent = 8 << 20
)

// output takes what an engine prints: standard output through the parser,
// standard error as it is; both redacted, bounded and in order into the log.
type output struct {
	mu     sync.Mutex
	parser parser
	clocks clocks
	now    func() time.Time
	log    *bounded
	red    io.WriteCloser
	tail   *process.Keep
	last   [2]string // last line of stdout, of stderr
	lines  [2]splitter
	redact *redact.Redactor
	meter  Meter
	begun  time.Time
	over   chan string // gets once which limit is reached
}

func newOutput(k Contract, r *redact.Redactor, log io.Writer, c clocks) *output {
	o := &output{
		parser: k.parser(), clocks: c, now: time.Now, tail: process.NewKeep(0, maxTail), redact: r,
		begun: time.Now(), over: make(chan string, 1),
	}
	o.log = &bounded{w: log, tail: o.tail, left: maxLog}
	o.red = r.Writer(o.log)
	o.lines[0] = splitter{max: maxEvent}
	o.lines[1] = splitter{max: maxLine}
	return o
}

// stream is one of the two outputs of a process.
type stream struct {
	*output
	of int // 0 is standard output, 1 standard error
}

// Write never fails, so that a full disk under the log does not end the engine.
func (s stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	alive := false
	sp := &s.lines[s.of]
	sp.write(b, func(line []byte) { alive = s.take(s.of, line) || alive })
	if alive || len(sp.rest) > 0 {
		s.clocks.moved(s.now())
	}
	s.measure()
	return len(b), nil
}

// measure tells the meter what the engine says that it has used.
func (o *output) measure() {
	if o.meter.Limit == (Amount{}) {
		return
	}
	if why := o.meter.Told(o.parser.used(), o.now().Sub(o.begun)); why != "" {
		select {
		case o.over <- why:
		default: // it was told already
		}
	}
}

// take handles one line and reports whether it is a sign of life.
func (o *output) take(of int, line []byte) bool {
	shown, alive := string(line), true
	if of == 0 {
		shown, alive = o.parser.line(o.clean(line))
	}
	if shown != "" {
		o.last[of] = shown
		// The log keeps its own error; the engine must not die of it.
		_, _ = io.WriteString(o.red, shown+"\n")
	}
	return alive
}

// clean hides the secrets of a line before the parser shortens parts of it, which
// could leave half a secret that nothing finds. A line that would no longer be an
// event stays as it is: what is shown of it is redacted once more in any case.
func (o *output) clean(line []byte) []byte {
	if bytes.HasPrefix(line, piUpdate) {
		return line // nearly all that pi prints, and nothing of it is shown
	}
	red := []byte(o.redact.String(string(line)))
	if looksJSON(line) && !json.Valid(red) {
		return line
	}
	return red
}

// alive notes a sign of life that nobody is shown.
func (o *output) alive() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clocks.moved(o.now())
}

// note puts a line of ferry's own into the log, behind what has come so far.
func (o *output) note(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines[0].flush(func(line []byte) { o.take(0, line) })
	// The log keeps its own error.
	_, _ = io.WriteString(o.red, line+"\n")
}

// next asks the clocks.
func (o *output) next() (time.Duration, Ended) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.clocks.next(o.now())
}

func (o *output) freeze(frozen bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clocks.freeze(o.now(), frozen)
}

// close ends both streams and the log, and returns the error of the log's writer.
func (o *output) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for of := range o.lines {
		o.lines[of].flush(func(line []byte) { o.take(of, line) })
	}
	err := o.red.Close()
	o.log.lost += o.lines[0].lost + o.lines[1].lost
	o.log.end()
	if o.log.err != nil {
		return fmt.Errorf("write the log of the run: %w", o.log.err)
	}
	if err != nil {
		return fmt.Errorf("write the log of the run: %w", err)
	}
	return nil
}

// lastLine is what an engine said last, on standard error where it said anything
// there.
func (o *output) lastLine() string {
	if o.last[1] != "" {
		return firstLine(o.last[1], 500)
	}
	return firstLine(o.last[0], 500)
}

// splitter cuts a stream into lines. What exceeds max in one line is counted.
type splitter struct {
	max  int
	rest []byte
	lost int64
}

func (s *splitter) write(b []byte, line func([]byte)) {
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			s.keep(b)
			return
		}
		s.keep(b[:i])
		s.flushLine(line)
		b = b[i+1:]
	}
}

func (s *splitter) keep(b []byte) {
	if room := s.max - len(s.rest); len(b) > room {
		s.lost += int64(len(b) - max(room, 0))
		b = b[:max(room, 0)]
	}
	s.rest = append(s.rest, b...)
}

func (s *splitter) flush(line func([]byte)) {
	if len(s.rest) > 0 {
		s.flushLine(line)
	}
}

func (s *splitter) flushLine(line func([]byte)) {
	line(bytes.TrimSuffix(s.rest, []byte("\r")))
	s.rest = s.rest[:0]
}

// bounded writes at most left bytes and counts the rest; the tail sees it all.
// Lines are cut at maxLine.
type bounded struct {
	w    io.Writer
	tail io.Writer
	left int64
	lost int64
	col  int
	err  error
}

func (b *bounded) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		part, nl := p, false
		if i >= 0 {
			part, nl = p[:i], true
		}
		b.line(part, nl)
		if !nl {
			break
		}
		p = p[i+1:]
	}
	return n, nil
}

func (b *bounded) line(part []byte, nl bool) {
	if room := maxLine - b.col; len(part) > room {
		if room > 0 {
			b.put(part[:room])
			b.put([]byte(" …"))
		}
		b.lost += int64(len(part) - max(room, 0))
	} else {
		b.put(part)
	}
	b.col = min(b.col+len(part), maxLine)
	if nl {
		b.put([]byte("\n"))
		b.col = 0
	}
}

func (b *bounded) put(p []byte) {
	// A Keep takes everything.
	_, _ = b.tail.Write(p)
	if b.w == nil || b.err != nil {
		return
	}
	if int64(len(p)) > b.left {
		b.lost += int64(len(p))
		b.left = 0
		return
	}
	b.left -= int64(len(p))
	_, b.err = b.w.Write(p)
}

// end says how much is not in the log.
func (b *bounded) end() {
	if b.lost > 0 && b.w != nil && b.err == nil {
		_, b.err = fmt.Fprintf(b.w, "\n[%d bytes left out]\n", b.lost)
	}
}

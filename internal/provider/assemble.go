package provider

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Bounds of an answer.
const (
	maxCalls    = 128
	maxArgs     = 2 << 20
	maxShort    = 16 << 10 // of an id or a name
	maxText     = 8 << 20
	maxThoughts = 8 << 20
)

// piece is a part of a tool call, as a wire found it.
type piece struct {
	id      string
	index   int
	indexed bool
	name    string
	args    string
	whole   bool // args are all of the arguments and take the place of earlier ones
}

// openCall is a call that is being put together.
type openCall struct {
	id, name string
	index    int
	indexed  bool
	args     scanned
}

// assembler puts tool calls together from pieces. Endpoints differ in what they
// send, so each piece is placed by what it has: a known id, else a known index,
// else the call that came last.
type assembler struct {
	calls   []*openCall
	byID    map[string]*openCall
	byIndex map[int]*openCall
	last    *openCall
}

// add takes one piece and returns the name of its call, where it is known.
func (a *assembler) add(p piece) (name string, err error) {
	if len(p.id) > maxShort || len(p.name) > maxShort {
		return "", fmt.Errorf("%w: a tool call with an id or a name of more than %d bytes", errBound, maxShort)
	}
	c := a.place(p)
	if c == nil {
		if len(a.calls) == maxCalls {
			return "", fmt.Errorf("%w: more than %d tool calls", errBound, maxCalls)
		}
		c = &openCall{}
		a.calls = append(a.calls, c)
	}
	a.know(c, p)
	a.last = c
	// A name that comes again, or in another form, changes nothing.
	if c.name == "" {
		c.name = p.name
	}
	if p.whole {
		c.args = scanned{}
	}
	if !c.args.write(p.args) {
		return "", fmt.Errorf("%w: arguments of a tool call of more than %d bytes", errBound, maxArgs)
	}
	return c.name, nil
}

// place finds the call of a piece, or nil for one that begins.
func (a *assembler) place(p piece) *openCall {
	if p.id != "" {
		if c := a.byID[p.id]; c != nil {
			if c.twin(p) {
				return nil
			}
			return c
		}
		// A call whose id comes late is known by its index until then.
		if c := a.byIndex[p.index]; p.indexed && c != nil && c.id == "" && (c.name == "" || p.name == "" || c.name == p.name) {
			return c
		}
		return nil
	}
	c := a.last
	if p.indexed {
		c = a.byIndex[p.index]
	}
	if c == nil || c.ended(p) {
		return nil
	}
	return c
}

// twin reports whether a whole call stands at another place than c under the same
// id, and is another call: it gets an id of ours.
func (c *openCall) twin(p piece) bool {
	return p.whole && p.indexed && c.indexed && p.index != c.index && (p.name != c.name || p.args != c.args.text())
}

// ended reports whether a piece without an id begins another call after c: c is
// complete, and the piece names a tool again and not to repeat what is there.
func (c *openCall) ended(p piece) bool {
	if p.name == "" || c.name == "" || !c.args.complete() {
		return false
	}
	if p.name != c.name {
		return true
	}
	return !p.indexed && p.args != "" && strings.TrimSpace(p.args) != strings.TrimSpace(c.args.text())
}

func (a *assembler) know(c *openCall, p piece) {
	if p.id != "" && c.id == "" && a.byID[p.id] == nil {
		c.id = p.id
		if a.byID == nil {
			a.byID = make(map[string]*openCall)
		}
		a.byID[p.id] = c
	}
	if !p.indexed {
		return
	}
	if a.byIndex == nil {
		a.byIndex = make(map[int]*openCall)
	}
	c.index, c.indexed = p.index, true
	// On an index that is taken the later call goes on.
	a.byIndex[p.index] = c
}

// finish closes the calls. cut says that the answer ended at its limit.
func (a *assembler) finish(cut bool) []Call {
	var out []Call
	n := 0
	for _, c := range a.calls {
		for c.id == "" {
			if id := fmt.Sprintf("call_%d", n); a.byID[id] == nil {
				c.id = id
			}
			n++
		}
		out = append(out, c.finish(cut))
	}
	return out
}

func (c *openCall) finish(cut bool) Call {
	call := Call{ID: c.id, Name: c.name, Raw: c.args.text()}
	switch {
	case cut && !c.args.complete():
		call.Fault = CallTruncated
	case c.name == "":
		call.Fault = CallMalformed
	case strings.TrimSpace(call.Raw) == "":
		call.Input = json.RawMessage("{}")
	case !isObject(call.Raw):
		call.Fault = CallMalformed
	default:
		call.Input = json.RawMessage(call.Raw)
	}
	return call
}

func isObject(s string) bool {
	return strings.HasPrefix(strings.TrimLeft(s, " \t\r\n"), "{") && json.Valid([]byte(s))
}

// scanned is the text of arguments, with as much knowledge of JSON as tells where
// an object ends. An object that begins after a complete one takes its place: the
// endpoint has started again. It works byte by byte, so the sizes of the pieces
// make no difference.
type scanned struct {
	buf    []byte
	depth  int
	quoted bool
	escape bool
	object bool // the first byte that is no space was an opening brace
	begun  bool
}

func (s *scanned) text() string { return string(s.buf) }

// complete reports whether the text is one object that has ended.
func (s *scanned) complete() bool { return s.object && s.depth == 0 && s.begun }

// write appends b and reports whether it fits.
func (s *scanned) write(b string) bool {
	for i := range len(b) {
		if s.complete() && b[i] == '{' {
			*s = scanned{buf: s.buf[:0]}
		}
		if len(s.buf) == maxArgs {
			return false
		}
		s.buf = append(s.buf, b[i])
		s.step(b[i])
	}
	return true
}

func (s *scanned) step(c byte) {
	if !s.begun {
		if c == ' ' || c == '\t' || c == '\r' || c == '\n' {
			return
		}
		s.begun = true
		s.object = c == '{'
	}
	switch {
	case s.escape:
		s.escape = false
	case s.quoted:
		s.escape = c == '\\'
		s.quoted = c != '"'
	case c == '"':
		s.quoted = true
	case c == '{' || c == '[':
		s.depth++
	case c == '}' || c == ']':
		s.depth--
	}
}

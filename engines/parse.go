package engines

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
)

// Parsed is what an engine said about its own run.
type Parsed struct {
	// Text is the final answer, "" when there is none.
	Text  string
	Usage ferry.Usage
	// Denied names what the engine itself refused to do, for example "Write x.go".
	Denied []string
	// Failure is the error that the model call ended with, or nil. While a run
	// lasts it is the last one that the engine is retrying.
	Failure *Failure
	// Answered reports that the model came to an end of its own.
	Answered bool
	// Working reports that a tool was running when the output ended, so that the
	// silence was not the model's.
	Working bool
}

// Failure is an error of a model call, as a CLI or an endpoint reports it.
type Failure struct {
	Class   Class // where it is known for certain; empty is told from the rest
	Status  int   // of HTTP, 0 when not told
	Message string
	Resets  time.Time // zero when not told
}

// parser reads the standard output of a CLI line by line.
type parser interface {
	// line takes one line without its end. It returns what a person should see of
	// it ("" for nothing) and whether it is a sign of life: a notice that a dead
	// endpoint is being tried again is none.
	line(b []byte) (shown string, alive bool)
	// used gives what the lines so far say that the run has used.
	used() ferry.Usage
	// end says what the lines amount to; it may be called at any time.
	end() Parsed
}

// Parse reads a complete standard output by the contract. It never fails: output
// that is in no known form is taken as the text of the answer.
func (k Contract) Parse(stdout []byte) Parsed {
	p := k.parser()
	for line := range bytes.Lines(stdout) {
		p.line(bytes.TrimRight(line, "\r\n"))
	}
	return p.end()
}

// maxText bounds the answer of a run.
const maxText = 64 << 10

// textParser takes the whole output as the answer.
type textParser struct {
	text strings.Builder
}

func (t *textParser) line(b []byte) (string, bool) {
	// The rest of an answer beyond the bound is cut in any case.
	if t.text.Len() <= maxText {
		t.text.Write(b)
		t.text.WriteByte('\n')
	}
	return string(b), true
}

// used gives nothing: prose tells no usage.
func (t *textParser) used() ferry.Usage { return ferry.Usage{} }

func (t *textParser) end() Parsed {
	s := strings.TrimSpace(t.text.String())
	return Parsed{Text: s, Answered: s != ""}
}

// jsonLines is what the parsers of JSON lines share: lines that are not in the
// CLI's form are kept as text, for a person who asked for text.
type jsonLines struct {
	plain  textParser
	events int
	out    Parsed
	tools  map[string]bool // running, by id
}

// looksJSON reports whether a line can be an event.
func looksJSON(b []byte) bool { return len(b) > 1 && b[0] == '{' && b[len(b)-1] == '}' }

func (j *jsonLines) other(b []byte) (string, bool) { return j.plain.line(b) }

func (j *jsonLines) toolStarted(id string) {
	if j.tools == nil {
		j.tools = make(map[string]bool)
	}
	j.tools[id] = true
}

func (j *jsonLines) toolEnded(id string) { delete(j.tools, id) }

func (j *jsonLines) result() Parsed {
	if j.events == 0 {
		return j.plain.end()
	}
	out := j.out
	out.Working = len(j.tools) > 0
	out.Answered = out.Text != "" && out.Failure == nil
	return out
}

// failed keeps a failure and drops what the broken answer had said.
func (j *jsonLines) failed(f Failure) {
	if f.Status == 0 {
		f.Status = statusIn(f.Message)
	}
	j.out.Failure = &f
}

var statusText = regexp.MustCompile(`(?i)(?:^|\bstatus:? |\berror:? |\bhttp |\()([45]\d\d)\b`)

// statusIn finds the HTTP status that a CLI wrote into a message.
func statusIn(message string) int {
	m := statusText.FindStringSubmatch(message)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return 0 // unreachable: the pattern takes digits only
	}
	return n
}

// tokens bounds a count: the engine can print what it likes, and a sum must not
// turn negative.
func tokens(n int64) int64 { return min(max(n, 0), 1<<40) }

// microUSD converts an amount in dollars, which CLIs report as a float.
func microUSD(dollars float64) int64 {
	if dollars <= 0 || dollars > 1e9 {
		return 0
	}
	return int64(dollars*1e6 + 0.5)
}

// firstLine gives the start of a text for a line of the log.
func firstLine(s string, limit int) string {
	s = strings.TrimSpace(s)
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		s = s[:i] + " …"
	}
	return cut(s, limit)
}

// cut shortens s to at most limit bytes at a rune, and says so.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const more = " …"
	return strings.ToValidUTF8(s[:max(0, limit-len(more))], "") + more
}

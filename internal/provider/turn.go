package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// turn is an answer that is being heard. It holds the bounds of the answer and
// tells the sink.
type turn struct {
	sink     Sink
	calls    assembler
	text     strings.Builder
	thoughts int // bytes
	reasons  []*thought
	exposed  bool
	out      Result
	done     bool // the protocol's own end was seen

	// What of the input was not cached, and what was put into the cache, where a
	// wire counts them apart.
	fresh, created int64
}

func (t *turn) tell(k Kind, text string) {
	if t.sink != nil {
		t.sink(Event{Kind: k, Text: text})
	}
}

func (t *turn) say(s string) error {
	if s == "" {
		return nil
	}
	if t.text.Len()+len(s) > maxText {
		return fmt.Errorf("%w: a text of more than %d bytes", errBound, maxText)
	}
	t.text.WriteString(s)
	t.exposed = t.exposed || t.sink != nil
	t.tell(EventText, s)
	return nil
}

// thought is a Reason that is being put together.
type thought struct {
	Reason

	text strings.Builder
}

// think appends to the thoughts of one field; a seal ends them.
func (t *turn) think(r Reason) error {
	if r.Text == "" && r.Opaque == "" {
		return nil
	}
	if t.thoughts += len(r.Text) + len(r.Opaque); t.thoughts > maxThoughts {
		return fmt.Errorf("%w: reasoning of more than %d bytes", errBound, maxThoughts)
	}
	n := len(t.reasons)
	if n == 0 || t.reasons[n-1].Field != r.Field || t.reasons[n-1].Opaque != "" {
		t.reasons = append(t.reasons, &thought{Reason: Reason{Field: r.Field}})
		n++
	}
	t.reasons[n-1].text.WriteString(r.Text)
	t.reasons[n-1].Opaque = r.Opaque
	if r.Text != "" {
		t.tell(EventReason, r.Text)
	}
	return nil
}

func (t *turn) call(p piece) error {
	name, err := t.calls.add(p)
	if err != nil {
		return err
	}
	t.tell(EventCall, name)
	return nil
}

// named notes the model that answers, as the endpoint calls it.
func (t *turn) named(model string) {
	if model != "" && len(model) <= maxShort {
		t.out.Model = model
	}
}

// result closes the answer.
func (t *turn) result() Result {
	r := t.out
	r.Text = t.text.String()
	for _, th := range t.reasons {
		th.Text = th.text.String()
		r.Reasons = append(r.Reasons, th.Reason)
	}
	r.Calls = t.calls.finish(r.Stop == StopLength)
	if len(r.Calls) > 0 && r.Stop != StopLength && r.Stop != StopFilter {
		r.Stop = StopTool
	}
	return r
}

// count bounds a number of tokens: a sum must not turn negative.
func count(n int64) int64 { return min(max(n, 0), 1<<40) }

// microUSD converts an amount in dollars.
func microUSD(dollars float64) int64 {
	if !(dollars > 0) || dollars > 1e9 {
		return 0
	}
	return int64(dollars*1e6 + 0.5)
}

// loose is a string that some endpoints send as something else, which is then
// passed over.
type loose string

// UnmarshalJSON takes a string and nothing else.
func (l *loose) UnmarshalJSON(data []byte) error {
	var s string
	if len(data) > 0 && data[0] == '"' {
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
	}
	*l = loose(s)
	return nil
}

// textOf reads a JSON value that is a string, null, or a list of parts with texts.
func textOf(raw json.RawMessage) (string, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	if raw[0] != '[' {
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", err
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String(), nil
}

// argsOf reads arguments, which come as a string that holds JSON, as null, or as
// the object itself.
func argsOf(raw json.RawMessage) (args string, whole bool, err error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return "", false, nil
	case raw[0] == '{':
		return string(raw), true, nil
	}
	err = json.Unmarshal(raw, &args)
	return args, false, err
}

// replayed returns the arguments of a call for a request. Endpoints parse old
// arguments again, so what was no object goes back inside of one.
func (c Call) replayed() json.RawMessage {
	if c.Input != nil {
		return c.Input
	}
	data, err := json.Marshal(map[string]string{"unparsed": c.Raw})
	if err != nil {
		return json.RawMessage("{}") // unreachable: a string always encodes
	}
	return data
}

// replayedName is never empty: no endpoint takes a call without a name.
func (c Call) replayedName() string {
	if c.Name == "" {
		return "unnamed"
	}
	return c.Name
}

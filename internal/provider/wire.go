package provider

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
)

// The names of the wires.
const (
	WireChat      = "chat"
	WireResponses = "responses"
	WireAnthropic = "anthropic"
)

// Wires returns the names of the wires.
func Wires() []string { return []string{WireChat, WireResponses, WireAnthropic} }

// object is a JSON object of a request.
type object = map[string]any

// wire is one protocol.
type wire struct {
	path string // behind the base address
	// optional are the fields of a request that an endpoint may not know; one that
	// it refuses by name is left out, or replaced, when the question is asked again.
	optional []string
	// header sets what this wire wants there, with the key, which may be empty.
	header func(h http.Header, key string)
	body   func(r Request, without func(field string) bool) object
	// event hears one event of a stream.
	event func(t *turn, name string, data []byte) error
	// whole hears the plain document.
	whole func(t *turn, data []byte) error
}

func wireOf(name string) (wire, bool) {
	switch name {
	case WireChat:
		return chatWire(), true
	case WireResponses:
		return responsesWire(), true
	case WireAnthropic:
		return anthropicWire(), true
	}
	return wire{}, false
}

func bearer(h http.Header, key string) {
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
}

// sorted returns the tools by name, so that the same tools make the same request
// and the endpoint's cache finds it. A tool without a schema takes nothing.
func sorted(tools []Tool) []Tool {
	out := slices.SortedStableFunc(slices.Values(tools), func(a, b Tool) int { return cmp.Compare(a.Name, b.Name) })
	for i := range out {
		if len(out[i].Schema) == 0 {
			out[i].Schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
	}
	return out
}

// systemText joins what the system says, for the wires that take it apart from
// the conversation.
func systemText(messages []Message) string {
	var out string
	for _, m := range messages {
		if m.Role != RoleSystem {
			continue
		}
		if text := joined(m.Blocks); text != "" && out != "" {
			out += "\n\n" + text
		} else {
			out += text
		}
	}
	return out
}

func joined(blocks []Block) string {
	var out string
	for _, b := range blocks {
		out += b.Text
	}
	return out
}

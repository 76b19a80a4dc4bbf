package provider

import "encoding/json"

// Role says who speaks in a message.
type Role string

// The roles. RoleTool holds the answers to the calls of the message before.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one turn of a conversation.
type Message struct {
	Role   Role
	Blocks []Block
}

// Text makes a message of one text.
func Text(role Role, text string) Message {
	return Message{Role: role, Blocks: []Block{{Text: text}}}
}

// Block is one part of a message: a text, or the one field that is not nil.
type Block struct {
	Text   string
	Reason *Reason
	Call   *Call
	Answer *Answer
}

// Reason is what a model thought. It goes back only on the wire it came from.
type Reason struct {
	Text string
	// Field is the name it had on the wire, for example "reasoning_content".
	Field string
	// Opaque is the signature or the sealed content that came with it.
	Opaque string
}

// Call is a tool call of the model. Raw is what the model wrote; Input is nil
// where that is not one JSON object, and Fault then says why.
type Call struct {
	ID    string
	Name  string
	Raw   string
	Input json.RawMessage
	Fault CallFault
}

// CallFault says why a call cannot be run.
type CallFault string

// The faults of a call. Each is answered with an error result.
const (
	CallTruncated CallFault = "truncated" // the answer ended at its limit inside of the arguments
	CallMalformed CallFault = "malformed" // the arguments are no JSON object, or the call has no name
)

// Answer is what came of a tool call.
type Answer struct {
	CallID string
	Text   string
	Failed bool
}

// Tool is a tool that the model may call. Schema is the JSON schema of its input.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage
}

// Request is one question to a model.
type Request struct {
	Model    string
	Messages []Message
	Tools    []Tool
	// MaxTokens bounds the answer; 0 leaves it to the endpoint, or takes 8192 on
	// the wire that wants a number.
	MaxTokens int
	Effort    string // as the endpoint names it; "" for its own
	// Stream asks for the answer piece by piece. Without it the clocks of a plain
	// document hold, and the sink hears everything at the end.
	Stream bool
}

// Stop says why an answer ended.
type Stop string

// The ends of an answer.
const (
	StopEnd    Stop = "stop"
	StopTool   Stop = "tool"
	StopLength Stop = "length"
	StopFilter Stop = "filter"
)

// Usage is what an answer cost, as the endpoint says. In counts all that was
// sent; Cached is the part of it that came from a cache. Reasoning is a part of Out.
type Usage struct {
	In, Out, Cached, Reasoning int64
	CostMicroUSD               int64
	CostTold                   bool // the endpoint named a cost, which may be 0
}

// Result is a whole answer.
type Result struct {
	Model   string // as the endpoint names it
	Text    string
	Reasons []Reason
	Calls   []Call
	Stop    Stop
	Usage   Usage
}

// Message returns the answer as a message of the conversation.
func (r Result) Message() Message {
	m := Message{Role: RoleAssistant}
	for i := range r.Reasons {
		m.Blocks = append(m.Blocks, Block{Reason: &r.Reasons[i]})
	}
	if r.Text != "" {
		m.Blocks = append(m.Blocks, Block{Text: r.Text})
	}
	for i := range r.Calls {
		m.Blocks = append(m.Blocks, Block{Call: &r.Calls[i]})
	}
	return m
}

// Kind says what an Event tells.
type Kind string

// The kinds of events.
const (
	EventText   Kind = "text"   // a piece of the answer
	EventReason Kind = "reason" // a piece of what the model thinks
	EventCall   Kind = "call"   // a piece of a tool call; Text is its name where it is known
)

// Event is something heard of an answer that is under way.
type Event struct {
	Kind Kind
	Text string
}

// Sink hears an answer as it comes. It is called by one goroutine and holds the
// reading up for as long as it takes. A nil Sink hears nothing.
type Sink func(Event)

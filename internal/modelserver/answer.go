package modelserver

import (
	"encoding/json"
	"fmt"
	"strings"
)

// answer is what the model says in one turn: a text or one tool call.
type answer struct {
	id    string
	model string
	text  string
	call  *call
	usage Usage
}

// wire encodes an answer for one protocol.
type wire struct {
	name   string
	read   func([]byte) (ask, error)
	body   func(answer) any
	events func(answer) []event
	fail   func(status int, message string) any
}

// event is one server-sent event; name is empty where the wire names none.
type event struct {
	name string
	data string
}

func (e event) String() string {
	if e.name == "" {
		return "data: " + e.data + "\n\n"
	}
	return "event: " + e.name + "\ndata: " + e.data + "\n\n"
}

type object = map[string]any

func jsonEvent(name string, v any) event {
	return event{name, mustJSON(v)}
}

// mustJSON encodes values of this package, which are maps, strings and numbers.
func mustJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("modelserver: encode %T: %v", v, err))
	}
	return string(data)
}

// pieces splits a text into the deltas of a stream.
func pieces(text string) []string {
	words := strings.SplitAfter(text, " ")
	if len(words) == 1 && len(text) > 1 {
		half := len([]rune(text)) / 2
		return []string{string([]rune(text)[:half]), string([]rune(text)[half:])}
	}
	return words
}

// wires lists the protocols by the end of their path.
func wires() map[string]wire {
	return map[string]wire{
		"/chat/completions": {"chat", readChat, chatBody, chatEvents, openAIError},
		"/responses":        {"responses", readResponses, responsesBody, responsesEvents, openAIError},
		"/messages":         {"messages", readMessages, messagesBody, messagesEvents, anthropicError},
	}
}

func openAIError(status int, message string) any {
	return object{"error": object{"message": message, "type": errorType(status), "code": status}}
}

func anthropicError(status int, message string) any {
	return object{"type": "error", "error": object{"type": errorType(status), "message": message}}
}

func errorType(status int) string {
	switch status {
	case 401:
		return "authentication_error"
	case 402:
		return "billing_error"
	case 403:
		return "permission_error"
	case 404:
		return "not_found_error"
	case 429:
		return "rate_limit_error"
	case 529:
		return "overloaded_error"
	}
	if status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

package modelserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ask is a request of any wire, reduced to what decides the answer.
type ask struct {
	model   string
	stream  bool
	tools   []tool
	results int
}

// tool is a tool that the CLI offers, with its JSON schema.
type tool struct {
	name   string
	schema schema
}

type schema struct {
	Properties map[string]property `json:"properties"`
	Required   []string            `json:"required"`
}

type property struct {
	Type any `json:"type"`
}

var errNotJSON = errors.New("the body is not a JSON request of this wire")

func readChat(body []byte) (ask, error) {
	var r struct {
		Model    string `json:"model"`
		Stream   bool   `json:"stream"`
		Messages []struct {
			Role string `json:"role"`
		} `json:"messages"`
		Tools []struct {
			Function struct {
				Name       string `json:"name"`
				Parameters schema `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return ask{}, fmt.Errorf("%w: %w", errNotJSON, err)
	}
	if len(r.Messages) == 0 {
		return ask{}, fmt.Errorf("%w: no messages", errNotJSON)
	}
	a := ask{model: r.Model, stream: r.Stream}
	for _, m := range r.Messages {
		if m.Role == "tool" {
			a.results++
		}
	}
	for _, t := range r.Tools {
		a.tools = append(a.tools, tool{t.Function.Name, t.Function.Parameters})
	}
	return a, nil
}

func readResponses(body []byte) (ask, error) {
	var r struct {
		Model  string          `json:"model"`
		Stream bool            `json:"stream"`
		Input  json.RawMessage `json:"input"`
		Tools  []struct {
			Type       string `json:"type"`
			Name       string `json:"name"`
			Parameters schema `json:"parameters"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return ask{}, fmt.Errorf("%w: %w", errNotJSON, err)
	}
	if len(r.Input) == 0 {
		return ask{}, fmt.Errorf("%w: no input", errNotJSON)
	}
	a := ask{model: r.Model, stream: r.Stream}
	var items []struct {
		Type string `json:"type"`
	}
	// The input may also be one string, which holds no tool results.
	if r.Input[0] == '[' {
		if err := json.Unmarshal(r.Input, &items); err != nil {
			return ask{}, fmt.Errorf("%w: %w", errNotJSON, err)
		}
	}
	for _, it := range items {
		if strings.HasSuffix(it.Type, "_call_output") {
			a.results++
		}
	}
	for _, t := range r.Tools {
		if t.Type == "function" {
			a.tools = append(a.tools, tool{t.Name, t.Parameters})
		}
	}
	return a, nil
}

func readMessages(body []byte) (ask, error) {
	var r struct {
		Model    string `json:"model"`
		Stream   bool   `json:"stream"`
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Name   string `json:"name"`
			Schema schema `json:"input_schema"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return ask{}, fmt.Errorf("%w: %w", errNotJSON, err)
	}
	if len(r.Messages) == 0 {
		return ask{}, fmt.Errorf("%w: no messages", errNotJSON)
	}
	a := ask{model: r.Model, stream: r.Stream}
	for _, m := range r.Messages {
		n, err := toolResults(m.Content)
		if err != nil {
			return ask{}, err
		}
		a.results += n
	}
	for _, t := range r.Tools {
		a.tools = append(a.tools, tool{t.Name, t.Schema})
	}
	return a, nil
}

func toolResults(content json.RawMessage) (int, error) {
	if len(content) == 0 || content[0] != '[' {
		return 0, nil
	}
	var blocks []struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(content, &blocks); err != nil {
		return 0, fmt.Errorf("%w: %w", errNotJSON, err)
	}
	n := 0
	for _, b := range blocks {
		if b.Type == "tool_result" {
			n++
		}
	}
	return n, nil
}

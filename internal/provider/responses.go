package provider

import (
	"encoding/json"
	"fmt"
	"strings"
)

func responsesWire() wire {
	return wire{
		path:     "/responses",
		optional: []string{"reasoning", "include"},
		header:   bearer, body: responsesBody, event: responsesEvent, whole: responsesWhole,
	}
}

// sealedReason is the field of a Reason of this wire: a reasoning item, whole.
const sealedReason = "reasoning_item"

func responsesBody(r Request, without func(string) bool) object {
	// The endpoint keeps nothing: the conversation is ours, and its thoughts come
	// back sealed.
	out := object{"model": r.Model, "input": responsesInput(r.Messages), "store": false}
	if s := systemText(r.Messages); s != "" {
		out["instructions"] = s
	}
	if r.Stream {
		out["stream"] = true
	}
	if r.MaxTokens > 0 {
		out["max_output_tokens"] = r.MaxTokens
	}
	if r.Effort != "" && !without("reasoning") {
		out["reasoning"] = object{"effort": r.Effort}
		if !without("include") {
			out["include"] = []string{"reasoning.encrypted_content"}
		}
	}
	var tools []object
	for _, t := range sorted(r.Tools) {
		tools = append(tools, object{"type": "function", "name": t.Name, "description": t.Description, "parameters": t.Schema, "strict": false})
	}
	if len(tools) > 0 {
		out["tools"] = tools
	}
	return out
}

func responsesInput(messages []Message) []any {
	out := []any{}
	for _, m := range messages {
		if m.Role == RoleSystem {
			continue
		}
		kind := "input_text"
		if m.Role == RoleAssistant {
			kind = "output_text"
		}
		for _, b := range m.Blocks {
			switch {
			case b.Call != nil:
				out = append(out, object{"type": "function_call", "call_id": b.Call.ID, "name": b.Call.replayedName(), "arguments": string(b.Call.replayed())})
			case b.Answer != nil:
				out = append(out, object{"type": "function_call_output", "call_id": b.Answer.CallID, "output": b.Answer.Text})
			case b.Reason != nil:
				if b.Reason.Field == sealedReason && b.Reason.Opaque != "" {
					out = append(out, json.RawMessage(b.Reason.Opaque))
				}
			case b.Text != "":
				out = append(out, object{"type": "message", "role": string(m.Role), "content": []object{{"type": kind, "text": b.Text}}})
			}
		}
	}
	return out
}

type responsesPart struct {
	Type    string          `json:"type"`
	Index   int             `json:"output_index"`
	Delta   json.RawMessage `json:"delta"`
	Args    json.RawMessage `json:"arguments"`
	Item    json.RawMessage `json:"item"`
	Message loose           `json:"message"`
	Whole   json.RawMessage `json:"response"`
}

type responsesItem struct {
	Type    string          `json:"type"`
	CallID  string          `json:"call_id"`
	Name    string          `json:"name"`
	Args    json.RawMessage `json:"arguments"`
	Content []struct {
		Text    loose `json:"text"`
		Refusal loose `json:"refusal"`
	} `json:"content"`
	Summary []struct {
		Text loose `json:"text"`
	} `json:"summary"`
	Sealed loose `json:"encrypted_content"`
}

type responsesDocument struct {
	Model  loose             `json:"model"`
	Status string            `json:"status"`
	Error  json.RawMessage   `json:"error"`
	Output []json.RawMessage `json:"output"`
	Usage  *struct {
		In      int64 `json:"input_tokens"`
		Out     int64 `json:"output_tokens"`
		Details struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
		OutDetails struct {
			Reasoning int64 `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	} `json:"usage"`
	Why struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
}

func responsesEvent(t *turn, _ string, data []byte) error {
	if string(data) == "[DONE]" { // some gateways add it
		return nil
	}
	var p responsesPart
	if err := json.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("an event is no part of a response: %w", err)
	}
	switch p.Type {
	case "response.output_text.delta", "response.refusal.delta":
		return t.delta(p.Delta, t.say)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return t.delta(p.Delta, func(s string) error { return t.think(Reason{Text: s, Field: sealedReason}) })
	case "response.function_call_arguments.delta":
		return t.delta(p.Delta, func(s string) error { return t.call(piece{index: p.Index, indexed: true, args: s}) })
	case "response.function_call_arguments.done":
		args, _, err := argsOf(p.Args)
		if err != nil {
			return fmt.Errorf("the arguments of a function call: %w", err)
		}
		return t.call(piece{index: p.Index, indexed: true, args: args, whole: true})
	case "response.output_item.added", "response.output_item.done":
		return t.item(p.Item, p.Index, strings.HasSuffix(p.Type, ".done"))
	case "response.completed", "response.incomplete", "response.failed":
		return responsesWhole(t, p.Whole)
	case "error":
		return faultError(0, faultOf(data))
	}
	return nil
}

func (t *turn) delta(raw json.RawMessage, take func(string) error) error {
	s, err := textOf(raw)
	if err != nil {
		return fmt.Errorf("a piece of a response: %w", err)
	}
	return take(s)
}

// item hears an item of the output. Its text has come in pieces before; its calls
// and its thoughts count when it is done.
func (t *turn) item(raw json.RawMessage, index int, done bool) error {
	var it responsesItem
	if err := json.Unmarshal(raw, &it); err != nil {
		return fmt.Errorf("an item of a response: %w", err)
	}
	switch it.Type {
	case "function_call":
		args, _, err := argsOf(it.Args)
		if err != nil {
			return fmt.Errorf("the arguments of a function call: %w", err)
		}
		return t.call(piece{id: it.CallID, index: index, indexed: true, name: it.Name, args: args, whole: done})
	case "reasoning":
		if done && it.Sealed != "" {
			return t.think(Reason{Field: sealedReason, Opaque: string(raw)})
		}
	}
	return nil
}

// responsesWhole hears the document at the end of a stream, or alone. What was
// streamed is not heard twice.
func responsesWhole(t *turn, data []byte) error {
	var d responsesDocument
	if err := json.Unmarshal(data, &d); err != nil {
		return fmt.Errorf("the answer is no response: %w", err)
	}
	if len(d.Error) > 0 && string(d.Error) != "null" {
		return faultError(0, faultOf([]byte(`{"error":`+string(d.Error)+`}`)))
	}
	t.named(string(d.Model))
	if u := d.Usage; u != nil {
		t.out.Usage = Usage{In: count(u.In), Out: count(u.Out), Cached: count(u.Details.Cached), Reasoning: count(u.OutDetails.Reasoning)}
	}
	switch {
	case d.Status == "failed" || d.Status == "cancelled":
		return &Error{Class: Transient, Message: "the response has the status " + d.Status}
	case d.Status == "incomplete" && d.Why.Reason == "content_filter":
		t.out.Stop = StopFilter
	case d.Status == "incomplete":
		t.out.Stop = StopLength
	case d.Status == "completed" || d.Status == "":
		t.out.Stop = StopEnd
	default:
		return fmt.Errorf("the response has the status %.40q and is not complete", d.Status)
	}
	t.done = true
	if t.text.Len() > 0 || len(t.calls.calls) > 0 {
		return nil
	}
	thought := len(t.reasons) > 0
	for i, raw := range d.Output {
		if err := t.wholeItem(raw, i, thought); err != nil {
			return err
		}
	}
	return nil
}

func (t *turn) wholeItem(raw json.RawMessage, index int, thought bool) error {
	var it responsesItem
	if err := json.Unmarshal(raw, &it); err != nil {
		return fmt.Errorf("an item of a response: %w", err)
	}
	if it.Type == "reasoning" && thought {
		return nil
	}
	for _, s := range it.Summary {
		if err := t.think(Reason{Text: string(s.Text), Field: sealedReason}); err != nil {
			return err
		}
	}
	if it.Type == "message" {
		for _, c := range it.Content {
			if err := t.say(string(c.Text) + string(c.Refusal)); err != nil {
				return err
			}
		}
	}
	return t.item(raw, index, true)
}

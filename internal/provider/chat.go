package provider

import (
	"encoding/json"
	"fmt"
)

func chatWire() wire {
	return wire{
		path:     "/chat/completions",
		optional: []string{"stream_options", "reasoning_effort", "max_tokens"},
		header:   bearer, body: chatBody, event: chatEvent, whole: chatWhole,
	}
}

func chatBody(r Request, without func(string) bool) object {
	out := object{"model": r.Model, "messages": chatMessages(r.Messages)}
	if r.Stream {
		out["stream"] = true
		if !without("stream_options") {
			out["stream_options"] = object{"include_usage": true}
		}
	}
	if r.MaxTokens > 0 {
		field := "max_tokens"
		if without(field) {
			field = "max_completion_tokens"
		}
		out[field] = r.MaxTokens
	}
	if r.Effort != "" && !without("reasoning_effort") {
		out["reasoning_effort"] = r.Effort
	}
	var tools []object
	for _, t := range sorted(r.Tools) {
		tools = append(tools, object{"type": "function", "function": object{"name": t.Name, "description": t.Description, "parameters": t.Schema}})
	}
	if len(tools) > 0 {
		out["tools"] = tools
	}
	return out
}

func chatMessages(messages []Message) []object {
	out := []object{}
	for _, m := range messages {
		switch m.Role {
		case RoleTool:
			for _, b := range m.Blocks {
				if b.Answer != nil {
					out = append(out, object{"role": "tool", "tool_call_id": b.Answer.CallID, "content": b.Answer.Text})
				}
			}
		case RoleAssistant:
			out = append(out, chatAssistant(m))
		default:
			out = append(out, object{"role": string(m.Role), "content": joined(m.Blocks)})
		}
	}
	return out
}

func chatAssistant(m Message) object {
	out := object{"role": "assistant", "content": joined(m.Blocks)}
	var calls []object
	for _, b := range m.Blocks {
		switch {
		case b.Call != nil:
			calls = append(calls, object{
				"id": b.Call.ID, "type": "function",
				"function": object{"name": b.Call.replayedName(), "arguments": string(b.Call.replayed())},
			})
		case b.Reason != nil && isChatReason(b.Reason.Field):
			out[b.Reason.Field] = b.Reason.Text
		}
	}
	if len(calls) > 0 {
		out["tool_calls"] = calls
		if out["content"] == "" {
			out["content"] = nil
		}
	}
	return out
}

func isChatReason(field string) bool { return field == "reasoning_content" || field == "reasoning" }

// chatChunk is an event of a stream, and a plain document as well: there the
// choice holds a message instead of a delta.
type chatChunk struct {
	Model   loose `json:"model"`
	Choices []struct {
		Index   int        `json:"index"`
		Delta   *chatDelta `json:"delta"`
		Message *chatDelta `json:"message"`
		Finish  loose      `json:"finish_reason"`
	} `json:"choices"`
	Usage *chatUsage      `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type chatDelta struct {
	Content   json.RawMessage `json:"content"`
	Refusal   loose           `json:"refusal"`
	Reasoning loose           `json:"reasoning"`
	Thoughts  loose           `json:"reasoning_content"`
	Calls     []struct {
		ID       string `json:"id"`
		Index    *int   `json:"index"`
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

type chatUsage struct {
	In      int64 `json:"prompt_tokens"`
	Out     int64 `json:"completion_tokens"`
	Hit     int64 `json:"prompt_cache_hit_tokens"`
	Details struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	OutDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	Cost *float64 `json:"cost"`
}

func (u chatUsage) usage() Usage {
	out := Usage{In: count(u.In), Out: count(u.Out), Cached: count(max(u.Details.Cached, u.Hit)), Reasoning: count(u.OutDetails.Reasoning)}
	if u.Cost != nil {
		out.CostTold, out.CostMicroUSD = true, microUSD(*u.Cost)
	}
	return out
}

func chatEvent(t *turn, _ string, data []byte) error {
	if string(data) == "[DONE]" {
		t.done = true
		return nil
	}
	var c chatChunk
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("an event is no chat chunk: %w", err)
	}
	return t.chat(c)
}

func chatWhole(t *turn, data []byte) error {
	var c chatChunk
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("the answer is no chat completion: %w", err)
	}
	t.done = len(c.Choices) > 0
	return t.chat(c)
}

func (t *turn) chat(c chatChunk) error {
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return faultError(0, faultOf([]byte(`{"error":`+string(c.Error)+`}`)))
	}
	t.named(string(c.Model))
	// The chunk with the usage and those of content filters have no choices.
	if c.Usage != nil {
		t.out.Usage = c.Usage.usage()
	}
	for _, ch := range c.Choices {
		if ch.Index != 0 {
			continue
		}
		if ch.Finish != "" {
			t.out.Stop = chatStop(string(ch.Finish))
		}
		for _, d := range []*chatDelta{ch.Delta, ch.Message} {
			if err := t.chatDelta(d, d == ch.Message); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *turn) chatDelta(d *chatDelta, whole bool) error {
	if d == nil {
		return nil
	}
	text, err := textOf(d.Content)
	if err != nil {
		return fmt.Errorf("the content of a chat message: %w", err)
	}
	for _, r := range []Reason{{Text: string(d.Thoughts), Field: "reasoning_content"}, {Text: string(d.Reasoning), Field: "reasoning"}} {
		if r.Text == "" {
			continue
		}
		if err := t.think(r); err != nil {
			return err
		}
		break // some endpoints say the same under both names
	}
	if err := t.say(text + string(d.Refusal)); err != nil {
		return err
	}
	for i, c := range d.Calls {
		// In a whole message each entry is a call of its own.
		p := piece{id: c.ID, name: c.Function.Name, index: i, indexed: whole}
		if c.Index != nil {
			p.index, p.indexed = *c.Index, true
		}
		object := false
		if p.args, object, err = argsOf(c.Function.Arguments); err != nil {
			return fmt.Errorf("the arguments of a tool call: %w", err)
		}
		p.whole = whole || object
		if err := t.call(p); err != nil {
			return err
		}
	}
	return nil
}

func chatStop(reason string) Stop {
	switch reason {
	case "length", "max_tokens":
		return StopLength
	case "content_filter":
		return StopFilter
	case "tool_calls", "function_call":
		return StopTool
	}
	return StopEnd
}

package provider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

const (
	anthropicVersion = "2023-06-01"
	// anthropicTokens is asked for where the caller names no number: this wire
	// wants one.
	anthropicTokens = 8192
)

func anthropicWire() wire {
	return wire{
		path:     "/messages",
		optional: []string{"output_config"},
		header: func(h http.Header, key string) {
			h.Set("Anthropic-Version", anthropicVersion)
			if key != "" {
				h.Set("X-Api-Key", key)
			}
		},
		body: anthropicBody, event: anthropicEvent, whole: anthropicWhole,
	}
}

func anthropicBody(r Request, without func(string) bool) object {
	out := object{"model": r.Model, "messages": anthropicMessages(r.Messages), "max_tokens": anthropicTokens}
	if r.MaxTokens > 0 {
		out["max_tokens"] = r.MaxTokens
	}
	if s := systemText(r.Messages); s != "" {
		out["system"] = s
	}
	if r.Stream {
		out["stream"] = true
	}
	if r.Effort != "" && !without("output_config") {
		out["output_config"] = object{"effort": r.Effort}
	}
	var tools []object
	for _, t := range sorted(r.Tools) {
		tools = append(tools, object{"name": t.Name, "description": t.Description, "input_schema": t.Schema})
	}
	if len(tools) > 0 {
		out["tools"] = tools
	}
	return out
}

// anthropicMessages turns a conversation into turns that alternate: what the user
// and the tools say between two answers is one turn.
func anthropicMessages(messages []Message) []object {
	out := []object{}
	for _, m := range messages {
		role := "user"
		switch m.Role {
		case RoleSystem:
			continue
		case RoleAssistant:
			role = "assistant"
		}
		var blocks []object
		for _, b := range m.Blocks {
			if o := anthropicBlock(b); o != nil {
				blocks = append(blocks, o)
			}
		}
		if len(blocks) == 0 {
			continue
		}
		if n := len(out); n > 0 && out[n-1]["role"] == role {
			before, _ := out[n-1]["content"].([]object) // set below, and nowhere else
			out[n-1]["content"] = append(before, blocks...)
			continue
		}
		out = append(out, object{"role": role, "content": blocks})
	}
	return out
}

// The fields of a Reason of this wire.
const (
	thinking         = "thinking"
	redactedThinking = "redacted_thinking"
)

func anthropicBlock(b Block) object {
	switch {
	case b.Call != nil:
		return object{"type": "tool_use", "id": b.Call.ID, "name": b.Call.replayedName(), "input": b.Call.replayed()}
	case b.Answer != nil:
		out := object{"type": "tool_result", "tool_use_id": b.Answer.CallID, "content": b.Answer.Text}
		if b.Answer.Failed {
			out["is_error"] = true
		}
		return out
	case b.Reason != nil:
		switch {
		case b.Reason.Opaque == "": // without its signature it is refused
			return nil
		case b.Reason.Field == thinking:
			return object{"type": thinking, thinking: b.Reason.Text, "signature": b.Reason.Opaque}
		case b.Reason.Field == redactedThinking:
			return object{"type": redactedThinking, "data": b.Reason.Opaque}
		}
		return nil
	case b.Text != "":
		return object{"type": "text", "text": b.Text}
	}
	return nil
}

type anthropicPart struct {
	Type    string           `json:"type"`
	Index   int              `json:"index"`
	Message anthropicMessage `json:"message"`
	Block   anthropicContent `json:"content_block"`
	Delta   struct {
		Type      string `json:"type"`
		Text      loose  `json:"text"`
		JSON      loose  `json:"partial_json"`
		Thinking  loose  `json:"thinking"`
		Signature loose  `json:"signature"`
		Stop      loose  `json:"stop_reason"`
	} `json:"delta"`
	Usage *anthropicUsage `json:"usage"`
}

type anthropicMessage struct {
	Model   loose              `json:"model"`
	Content []anthropicContent `json:"content"`
	Stop    loose              `json:"stop_reason"`
	Usage   *anthropicUsage    `json:"usage"`
}

type anthropicContent struct {
	Type      string          `json:"type"`
	Text      loose           `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	Thinking  loose           `json:"thinking"`
	Signature loose           `json:"signature"`
	Data      loose           `json:"data"`
}

type anthropicUsage struct {
	In      *int64 `json:"input_tokens"`
	Out     *int64 `json:"output_tokens"`
	Read    *int64 `json:"cache_read_input_tokens"`
	Created *int64 `json:"cache_creation_input_tokens"`
}

// anthropicEvent hears one event. The counts of the start are brought up to date
// by those of the end.
func anthropicEvent(t *turn, _ string, data []byte) error {
	var p anthropicPart
	if err := json.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("an event is no part of a message: %w", err)
	}
	switch p.Type {
	case "message_start":
		t.named(string(p.Message.Model))
		t.spent(p.Message.Usage)
	case "content_block_start":
		return t.block(p.Block, p.Index, false)
	case "content_block_delta":
		return t.blockDelta(p)
	case "message_delta":
		t.spent(p.Usage)
		if p.Delta.Stop != "" {
			t.out.Stop = anthropicStop(string(p.Delta.Stop))
		}
	case "message_stop":
		t.done = true
	case "error":
		return faultError(0, faultOf(data))
	}
	return nil
}

func (t *turn) blockDelta(p anthropicPart) error {
	switch p.Delta.Type {
	case "text_delta":
		return t.say(string(p.Delta.Text))
	case "input_json_delta":
		return t.call(piece{index: p.Index, indexed: true, args: string(p.Delta.JSON)})
	case "thinking_delta", "signature_delta":
		return t.think(Reason{Field: thinking, Text: string(p.Delta.Thinking), Opaque: string(p.Delta.Signature)})
	}
	return nil
}

// block hears the start of a block, or a block of a plain document. The empty
// input at the start of a call stands for what is still to come.
func (t *turn) block(b anthropicContent, index int, whole bool) error {
	switch b.Type {
	case "text":
		return t.say(string(b.Text))
	case thinking:
		return t.think(Reason{Field: thinking, Text: string(b.Thinking), Opaque: string(b.Signature)})
	case redactedThinking:
		return t.think(Reason{Field: redactedThinking, Opaque: string(b.Data)})
	case "tool_use":
		args, _, err := argsOf(b.Input)
		if err != nil {
			return fmt.Errorf("the input of a tool: %w", err)
		}
		if !whole && strings.TrimSpace(strings.Trim(args, "{}")) == "" {
			args = ""
		}
		return t.call(piece{id: b.ID, index: index, indexed: true, name: b.Name, args: args, whole: whole})
	}
	return nil
}

func anthropicWhole(t *turn, data []byte) error {
	var m struct {
		Type string `json:"type"`
		anthropicMessage
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return fmt.Errorf("the answer is no message: %w", err)
	}
	switch m.Type {
	case "error":
		return faultError(0, faultOf(data))
	case "message":
	default:
		return fmt.Errorf("the answer has the type %.40q and is no message", m.Type)
	}
	t.named(string(m.Model))
	t.spent(m.Usage)
	t.out.Stop = anthropicStop(string(m.Stop))
	for i, b := range m.Content {
		if err := t.block(b, i, true); err != nil {
			return err
		}
	}
	t.done = true
	return nil
}

// spent takes over the counts that are told. What was read from the cache and
// what was put there is not in the count of the input.
func (t *turn) spent(u *anthropicUsage) {
	if u == nil {
		return
	}
	told := func(n *int64, old int64) int64 {
		if n == nil {
			return old
		}
		return count(*n)
	}
	t.fresh = told(u.In, t.fresh)
	t.created = told(u.Created, t.created)
	t.out.Usage.Cached = told(u.Read, t.out.Usage.Cached)
	t.out.Usage.Out = told(u.Out, t.out.Usage.Out)
	t.out.Usage.In = t.fresh + t.created + t.out.Usage.Cached
}

func anthropicStop(reason string) Stop {
	switch reason {
	case "max_tokens", "model_context_window_exceeded":
		return StopLength
	case "refusal":
		return StopFilter
	case "tool_use":
		return StopTool
	}
	return StopEnd
}

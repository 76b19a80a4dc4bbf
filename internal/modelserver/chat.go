package modelserver

func chatBody(a answer) any {
	message := object{"role": "assistant", "content": a.text}
	reason := "stop"
	if a.call != nil {
		message["content"] = nil
		message["tool_calls"] = []object{chatCall(a.call)}
		reason = "tool_calls"
	}
	return object{
		"id": a.id, "object": "chat.completion", "created": 1, "model": a.model,
		"choices": []object{{"index": 0, "message": message, "finish_reason": reason}},
		"usage":   chatUsage(a.usage),
	}
}

func chatEvents(a answer) []event {
	chunk := func(delta object, reason any) event {
		return jsonEvent("", object{
			"id": a.id, "object": "chat.completion.chunk", "created": 1, "model": a.model,
			"choices": []object{{"index": 0, "delta": delta, "finish_reason": reason}},
		})
	}
	out := []event{chunk(object{"role": "assistant", "content": ""}, nil)}
	reason := "stop"
	if a.call != nil {
		tc := chatCall(a.call)
		tc["index"] = 0
		out = append(out, chunk(object{"tool_calls": []object{tc}}, nil))
		reason = "tool_calls"
	} else {
		for _, p := range pieces(a.text) {
			out = append(out, chunk(object{"content": p}, nil))
		}
	}
	out = append(out, chunk(object{}, reason), jsonEvent("", object{
		"id": a.id, "object": "chat.completion.chunk", "created": 1, "model": a.model,
		"choices": []object{}, "usage": chatUsage(a.usage),
	}))
	return append(out, event{"", "[DONE]"})
}

func chatCall(c *call) object {
	return object{
		"id": c.id, "type": "function",
		"function": object{"name": c.name, "arguments": string(c.args)},
	}
}

func chatUsage(u Usage) object {
	return object{
		"prompt_tokens": u.In, "completion_tokens": u.Out, "total_tokens": u.In + u.Out,
		"prompt_tokens_details":     object{"cached_tokens": u.Cached},
		"completion_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}
}

package modelserver

func messagesBody(a answer) any {
	content, reason := messagesContent(a)
	return object{
		"id": a.id, "type": "message", "role": "assistant", "model": a.model,
		"content": []object{content}, "stop_reason": reason, "stop_sequence": nil,
		"usage": messagesUsage(a.usage),
	}
}

func messagesEvents(a answer) []event {
	content, reason := messagesContent(a)
	start := object{
		"id": a.id, "type": "message", "role": "assistant", "model": a.model, "content": []object{},
		"stop_reason": nil, "stop_sequence": nil,
		"usage": messagesUsage(Usage{In: a.usage.In, Out: 1, Cached: a.usage.Cached}),
	}
	out := []event{jsonEvent("message_start", object{"type": "message_start", "message": start})}
	delta := func(d object) {
		out = append(out, jsonEvent("content_block_delta", object{"type": "content_block_delta", "index": 0, "delta": d}))
	}
	if a.call != nil {
		content["input"] = object{}
		out = append(out, jsonEvent("content_block_start", object{"type": "content_block_start", "index": 0, "content_block": content}))
		delta(object{"type": "input_json_delta", "partial_json": string(a.call.args)})
	} else {
		content["text"] = ""
		out = append(out, jsonEvent("content_block_start", object{"type": "content_block_start", "index": 0, "content_block": content}))
		for _, p := range pieces(a.text) {
			delta(object{"type": "text_delta", "text": p})
		}
	}
	return append(out,
		jsonEvent("content_block_stop", object{"type": "content_block_stop", "index": 0}),
		jsonEvent("message_delta", object{
			"type":  "message_delta",
			"delta": object{"stop_reason": reason, "stop_sequence": nil},
			"usage": object{"output_tokens": a.usage.Out},
		}),
		jsonEvent("message_stop", object{"type": "message_stop"}),
	)
}

func messagesContent(a answer) (content object, reason string) {
	if a.call != nil {
		return object{"type": "tool_use", "id": "toolu_" + a.call.id, "name": a.call.name, "input": a.call.args}, "tool_use"
	}
	return object{"type": "text", "text": a.text}, "end_turn"
}

func messagesUsage(u Usage) object {
	return object{
		"input_tokens": u.In, "output_tokens": u.Out,
		"cache_read_input_tokens": u.Cached, "cache_creation_input_tokens": 0,
	}
}

package modelserver

func responsesBody(a answer) any {
	return object{
		"id": a.id, "object": "response", "created_at": 1, "status": "completed", "model": a.model,
		"output": []object{responsesItem(a)},
		"usage":  responsesUsage(a.usage),
	}
}

func responsesEvents(a answer) []event {
	n := 0
	ev := func(kind string, fields object) event {
		fields["type"] = kind
		fields["sequence_number"] = n
		n++
		return jsonEvent(kind, fields)
	}
	started := object{"id": a.id, "object": "response", "created_at": 1, "status": "in_progress", "model": a.model, "output": []object{}}
	item := responsesItem(a)
	out := []event{
		ev("response.created", object{"response": started}),
		ev("response.output_item.added", object{"output_index": 0, "item": item}),
	}
	if a.call == nil {
		for _, p := range pieces(a.text) {
			out = append(out, ev("response.output_text.delta", object{
				"item_id": item["id"], "output_index": 0, "content_index": 0, "delta": p,
			}))
		}
	} else {
		out = append(out, ev("response.function_call_arguments.delta", object{
			"item_id": item["id"], "output_index": 0, "delta": string(a.call.args),
		}))
	}
	return append(out,
		ev("response.output_item.done", object{"output_index": 0, "item": item}),
		ev("response.completed", object{"response": responsesBody(a)}),
	)
}

func responsesItem(a answer) object {
	if a.call != nil {
		return object{
			"type": "function_call", "id": "fc_" + a.id, "call_id": a.call.id, "status": "completed",
			"name": a.call.name, "arguments": string(a.call.args),
		}
	}
	return object{
		"type": "message", "id": "msg_" + a.id, "role": "assistant", "status": "completed",
		"content": []object{{"type": "output_text", "text": a.text, "annotations": []object{}}},
	}
}

func responsesUsage(u Usage) object {
	return object{
		"input_tokens": u.In, "output_tokens": u.Out, "total_tokens": u.In + u.Out,
		"input_tokens_details":  object{"cached_tokens": u.Cached},
		"output_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}
}

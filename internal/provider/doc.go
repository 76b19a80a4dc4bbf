// Package provider asks a model behind an HTTP endpoint and hears its answer. It
// owns three wires (OpenAI chat completions, OpenAI Responses, Anthropic
// Messages) on net/http, the reader of server-sent events, the assembler of tool
// calls and the kinds of errors that an endpoint can make.
//
// It promises that every byte read is counted against a bound and every wait
// stands under a clock, that an answer is whole or an [Error], that the key goes
// out in one header to one address and never into an error, and that a tool call
// has an Input only where what the model wrote is one JSON object:
//
//	Request -> wire.body -> POST -> events or one JSON document -> turn -> Result
//
// It never follows a redirect, never asks twice but for a field that the endpoint
// refused by name, never runs a tool, never prints and knows no vendor.
package provider

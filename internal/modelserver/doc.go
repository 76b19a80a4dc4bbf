// Package modelserver is a scripted stand-in for paid model services. It owns
// three of their wires (OpenAI chat completions, OpenAI Responses, Anthropic
// messages; streaming and not) and plays the steps of a script on them: answers,
// tool calls, refusals, silence, drips and broken streams.
//
// It promises that the same request gets the same answer (only the counted
// errors of a step have a memory), that every request is in its journal, and
// that usage numbers are those of the script. It never thinks, never leaves
// loopback by itself and never pretends: its model is called "scripted" and its
// answers say so where a script gives no text.
//
// The step that is played is the number of tool results in the request:
//
//	request without tool results  -> step 0, for example a tool call "write"
//	request with one tool result  -> step 1, for example a text
//	past the last step            -> a text that says the script is over
//
// A request that offers no tools (a CLI asking for a title) gets a text. Beside the
// wires a script can hold documents, such as a balance, for a GET. The server
// listens on loopback or, without a port, in memory.
package modelserver

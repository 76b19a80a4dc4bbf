package engines

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ferry-fleet/ferry"
)

func pi() Contract {
	return Contract{
		Name:    "pi",
		Args:    []string{"-p", "--mode", "json", "{prompt}"},
		Warning: "pi has no permission system: outside a box it can write wherever your account can",
		// Only its own update checks: model calls are made all the same.
		Env:       map[string]string{"PI_OFFLINE": "1"},
		HomeNames: []string{"PI_CODING_AGENT_DIR"},
		Login:     []string{".pi/agent/auth.json", ".pi/agent/models.json", ".pi/agent/settings.json"},
		options: []option{
			{flags: []string{"--mode"}, args: []string{"--mode", "json"}},
		},
		byStdin: func() []string { return nil },
		parser:  func() parser { return &piParser{} },
	}
}

type piParser struct {
	jsonLines
}

type piEvent struct {
	Type    string `json:"type"`
	Message struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
		Stop    string          `json:"stopReason"`
		Error   string          `json:"errorMessage"`
		Usage   struct {
			Input  int64 `json:"input"`
			Output int64 `json:"output"`
			Read   int64 `json:"cacheRead"`
			Write  int64 `json:"cacheWrite"`
			Cost   struct {
				Total float64 `json:"total"`
			} `json:"cost"`
		} `json:"usage"`
	} `json:"message"`
	CallID string                     `json:"toolCallId"`
	Tool   string                     `json:"toolName"`
	Args   map[string]json.RawMessage `json:"args"`
	Failed bool                       `json:"isError"`
	Error  string                     `json:"errorMessage"`
}

// piUpdate starts the lines that repeat the whole message for each piece of it:
// nearly all of the output, and nothing that message_end does not say again.
var piUpdate = []byte(`{"type":"message_update"`)

func (p *piParser) line(b []byte) (string, bool) {
	if bytes.HasPrefix(b, piUpdate) {
		p.events++
		return "", true
	}
	var e piEvent
	if !looksJSON(b) || json.Unmarshal(b, &e) != nil || e.Type == "" {
		return p.other(b)
	}
	p.events++
	switch e.Type {
	case "message_end":
		return p.message(e)
	case "tool_execution_start":
		p.toolStarted(e.CallID)
		return "tool: " + toolLine(e.Tool, e.Args), true
	case "message_update", "tool_execution_update":
		return "", true
	case "tool_execution_end":
		p.toolEnded(e.CallID)
		if e.Failed {
			return "tool failed: " + e.Tool, true
		}
		return "", true
	case "auto_retry_start":
		return "error: " + firstLine(e.Error, 500) + ", trying again", false
	}
	// The frame around a call is printed for each retry too.
	return "", false
}

func (p *piParser) message(e piEvent) (string, bool) {
	m := e.Message
	if m.Role != "assistant" {
		return "", m.Role == "toolResult"
	}
	u := ferry.Usage{
		Requests: 1, TokensIn: tokens(m.Usage.Input) + tokens(m.Usage.Read) + tokens(m.Usage.Write),
		TokensOut: tokens(m.Usage.Output), CostMicroUSD: microUSD(m.Usage.Cost.Total),
	}
	if u.CostMicroUSD > 0 {
		u.CostSource = "engine"
	}
	p.out.Usage = p.out.Usage.Add(u)
	if m.Stop == "error" || m.Stop == "aborted" {
		p.out.Text = ""
		p.failed(Failure{Message: m.Error})
		return "error: " + firstLine(m.Error, 500), false
	}
	p.out.Failure = nil
	text := piText(m.Content)
	p.out.Text = text
	if m.Stop == "stop" && text != "" {
		return fmt.Sprintf("%s\ntokens: %d in, %d out", text, p.out.Usage.TokensIn, p.out.Usage.TokensOut), true
	}
	return text, true
}

func piText(content json.RawMessage) string {
	var blocks []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &blocks) != nil {
		return ""
	}
	var out []string
	for _, b := range blocks {
		if b.Type == "text" && b.Text != "" {
			out = append(out, b.Text)
		}
	}
	return strings.Join(out, "\n")
}

func (p *piParser) used() ferry.Usage { return p.out.Usage }

func (p *piParser) end() Parsed { return p.result() }

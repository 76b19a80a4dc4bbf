package engines

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
)

func claude() Contract {
	return Contract{
		Name:       "claude",
		Args:       []string{"-p", "--output-format", "stream-json", "--verbose", "{prompt}"},
		Warning:    "outside a box ferry never adds --dangerously-skip-permissions: without it claude refuses every edit and still ends with success",
		Bypass:     []string{"--dangerously-skip-permissions"},
		BypassEnv:  map[string]string{"IS_SANDBOX": "1"},
		BypassNote: "inside the box claude edits and runs commands without asking",
		Env: map[string]string{
			"DISABLE_AUTOUPDATER":                      "1",
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
		},
		api:       api{base: "https://api.anthropic.com", variable: "ANTHROPIC_BASE_URL", key: "ANTHROPIC_API_KEY"},
		Names:     []string{"ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "API_TIMEOUT_MS", "CLAUDE_CODE_MAX_RETRIES"},
		HomeNames: []string{"CLAUDE_CONFIG_DIR"},
		Login:     []string{".claude/.credentials.json", ".claude/settings.json", ".claude.json"},
		options: []option{
			// The streaming form: the other one prints nothing until the end, and a
			// stall clock would end a run that works.
			{flags: []string{"--output-format"}, args: []string{"--output-format", "stream-json", "--verbose"}},
		},
		byStdin: func() []string { return nil },
		parser:  func() parser { return &claudeParser{} },
	}
}

type claudeParser struct {
	jsonLines
	seen   map[string]bool // ids of the model's messages
	partly ferry.Usage     // until the result tells the sum
	total  *ferry.Usage
	resets time.Time
}

type claudeEvent struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	// of system
	Status  int             `json:"error_status"`
	Error   any             `json:"error"`
	Tool    string          `json:"tool_name"`
	Message json.RawMessage `json:"message"`
	// of result
	Result    string      `json:"result"`
	IsError   bool        `json:"is_error"`
	Reason    string      `json:"terminal_reason"`
	APIStatus *int        `json:"api_error_status"`
	Cost      float64     `json:"total_cost_usd"`
	Turns     int64       `json:"num_turns"`
	Usage     claudeUsage `json:"usage"`
	Denials   []struct {
		Tool  string                     `json:"tool_name"`
		Input map[string]json.RawMessage `json:"tool_input"`
	} `json:"permission_denials"`
	Limit struct {
		ResetsAt int64 `json:"resetsAt"`
	} `json:"rate_limit_info"`
}

type claudeUsage struct {
	Input   int64 `json:"input_tokens"`
	Output  int64 `json:"output_tokens"`
	Read    int64 `json:"cache_read_input_tokens"`
	Created int64 `json:"cache_creation_input_tokens"`
}

// in counts what was sent, cached or not.
func (u claudeUsage) in() int64 { return tokens(u.Input) + tokens(u.Read) + tokens(u.Created) }

type claudeMessage struct {
	ID      string          `json:"id"`
	Model   string          `json:"model"`
	Usage   claudeUsage     `json:"usage"`
	Content json.RawMessage `json:"content"`
}

type claudeBlock struct {
	Type  string                     `json:"type"`
	Text  string                     `json:"text"`
	ID    string                     `json:"id"`
	Name  string                     `json:"name"`
	Input map[string]json.RawMessage `json:"input"`
	Of    string                     `json:"tool_use_id"`
	Error bool                       `json:"is_error"`
}

func (p *claudeParser) line(b []byte) (string, bool) {
	var e claudeEvent
	if !looksJSON(b) || json.Unmarshal(b, &e) != nil || e.Type == "" {
		return p.other(b)
	}
	p.events++
	switch e.Type {
	case "system":
		return p.system(e)
	case "assistant", "user":
		return p.message(e), true
	case "rate_limit_event":
		if e.Limit.ResetsAt > 0 {
			p.resets = time.Unix(e.Limit.ResetsAt, 0)
		}
		return "", true
	case "result":
		return p.finished(e), true
	}
	return "", true
}

func (p *claudeParser) system(e claudeEvent) (string, bool) {
	switch e.Subtype {
	case "api_retry":
		p.failed(Failure{Status: e.Status, Message: fmt.Sprintf("%v", e.Error), Resets: p.resets})
		return fmt.Sprintf("error: %v (status %d), trying again", e.Error, e.Status), false
	case "permission_denied":
		return "denied: " + e.Tool, true
	}
	return "", true
}

func (p *claudeParser) message(e claudeEvent) string {
	var m claudeMessage
	if json.Unmarshal(e.Message, &m) != nil {
		return ""
	}
	// The CLI's own words about an error come as a message of this model.
	synthetic := m.Model == "<synthetic>"
	if e.Type == "assistant" && !synthetic {
		p.out.Failure = nil
		p.count(m)
	}
	var blocks []claudeBlock
	if len(m.Content) == 0 || m.Content[0] != '[' || json.Unmarshal(m.Content, &blocks) != nil {
		return ""
	}
	var shown []string
	for _, b := range blocks {
		if s := p.block(b); s != "" {
			shown = append(shown, s)
		}
	}
	return strings.Join(shown, "\n")
}

func (p *claudeParser) count(m claudeMessage) {
	if p.seen[m.ID] {
		return
	}
	if p.seen == nil {
		p.seen = make(map[string]bool)
	}
	p.seen[m.ID] = true
	p.partly = p.partly.Add(ferry.Usage{Requests: 1, TokensIn: m.Usage.in(), TokensOut: tokens(m.Usage.Output)})
}

func (p *claudeParser) block(b claudeBlock) string {
	switch b.Type {
	case "text":
		return b.Text
	case "tool_use":
		p.toolStarted(b.ID)
		return "tool: " + toolLine(b.Name, b.Input)
	case "tool_result":
		p.toolEnded(b.Of)
		if b.Error {
			return "tool failed"
		}
	}
	return ""
}

func (p *claudeParser) finished(e claudeEvent) string {
	clear(p.tools)
	for _, d := range e.Denials {
		p.out.Denied = append(p.out.Denied, toolLine(d.Tool, d.Input))
	}
	u := ferry.Usage{Requests: int64(len(p.seen)), TokensIn: e.Usage.in(), TokensOut: tokens(e.Usage.Output), CostMicroUSD: microUSD(e.Cost)}
	if u.CostMicroUSD > 0 {
		u.CostSource = "engine"
	}
	p.total = &u
	if e.APIStatus != nil || e.Reason == "api_error" {
		f := Failure{Message: e.Result, Resets: p.resets}
		if e.APIStatus != nil {
			f.Status = *e.APIStatus
		}
		p.failed(f)
		return "error: " + firstLine(e.Result, 500)
	}
	p.out.Failure = nil
	if !e.IsError {
		p.out.Text = e.Result
	}
	return fmt.Sprintf("tokens: %d in, %d out", u.TokensIn, u.TokensOut)
}

func (p *claudeParser) used() ferry.Usage {
	if p.total != nil {
		return *p.total
	}
	return p.partly
}

func (p *claudeParser) end() Parsed {
	out := p.result()
	out.Usage = p.used()
	return out
}

// toolLine names a tool and the one argument that says what it is about.
func toolLine(name string, input map[string]json.RawMessage) string {
	for _, k := range []string{"file_path", "path", "command", "cmd", "pattern", "url"} {
		var s string
		if json.Unmarshal(input[k], &s) == nil && s != "" {
			return name + " " + firstLine(s, 200)
		}
	}
	return name
}

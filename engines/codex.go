package engines

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ferry-fleet/ferry"
)

func codex() Contract {
	return Contract{
		Name:       "codex",
		Args:       []string{"exec", "--json", "--skip-git-repo-check", "--sandbox", "workspace-write", "{prompt}"},
		Bypass:     []string{"--dangerously-bypass-approvals-and-sandbox"},
		BypassNote: "codex's own sandbox cannot nest in ferry's box: inside the box it runs every command without asking",
		HomeNames:  []string{"CODEX_HOME"},
		Login:      []string{".codex/auth.json", ".codex/config.toml"},
		after:      "exec",
		options: []option{
			{flags: []string{"--json", "--experimental-json"}, args: []string{"--json"}},
			{flags: []string{"--skip-git-repo-check"}, args: []string{"--skip-git-repo-check"}},
		},
		byStdin: func() []string { return []string{"-"} },
		parser:  func() parser { return &codexParser{} },
	}
}

type codexParser struct {
	jsonLines
}

type codexEvent struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Error   struct {
		Message string `json:"message"`
	} `json:"error"`
	Usage struct {
		Input  int64 `json:"input_tokens"`
		Output int64 `json:"output_tokens"`
	} `json:"usage"`
	Item struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Text     string `json:"text"`
		Message  string `json:"message"`
		Command  string `json:"command"`
		Output   string `json:"aggregated_output"`
		ExitCode *int   `json:"exit_code"`
		Status   string `json:"status"`
		Server   string `json:"server"`
		Tool     string `json:"tool"`
		Changes  []struct {
			Path string `json:"path"`
			Kind string `json:"kind"`
		} `json:"changes"`
	} `json:"item"`
}

func (p *codexParser) line(b []byte) (string, bool) {
	var e codexEvent
	if !looksJSON(b) || json.Unmarshal(b, &e) != nil || e.Type == "" {
		return p.other(b)
	}
	p.events++
	switch e.Type {
	case "error":
		p.failed(Failure{Message: e.Message})
		return "error: " + firstLine(e.Message, 500), false
	case "turn.failed":
		if e.Error.Message != "" {
			p.failed(Failure{Message: e.Error.Message})
		}
		return "", false
	case "turn.completed":
		p.out.Failure = nil
		p.out.Usage = p.out.Usage.Add(ferry.Usage{TokensIn: tokens(e.Usage.Input), TokensOut: tokens(e.Usage.Output)})
		return fmt.Sprintf("tokens: %d in, %d out", e.Usage.Input, e.Usage.Output), true
	case "item.started", "item.updated":
		p.toolStarted(e.Item.ID)
		return p.show(e), true
	case "item.completed":
		return p.completed(e), true
	}
	return "", true
}

func (p *codexParser) completed(e codexEvent) string {
	p.toolEnded(e.Item.ID)
	if e.Item.Type == "error" {
		return "notice: " + firstLine(e.Item.Message, 500)
	}
	// An answer or a finished tool means that the endpoint is back.
	p.out.Failure = nil
	if e.Item.Type == "agent_message" {
		p.out.Text = e.Item.Text
		return e.Item.Text
	}
	switch {
	case e.Item.Status == "declined":
		p.out.Denied = append(p.out.Denied, firstLine(e.Item.Command, 200))
	case e.Item.Status == "failed" && strings.HasPrefix(e.Item.Output, "bwrap: "):
		p.out.Denied = append(p.out.Denied, firstLine(e.Item.Command, 200)+" (codex's own sandbox did not start)")
	}
	return p.show(e)
}

func (p *codexParser) show(e codexEvent) string {
	started := e.Type != "item.completed"
	switch e.Item.Type {
	case "command_execution":
		if started {
			return "$ " + firstLine(e.Item.Command, 500)
		}
		if e.Item.ExitCode != nil {
			return fmt.Sprintf("exit %d", *e.Item.ExitCode)
		}
		return e.Item.Status
	case "file_change":
		if started {
			return ""
		}
		var paths []string
		for _, c := range e.Item.Changes {
			paths = append(paths, c.Kind+" "+c.Path)
		}
		return "edit: " + cut(strings.Join(paths, ", "), 500)
	case "mcp_tool_call":
		return "tool: " + e.Item.Server + "." + e.Item.Tool + " " + e.Item.Status
	}
	return ""
}

func (p *codexParser) used() ferry.Usage { return p.out.Usage }

func (p *codexParser) end() Parsed { return p.result() }

package modelserver

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
)

// call is a tool call in the terms of the CLI that made the request.
type call struct {
	id   string
	name string
	args json.RawMessage
}

// The names that agent CLIs give to the same tools and parameters, in the order
// of preference.
var (
	writeTools   = []string{"write", "Write", "write_file", "create_file", "editor"}
	shellTools   = []string{"exec_command", "shell_command", "shell", "local_shell", "Bash", "bash", "run_shell_command", "execute_command"}
	pathNames    = []string{"file_path", "filePath", "path", "absolute_path", "filename"}
	contentNames = []string{"content", "contents", "text", "file_text"}
	cmdNames     = []string{"cmd", "command"}
)

// toolCall maps a write, shell or call step to a tool that the request offers.
func toolCall(s Step, a ask) (call, error) {
	id := fmt.Sprintf("call_%d", a.results)
	switch s.Do {
	case DoCall:
		return call{id, s.Tool, s.Args}, nil
	case DoWrite:
		if t, ok := find(a.tools, writeTools); ok {
			args := map[string]any{
				param(t, pathNames):    s.Path,
				param(t, contentNames): s.Content,
			}
			return encodeCall(id, t, args)
		}
		return shellCall(id, writeCommand(s), a)
	default:
		return shellCall(id, s.Cmd, a)
	}
}

func shellCall(id, cmd string, a ask) (call, error) {
	t, ok := find(a.tools, shellTools)
	if !ok {
		return call{}, fmt.Errorf("no tool for a shell command among %s", strings.Join(names(a.tools), ", "))
	}
	p := param(t, cmdNames)
	var v any = cmd
	if t.schema.Properties[p].Type == "array" {
		v = []string{"bash", "-lc", cmd}
	}
	return encodeCall(id, t, map[string]any{p: v})
}

// encodeCall fills the required parameters that the script knows nothing of with
// a harmless string, so that a strict CLI takes the call.
func encodeCall(id string, t tool, args map[string]any) (call, error) {
	for _, r := range t.schema.Required {
		if _, ok := args[r]; !ok && t.schema.Properties[r].Type == "string" {
			args[r] = "scripted"
		}
	}
	data, err := json.Marshal(args)
	if err != nil {
		return call{}, fmt.Errorf("arguments of %s: %w", t.name, err)
	}
	return call{id, t.name, data}, nil
}

func find(tools []tool, wanted []string) (tool, bool) {
	for _, w := range wanted {
		if i := slices.IndexFunc(tools, func(t tool) bool { return t.name == w }); i >= 0 {
			return tools[i], true
		}
	}
	return tool{}, false
}

func param(t tool, candidates []string) string {
	for _, c := range candidates {
		if _, ok := t.schema.Properties[c]; ok {
			return c
		}
	}
	return candidates[0]
}

func names(tools []tool) []string {
	var out []string
	for _, t := range tools {
		out = append(out, t.name)
	}
	return out
}

// writeCommand writes a file with a shell, for a CLI that offers nothing else.
func writeCommand(s Step) string {
	return fmt.Sprintf("mkdir -p %s && printf %%s %s > %s",
		quote(path.Dir(s.Path)), quote(s.Content), quote(s.Path))
}

func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

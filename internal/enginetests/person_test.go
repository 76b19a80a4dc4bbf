//go:build engines

package enginetests_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry/internal/ferrytest"
	"github.com/ferry-fleet/ferry/internal/modelserver"
)

// key is what the scripted server takes as a paid key.
const key = "canary-5d7e41b09c"

// person is somebody with a home, a checkout of the broken module and one CLI,
// who types ferry commands.
type person struct {
	*ferrytest.Person
	cli    string
	server *modelserver.Server
	url    string
}

// newPerson gives a person whose CLI talks to a server that plays the script.
func newPerson(t *testing.T, cli string, script modelserver.Script) *person {
	t.Helper()
	dir := t.TempDir()
	p := &person{cli: cli, Person: ferrytest.NewPerson(t, ferrytest.PersonSpec{
		Dir: filepath.Join(dir, "home"), State: filepath.Join(dir, "state"), Repo: "pflag", Binary: shared.ferry,
		Name: "You", Email: who, Env: shared.env,
	})}
	p.Must(os.CopyFS(p.Repo, os.DirFS(shared.module)))
	script.Key = key
	server, err := modelserver.New(script)
	p.Must(err)
	url, stop, err := modelserver.Listen(server, "127.0.0.1:0")
	p.Must(err)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	p.server, p.url = server, url
	p.logIn()
	return p
}

// logIn writes the CLI's own settings, which name the scripted server.
func (p *person) logIn() {
	p.Helper()
	switch p.cli {
	case "codex":
		p.Write(".codex/config.toml", fmt.Sprintf(`model_provider = "mock"
model = "mock"
[model_providers.mock]
name = "mock"
base_url = "%s/v1"
wire_api = "responses"
env_key = "MOCK_API_KEY"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
`, p.url))
	case "claude":
		p.Write(".claude/settings.json", fmt.Sprintf(`{"env": {"ANTHROPIC_BASE_URL": "%s", "CLAUDE_CODE_MAX_RETRIES": "0"}}`, p.url))
	case "pi":
		p.Write(".pi/agent/models.json", fmt.Sprintf(`{"providers": {"mock": {"baseUrl": "%s/v1", "api": "openai-completions", "apiKey": "MOCK_API_KEY",
"models": [{"id": "mock", "cost": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0}}]}}}`, p.url))
		p.Write(".pi/agent/settings.json", `{"defaultProvider": "mock", "defaultModel": "mock", "retry": {"enabled": false, "provider": {"maxRetries": 0}}}`)
	}
}

// enable attaches the repository and leaves the key where ferry wants it.
func (p *person) enable() {
	p.Helper()
	var got struct {
		Enabled  bool
		Engine   string
		Sandbox  string
		Warnings []string
	}
	p.json(&got, "enable", "--command", p.cli, "--email", who, "--json")
	if !got.Enabled || got.Engine != p.cli || got.Sandbox != "bwrap" {
		p.Fatalf("enable: %+v", got)
	}
	name := map[string]string{"codex": "MOCK_API_KEY", "claude": "ANTHROPIC_API_KEY", "pi": "MOCK_API_KEY"}[p.cli]
	p.Write("pflag/.ferry/credentials.json", fmt.Sprintf(`{%q: %q}`, name, key))
}

// prepare fills the build cache of the checks: from the tests' own one, so that
// each test does not build the standard library again.
func (p *person) prepare() {
	p.Helper()
	data, err := os.ReadFile(p.ConfigPath())
	p.Must(err)
	_, list, ok := strings.Cut(string(data), "\nro = [")
	list, _, closed := strings.Cut(list, "]")
	if !ok || !closed {
		p.Fatalf("enable found nothing to show in the box:\n%s", data)
	}
	p.Set("ro", fmt.Sprintf("[%s, %q]", list, shared.gocache))
	p.Set("prepare", fmt.Sprintf(`'mkdir -p "$GOCACHE" && cp -a %s/. "$GOCACHE" && go test -run "^$" ./...'`, shared.gocache))
}

// order gives the order of every test here.
func (p *person) order(args ...string) {
	p.Helper()
	p.Write("task.md", "The tests of the count flag fail. Mend "+broken+" so that `"+check+"` passes; do not change the tests.\n")
	p.ferry(0, append([]string{"channel", "order", "--id", "t-fix", "--task-file", filepath.Join(p.Dir, "task.md"),
		"--check", check, "--requires-review"}, args...)...)
}

// work lets the worker look once and wait for what it began.
func (p *person) work() { p.Helper(); p.ferry(0, "agent", "run", "--once") }

// ferry types a command that must end with the code, and gives what it printed,
// or what it complained about. The key is never in it.
func (p *person) ferry(code int, args ...string) string {
	p.Helper()
	out := p.Ferry(code, args...)
	if strings.Contains(out, key) {
		p.Errorf("ferry %s prints the key", strings.Join(args, " "))
	}
	return out
}

// json types a command and reads its --json.
func (p *person) json(into any, args ...string) {
	p.Helper()
	out := p.ferry(0, args...)
	if err := json.Unmarshal([]byte(out), into); err != nil {
		p.Fatalf("ferry %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// shown is what the tests read of `channel show --json`.
type shown struct {
	Task struct {
		State, Hold, Branch, Landed string
		Attempt, Revision           int64
	}
	Attempts []struct {
		Stop, Note string
		Runs       []struct{ Outcome, Reason string }
	}
	Results []struct {
		Commit, Branch, Answer string
		Standing               bool
		Files                  []struct{ Path, Status string }
		Checks                 []struct {
			Command, Tail string
			Exit          int64
		}
		Evidence struct {
			Status  string
			Reasons []string
		}
		Usage struct {
			TokensIn  int64 `json:"tokens_in"`
			TokensOut int64 `json:"tokens_out"`
		}
	}
}

func (p *person) show() shown {
	p.Helper()
	var s shown
	p.json(&s, "channel", "show", "t-fix", "--json")
	return s
}

// why gives the reasons of `status --why`.
func (p *person) why() string {
	p.Helper()
	var s struct{ Reasons []string }
	p.json(&s, "status", "--why", "t-fix", "--json")
	return strings.Join(s.Reasons, "\n")
}

func (p *person) git(args ...string) string {
	p.Helper()
	out, err := git(p.Context(), p.Repo, args...)
	p.Must(err)
	return strings.TrimSpace(out)
}

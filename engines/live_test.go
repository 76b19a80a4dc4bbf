//go:build engines

package engines_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/engines/enginetest"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/modelserver"
	"github.com/ferry-fleet/ferry/internal/process"
)

// live is a run of a real CLI against the scripted model server.
type live struct {
	ctx    context.Context // nil for that of the test
	cli    string
	script modelserver.Script
	level  box.Level
	key    string // "" for none at all
	down   bool   // nothing listens
	bypass bool
	prompt string
	stall  time.Duration
	log    *enginetest.Log
	server *modelserver.Server
	work   string
	mark   string
}

func newLive(t *testing.T, cli string, steps ...modelserver.Step) *live {
	t.Helper()
	return &live{
		cli: cli, script: modelserver.Script{Key: enginetest.Secret, Steps: steps}, key: enginetest.Secret,
		level: levels(t)[0], bypass: true, prompt: "Do what the order says.", stall: 20 * time.Second,
		log: &enginetest.Log{}, work: t.TempDir(), mark: mark(t),
	}
}

// run plays the script to the CLI and tests what holds for every run.
func (l *live) run(t *testing.T) engines.Reply {
	t.Helper()
	dir := os.Getenv("FERRY_TEST_ENGINES")
	if dir == "" {
		t.Fatal("FERRY_TEST_ENGINES does not say where the CLIs are: run scripts/test-engines")
	}
	server, err := modelserver.New(l.script)
	if err != nil {
		t.Fatal(err)
	}
	l.server = server
	url, stop, err := modelserver.Listen(server, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if l.down {
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	} else {
		defer func() {
			if err := stop(); err != nil {
				t.Error(err)
			}
		}()
	}
	req := engines.Request{
		Engine: l.config(filepath.Join(dir, "node_modules", ".bin", l.cli), url), Contract: engines.ContractOf(l.cli),
		Prompt: l.prompt, PromptDir: t.TempDir(), Log: l.log,
		Box: box.Spec{Level: l.level, Net: box.NetOpen, Work: l.work, State: t.TempDir(), Mark: l.mark, Login: l.login(t, url)},
	}
	req.Environ = os.Environ()
	ctx := l.ctx
	if ctx == nil {
		ctx = t.Context()
	}
	got := engines.Run(ctx, req)
	t.Logf("%s: ended %s, exit %d, fault %v, usage %+v, denied %v, %d requests, %s", l.cli, got.Ended, got.Exit, got.Fault, got.Usage, got.Denied, server.Requests(), got.Duration.Round(10*time.Millisecond))
	if got.Err != nil {
		t.Errorf("err %v", got.Err)
	}
	for where, s := range map[string]string{"text": got.Text, "tail": got.Tail, "log": l.log.String()} {
		if strings.Contains(s, enginetest.Secret) {
			t.Errorf("the key is in the %s", where)
		}
	}
	if n, err := process.Sweep(l.mark); n != 0 || err != nil {
		t.Errorf("%d processes survived, err %v", n, err)
	}
	return got
}

func (l *live) config(command, url string) engines.Config {
	c := engines.Config{Name: "live", Kind: engines.KindCLI, Command: command, Bypass: l.bypass, Timeout: 2 * time.Minute, Stall: l.stall}
	switch l.cli {
	case "codex":
		c.Args = []string{"exec", "{prompt}"}
		c.Credentials = map[string]string{"MOCK_API_KEY": l.key}
	case "claude":
		c.Args = []string{"-p", "{prompt}"}
		c.Env = map[string]string{"ANTHROPIC_BASE_URL": url, "CLAUDE_CODE_MAX_RETRIES": "0"}
		c.Credentials = map[string]string{"ANTHROPIC_API_KEY": l.key}
	case "pi":
		c.Args = []string{"-p", "--provider", "mock", "--model", "{model}", "{prompt}"}
		c.Model = "mock"
		c.Credentials = map[string]string{"MOCK_API_KEY": l.key}
	}
	if l.key == "" {
		c.Credentials = nil
	}
	return c
}

// login writes the CLI's settings into a home of this test and names them.
func (l *live) login(t *testing.T, url string) []string {
	t.Helper()
	home := t.TempDir()
	t.Setenv("HOME", home)
	files := map[string]string{}
	switch l.cli {
	case "codex":
		files[".codex/config.toml"] = fmt.Sprintf(`model_provider = "mock"
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
`, url)
	case "pi":
		key := `"apiKey": "MOCK_API_KEY", `
		if l.key == "" {
			key = ""
		}
		files[".pi/agent/models.json"] = fmt.Sprintf(`{"providers": {"mock": {"baseUrl": "%s/v1", "api": "openai-completions", %s
"models": [{"id": "mock", "cost": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0}}]}}}`, url, key)
		files[".pi/agent/settings.json"] = `{"retry": {"enabled": false, "provider": {"maxRetries": 0}}}`
	}
	for name, text := range files {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out []string
	for _, name := range engines.ContractOf(l.cli).Login {
		out = append(out, filepath.Join(home, name))
	}
	return out
}

func (l *live) wrote(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(l.work, "hello.txt"))
	if err != nil && !os.IsNotExist(err) {
		t.Error(err)
	}
	return string(data)
}

var (
	writeHello = modelserver.Step{Do: modelserver.DoWrite, Path: "hello.txt", Content: "hi"}
	sayDone    = modelserver.Step{Do: modelserver.DoText, Text: "All done."}
)

func eachCLI(t *testing.T, test func(t *testing.T, cli string)) {
	for _, k := range engines.Contracts() {
		t.Run(k.Name, func(t *testing.T) { test(t, k.Name) })
	}
}

func TestLiveEdits(t *testing.T) {
	eachCLI(t, func(t *testing.T, cli string) {
		l := newLive(t, cli, writeHello, sayDone)
		got := l.run(t)
		if got.Fault != nil || got.Text != "All done." || l.wrote(t) != "hi" {
			t.Fatalf("text %q, file %q, fault %v\n%s", got.Text, l.wrote(t), got.Fault, got.Tail)
		}
		if got.Usage.TokensIn != 200 || got.Usage.TokensOut != 20 {
			t.Errorf("usage %+v, want 200 tokens in and 20 out", got.Usage)
		}
		if !strings.Contains(l.log.String(), "All done.") {
			t.Errorf("log %q", l.log)
		}
	})
}

func TestLiveSaysDoneButDidNothing(t *testing.T) {
	eachCLI(t, func(t *testing.T, cli string) {
		l := newLive(t, cli, sayDone)
		if got := l.run(t); got.Fault != nil || got.Text != "All done." || l.wrote(t) != "" {
			t.Errorf("text %q, fault %v", got.Text, got.Fault)
		}
	})
}

// down takes the server away. codex waits for it for ever; the others give up.
func down(l *live) {
	l.down = true
	if l.cli == "codex" {
		l.stall = 8 * time.Second
	}
}

func TestLiveFaults(t *testing.T) {
	status := func(code int, body string) []modelserver.Step {
		return []modelserver.Step{{Do: modelserver.DoError, Status: code, Body: body}}
	}
	do := func(what string) []modelserver.Step { return []modelserver.Step{{Do: what}} }
	const noCredit = `{"type":"error","error":{"type":"billing_error","message":"Insufficient credits"}}`
	for _, tt := range []struct {
		name  string
		steps []modelserver.Step
		set   func(*live)
		want  engines.Class
		by    map[string]engines.Class // where a CLI cannot tell it apart
	}{
		{"wrong key", []modelserver.Step{sayDone}, func(l *live) { l.script.Key = "another-key" }, engines.FaultAuth, nil},
		{"no key", []modelserver.Step{sayDone}, func(l *live) { l.key = "" }, engines.FaultAuth, map[string]engines.Class{"pi": engines.FaultEmpty}},
		{"402", status(402, noCredit), nil, engines.FaultCredit, nil},
		{"404", status(404, ""), nil, engines.FaultEndpoint, nil},
		{"429", status(429, ""), nil, engines.FaultRate, nil},
		{"500", status(500, ""), nil, engines.FaultEndpoint, nil},
		{"cut", do(modelserver.DoCut), nil, engines.FaultEndpoint, nil},
		{"empty", do(modelserver.DoEmpty), nil, engines.FaultEmpty, map[string]engines.Class{"codex": engines.FaultEndpoint}},
		{"silent", do(modelserver.DoHang), func(l *live) { l.stall = 5 * time.Second }, engines.FaultSilent, nil},
		{"headers then silence", do(modelserver.DoHangMid), func(l *live) { l.stall = 5 * time.Second }, engines.FaultSilent, nil},
		{"nothing listens", do(modelserver.DoText), down, engines.FaultEndpoint, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachCLI(t, func(t *testing.T, cli string) {
				l := newLive(t, cli, tt.steps...)
				if tt.set != nil {
					tt.set(l)
				}
				want := tt.want
				if c, ok := tt.by[cli]; ok {
					want = c
				}
				got := l.run(t)
				if got.Fault == nil || got.Fault.Class != want || got.Fault.Reason == "" {
					t.Errorf("fault %v, want %s\n%s", got.Fault, want, got.Tail)
				}
			})
		})
	}
}

// TestLiveMalformed puts lines that are no JSON into the stream: claude and codex
// pass over them.
func TestLiveMalformed(t *testing.T) {
	for _, cli := range []string{"claude", "codex"} {
		t.Run(cli, func(t *testing.T) {
			l := newLive(t, cli, modelserver.Step{Do: modelserver.DoMalformed, Text: "All done."})
			if got := l.run(t); got.Fault != nil || got.Text != "All done." {
				t.Errorf("text %q, fault %v\n%s", got.Text, got.Fault, got.Tail)
			}
		})
	}
}

func TestLiveDrip(t *testing.T) {
	eachCLI(t, func(t *testing.T, cli string) {
		l := newLive(t, cli, modelserver.Step{Do: modelserver.DoDrip, Text: "a b c", DelayMS: 300})
		if got := l.run(t); got.Fault != nil || got.Text != "a b c" {
			t.Errorf("text %q, fault %v\n%s", got.Text, got.Fault, got.Tail)
		}
	})
}

// TestLiveRefusedEdit takes the approval away: every CLI ends with exit 0 and
// says it is done.
func TestLiveRefusedEdit(t *testing.T) {
	for name, set := range map[string]func(*live){
		"no bypass":  func(l *live) { l.bypass = false },
		"no sandbox": func(l *live) { l.level = box.LevelNone },
	} {
		t.Run(name, func(t *testing.T) {
			eachCLI(t, func(t *testing.T, cli string) {
				l := newLive(t, cli, writeHello, sayDone)
				set(l)
				got := l.run(t)
				if got.Exit != 0 || got.Fault != nil {
					t.Errorf("exit %d, fault %v\n%s", got.Exit, got.Fault, got.Tail)
				}
				// pi has no permission system.
				if wrote := l.wrote(t); (wrote != "") != (cli == "pi") {
					t.Errorf("file %q\n%s", wrote, got.Tail)
				}
				if cli == "claude" && len(got.Denied) == 0 {
					t.Error("the refused edit is not named")
				}
			})
		})
	}
}

func TestLiveLargePrompt(t *testing.T) {
	eachCLI(t, func(t *testing.T, cli string) {
		l := newLive(t, cli, modelserver.Step{Do: modelserver.DoText, Text: "The end did not arrive."})
		l.script.Scenes = []modelserver.Scene{{When: "the-end-of-a-large-prompt", Steps: []modelserver.Step{sayDone}}}
		l.prompt = strings.Repeat("word ", 40_000) + "the-end-of-a-large-prompt"
		if got := l.run(t); got.Fault != nil || got.Text != "All done." {
			t.Errorf("text %q, fault %v\n%s", got.Text, got.Fault, got.Tail)
		}
	})
}

// TestLiveOrphan lets the model start a command that leaves a child behind and
// never ends, and stops the run while it lasts: nothing survives.
func TestLiveOrphan(t *testing.T) {
	eachCLI(t, func(t *testing.T, cli string) {
		l := newLive(t, cli, modelserver.Step{Do: modelserver.DoShell, Cmd: "(setsid tail -f /dev/null &) ; echo hi > hello.txt; tail -f /dev/null"}, sayDone)
		l.stall = time.Minute
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		l.ctx = ctx
		var watch sync.WaitGroup
		watch.Go(func() {
			for ctx.Err() == nil && l.wrote(t) == "" {
				<-time.After(20 * time.Millisecond)
			}
			cancel()
		})
		got := l.run(t)
		cancel()
		watch.Wait()
		if l.wrote(t) == "" {
			t.Fatalf("the command did not run\n%s", got.Tail)
		}
		if got.Ended != engines.EndedCancelled || got.Fault != nil {
			t.Errorf("ended %s with %v", got.Ended, got.Fault)
		}
	})
}

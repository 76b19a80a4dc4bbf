package engines_test

import (
	"context"
	"errors"
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
	"github.com/ferry-fleet/ferry/internal/process"
)

func TestMain(m *testing.M) {
	box.Main()
	os.Exit(m.Run())
}

// request is a run of the scripted engine in a fresh tree.
func request(t *testing.T, level box.Level, name string, steps ...enginetest.Step) engines.Request {
	t.Helper()
	cfg := engines.Config{
		Name: "scripted", Kind: engines.KindCLI, Bypass: true,
		Command:     enginetest.Script(t, t.TempDir(), name, steps...),
		Credentials: map[string]string{"SCRIPTED_API_KEY": enginetest.Secret},
		Timeout:     time.Minute, Stall: 30 * time.Second,
	}
	return engines.Request{
		Engine: cfg, Contract: engines.ContractOf(cfg.Command), Prompt: "do it",
		PromptDir: t.TempDir(), Environ: os.Environ(),
		Box: box.Spec{Level: level, Net: box.NetOpen, Work: t.TempDir(), State: t.TempDir(), Mark: mark(t)},
	}
}

// mark names the processes of one test.
func mark(t *testing.T) string {
	return fmt.Sprintf("t-%d-%d", os.Getpid(), time.Now().UnixNano())
}

// scripted plays the scenarios of the suite with a shell script that reports like
// the named CLI.
func scripted(level box.Level, name string, answer func(string) string) enginetest.Subject {
	known := name != "my-agent"
	failed := func(message string) enginetest.Step {
		if known {
			return enginetest.Step{Print: fmt.Sprintf(`{"type":"turn.failed","error":{"message":%q}}`, message)}
		}
		return enginetest.Step{PrintErr: message}
	}
	answered := []enginetest.Step{{Print: answer(enginetest.Answer)}}
	if known {
		answered = append(answered, enginetest.Step{Print: `{"type":"turn.completed","usage":{"input_tokens":100,"output_tokens":10}}`})
	}
	play := func(t *testing.T, s enginetest.Scenario) enginetest.Case {
		steps := map[enginetest.Scenario][]enginetest.Step{
			enginetest.Answers: answered,
			enginetest.Edits:   append([]enginetest.Step{{Write: "new.txt", Content: "x"}}, answered...),
			enginetest.Refused: {failed("Insufficient credits for the key " + enginetest.Secret), {Exit: 1}},
			enginetest.Silent:  {{Hang: true}},
			enginetest.Cut:     {failed("stream disconnected before completion"), {Exit: 1}},
			enginetest.Nothing: {{Exit: 3}},
			enginetest.Missing: {{Exit: 0}},
			enginetest.Leaks:   {{Shell: `printf '%s\n' "$SCRIPTED_API_KEY" >&2`}, {Print: answer("the key is " + enginetest.Secret)}},
			enginetest.Floods: {
				{Shell: `yes "a line of a flood that is long enough to fill the log soon, one of very many" | head -c 12000000`},
				{Shell: `head -c 100000 /dev/zero | tr '\0' x; echo`}, {Print: answer(strings.Repeat("long ", 20_000))},
			},
		}[s]
		req := request(t, level, name, steps...)
		if s == enginetest.Missing {
			if err := os.Remove(req.Engine.Command); err != nil {
				t.Fatal(err)
			}
		}
		return enginetest.Case{Request: req, Left: func(t *testing.T) int {
			n, err := process.Sweep(req.Box.Mark)
			if err != nil {
				t.Error(err)
			}
			return n
		}}
	}
	return enginetest.Subject{Play: play, Process: true, Edits: true, Tells: known, Gone: engines.FaultMissing}
}

func plain(s string) string { return s }

func codexSays(s string) string {
	return fmt.Sprintf(`{"type":"item.completed","item":{"id":"i1","type":"agent_message","text":%q}}`, s)
}

func levels(t *testing.T) []box.Level {
	t.Helper()
	level, err := chosen()
	if err != nil {
		t.Fatalf("no sandbox on this machine: %v", err)
	}
	return []box.Level{level, box.LevelNone}
}

// chosen proves once for all tests which sandbox works here.
var chosen = sync.OnceValues(func() (box.Level, error) {
	dir, err := os.MkdirTemp("", "ferry-box-")
	if err != nil {
		return "", err
	}
	level, _, err := box.Choose(context.Background(), "", dir)
	return level, errors.Join(err, os.RemoveAll(dir))
})

func TestConformance(t *testing.T) {
	for _, level := range levels(t) {
		t.Run(string(level)+"/generic", func(t *testing.T) { enginetest.Run(t, scripted(level, "my-agent", plain)) })
		t.Run(string(level)+"/codex", func(t *testing.T) { enginetest.Run(t, scripted(level, "codex", codexSays)) })
	}
}

func TestRunShowsArgsEnvironmentAndTree(t *testing.T) {
	for _, level := range levels(t) {
		t.Run(string(level), func(t *testing.T) {
			req := request(t, level, "my-agent",
				enginetest.Step{Shell: `for a in "$@"; do echo "arg: $a"; done; cat "$2"; env | sort; pwd; cat in.txt; cat > out.txt </dev/null`})
			req.Engine.Args = []string{"--model={model}", "{prompt_file}", "{prompt}"}
			req.Engine.Model = "m1"
			req.Prompt = "-v {model} is not a flag"
			req.Environ = append(os.Environ(), "OTHER_API_KEY=never", "GITHUB_TOKEN=never", "LANG=C.UTF-8")
			if err := os.WriteFile(filepath.Join(req.Box.Work, "in.txt"), []byte("from the tree\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			got := engines.Run(t.Context(), req)
			if got.Err != nil || got.Fault != nil || got.Exit != 0 {
				t.Fatalf("exit %d, fault %v, err %v\n%s", got.Exit, got.Fault, got.Err, got.Tail)
			}
			for _, want := range []string{"arg: --model=m1\n", "arg:  -v {model} is not a flag\n", "\n-v {model} is not a flag", "TERM=dumb\n", "LANG=C.UTF-8\n", "from the tree"} {
				if !strings.Contains(got.Text, want) {
					t.Errorf("%q is missing in:\n%s", want, got.Text)
				}
			}
			if strings.Contains(got.Text, "never") || strings.Contains(got.Text, enginetest.Secret) {
				t.Errorf("a secret shows in:\n%s", got.Text)
			}
			if _, err := os.Stat(filepath.Join(req.Box.Work, "out.txt")); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNothingSurvives runs an engine that leaves processes behind in every way
// that the real ones do, and ends it in every way.
func TestNothingSurvives(t *testing.T) {
	const leave = `setsid sh -c 'trap "" TERM HUP; while :; do sleep 1000; done' >/dev/null 2>&1 &
(setsid sh -c 'sleep 1000 & wait' &) ; sleep 1000 & echo started`
	for _, level := range levels(t) {
		for _, end := range []string{"exits", "stalls"} {
			t.Run(string(level)+"/"+end, func(t *testing.T) {
				last := enginetest.Step{Exit: 0}
				if end == "stalls" {
					last = enginetest.Step{Hang: true}
				}
				req := request(t, level, "my-agent", enginetest.Step{Shell: leave}, last)
				req.Stall = time.Second
				got := engines.Run(t.Context(), req)
				if got.Err != nil || got.Text != "started" {
					t.Fatalf("text %q, err %v", got.Text, got.Err)
				}
				n, err := process.Sweep(req.Box.Mark)
				if err != nil || n != 0 {
					t.Errorf("%d processes were left behind, err %v", n, err)
				}
			})
		}
	}
}

func TestStallIsResetByOutput(t *testing.T) {
	req := request(t, box.LevelNone, "my-agent",
		enginetest.Step{Shell: `for i in 1 2 3 4 5 6; do printf .; sleep 0.5; done`}, enginetest.Step{Print: "done"})
	req.Stall = 2 * time.Second
	if got := engines.Run(t.Context(), req); got.Ended != engines.EndedExited {
		t.Errorf("ended %s after %s", got.Ended, got.Duration)
	}
	// codex says again and again that it waits for the network: that is no life.
	retry := codexError("Reconnecting... waiting for network (Connection failed)")
	req = request(t, box.LevelNone, "codex",
		enginetest.Step{Shell: `while :; do echo '` + retry + `'; sleep 0.3; done`})
	req.Stall = 2 * time.Second
	got := engines.Run(t.Context(), req)
	if got.Ended != engines.EndedStalled || got.Fault == nil || got.Fault.Class != engines.FaultEndpoint {
		t.Errorf("ended %s with %v, want a stall and the endpoint's fault", got.Ended, got.Fault)
	}
}

func codexError(s string) string { return fmt.Sprintf(`{"type":"error","message":%q}`, s) }

func TestTimeout(t *testing.T) {
	req := request(t, box.LevelNone, "my-agent", enginetest.Step{Shell: `while :; do echo working; sleep 0.1; done`})
	req.Timeout, req.Stall = time.Second, 10*time.Second
	got := engines.Run(t.Context(), req)
	// It answered, so the order was too large for the clock: not the engine's fault.
	if got.Ended != engines.EndedTimeout || got.Fault != nil || got.Exit != -1 {
		t.Errorf("ended %s, exit %d, fault %v", got.Ended, got.Exit, got.Fault)
	}
}

func TestLargePrompt(t *testing.T) {
	prompt := strings.Repeat("word ", 60_000) + "the end"
	t.Run("stdin", func(t *testing.T) {
		req := request(t, box.LevelNone, "codex", enginetest.Step{Shell: `[ "$6" = - ] && wc -c && tail -c 7 </dev/null`})
		req.Engine.Args = []string{"exec", "--sandbox", "workspace-write", "{prompt}"}
		req.Prompt = prompt
		got := engines.Run(t.Context(), req)
		if got.Text != fmt.Sprint(len(prompt)) {
			t.Errorf("Text = %q, want the length %d; tail %q, err %v", got.Text, len(prompt), got.Tail, got.Err)
		}
	})
	t.Run("file", func(t *testing.T) {
		req := request(t, box.LevelNone, "my-agent", enginetest.Step{Shell: `tail -c 7 "$1"`})
		req.Engine.Args = []string{"{prompt_file}"}
		req.Prompt = prompt
		if got := engines.Run(t.Context(), req); got.Text != "the end" {
			t.Errorf("Text = %q, err %v", got.Text, got.Err)
		}
	})
	t.Run("neither", func(t *testing.T) {
		req := request(t, box.LevelNone, "my-agent", enginetest.Step{Exit: 0})
		req.Prompt = prompt
		got := engines.Run(t.Context(), req)
		if got.Ended != engines.EndedStartError || got.Fault != nil || got.Err == nil || !strings.Contains(got.Err.Error(), "write {prompt_file} instead of {prompt}") {
			t.Errorf("ended %s, fault %v, err %v", got.Ended, got.Fault, got.Err)
		}
	})
}

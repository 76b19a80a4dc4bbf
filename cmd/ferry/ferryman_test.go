package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/engines"
)

// ferrymans is what a Ferryman with several engines has.
const ferrymans = `agent = "ichabod-grouchly-cline"
# a comment
command = "ferryman-cline"
args = ["{prompt}"]
engines = ["nvidia", "deepseek"]
engine.nvidia.kind = "cli"
engine.nvidia.model = "nvidia/nemotron"
engine.nvidia.env = {"OPENAI_BASE_URL":"https://integrate.api.nvidia.com/v1","OPENAI_API_KEY":"secret:NVIDIA_API_KEY"}
engine.nvidia.key = "secret:NVIDIA_API_KEY"
engine.nvidia.weekly_requests = "400"
engine.deepseek.base_url = "https://api.deepseek.com"
engine.deepseek.model = "deepseek-v4-pro"
engine.deepseek.key = "sk-0123456789abcdef0123456789"
engine.deepseek.paid = "unknown"
engine.spare.model = "x"
engine.nvidia.mystery = "1"
max_engines_per_order = "4"
claim_grace_secs = "60"
busy_cpu_percent = "70"
claim_window = "22:00-06:00"
stall_secs = "0"
timeout_secs = "900"
worktree = "true"
`

func read(t testing.TB, text string) ferryman {
	t.Helper()
	path := filepath.Join(t.TempDir(), configFile)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := readFerryman(path)
	if err != nil && utf8.ValidString(text) {
		t.Fatal(err)
	}
	return f
}

// made is the agent.toml that enable makes of a Ferryman's.
func made(f ferryman) string {
	e := enabling{c: f.c, old: f}
	e.c.Project, e.c.Channel, e.c.ChannelID, e.c.Sandbox = "p", "/c", ferry.RecordID{1}, "auto"
	return e.configText()
}

func TestReadFerryman(t *testing.T) {
	f := read(t, ferrymans)
	if diff := cmp.Diff([]string{"engine.nvidia.mystery", "worktree"}, f.left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	said := strings.Join(f.other, "\n")
	for _, want := range []string{
		"left engine.deepseek.key: it is neither secret:NAME nor env:NAME; write secret:NAME and run `ferry secret set NAME`",
		`left engine.deepseek.paid: "unknown" is none of local`, "left stall_secs: silence always ends a run", "left engine.spare: engines does not name it",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("what is different does not say %q:\n%s", want, said)
		}
	}
	if strings.Contains(said, "0123456789") {
		t.Errorf("a key is shown:\n%s", said)
	}
	text := made(f)
	if strings.Contains(text, "0123456789") {
		t.Errorf("a key is taken over:\n%s", text)
	}
	var c config
	if err := parseConfig(&c, "agent.toml", []byte(text)); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	list, err := c.engineList()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, strings.Join([]string{string(e.Name), string(e.Kind), e.Command, e.Model, e.KeyRef, e.Env["OPENAI_API_KEY"]}, " "))
	}
	want := []string{
		"nvidia cli ferryman-cline nvidia/nemotron secret:NVIDIA_API_KEY secret:NVIDIA_API_KEY", "deepseek http  deepseek-v4-pro  ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("engines (-want +got):\n%s", diff)
	}
	if c.MaxEngines != 4 || c.ClaimGrace.Seconds() != 60 || *c.Governor.BusyCPU != 70 || c.Governor.ClaimWindow.From != 1320 || c.Timeout.Seconds() != 900 {
		t.Errorf("numbers: %+v %+v", c, c.Governor)
	}
}

// FuzzFerryman writes an agent.toml out of any Ferryman's, and reads it: the
// same engines have the same settings, and none of it is a key.
func FuzzFerryman(f *testing.F) {
	f.Add(ferrymans)
	f.Add("engines = \"a.b, c\"\nengine.a.b.command = \"x\\\"y\"\nengine.c.env = {\"A\":\"\\u007f\"}\n")
	f.Add("engine.x = 1\nengine.x.key\n= 3\nengines = [1]\n")
	f.Fuzz(func(t *testing.T, text string) {
		old := read(t, text)
		made := made(old)
		var c config
		if err := parseConfig(&c, "agent.toml", []byte(made)); err != nil {
			t.Fatalf("%v in:\n%s", err, made)
		}
		if diff := cmp.Diff(old.c.Engines, c.Engines); diff != "" && len(old.c.Engines)+len(c.Engines) > 0 {
			t.Fatalf("engines (-want +got):\n%s", diff)
		}
		want, err := old.c.engineList()
		if err != nil {
			t.Fatalf("engines that do not fit: %v in:\n%s", err, made)
		}
		got, err := c.engineList()
		if err != nil {
			t.Fatalf("%v in:\n%s", err, made)
		}
		if diff := cmp.Diff(brief(want), brief(got)); diff != "" {
			t.Errorf("settings (-want +got):\n%s", diff)
		}
	})
}

// brief gives what a table of agent.toml alone decides.
func brief(list []engines.Config) map[ferry.EngineName]string {
	out := map[ferry.EngineName]string{}
	for _, e := range list {
		out[e.Name] = strings.Join([]string{string(e.Kind), e.Command, e.Model, e.BaseURL, e.KeyRef, e.Net, quotedList(e.EffortArgs), quotedTable(e.Env)}, "|")
	}
	return out
}

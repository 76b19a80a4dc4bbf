package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/sign/secret"
)

// parsed reads agent.toml and gives its engines.
func parsed(t *testing.T, text string) []engines.Config {
	t.Helper()
	var c config
	if err := parseConfig(&c, "agent.toml", []byte(text)); err != nil {
		t.Fatalf("%v; %s", err, err.(*configError).next)
	}
	list, err := c.engineList()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// everyKey says every key of an engine, once as a table and once dotted.
const everyKey = `engines = ["x"]
command = "above"
[engine.x]
kind = "cli"
command = "my-cli"
args = ["-m", "{model}", "{prompt}"]
env = { A = "1", B_KEY = "secret:B" }
model = "m"
base_url = "https://api.example.com/v1"
key = "env:K"
provider = "example"
wire = "responses"
tier = "judge"
paid = "prepaid"
probe = "models"
weekly_requests = 400
weekly_usd = 2.5
class = "large"
effort = "high"
effort_args = ["--effort={effort}"]
supports_effort = true
modalities = ["text", "vision"]
strengths = ["docs", "review"]
context_k = 32
cost_per_call_usd = 0
cost_per_mtok_in_usd = 0.5
cost_per_mtok_out_usd = 2
local = false
timeout = "30m"
stall = 90
bypass = false
net = "allow:api.example.com"
`

const everyKeyQuoted = `engines = "x"
command = "above"
engine.x.kind = "cli"
engine.x.command = "my-cli"
engine.x.args = ["-m", "{model}", "{prompt}"]
engine.x.env = '{"A":"1","B_KEY":"secret:B"}'
engine.x.model = "m"
engine.x.base_url = "https://api.example.com/v1"
engine.x.key = "env:K"
engine.x.provider = "example"
engine.x.wire = "responses"
engine.x.tier = "judge"
engine.x.paid = "prepaid"
engine.x.probe = "models"
engine.x.weekly_requests = "400"
engine.x.weekly_usd = "2.5"
engine.x.class = "large"
engine.x.effort = "high"
engine.x.effort_args = ["--effort={effort}"]
engine.x.supports_effort = "true"
engine.x.modalities = "text, vision"
engine.x.strengths = "docs,review"
engine.x.context_k = "32"
engine.x.cost_per_call_usd = "0"
engine.x.cost_per_mtok_in_usd = "0.5"
engine.x.cost_per_mtok_out_usd = "2"
engine.x.local = "false"
engine.x.timeout = "1800"
engine.x.stall = "90s"
engine.x.bypass = "false"
engine.x.net = "allow:api.example.com"
`

func TestEngineKeys(t *testing.T) {
	zero, half, two, k, no := 0.0, 0.5, 2.0, int64(32), false
	want := []engines.Config{{
		Name: "x", Kind: engines.KindCLI, Command: "my-cli", Args: []string{"-m", "{model}", "{prompt}"}, Model: "m",
		BaseURL: "https://api.example.com/v1", Effort: "high", Env: map[string]string{"A": "1", "B_KEY": "secret:B"},
		Timeout: 30 * time.Minute, Stall: 90 * time.Second, Provider: "example", Wire: "responses", KeyRef: "env:K", Probe: "models",
		Tier: engines.TierJudge, Paid: engines.PaidPrepaid, WeeklyRequests: 400, WeeklyUSD: 2.5,
		EffortArgs: []string{"--effort={effort}"}, SupportsEffort: true, Net: "allow:api.example.com",
		Declared: engines.Declared{
			Class: "large", Modalities: []string{"text", "vision"}, Strengths: []string{"docs", "review"}, ContextK: &k,
			CostPerCall: &zero, CostPerMTokIn: &half, CostPerMTokOut: &two, Local: &no,
		},
	}}
	for name, text := range map[string]string{"table": everyKey, "dotted and quoted": everyKeyQuoted} {
		if diff := cmp.Diff(want, parsed(t, text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for _, k := range engineKeys() {
			if !strings.Contains(text, k.name+" =") {
				t.Errorf("%s does not say %s", name, k.name)
			}
		}
	}
}

func TestEngineList(t *testing.T) {
	type brief struct {
		Name                string
		Kind                engines.Kind
		Command, Args, Base string
		Model, Env, Paid    string
		Bypass              bool
	}
	for _, tt := range []struct {
		name, text string
		want       []brief
	}{
		{"none", `command = "codex"` + "\n" + `model = "m"`, []brief{{"codex", "cli", "codex", "", "", "m", "", "", true}}},
		{"empty list", "engines = []\ncommand = \"codex\"", []brief{{"codex", "cli", "codex", "", "", "", "", "", true}}},
		{"order, and what is above", "engines = [\"b\", \"a\"]\ncommand = \"cc\"\nargs = [\"{prompt}\"]\nmodel = \"m\"\nenv = { A = \"1\", B = \"1\" }\nbox.env = [\"X=y\"]\n[engine.a]\nmodel = \"n\"\nenv = { B = \"2\" }\n", []brief{
			{"b", "cli", "cc", "{prompt}", "", "m", "A=1 B=1 X=y", "", true}, {"a", "cli", "cc", "{prompt}", "", "n", "A=1 B=2 X=y", "", true},
		}},
		{"a command of its own takes nothing", "engines = [\"a\"]\ncommand = \"cc\"\nargs = [\"{prompt}\"]\nmodel = \"m\"\nenv = { A = \"1\" }\nbypass = false\n[engine.a]\ncommand = \"pi\"\n", []brief{{"a", "cli", "pi", "", "", "", "", "", false}}},
		{"args for the command above", "engines = [\"a\"]\ncommand = \"cc\"\nargs = [\"{prompt}\"]\n[engine.a]\nargs = [\"-x\", \"{prompt}\"]\n", []brief{{"a", "cli", "cc", "-x {prompt}", "", "", "", "", true}}},
		{"endpoint", "engines = [\"a\"]\ncommand = \"cc\"\nmodel = \"m\"\nenv = { A = \"1\" }\n[engine.a]\nbase_url = \"http://localhost:1234/v1\"\nmodel = \"q\"\n", []brief{{"a", "http", "", "", "http://localhost:1234/v1", "q", "", "local", false}}},
		{"command at an endpoint", "engines = [\"a\"]\ncommand = \"cc\"\n[engine.a]\nkind = \"cli\"\nbase_url = \"https://api.example.com\"\n", []brief{{"a", "cli", "cc", "", "https://api.example.com", "", "", "", true}}},
		{"gateway by its port", "engines = [\"a\"]\n[engine.a]\nbase_url = \"http://localhost:20128/v1\"\nmodel = \"q\"\n", []brief{{"a", "http", "", "", "http://localhost:20128/v1", "q", "", "", false}}},
		{"gateway by its name", "engines = [\"a\"]\n[engine.a]\nprovider = \"omniroute\"\nbase_url = \"http://10.0.0.7/v1\"\nmodel = \"q\"\n", []brief{{"a", "http", "", "", "http://10.0.0.7/v1", "q", "", "", false}}},
		{"said", "engines = [\"a\"]\n[engine.a]\npaid = \"prepaid\"\nbase_url = \"http://localhost:4000/v1\"\nmodel = \"q\"\n", []brief{{"a", "http", "", "", "http://localhost:4000/v1", "q", "", "prepaid", false}}},
		{"name with a dot", "engines = [\"o.free\"]\n[engine.\"o.free\"]\ncommand = \"pi\"\n", []brief{{"o.free", "cli", "pi", "", "", "", "", "", true}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []brief
			for _, e := range parsed(t, tt.text) {
				env := strings.Trim(strings.NewReplacer(`"`, "", " = ", "=", ",", "", "{", "", "}", "").Replace(quotedTable(e.Env)), " ")
				got = append(got, brief{string(e.Name), e.Kind, e.Command, strings.Join(e.Args, " "), e.BaseURL, e.Model, env, string(e.Paid), e.Bypass})
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("engineList() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEngineRefusals(t *testing.T) {
	const key = "sk-or-v1-0123456789abcdef0123456789"
	for _, tt := range []struct{ name, text, want, next string }{
		{"unknown key", "engines = [\"x\"]\n[engine.x]\nmodle = \"m\"\n", "agent.toml:3: engine.x.modle: there is no such key", "`engine.x.model`"},
		{"dotted", "engines = [\"x\"]\nengine.x.base_ulr = \"m\"\n", "agent.toml:2: engine.x.base_ulr", "`engine.x.base_url`"},
		{"key of the file", "engines = [\"x\"]\n[engine.x]\ncommand = \"a\"\nmax_paralel = 2\n", "agent.toml:4: engine.x.max_paralel", "`max_parallel` above [engine.x]"},
		{"key of an engine", "weekly_usd = 5\n", "agent.toml:1: weekly_usd", "`weekly_usd` under [engine.NAME]"},
		{"far from all", "engines = [\"x\"]\n[engine.x]\nzzzzzzzz = 1\n", "engine.x.zzzzzzzz", "the keys of an engine are: kind, command"},
		{"no table", "engine = \"codex\"\n", "agent.toml:1: engine: it is no table", "`command`"},
		{"no table of its own", "engine.x = \"codex\"\n", "agent.toml:1: engine.x: it is no table", "engine.x.model"},
		{"bad name", "[engine.\"A b\"]\n", "A b", ""},
		{"twice", "engines = [\"x\", \"x\"]\ncommand = \"a\"\n", "agent.toml:1: engines: it names x twice", ""},
		{"no table and no command", "engines = [\"x\", \"y\"]\n[engine.x]\ncommand = \"a\"\n", "agent.toml:1: engines: y has no table [engine.y]", "out of the list"},
		{"table that nobody names", "engines = [\"x\"]\ncommand = \"a\"\n[engine.x]\n[engine.y]\nmodel = \"m\"\n", "agent.toml:4: engine.y: engines does not name it", `engines = ["x", "y"]`},
		{"name that is spelled wrong", "engines = [\"nvida\"]\ncommand = \"a\"\n[engine.nvidia]\nmodel = \"m\"\n", "agent.toml:3: engine.nvidia: engines does not name it", "did you mean [engine.nvida]?"},
		{"tables without a list", "[engine.x]\ncommand = \"a\"\n", "agent.toml:1: engine.x: engines does not name it", `engines = ["x"]`},
		{"dotted table without a list", "\nengine.x.model = \"m\"\nengine.x.command = \"a\"\n", "agent.toml:2: engine.x: engines does not name it", ""},
		{"raw key", "engine.x.key = \"" + key + "\"\n", "agent.toml:1: engine.x.key: it is neither secret:NAME nor env:NAME", "`ferry secret set NAME`"},
		{"short raw key", "engine.x.key = \"hunter22\"\n", "neither secret:NAME nor env:NAME", "`ferry secret set NAME`"},
		{"reference to nothing", "engine.x.key = \"secret:\"\n", "neither secret:NAME", ""},
		{"raw key in env", "engine.x.env = { X_API_KEY = \"0123456789abcdef0\" }\n", "agent.toml:1: engine.x.env: the value of X_API_KEY looks like a key", "`ferry secret set NAME`"},
		{"raw key under another name", "env = { X = \"" + key + "\" }\n", "the value of X looks like a key", "`ferry secret set NAME`"},
		{"raw key in a JSON object", "engine.x.env = '{\"X_TOKEN\":\"" + key + "\"}'\n", "the value of X_TOKEN looks like a key", ""},
		{"broken JSON object", "engine.x.env = '{\"X_TOKEN\":\"" + key + "\"'\n", "it is no JSON object", ""},
		{"table in the list", "[engines.x]\nkey = \"" + key + "\"\n", "agent.toml:1: engines: it is a table", "[engine.NAME]"},
		{"kind", "engine.x.kind = \"native2\"\n", `"native2" is none of cli, http`, ""},
		{"modality", "engine.x.modalities = [\"smell\"]\n", `"smell" is none of them`, "audio_in"},
		{"window", "engine.x.context_k = 0\n", "0 is not between 1 and 1000000", ""},
		{"dollars", "engine.x.weekly_usd = \"lots\"\n", `"lots" is no amount`, ""},
		{"no dollars", "engine.x.weekly_usd = 0\n", "0 would let nothing run", ""},
		{"less than nothing", "engine.x.cost_per_call_usd = -1\n", "-1 is not between", ""},
		{"not a number", "engine.x.cost_per_call_usd = nan\n", "is not between", ""},
		{"net", "engine.x.net = \"closed\"\n", `net "closed" is neither`, ""},
		{"engines per order", "max_engines_per_order = 17\n", "17 is not between 1 and 16", ""},
		{"window that is none", "claim_window = \"22-06\"\n", `"22-06" is no span of hours`, `"22:00-06:00"`},
		{"window of no length", "claim_window = \"06:00-06:00\"\n", "begins when it ends", ""},
		{"hour that is none", "claim_window = \"24:00-06:00\"\n", "is no span of hours", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c config
			err := parseConfig(&c, "agent.toml", []byte(tt.text))
			if err == nil {
				_, err = c.engineList()
			}
			var got *configError
			if !errors.As(err, &got) {
				t.Fatalf("got %v, want a configError", err)
			}
			if !strings.Contains(got.Error(), tt.want) || !strings.Contains(got.next, tt.next) {
				t.Errorf("%q, next %q; want %q, next %q", got, got.next, tt.want, tt.next)
			}
			if strings.Contains(got.Error()+got.next, "0123456789") || strings.Contains(got.Error()+got.next, "hunter") {
				t.Errorf("the value is shown: %q, next %q", got, got.next)
			}
		})
	}
}

func TestLooksRaw(t *testing.T) {
	for _, tt := range []struct {
		name, value string
		want        bool
	}{
		{"OPENAI_API_KEY", "ollama", false}, {"OPENAI_API_KEY", "not-needed", false}, {"MAX_TOKENS", "4096", false},
		{"MAX_TOKENS", "12345678901234567890", false}, {"TOKEN_FILE", "/run/secrets/token0123456789", false},
		{"TOKEN_URL", "https://example.com/token/0123456789", false}, {"MODEL", "nvidia/nemotron-3-super-120b-a12b", false},
		{"X_TOKEN", "abcdefghijklmnopqrstuvwxyz", false}, {"X_TOKEN", "abcdef0123456789", true},
		{"X", "ghp_0123456789abcdefghijABCDEFGHIJ012345", true}, {"API_KEY", "", false},
	} {
		if got := looksRaw(tt.name, tt.value); got != tt.want {
			t.Errorf("looksRaw(%s, %s) = %v", tt.name, tt.value, got)
		}
	}
}

// TestSecondAgentChooses reads what a second agent says over the first.
func TestSecondAgentChooses(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "agent.toml"), filepath.Join(dir, "second.toml")
	put(t, first, "engines = [\"a\", \"b\"]\nengine.a.command = \"pi\"\nengine.b.command = \"claude\"\nengine.b.model = \"m\"\n")
	for text, want := range map[string]string{
		"": "a:pi: b:claude:m",
		"engines = [\"b\"]\nengine.b.model = \"n\"\n": "b:claude:n",
		"engines = []\ncommand = \"codex\"\n":         "codex:codex:",
	} {
		put(t, second, text)
		c, err := loadConfig(first, second)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		list, err := c.engineList()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range list {
			got = append(got, string(e.Name)+":"+e.Command+":"+e.Model)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: engines %q, want %q", text, got, want)
		}
	}
	put(t, second, "engines = [\"c\"]\n")
	if _, err := loadConfig(first, second); err == nil || !strings.Contains(err.Error(), "second.toml:1: engines: c has no table") {
		t.Errorf("an engine that nobody describes: %v", err)
	}
}

func TestFill(t *testing.T) {
	sealed := secret.Open(t.TempDir())
	if _, err := sealed.Set("SEALED", "sealed-value", time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	r := references{sealed: sealed, creds: map[string]string{"OLD": "old-value", "SEALED": "not this"}, environ: func(name string) string {
		return map[string]string{"HERE": "here-value"}[name]
	}}
	for _, tt := range []struct {
		name, key string
		kind      engines.Kind
		env       map[string]string
		wantKey   string
		want      map[string]string // credentials
		wrong     string
	}{
		{"nothing", "", "cli", nil, "", map[string]string{"OLD": "old-value", "SEALED": "not this"}, ""},
		{"endpoint", "secret:SEALED", "http", nil, "sealed-value", nil, ""},
		{"from credentials.json", "secret:OLD", "http", nil, "old-value", nil, ""},
		{"from the environment", "env:HERE", "http", nil, "here-value", nil, ""},
		{"variables", "", "cli", map[string]string{"A": "1", "K": "secret:SEALED", "OLD": "env:HERE"}, "",
			map[string]string{"K": "sealed-value", "OLD": "here-value", "SEALED": "not this"}, ""},
		{"no such secret", "secret:GONE", "http", nil, "", nil, "secret GONE is not set on this machine: run `ferry secret set GONE`"},
		{"no such variable", "env:GONE", "http", nil, "", nil, "the variable GONE is not set"},
		{"no such secret in env", "", "cli", map[string]string{"K": "secret:GONE"}, "", nil, "run `ferry secret set GONE`"},
	} {
		c := engines.Config{Name: "x", Kind: tt.kind, KeyRef: tt.key, Env: tt.env}
		m := r.fill(&c)
		if tt.wrong != "" {
			if m == nil || !strings.Contains(m.Error(), tt.wrong) || c.Unusable != m.Error() || c.Check() == nil {
				t.Errorf("%s: fill() = %v, unusable %q; want %q", tt.name, m, c.Unusable, tt.wrong)
			}
			continue
		}
		if m != nil || c.Key != tt.wantKey {
			t.Errorf("%s: fill() = %v, key %q; want key %q", tt.name, m, c.Key, tt.wantKey)
		}
		if diff := cmp.Diff(tt.want, c.Credentials); diff != "" {
			t.Errorf("%s: credentials (-want +got):\n%s", tt.name, diff)
		}
		for name, v := range c.Env {
			if isRef(v) {
				t.Errorf("%s: the engine would get %s = %s", tt.name, name, v)
			}
		}
	}
}

func TestWindow(t *testing.T) {
	for text, want := range map[string]claimWindow{
		"22:00-06:00": {1320, 360, false}, "09:30 - 17:05 UTC": {570, 1025, true},
	} {
		var c config
		if err := setWindow(&c, text); err != nil || *c.Governor.ClaimWindow != want {
			t.Errorf("setWindow(%q) = %v, %v", text, c.Governor.ClaimWindow, err)
		}
	}
	if got := windowText(&claimWindow{570, 1025, true}); got != "09:30-17:05 UTC" {
		t.Errorf("windowText() = %q", got)
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWhere(t *testing.T) {
	var c config
	if err := parseConfig(&c, "a.toml", []byte("command = \"c\"\nengines = [\"x\", \"y\", \"z\"]\n[engine.x]\nmodel = \"m\"\n[engine.y]\nargs = [\"{prompt}\"]\n")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name ferry.EngineName
		key  string
		want int
	}{{"x", "model", 4}, {"x", "base_url", 3}, {"x", "command", 3}, {"y", "args", 6}, {"z", "command", 1}, {"z", "model", 2}} {
		if got := c.at(tt.name, tt.key); got.line != tt.want || got.file != "a.toml" {
			t.Errorf("at(%s, %s) = %v, want line %d", tt.name, tt.key, got, tt.want)
		}
	}
}

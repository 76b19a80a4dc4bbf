package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ferry-fleet/ferry"
)

// noLines leaves out where each key stands.
func noLines() cmp.Option { return cmpopts.IgnoreFields(config{}, "Where") }

func TestParseConfig(t *testing.T) {
	yes, no := true, false
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, text string
		want       config
	}{
		{"empty", "", config{}},
		{"strings", "project = \"a-b\"\nagent = 'wisp-1'\ncommand = \"codex\"\n", config{Project: "a-b", Agent: "wisp-1", Command: "codex"}},
		{"quoted number", "max_parallel = \"3\"\n", config{MaxParallel: 3}},
		{"number", "max_parallel = 3\n", config{MaxParallel: 3}},
		{"quoted boolean", "bypass = \"false\"\n", config{Bypass: &no}},
		{"boolean", "bypass = true\n", config{Bypass: &yes}},
		{"seconds", "timeout = 90\nstall = \"600\"\npoll = \"2s\"\n", config{Timeout: 90 * time.Second, Stall: 10 * time.Minute, Poll: 2 * time.Second}},
		{"box table", "[box]\nnet = \"none\"\nuserns = \"true\"\npids = 64\n", config{Box: boxConfig{Net: "none", Userns: true, Pids: 64}}},
		{"land", "[land]\nremote = \"origin\"\n", config{Land: landConfig{Remote: "origin"}}},
		{"dotted box", "box.net = \"none\"\n", config{Box: boxConfig{Net: "none"}}},
		{"home", "[box]\nlogin = [\"~/.codex/auth.json\"]\n", config{Box: boxConfig{Login: []string{filepath.Join(home, ".codex/auth.json")}}}},
		{"env", "env = { A = \"1\" }\n", config{Env: map[string]string{"A": "1"}}},
		{"env table", "[env]\nA = \"1\"\n", config{Env: map[string]string{"A": "1"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got config
			if err := parseConfig(&got, "agent.toml", []byte(tt.text)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, noLines()); diff != "" {
				t.Errorf("parseConfig() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseConfigRefuses(t *testing.T) {
	tests := []struct{ name, text, want, next string }{
		{"unknown", "\ncomand = \"x\"\n", "agent.toml:2: comand: there is no such key", "`command`"},
		{"unknown in box", "[box]\nnett = \"open\"\n", "agent.toml:2: box.nett: there is no such key", "`box.net`"},
		{"of the box", "memory_mb = 64\n", "agent.toml:1: memory_mb", "under [box]"},
		{"unknown in land", "[land]\nremot = \"x\"\n", "agent.toml:2: land.remot: there is no such key", "`land.remote`"},
		{"far from all", "zzzzzzzz = 1\n", "agent.toml:1: zzzzzzzz", "the keys are: project, agent"},
		{"table", "[engines]\nx = 1\n", "agent.toml:1: engines: it is a table", "[engine.NAME]"},
		{"syntax", "a = 1\nb = [\n", "agent.toml:", "TOML"},
		{"twice", "model = \"a\"\nmodel = \"b\"\n", "agent.toml:", "TOML"},
		{"not a number", "max_parallel = \"two\"\n", `agent.toml:1: max_parallel: "two" is no whole number`, "1 to 64"},
		{"out of range", "max_parallel = 0\n", "0 is not between 1 and 64", "1 to 64"},
		{"not a boolean", "bypass = 1\n", "1 is neither true nor false", "true or false"},
		{"level", "sandbox = \"strict\"\n", `"strict" is none of auto, bwrap, landlock, none`, ""},
		{"relative path", "[box]\nro = [\"lib\"]\n", `box.ro: "lib" is no absolute path`, ""},
		{"whole machine", "[box]\nro = [\"/\"]\n", "agent.toml:2: box.ro: / is too much of the machine", "no more than that"},
		{"system directory", "[box]\nro = [\"/usr/lib\", \"/etc/\"]\n", "box.ro: /etc is too much of the machine", ""},
		{"the home of root", "[box]\nro = [\"/root\"]\n", "box.ro: /root is a home directory", ""},
		{"somebody's home", "[box]\nro = [\"/home/ada\"]\n", "box.ro: /home/ada is a home directory", ""},
		{"one's own home", "[box]\nro = [\"~\"]\n", "home directory", ""},
		{"nothing near in the box", "[box]\nbogus = 1\n", "agent.toml:2: box.bogus: there is no such key", "the keys under [box] are: ro, login"},
		{"of the file", "[box]\nmodell = \"x\"\n", "agent.toml:2: box.modell", "`model` above [box]"},
		{"list of numbers", "args = [1]\n", "1 in the list is no string", ""},
		{"agent", "agent = \"A b\"\n", `agent: agent "A b"`, "a-z"},
		{"short id", "channel_id = \"12\"\n", "channel_id: record id", "64 hex digits"},
		{"too short", "timeout = \"10ms\"\n", "not between 1 second and 30 days", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var c config
			err := parseConfig(&c, "agent.toml", []byte(tt.text))
			var got *configError
			if !errors.As(err, &got) {
				t.Fatalf("parseConfig() = %v, want a configError", err)
			}
			if !strings.Contains(got.Error(), tt.want) || !strings.Contains(got.next, tt.next) {
				t.Errorf("parseConfig() = %q, next %q; want %q, next %q", got, got.next, tt.want, tt.next)
			}
		})
	}
}

// TestEnableConfigIsRead writes agent.toml as enable does and reads it again.
func TestEnableConfigIsRead(t *testing.T) {
	want := config{
		Project: "p", Agent: "wisp", Channel: "/c \"quoted\"", ChannelID: ferry.RecordID{1}, Email: "a@b", Command: "codex",
		Args: []string{"exec", "{prompt}", "tab\there"}, Model: "m", Timeout: 90 * time.Minute, MaxParallel: 2, Sandbox: "bwrap",
		Box: boxConfig{RO: []string{"/opt/x"}, Login: []string{"/l"}, Env: []string{"A", "B=c"}},
	}
	e := enabling{c: want}
	for name, text := range map[string]string{"first": e.configText(), "second": e.secondText()} {
		var got config
		if err := parseConfig(&got, "agent.toml", []byte(text)); err != nil {
			t.Fatalf("%s: %v in:\n%s", name, err, text)
		}
		if name == "second" {
			got.Project, got.Channel, got.ChannelID, got.Email = want.Project, want.Channel, want.ChannelID, want.Email
			got.Timeout, got.MaxParallel = want.Timeout, want.MaxParallel
			want.Env = map[string]string{}
		}
		if diff := cmp.Diff(want, got, noLines()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		want.Env = nil
	}
}

func TestNearest(t *testing.T) {
	names := []string{"status", "version", "log"}
	for s, want := range map[string]string{"stats": "status", "versoin": "version", "lgo": "log", "xyz": "", "frobnicate": "", "lo": "log"} {
		if got, ok := nearest(s, names); ok != (want != "") || ok && got != want {
			t.Errorf("nearest(%q) = %q, %v; want %q", s, got, ok, want)
		}
	}
}

func TestCleanName(t *testing.T) {
	for s, want := range map[string]string{
		"My Repo!": "my-repo", "ada.lovelace": "ada-lovelace", "---": "x", "": "x", "Ünïcode": "n-code", strings.Repeat("a", 90): strings.Repeat("a", 48),
	} {
		if got := cleanName(s, "x"); got != want {
			t.Errorf("cleanName(%q) = %q, want %q", s, got, want)
		}
	}
}

func TestParseDollars(t *testing.T) {
	for s, want := range map[string]int64{"2": 2_000_000, "0.50": 500_000, "$1.000001": 1_000_001, "": 0, "-1": 0, "NaN": 0, "1e9": 0} {
		if got, err := parseDollars(s); got != want || (err == nil) != (want != 0) {
			t.Errorf("parseDollars(%q) = %d, %v; want %d", s, got, err, want)
		}
	}
}

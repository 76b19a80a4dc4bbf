package engines_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/google/go-cmp/cmp"
)

func valid() engines.Config {
	return engines.Config{Name: "codex", Kind: engines.KindCLI, Command: "codex", Bypass: true}
}

func TestConfigCheck(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(*engines.Config)
		want string // part of the error; "" for none
	}{
		{"valid", func(*engines.Config) {}, ""},
		{"name", func(c *engines.Config) { c.Name = "../x" }, "engine ../x: "},
		{"kind", func(c *engines.Config) { c.Kind = "magic" }, `kind "magic" is unknown: use "cli" or "http"`},
		{"no command", func(c *engines.Config) { c.Command = "" }, "command is empty"},
		{"relative command", func(c *engines.Config) { c.Command = "./codex" }, "is a relative path"},
		{"no prompt", func(c *engines.Config) { c.Args = []string{"exec"} }, "neither {prompt} nor {prompt_file}"},
		{"prompt file", func(c *engines.Config) { c.Args = []string{"--file={prompt_file}"} }, ""},
		{"model not set", func(c *engines.Config) { c.Args = []string{"-m", "{model}", "{prompt}"} }, "args hold {model} but model is not set"},
		{"braces that are no placeholder", func(c *engines.Config) { c.Args = []string{"-c", "a={b}", "{prompt}"} }, ""},
		{"secret on argv", func(c *engines.Config) {
			c.Args = []string{"--key=sk-1234567", "{prompt}"}
			c.Credentials = map[string]string{"X_API_KEY": "sk-1234567"}
		}, "args hold the value of X_API_KEY"},
		{"secret of env on argv", func(c *engines.Config) {
			c.Args = []string{"sk-1234567", "{prompt}"}
			c.Env = map[string]string{"X_API_KEY": "sk-1234567"}
		}, "args hold the value of X_API_KEY"},
		{"variable name", func(c *engines.Config) { c.Env = map[string]string{"A=B": "x"} }, "no name of an environment variable"},
		{"NUL", func(c *engines.Config) { c.Env = map[string]string{"A": "x\x00"} }, "NUL"},
		{"pass a secret", func(c *engines.Config) { c.Pass = []string{"OPENAI_API_KEY"} }, "run `ferry secret set OPENAI_API_KEY`"},
		{"negative clock", func(c *engines.Config) { c.Stall = -1 }, "cannot be negative"},
		{"unusable", func(c *engines.Config) { c.Unusable = "secret X is not set" }, "engine codex: secret X is not set"},
		{"key on argv", func(c *engines.Config) {
			c.Args, c.Key, c.KeyRef = []string{"--key=sk-1234567", "{prompt}"}, "sk-1234567", "secret:X"
		}, `env = { NAME = "secret:X" }`},
		{"endpoint of a command", func(c *engines.Config) { c.BaseURL, c.KeyRef = "https://api.example.com/v1", "secret:X" }, ""},
		{"no endpoint", func(c *engines.Config) { c.BaseURL = "api.example.com" }, "base_url is no address"},
		{"endpoint of another kind", func(c *engines.Config) { c.BaseURL = "ftp://x" }, "base_url is no address"},
		{"user in the endpoint", func(c *engines.Config) { c.BaseURL = "https://me:sk-1234567@x/v1" }, "base_url holds a user"},
		{"key in the endpoint", func(c *engines.Config) { c.BaseURL = "https://x/v1?key=sk-1234567" }, "base_url holds a user, a query"},
		{"key in the clear", func(c *engines.Config) { c.BaseURL, c.KeyRef = "http://api.example.com", "env:X" }, "write https://"},
		{"key to this machine", func(c *engines.Config) { c.BaseURL, c.KeyRef = "http://127.0.0.1:20128/v1", "env:X" }, ""},
		{"key of two lines", func(c *engines.Config) { c.Key, c.KeyRef = "sk-1234567\nX: y", "env:X" }, "the value of env:X holds a control character"},
		{"net", func(c *engines.Config) { c.Net = "allow:api.example.com, *.example.com:8443" }, ""},
		{"net of another kind", func(c *engines.Config) { c.Net = "closed" }, `net "closed" is neither`},
		{"net with an address", func(c *engines.Config) { c.Net = "allow:https://x" }, `"https://x" is no host`},
		{"net with nothing", func(c *engines.Config) { c.Net = "allow:" }, `"" is no host`},
	} {
		c := valid()
		tt.set(&c)
		err := c.Check()
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: Check() = %v", tt.name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: Check() = %v, want %q", tt.name, err, tt.want)
		case err != nil && strings.Contains(err.Error(), "sk-1234567"):
			t.Errorf("%s: Check() shows the secret: %v", tt.name, err)
		}
	}
}

// TestHTTPConfigCheck checks what an engine without a command needs, and that the key of agent.toml is named.
func TestHTTPConfigCheck(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(*engines.Config)
		key  string // that is wrong; "" for none
	}{
		{"valid", func(*engines.Config) {}, ""},
		{"no endpoint", func(c *engines.Config) { c.BaseURL = "" }, "base_url"},
		{"no model", func(c *engines.Config) { c.Model = "" }, "model"},
		{"command", func(c *engines.Config) { c.Command = "codex" }, "command"},
		{"args", func(c *engines.Config) { c.Args = []string{"{prompt}"} }, "command"},
		{"env", func(c *engines.Config) { c.Env = map[string]string{"A": "1"} }, "env"},
		{"net", func(c *engines.Config) { c.Net = "x" }, "net"},
		{"kind", func(c *engines.Config) { c.Kind = "" }, "kind"},
	} {
		c := engines.Config{Name: "local", Kind: engines.KindHTTP, BaseURL: "http://localhost:11434/v1", Model: "m"}
		tt.set(&c)
		got := ""
		if m, ok := errors.AsType[*engines.Mistake](c.Check()); ok {
			got = m.Key
		}
		if got != tt.key || (c.Check() == nil) != (tt.key == "") {
			t.Errorf("%s: Check() = %v about %q, want %q", tt.name, c.Check(), got, tt.key)
		}
	}
}

func TestLocalURL(t *testing.T) {
	for base, want := range map[string]bool{
		"http://localhost:1234/v1": true, "http://LOCALHOST./v1": true, "http://127.0.0.1:11434": true, "http://[::1]:80": true,
		"http://192.168.1.4/v1": true, "http://10.0.0.7": true, "http://172.16.3.2": true, "http://172.32.0.1": false,
		"http://100.100.1.1": true, "http://100.128.0.1": false, "http://box.lan:8080": true, "http://nas.local": true,
		"http://[::ffff:127.0.0.1]/": true, "http://[fe80::1]/": true, "http://[fd00::1]/": true,
		"https://api.example.com": false, "https://localhost.example.com": false, "https://notlocal": false, "https://8.8.8.8": false,
		"://": false, "": false,
	} {
		if got := engines.LocalURL(base); got != want {
			t.Errorf("LocalURL(%q) = %v, want %v", base, got, want)
		}
	}
}

func TestSecrets(t *testing.T) {
	c := engines.Config{Key: "k-value", Env: map[string]string{"A_TOKEN": "e-value", "B": "plain"}, Credentials: map[string]string{"C": "c-value"}}
	if d := cmp.Diff([]string{"c-value", "e-value", "k-value"}, c.Secrets()); d != "" {
		t.Errorf("Secrets() (-want +got):\n%s", d)
	}
}

func TestEnviron(t *testing.T) {
	base := []string{
		"PATH=/bin", "LANG=C", "HOME=/home/me", "XDG_CONFIG_HOME=/home/me/.config", "CODEX_HOME=/x", "HTTPS_PROXY=http://proxy:1",
		"OPENAI_API_KEY=k1", "GITHUB_TOKEN=k2", "AWS_SECRET_ACCESS_KEY=k3", "DB_PASSWORD=k4", "SSH_AUTH_SOCK=/s", "LD_PRELOAD=/l",
		"NODE_OPTIONS=--require=/evil", "GIT_DIR=/g", "GOFLAGS=-mod=mod", "MINE=1", "OTHER=2", "IS_SANDBOX=yes", "broken",
	}
	common := []string{"CI=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "HTTPS_PROXY=http://proxy:1", "LANG=C", "PATH=/bin", "TERM=dumb"}
	for _, tt := range []struct {
		name, command string
		set           func(*engines.Config)
		level         box.Level
		more          []string
	}{
		{"box", "my-agent", func(*engines.Config) {}, box.LevelBwrap, nil},
		{"own home", "codex", func(*engines.Config) {}, box.LevelNone, []string{"CODEX_HOME=/x", "HOME=/home/me", "XDG_CONFIG_HOME=/home/me/.config"}},
		{"a home that the box has not", "codex", func(*engines.Config) {}, box.LevelBwrap, nil},
		{"passed", "my-agent", func(c *engines.Config) { c.Pass = []string{"MINE", "GITHUB_TOKEN"} }, box.LevelBwrap, []string{"MINE=1"}},
		{"credentials", "my-agent", func(c *engines.Config) {
			c.Env = map[string]string{"A": "1", "OPENAI_API_KEY": "from env"}
			c.Credentials = map[string]string{"OPENAI_API_KEY": "mine"}
		}, box.LevelBwrap, []string{"A=1", "OPENAI_API_KEY=mine"}},
		{"bypass in a box", "claude", func(*engines.Config) {}, box.LevelBwrap, []string{"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "IS_SANDBOX=1"}},
		{"no bypass", "claude", func(c *engines.Config) { c.Bypass = false }, box.LevelBwrap, []string{"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1"}},
	} {
		c := valid()
		tt.set(&c)
		got := strings.Join(engines.Environ(base, c, engines.ContractOf(tt.command), tt.level), "\n")
		want := map[string]bool{}
		for _, kv := range append(tt.more, common...) {
			want[kv] = true
		}
		for kv := range strings.SplitSeq(got, "\n") {
			if !want[kv] {
				t.Errorf("%s: %q passed", tt.name, kv)
			}
			delete(want, kv)
		}
		for kv := range want {
			t.Errorf("%s: %q is missing", tt.name, kv)
		}
	}
}

func TestInvoke(t *testing.T) {
	const json = "--output-format stream-json --verbose"
	for _, tt := range []struct {
		name, command, args string
		bypass              bool
		level               box.Level
		prompt              string
		want, err           string
		byStdin             bool
	}{
		{name: "codex as enabled", command: "codex", level: box.LevelNone, bypass: true, prompt: "p",
			want: "exec --json --skip-git-repo-check --sandbox workspace-write p"},
		{name: "codex in a box", command: "/opt/codex", level: box.LevelBwrap, bypass: true, prompt: "p",
			want: "exec --dangerously-bypass-approvals-and-sandbox --json --skip-git-repo-check --sandbox workspace-write p"},
		{name: "codex by hand", command: "codex", args: "exec -m {model} {prompt}", level: box.LevelLandlock, prompt: "p",
			want: "exec --json --skip-git-repo-check -m m1 p"},
		{name: "codex of the person's own", command: "codex", args: "review {prompt}", level: box.LevelBwrap, bypass: true, prompt: "p",
			want: "review p"},
		{name: "claude as in the spec", command: "claude", args: "-p {prompt}", level: box.LevelBwrap, bypass: true, prompt: "p",
			want: json + " --dangerously-skip-permissions -p p"},
		{name: "claude outside", command: "claude", args: "-p {prompt}", level: box.LevelNone, bypass: true, prompt: "p",
			want: json + " -p p"},
		{name: "claude with a choice", command: "claude.exe", args: "-p --output-format=text --dangerously-skip-permissions {prompt}", level: box.LevelBwrap, bypass: true, prompt: "p",
			want: "-p --output-format=text --dangerously-skip-permissions p"},
		{name: "pi", command: "pi", level: box.LevelBwrap, bypass: true, prompt: "p", want: "-p --mode json p"},
		{name: "unknown", command: "my-agent", level: box.LevelBwrap, bypass: true, prompt: "p", want: "-p p"},
		{name: "placeholders in the prompt", command: "my-agent", level: box.LevelNone, prompt: "{model} {prompt}", want: "-p {model} {prompt}"},
		{name: "a prompt like a flag", command: "pi", level: box.LevelNone, prompt: "--help", want: "-p --mode json  --help"},
		{name: "a prompt like a file", command: "pi", level: box.LevelNone, prompt: "@/etc/passwd", want: "-p --mode json  @/etc/passwd"},
		{name: "large, codex", command: "codex", args: "exec {prompt}", level: box.LevelNone, prompt: strings.Repeat("x", 200_000),
			want: "exec --json --skip-git-repo-check -", byStdin: true},
		{name: "large, claude", command: "claude", args: "-p {prompt}", level: box.LevelNone, prompt: strings.Repeat("x", 200_000),
			want: json + " -p", byStdin: true},
		{name: "large, unknown", command: "my-agent", level: box.LevelNone, prompt: strings.Repeat("x", 200_000), err: "write {prompt_file} instead"},
		{name: "large, twice", command: "pi", args: "{prompt} --x={prompt}", level: box.LevelNone, prompt: strings.Repeat("x", 200_000), err: "more than once"},
		{name: "file", command: "my-agent", args: "-f {prompt_file}", level: box.LevelNone, prompt: "p", want: "-f /run/prompt.md"},
		{name: "NUL", command: "my-agent", level: box.LevelNone, prompt: "a\x00b", err: "NUL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := engines.Config{Command: tt.command, Args: strings.Fields(tt.args), Model: "m1", Bypass: tt.bypass}
			before := strings.Join(c.Args, " ")
			got, err := engines.ContractOf(tt.command).Invoke(c, engines.Prompt{Text: tt.prompt, File: "/run/prompt.md"}, tt.level)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("err %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, strings.Join(got.Args, " ")); d != "" {
				t.Errorf("args (-want +got):\n%s", d)
			}
			if got.ByStdin != tt.byStdin || (got.Stdin == tt.prompt) != tt.byStdin {
				t.Errorf("by stdin %v with %d bytes, want %v", got.ByStdin, len(got.Stdin), tt.byStdin)
			}
			if now := strings.Join(c.Args, " "); now != before {
				t.Errorf("the args of the config became %q", now)
			}
		})
	}
}

func TestContracts(t *testing.T) {
	for _, k := range engines.Contracts() {
		c := engines.Config{Name: "e1", Kind: engines.KindCLI, Command: k.Name}
		if err := c.Check(); err != nil {
			t.Errorf("%s: what enable writes is refused: %v", k.Name, err)
		}
		if !k.Known() || len(k.Login) == 0 {
			t.Errorf("%s: known %v, login %v", k.Name, k.Known(), k.Login)
		}
		for _, f := range k.Login {
			if !filepath.IsLocal(f) {
				t.Errorf("%s: login file %q is not relative to the home directory", k.Name, f)
			}
		}
	}
	if k := engines.ContractOf("/usr/bin/my-agent"); k.Known() || !strings.Contains(k.Warning, "my-agent is not a CLI that ferry knows") {
		t.Errorf("the unknown command is told as %q", k.Warning)
	}
}

// TestResolve lays out a command the way npm does.
func TestResolve(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := func(name, to string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	script := write("lib/node_modules/@a/cli/bin/cli.js", "#!/usr/bin/env -S node --x\n", 0o700)
	link("bin/cli", "../lib/node_modules/@a/cli/bin/cli.js")
	node := write("versions/20/bin/node", "\x7fELF", 0o700)
	link("bin/node", node)
	native := write("opt/native", "\x7fELF", 0o700)
	link("bin/native", native)
	write("bin/plain", "#!/bin/sh\n", 0o700)
	write("bin/orphan", "#!/usr/bin/env no-such-interpreter\n", 0o700)
	write("bin/wsl.exe", "MZ", 0o700)
	noexec := write("opt/noexec", "#!/bin/sh\n", 0o600)
	path := filepath.Join(dir, "bin")
	modules := filepath.Join(dir, "lib/node_modules")
	for _, tt := range []struct {
		command string
		want    engines.Installed
		err     string
	}{
		{"cli", engines.Installed{Path: script, Interpreter: node, Dirs: []string{modules, node}, PathDirs: []string{filepath.Dir(node)}}, ""},
		{filepath.Join(path, "native"), engines.Installed{Path: native, Dirs: []string{native}}, ""},
		{"plain", engines.Installed{Path: filepath.Join(path, "plain"), Interpreter: mustReal(t, "/bin/sh"), Dirs: []string{filepath.Join(path, "plain")}}, ""},
		{"orphan", engines.Installed{}, "script for no-such-interpreter"},
		{"absent", engines.Installed{}, "is it installed and on PATH?"},
		{"/no/such/file", engines.Installed{}, "no such file"},
		{noexec, engines.Installed{}, "is not executable"},
		{dir, engines.Installed{}, "is no regular file"},
		{"wsl.exe", engines.Installed{}, "is a Windows program"},
	} {
		got, err := engines.Resolve(tt.command, path)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("Resolve(%s) err %v, want %q", tt.command, err, tt.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("Resolve(%s): %v", tt.command, err)
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("Resolve(%s) (-want +got):\n%s", tt.command, d)
		}
	}
}

func mustReal(t *testing.T, path string) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return real
}

func TestVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "v")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho v 1.2.3 >&2\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	in, err := engines.Resolve(path, "")
	if err != nil {
		t.Fatal(err)
	}
	got, err := in.Version(t.Context(), []string{"PATH=/usr/bin:/bin"})
	if err != nil || got != "v 1.2.3" {
		t.Errorf("Version() = %q, %v", got, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, k := range engines.Contracts() {
		seeds, err := filepath.Glob(filepath.Join("testdata", k.Name, "*.jsonl"))
		if err != nil || len(seeds) == 0 {
			f.Fatalf("no recordings of %s: %v", k.Name, err)
		}
		for _, path := range seeds {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(k.Name, data)
		}
	}
	f.Add("my-agent", []byte("text"))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		p := engines.ContractOf(name).Parse(data)
		if p.Usage.TokensIn < 0 || p.Usage.TokensOut < 0 || p.Usage.CostMicroUSD < 0 {
			t.Errorf("usage %+v", p.Usage)
		}
		if p.Answered && p.Failure != nil {
			t.Error("answered and failed")
		}
		engines.Classify(engines.Observed{Ended: engines.EndedExited, Parsed: p, Known: true, Now: testNow})
	})
}

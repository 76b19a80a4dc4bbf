package engines_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/engines"
)

// cli and ask are engines of which nothing is known but a name and a model.
func cli(command, model string) engines.Config {
	return engines.Config{Name: "e", Kind: engines.KindCLI, Command: command, Model: model}
}

func ask(base, model string) engines.Config {
	return engines.Config{Name: "e", Kind: engines.KindHTTP, BaseURL: base, Model: model}
}

const far = "https://models.example.com/v1"

func with(c engines.Config, set func(*engines.Config)) engines.Config {
	set(&c)
	return c
}

func TestModalitiesGuessed(t *testing.T) {
	only := func(s ...string) []string { return s }
	for _, tt := range []struct {
		name string
		c    engines.Config
		want []string
	}{
		{"cli edits files", cli("my-agent", "m"), only("text", "code")},
		{"native edits files", engines.Config{Name: "e", Kind: engines.KindNative, Model: "m"}, only("text", "code")},
		{"http answers in text", ask(far, "m"), only("text")},
		{"vl", ask(far, "qwen2.5-vl-72b-instruct"), only("text", "vision")},
		{"vl behind a digit", ask(far, "Qwen2VL-7B"), only("text", "vision")},
		{"vl behind letters", ask(far, "internvl2-8b"), only("text", "vision")},
		{"vllm is a server", with(ask(far, "m"), func(c *engines.Config) { c.Name = "vllm" }), only("text")},
		{"vision", ask(far, "llama-3.2-90b-vision"), only("text", "vision")},
		{"provision is another word", cli("provisioner", "m"), only("text", "code")},
		{"llava", ask(far, "bakllava:7b"), only("text", "vision")},
		{"vl on a cli", cli("my-agent", "qwen2.5-vl-7b"), only("text", "code", "vision")},
		{"claude cli sees", cli("claude", ""), only("text", "code", "vision")},
		{"claude by path", cli("/opt/bin/claude.exe", ""), only("text", "code", "vision")},
		{"claude model on another cli", cli("my-agent", "claude-sonnet-5"), only("text", "code", "vision")},
		{"gemini cli sees", cli("gemini", ""), only("text", "code", "vision")},
		{"gpt-4o cli sees", cli("my-agent", "gpt-4o-mini"), only("text", "code", "vision")},
		{"gpt-4.1 cli sees", cli("my-agent", "gpt-4.1"), only("text", "code", "vision")},
		{"gpt-5 cli sees", cli("codex", "gpt-5.4"), only("text", "code", "vision")},
		{"gpt-4 is not of them", cli("my-agent", "gpt-4-turbo"), only("text", "code")},
		{"claude http is not assumed", ask(far, "claude-sonnet-5"), only("text")},
		{"gemini http is not assumed", ask(far, "gemini-3.7-flash"), only("text")},
		{"gpt-5 http is not assumed", ask(far, "gpt-5.4"), only("text")},
		{"whisper", cli("whisper-cli", "whisper-large-v3"), only("audio_in")},
		{"whisper in a word", cli("whisperx", ""), only("audio_in")},
		{"tts", ask(far, "gpt-4o-mini-tts"), only("audio_out")},
		{"watts are not tts", cli("watts", "m"), only("text", "code")},
		{"kokoro", cli("say", "kokoro-82m"), only("audio_out")},
		{"piper", cli("piper-say", "piper-en-us"), only("audio_out")},
		{"flux", cli("run-comfy-workflow", "flux-dev"), only("image")},
		{"influx is another word", cli("influx", "m"), only("text", "code")},
		{"sdxl", cli("draw", "sdxl-turbo"), only("image")},
		{"stable-diffusion", cli("draw", "stable_diffusion-3"), only("image")},
		{"comfyui", cli("comfyui", ""), only("image")},
		{"wan", cli("film", "wan2.1-t2v-14b"), only("video")},
		{"taiwan is another word", ask(far, "taiwan-llm"), only("text")},
		{"hunyuan-video", cli("film", "hunyuan-video"), only("video")},
		{"ltx", cli("film", "ltx-video"), only("video")},
		{"embed", ask(far, "nomic-embed-text"), only("embed")},
		{"embedding", ask(far, "text-embedding-3-large"), only("embed")},
		{"embedded is another word", cli("embedded-builder", "m"), only("text", "code")},
		{"media and a family that sees", cli("claude", "whisper-large"), only("audio_in")},
		{"two media", cli("whisper-piper", ""), only("audio_in", "audio_out")},
		{"the engine's name counts", with(cli("run", ""), func(c *engines.Config) { c.Name = "flux" }), only("image")},
		{"a directory does not", cli("/opt/whisper/bin/run", ""), only("text", "code")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := engines.ProfileOf(tt.c)
			if diff := cmp.Diff(tt.want, p.Modalities); diff != "" {
				t.Errorf("modalities (-want +got):\n%s", diff)
			}
			if p.From.Modalities.Declared || p.From.Modalities.Rule == "" {
				t.Errorf("source = %+v, want the rule that guessed", p.From.Modalities)
			}
		})
	}
}

func TestStrengthsGuessed(t *testing.T) {
	only := func(s ...string) []string { return s }
	for _, tt := range []struct {
		model string
		want  []string
	}{
		{"qwen2.5-coder:7b", only("code")},
		{"codestral-2508", only("code")},
		{"devstral-small-2512", only("code")},
		{"codellama-34b", only("code")},
		{"gpt-5.3-codex", only("code")},
		{"t5-encoder", nil},
		{"deepseek-reasoner", only("reasoning")},
		{"us.deepseek.r1-v1:0", only("reasoning")},
		{"r10", nil},
		{"o1-preview", only("reasoning")},
		{"o3", only("reasoning")},
		{"qwq:32b", only("reasoning")},
		{"kimi-k2-thinking", only("reasoning")},
		{"qwen2.5-math-7b", only("math")},
		{"mathstral", only("math")},
		{"aftermath", nil},
		{"nllb-200", only("translation")},
		{"translation-large", only("translation")},
		{"plain", nil},
		{"plain-128k", nil},
		{"plain-200k", only("long-context")},
		{"plain-1m", only("long-context")},
		{"qwen3-coder-thinking-256k", only("code", "reasoning", "long-context")},
	} {
		p := engines.ProfileOf(ask(far, tt.model))
		if diff := cmp.Diff(tt.want, p.Strengths); diff != "" {
			t.Errorf("strengths of %s (-want +got):\n%s", tt.model, diff)
		}
		if (p.From.Strengths.Rule == "") != (len(tt.want) == 0) {
			t.Errorf("source of %s = %+v", tt.model, p.From.Strengths)
		}
	}
}

func TestContextGuessed(t *testing.T) {
	for _, tt := range []struct {
		name string
		c    engines.Config
		want int64
	}{
		{"-128k", ask(far, "phi-3-mini-128k-instruct"), 128},
		{"-1m", ask(far, "qwen2.5-14b-instruct-1m"), 1000},
		{"-1M in capitals", ask(far, "Qwen2.5-7B-1M"), 1000},
		{"[1m]", cli("claude", "sonnet[1m]"), 1000},
		{"in the engine's name", with(cli("a", "m"), func(c *engines.Config) { c.Name = "big-200k" }), 200},
		{"the model's goes first", with(cli("a", "m-32k"), func(c *engines.Config) { c.Name = "big-200k" }), 32},
		{"-135m are parameters", ask(far, "smollm2-135m"), 0},
		{"parameters before a window", ask(far, "smollm2-135m-8k"), 8},
		{"8k without a dash", ask(far, "k8k"), 0},
		{"a voice's sampling rate", cli("say", "piper-22k"), 0},
		{"no number", ask(far, "m"), 0},
		{"a number of something else", ask(far, "llama-70b"), 0},
		{"the vendor that is asked", ask("https://api.deepseek.com", "deepseek-v4-pro"), 1000},
		{"the provider that is named", with(ask(far, "deepseek-v4-pro"), func(c *engines.Config) { c.Provider = "deepseek" }), 1000},
		{"the same model elsewhere", ask(far, "deepseek-v4-pro"), 0},
		{"the same model here", ask("http://localhost:11434/v1", "deepseek-v4-pro"), 0},
		{"a model of a CLI", cli("claude", "claude-sonnet-5"), 0},
		{"a model behind a gateway", ask("http://localhost:20128/v1", "deepseek/deepseek-v4-pro"), 0},
	} {
		p := engines.ProfileOf(tt.c)
		if p.ContextK != tt.want {
			t.Errorf("%s: context = %d k, want %d", tt.name, p.ContextK, tt.want)
		}
		if (p.From.ContextK.Rule == "") != (tt.want == 0) {
			t.Errorf("%s: source = %+v", tt.name, p.From.ContextK)
		}
	}
}

func TestClassGuessed(t *testing.T) {
	for model, want := range map[string]string{
		"claude-haiku-4-5": "small", "gpt-5-mini": "small", "gpt-5-nano": "small", "mistral-small": "small",
		"gemini-3.5-flash-lite": "small", "qwen2.5-coder:7b": "small", "llama-3.2-1b": "small", "qwen2.5-1.5b": "small",
		"smollm2-135m": "small", "deepseek-r1:7b": "small", "mistral-small-24b": "small", "nemotron-nano-30b-a3b": "small",

		"claude-opus-5": "large", "gemini-2.5-pro": "large", "nemotron-ultra": "large", "mistral-large": "large",
		"deepseek-reasoner": "large", "deepseek-r1": "large", "llama-3.3-70b": "large", "llama-3.1-405b": "large",
		"qwen3.8-2.4t-a95b": "large", "kimi-1t": "large",

		"claude-sonnet-5": "medium", "gemini-3.7-flash": "medium", "deepseek-chat": "medium", "qwen3-32b": "medium",
		"nvidia/nemotron-3-super-120b-a12b": "medium", "nvidia/nemotron-3-ultra-550b-a55b": "medium",
		"minimax-m2": "medium", "gemini": "medium", "gemma-10b": "medium", "llama-69b": "medium", "": "medium",
		"q4-8bit": "medium", "phi-128k": "medium", "qwen-1m": "medium", "proto": "medium",
	} {
		if p := engines.ProfileOf(ask(far, model)); p.Class != want || p.From.Class.Rule == "" {
			t.Errorf("class of %q = %s (%+v), want %s", model, p.Class, p.From.Class, want)
		}
	}
	named := cli("claude", "")
	named.Name = "claude-haiku"
	if got := engines.ProfileOf(named).Class; got != engines.SizeSmall {
		t.Errorf("an engine without a model is sized by its name: %s", got)
	}
	named.Model = "my-finetune"
	if got := engines.ProfileOf(named).Class; got != engines.SizeMedium {
		t.Errorf("an engine with a model is sized by it: %s", got)
	}
}

func TestLocalGuessed(t *testing.T) {
	paid := func(c engines.Config, p engines.Paid) engines.Config { c.Paid = p; return c }
	env := func(c engines.Config, kv ...string) engines.Config { c.Env = map[string]string{kv[0]: kv[1]}; return c }
	for _, tt := range []struct {
		name string
		c    engines.Config
		want bool
	}{
		{"localhost", ask("http://localhost:1234/v1", "m"), true},
		{".local", ask("http://box.local/v1", "m"), true},
		{".lan", ask("http://box.lan/v1", "m"), true},
		{"loopback", ask("http://127.0.0.1:1/v1", "m"), true},
		{"loopback of 6", ask("http://[::1]:1/v1", "m"), true},
		{"private 10/8", ask("http://10.1.2.3/v1", "m"), true},
		{"private 172.16/12", ask("http://172.31.2.3/v1", "m"), true},
		{"beyond 172.16/12", ask("http://172.32.2.3/v1", "m"), false},
		{"private 192.168/16", ask("http://192.168.2.3/v1", "m"), true},
		{"link-local", ask("http://169.254.2.3/v1", "m"), true},
		{"Tailscale", ask("http://100.100.2.3/v1", "m"), true},
		{"beyond Tailscale", ask("http://100.128.2.3/v1", "m"), false},
		{"an address elsewhere", ask(far, "m"), false},
		{"localhost in front of another name", ask("https://localhost.example.com/v1", "m"), false},
		{"paid local elsewhere", paid(ask(far, "m"), engines.PaidLocal), true},
		{"prepaid here is a proxy", paid(ask("http://localhost:4000/v1", "m"), engines.PaidPrepaid), false},
		{"a subscription here", paid(ask("http://localhost:4000/v1", "m"), engines.PaidSubscription), false},
		{"a free tier here", paid(ask("http://localhost:4000/v1", "m"), engines.PaidFree), false},
		{"a gateway by its port", ask("http://localhost:20128/v1", "m"), false},
		{"a gateway by its provider", with(ask("http://localhost:9/v1", "m"), func(c *engines.Config) { c.Provider = "litellm" }), false},
		{"a gateway that is paid local", paid(ask("http://localhost:20128/v1", "m"), engines.PaidLocal), true},
		{"media CLI without endpoint", cli("whisper-cli", ""), true},
		{"media CLI that is paid for", paid(cli("whisper-cli", ""), engines.PaidPrepaid), false},
		{"media CLI with an endpoint", with(cli("tts", ""), func(c *engines.Config) { c.BaseURL = far }), false},
		{"media CLI with a key", env(cli("tts", ""), "OPENAI_API_KEY", "k-123456"), false},
		{"media CLI by what is declared", with(cli("draw", ""), func(c *engines.Config) { c.Declared.Modalities = []string{"image"} }), true},
		{"no media CLI by what is declared", with(cli("whisper", ""), func(c *engines.Config) { c.Declared.Modalities = []string{"text", "code"} }), false},
		{"claude calls out", cli("claude", ""), false},
		{"codex calls out", cli("codex", ""), false},
		{"agent CLI on a local endpoint", with(cli("my-agent", "m"), func(c *engines.Config) { c.BaseURL = "http://localhost:1/v1" }), true},
		{"agent CLI pointed here", env(cli("my-agent", "m"), "OPENAI_BASE_URL", "http://localhost:1/v1"), true},
		{"agent CLI pointed elsewhere", env(cli("my-agent", "m"), "OPENAI_BASE_URL", far), false},
		{"agent CLI that is probed here and pointed elsewhere", with(env(cli("my-agent", "m"), "OPENAI_BASE_URL", far),
			func(c *engines.Config) { c.BaseURL = "http://localhost:1/v1" }), false},
	} {
		if p := engines.ProfileOf(tt.c); p.Local != tt.want || p.From.Local.Rule == "" {
			t.Errorf("%s: local = %t (%+v), want %t", tt.name, p.Local, p.From.Local, tt.want)
		}
	}
}

func ptr[T any](v T) *T { return &v }

// What is declared is taken as it was written, and nothing else changes.
func TestDeclaredWinsFieldByField(t *testing.T) {
	guessed := ask("http://localhost:1234/v1", "qwen2.5-vl-72b-coder-256k")
	before := engines.ProfileOf(guessed)
	for _, tt := range []struct {
		name string
		d    engines.Declared
		want func(*engines.Profile)
	}{
		{"nothing", engines.Declared{}, func(*engines.Profile) {}},
		{"modalities replace", engines.Declared{Modalities: []string{"image"}}, func(p *engines.Profile) {
			p.Modalities, p.From.Modalities = []string{"image"}, engines.Source{Declared: true}
		}},
		{"no modalities", engines.Declared{Modalities: []string{}}, func(p *engines.Profile) {
			p.Modalities, p.From.Modalities = []string{}, engines.Source{Declared: true}
		}},
		{"strengths replace", engines.Declared{Strengths: []string{"docs"}}, func(p *engines.Profile) {
			p.Strengths, p.From.Strengths = []string{"docs"}, engines.Source{Declared: true}
		}},
		{"context, and what follows from it", engines.Declared{ContextK: ptr(int64(32))}, func(p *engines.Profile) {
			p.ContextK, p.From.ContextK = 32, engines.Source{Declared: true}
			p.Strengths = []string{"code"}
			p.From.Strengths.Rule = "coder, codestral, devstral, codellama or codex in the name"
		}},
		{"class", engines.Declared{Class: "small"}, func(p *engines.Profile) {
			p.Class, p.From.Class = "small", engines.Source{Declared: true}
		}},
		{"local, and what follows from it", engines.Declared{Local: ptr(false)}, func(p *engines.Profile) {
			p.Local, p.From.Local = false, engines.Source{Declared: true}
			p.Price = engines.Price{Source: engines.PriceUnknown}
		}},
		{"a price", engines.Declared{CostPerMTokOut: ptr(2.5)}, func(p *engines.Profile) {
			p.Price = engines.Price{PerMTokOut: 2_500_000, Known: true, Source: "declared, the rest local"}
		}},
	} {
		c, want := guessed, before
		c.Declared = tt.d
		tt.want(&want)
		if diff := cmp.Diff(want, engines.ProfileOf(c)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestDeclaredCodeNeedsHands(t *testing.T) {
	d := engines.Declared{Modalities: []string{"text", "code", "vision"}}
	for kind, want := range map[engines.Kind][]string{
		engines.KindHTTP: {"text", "vision"}, engines.KindCLI: {"text", "code", "vision"}, engines.KindNative: {"text", "code", "vision"},
	} {
		p := engines.ProfileOf(engines.Config{Name: "e", Kind: kind, Model: "m", Declared: d})
		if diff := cmp.Diff(want, p.Modalities); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
		if !p.From.Modalities.Declared || (p.From.Modalities.Rule != "") != (kind == engines.KindHTTP) {
			t.Errorf("%s: source = %+v, want declared, with a word about what was dropped", kind, p.From.Modalities)
		}
	}
	if len(d.Modalities) != 3 {
		t.Errorf("the settings were changed: %v", d.Modalities)
	}
}

// Whatever names there are, a profile can be made and says where it is from.
func FuzzProfileOf(f *testing.F) {
	f.Add("nvidia", "nvidia/nemotron-3-super-120b-a12b", "codex", far, "prepaid")
	f.Add("x", "anthropic/claude-opus-4-5@20251101", "", "http://[::1]:20128", "")
	f.Add("-99999m", "99999.999t-a99999b[9999k]", "whisper", "://", "free-tier")
	f.Fuzz(func(t *testing.T, name, model, command, base, paid string) {
		for _, kind := range []engines.Kind{engines.KindCLI, engines.KindHTTP} {
			c := engines.Config{Name: ferry.EngineName(name), Kind: kind, Model: model, Command: command, BaseURL: base, Paid: engines.Paid(paid)}
			p := engines.ProfileOf(c)
			if len(p.Modalities) == 0 || p.ContextK < 0 || p.Class == "" || p.Price.Source == "" || p.From.Local.Rule == "" {
				t.Errorf("%+v", p)
			}
			if q := engines.CapPrice(c); !q.Known || q.PerMTokIn < 0 {
				t.Errorf("cap price %+v", q)
			}
		}
	})
}

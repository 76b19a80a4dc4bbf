package engines

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry"
)

// Kind says how an engine is reached.
type Kind string

// The kinds of engines.
const (
	KindCLI    Kind = "cli"    // a command that takes a prompt
	KindHTTP   Kind = "http"   // a model behind an endpoint: one answer in text
	KindNative Kind = "native" // the built-in agent on such a model
)

// Tier is the work that an engine is for.
type Tier string

// The tiers. Work climbs, and never goes down: a chore engine never builds.
const (
	TierJudge Tier = "judge" // plans and reviews
	TierBuild Tier = "build"
	TierChore Tier = "chore"
)

// Paid says who pays for a run.
type Paid string

// The ways to pay. The empty one is unknown.
const (
	PaidLocal        Paid = "local"
	PaidFree         Paid = "free-tier"
	PaidPrepaid      Paid = "prepaid"
	PaidSubscription Paid = "subscription"
)

// Config is one engine of an agent, as agent.toml and credentials.json say it.
type Config struct {
	Name    ferry.EngineName
	Kind    Kind
	Command string   // a name on PATH or an absolute path
	Args    []string // with placeholders; empty means those of the command's contract
	Model   string
	BaseURL string
	Effort  string
	Env     map[string]string // set for the engine as it is
	Pass    []string          // names let through from the worker's environment
	// Credentials are set for the engine and never shown.
	Credentials map[string]string
	// Bypass allows the contract's approval bypass inside a box.
	Bypass  bool
	Timeout time.Duration
	Stall   time.Duration

	// Provider is the vendor or gateway behind BaseURL, where it has ways of its own: "deepseek", "openrouter", "omniroute",
	// "anthropic"; empty is told from BaseURL.
	Provider string
	// Wire is how the endpoint is spoken to: "chat", "responses" or "anthropic"; empty is told from Provider.
	Wire string
	// Key is the value of the endpoint's key, never shown; KeyRef is where it comes from: "secret:NAME" or "env:NAME".
	Key    string
	KeyRef string
	// Probe is "chat", "models", or empty for what the kind takes.
	Probe string
	Tier  Tier // empty means build
	Paid  Paid
	// WeeklyRequests and WeeklyUSD are what may be used from one Monday 00:00 UTC to the next; 0 means no limit.
	WeeklyRequests int64
	WeeklyUSD      float64
	// EffortArgs are added to the args of a run that was given an effort, with {effort} in them.
	EffortArgs     []string
	SupportsEffort bool // the endpoint takes a reasoning effort
	// Declared is what the person said of what the engine can do and costs; what was not said is guessed.
	Declared Declared
	// Net is what a run may reach: "open", "none", "allow" for the hosts that the engine is known to need, or "allow:" with
	// hosts; empty is that of the request's box.
	Net string
	// Unusable says why the engine cannot run on this machine, as when a secret is not set; empty when nothing is known.
	Unusable string
}

// Mistake is what is wrong with one key of an engine's settings.
type Mistake struct {
	Key string // as agent.toml calls it
	Err error
}

// Error gives what is wrong and what to write instead.
func (m *Mistake) Error() string { return m.Err.Error() }

// Unwrap gives the cause.
func (m *Mistake) Unwrap() error { return m.Err }

func mistake(key, format string, args ...any) error {
	return &Mistake{Key: key, Err: fmt.Errorf(format, args...)}
}

// Declared is what agent.toml says of an engine's capabilities. A nil field was not said.
type Declared struct {
	Class          string // "small", "medium" or "large"; empty was not said
	Modalities     []string
	Strengths      []string
	ContextK       *int64 // thousands of tokens
	CostPerCall    *float64
	CostPerMTokIn  *float64 // US dollars for a million tokens
	CostPerMTokOut *float64
	Local          *bool
}

// secretNames is what marks a variable as secret by its name alone.
var secretNames = []string{"API_KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSPHRASE", "CREDENTIAL", "PRIVATE_KEY", "ACCESS_KEY"}

// SecretName reports whether a variable of this name is taken for a secret.
func SecretName(name string) bool {
	up := strings.ToUpper(name)
	return slices.ContainsFunc(secretNames, func(s string) bool { return strings.Contains(up, s) })
}

// Placeholders are what args may hold; each is replaced once per occurrence.
var Placeholders = []string{"{prompt}", "{prompt_file}", "{model}", "{base_url}", "{effort}"}

var placeholder = regexp.MustCompile(`\{[a-z][a-z0-9_]*\}`)

// minSecret is the length from which an argument equal to a credential is taken
// for the credential; shorter values are too likely an ordinary word.
const minSecret = 6

// Check reports what is wrong with c and what to write instead. It looks at
// values alone: whether the command exists is for Resolve.
func (c Config) Check() error {
	if err := c.check(); err != nil {
		return fmt.Errorf("engine %s: %w", c.Name, err)
	}
	return nil
}

func (c Config) check() error {
	if _, err := ferry.ParseEngineName(string(c.Name)); err != nil {
		return err
	}
	if c.Unusable != "" {
		return errors.New(c.Unusable)
	}
	if err := c.checkKind(); err != nil {
		return err
	}
	if c.Timeout < 0 || c.Stall < 0 {
		return mistake("timeout", "timeout and stall cannot be negative")
	}
	if err := c.checkEndpoint(); err != nil {
		return err
	}
	if err := CheckNet(c.Net); err != nil {
		return &Mistake{Key: "net", Err: err}
	}
	return c.checkEnv()
}

func (c Config) checkKind() error {
	switch c.Kind {
	case KindCLI:
		return c.checkCommand()
	case KindHTTP:
		if c.Command != "" || len(c.Args) > 0 || len(c.EffortArgs) > 0 {
			return mistake("command", "an engine of kind %q runs no command: take command, args and effort_args out, or write kind = %q", KindHTTP, KindCLI)
		}
		if len(c.Env) > 0 {
			return mistake("env", "an engine of kind %q runs no command that env could be set for: take it out; its key is key = \"secret:NAME\"", KindHTTP)
		}
		if c.BaseURL == "" {
			return mistake("base_url", `base_url is empty: name the endpoint, for example base_url = "http://localhost:11434/v1"`)
		}
		if c.Model == "" {
			return mistake("model", `model is empty: name the model that the endpoint is asked for`)
		}
		return nil
	}
	return mistake("kind", "kind %q is unknown: use %q or %q", c.Kind, KindCLI, KindHTTP)
}

func (c Config) checkCommand() error {
	if c.Command == "" {
		return mistake("command", `command is empty: name the agent CLI, for example command = "codex"`)
	}
	if strings.Contains(c.Command, "/") && !filepath.IsAbs(c.Command) {
		return mistake("command", "command %q is a relative path: write a name on PATH or an absolute path", c.Command)
	}
	return c.checkArgs()
}

// maxURL bounds base_url.
const maxURL = 2048

// checkEndpoint looks at what a probe or an http engine sends a key to.
func (c Config) checkEndpoint() error {
	if strings.ContainsFunc(c.Key, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return mistake("key", "the value of %s holds a control character, which no header can", c.KeyRef)
	}
	if c.BaseURL == "" {
		return nil
	}
	u, err := url.Parse(c.BaseURL)
	if err != nil || len(c.BaseURL) > maxURL || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return mistake("base_url", `base_url is no address of an endpoint: write it like "https://api.example.com/v1"`)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return mistake("base_url", "base_url holds a user, a query or a fragment: write the address alone, and the key as key = \"secret:NAME\"")
	}
	if u.Scheme == "http" && c.KeyRef != "" && !LocalURL(c.BaseURL) {
		return mistake("base_url", "base_url begins with http:// and there is a key: everybody on the way could read it; write https://")
	}
	return nil
}

// LocalURL reports whether an endpoint lies on this machine or in its private network: nothing that is sent there leaves it.
func LocalURL(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".local") || strings.HasSuffix(host, ".lan") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	ip = ip.Unmap()
	return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || sharedSpace.Contains(ip)
}

// sharedSpace is what carriers and Tailscale give to machines behind them.
var sharedSpace = netip.MustParsePrefix("100.64.0.0/10")

// The forms of Config.Net.
const (
	NetOpen  = "open"
	NetNone  = "none"
	NetAllow = "allow" // alone, or with a colon and hosts behind it
)

var netHost = regexp.MustCompile(`^(\*\.)?[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*(:[1-9][0-9]{0,4})?$`)

// maxNetHosts bounds the hosts of one engine.
const maxNetHosts = 64

// CheckNet checks the grammar of a net setting.
func CheckNet(s string) error {
	switch s {
	case "", NetOpen, NetNone, NetAllow:
		return nil
	}
	list, ok := strings.CutPrefix(s, NetAllow+":")
	if !ok {
		return fmt.Errorf(`net %q is neither "open" nor "none" nor "allow:host,host"`, cut(s, 60))
	}
	hosts := strings.Split(list, ",")
	if len(hosts) > maxNetHosts {
		return fmt.Errorf("net names %d hosts, the limit is %d", len(hosts), maxNetHosts)
	}
	for _, h := range hosts {
		if h = strings.TrimSpace(h); len(h) > 253 || !netHost.MatchString(h) {
			return fmt.Errorf(`net: %q is no host: write it like api.example.com, *.example.com or example.com:8443`, cut(h, 60))
		}
	}
	return nil
}

func (c Config) checkArgs() error {
	args := c.Args
	if len(args) == 0 {
		args = ContractOf(c.Command).Args
	}
	prompt := false
	for _, a := range args {
		if strings.ContainsRune(a, 0) {
			return mistake("args", "an argument holds a NUL byte")
		}
		for _, p := range placeholder.FindAllString(a, -1) {
			prompt = prompt || p == "{prompt}" || p == "{prompt_file}"
		}
		if len(c.Key) >= minSecret && strings.Contains(a, c.Key) {
			return mistake("args", "args hold the key: every process on the machine can read a command line; give it to the engine as a variable, env = { NAME = %q }", c.KeyRef)
		}
		for name, v := range c.secrets() {
			if len(v) >= minSecret && strings.Contains(a, v) {
				return mistake("args", "args hold the value of %s: every process on the machine can read a command line; the engine gets the value as the variable %s", name, name)
			}
		}
		if err := c.checkFilled(a); err != nil {
			return err
		}
	}
	if !prompt {
		return mistake("args", "args hold neither {prompt} nor {prompt_file}: the engine would never see the order")
	}
	return nil
}

// checkFilled reports a placeholder that this engine has no value for.
func (c Config) checkFilled(arg string) error {
	for name, value := range map[string]string{"model": c.Model, "base_url": c.BaseURL, "effort": c.Effort} {
		if value == "" && strings.Contains(arg, "{"+name+"}") {
			return mistake("args", "args hold {%s} but %s is not set", name, name)
		}
	}
	return nil
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (c Config) checkEnv() error {
	for _, m := range []map[string]string{c.Env, c.Credentials} {
		for name, value := range m {
			if !envName.MatchString(name) {
				return mistake("env", "%q is no name of an environment variable", name)
			}
			if strings.ContainsRune(value, 0) {
				return mistake("env", "the value of %s holds a NUL byte", name)
			}
		}
	}
	for _, name := range c.Pass {
		if !envName.MatchString(name) {
			return fmt.Errorf("%q is no name of an environment variable", name)
		}
		if SecretName(name) {
			return fmt.Errorf("%s looks like a secret and is not passed through: write env = { %s = \"secret:%s\" } and run `ferry secret set %s`", name, name, name, name)
		}
	}
	return nil
}

// secrets gives the values that must never be shown, by variable.
func (c Config) secrets() map[string]string {
	out := make(map[string]string, len(c.Credentials))
	for k, v := range c.Env {
		if SecretName(k) {
			out[k] = v
		}
	}
	for k, v := range c.Credentials {
		out[k] = v
	}
	return out
}

// Secrets returns the values that a redactor must know before the engine runs.
func (c Config) Secrets() []string {
	out := []string{c.Key}
	if c.Key == "" {
		out = nil
	}
	for _, v := range c.secrets() {
		if v != "" {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

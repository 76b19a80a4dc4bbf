package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"
)

// Policy is what a run may reach, and at what cost.
type Policy struct {
	Allow  []Entry
	Routes []Route
	Limits Limits
	// Resolve looks a name up; nil asks the system's name servers.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Roots verifies the endpoints of routes; nil takes the system's authorities.
	Roots *x509.CertPool
	// Log, where it is set, hears of the first decision of each kind, while the run lasts. It is called by
	// several goroutines.
	Log func(Decision)
}

// Limits bound one run; 0 takes the default, which is in parentheses.
type Limits struct {
	Conns int           // at the same time (64)
	Bytes int64         // in all, in each direction (4 GiB)
	Body  int64         // of one plain request (64 MiB)
	Hello time.Duration // until a tunnel's TLS has begun (15 s)
	Idle  time.Duration // without a byte in either direction (30 min)
}

func (l Limits) withDefaults() Limits {
	fill(&l.Conns, 64)
	fill(&l.Bytes, 4<<30)
	fill(&l.Body, 64<<20)
	fill(&l.Hello, 15*time.Second)
	fill(&l.Idle, 30*time.Minute)
	return l
}

func fill[T int | int64 | time.Duration](v *T, value T) {
	if *v <= 0 {
		*v = value
	}
}

// Route is an endpoint to which the proxy speaks in the name of the run: requests to Base inside go to Upstream, with
// TLS where that says https, and with the key in the place of the word that the run has for it.
type Route struct {
	Name     string // of the engine
	Upstream string // the endpoint's base URL
	Key      string // empty for an endpoint without one
	// Rules are the requests that are passed on; empty takes APIRules.
	Rules []Rule
	// MaxRequests ends the route for this run; 0 is no limit.
	MaxRequests int64
}

// Rule allows a method on a path below the upstream's base URL. Path is a pattern as in package path: a star stands for
// one part.
type Rule struct{ Method, Path string }

// APIRules are what engines ask of a model's endpoint: answers, counts of tokens and lists of models. Files, batches,
// keys and accounts are not among them.
func APIRules() []Rule {
	rules := []Rule{
		{http.MethodPost, "/v1beta/models/*"}, {http.MethodGet, "/v1beta/models"}, {http.MethodGet, "/v1beta/models/*"},
	}
	for _, prefix := range []string{"", "/v1"} {
		for _, post := range []string{"/chat/completions", "/completions", "/responses", "/messages", "/messages/count_tokens"} {
			rules = append(rules, Rule{http.MethodPost, prefix + post})
		}
		for _, get := range []string{"/models", "/models/*", "/models/*/*"} {
			rules = append(rules, Rule{http.MethodGet, prefix + get})
		}
	}
	return rules
}

func allows(rules []Rule, method, target string) bool {
	for _, r := range rules {
		if ok, err := path.Match(r.Path, target); ok && err == nil && r.Method == method {
			return true
		}
	}
	return false
}

var routeName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// check returns the upstream of r and what it allows to dial.
func (r Route) check() (*url.URL, Entry, error) {
	if !routeName.MatchString(r.Name) {
		return nil, Entry{}, errors.New("a route needs the name of its engine, in lower case")
	}
	u, err := url.Parse(r.Upstream)
	if err != nil { // its text may hold a password
		return nil, Entry{}, errors.New("the base URL cannot be read")
	}
	port, ok := map[string]uint16{"http": 80, "https": 443}[u.Scheme]
	if !ok || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.RawPath != "" {
		return nil, Entry{}, errors.New("the base URL is not of the form https://host/path")
	}
	t, err := ParseTarget(u.Host, port)
	if err != nil {
		return nil, Entry{}, fmt.Errorf("base URL: %w", err)
	}
	u.Path = strings.TrimRight(u.Path, "/")
	for _, rule := range r.Rules {
		if _, err := path.Match(rule.Path, "/"); err != nil {
			return nil, Entry{}, fmt.Errorf("rule %s: %w", shown(rule.Path), err)
		}
	}
	if strings.ContainsAny(r.Key, "\r\n\x00") || r.Key != strings.TrimSpace(r.Key) {
		return nil, Entry{}, errors.New("the key has a space, a line end or a NUL at an end or in it")
	}
	// An address, this machine, or a written port is a place that was meant.
	explicit := t.addr.IsValid() || u.Port() != "" || t.Host == "localhost"
	return u, Entry{Host: t.Host, Port: t.Port, Explicit: explicit, addr: t.addr}, nil
}

// KnownHosts are the hosts that a known agent CLI needs for its model and its login, by the name of its command; nil
// for a command that is not known. Reports of use and of crashes have hosts of their own, which are not here.
func KnownHosts(command string) []string {
	return map[string][]string{
		"claude":  {"api.anthropic.com", "claude.ai", "console.anthropic.com", "platform.claude.com"},
		"codex":   {"api.openai.com", "auth.openai.com", "chatgpt.com"},
		"copilot": {"api.github.com", "api.githubcopilot.com", "api.individual.githubcopilot.com", "api.business.githubcopilot.com", "api.enterprise.githubcopilot.com"},
		"gemini":  {"accounts.google.com", "cloudcode-pa.googleapis.com", "generativelanguage.googleapis.com", "oauth2.googleapis.com"},
		"grok":    {"api.x.ai"},
		"kimi":    {"api.kimi.com", "api.moonshot.ai"},
		"vibe":    {"api.mistral.ai"},
	}[command]
}

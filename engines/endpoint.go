package engines

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ferry-fleet/ferry/internal/provider"
)

// The providers that have ways of their own.
const (
	ProviderDeepSeek   = "deepseek"
	ProviderOpenRouter = "openrouter"
	ProviderOmniRoute  = "omniroute"
	ProviderAnthropic  = "anthropic"
)

// omniPort is where the OmniRoute gateway listens if nobody has said otherwise.
const omniPort = "20128"

// Vendor returns the provider behind the engine's endpoint: the one that the
// settings name, else the one whose address it is, else "".
func (c Config) Vendor() string {
	if c.Provider != "" {
		return c.Provider
	}
	u, err := url.Parse(c.BaseURL)
	if err != nil {
		return ""
	}
	if u.Port() == omniPort {
		return ProviderOmniRoute
	}
	host := "." + strings.ToLower(u.Hostname())
	for _, of := range [][2]string{{".deepseek.com", ProviderDeepSeek}, {".openrouter.ai", ProviderOpenRouter}, {".anthropic.com", ProviderAnthropic}} {
		if strings.HasSuffix(host, of[0]) {
			return of[1]
		}
	}
	return ""
}

// wire returns how the endpoint is spoken to.
func (c Config) wire() string {
	switch {
	case c.Wire != "":
		return c.Wire
	case c.Vendor() == ProviderAnthropic:
		return provider.WireAnthropic
	}
	return provider.WireChat
}

// keyHint says what a person does about the key of an endpoint that refused it.
func (c Config) keyHint() string {
	if c.Kind == KindCLI {
		return ""
	}
	name, secret := strings.CutPrefix(c.KeyRef, "secret:")
	switch {
	case secret:
		return "run `ferry secret set " + name + "` with a key that it takes"
	case c.KeyRef != "":
		return "set " + strings.TrimPrefix(c.KeyRef, "env:") + " to a key that it takes"
	}
	return `name its key in agent.toml: key = "secret:NAME"`
}

// free reports whether the model costs nothing by its name.
func (c Config) free() bool { return strings.HasSuffix(c.Model, ":free") }

// reach makes the client of the engine's endpoint on a wire. With clocks that are
// 0 it takes those of package provider.
func (c Config) reach(h *http.Client, wire string, clocks provider.Clocks, now func() time.Time) (*provider.Client, error) {
	pc := provider.Config{
		Wire: wire, BaseURL: c.BaseURL, Key: c.Key, AllowHTTP: LocalURL(c.BaseURL), HTTP: h, Clocks: clocks, Now: now,
	}
	if c.Vendor() == ProviderOmniRoute {
		pc.CostHeader = "X-OmniRoute-Response-Cost"
	}
	return provider.New(pc)
}

package engines

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/ferry-fleet/ferry/internal/box"
	"github.com/ferry-fleet/ferry/internal/egress"
)

// outlet is how a run reaches the network: the engine as its box gets to see it,
// and the proxy between the two where net is a list of hosts.
type outlet struct {
	engine Config
	net    box.Net       // empty is that of the request's box
	proxy  *egress.Proxy // nil where net is no list
}

// outlet opens the way out of a run. Close ends it.
func (r *run) outlet(ctx context.Context) (*outlet, error) {
	c, k := r.Engine, r.Contract
	o := &outlet{engine: c}
	switch c.Net {
	case "":
		return o, nil
	case NetOpen, NetNone:
		o.net = box.Net(c.Net)
		return o, nil
	}
	// An endpoint of the worker's environment is one of the settings.
	if v := variable(r.Environ, k.api.variable); v != "" && c.Env[k.api.variable] == "" {
		c.Env = maps.Clone(c.Env)
		if c.Env == nil {
			c.Env = map[string]string{}
		}
		c.Env[k.api.variable] = v
	}
	policy, err := c.policy(k)
	if err == nil {
		o.proxy, err = egress.Start(ctx, policy)
	}
	if err != nil {
		return nil, fmt.Errorf("net of engine %s: %w", c.Name, err)
	}
	for _, route := range policy.Routes {
		o.engine = c.through(k, o.proxy, route)
	}
	return o, nil
}

// attach gives spec the network of the run.
func (o *outlet) attach(spec box.Spec) box.Spec {
	switch {
	case o.proxy != nil:
		return o.proxy.Attach(spec)
	case o.net != "":
		spec.Net = o.net
	}
	return spec
}

// Close ends every connection of the run.
func (o *outlet) Close() error {
	if o.proxy == nil {
		return nil
	}
	return o.proxy.Close()
}

// account puts what the proxy decided into the reply and the log.
func (r *run) account(o *outlet) {
	if o.proxy == nil {
		return
	}
	for _, d := range o.proxy.Decisions() {
		d.Host = r.Redact.String(d.Host)
		r.reply.Net = append(r.reply.Net, d)
		r.out.note("net: " + d.String())
	}
}

// policy is what an engine with a list of hosts may reach: the list, or what its
// CLI is known to need, and its endpoint, by a route where the key is known.
func (c Config) policy(k Contract) (egress.Policy, error) {
	var p egress.Policy
	words, listed := strings.CutPrefix(c.Net, NetAllow+":")
	if !listed {
		words = strings.Join(egress.KnownHosts(k.Name), ",")
	}
	base, key := c.behind(k)
	if u, err := url.Parse(c.BaseURL); base == "" && err == nil && u.Host != "" {
		words = strings.TrimPrefix(words+","+u.Host, ",") // with a key that the box must hold
	}
	if words != "" {
		var err error
		if p.Allow, err = egress.ParseList(words); err != nil {
			return p, err
		}
	}
	if base == k.api.base && base != "" && listed && !names(p.Allow, base) {
		base = "" // the person's list does not hold the CLI's own endpoint
	}
	if base != "" {
		p.Routes = []egress.Route{{Name: strings.ToLower(string(c.Name)), Upstream: base, Key: key}}
	}
	if len(p.Allow) == 0 && base == "" {
		return p, fmt.Errorf(`net is "allow", and which hosts %s needs is not known: name them, net = "allow:api.example.com"`, c.Command)
	}
	return p, nil
}

// names reports whether entries hold the host of base.
func names(entries []egress.Entry, base string) bool {
	u, err := url.Parse(base)
	return err == nil && slices.ContainsFunc(entries, func(e egress.Entry) bool { return !e.Wild && e.Host == u.Hostname() })
}

// behind tells the one base URL that an engine's settings name and the one key
// for it; "" where they name none or several.
func (c Config) behind(k Contract) (base, key string) {
	bases, keys := []string{c.BaseURL}, []string{c.Key}
	for name, value := range c.Env {
		if strings.HasSuffix(name, "_BASE_URL") || strings.HasSuffix(name, "_API_BASE") {
			bases = append(bases, value)
		}
	}
	for _, value := range c.secrets() {
		keys = append(keys, value)
	}
	bases, keys = distinct(bases), distinct(keys)
	if len(bases) == 0 && c.Credentials[k.api.key] != "" {
		return k.api.base, c.Credentials[k.api.key]
	}
	if len(bases) != 1 || len(keys) > 1 {
		return "", ""
	}
	if len(keys) == 1 {
		key = keys[0]
	}
	return bases[0], key
}

// distinct returns what is not empty, once each.
func distinct(words []string) []string {
	slices.Sort(words)
	return slices.DeleteFunc(slices.Compact(words), func(s string) bool { return s == "" })
}

// variable returns the value of a name in environ.
func variable(environ []string, name string) string {
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok && name != "" {
			return v
		}
	}
	return ""
}

// through returns c with the route in the place of its endpoint, and the run's
// word in the place of the key.
func (c Config) through(k Contract, p *egress.Proxy, r egress.Route) Config {
	base, word, _ := p.Base(r.Name)
	swap := func(m map[string]string) map[string]string {
		out := maps.Clone(m)
		for name, value := range out {
			switch {
			case value == r.Upstream:
				out[name] = base
			case r.Key != "" && value == r.Key:
				out[name] = word
			}
		}
		return out
	}
	c.Env, c.Credentials = swap(c.Env), swap(c.Credentials)
	switch {
	case c.BaseURL == r.Upstream:
		c.BaseURL = base
	case r.Upstream == k.api.base && c.Credentials != nil:
		c.Credentials[k.api.variable] = base
	}
	if c.Key = ""; r.Key != "" {
		c.Key = word
	}
	return c
}

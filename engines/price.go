package engines

import (
	"math"
	"math/bits"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"charm.land/catwalk/pkg/catwalk"
	"charm.land/catwalk/pkg/embedded"

	"github.com/ferry-fleet/ferry"
)

// Price is what an engine costs, in millionths of a US dollar.
type Price struct {
	PerCall    int64 `json:"per_call_micro_usd"`
	PerMTokIn  int64 `json:"per_mtok_in_micro_usd"` // for a million tokens
	PerMTokOut int64 `json:"per_mtok_out_micro_usd"`
	// Known is false where nobody has said the price. Then it is not zero: the numbers are 0 and mean nothing.
	Known bool `json:"known"`
	// Source says where the price comes from: "declared", the list with its date, the rule that makes it zero, or "unknown".
	Source string `json:"source"`
}

// The sources of a price. listSource is the date of the list's version in go.mod.
const (
	PriceDeclared = "declared"
	PriceUnknown  = "unknown"
	PriceAssumed  = "assumed"
	listSource    = "catwalk 2026-08-19"
)

// assumed is the list price of a frontier model, which an engine without a price
// is taken to cost wherever money is held back: so a declared price always beats
// a missing one.
func assumed() Price {
	return Price{PerMTokIn: 5e6, PerMTokOut: 25e6, Known: true, Source: PriceAssumed}
}

// priceOf gives what one more run of the engine costs: what is declared, else
// nothing where it is not paid for by the run, else the list's price.
func priceOf(c Config, local bool) Price {
	p := guessedPrice(c, local)
	d := c.Declared
	if d.CostPerCall == nil && d.CostPerMTokIn == nil && d.CostPerMTokOut == nil {
		return p
	}
	source := PriceDeclared
	if !p.Known {
		// Half a price is no price: the half that is missing is not free. A
		// price for each call alone is a whole one.
		p = Price{}
		if d.CostPerMTokIn != nil || d.CostPerMTokOut != nil {
			p = assumed()
		}
	}
	if p.Known && (d.CostPerMTokIn == nil || d.CostPerMTokOut == nil) {
		source += ", the rest " + p.Source
	}
	for _, f := range []struct {
		said *float64
		to   *int64
	}{{d.CostPerCall, &p.PerCall}, {d.CostPerMTokIn, &p.PerMTokIn}, {d.CostPerMTokOut, &p.PerMTokOut}} {
		if f.said != nil {
			*f.to = micro(*f.said)
		}
	}
	p.Known, p.Source = true, source
	return p
}

// guessedPrice asks who pays before it asks what it costs: a plan or a free tier
// has no price for a run, whatever the list says of its model.
func guessedPrice(c Config, local bool) Price {
	switch {
	case c.Paid == PaidLocal, c.Paid == PaidFree, c.Paid == PaidSubscription:
		return Price{Known: true, Source: "paid = " + string(c.Paid)}
	case c.Paid == "" && local:
		return Price{Known: true, Source: "local"}
	case c.Paid == "" && c.free():
		return Price{Known: true, Source: "a :free model"}
	}
	return listPrice(c)
}

// listPrice gives the price of the list, or an unknown one.
func listPrice(c Config) Price {
	m, _, ok := listed(c)
	// The list writes 0 for what it has no price of, as the models of plans.
	if !ok || m.CostPer1MIn == 0 && m.CostPer1MOut == 0 && !c.free() {
		return Price{Source: PriceUnknown}
	}
	return Price{PerMTokIn: micro(m.CostPer1MIn), PerMTokOut: micro(m.CostPer1MOut), Known: true, Source: listSource}
}

// CapPrice gives the price that an engine's runs are held against its caps with.
// It is always known: what has no price counts as a frontier model. A
// subscription, whose runs cost nothing, counts at its list price, and without
// one only where its own cap in money asks for it.
func CapPrice(c Config) Price {
	p := ProfileOf(c).Price
	if c.Paid == PaidSubscription && !strings.HasPrefix(p.Source, PriceDeclared) {
		if list := listPrice(c); list.Known || c.WeeklyUSD > 0 {
			p = list
		}
	}
	if !p.Known {
		return assumed()
	}
	return p
}

// micro converts dollars. What is above 0 stays above 0.
func micro(dollars float64) int64 {
	if !(dollars > 0) {
		return 0
	}
	return max(1, int64(math.Round(min(dollars, 1e6)*1e6)))
}

// The words for Usage.CostSource.
const (
	CostFromEngine = "engine"
	CostFromPrices = "prices"
)

// Cost gives what a use cost, and where the number comes from. What the engine
// or its gateway says of it wins over the list price; a use that nobody priced
// has no cost and no source.
func Cost(u ferry.Usage, p Price) (microUSD int64, source string) {
	if u.CostSource == CostFromEngine {
		return inBounds(u.CostMicroUSD), CostFromEngine
	}
	if !p.Known {
		return 0, ""
	}
	calls := inBounds(u.Requests)
	if calls == 0 && max(u.TokensIn, u.TokensOut) > 0 {
		calls = 1
	}
	sum := inBounds(scaled(calls, p.PerCall, 1) + scaled(u.TokensIn, p.PerMTokIn, 1e6))
	return inBounds(sum + scaled(u.TokensOut, p.PerMTokOut, 1e6)), CostFromPrices
}

// mostMicro bounds every amount, so that a sum of two is never negative.
const mostMicro = 1 << 53

func inBounds(n int64) int64 { return min(max(n, 0), mostMicro) }

// scaled gives n*price/per, rounded up, at most mostMicro.
func scaled(n, price, per int64) int64 {
	hi, lo := bits.Mul64(uint64(inBounds(n)), uint64(inBounds(price)))
	lo, carry := bits.Add64(lo, uint64(per)-1, 0)
	hi += carry
	if hi >= uint64(per) {
		return mostMicro
	}
	q, _ := bits.Div64(hi, lo, uint64(per))
	return int64(min(q, mostMicro))
}

// modelLists are the models that the list knows, by the provider that serves them. It
// is read once, when a price is first asked for.
var modelLists = sync.OnceValue(embedded.GetAll)

// makers sell the models that they make, each under names of its own.
var makers = []catwalk.InferenceProvider{
	catwalk.InferenceProviderAnthropic, catwalk.InferenceProviderOpenAI, catwalk.InferenceProviderGemini,
	catwalk.InferenceProviderXAI, catwalk.InferenceProviderDeepSeek, catwalk.InferenceProviderMoonshot,
	catwalk.InferenceProviderMiniMax, catwalk.InferenceProviderZAI, catwalk.InferenceProviderAlibabaSingapore,
}

// ownHosts are the addresses that the list leaves to a variable.
var ownHosts = map[string]catwalk.InferenceProvider{
	"api.anthropic.com":                 catwalk.InferenceProviderAnthropic,
	"api.openai.com":                    catwalk.InferenceProviderOpenAI,
	"generativelanguage.googleapis.com": catwalk.InferenceProviderGemini,
}

// prefixes are how a maker is written in front of a model, where that is not the
// list's word for it.
var prefixes = map[string]catwalk.InferenceProvider{
	"google": catwalk.InferenceProviderGemini, "x-ai": catwalk.InferenceProviderXAI, "deepseek-ai": catwalk.InferenceProviderDeepSeek,
	"moonshotai": catwalk.InferenceProviderMoonshot, "minimaxai": catwalk.InferenceProviderMiniMax,
	"z-ai": catwalk.InferenceProviderZAI, "zai-org": catwalk.InferenceProviderZAI, "qwen": catwalk.InferenceProviderAlibabaSingapore,
}

// commands are the CLIs that ask their maker unless they are told otherwise.
var commands = map[string]catwalk.InferenceProvider{
	"claude": catwalk.InferenceProviderAnthropic, "codex": catwalk.InferenceProviderOpenAI, "gemini": catwalk.InferenceProviderGemini,
}

func providerList(id catwalk.InferenceProvider) (catwalk.Provider, bool) {
	all := modelLists()
	i := slices.IndexFunc(all, func(p catwalk.Provider) bool { return p.ID == id })
	if i < 0 {
		return catwalk.Provider{}, false
	}
	return all[i], true
}

// listed finds the model of an engine in the list of whom its requests go to.
// direct reports that the settings name that provider as the engine's endpoint.
// Another provider's entry of the same model is no answer: it has another price
// and often another window. A model that stands in no such list is not found,
// however much its name is like one that does.
func listed(c Config) (m catwalk.Model, direct, ok bool) {
	if c.Model == "" {
		return catwalk.Model{}, false, false
	}
	at := c.endpoints()
	if !c.gateway() {
		p, known := providerList(catwalk.InferenceProvider(c.Provider))
		if !known && len(at) == 1 {
			p, known = providerAt(at[0])
		}
		if known {
			m, ok = find(p, c.Model)
			return m, true, ok
		}
		if len(at) > 1 || len(at) == 1 && !LocalURL(at[0]) {
			return catwalk.Model{}, false, false
		}
	}
	m, ok = passedOn(c)
	return m, false, ok
}

// passedOn finds the model of an engine that asks its maker, by itself or
// through a gateway.
func passedOn(c Config) (catwalk.Model, bool) {
	if of, rest, cut := strings.Cut(strings.ToLower(c.Model), "/"); cut {
		id, known := prefixes[of]
		if !known {
			id = catwalk.InferenceProvider(of)
		}
		p, ok := providerList(id)
		if !ok {
			return catwalk.Model{}, false
		}
		return find(p, rest)
	}
	ids := makers
	if id, known := commands[commandName(c.Command)]; known && len(c.endpoints()) == 0 {
		ids = []catwalk.InferenceProvider{id}
	}
	for _, id := range ids {
		if p, ok := providerList(id); ok {
			if m, ok := find(p, c.Model); ok {
				return m, true
			}
		}
	}
	return catwalk.Model{}, false
}

// providerAt finds the provider whose endpoint an address is, or is below.
func providerAt(base string) (best catwalk.Provider, ok bool) {
	u, err := url.Parse(base)
	if err != nil {
		return best, false
	}
	host, path, longest := strings.ToLower(u.Hostname()), u.Path+"/", -1
	if id, own := ownHosts[host]; own {
		return providerList(id)
	}
	for _, p := range modelLists() {
		e, err := url.Parse(p.APIEndpoint)
		if err != nil || e.Host == "" || strings.ToLower(e.Hostname()) != host {
			continue
		}
		// An address without the version at its end is the same one.
		dir := strings.TrimSuffix(strings.TrimSuffix(e.Path, "/"), "/v1") + "/"
		if strings.HasPrefix(path, dir) && len(dir) > longest {
			best, longest, ok = p, len(dir), true
		}
	}
	return best, ok
}

// dated is the day at the end of a model's name.
var dated = regexp.MustCompile(`[-@](?:20[0-9]{6}|20[0-9]{2}-[0-9]{2}-[0-9]{2})$`)

// find looks for a model by its name, then by its name without the provider's
// own prefix and without a day. Where several days have several prices, none is
// taken.
func find(p catwalk.Provider, model string) (catwalk.Model, bool) {
	id := strings.ToLower(model)
	for _, m := range p.Models {
		if strings.ToLower(m.ID) == id {
			return m, true
		}
	}
	if of, rest, cut := strings.Cut(id, "/"); cut && (of == string(p.ID) || prefixes[of] == p.ID) {
		id = rest
	}
	id = dated.ReplaceAllString(id, "")
	var out []catwalk.Model
	for _, m := range p.Models {
		if dated.ReplaceAllString(strings.ToLower(m.ID), "") == id {
			out = append(out, m)
		}
	}
	if len(out) == 0 {
		return catwalk.Model{}, false
	}
	for _, m := range out[1:] {
		if m.CostPer1MIn != out[0].CostPer1MIn || m.CostPer1MOut != out[0].CostPer1MOut {
			return catwalk.Model{}, false
		}
	}
	return out[0], true
}

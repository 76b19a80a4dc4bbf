package engines_test

import (
	"math"
	"os"
	"strings"
	"testing"

	"charm.land/catwalk/pkg/embedded"
	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/engines"
)

const list = "catwalk 2026-08-19"

// The date in the source is that of the list in go.mod.
func TestPriceListIsTheOneInGoMod(t *testing.T) {
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	// v0.52.1 was made on 19 August 2026. Whoever takes another version writes its date.
	if !strings.Contains(string(mod), "charm.land/catwalk v0.52.1\n") {
		t.Errorf("go.mod has another list than the one of %s: correct the date in price.go and here", list)
	}
}

func dollars(in, out float64) engines.Price {
	return engines.Price{PerMTokIn: int64(math.Round(in * 1e6)), PerMTokOut: int64(math.Round(out * 1e6)), Known: true, Source: list}
}

func zero(source string) engines.Price { return engines.Price{Known: true, Source: source} }

// The prices of these are as in the list of the version in go.mod.
func TestPrices(t *testing.T) {
	none := engines.Price{Source: engines.PriceUnknown}
	paid := func(c engines.Config, p engines.Paid) engines.Config { c.Paid = p; return c }
	provider := func(c engines.Config, p string) engines.Config { c.Provider = p; return c }
	for _, tt := range []struct {
		name string
		c    engines.Config
		want engines.Price
	}{
		{"paid local", paid(ask(far, "gpt-5.4"), engines.PaidLocal), zero("paid = local")},
		{"paid free-tier", paid(ask("https://api.openai.com/v1", "gpt-5.4"), engines.PaidFree), zero("paid = free-tier")},
		{"paid subscription", paid(cli("claude", "claude-sonnet-5"), engines.PaidSubscription), zero("paid = subscription")},
		{"local by its address", ask("http://localhost:1/v1", "gpt-5.4"), zero("local")},
		{"a free model", ask("https://openrouter.ai/api/v1", "qwen/some:free"), zero("a :free model")},
		{"a free model of a gateway", ask("http://localhost:20128/v1", "nvidia/nemotron-70b:free"), zero("a :free model")},
		{"a free model that is prepaid, in the list", paid(ask("https://openrouter.ai/api/v1", "openai/gpt-oss-20b:free"), engines.PaidPrepaid), zero(list)},
		{"a free model that is prepaid, in no list", paid(ask(far, "x:free"), engines.PaidPrepaid), none},
		{"prepaid and unknown is not zero", paid(ask(far, "m"), engines.PaidPrepaid), none},
		{"nobody said who pays", cli("my-agent", "m"), none},
		{"no model", cli("claude", ""), none},

		{"by its address", ask("https://api.deepseek.com", "deepseek-v4-pro"), dollars(0.435, 0.87)},
		{"with the version", ask("https://api.deepseek.com/v1", "deepseek-v4-pro"), dollars(0.435, 0.87)},
		{"an address with a port", ask("https://api.deepseek.com:443/v1/", "deepseek-v4-pro"), dollars(0.435, 0.87)},
		{"by an address of its own", ask("https://api.anthropic.com", "claude-sonnet-5"), dollars(2, 10)},
		{"by its provider", provider(ask(far, "deepseek-v4-pro"), "deepseek"), dollars(0.435, 0.87)},
		{"in capitals", ask("https://api.deepseek.com", "DeepSeek-V4-Pro"), dollars(0.435, 0.87)},
		{"with its maker in front", ask("https://api.deepseek.com", "deepseek/deepseek-v4-pro"), dollars(0.435, 0.87)},
		{"one address, two lists: the plan has no price", ask("https://opencode.ai/zen/v1", "big-pickle"), none},
		{"proxy on this machine, prepaid", paid(ask("http://localhost:4000/v1", "gpt-5.4"), engines.PaidPrepaid), dollars(2.5, 15)},
		{"through a gateway", paid(ask("http://localhost:20128/v1", "openai/gpt-5.4"), engines.PaidPrepaid), dollars(2.5, 15)},
		{"a combo of a gateway", ask("http://localhost:20128/v1", "free-stack"), none},

		{"claude", cli("claude", "claude-opus-4-8"), dollars(5, 25)},
		{"a day in the list", cli("claude", "claude-haiku-4-5"), dollars(1, 5)},
		{"the same day", cli("claude", "claude-haiku-4-5-20251001"), dollars(1, 5)},
		{"another day", cli("claude", "claude-haiku-4-5-20260101"), dollars(1, 5)},
		{"a day with an @", cli("claude", "claude-haiku-4-5@20251001"), dollars(1, 5)},
		{"a day in dashes", cli("codex", "gpt-4o-2024-08-06"), dollars(2.5, 10)},
		{"its own CLI knows its own models only", cli("codex", "claude-opus-4-8"), none},
		{"another CLI asks the maker", cli("my-agent", "gemini-3.7-flash"), dollars(0.75, 3.75)},
		{"with a maker in front", cli("pi", "anthropic/claude-sonnet-5"), dollars(2, 10)},
		{"with a maker's other name in front", cli("pi", "google/gemini-3.7-flash"), dollars(0.75, 3.75)},
		{"with a seller in front", cli("pi", "openrouter/openai/gpt-4o-2024-05-13"), dollars(5, 15)},
		{"of several days only the one that is named", cli("pi", "openrouter/openai/gpt-4o-2024-01-01"), none},
		{"claude pointed elsewhere", with(cli("claude", "deepseek-v4-pro"), func(c *engines.Config) {
			c.Env = map[string]string{"ANTHROPIC_BASE_URL": "https://api.deepseek.com/anthropic"}
		}), dollars(0.435, 0.87)},

		{"a smaller one has its own", cli("codex", "gpt-5-mini"), dollars(0.25, 2)},
		{"a part of a name", cli("codex", "gpt-5.4-max"), none},
		{"the beginning of a name", cli("codex", "gpt"), none},
		{"a family", cli("claude", "sonnet"), none},
		{"a window that costs more", cli("claude", "claude-sonnet-4-6[1m]"), none},
		{"a finetune", cli("my-agent", "me/gpt-5.4"), none},
		{"four digits are a version", ask("https://api.deepseek.com", "deepseek-v4-pro-0813"), none},
		{"the same model at another host", paid(ask("https://integrate.api.nvidia.com/v1", "deepseek-v4-pro"), engines.PaidPrepaid), none},
		{"a model that the vendor does not list", ask("https://api.deepseek.com", "gpt-5.4"), none},
		{"a plan, which the list writes as 0", cli("my-agent", "z-ai/glm-5.2"), none},
		{"a plan's endpoint", ask("https://api.githubcopilot.com", "claude-haiku-4.5"), none},
	} {
		if diff := cmp.Diff(tt.want, engines.ProfileOf(tt.c).Price); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestPriceDeclared(t *testing.T) {
	base := cli("codex", "gpt-5.4") // 2.5 and 15 by the list
	unknown := cli("my-agent", "m")
	free := with(unknown, func(c *engines.Config) { c.Paid = engines.PaidFree })
	for _, tt := range []struct {
		name string
		c    engines.Config
		d    engines.Declared
		want engines.Price
	}{
		{"all of it", base, engines.Declared{CostPerCall: ptr(0.5), CostPerMTokIn: ptr(1.0), CostPerMTokOut: ptr(2.0)},
			engines.Price{PerCall: 500_000, PerMTokIn: 1_000_000, PerMTokOut: 2_000_000, Known: true, Source: "declared"}},
		{"zero is a price", base, engines.Declared{CostPerMTokIn: ptr(0.0), CostPerMTokOut: ptr(0.0)}, engines.Price{Known: true, Source: "declared"}},
		{"a part, the rest by the list", base, engines.Declared{CostPerMTokIn: ptr(1.0)},
			engines.Price{PerMTokIn: 1_000_000, PerMTokOut: 15_000_000, Known: true, Source: "declared, the rest " + list}},
		{"a part, the rest zero", free, engines.Declared{CostPerCall: ptr(0.01)},
			engines.Price{PerCall: 10_000, Known: true, Source: "declared, the rest paid = free-tier"}},
		{"half a price is not free", unknown, engines.Declared{CostPerMTokIn: ptr(1.0)},
			engines.Price{PerMTokIn: 1_000_000, PerMTokOut: 25_000_000, Known: true, Source: "declared, the rest assumed"}},
		{"for each call alone", unknown, engines.Declared{CostPerCall: ptr(0.01)}, engines.Price{PerCall: 10_000, Known: true, Source: "declared"}},
		{"what is above 0 stays above 0", unknown, engines.Declared{CostPerCall: ptr(1e-9)}, engines.Price{PerCall: 1, Known: true, Source: "declared"}},
		{"no number", unknown, engines.Declared{CostPerCall: ptr(math.NaN())}, engines.Price{Known: true, Source: "declared"}},
		{"too much", unknown, engines.Declared{CostPerCall: ptr(math.Inf(1))}, engines.Price{PerCall: 1e12, Known: true, Source: "declared"}},
	} {
		tt.c.Declared = tt.d
		if diff := cmp.Diff(tt.want, engines.ProfileOf(tt.c).Price); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestCapPrice(t *testing.T) {
	sub := func(command, model string, weekly float64) engines.Config {
		c := cli(command, model)
		c.Paid, c.WeeklyUSD = engines.PaidSubscription, weekly
		return c
	}
	assumed := engines.Price{PerMTokIn: 5_000_000, PerMTokOut: 25_000_000, Known: true, Source: engines.PriceAssumed}
	for _, tt := range []struct {
		name string
		c    engines.Config
		want engines.Price
	}{
		{"known", cli("codex", "gpt-5.4"), dollars(2.5, 15)},
		{"unknown counts as a frontier model", cli("my-agent", "m"), assumed},
		{"local costs nothing", ask("http://localhost:1/v1", "m"), zero("local")},
		{"a plan at list price", sub("codex", "gpt-5.4", 0), dollars(2.5, 15)},
		{"a plan without a price", sub("codex", "", 0), zero("paid = subscription")},
		{"a plan without a price, with a cap in money", sub("codex", "", 5), assumed},
		{"a plan with a declared price", with(sub("codex", "gpt-5.4", 5), func(c *engines.Config) {
			c.Declared = engines.Declared{CostPerMTokIn: ptr(0.0), CostPerMTokOut: ptr(0.0)}
		}), zero("declared")},
	} {
		if diff := cmp.Diff(tt.want, engines.CapPrice(tt.c)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestCost(t *testing.T) {
	p := dollars(2.5, 15)
	perCall := engines.Price{PerCall: 10_000, Known: true}
	huge := engines.Price{PerCall: math.MaxInt64, PerMTokIn: math.MaxInt64, PerMTokOut: math.MaxInt64, Known: true}
	for _, tt := range []struct {
		name   string
		u      ferry.Usage
		p      engines.Price
		want   int64
		source string
	}{
		{"by tokens", ferry.Usage{TokensIn: 1_000_000, TokensOut: 100_000}, p, 4_000_000, "prices"},
		{"rounded up", ferry.Usage{TokensIn: 1}, p, 3, "prices"},
		{"nothing used", ferry.Usage{}, p, 0, "prices"},
		{"the engine's word wins", ferry.Usage{TokensIn: 1_000_000, CostMicroUSD: 7, CostSource: "engine"}, p, 7, "engine"},
		{"the engine's 0 wins", ferry.Usage{TokensIn: 1_000_000, CostSource: "engine"}, p, 0, "engine"},
		{"the engine's word without a price", ferry.Usage{CostMicroUSD: 7, CostSource: "engine"}, engines.Price{}, 7, "engine"},
		{"a number below 0 of the engine", ferry.Usage{CostMicroUSD: -7, CostSource: "engine"}, p, 0, "engine"},
		{"unknown is not a cost of 0", ferry.Usage{TokensIn: 1_000_000}, engines.Price{Source: engines.PriceUnknown}, 0, ""},
		{"calls", ferry.Usage{Requests: 3, TokensIn: 10}, perCall, 30_000, "prices"},
		{"calls that were not counted are one", ferry.Usage{TokensIn: 10}, perCall, 10_000, "prices"},
		{"no call", ferry.Usage{}, perCall, 0, "prices"},
		{"below 0", ferry.Usage{Requests: -1, TokensIn: -5, TokensOut: math.MinInt64}, perCall, 0, "prices"},
		{"beyond all bounds", ferry.Usage{Requests: math.MaxInt64, TokensIn: math.MaxInt64, TokensOut: math.MaxInt64}, huge, 1 << 53, "prices"},
	} {
		if got, source := engines.Cost(tt.u, tt.p); got != tt.want || source != tt.source {
			t.Errorf("%s: Cost() = %d, %q, want %d, %q", tt.name, got, source, tt.want, tt.source)
		}
	}
}

// Every model of a vendor with an address has the price of its own entry there.
func TestEveryListedModelIsFoundAtItsVendor(t *testing.T) {
	found := 0
	for _, p := range embedded.GetAll() {
		if !strings.HasPrefix(p.APIEndpoint, "https://") {
			continue
		}
		for _, m := range p.Models {
			c := ask(p.APIEndpoint, m.ID)
			c.Paid = engines.PaidPrepaid
			want := dollars(m.CostPer1MIn, m.CostPer1MOut)
			if m.CostPer1MIn == 0 && m.CostPer1MOut == 0 {
				continue
			}
			found++
			if got := engines.ProfileOf(c); got.Price != want {
				t.Errorf("%s at %s: %+v, want %+v", m.ID, p.APIEndpoint, got.Price, want)
			}
		}
	}
	if found < 500 {
		t.Errorf("only %d models have a price: is the list there?", found)
	}
}

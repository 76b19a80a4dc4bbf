package engines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ferry-fleet/ferry/internal/provider"
)

// Balance is the money that is left at a provider.
type Balance struct {
	Micro    int64  `json:"micro"` // millionths of the currency
	Currency string `json:"currency"`
}

// String returns the balance with two digits.
func (b *Balance) String() string { return fmt.Sprintf("%.2f %s", float64(b.Micro)/1e6, b.Currency) }

// balanceOf reads an amount, which must be one that a balance can be.
func balanceOf(amount float64, currency string) *Balance {
	const most = 1e12
	if !(amount > -most && amount < most) || len(currency) > 8 {
		return nil
	}
	return &Balance{Micro: int64(amount * 1e6), Currency: currency}
}

// wallet asks the providers that tell it what is left there, and reports whether
// that is too little for this engine. What cannot be read stops nothing: an answer
// says more than a balance.
func (p *probe) wallet(ctx context.Context) (b *Balance, empty bool) {
	if p.config.Key == "" {
		return nil, false
	}
	read := map[string]func(context.Context, *provider.Client) (*Balance, bool){
		ProviderDeepSeek: deepSeekBalance, ProviderOpenRouter: openRouterBalance,
	}[p.config.Vendor()]
	if read == nil {
		return nil, false
	}
	// These documents want the key as this wire sends it, whatever the models want.
	client, err := p.config.reach(p.Client, provider.WireChat, provider.Clocks{}, p.Now)
	if err != nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, balanceClock)
	defer cancel()
	b, usable := read(ctx, client)
	if b == nil {
		return nil, false
	}
	return b, b.Micro < 0 || !usable || b.Micro == 0 && !p.config.free()
}

// deepSeekBalance takes the first currency in which there is anything.
func deepSeekBalance(ctx context.Context, client *provider.Client) (b *Balance, usable bool) {
	var doc struct {
		Available bool `json:"is_available"`
		Infos     []struct {
			Currency string `json:"currency"`
			Total    string `json:"total_balance"`
		} `json:"balance_infos"`
	}
	if client.Get(ctx, "/user/balance", &doc) != nil {
		return nil, false
	}
	for _, info := range doc.Infos {
		amount, err := strconv.ParseFloat(info.Total, 64)
		if err == nil && (b == nil || b.Micro <= 0) {
			b = balanceOf(amount, info.Currency)
		}
	}
	return b, doc.Available
}

// openRouterBalance reads the account where the key may, else what the key itself
// may still spend.
func openRouterBalance(ctx context.Context, client *provider.Client) (b *Balance, usable bool) {
	var account struct {
		Data struct {
			Credits *float64 `json:"total_credits"`
			Usage   float64  `json:"total_usage"`
		} `json:"data"`
	}
	err := client.Get(ctx, "credits", &account)
	if err == nil && account.Data.Credits != nil {
		return balanceOf(*account.Data.Credits-account.Data.Usage, "USD"), true
	}
	var e *provider.Error
	if !errors.As(err, &e) || e.Class != provider.Auth {
		return nil, false
	}
	var key struct {
		Data struct {
			Left *float64 `json:"limit_remaining"` // null without a limit
		} `json:"data"`
	}
	if client.Get(ctx, "key", &key) != nil || key.Data.Left == nil {
		return nil, false
	}
	return balanceOf(*key.Data.Left, "USD"), true
}

// Route is a way through a gateway: a combo over several models, or a model that
// costs nothing.
type Route struct {
	Name  string `json:"name"`
	Combo bool   `json:"combo,omitempty"`
	// Steps are the models of a combo; empty when not all of them could be read.
	Steps []string `json:"steps,omitempty"`
}

// Bounds of the routes that are kept.
const (
	maxRoutes    = 200
	maxSteps     = 50
	maxRouteName = 200
)

// routes lists the combos and the free models of a gateway, with the steps of the
// combos where the key may read them.
func routes(ctx context.Context, client *provider.Client, models []provider.Model) []Route {
	steps := comboSteps(ctx, client)
	var out []Route
	for _, m := range models {
		combo := m.Owner == "combo"
		if len(out) == maxRoutes || len(m.ID) > maxRouteName || !combo && !strings.HasSuffix(m.ID, ":free") {
			continue
		}
		r := Route{Name: m.ID, Combo: combo}
		if combo {
			r.Steps = steps[m.ID]
		}
		out = append(out, r)
	}
	return out
}

func comboSteps(ctx context.Context, client *provider.Client) map[string][]string {
	var doc struct {
		Combos []struct {
			Name   string            `json:"name"`
			Models []json.RawMessage `json:"models"`
		} `json:"combos"`
	}
	if client.Get(ctx, "/api/combos", &doc) != nil {
		return nil
	}
	out := map[string][]string{}
	for _, c := range doc.Combos {
		var steps []string
		for _, raw := range c.Models[:min(len(c.Models), maxSteps)] {
			if s := stepOf(raw); s != "" && len(s) <= maxRouteName {
				steps = append(steps, s)
			}
		}
		// A step that is not known may end anywhere, at somebody's plan for instance.
		if len(steps) == len(c.Models) {
			out[c.Name] = steps
		}
	}
	return out
}

// stepOf reads a step, which is a name, or an object with the name of a model or
// of another combo in it.
func stepOf(raw json.RawMessage) string {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		return name
	}
	var step struct {
		Model string `json:"model"`
		Combo string `json:"comboName"`
	}
	if json.Unmarshal(raw, &step) != nil || step.Model == "" {
		return step.Combo
	}
	return step.Model
}

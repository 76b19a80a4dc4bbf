package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ferry-fleet/ferry"
)

// delegateFlags are the flags of `channel delegate`, as typed.
type delegateFlags struct {
	scopes, expires string
	uses            int64
}

func (a *app) delegateCommand() *cobra.Command {
	var f delegateFlags
	cmd := &cobra.Command{
		Use:   "delegate NAME --scopes SCOPE,…",
		Short: "let a member act for you",
		Long: `Delegate lets a member do in your place what the scopes say: ` + scopesLine() + `.
A later delegation to the same member takes the place of the earlier one, and
--scopes none ends it. Nobody can delegate the adversary's policy, the root of
the channel, or who is a member.`,
		Example: `  ferry channel delegate bob --scopes review,answer --expires 30d
  ferry channel delegate bob --scopes none`,
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.delegate(cmd.Context(), args[0], f) },
	}
	s := cmd.Flags()
	s.StringVar(&f.scopes, "scopes", "", "`LIST` of what it may do, or none")
	s.StringVar(&f.expires, "expires", "30d", "`TIME` until it ends, like 12h or 30d")
	s.Int64Var(&f.uses, "max-uses", 0, "how often it may be used (0: no limit)")
	a.jsonFlag(cmd)
	return cmd
}

func scopesLine() string {
	var words []string
	for _, s := range ferry.Scopes() {
		words = append(words, string(s))
	}
	return strings.Join(words, ", ")
}

// parseScopes reads the list of --scopes; "none" is an empty one.
func parseScopes(list string) ([]ferry.Scope, error) {
	if list == "none" {
		return nil, nil
	}
	var out []ferry.Scope
	for _, word := range strings.Split(list, ",") {
		s := ferry.Scope(strings.TrimSpace(word))
		if !slices.Contains(ferry.Scopes(), s) {
			return nil, misuse("they are "+scopesLine()+"; none ends a delegation", "--scopes %q: there is no scope %q", clip(list, 80), clip(string(s), 40))
		}
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out, nil
}

// longestSpan bounds how long an invite or a delegation holds.
const longestSpan = 10 * 365 * 24 * time.Hour

// parseSpan reads a time like 30m, 12h or 30d.
func parseSpan(flag, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int64
		if n, err = strconv.ParseInt(days, 10, 32); err == nil {
			d = time.Duration(min(n, int64(longestSpan/time.Hour))) * 24 * time.Hour
		}
	}
	if err != nil || d < time.Minute || d > longestSpan {
		return 0, misuse("give a time like 30m, 12h or 30d, between a minute and ten years", "%s %q: not such a time", flag, clip(text, 40))
	}
	return d, nil
}

func (a *app) delegate(ctx context.Context, who string, f delegateFlags) error {
	if f.scopes == "" {
		return misuse("say what it may do: --scopes review,answer; --scopes none ends a delegation", "delegate %s: --scopes is missing", clip(who, 64))
	}
	scopes, err := parseScopes(f.scopes)
	if err != nil {
		return err
	}
	span, err := parseSpan("--expires", f.expires)
	if err != nil {
		return err
	}
	if f.uses < 0 {
		return misuse("give a number of uses, or 0 for no limit", "--max-uses %d: less than none", f.uses)
	}
	return a.with(ctx, func(p *project) error {
		w, err := p.operator()
		if err != nil {
			return err
		}
		m, err := p.member(ctx, who)
		if err != nil {
			return err
		}
		b := ferry.Delegate{To: m.Writer, Scopes: scopes, MaxUses: f.uses}
		if len(scopes) > 0 {
			b.NotAfter = a.now().Add(span).UTC().Format(time.RFC3339)
		} else {
			b.MaxUses = 0
		}
		id, err := p.says(ctx, w, &b)
		if err != nil {
			return err
		}
		shape := delegatedShape{Name: string(m.Name), Writer: string(m.Writer), Scopes: wordsOf(scopes), NotAfter: b.NotAfter, MaxUses: b.MaxUses, Record: id.String()}
		return a.print(shape, func(w io.Writer) {
			if len(scopes) == 0 {
				fmt.Fprintf(w, "%s acts for you no more\n", m.Name)
				return
			}
			fmt.Fprintf(w, "%s may %s for you until %s%s\n", m.Name, strings.Join(shape.Scopes, ", "), b.NotAfter, usesLine(b.MaxUses))
		})
	})
}

func usesLine(n int64) string {
	switch n {
	case 0:
		return ""
	case 1:
		return ", once"
	}
	return fmt.Sprintf(", %d times", n)
}

func wordsOf[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

// delegatedShape answers delegate.
type delegatedShape struct {
	Name     string   `json:"name"`
	Writer   string   `json:"writer"`
	Scopes   []string `json:"scopes"`
	NotAfter string   `json:"not_after"`
	MaxUses  int64    `json:"max_uses"`
	Record   string   `json:"record"`
}

// Package redact owns the one way in which secrets are kept out of logs, records, branches and screens.
//
// It promises that a value it was told, in plain or in one of its usual spellings (base64, hex, URL, JSON, HTML) and also
// when it is broken over lines, and every token of a well-known form never passes a [Redactor], however the text is cut
// into pieces, and that [Visible] text cannot steer a terminal. It never stores or reports the secrets themselves: a [Hit]
// says where and what kind.
//
// It does not know a value that is packed, encrypted, spelled backwards or put together from pieces with words between
// them, and not a token of a known form that is broken over lines, of which the first piece alone may be hidden.
package redact

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// MinSecret is the length below which a value is not looked for: it would match ordinary words.
const MinSecret = 6

// Hit is one place that must not be shown: the bytes from Start up to End.
type Hit struct {
	Start, End int
	Kind       string // "secret" for a value that was told, else the name of the token form
}

func (h Hit) mark() string { return "[redacted " + h.Kind + "]" }

// Redactor hides the secrets it was made with and every token of a known form. It is safe for concurrent use.
type Redactor struct {
	values *words
	hints  *words
}

const (
	// minHead is how much of a secret stands before a line end for it to be known as broken in two: with less, every
	// other line would be held back. Less than that of a secret is no secret.
	minHead = 4
	// minTail is the shortest rest of a secret that is looked for by itself, when less than minHead went before.
	minTail = 8
)

// New returns a Redactor for secrets. Values shorter than MinSecret are left out.
func New(secrets []string) *Redactor {
	var values []string
	for _, secret := range secrets {
		for _, form := range forms(strings.TrimSpace(secret)) {
			form = fold(form).text
			for i := range minHead {
				if rest := strings.TrimSpace(form[min(i, len(form)):]); i == 0 && len(rest) >= minWord || len(rest) >= minTail {
					values = append(values, rest)
				}
			}
		}
	}
	slices.Sort(values)
	values = slices.Compact(values)
	return &Redactor{values: newWords(values), hints: newWords(hints())}
}

// forms returns every spelling in which a secret is looked for.
func forms(secret string) []string {
	if len(secret) < MinSecret {
		return nil
	}
	query := url.QueryEscape(secret)
	out := []string{
		secret, query, strings.ReplaceAll(query, "+", "%20"), url.PathEscape(secret), html.EscapeString(secret),
		hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
	}
	for _, escaped := range out[1:4] {
		out = append(out, smallEscape.ReplaceAllStringFunc(escaped, strings.ToLower))
	}
	for _, once := range jsonForms(secret) {
		out = append(append(out, once), jsonForms(once)...) // logs of agents hold JSON in JSON
	}
	out = append(out, base64Forms(secret)...)
	// A secret of several lines, a key file for instance, is often printed in part.
	for line := range strings.Lines(secret) {
		if line = strings.TrimSpace(line); len(line) >= 20 && line != secret && !strings.HasPrefix(line, "-----") {
			out = append(out, line)
		}
	}
	return out
}

var smallEscape = regexp.MustCompile(`%[0-9A-F]{2}`)

// jsonForms returns what a secret looks like in a JSON string: as Go writes it, as most others do, and with slashes
// escaped.
func jsonForms(secret string) []string {
	var out []string
	for _, escape := range []bool{true, false} {
		var text strings.Builder
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(escape)
		if enc.Encode(secret) == nil {
			quoted := strings.TrimSpace(text.String())
			quoted = quoted[1 : len(quoted)-1]
			out = append(out, quoted, strings.ReplaceAll(quoted, "/", `\/`))
		}
	}
	return out
}

// base64Forms returns what a secret looks like in base64, also in the middle of a longer text: there it begins at one of
// three places in a group of four, and the characters at its ends depend on its neighbours and are left out.
func base64Forms(secret string) []string {
	var out []string
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		out = append(out, enc.EncodeToString([]byte(secret)))
		for shift := range 3 {
			text := enc.EncodeToString(append(make([]byte, shift), secret...))
			start := (shift*8 + 5) / 6
			end := (shift + len(secret)) * 8 / 6
			if end-start >= MinSecret {
				out = append(out, text[start:end])
			}
		}
	}
	return out
}

// String returns s with every secret replaced by a mark that says what was there.
func (r *Redactor) String(s string) string { return replace(s, r.Find(s)) }

func replace(s string, hits []Hit) string {
	if len(hits) == 0 {
		return s
	}
	var out strings.Builder
	at := 0
	for _, h := range hits {
		out.WriteString(s[at:h.Start])
		out.WriteString(h.mark())
		at = h.End
	}
	out.WriteString(s[at:])
	return out.String()
}

// Find returns the places in s that String would hide, in order and not overlapping.
func (r *Redactor) Find(s string) []Hit {
	var hits []Hit
	f := fold(s)
	r.values.find(f.text, func(at int, candidates []string) {
		for _, v := range candidates {
			if strings.HasPrefix(f.text[at:], v) && f.broken(at, at+len(v)) >= min(minHead, len(v)) {
				hits = append(hits, Hit{Start: f.original(at), End: f.original(at+len(v)-1) + 1, Kind: "secret"})
			}
		}
	})
	var hinted map[string]bool
	r.hints.find(s, func(at int, candidates []string) {
		for _, hint := range candidates {
			if strings.HasPrefix(s[at:], hint) && !hinted[hint] {
				if hinted == nil {
					hinted = map[string]bool{}
				}
				hinted[hint] = true
			}
		}
	})
	if hinted != nil {
		for _, p := range patterns {
			hits = append(hits, p.find(s, hinted)...)
		}
	}
	return merged(hits)
}

// heldFrom returns where in text, which ends with a line, a secret begins that may go on in the next one; len(text)
// where none does.
func (r *Redactor) heldFrom(text string) int {
	f := fold(text)
	held := len(text)
	r.values.find(f.text, func(at int, candidates []string) {
		rest := f.text[at:]
		for _, v := range candidates {
			if start := f.original(at); len(rest) >= minHead && len(rest) < len(v) && start < held &&
				strings.HasPrefix(v, rest) && f.broken(at, len(f.text)) >= minHead {
				held = start
			}
		}
	})
	return held
}

func merged(hits []Hit) []Hit {
	slices.SortFunc(hits, func(a, b Hit) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End)) })
	out := hits[:0]
	for _, h := range hits {
		if n := len(out); n > 0 && h.Start < out[n-1].End {
			out[n-1].End = max(out[n-1].End, h.End)
			continue
		}
		out = append(out, h)
	}
	return out
}

// Package redact owns the one way in which secrets are kept out of logs, records, branches and screens.
//
// It promises that a value it was told, in plain or in one of its usual encodings, and every token of a well-known form
// never passes a [Redactor], however the text is cut into pieces, and that [Visible] text cannot steer a terminal. It
// never stores or reports the secrets themselves: a [Hit] says where and what kind.
package redact

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
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
	values    []string // longest first
	multiline []string // those of values that contain a line end
}

// New returns a Redactor for secrets. Values shorter than MinSecret are left out.
func New(secrets []string) *Redactor {
	r := &Redactor{}
	for _, secret := range secrets {
		r.values = append(r.values, forms(strings.TrimSpace(secret))...)
	}
	slices.SortFunc(r.values, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	r.values = slices.Compact(r.values)
	for _, v := range r.values {
		if strings.ContainsAny(v, "\r\n") {
			r.multiline = append(r.multiline, v)
		}
	}
	return r
}

// forms returns every spelling in which a secret is looked for.
func forms(secret string) []string {
	if len(secret) < MinSecret {
		return nil
	}
	out := []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret),
		hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
	}
	if quoted, err := json.Marshal(secret); err == nil {
		out = append(out, string(quoted[1:len(quoted)-1]))
	}
	out = append(out, base64Forms(secret)...)
	// A secret of several lines, a key file for instance, is often printed with other line ends.
	for line := range strings.Lines(secret) {
		if line = strings.TrimSpace(line); len(line) >= 20 && line != secret && !strings.HasPrefix(line, "-----") {
			out = append(out, line)
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
	for _, v := range r.values {
		for from := 0; ; {
			i := strings.Index(s[from:], v)
			if i < 0 {
				break
			}
			hits = append(hits, Hit{Start: from + i, End: from + i + len(v), Kind: "secret"})
			from += i + len(v)
		}
	}
	for _, p := range patterns {
		hits = append(hits, p.find(s)...)
	}
	return merged(hits)
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

package redact_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry/internal/redact"
)

const (
	alnum = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	small = "0123456789abcdef"
	dash  = alnum + "_-"
)

// formats are how services write their keys; {CLASS N} stands for N random bytes of a class.
var formats = map[string]string{
	"OpenAI":             "sk-{alnum 48}",
	"OpenAI project":     "sk-proj-{dash 80}",
	"OpenAI service":     "sk-svcacct-{dash 60}",
	"Anthropic":          "sk-ant-api03-{dash 93}AA",
	"Anthropic OAuth":    "sk-ant-oat01-{dash 80}",
	"OpenRouter":         "sk-or-v1-{small 64}",
	"DeepSeek":           "sk-{small 32}",
	"NVIDIA":             "nvapi-{dash 64}",
	"Groq":               "gsk_{alnum 52}",
	"xAI":                "xai-{alnum 80}",
	"Perplexity":         "pplx-{alnum 48}",
	"Cerebras":           "csk-{alnum 48}",
	"Replicate":          "r8_{alnum 37}",
	"Hugging Face":       "hf_{alnum 34}",
	"Google":             "AIza{dash 35}",
	"Google OAuth":       "ya29.a0{dash 100}",
	"Google client":      "GOCSPX-{dash 28}",
	"GitHub":             "ghp_{alnum 36}",
	"GitHub app":         "ghs_{alnum 36}",
	"GitHub fine":        "github_pat_{alnum 22}_{alnum 59}",
	"GitLab":             "glpat-{dash 20}",
	"GitLab routable":    "glpat-{dash 27}.01.{alnum 9}",
	"GitLab runner":      "glrt-{dash 20}",
	"AWS id":             "AKIA{upper 16}",
	"AWS temporary":      "ASIA{upper 16}",
	"Slack bot":          "xoxb-{small 12}-{small 12}-{alnum 24}1",
	"Slack app":          "xapp-1-{upper 10}-{small 12}1-{small 32}",
	"npm":                "npm_{alnum 36}",
	"PyPI":               "pypi-AgEIcHlwaS5vcmc{dash 150}",
	"Stripe":             "sk_live_{alnum 24}",
	"Telegram":           "7{digit 9}:AA{dash 33}",
	"JWT":                "eyJ{dash 30}.eyJ{dash 60}.{dash 43}",
	"SendGrid":           "SG.{dash 22}.{dash 43}",
	"DigitalOcean":       "dop_v1_{small 64}",
	"Docker":             "dckr_pat_{dash 27}",
	"Vault":              "hvs.{dash 60}1",
	"age":                "AGE-SECRET-KEY-1{upper 58}",
	"key block":          "-----BEGIN PRIVATE KEY-----\n{alnum 64}\n{alnum 64}\n{alnum 20}==\n-----END PRIVATE KEY-----",
	"encrypted PEM":      "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{alnum 64}\n-----END RSA PRIVATE KEY-----",
	"Azure (told)":       "{alnum 86}==",
	"password (told)":    "p&ss-w0rd/{dash 8}+\"'<é>",
	"hex secret (told)":  "{small 64}",
	"short one (told)":   "{alnum 8}",
	"several lines (tol": "{alnum 40}\n{alnum 40}\n{alnum 12}",
}

// told are formats that nobody can know by their form: only the value as such is looked for.
func told(name string) bool { return strings.Contains(name, "(tol") }

var hole = regexp.MustCompile(`\{(\w+) (\d+)\}`)

func filled(rng *rand.Rand, format string) string {
	classes := map[string]string{"alnum": alnum, "upper": upper, "small": small, "dash": dash, "digit": "0123456789"}
	return hole.ReplaceAllStringFunc(format, func(s string) string {
		m := hole.FindStringSubmatch(s)
		var n int
		fmt.Sscan(m[2], &n)
		out := make([]byte, n)
		for i := range out {
			out[i] = classes[m[1]][rng.IntN(len(classes[m[1]]))]
		}
		out[0], out[n-1] = classes[m[1]][0], classes[m[1]][1] // a hyphen at an end is no part of a word
		return string(out)
	})
}

// spellings are how a value is written by tools.
func spellings(secret string) map[string]string {
	jsonText := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return string(text[1 : len(text)-1])
	}
	plain := strings.NewReplacer(`\u0026`, "&", `\u003c`, "<", `\u003e`, ">")
	out := map[string]string{
		"plain": secret, "query": url.QueryEscape(secret), "path": url.PathEscape(secret),
		"percent":       strings.ReplaceAll(url.QueryEscape(secret), "+", "%20"),
		"small percent": regexp.MustCompile(`%..`).ReplaceAllStringFunc(url.QueryEscape(secret), strings.ToLower),
		"hex":           hex.EncodeToString([]byte(secret)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"JSON": jsonText(secret), "JSON of others": plain.Replace(jsonText(secret)), "JSON in JSON": plain.Replace(jsonText(plain.Replace(jsonText(secret)))),
		"HTML": html.EscapeString(secret),
	}
	for shift := range 3 {
		text := "xyz"[:shift] + secret + "\nrest"
		out[fmt.Sprint("base64 ", shift)] = base64.StdEncoding.EncodeToString([]byte(text))
		out[fmt.Sprint("base64 url ", shift)] = base64.RawURLEncoding.EncodeToString([]byte(text))
	}
	return out
}

// wrapped breaks a text as tools do that fill lines.
func wrapped(s string, width int, end string) string {
	var out strings.Builder
	for len(s) > width {
		out.WriteString(s[:width] + end)
		s = s[width:]
	}
	return out.String() + s
}

// remains reports whether n bytes in a row of secret are in text, line ends and spaces apart.
func remains(text, secret string, n int) bool {
	squeeze := func(s string) string {
		return strings.NewReplacer("\n", "", "\r", "", `\n`, "", `\r`, "", " ", "", "\t", "").Replace(s)
	}
	text, secret = squeeze(text), squeeze(secret)
	for i := 0; i+n <= len(secret); i++ {
		if strings.Contains(text, secret[i:i+n]) {
			return true
		}
	}
	return false
}

// Each format, as a form that is known or as a value that was told, does not pass, in whatever pieces it is written.
func TestFormats(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		for _, name := range slices.Sorted(maps.Keys(formats)) {
			secret := filled(rng, formats[name])
			r := redact.New(nil)
			if told(name) {
				r = redact.New([]string{secret})
			}
			text := fmt.Sprintf("the key of it:\n%s\nand more", secret)
			if rng.IntN(2) == 0 {
				text = fmt.Sprintf("{\"k\":\"%s\"}\n", secret)
			}
			got := r.String(text)
			if remains(got, strings.Trim(secret, "-"), 8) && !strings.HasPrefix(secret, "-----") || strings.Contains(got, secret) {
				t.Errorf("seed %d, %s: %q passed as %q", seed, name, text, got)
			}
			if streamed := stream(t, r, text, 1+rng.IntN(len(text))); streamed != got {
				t.Errorf("seed %d, %s: in pieces %q, want %q", seed, name, streamed, got)
			}
		}
	}
}

// A value that was told does not pass in any spelling, also when that is broken over lines.
func TestSpellingsOverLines(t *testing.T) {
	ends := []string{"\n", "\r\n", "\n    ", `\n`, `\\n`, "\n\n\t"}
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 2))
		for _, name := range slices.Sorted(maps.Keys(formats)) {
			secret := filled(rng, formats[name])
			r := redact.New([]string{"another-secret-1", secret})
			written := spellings(secret)
			for _, how := range slices.Sorted(maps.Keys(written)) {
				text := written[how]
				width := []int{9, 16, 64, 76}[rng.IntN(4)]
				end := ends[rng.IntN(len(ends))]
				if end[0] == '\\' && strings.Contains(text, `\`) {
					end = "\n" // whose backslash it would be, nobody could tell
				}
				for _, s := range []string{text, "begin " + text + " end\n", wrapped(text, width, end)} {
					got := r.String(s)
					if inner := core(how, text); remains(got, inner, max(8, len(inner)/2)) {
						t.Errorf("seed %d, %s, %s: %q passed as %q", seed, name, how, s, got)
					}
					if streamed := stream(t, r, s, 1+rng.IntN(len(s))); streamed != got {
						t.Errorf("seed %d, %s, %s: in pieces %q, want %q", seed, name, how, streamed, got)
					}
				}
			}
		}
	}
}

// core is the part of a spelling that is of the secret alone.
func core(how, text string) string {
	if strings.HasPrefix(how, "base64") {
		return text[4 : len(text)-9]
	}
	return text
}

// Lines that are no secret are not held back, and neither is a secret that is whole.
func TestBrokenValueIsHeldForOneLine(t *testing.T) {
	var out strings.Builder
	w := redact.New([]string{"correct-horse-battery"}).Writer(&out)
	for _, step := range []struct{ write, want string }{
		{"plain c\n", "plain c\n"},
		{"then corr\n", "then "},
		{"ect-horse-battery staple\n", "[redacted secret] staple\n"},
		{"then corr\n", "then "},
		{"other\n", "corr\nother\n"},
	} {
		out.Reset()
		if _, err := w.Write([]byte(step.write)); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != step.want {
			t.Errorf("after %q: %q, want %q", step.write, got, step.want)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// Many empty lines between two pieces are a line end like any other.
func TestPiecesThatAreFarApart(t *testing.T) {
	text := "correct-horse\n" + strings.Repeat(" \n", 3000) + "-battery\n"
	r := redact.New([]string{"correct-horse-battery"})
	if got := r.String(text); got != "[redacted secret]\n" {
		t.Errorf("%.80q", got)
	}
	if got := stream(t, r, text, 7); got != "[redacted secret]\n" {
		t.Errorf("in pieces: %.80q", got)
	}
}

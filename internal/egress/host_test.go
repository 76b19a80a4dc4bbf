package egress_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry/internal/egress"
)

func TestParseTarget(t *testing.T) {
	long := strings.Repeat("a", 63)
	for name, tt := range map[string]struct{ in, want string }{
		"name":                   {"api.example.com:443", "api.example.com:443"},
		"default port":           {"api.example.com", "api.example.com:80"},
		"case":                   {"API.Example.COM:443", "api.example.com:443"},
		"one label":              {"localhost:1", "localhost:1"},
		"A-label":                {"xn--bcher-kva.example:443", "xn--bcher-kva.example:443"},
		"longest label":          {long + ".example:443", long + ".example:443"},
		"address":                {"127.0.0.1:80", "127.0.0.1:80"},
		"IPv6":                   {"[::1]:80", "[::1]:80"},
		"IPv6 without port":      {"[2001:db8::1]", "[2001:db8::1]:80"},
		"digits in front":        {"1.2.3.example:443", "1.2.3.example:443"},
		"empty":                  {"", ""},
		"only a port":            {":443", ""},
		"NUL":                    {"evil.com\x00.example.com:443", ""},
		"line end":               {"example.com\r\nHost: x:443", ""},
		"space":                  {"example.com :443", ""},
		"trailing dot":           {"example.com.:443", ""},
		"leading dot":            {".example.com:443", ""},
		"two dots":               {"example..com:443", ""},
		"userinfo":               {"example.com@evil.com:443", ""},
		"userinfo with password": {"user:pass@evil.com:443", ""},
		"escape":                 {"example%2ecom:443", ""},
		"backslash":              {`evil.com\.example.com:443`, ""},
		"slash":                  {"evil.com/.example.com:443", ""},
		"question mark":          {"evil.com?.example.com:443", ""},
		"underscore":             {"a_b.example.com:443", ""},
		"hyphen in front":        {"-a.example.com:443", ""},
		"hyphen at the end":      {"a-.example.com:443", ""},
		"U-label":                {"bücher.example:443", ""},
		"fullwidth dot":          {"example\uff0ecom:443", ""},
		"ideographic dot":        {"example\u3002com:443", ""},
		"soft hyphen":            {"exam\u00adple.com:443", ""},
		"Kelvin sign":            {"\u212aey.example.com:443", ""},
		"decimal address":        {"2130706433:80", ""},
		"hex address":            {"0x7f000001:80", ""},
		"hex parts":              {"0x7f.0.0.1:80", ""},
		"hex last part":          {"127.0.0.0x1:80", ""},
		"octal address":          {"0177.0.0.1:80", ""},
		"leading zeros":          {"127.000.000.001:80", ""},
		"short address":          {"127.1:80", ""},
		"address and dot":        {"127.0.0.1.:80", ""},
		"number too large":       {"256.0.0.1:80", ""},
		"five parts":             {"1.2.3.4.5:80", ""},
		"v4 in v6":               {"[::ffff:127.0.0.1]:80", ""},
		"v4 in v6, hex":          {"[::ffff:7f00:1]:80", ""},
		"IPv6 not canonical":     {"[0:0:0:0:0:0:0:1]:80", ""},
		"IPv6 upper case":        {"[2001:DB8::1]:80", ""},
		"IPv6 with a zone":       {"[fe80::1%eth0]:80", ""},
		"IPv6 without brackets":  {"2001:db8::1", ""},
		"bracket open":           {"[::1:80", ""},
		"name in brackets":       {"[example.com]:80", ""},
		"v4 in brackets":         {"[127.0.0.1]:80", ""},
		"long label":             {long + "a.example:443", ""},
		"long name":              {strings.Repeat(long+".", 4) + "com:443", ""},
		"port 0":                 {"example.com:0", ""},
		"port too large":         {"example.com:65536", ""},
		"port with sign":         {"example.com:+443", ""},
		"port with zero":         {"example.com:0443", ""},
		"port empty":             {"example.com:", ""},
		"port of letters":        {"example.com:https", ""},
		"two ports":              {"example.com:443:80", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := egress.ParseTarget(tt.in, 80)
			if tt.want == "" && err == nil || tt.want != "" && (err != nil || got.String() != tt.want) {
				t.Errorf("ParseTarget(%q) = %v, %v, want %q", tt.in, got, err, tt.want)
			}
		})
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"api.example.com:443", "127.0.0.1:80", "[::1]:80", "0x7f.1", "a\x00b:1", "xn--a.b", "1.2.3.4."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := egress.ParseTarget(s, 443)
		if err != nil {
			return
		}
		if again, err := egress.ParseTarget(got.String(), 0); err != nil || again != got {
			t.Fatalf("%q is %v, which is %v, %v", s, got, again, err)
		}
		if len(got.Host) > 253 || strings.Trim(got.Host, "abcdefghijklmnopqrstuvwxyz0123456789-.:") != "" || strings.HasSuffix(got.Host, ".") {
			t.Fatalf("%q is the host %q", s, got.Host)
		}
		// A name must be one for every resolver: what reads as an address is one in its canonical form.
		if a, err := netip.ParseAddr(got.Host); err == nil && (a.String() != got.Host || a.Is4In6()) {
			t.Fatalf("%q is the address %q", s, got.Host)
		}
	})
}

func TestParseList(t *testing.T) {
	got, err := egress.ParseList("api.example.com, *.Example.org,localhost:11434,127.0.0.1:80,[::1]:80,*.example.net:8443,example.com:443")
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, e := range got {
		words = append(words, e.String())
	}
	want := []string{"api.example.com", "*.example.org", "localhost:11434", "127.0.0.1:80", "[::1]:80", "*.example.net:8443", "example.com:443"}
	if diff := cmp.Diff(want, words); diff != "" {
		t.Error(diff)
	}
	for in, part := range map[string]string{
		"":                        "empty",
		"a.example,,b.example":    "empty",
		"*":                       "no name has",
		"*.com":                   "too much",
		"*.127.0.0.1:80":          "too much",
		"a.*.example.com":         "no name has",
		"127.0.0.1":               "needs a port",
		"[::1]":                   "needs a port",
		"https://example.com":     "the port is no number",
		"example.com/path":        "no name has",
		strings.Repeat("a,", 101): "at most 100",
	} {
		if _, err := egress.ParseList(in); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("ParseList(%q): %v, want %q in it", in, err, part)
		}
	}
}

func TestKnownHostsAreEntries(t *testing.T) {
	for _, command := range []string{"claude", "codex", "copilot", "gemini", "grok", "kimi", "vibe"} {
		if got, err := egress.ParseList(strings.Join(egress.KnownHosts(command), ",")); err != nil || len(got) == 0 {
			t.Errorf("%s: %v, %v", command, got, err)
		}
	}
	if got := egress.KnownHosts("my-agent"); got != nil {
		t.Errorf("hosts of an unknown command: %v", got)
	}
}

package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry/internal/redact"
)

const secret = "s3cr&t value/+"

// The tokens are put together here so that no file of the repository holds one.
var tokens = map[string]string{
	"AWS key":       "AKIA" + "IOSFODNN7EXAMPLE",
	"ghp":           "ghp_" + strings.Repeat("aB3", 12),
	"github_pat":    "github_pat_" + strings.Repeat("a1B_", 10),
	"GitLab":        "glpat-" + strings.Repeat("x1", 10),
	"sk":            "sk-" + strings.Repeat("a1", 20),
	"sk-ant":        "sk-ant-api03-" + strings.Repeat("a_1-", 10),
	"stripe":        "sk_live_" + strings.Repeat("a1", 12),
	"google":        "AIza" + strings.Repeat("a1-_x", 7),
	"hugging face":  "hf_" + strings.Repeat("aB", 17),
	"npm":           "npm_" + strings.Repeat("aB3", 12),
	"slack":         "xoxb-" + "123456789012-abcdefABCDEF",
	"JWT":           "eyJ" + "hbGciOiJIUzI1NiJ9.eyJ" + "zdWIiOiIxMjM0In0.c2lnbmF0dXJl",
	"telegram":      "123456789:AA" + strings.Repeat("aB-", 11),
	"age":           "AGE-SECRET-KEY-1" + strings.Repeat("Q2W", 20),
	"ferry key":     "ferry-key-1 " + strings.Repeat("0a", 32),
	"invite":        "ferry1." + strings.Repeat("a2b3", 40),
	"private key":   "-----BEGIN OPENSSH PRIVATE KEY-----\n" + strings.Repeat("b3BlbnNzaC1rZXktdjEA\n", 30) + "-----END OPENSSH PRIVATE KEY-----",
	"crlf key":      "-----BEGIN RSA PRIVATE KEY-----\r\nProc-Type: 4,ENCRYPTED\r\n\r\nMIIE\r\n-----END RSA PRIVATE KEY-----",
	"key in JSON":   `-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0B\n-----END PRIVATE KEY-----\n`,
	"cut off key":   "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIIrYSSNQ\nFaA2Hwf1duRS",
	"pgp":           "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQOYBF\n=abcd\n-----END PGP PRIVATE KEY BLOCK-----",
	"value":         secret,
	"base64":        base64.StdEncoding.EncodeToString([]byte(secret)),
	"base64 url":    base64.URLEncoding.EncodeToString([]byte(secret)),
	"hex":           hex.EncodeToString([]byte(secret)),
	"HEX":           strings.ToUpper(hex.EncodeToString([]byte(secret))),
	"query":         url.QueryEscape(secret),
	"path":          url.PathEscape(secret),
	"json":          `s3cr\u0026t value/+`,
	"several lines": manyLines,
}

const manyLines = "first line of it\nsecond line of it\nthird"

func redactor() *redact.Redactor { return redact.New([]string{secret, manyLines, "", "short"}) }

// leaks reports whether six bytes of the middle of token are still in text.
func leaks(text, token string) bool {
	middle := token[len(token)/2-3 : len(token)/2+3]
	return strings.Contains(text, middle)
}

func TestEveryTokenIsHidden(t *testing.T) {
	r := redactor()
	for name, token := range tokens {
		for _, around := range []string{"%s", "before %s after", "a=\"%s\";", "x\n%s\ny", "{\"k\":\"%s\"}"} {
			text := fmt.Sprintf(around, token)
			got := r.String(text)
			if leaks(got, token) || !strings.Contains(got, "[redacted ") {
				t.Errorf("%s: String(%q) = %q", name, text, got)
			}
			for _, size := range []int{1, 2, 7, 64, len(text)} {
				if streamed := stream(t, r, text, size); streamed != got {
					t.Errorf("%s in pieces of %d: %q, want %q", name, size, streamed, got)
				}
			}
			for _, h := range r.Find(text) {
				if h.Kind == "" || h.Start < 0 || h.End > len(text) || h.Start >= h.End {
					t.Errorf("%s: hit %+v", name, h)
				}
			}
		}
	}
}

func TestAuthorizationHeaderKeepsItsName(t *testing.T) {
	for _, text := range []string{"Authorization: Bearer abc.DEF-123456", "authorization: basic dXNlcjpwYXNz", `"Authorization":"Bearer abcdef12"`, "AUTHORIZATION=token abcdef12"} {
		got := redactor().String(text)
		if !strings.Contains(strings.ToLower(got), "authorization") || !strings.Contains(got, "[redacted authorization]") || strings.Contains(got, "abc") || strings.Contains(got, "dXNl") {
			t.Errorf("String(%q) = %q", text, got)
		}
	}
}

// A secret inside of a longer text in base64 begins at any of three places in a group.
func TestSecretInsideOfBase64(t *testing.T) {
	for prefix := range 6 {
		for suffix := range 4 {
			for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
				text := enc.EncodeToString([]byte("prefix"[:prefix] + secret + "suffix"[:suffix]))
				if got := redactor().String(text); got == text {
					t.Errorf("with %d bytes before and %d after: %q passed", prefix, suffix, text)
				}
			}
		}
	}
}

func TestOrdinaryTextPasses(t *testing.T) {
	text := `task-management-system-with-long-names sk-this-is-a-css-class-name-of-mine short
		-----BEGIN PUBLIC KEY-----
		MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A
		-----END PUBLIC KEY-----
		commit 4fb9d82c7bb61a3b3d9d4b3a1a4e9f8c7d6e5f40 sha256:` + strings.Repeat("0a", 32) + `
		12:34:56 eyJ.eyJ.x Authorization: required, xoxo, github_pattern, AKIAx`
	if got := redactor().String(text); got != text {
		t.Errorf("String changed ordinary text:\n%s", got)
	}
	if hits := redactor().Find(text); len(hits) != 0 {
		t.Errorf("Find = %v", hits)
	}
}

func TestWriterPassesWholeLinesAtOnce(t *testing.T) {
	var out bytes.Buffer
	w := redactor().Writer(&out)
	fmt.Fprintf(w, "one\ntwo %s\nthr", secret)
	if want := "one\ntwo [redacted secret]\n"; out.String() != want {
		t.Errorf("before the line ends: %q, want %q", out.String(), want)
	}
	if err := w.Close(); err != nil || !strings.HasSuffix(out.String(), "\nthr") {
		t.Errorf("after Close: %q, %v", out.String(), err)
	}
	if _, err := w.Write([]byte("x")); err == nil {
		t.Error("Write after Close succeeded")
	}
}

func TestWriterIsBounded(t *testing.T) {
	r := redactor()
	const size = 1 << 20
	for name, tt := range map[string]struct{ text, want string }{
		"no line ends":    {strings.Repeat("word ", size/5), strings.Repeat("word ", size/5)},
		"endless key":     {"-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("QUJD\n", size/5) + "!\nafter", ""},
		"endless token":   {"ghp_" + strings.Repeat("aB3", size/3) + " after", "[redacted GitHub token] after"},
		"token at a seam": {strings.Repeat("x ", 16<<10) + tokens["ghp"] + strings.Repeat(" x", 32<<10), ""},
	} {
		got := stream(t, r, tt.text, 4096)
		if tt.want != "" && got != tt.want {
			t.Errorf("%s: got %d bytes, %.80q", name, len(got), got)
		}
		if strings.Contains(got, "QUJD") || strings.Contains(got, "aB3aB3") {
			t.Errorf("%s: leaked", name)
		}
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errDisk }

var errDisk = errors.New("disk full")

func TestWriterReportsErrors(t *testing.T) {
	w := redactor().Writer(failingWriter{})
	if _, err := io.WriteString(w, "a line\n"); !errors.Is(err, errDisk) {
		t.Errorf("Write = %v", err)
	}
	if err := w.Close(); !errors.Is(err, errDisk) {
		t.Errorf("Close = %v", err)
	}
}

func stream(t *testing.T, r *redact.Redactor, text string, size int) string {
	t.Helper()
	var out bytes.Buffer
	w := r.Writer(&out)
	for len(text) > 0 {
		n := min(size, len(text))
		if _, err := io.WriteString(w, text[:n]); err != nil {
			t.Fatal(err)
		}
		text = text[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func FuzzStream(f *testing.F) {
	for _, token := range tokens {
		f.Add("before "+token+"\nafter", 3)
	}
	r := redactor()
	f.Fuzz(func(t *testing.T, text string, size int) {
		if size < 1 || size > 1000 || len(text) > 10_000 {
			return
		}
		if got, want := stream(t, r, text, size), r.String(text); got != want {
			t.Errorf("in pieces of %d: %q, want %q", size, got, want)
		}
	})
}

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain ä 日本 😀\n\tx":                    "plain ä 日本 😀\n\tx",
		"\x1b]52;c;aGk=\x07":                   `\x1b]52;c;aGk=\x07`,
		"\x1b[2J\r":                            `\x1b[2J\r`,
		"a\x00b\x7f":                           `a\x00b\x7f`,
		"\u009b31m":                            `\u009b31m`,
		"abc\u202etxt.exe":                     `abc\u202etxt.exe`,
		"\u2066\u200b\u200d\ufeff\u2028\u00ad": `\u2066\u200b\u200d\ufeff\u2028\u00ad`,
		"tag\U000e0041":                        `tag\U000e0041`,
		"bad\xff\xfe":                          `bad\xff\xfe`,
		"filler\u3164":                         `filler\u3164`,
		"":                                     "",
	} {
		if got := redact.Visible(in); got != want {
			t.Errorf("Visible(%q) = %q, want %q", in, got, want)
		}
	}
}

// BenchmarkHeldKey writes a key that never ends line by line: the cost of a line must not grow with the length of the key.
func BenchmarkHeldKey(b *testing.B) {
	w := redact.New([]string{secret}).Writer(io.Discard)
	io.WriteString(w, "-----BEGIN PRIVATE KEY-----\n")
	line := []byte(strings.Repeat("QUJD", 16) + "\n")
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		if _, err := w.Write(line); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkString(b *testing.B) {
	r := redact.New([]string{secret, "another-secret-value", "third-secret-value"})
	text := strings.Repeat("an ordinary line of output of some program, with sha256:0a0b0c\n", 1000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r.String(text)
	}
}

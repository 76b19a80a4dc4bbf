package redact

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible returns s with everything escaped that a terminal obeys or hides instead of showing it: control characters (and
// with them every escape sequence), text direction marks, zero-width and other invisible characters, and bytes that are
// not UTF-8. Line feeds and tabs stay.
func Visible(s string) string {
	if strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var out strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&out, `\x%02x`, s[0])
		case !hidden(r):
			out.WriteString(s[:n])
		case r == '\r':
			out.WriteString(`\r`)
		case r < 0x80:
			fmt.Fprintf(&out, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			fmt.Fprintf(&out, `\U%08x`, r)
		}
		s = s[n:]
	}
	return out.String()
}

func hidden(r rune) bool {
	switch r {
	case '\n', '\t':
		return false
	case 0x115f, 0x1160, 0x3164, 0xffa0, 0x2800, 0x034f, 0x17b4, 0x17b5: // letters and marks without ink
		return true
	case utf8.RuneError:
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

package worktree

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ignorable are the code points that HFS+ leaves out when it compares names.
const ignorable = "\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u206a\u206b\u206c\u206d\u206e\u206f\ufeff"

// isGitDir reports whether some system that git knows would take name for .git. Git refuses such names in trees.
func isGitDir(name string) bool {
	return matchesDotName(name, ".git", "git~1")
}

// isModules reports whether some system would take name for .gitmodules, which git refuses as a symlink.
func isModules(name string) bool {
	lower := strings.ToLower(name)
	return matchesDotName(name, ".gitmodules", "gitmod~1") || strings.HasPrefix(lower, "gitmod~") || strings.HasPrefix(lower, "gi7eba~")
}

// isJudged reports whether git's strict checks look into a file of that name.
func isJudged(name string) bool {
	lower := strings.ToLower(name)
	return isModules(name) || matchesDotName(name, ".gitattributes", "gitatt~1") ||
		strings.HasPrefix(lower, "gitatt~") || strings.HasPrefix(lower, "gi7d29~")
}

func matchesDotName(name, want, short string) bool {
	plain := strings.Map(func(r rune) rune {
		if strings.ContainsRune(ignorable, r) {
			return -1
		}
		return r
	}, name)
	// NTFS drops spaces and dots at the end, and opens a stream behind a colon; a backslash separates there.
	for part := range strings.SplitSeq(strings.ToLower(plain), "\\") {
		part, _, _ = strings.Cut(part, ":")
		part = strings.TrimRight(part, " .")
		if part == want || part == short {
			return true
		}
	}
	return false
}

// visible makes a path that others chose safe to show and at most 300 bytes long: anything unusual is escaped.
func visible(path string) string {
	const most = 300
	if len(path) > most {
		path = path[:most/2] + "..." + path[len(path)-most/2:]
	}
	for i, r := range path {
		broken := r == utf8.RuneError && !strings.HasPrefix(path[i:], "\uFFFD")
		if broken || r == '"' || r == '\\' || !unicode.IsPrint(r) {
			return strconv.QuoteToASCII(path)
		}
	}
	return path
}

// quotePath writes a path as git's C-style quoting, which every command that reads one path per line understands.
func quotePath(path string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(path) {
		switch c := path[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20 || c >= 0x7f:
			b.WriteByte('\\')
			b.WriteByte('0' + c>>6)
			b.WriteByte('0' + c>>3&7)
			b.WriteByte('0' + c&7)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

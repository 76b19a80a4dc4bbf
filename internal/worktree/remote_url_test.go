package worktree

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseAddress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ in, shown, protocol string }{
		{"https://example.com/a/b.git", "https://example.com/a/b.git", "https"},
		{"https://token@example.com/a.git", "https://example.com/a.git", "https"},
		{"https://user:secret@example.com/a.git", "", ""},
		{"ssh://git@example.com:22/a.git", "ssh://git@example.com:22/a.git", "ssh"},
		{"git@example.com:a/b.git", "git@example.com:a/b.git", "ssh"},
		{"example.com:a", "example.com:a", "ssh"},
		{dir, dir, "file"},
		{"file://" + dir, dir, "file"},
		{".", dir, "file"},
		{"./" + "nosuch", "", ""},
		{"http://example.com/a.git", "", ""},
		{"git://example.com/a.git", "", ""},
		{"ftp://example.com/a.git", "", ""},
		{"file://host/a", "", ""},
		{"ext::sh -c 'touch x'", "", ""},
		{"ext::https://example.com", "", ""},
		{"-oProxyCommand=x", "", ""},
		{"--upload-pack=x", "", ""},
		{"ssh://-oProxyCommand=x/a", "", ""},
		{"https:///a", "", ""},
		{"git@-oProxyCommand=x:a", "", ""},
		{"git@example.com:-x", "", ""},
		{":a", "", ""},
		{"", "", ""},
		{"https://example.com/a\nb", "", ""},
		{"https://example.com/" + strings.Repeat("a", maxURL), "", ""},
	}
	for _, tt := range tests {
		got, err := parseAddress(tt.in, dir)
		if got.shown != tt.shown || got.protocol != tt.protocol {
			t.Errorf("parseAddress(%q) = %+v, %v", tt.in, got, err)
		}
		if tt.protocol == "" && (!errors.Is(err, ErrRemoteURL) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("parseAddress(%q) = %v", tt.in, err)
		}
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"https://a/b", "a:b", "ext::x", "/x", "file:///x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := parseAddress(s, "/nonexistent")
		if err == nil && (strings.HasPrefix(a.url, "-") || strings.Contains(a.url, "::") && !strings.Contains(a.url, "://") && a.protocol != "file" && strings.Index(a.url, "::") == strings.Index(a.url, ":")) {
			t.Errorf("%q is taken as %+v", s, a)
		}
	})
}

func TestSafePath(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	g := &Gate{dir: filepath.Join(root, "state", "gate", "x.git"), top: filepath.Join(root, "project")}
	in := strings.Join([]string{"/usr/bin", ".", "bin", "", g.top, "/nonexistent"}, ":")
	if got, want := g.safePath(in), "/usr/bin:"+hostPath; got != want {
		t.Errorf("safePath(%q) = %q, want %q", in, got, want)
	}
}

package gitfacts_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/gitfacts"
)

func TestBadPath(t *testing.T) {
	good := []string{"a", "src/main.go", ".gitignore", ".github/workflows/x.yml", "sub/.gitattributes", "über/straße.md", "日本語", "a b", "[id].tsx",
		"@scope/x", "console.log", "comet", "$x", "-dash", "CON1", "été"}
	for _, p := range good {
		if why := gitfacts.BadPath(p); why != "" {
			t.Errorf("BadPath(%q) = %q", p, why)
		}
	}
	bad := map[string]string{
		"": "empty", "/etc/passwd": "absolute", "a//b": "empty path element", "a/": "empty path element", "a/../b": "path element ..", "./a": "path element .",
		"a/.git/config": "git keeps", ".GIT": "git keeps", "git~1/x": "git keeps", ".gitmodules": "git keeps", "GITMOD~1": "git keeps",
		"gi7eba~9": "git keeps", ".git.": "dot or a space", "x ": "dot or a space", ".g\u200cit": "invisible", "a\nb": "control", "a\x1b[31m": "control",
		"a\u202eb": "invisible", "a\\b": "separator", "a:b": "separator", "e\u0301te": "decomposed", "\xff": "UTF-8", "sub/NUL.txt": "device",
		"com1": "device", ".ferry/agent.toml": "ferry's own", ".Ferry/x": "ferry's own", strings.Repeat("a", 256): "255", strings.Repeat("a/", 600) + "a": "1,024",
	}
	for p, want := range bad {
		if why := gitfacts.BadPath(p); !strings.Contains(why, want) || why == "" {
			t.Errorf("BadPath(%q) = %q, want %q", p, why, want)
		}
	}
}

func TestBadEntries(t *testing.T) {
	r := newRepo(t)
	r.write("README.md", "x\n")
	r.write("Dir/file", "x\n")
	r.write("gone.", "bad, but only deleted\n")
	base := r.commit("base")
	blob := func(content string) string { return r.gitIn(r.dir, content, "hash-object", "-w", "--stdin") }
	index := []string{
		"0 " + strings.Repeat("0", 40) + "\tgone.",
		"100644 " + blob("x") + "\tdir/other",
		"100644 " + blob("x") + "\treadme.md",
		"100644 " + blob("x") + "\tfine/a",
		"100644 " + blob(strings.Repeat("x", 200)) + "\tlarge",
		"160000 " + string(base) + "\tmodule",
		"120000 " + blob("/etc/passwd") + "\tlinks/absolute",
		"120000 " + blob("../../x") + "\tlinks/out",
		"120000 " + blob("a/../../../x") + "\tlinks/winding",
		"120000 " + blob("../README.md") + "\tlinks/fine",
		"120000 " + blob("../.git/config") + "\tlinks/git",
		"100644 " + blob("x") + "\ttab\there",
	}
	r.gitIn(r.dir, strings.Join(index, "\x00")+"\x00", "update-index", "-z", "--index-info")
	tree := r.git("write-tree")
	commit := ferry.Commit(r.git("commit-tree", tree, "-p", string(base), "-m", "bad"))
	bad, err := r.open().BadEntries(t.Context(), base, commit, 100)
	if err != nil {
		t.Fatal(err)
	}
	want := []gitfacts.Bad{
		{Path: "dir/other", Why: `the same name as "Dir" on systems that ignore case`},
		{Path: "large", Why: "200 bytes are more than 100"},
		{Path: "links/absolute", Why: "symlink out of the tree"},
		{Path: "links/git", Why: "symlink to a file that git obeys"},
		{Path: "links/out", Why: "symlink out of the tree"},
		{Path: "links/winding", Why: "symlink out of the tree"},
		{Path: "module", Why: "submodule"},
		{Path: "readme.md", Why: `the same name as "README.md" on systems that ignore case`},
		{Path: "tab\there", Why: "control character"},
	}
	if diff := cmp.Diff(want, bad); diff != "" {
		t.Errorf("BadEntries (-want +got):\n%s", diff)
	}
}

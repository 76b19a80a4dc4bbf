package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// checked runs every check on one file of inline source and returns the rules it breaks, each with its line.
func checked(t *testing.T, pkg, name, text string) []string {
	t.Helper()
	s, err := parse(pkg, name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	h := house{sources: []source{s}}
	var out []string
	for _, o := range h.check() {
		if o.file != name || o.text == "" {
			t.Errorf("offence without place or text: %+v", o)
		}
		out = append(out, fmt.Sprintf("%s:%d", o.rule, o.line))
	}
	slices.Sort(out)
	return out
}

func TestCheckers(t *testing.T) {
	body := func(lines int) string { return strings.Repeat("\t_ = 0\n", lines) }
	cases := func(n int) string { return "\tswitch n {\n" + strings.Repeat("\tcase 1:\n", n) + "\t}\n" }
	for _, tt := range []struct {
		name, pkg, text string
		want            []string
	}{
		{"clean", "router", "func Choose(ctx context.Context, a, b, c, d int) {}", []string{"doc comment:4"}},
		{"five parameters", "router", "// choose is short.\nfunc choose(ctx context.Context, a, b, c, d, e int) {}", []string{"parameters:5"}},
		{"unnamed parameters", "router", "func choose(int, int, int, int, int) {}", []string{"parameters:4"}},
		{"allowed import", "router", `import "github.com/ferry-fleet/ferry"`, nil},
		{"upward import", "router", `import "github.com/ferry-fleet/ferry/channel"`, []string{"imports:4"}},
		{"sibling import", "worker", `import "github.com/ferry-fleet/ferry/adversary"`, []string{"imports:4"}},
		{"test-only import", "worker", `import "github.com/ferry-fleet/ferry/internal/modelserver"`, []string{"imports:4"}},
		{"test-only import by the command", "cmd/ferry", `import "github.com/ferry-fleet/ferry/internal/ferrytest"`, []string{"imports:4"}},
		{"the command imports roles", "cmd/ferry", `import "github.com/ferry-fleet/ferry/worker"`, nil},
		{"package without a room", "util", "", []string{"imports:2"}},
		{"subpackage of a tree", "coder/tools", `import "github.com/ferry-fleet/ferry/coder/session"`, nil},
		{"subpackage without a room", "router/x", "", []string{"imports:2"}},
		{"init", "router", "func init() {}", []string{"init:4"}},
		{"method called init", "router", "func (r r) init() {}", nil},
		{"long function", "router", "func f() {\n" + body(59) + "}", []string{"function size:4"}},
		{"longest function", "router", "func f() {\n" + body(58) + "}", nil},
		{"long switch", "router", "func f(n int) {\n" + cases(90) + "}", nil},
		{"too long a switch", "router", "func f(n int) {\n" + cases(98) + "}", []string{"function size:4"}},
		{"switch and much else", "router", "func f(n int) {\n" + cases(60) + body(10) + "}", []string{"function size:4"}},
		{"long table", "router", "func f() []int {\n\treturn []int{\n" + strings.Repeat("1,\n", 80) + "}\n}", nil},
		{"closure is no table", "router", "func f() {\n\tx := func() { _ = []int{} \n" + body(80) + "}\n}", []string{"function size:4"}},
		{"long file", "router", strings.Repeat("\n", 500), []string{"file size:503"}},
		{"exported without comment", "router", "func F() {}\ntype T int\nconst C = 1\nvar V = 1\nfunc (T) M() {}\nfunc (t) M() {}", []string{"doc comment:4", "doc comment:5", "doc comment:6", "doc comment:7", "doc comment:8"}},
		{"comment with another name", "router", "// Foo bars.\nfunc F() {}\n\n// Foobar is.\nfunc Foo() {}", []string{"doc comment:5", "doc comment:8"}},
		{"comments", "router", "// F does.\nfunc F() {}\n\n// All of them.\nconst (\n\tA = 1\n\tB = 2\n)\n\nconst (\n\tC = 1 // is one\n)", nil},
		{"group without comment", "router", "const (\n\tA = 1\n)", []string{"doc comment:5"}},
		{"os/exec", "router", `import "os/exec"`, []string{"calls:4"}},
		{"os/exec at home", "internal/process", `import "os/exec"`, nil},
		{"os.WriteFile", "router", "import \"os\"\n\nvar x = os.WriteFile(\"\", nil, 0)", []string{"calls:6"}},
		{"renamed import", "router", "import xos \"os\"\n\nvar x = xos.Create", []string{"calls:6"}},
		{"shadowed import", "router", "import \"os\"\n\nfunc f(os x) { os.Create() }", nil},
		{"clock", "router", "import \"time\"\n\nfunc f() { time.Now() }", []string{"calls:6"}},
		{"default client and logger", "router", "import (\n\"log\"\n\"log/slog\"\n\"net/http\"\n)\n\nfunc f() {\nhttp.Get(\"\")\nslog.Default()\nlog.Printf(\"\")\nhttp.NewRequest()\n}", []string{"calls:11", "calls:12", "calls:13"}},
		{"variables that change", "router", "var a int\nvar b = make(map[int]int)\nvar c = &t{}\nvar d = sync.Mutex{}\nvar e = new(int)", []string{"variables:4", "variables:5", "variables:6", "variables:7", "variables:8"}},
		{"written variables", "router", "var a = []int{1}\nvar m = map[int]int{}\n\nfunc f() {\n\ta[0] = 1\n\tm[1]++\n\tdelete(m, 1)\n\ta = nil\n\tg(&a)\n}", []string{"variables:10", "variables:11", "variables:12", "variables:8", "variables:9"}},
		{"tables and errors", "router", "var _ I = T{}\nvar errX = errors.New(\"x\")\nvar re = regexp.MustCompile(\"x\")\nvar t = map[string]int{}\n\nfunc f() {\n\tt := t\n\tt[\"\"] = 1\n\t_ = t\n}", nil},
		{"embedded files", "router", "//go:embed x\nvar files embed.FS", nil},
	} {
		got := checked(t, tt.pkg, tt.pkg+"/x.go", "// Package x is.\npackage x\n\n"+tt.text)
		slices.Sort(tt.want)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestPackageComment(t *testing.T) {
	for name, tt := range map[string]struct {
		texts []string
		want  int
	}{
		"none":    {[]string{"package x"}, 1},
		"good":    {[]string{"// Package x is.\npackage x", "package x"}, 0},
		"twice":   {[]string{"// Package x is.\npackage x", "// Package x is.\npackage x"}, 1},
		"other":   {[]string{"// This package is.\npackage x"}, 1},
		"command": {[]string{"// Command x is.\npackage main"}, 0},
	} {
		var files []source
		for i, text := range tt.texts {
			s, err := parse("x", fmt.Sprintf("x/%d.go", i), []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, s)
		}
		if got := checkPackageComment(files); len(got) != tt.want {
			t.Errorf("%s: %v, want %d offences", name, got, tt.want)
		}
	}
}

func TestModuleCheck(t *testing.T) {
	const mod = "module x\n\nrequire (\n\tgithub.com/google/go-cmp v0.7.0 // indirect\n\texample.org/new v1.0.0\n\texample.org/old v1.0.0 // indirect\n\texample.org/used/v2 v2.0.0 // indirect\n)\n"
	for name, tt := range map[string]struct {
		mod     string
		imports []string
		want    []string
	}{
		"direct and imported": {mod, []string{"github.com/google/go-cmp/cmp", "example.org/used/v2/sub", "fmt"}, []string{"example.org/new:5", "example.org/used/v2:7"}},
		"one line":            {"require example.org/new v1.0.0\n", nil, []string{"example.org/new:1"}},
		"one replace":         {"replace a => ../b\n", nil, nil},
		"two replaces":        {"replace a => ../b\nreplace c => ../d\n", nil, []string{"=>:1"}},
	} {
		var got []string
		for _, o := range checkModule(tt.mod, tt.imports) {
			got = append(got, fmt.Sprintf("%s:%d", o.name, o.line))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

func TestExceptionsMustBeNeeded(t *testing.T) {
	all := []offence{{rule: "init", file: "a.go", name: "f", text: "x"}, {rule: "init", file: "b.go", name: "g", text: "y"}}
	left := excepted(slices.Clone(all), []exception{{"init", "a.go:f", "because"}, {"init", "gone.go", "because"}, {"init", "b.go", ""}})
	if len(left) != 2 || left[0].rule != "exceptions" || left[1].rule != "exceptions" {
		t.Errorf("left: %v", left)
	}
	if left := excepted(slices.Clone(all), nil); len(left) != 2 {
		t.Errorf("left without exceptions: %v", left)
	}
}

func TestGeneratedFilesAreExempt(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"made.go": "// Code generated by a tool. DO NOT EDIT.\n\npackage x\n", "kept.go": "package x\n", "kept_windows.go": "package x\n", "kept_test.go": "package x\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var h house
	if err := h.parseDir(dir, "x"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range h.sources {
		got = append(got, s.name)
	}
	if want := []string{"x/kept.go", "x/kept_test.go", "x/kept_windows.go"}; !slices.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
}

func TestHouseIsRead(t *testing.T) {
	h, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if len(h.sources) == 0 || h.root == "" || len(h.imports) == 0 {
		t.Fatalf("the house is empty: %d files, root %q", len(h.sources), h.root)
	}
	for _, s := range h.sources {
		if strings.Contains(s.name, "testdata/") {
			t.Errorf("%s was read", s.name)
		}
	}
}

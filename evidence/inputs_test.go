package evidence_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/evidence"
)

func TestRulesMatchTheirExample(t *testing.T) {
	o := &ferry.Order{Checks: []string{"true"}}
	for _, r := range evidence.Rules() {
		for _, status := range []string{"M", "D", "T", "A"} {
			got := evidence.CheckInputs(o, []ferry.File{{Path: r.Example, Status: status}})
			if want := status != "A" || r.Added; (len(got) == 1) != want {
				t.Errorf("rule %q: status %s of %s is an input: %v, want %v", r.Name, status, r.Example, len(got) == 1, want)
			}
		}
	}
}

func TestCheckInputsNamedByACommand(t *testing.T) {
	tests := []struct {
		check, file string
		want        bool
	}{
		{"./scripts/verify", "scripts/verify", true},
		{"sh verify.sh", "verify.sh", true},
		{"sh /work/verify.sh", "verify.sh", true},
		{"cd sub && ./verify.sh", "sub/verify.sh", true},
		{"FOO=1 python3 tool/check.py --all", "tool/check.py", true},
		{"python -m tools.check", "tools/check.py", true},
		{"run --config=conf/x.json", "conf/x.json", true},
		{"diff out.txt want.txt", "want.txt", true},
		{"bash -c './verify.sh | tail'", "verify.sh", true},
		{"bash -c \"./verify.sh\"", "verify.sh", true},
		{"./run < cases.txt", "cases.txt", true},
		{"for f in cases/*.txt; do ./run $f; done", "cases/a.txt", true},
		{"grep -q hello greeting.txt", "greeting.txt", false},
		{"test \"$(cat greeting.txt)\" = hello", "greeting.txt", false},
		{"grep -f patterns.txt greeting.txt", "patterns.txt", true},
		{"cat verify.sh | sh", "verify.sh", true},
		{"go test ./...", "pkg/a.go", false},
		{"go test ./pkg", "pkg/a.go", false},
		{"go vet ./... && go test ./...", "pkg/a_test.go", true},
		{"make test", "src/a.c", false},
	}
	for _, tt := range tests {
		o := &ferry.Order{Checks: []string{tt.check}}
		got := evidence.CheckInputs(o, []ferry.File{{Path: tt.file, Status: "M"}})
		if (len(got) == 1) != tt.want {
			t.Errorf("check %q: %s is an input: %v, want %v", tt.check, tt.file, len(got) == 1, tt.want)
		}
	}
	if got := evidence.CheckInputs(&ferry.Order{}, []ferry.File{{Path: "Makefile", Status: "M"}}); got != nil {
		t.Errorf("without checks there are inputs: %q", got)
	}
}

func TestOutside(t *testing.T) {
	files := []ferry.File{{Path: "README.md"}, {Path: "docs/a.md"}, {Path: "docs/x/b.md"}, {Path: "docsfoo/c.md"}, {Path: "pkg/a.go"}, {Path: "pkg/in/b.go"}}
	tests := []struct {
		touches []string
		want    []string
	}{
		{nil, nil},
		{[]string{"."}, nil},
		{[]string{"**"}, nil},
		{[]string{"docs", "pkg/"}, []string{"README.md", "docsfoo/c.md"}},
		{[]string{"./docs/*.md"}, []string{"README.md", "docs/x/b.md", "docsfoo/c.md", "pkg/a.go", "pkg/in/b.go"}},
		{[]string{"**/*.go", "*.md"}, []string{"docs/a.md", "docs/x/b.md", "docsfoo/c.md"}},
		{[]string{"{docs,pkg}/**", "README.md", "docsfoo/c.md"}, nil},
		{[]string{"["}, []string{"README.md", "docs/a.md", "docs/x/b.md", "docsfoo/c.md", "pkg/a.go", "pkg/in/b.go"}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, evidence.Outside(tt.touches, files)); diff != "" {
			t.Errorf("Outside(%q): -want +got\n%s", tt.touches, diff)
		}
	}
}

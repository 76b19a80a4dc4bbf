package attack_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every test that the threat model names is one of the repository, and it names every test of this package.
func TestThreatModelNamesTests(t *testing.T) {
	page, err := os.ReadFile("../../docs/threat-model.md")
	must(t, err)
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`((?:Test|Fuzz)[A-Z0-9][A-Za-z0-9]*)`").FindAllStringSubmatch(string(page), -1) {
		named[m[1]] = true
	}
	if len(named) < 100 {
		t.Errorf("the page names %d tests", len(named))
	}
	written := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z0-9][A-Za-z0-9]*)\(`)
	found := map[string]bool{}
	must(t, filepath.WalkDir("../..", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (strings.HasPrefix(e.Name(), ".") && e.Name() != ".." && name != "../.." || e.Name() == "testdata"):
			return fs.SkipDir
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range written.FindAllStringSubmatch(string(source), -1) {
			found[m[1]] = true
			if strings.HasPrefix(name, "../../internal/attack/") && !named[m[1]] && m[1] != "TestMain" && m[1] != t.Name() {
				t.Errorf("the page does not name %s", m[1])
			}
		}
		return nil
	}))
	for name := range named {
		if !found[name] {
			t.Errorf("the page names %s, which is not there", name)
		}
	}
}

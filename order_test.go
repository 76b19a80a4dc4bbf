package ferry_test

import (
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry"
)

func TestOrderCheckTouches(t *testing.T) {
	for glob, want := range map[string]string{
		"docs/**": "", "./pkg/x.go": "", "pkg/": "", "*.{go,md}": "", "[a-z]*": "", "a..b": "", "**": "",
		"[": "not closed", "{a,b": "not closed", `a\`: "backslash", "../x": "leaves the repository",
		"a/../../x": "leaves the repository", "..": "leaves the repository", "/etc/*": "absolute path", " /x": "absolute path",
	} {
		o := ferry.Order{Label: "t", Text: "do it", Touches: []string{glob}}
		err := o.Check()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("Check() with touches %q = %v, want %q", glob, err, want)
		}
	}
}

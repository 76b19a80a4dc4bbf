package evidence

import (
	"slices"
	"strings"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/gitfacts"
)

// badFacts joins what a record says of bad paths with what its list of files
// says. A path that the record names is not named twice.
func badFacts(said []string, files []ferry.File) []string {
	out := union(said, nil)
	for _, bad := range badPaths(files) {
		path := line(bad.path) + ": "
		if entry := line(bad.path + ": " + bad.why); !slices.ContainsFunc(out, func(s string) bool {
			return s == entry || strings.HasPrefix(s, path)
		}) {
			out = append(out, entry)
		}
	}
	return out
}

type badPath struct{ path, why string }

// badPaths gives every listed path that may not land and why, as
// far as the list alone tells it. Taking away a bad path is never bad.
func badPaths(files []ferry.File) []badPath {
	var out []badPath
	for _, f := range files {
		if f.Status == "D" {
			continue
		}
		why := gitfacts.BadPath(f.Path)
		if why == "" && isGitlink(f) {
			why = "submodule"
		}
		if why != "" {
			out = append(out, badPath{f.Path, why})
		}
	}
	return out
}

func isGitlink(f ferry.File) bool { return f.ModeNew == "160000" }

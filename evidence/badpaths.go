package evidence

import (
	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/internal/gitfacts"
)

// badPaths gives "path: why" for every listed path that may not land, as far
// as the list alone tells it. Taking away a bad path is never bad.
func badPaths(files []ferry.File) []string {
	var out []string
	for _, f := range files {
		if f.Status == "D" {
			continue
		}
		why := gitfacts.BadPath(f.Path)
		if why == "" && isGitlink(f) {
			why = "a submodule"
		}
		if why != "" {
			out = append(out, f.Path+": "+why)
		}
	}
	return out
}

func isGitlink(f ferry.File) bool { return f.ModeNew == "160000" }

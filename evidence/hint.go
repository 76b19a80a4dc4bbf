package evidence

import (
	"fmt"
	"regexp"
	"strings"
)

// symptom is one way in which a program says that its box lacks something.
// The remedy may hold %s for the first group of the pattern.
type symptom struct {
	pattern *regexp.Regexp
	remedy  string
}

const (
	addPrepare = "the box of a check has no network: add `prepare = \"%s\"` to [box] in .ferry/agent.toml, which fetches once on the base commit"
	addRO      = "`%s` is not in the box: add the directory that holds it to `ro = [...]` in [box] of .ferry/agent.toml"
	addWrite   = "the box may not write to %s: a check writes to its tree, $TMPDIR and $XDG_CACHE_HOME; what it needs there belongs to `prepare` in [box] of .ferry/agent.toml"
)

// symptoms gives the table of what [Hint] knows: the narrower first.
func symptoms() []symptom {
	rows := [][2]string{
		{`go: download(?:ing)? go\d[^\n]*toolchain|golang\.org/toolchain@`, "go.mod wants another Go than the box has: add the directory of that Go to `ro = [...]` in [box] of .ferry/agent.toml"},
		{`(?:module lookup disabled by GOPROXY=off|(?s:proxy\.golang\.org|go: downloading |@v/|@v\d).*(?:network is unreachable|dial tcp|no such host|server misbehaving))`, fmt.Sprintf(addPrepare, "go mod download")},
		{`could not create module cache|failed to initialize build cache`, "the Go caches of the box cannot be written: add `prepare = \"go mod download\"` to [box] in .ferry/agent.toml instead of naming them in `ro`"},
		{`npm (?:error|ERR!) (?:code (?:EAI_AGAIN|ENOTCACHED|ENOTFOUND|ENETUNREACH)|network )`, fmt.Sprintf(addPrepare, "npm ci --ignore-scripts && cp -a node_modules $FERRY_CACHE/") + "; and let the check link it: `ln -s $FERRY_CACHE/node_modules .`"},
		{`Cannot find (?:module|package) '([^'./][^']*)'`, "the node package %s is not in the box: add `prepare = \"npm ci --ignore-scripts && cp -a node_modules $FERRY_CACHE/\"` to [box] in .ferry/agent.toml and let the check link it: `ln -s $FERRY_CACHE/node_modules .`"},
		{`No matching distribution found for|Could not find a version that satisfies the requirement|pip\._vendor\.urllib3`, fmt.Sprintf(addPrepare, "pip install --target $FERRY_CACHE/python -r requirements.txt") + "; it is on PYTHONPATH then"},
		{`(?:ModuleNotFoundError: No module named '?|: No module named )([\w.]+)`, "the Python module %s is not in the box: add `prepare = \"pip install --target $FERRY_CACHE/python -r requirements.txt\"` to [box] in .ferry/agent.toml, or its directory to `ro = [...]`"},
		{`rustup could not choose a version of cargo|rustup default`, "the Rust toolchain is not in the box: add ~/.rustup and ~/.cargo/bin to `ro = [...]` in [box] of .ferry/agent.toml"},
		{`(?s)(?:crates\.io|static\.crates\.io).*(?:Could not resolve|download of|offline mode|failed to download)|no matching package named .* found\s+location searched: crates\.io`, fmt.Sprintf(addPrepare, "cargo fetch")},
		{`linker .(cc|gcc|clang)[^\n]* not found`, addRO},
		{`exec: "([^"\n]+)": executable file not found`, addRO},
		{`make(?:\[\d+\])?: ([^\s:]+): No such file or directory`, addRO},
		{`(?:sh|\S: line \d+|\S: \d+): (?:line )?(?:\d+: )?([^\s:]+): (?:command )?not found`, addRO},
		{`(?:^|\n)[\w./-]*env: .?([\w.+-]+).?: No such file or directory`, addRO},
		{`(?i)read-only file system[^\n]*at path "([^"]+)"`, addWrite},
		{`(?i)(?:cannot create |mkdir |open |touch |'|")?(/[^\s:'"]*)['":]*:? read-only file system`, addWrite},
		{`(?i)read-only file system[^\n'"]*['"]([^'"]+)['"]`, addWrite},
		{`EROFS: read-only file system, \w+ '([^']+)'`, addWrite},
		{`Cannot connect to the Docker daemon`, "there is no Docker in the box: a check that needs containers has to be split from this one"},
		{`(?i)network is unreachable|could not resolve host|temporary failure in name resolution|EAI_AGAIN|no such host`, "the box of a check has no network: fetch what it needs in `prepare = \"...\"` of [box] in .ferry/agent.toml, into $FERRY_CACHE"},
		{`(?:^|\n)(?:\S*sh: )?(?:line )?(?:\d+: )?(\./[^\s:]+): Permission denied`, "%s is not executable in the commit: `git update-index --chmod=+x` it, or run it with its interpreter"},
		{`(?i)(/[^\s:'"]+)['":]*:? permission denied`, "the box may not use %s: add it to `ro = [...]` in [box] of .ferry/agent.toml if the check only reads or runs it"},
		{`(?i)no space left on device`, "the check wrote more than the box has room for: let it clean up, or write less into $TMPDIR"},
		{`(?i)resource temporarily unavailable|cannot fork|can't start new thread`, "the check reached the limit of processes of its box: run it with fewer workers"},
	}
	out := make([]symptom, len(rows))
	for i, r := range rows {
		out[i] = symptom{regexp.MustCompile(r[0]), r[1]}
	}
	return out
}

// Hint gives the line that a person must add when the output of a failed
// check says that its box lacked something, or "" when it does not.
func Hint(output string) string {
	for _, s := range symptoms() {
		m := s.pattern.FindStringSubmatch(output)
		if m == nil {
			continue
		}
		if strings.Contains(s.remedy, "%s") {
			return fmt.Sprintf(s.remedy, clip(m[1]))
		}
		return s.remedy
	}
	return ""
}

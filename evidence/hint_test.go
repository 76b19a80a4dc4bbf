package evidence_test

import (
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry/evidence"
)

// TestHint holds outputs of real programs in a box without network, with a
// read-only root and without the directory that they need.
func TestHint(t *testing.T) {
	tests := []struct{ name, output, want string }{
		{"go module, no network", `go: downloading rsc.io/quote v1.5.2
# x
x.go:1:19: rsc.io/quote@v1.5.2: Get "https://proxy.golang.org/rsc.io/quote/@v/v1.5.2.zip": dial tcp: lookup proxy.golang.org on 192.0.2.53:53: dial udp 192.0.2.53:53: connect: network is unreachable
FAIL	x [setup failed]`, `prepare = "go mod download"`},
		{"go mod download", `go: rsc.io/quote@v1.5.2: Get "https://proxy.golang.org/rsc.io/quote/@v/v1.5.2.mod": dial tcp: lookup proxy.golang.org on 192.0.2.53:53: dial udp 192.0.2.53:53: connect: network is unreachable`, `prepare = "go mod download"`},
		{"go with the proxy off", `go: rsc.io/quote@v1.5.2: module lookup disabled by GOPROXY=off`, `prepare = "go mod download"`},
		{"go toolchain", `go: downloading go1.99.1 (linux/amd64)
go: download go1.99.1: golang.org/toolchain@v0.0.1-go1.99.1.linux-amd64: Get "https://proxy.golang.org/golang.org/toolchain/@v/v0.0.1-go1.99.1.linux-amd64.zip": dial tcp: lookup proxy.golang.org: network is unreachable`, "another Go than the box has"},
		{"go module cache", `go: could not create module cache: mkdir /usr/none: read-only file system`, "Go caches"},
		{"go build cache", `failed to initialize build cache at /usr/none: mkdir /usr/none: read-only file system`, "Go caches"},
		{"cgo", "# runtime/cgo\ncgo: C compiler \"gcc\" not found: exec: \"gcc\": executable file not found in $PATH", "`gcc` is not in the box"},
		{"npm test, no packages", "\n> x@1.0.0 test\n> jest\n\nsh: 1: jest: not found", "`jest` is not in the box"},
		{"npm ci, no network", "npm error code EAI_AGAIN\nnpm error syscall getaddrinfo\nnpm error errno EAI_AGAIN\nnpm error request to https://registry.npmjs.org/jest failed, reason: getaddrinfo EAI_AGAIN registry.npmjs.org", "npm ci"},
		{"npm offline", "npm error code ENOTCACHED\nnpm error request to https://registry.npmjs.org/jest failed: cache mode is 'only-if-cached' but no cached response is available.", "npm ci"},
		{"node", "node:internal/modules/cjs/loader:1210\n  throw err;\n  ^\n\nError: Cannot find module 'left-pad'\nRequire stack:\n- /work/[eval]", "node package left-pad"},
		{"node, a file of the tree", "Error: Cannot find module './lib/nope'\nRequire stack:\n- /work/a.js", ""},
		{"node, write", "Error: EROFS: read-only file system, open '/usr/x'", "may not write to /usr/x"},
		{"node, fetch", "  [cause]: Error: getaddrinfo EAI_AGAIN example.com", "has no network"},
		{"pip", "ERROR: Could not find a version that satisfies the requirement requests==1.0.0 (from versions: none)\nERROR: No matching distribution found for requests==1.0.0", "pip install --target"},
		{"python import", "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\nModuleNotFoundError: No module named 'requests_x'", "Python module requests_x"},
		{"python -m", "/usr/bin/python3: No module named pytest", "Python module pytest"},
		{"python, write", "OSError: [Errno 30] Read-only file system: '/usr/x'", "may not write to /usr/x"},
		{"python, fetch", "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>", "has no network"},
		{"cargo, no network", "    Updating crates.io index\nerror: failed to get `libc` as a dependency of package `x v0.1.0 (/work)`\n\nCaused by:\n  download of config.json failed\n\nCaused by:\n  failed to download from `https://index.crates.io/config.json`\n\nCaused by:\n  [6] Could not resolve hostname (Could not resolve host: index.crates.io)", "cargo fetch"},
		{"cargo offline", "error: no matching package named `libc` found\nlocation searched: crates.io index\nrequired by package `x v0.1.0 (/work)`\nAs a reminder, you're using offline mode (--offline)", "cargo fetch"},
		{"cargo, write", `error: Read-only file system (os error 30) at path "/usr/tX4SktH"`, "may not write to /usr/tX4SktH"},
		{"rustup", "error: rustup could not choose a version of cargo to run, because one wasn't specified explicitly, and no default is configured.", "~/.rustup"},
		{"make", "golangci-lint run\nmake: golangci-lint: No such file or directory\nmake: *** [Makefile:2: test] Error 127", "`golangci-lint` is not in the box"},
		{"dash", "sh: 1: foo-tool: not found", "`foo-tool` is not in the box"},
		{"bash", "bash: line 1: foo-tool: command not found", "`foo-tool` is not in the box"},
		{"env", "/usr/bin/env: 'python3': No such file or directory", "`python3` is not in the box"},
		{"sh, write", "sh: 1: cannot create /usr/x: Read-only file system", "may not write to /usr/x"},
		{"sh, mode", "sh: 1: ./f.sh: Permission denied", "./f.sh is not executable"},
		{"permission", "cat: /root/.netrc: Permission denied", "may not use /root/.netrc"},
		{"git", "fatal: unable to access 'https://example.com/x/y/': Could not resolve host: example.com", "has no network"},
		{"curl", "curl: (6) Could not resolve host: example.com", "has no network"},
		{"docker", "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?", "no Docker"},
		{"full", "cp: error writing '/tmp/x': No space left on device", "more than the box has room for"},
		{"fork", "sh: 1: Cannot fork", "limit of processes"},
		{"an honest failure", "--- FAIL: TestAdd (0.00s)\n    add_test.go:9: Add(1, 2) = 4, want 3\nFAIL", ""},
		{"a word of the test itself", "user: not found\nkey x: not found", ""},
		{"a script", "./x.sh: line 3: foo-tool: command not found", "`foo-tool` is not in the box"},
		{"nothing", "", ""},
	}
	for _, tt := range tests {
		got := evidence.Hint(tt.output)
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: Hint() = %q, want %q in it", tt.name, got, tt.want)
		}
		if strings.Contains(got, "%!") {
			t.Errorf("%s: Hint() = %q is badly formatted", tt.name, got)
		}
	}
}

package worktree

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ferry-fleet/ferry/internal/process"
)

// account runs git with what is the person's own: their account's configuration, keys and helpers. Nothing of a
// repository's configuration is obeyed beyond where a remote is.
type account struct {
	program
	env []string
}

// theirs are the variables of a person that ssh, proxies and credential helpers need.
var theirs = []string{
	"HOME", "USER", "LOGNAME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
	"SSH_AUTH_SOCK", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GNUPGHOME", "PASSWORD_STORE_DIR",
	"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY",
	"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GH_TOKEN", "GITHUB_TOKEN", "GH_CONFIG_DIR",
}

// maxPersonal is how many settings of a person's account are passed on.
const maxPersonal = 256

// newAccount keeps of an environment what a landing needs. Programs are looked up in absolute directories only, and in
// none where an engine's files are.
func (g *Gate) newAccount(env []string) account {
	p := account{program: g.git}
	path := hostPath
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		switch {
		case slices.Contains(theirs, name):
			p.env = append(p.env, v)
		case name == "PATH":
			path = g.safePath(value)
		}
	}
	p.env = append(p.env, "PATH="+path, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false", "SSH_ASKPASS=false", "SSH_ASKPASS_REQUIRE=never",
		"GIT_OPTIONAL_LOCKS=0", "GIT_PAGER=cat", "GIT_EDITOR=false", "GIT_ATTR_NOSYSTEM=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_GRAFT_FILE=/dev/null",
		"GIT_NO_LAZY_FETCH=1", "GIT_LITERAL_PATHSPECS=1")
	return p
}

// safePath leaves out of a PATH what is relative, and what lies in the project or beside the gate.
func (g *Gate) safePath(path string) string {
	var kept []string
	for _, dir := range filepath.SplitList(path) {
		full, err := filepath.EvalSymlinks(dir)
		if err != nil || !filepath.IsAbs(dir) || within(full, g.top) || within(full, filepath.Dir(filepath.Dir(g.dir))) {
			continue
		}
		kept = append(kept, dir)
	}
	return strings.Join(append(kept, hostPath), string(filepath.ListSeparator))
}

func within(path, dir string) bool {
	if dir == "" {
		return false
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return path == dir || strings.HasPrefix(path, dir+string(filepath.Separator))
}

// git runs a git command that reads a configuration, and touches nothing.
func (p account) git(ctx context.Context, args ...string) (string, error) {
	argv := []string{p.path}
	if len(args) > 1 && args[0] == "-C" {
		argv, args = append(argv, args[:2]...), args[2:]
	}
	return execute(ctx, process.Spec{Argv: append(argv, args...), Env: p.env, Dir: "/"}, args[0], 1<<20)
}

// servers reads the settings of the person's account that say how to reach a server, as the variables by which git takes
// them. The command line would show them to everybody on the machine.
func (p account) servers(ctx context.Context) ([]string, error) {
	var env []string
	n := 0
	for _, scope := range []string{"--system", "--global"} {
		out, err := p.git(ctx, "config", scope, "--includes", "--null", "--list")
		if exitCode(err) < 0 {
			return nil, err
		}
		for _, entry := range nulFields(out) {
			key, value, _ := strings.Cut(entry, "\n")
			section, _, _ := strings.Cut(key, ".")
			if section != "credential" && section != "http" && key != "core.sshcommand" && key != "ssh.variant" {
				continue
			}
			if n == maxPersonal {
				return nil, fmt.Errorf("git's configuration of this account has more than %d settings about servers", maxPersonal)
			}
			env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, value))
			if key == "core.sshcommand" {
				env = append(env, "GIT_SSH_COMMAND="+value)
			}
			n++
		}
	}
	return append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(n)), nil
}

// reaching gives the environment and the settings of a command that talks to a remote by one protocol.
func (p account) reaching(ctx context.Context, protocol string) (env, set []string, err error) {
	if protocol == "file" {
		return environment(hostPath), settings, nil
	}
	servers, err := p.servers(ctx)
	if err != nil {
		return nil, nil, err
	}
	env = slices.DeleteFunc(slices.Clone(p.env), func(v string) bool { return strings.HasPrefix(v, "GIT_CONFIG_") })
	has := func(name string) bool {
		return slices.ContainsFunc(slices.Concat(env, servers), func(v string) bool { return strings.HasPrefix(v, name+"=") })
	}
	if !has("GIT_SSH_COMMAND") && !has("GIT_SSH") {
		env = append(env, "GIT_SSH_COMMAND=ssh -oBatchMode=yes -oConnectTimeout=20")
	}
	// The person's own variable is stronger than the setting of the account.
	env = append(servers, env...)
	env = append(env, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ALLOW_PROTOCOL="+protocol)
	for _, s := range settings {
		if key, _, _ := strings.Cut(s, "="); key != "credential.helper" && key != "core.sshCommand" && key != "core.askPass" {
			set = append(set, s)
		}
	}
	return env, set, nil
}

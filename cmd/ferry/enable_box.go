package main

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ferry-fleet/ferry/engines"
	"github.com/ferry-fleet/ferry/internal/process"
)

// describe fills in what the engine and the project's tools need in the box.
func (e *enabling) describe(ctx context.Context) {
	e.describeEngine()
	e.describeTools(ctx)
}

// describeEngine finds the engine's package and its login files.
func (e *enabling) describeEngine() {
	if e.c.Command == "" {
		return
	}
	k := engines.ContractOf(e.c.Command)
	if len(e.c.Args) == 0 {
		e.c.Args = k.Args
	}
	if in, err := engines.Resolve(e.c.Command, environ("PATH")); err == nil {
		e.show(in.Dirs...)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return
	}
	for _, rel := range k.Login {
		path := filepath.Join(home, rel)
		if _, err := os.Stat(path); err == nil && !slices.Contains(e.c.Box.Login, path) {
			e.c.Box.Login = append(e.c.Box.Login, path)
		}
	}
	if len(k.Login) > 0 && len(e.c.Box.Login) == 0 {
		e.warn("%s has no login on this machine (%s): log in with it, or seal its key with `ferry secret set NAME` and name it in %s: env = { NAME = \"secret:NAME\" }", e.c.Command, strings.Join(k.Login, ", "), e.file(configFile))
	}
}

// show adds host paths that the box must show read-only.
func (e *enabling) show(paths ...string) {
	for _, p := range paths {
		if shown(p, e.c.Box.RO) {
			continue
		}
		if err := checkShown(p); err != nil {
			e.warn("%v: runs do not see it; move what they need from it to a directory of its own, and name that under ro in [box]", err)
			continue
		}
		if _, err := os.Stat(p); err == nil {
			e.c.Box.RO = append(e.c.Box.RO, p)
		}
	}
}

// shown reports whether the box shows a path anyway.
func shown(path string, also []string) bool {
	for _, dir := range append([]string{"/usr", "/bin", "/sbin", "/lib", "/lib64"}, also...) {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}

// describeTools looks at the files of the project for the tools that it is
// built with, and shows those that lie outside the system's directories.
func (e *enabling) describeTools(ctx context.Context) {
	for _, t := range []struct {
		file string
		add  func(context.Context)
	}{
		{"go.mod", e.showGo}, {"package.json", e.showNode}, {"Cargo.toml", e.showRust},
		{"pyproject.toml", e.showPython}, {"requirements.txt", e.showPython},
	} {
		if isFile(filepath.Join(e.repo.top, t.file)) {
			t.add(ctx)
		}
	}
}

// goPrepare fills the module cache and the build cache of a Go project, so
// that a check does not compile the standard library. A base whose tests do
// not compile is no reason to refuse the order that mends them.
const goPrepare = "go mod download && go test -run '^$' ./... >$FERRY_CACHE/prepare.log 2>&1 || true"

// showGo shows GOROOT and the module cache, which go only reads from in a box.
func (e *enabling) showGo(ctx context.Context) {
	goTool, err := process.LookPath("go", environ("PATH"))
	if err != nil {
		e.warn("go.mod is here and go is not on PATH: checks that need it will fail")
		return
	}
	var env []string // what go itself would go by
	for _, name := range []string{"GOROOT", "GOPATH", "GOMODCACHE", "GOENV", "GOPROXY"} {
		if v := environ(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	if root, err := toolLine(ctx, []string{goTool, "env", "GOROOT"}, env...); err == nil && root != "" {
		e.show(root)
		e.found("Go in %s", root)
	}
	if cache, err := toolLine(ctx, []string{goTool, "env", "GOMODCACHE"}, env...); err == nil && filepath.IsAbs(cache) {
		if _, err := os.Stat(cache); err == nil {
			e.show(cache)
			e.env("GOMODCACHE=" + cache)
			e.found("Go's module cache in %s, read-only in the box", cache)
			if proxy, err := toolLine(ctx, []string{goTool, "env", "GOPROXY"}, env...); err == nil {
				e.env("GOPROXY=file://" + filepath.Join(cache, "cache", "download") + "," + cmp.Or(proxy, "off"))
			}
		}
	}
	if e.c.Box.Prepare == "" {
		e.c.Box.Prepare = goPrepare
		e.found("what checks build is built ahead on each new base (prepare in [box])")
	}
	e.env("GOTOOLCHAIN=local")
	e.env("GOFLAGS")
}

// showNode shows a node that is installed outside the system's directories.
func (e *enabling) showNode(context.Context) { e.showProgram("node", 2) }

func (e *enabling) showPython(context.Context) { e.showProgram("python3", 2) }

// showProgram shows the installation of a program: the directory so many
// levels above it.
func (e *enabling) showProgram(name string, up int) {
	found, err := process.LookPath(name, environ("PATH"))
	if err != nil {
		e.warn("%s is not on PATH: checks that need it will fail", name)
		return
	}
	real, err := filepath.EvalSymlinks(found)
	if err != nil || shown(real, e.c.Box.RO) {
		return
	}
	root := real
	for range up {
		root = filepath.Dir(root)
	}
	if home, err := os.UserHomeDir(); err == nil && (root == "/" || strings.HasPrefix(home+"/", root+"/")) {
		root = filepath.Dir(real)
	}
	e.show(root)
	e.found("%s in %s", name, root)
}

// showRust shows the toolchains of rustup and the programs of cargo.
func (e *enabling) showRust(context.Context) {
	home, err := os.UserHomeDir()
	if err != nil {
		return
	}
	rustup := filepath.Join(home, ".rustup")
	if v := environ("RUSTUP_HOME"); filepath.IsAbs(v) {
		rustup = v
	}
	if _, err := os.Stat(rustup); err == nil {
		e.show(rustup, filepath.Join(home, ".cargo", "bin"))
		e.env("RUSTUP_HOME=" + rustup)
		e.found("Rust in %s", rustup)
	}
}

func (e *enabling) env(entry string) {
	if !slices.Contains(e.c.Box.Env, entry) {
		e.c.Box.Env = append(e.c.Box.Env, entry)
	}
}

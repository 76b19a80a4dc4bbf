package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// offence is one broken rule. name is the function, variable or import that it is about.
type offence struct {
	rule string
	file string
	line int
	name string
	text string
}

func (o offence) String() string { return fmt.Sprintf("%s:%d: %s: %s", o.file, o.line, o.rule, o.text) }

// source is one parsed file.
type source struct {
	pkg   string // path of the package in the module
	name  string // path of the file in the module
	test  bool
	lines int
	set   *token.FileSet
	ast   *ast.File
}

func (s source) line(p token.Pos) int { return s.set.Position(p).Line }

func (s source) offence(rule string, at token.Pos, name, text string) offence {
	return offence{rule: rule, file: s.name, line: s.line(at), name: name, text: text}
}

// house is everything that go list knows and the parser read.
type house struct {
	root    string
	sources []source
	imports []string // import paths of all files, tests included
}

var load = sync.OnceValues(func() (house, error) {
	cmd := exec.Command("go", "list", "-e", "-json=Dir,ImportPath", modulePath+"/...")
	out, err := cmd.Output()
	if err != nil {
		return house{}, fmt.Errorf("go list: %w", err)
	}
	var h house
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ Dir, ImportPath string }
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return h, nil
		} else if err != nil {
			return house{}, err
		}
		pkg := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, modulePath), "/")
		if pkg == "" {
			pkg = "."
			h.root = p.Dir
		}
		if err := h.parseDir(p.Dir, pkg); err != nil {
			return house{}, err
		}
	}
})

// parseDir reads all files of a package, those for other systems too.
func (h *house) parseDir(dir, pkg string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		s, err := parse(pkg, path.Join(pkg, filepath.Base(name)), text)
		if err != nil {
			return err
		}
		if ast.IsGenerated(s.ast) {
			continue
		}
		h.sources = append(h.sources, s)
		for _, imp := range s.ast.Imports {
			h.imports = append(h.imports, strings.Trim(imp.Path.Value, `"`))
		}
	}
	return nil
}

func parse(pkg, name string, text []byte) (source, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments)
	if err != nil {
		return source{}, err
	}
	return source{pkg: pkg, name: name, test: strings.HasSuffix(name, "_test.go"), lines: bytes.Count(text, []byte("\n")), set: set, ast: file}, nil
}

// byPackage groups the files that are not tests.
func (h house) byPackage() map[string][]source {
	out := map[string][]source{}
	for _, s := range h.sources {
		if !s.test {
			out[s.pkg] = append(out[s.pkg], s)
		}
	}
	return out
}

func (h house) check() []offence {
	var all []offence
	for _, s := range h.sources {
		all = append(all, checkFileSize(s)...)
		if s.test {
			continue
		}
		all = append(all, checkImports(s)...)
		all = append(all, checkDocs(s)...)
		all = append(all, checkFuncs(s)...)
		all = append(all, checkCalls(s)...)
	}
	for _, files := range h.byPackage() {
		all = append(all, checkPackageComment(files)...)
		all = append(all, checkVariables(files)...)
	}
	return all
}

// excepted takes out what exceptions allows, and adds an offence for each line of it that allows nothing.
func excepted(all []offence, allowed []exception) []offence {
	used := make([]bool, len(allowed))
	all = slices.DeleteFunc(all, func(o offence) bool {
		for i, e := range allowed {
			if e.rule == o.rule && (e.where == o.file || e.where == o.file+":"+o.name) {
				used[i] = true
				return true
			}
		}
		return false
	})
	for i, e := range allowed {
		if !used[i] || e.reason == "" {
			all = append(all, offence{rule: "exceptions", file: "internal/archtest/table_test.go", line: 1,
				text: fmt.Sprintf("the exception %q for %s is not needed or has no reason", e.rule, e.where)})
		}
	}
	return all
}

func TestHouse(t *testing.T) {
	h, err := load()
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(h.root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	all := append(h.check(), checkModule(string(mod), h.imports)...)
	all = append(all, checkClocks(h.sources)...)
	all = excepted(all, exceptions)
	slices.SortFunc(all, func(a, b offence) int { return strings.Compare(a.String(), b.String()) })
	for i, o := range all {
		if i == maxOffencesShown {
			t.Errorf("and %d more", len(all)-i)
			break
		}
		t.Error(o)
	}
}

package archtest

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

func checkCalls(s source) (out []offence) {
	names := map[string]string{} // name in the file → import path
	for _, imp := range s.ast.Imports {
		p := strings.Trim(imp.Path.Value, `"`)
		names[path.Base(p)] = p
		if imp.Name != nil {
			delete(names, path.Base(p))
			names[imp.Name.Name] = p
		}
		for _, c := range calls {
			if c.path == p && c.names == "" && !slices.Contains(strings.Fields(c.home), s.pkg) {
				out = append(out, s.offence("calls", imp.Pos(), p, "import of "+p+": "+c.why))
			}
		}
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := sel.X.(*ast.Ident)
		if !ok || x.Obj != nil { // an object of the file shadows the import
			return true
		}
		for _, c := range calls {
			if c.path != names[x.Name] || !slices.Contains(strings.Fields(c.names), sel.Sel.Name) || slices.Contains(strings.Fields(c.home), s.pkg) {
				continue
			}
			if c.path == "time" && clocks[s.name] != "" {
				continue
			}
			name := x.Name + "." + sel.Sel.Name
			out = append(out, s.offence("calls", sel.Pos(), name, name+": "+c.why))
		}
		return true
	})
	return out
}

// checkClocks finds lines of clocks that allow nothing.
func checkClocks(sources []source) (out []offence) {
	reads := map[string]bool{}
	for _, s := range sources {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && ident(sel.X) == "time" && slices.Contains([]string{"Now", "Since", "Until"}, sel.Sel.Name) {
				reads[s.name] = true
			}
			return true
		})
	}
	for name := range clocks {
		if !reads[name] {
			out = append(out, offence{rule: "clocks", file: name, line: 1, text: "is listed as reading the clock in internal/archtest and does not"})
		}
	}
	return out
}

var (
	requireLine = regexp.MustCompile(`(?m)^(?:require\s+|\t)([^\s()]+\.[^\s()]+)\s+v\S+(\s*// indirect)?$`)
	replaceLine = regexp.MustCompile(`=>`)
)

// checkModule compares go.mod and what the files import with the list of dependencies.
func checkModule(mod string, imports []string) (out []offence) {
	report := func(module, text string) {
		out = append(out, offence{rule: "dependencies", file: "go.mod", line: lineOf(mod, module), name: module, text: text})
	}
	var modules []string
	direct := map[string]bool{}
	for _, m := range requireLine.FindAllStringSubmatch(mod, -1) {
		modules = append(modules, m[1])
		direct[m[1]] = m[2] == ""
	}
	for _, imp := range imports {
		best := ""
		for _, m := range modules {
			if (imp == m || strings.HasPrefix(imp, m+"/")) && len(m) > len(best) {
				best = m
			}
		}
		if best != "" {
			direct[best] = true
		}
	}
	for _, m := range modules {
		if direct[m] && dependencies[m] == "" {
			report(m, m+" is imported directly and is not in the list of internal/archtest")
		}
	}
	if n := len(replaceLine.FindAllString(mod, -1)); n > maxReplaces {
		report("=>", "more than one replace line")
	}
	return out
}

func lineOf(text, part string) int {
	before, _, _ := strings.Cut(text, part)
	return strings.Count(before, "\n") + 1
}

package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
)

func checkFileSize(s source) []offence {
	if s.lines <= maxFileLines {
		return nil
	}
	text := fmt.Sprintf("file has %d lines, at most %d are allowed", s.lines, maxFileLines)
	return []offence{{rule: "file size", file: s.name, line: s.lines, text: text}}
}

func checkFuncs(s source) (out []offence) {
	for _, decl := range s.ast.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := funcName(fn)
		if fn.Name.Name == "init" && fn.Recv == nil {
			out = append(out, s.offence("init", fn.Pos(), name, "no init functions: cmd/ferry builds, others receive"))
		}
		if n := parameters(fn); n > maxParameters {
			out = append(out, s.offence("parameters", fn.Pos(), name, fmt.Sprintf("%s has %d parameters, at most %d are allowed besides the context: use a struct", name, n, maxParameters)))
		}
		if fn.Body == nil {
			continue
		}
		lines, limit := s.span(fn), maxFuncLines
		if s.isTable(fn.Body) {
			limit = maxTableLines
		}
		if lines > limit {
			out = append(out, s.offence("function size", fn.Pos(), name, fmt.Sprintf("%s has %d lines, at most %d are allowed", name, lines, limit)))
		}
	}
	return out
}

func (s source) span(n ast.Node) int { return s.line(n.End()) - s.line(n.Pos()) + 1 }

// isTable reports whether one switch or one composite literal fills the body but for a few lines.
func (s source) isTable(body *ast.BlockStmt) bool {
	largest := 0
	for _, stmt := range body.List {
		switch stmt := stmt.(type) {
		case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			largest = max(largest, s.span(stmt))
		case *ast.ReturnStmt, *ast.AssignStmt, *ast.DeclStmt, *ast.RangeStmt:
			ast.Inspect(stmt, func(n ast.Node) bool {
				if lit, ok := n.(*ast.CompositeLit); ok {
					largest = max(largest, s.span(lit))
				}
				_, inside := n.(*ast.BlockStmt)
				return !inside
			})
		}
	}
	return s.span(body)-largest <= maxAroundTable
}

func parameters(fn *ast.FuncDecl) (n int) {
	for _, field := range fn.Type.Params.List {
		if sel, ok := field.Type.(*ast.SelectorExpr); ok && sel.Sel.Name == "Context" && ident(sel.X) == "context" {
			continue
		}
		n += max(1, len(field.Names))
	}
	return n
}

func funcName(fn *ast.FuncDecl) string {
	if recv := receiver(fn); recv != "" {
		return recv + "." + fn.Name.Name
	}
	return fn.Name.Name
}

// receiver returns the name of the receiver's type, or "".
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}
	t := fn.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		default:
			return ident(t)
		}
	}
}

func ident(e ast.Expr) string {
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

func checkPackageComment(files []source) []offence {
	var with []source
	for _, s := range files {
		if s.ast.Doc != nil {
			with = append(with, s)
		}
	}
	first := files[0]
	if len(with) == 0 {
		return []offence{first.offence("package comment", first.ast.Package, first.pkg, "package "+first.pkg+" has no package comment")}
	}
	if len(with) > 1 {
		return []offence{with[1].offence("package comment", with[1].ast.Package, first.pkg, "the package comment is in "+with[0].name+" already")}
	}
	s := with[0]
	want := "Package " + s.ast.Name.Name + " "
	if s.ast.Name.Name == "main" {
		want = "Command "
	}
	if text := s.ast.Doc.Text(); !strings.HasPrefix(text, want) {
		return []offence{s.offence("package comment", s.ast.Package, first.pkg, fmt.Sprintf("the package comment does not begin with %q", want))}
	}
	return nil
}

func checkDocs(s source) (out []offence) {
	missing := func(at token.Pos, name string) {
		out = append(out, s.offence("doc comment", at, name, name+" has no doc comment that begins with its name"))
	}
	for _, decl := range s.ast.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			recv := receiver(d)
			if d.Name.IsExported() && (recv == "" || ast.IsExported(recv)) && !begins(d.Doc, d.Name.Name) {
				missing(d.Pos(), funcName(d))
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if name, ok := undocumented(d, spec); !ok {
					missing(spec.Pos(), name)
				}
			}
		}
	}
	return out
}

// undocumented returns the first exported name of spec and whether it is documented well enough. In a group a line of its
// own or a comment for the whole group will do.
func undocumented(d *ast.GenDecl, spec ast.Spec) (string, bool) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		doc := spec.Doc
		if doc == nil && !d.Lparen.IsValid() {
			doc = d.Doc
		}
		return spec.Name.Name, !spec.Name.IsExported() || begins(doc, spec.Name.Name)
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			if !name.IsExported() {
				continue
			}
			if !d.Lparen.IsValid() {
				return name.Name, begins(d.Doc, name.Name)
			}
			if spec.Doc == nil && spec.Comment == nil && d.Doc == nil {
				return name.Name, false
			}
		}
	}
	return "", true
}

func begins(doc *ast.CommentGroup, name string) bool {
	if doc == nil {
		return false
	}
	rest, ok := strings.CutPrefix(doc.Text(), name)
	return ok && (rest == "" || strings.ContainsRune(" \n,.:'", rune(rest[0])))
}

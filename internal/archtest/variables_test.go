package archtest

import (
	"go/ast"
	"go/token"
	"strings"
)

// checkVariables finds the package-level variables that can change: those that some function writes to or takes the
// address of, those without a value, and those whose value is made to be changed.
func checkVariables(files []source) (out []offence) {
	vars := map[string]*ast.ValueSpec{}
	where := map[string]source{}
	for _, s := range files {
		for _, decl := range s.ast.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.VAR {
				continue
			}
			for _, spec := range d.Specs {
				v := spec.(*ast.ValueSpec)
				for i, name := range v.Names {
					if name.Name == "_" || embedded(d, v) {
						continue
					}
					vars[name.Name], where[name.Name] = v, s
					if why := changeable(v, i); why != "" {
						out = append(out, s.offence("variables", name.Pos(), name.Name, "package-level variable "+name.Name+" "+why))
					}
				}
			}
		}
	}
	for _, s := range files {
		for _, w := range writes(s.ast) {
			v, ok := vars[w.Name]
			if ok && (w.Obj == nil || w.Obj.Decl == v) {
				out = append(out, s.offence("variables", w.Pos(), w.Name, "package-level variable "+w.Name+" (of "+where[w.Name].name+") can change: it is assigned to or its address is taken"))
			}
		}
	}
	return out
}

func embedded(d *ast.GenDecl, v *ast.ValueSpec) bool {
	for _, doc := range []*ast.CommentGroup{d.Doc, v.Doc} {
		if doc == nil {
			continue
		}
		for _, c := range doc.List {
			if strings.HasPrefix(c.Text, "//go:embed ") {
				return true
			}
		}
	}
	return false
}

// changeable says why the i-th name of v is mutable by its making, or "".
func changeable(v *ast.ValueSpec, i int) string {
	if len(v.Values) == 0 {
		return "has no value, so something must change it"
	}
	value := v.Values[min(i, len(v.Values)-1)]
	switch x := value.(type) {
	case *ast.UnaryExpr:
		if x.Op == token.AND {
			return "is a pointer to something that can change"
		}
	case *ast.CallExpr:
		if fn := ident(x.Fun); fn == "make" || fn == "new" {
			return "is made to be changed"
		}
	case *ast.CompositeLit:
		if sel, ok := x.Type.(*ast.SelectorExpr); ok && (ident(sel.X) == "sync" || ident(sel.X) == "atomic") {
			return "is made to be changed"
		}
	}
	return ""
}

// writes returns the variables that a file assigns to, deletes from, or takes the address of.
func writes(file *ast.File) (out []*ast.Ident) {
	add := func(e ast.Expr) {
		if id := base(e); id != nil {
			out = append(out, id)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				return true
			}
			for _, left := range n.Lhs {
				add(left)
			}
		case *ast.IncDecStmt:
			add(n.X)
		case *ast.RangeStmt:
			if n.Tok == token.ASSIGN {
				add(n.Key)
				add(n.Value)
			}
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				add(n.X)
			}
		case *ast.CallExpr:
			if fn := ident(n.Fun); len(n.Args) > 0 && (fn == "delete" || fn == "clear" || fn == "copy") {
				add(n.Args[0])
			}
		}
		return true
	})
	return out
}

// base returns the variable at the root of x, x.f, x[i], (x) and *x.
func base(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return nil
		}
	}
}

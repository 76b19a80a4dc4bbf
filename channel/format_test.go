package channel_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
)

var update = flag.Bool("update", false, "write the tables of docs/channel-format.md")

const (
	formatDoc   = "../docs/channel-format.md"
	tablesBegin = "<!-- tables: go test ./channel -run TestFormatDoc -update -->\n"
	tablesEnd   = "<!-- end of tables -->\n"
)

// The field tables of the format's page are those of the code.
func TestFormatDoc(t *testing.T) {
	data, err := os.ReadFile(formatDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), tablesBegin)
	_, after, closed := strings.Cut(rest, tablesEnd)
	if !ok || !closed {
		t.Fatalf("%s has no place for the tables", formatDoc)
	}
	want := before + tablesBegin + bodyTables(t) + tablesEnd + after
	if *update {
		if err := os.WriteFile(formatDoc, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("%s is stale; run `go test ./channel -run TestFormatDoc -update` (-want +got):\n%s", formatDoc, diff)
	}
}

// bodyTables has one table for each type of record, and one for each type of value inside of them.
func bodyTables(t *testing.T) string {
	t.Helper()
	docs := fieldComments(t)
	var out strings.Builder
	var inner []reflect.Type
	seen := map[reflect.Type]bool{}
	for _, typ := range ferry.Types() {
		rt := reflect.TypeOf(ferry.New(typ)).Elem()
		fmt.Fprintf(&out, "\n### `%s`\n\n%s", typ, bodyTable(rt, docs, seen, &inner))
	}
	for i := 0; i < len(inner); i++ {
		fmt.Fprintf(&out, "\n### A value: %s\n\n%s", inner[i].Name(), bodyTable(inner[i], docs, seen, &inner))
	}
	return out.String() + "\n"
}

func bodyTable(rt reflect.Type, docs map[string]string, seen map[reflect.Type]bool, inner *[]reflect.Type) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n\n| key | value | always there | meaning |\n|---|---|---|---|\n", docs[rt.Name()])
	for i := range rt.NumField() {
		f := rt.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		always := "yes"
		if options != "" {
			always = ""
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", name, valueOf(f.Type, seen, inner), always, docs[rt.Name()+"."+f.Name])
	}
	return out.String()
}

func valueOf(t reflect.Type, seen map[reflect.Type]bool, inner *[]reflect.Type) string {
	switch t {
	case reflect.TypeFor[ferry.RecordID]():
		return "record id (64 hex) or empty"
	case reflect.TypeFor[ferry.Commit]():
		return "git object id (40 or 64 hex) or empty"
	case reflect.TypeFor[ferry.WriterID]():
		return "writer id"
	case reflect.TypeFor[ferry.RunID]():
		return "run id"
	case reflect.TypeFor[ferry.AgentName](), reflect.TypeFor[ferry.Label]():
		return "name"
	}
	switch t.Kind() {
	case reflect.Slice:
		return "list of " + valueOf(t.Elem(), seen, inner)
	case reflect.Struct:
		if !seen[t] {
			seen[t] = true
			*inner = append(*inner, t)
		}
		return "object: " + t.Name()
	case reflect.Int64:
		return "integer"
	case reflect.Bool:
		return "true or false"
	}
	return "text"
}

// fieldComments reads what the source says of types and their fields.
func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../*.go")
	if err != nil {
		t.Fatal(err)
	}
	docs := map[string]string{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range decl.Specs {
				typ, ok := s.(*ast.TypeSpec)
				if !ok {
					continue
				}
				docs[typ.Name.Name] = oneLine(decl.Doc)
				st, ok := typ.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, field := range st.Fields.List {
					for _, n := range field.Names {
						docs[typ.Name.Name+"."+n.Name] = oneLine(field.Comment)
					}
				}
			}
		}
	}
	return docs
}

func oneLine(c *ast.CommentGroup) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(c.Text()), " "), "|", "\\|")
}

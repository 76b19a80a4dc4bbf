package provider

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func at(index int, p piece) piece {
	p.index, p.indexed = index, true
	return p
}

func TestAssemble(t *testing.T) {
	for _, tt := range []struct {
		name   string
		pieces []piece
		cut    bool
		want   []string // id name input, or id name !fault raw
	}{
		{"one call", []piece{at(0, piece{id: "a", name: "read"}), at(0, piece{args: `{"x":`}), at(0, piece{args: `1}`})}, false, []string{`a read {"x":1}`}},
		{"two calls at once", []piece{
			at(0, piece{id: "a", name: "read"}), at(1, piece{id: "b", name: "ls"}),
			at(0, piece{args: `{"x":1}`}), at(1, piece{args: `{"y":2}`}),
		}, false, []string{`a read {"x":1}`, `b ls {"y":2}`}},
		{"rule 1: a known id, whatever the index says", []piece{at(0, piece{id: "a", name: "read", args: `{"x":`}), at(7, piece{id: "a", args: `1}`})}, false, []string{`a read {"x":1}`}},
		{"rule 2: ids without an index", []piece{{id: "a", name: "read", args: `{}`}, {id: "b", name: "read", args: `{"x":2}`}}, false, []string{`a read {}`, `b read {"x":2}`}},
		{"rule 2: another id on the same index", []piece{at(0, piece{id: "a", name: "read", args: `{"x":1}`}), at(0, piece{id: "b", name: "read"}), at(0, piece{args: `{"x":2}`})}, false, []string{`a read {"x":1}`, `b read {"x":2}`}},
		{"rule 2: the id comes late", []piece{at(0, piece{name: "read"}), at(0, piece{id: "a", args: `{"x":1}`})}, false, []string{`a read {"x":1}`}},
		{"rule 3: an index alone", []piece{at(0, piece{name: "read"}), at(1, piece{name: "ls"}), at(0, piece{args: `{"x":1}`})}, false, []string{`call_0 read {"x":1}`, `call_1 ls {}`}},
		{"rule 3: neither", []piece{{name: "read"}, {args: `{"x":`}, {args: `1}`}}, false, []string{`call_0 read {"x":1}`}},
		{"rule 3: neither, another name after a whole call", []piece{{name: "read", args: `{"x":1}`}, {name: "ls", args: `{}`}}, false, []string{`call_0 read {"x":1}`, `call_1 ls {}`}},
		{"rule 3: neither, the same name with other arguments", []piece{{name: "read", args: `{"x":1}`}, {name: "read", args: `{"x":2}`}}, false, []string{`call_0 read {"x":1}`, `call_1 read {"x":2}`}},
		{"rule 3: neither, the same again", []piece{{name: "read", args: `{"x":1}`}, {name: "read", args: `{"x":1}`}}, false, []string{`call_0 read {"x":1}`}},
		{"rule 3: one index for whole calls", []piece{at(0, piece{name: "read", args: `{"x":1}`}), at(0, piece{name: "ls", args: `{}`})}, false, []string{`call_0 read {"x":1}`, `call_1 ls {}`}},
		{"rule 4: the name comes last", []piece{at(0, piece{id: "a", args: `{"x":1}`}), at(0, piece{name: "read"})}, false, []string{`a read {"x":1}`}},
		{"rule 4: the name comes again", []piece{at(0, piece{id: "a", name: "read", args: `{"x`}), at(0, piece{id: "a", name: "read", args: `":1}`})}, false, []string{`a read {"x":1}`}},
		{"rule 5: the arguments start again", []piece{at(0, piece{id: "a", name: "read", args: `{}`}), at(0, piece{args: ` {"x":`}), at(0, piece{args: `1}`})}, false, []string{`a read {"x":1}`}},
		{"rule 5: braces in a string start nothing", []piece{at(0, piece{id: "a", name: "read", args: `{"x":"}{\"`}), at(0, piece{args: `{"}`})}, false, []string{`a read {"x":"}{\"{"}`}},
		{"rule 5: the whole at the end", []piece{at(0, piece{id: "a", name: "read", args: `{"x":`}), at(0, piece{id: "a", args: `{"x":1}`, whole: true})}, false, []string{`a read {"x":1}`}},
		{"rule 6: nothing", []piece{{id: "a", name: "ls", args: " "}}, false, []string{`a ls {}`}},
		{"rule 6: no object", []piece{{id: "a", name: "ls", args: `[1]`}, {id: "b", name: "ls", args: `{"x"`}, {id: "c", name: "ls", args: `{"x":1} and more`}}, false, []string{
			`a ls !malformed [1]`, `b ls !malformed {"x"`, `c ls !malformed {"x":1} and more`,
		}},
		{"rule 6: cut", []piece{{id: "a", name: "ls", args: `{"x":1}`}, {id: "b", name: "ls", args: `{"x":"`}}, true, []string{`a ls {"x":1}`, `b ls !truncated {"x":"`}},
		{"rule 6: cut before the arguments", []piece{{id: "a", name: "ls"}}, true, []string{`a ls !truncated `}},
		{"rule 7: no name", []piece{{id: "a", args: `{"x":1}`}}, false, []string{`a  !malformed {"x":1}`}},
		{"one id for two whole calls", []piece{
			at(0, piece{id: "a", name: "ls", args: `{}`, whole: true}), at(1, piece{id: "a", name: "ls", args: `{"x":1}`, whole: true}),
			at(2, piece{id: "a", name: "ls", args: `{}`, whole: true}),
		}, false, []string{`a ls {}`, `call_0 ls {"x":1}`}},
		{"an id like one of ours", []piece{at(0, piece{name: "ls"}), at(1, piece{id: "call_0", name: "ls"})}, false, []string{`call_1 ls {}`, `call_0 ls {}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var a assembler
			for _, p := range tt.pieces {
				if _, err := a.add(p); err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			for _, c := range a.finish(tt.cut) {
				s := c.ID + " " + c.Name + " " + string(c.Input)
				if c.Fault != "" {
					s += "!" + string(c.Fault) + " " + c.Raw
				}
				got = append(got, s)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestAssembleBounds(t *testing.T) {
	many := func(n int) (out []piece) {
		for i := range n {
			out = append(out, at(i, piece{name: "x"}))
		}
		return out
	}
	half := strings.Repeat("x", maxArgs/2)
	for _, tt := range []struct {
		name   string
		pieces []piece
		ok     bool
	}{
		{"128 calls", many(maxCalls), true},
		{"129 calls", many(maxCalls + 1), false},
		{"the longest arguments", []piece{{args: half}, {args: half}}, true},
		{"longer arguments", []piece{{args: half}, {args: half + "x"}}, false},
		{"the longest id and name", []piece{{id: strings.Repeat("x", maxShort), name: strings.Repeat("x", maxShort)}}, true},
		{"a longer id", []piece{{id: strings.Repeat("x", maxShort+1)}}, false},
		{"a longer name", []piece{{name: strings.Repeat("x", maxShort+1)}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var a assembler
			var err error
			for _, p := range tt.pieces {
				if _, e := a.add(p); e != nil {
					err = e
				}
			}
			if (err == nil) != tt.ok || err != nil && !errors.Is(err, errBound) {
				t.Errorf("err %v, want none: %v", err, tt.ok)
			}
		})
	}
}

// FuzzAssemble reads pieces from text: one a line, "id index name args", "-" for
// what is missing. Whatever comes, what may be run is one object, ids are unique,
// and the sizes of the pieces of arguments make no difference.
func FuzzAssemble(f *testing.F) {
	f.Add("a 0 read {\"x\":\n- 0 - 1}\nb 0 ls {}{\"y\":2}\n- - ls {}", false)
	f.Add("- 1 - \"\\\n- - read {\n- 1 ls {}", true)
	f.Fuzz(func(t *testing.T, in string, cut bool) {
		var whole, bytewise assembler
		for line := range strings.Lines(in) {
			p, ok := pieceOf(strings.TrimSuffix(line, "\n"))
			if !ok {
				continue
			}
			if _, err := whole.add(p); err != nil {
				return
			}
			first := p
			first.args = ""
			if _, err := bytewise.add(first); err != nil {
				t.Fatal(err)
			}
			for i := range len(p.args) {
				bytewise.last.args.write(p.args[i : i+1])
			}
		}
		seen := map[string]bool{}
		got := whole.finish(cut)
		for _, c := range got {
			var object map[string]any
			if c.Input != nil && (json.Unmarshal(c.Input, &object) != nil || object == nil || c.Name == "") {
				t.Errorf("a call that may run: %+v", c)
			}
			if (c.Input == nil) != (c.Fault != "") {
				t.Errorf("a call without both: %+v", c)
			}
			if c.ID == "" || seen[c.ID] {
				t.Errorf("the id %q comes twice", c.ID)
			}
			seen[c.ID] = true
		}
		// Where a piece is placed may depend on the arguments it has; nothing else may.
		if !strings.Contains(in, "- -") {
			if d := cmp.Diff(got, bytewise.finish(cut)); d != "" {
				t.Errorf("the sizes of the pieces make a difference (-whole +bytewise):\n%s", d)
			}
		}
	})
}

func pieceOf(line string) (piece, bool) {
	f := strings.SplitN(line, " ", 4)
	if len(f) != 4 {
		return piece{}, false
	}
	p := piece{args: f[3]}
	if f[0] != "-" {
		p.id = f[0]
	}
	if f[1] != "-" {
		n, err := strconv.Atoi(f[1])
		if err != nil {
			n = len(f[1])
		}
		p.index, p.indexed = n, true
	}
	if f[2] != "-" {
		p.name = f[2]
	}
	return p, true
}

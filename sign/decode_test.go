package sign_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/sign"
)

// everything has a field of every kind that the scanner stores by itself.
type everything struct {
	Text  string           `json:"text"`
	Named sign.WriterID    `json:"named"`
	ID    ferry.RecordID   `json:"id"`
	Yes   bool             `json:"yes"`
	Int   int64            `json:"int"`
	Tiny  int8             `json:"tiny"`
	Uint  uint64           `json:"uint"`
	Small uint8            `json:"small"`
	Inner everythingInner  `json:"inner"`
	List  []string         `json:"list"`
	IDs   []ferry.RecordID `json:"ids"`
	Deep  []everything     `json:"deep"`
	Grid  [][]int          `json:"grid"`
}

type everythingInner struct {
	A string `json:"a"`
	B int64  `json:"b"`
}

// elsewhere has what only encoding/json stores.
type elsewhere struct {
	body
	Bytes  []byte            `json:"bytes"`
	Number json.Number       `json:"number"`
	Quoted int               `json:"quoted,string"`
	Float  float64           `json:"float"`
	Array  [2]int            `json:"array"`
	IDs    map[string]*inner `json:"ids"`
}

var decodeTargets = []func() any{
	func() any { return &everything{} },
	func() any { return &elsewhere{} },
	func() any { return &body{} },
	func() any { return &struct{}{} },
	func() any { return &ferry.Order{} },
	func() any { return &ferry.Result{} },
	func() any { return &ferry.Root{} },
	func() any { return &ferry.Verdict{} },
	// One that holds something already.
	func() any {
		return &everything{Text: "old", Int: 7, List: []string{"a", "b", "c"}, Deep: make([]everything, 2), Inner: everythingInner{A: "old"}}
	},
}

func sameDecode(t *testing.T, data []byte) {
	t.Helper()
	for i, target := range decodeTargets {
		for _, unknown := range []sign.UnknownFields{sign.Refuse, sign.Ignore} {
			want, got := target(), target()
			wantIgnored, wantErr := decodeTwice(data, want, unknown)
			gotIgnored, gotErr := sign.DecodeJSON(data, got, unknown)
			if fmt.Sprint(wantErr) != fmt.Sprint(gotErr) || errors.Is(wantErr, sign.ErrMalformed) != errors.Is(gotErr, sign.ErrMalformed) {
				t.Fatalf("target %d, DecodeJSON(%q) = %v, want %v", i, data, gotErr, wantErr)
			}
			if gotErr == nil && (wantIgnored != gotIgnored || !reflect.DeepEqual(want, got)) {
				t.Fatalf("target %d, DecodeJSON(%q) = %d, want %d, (-want +got):\n%s", i, data, gotIgnored, wantIgnored, cmp.Diff(want, got, cmp.AllowUnexported(body{}, elsewhere{})))
			}
		}
	}
}

var decodeCases = []string{
	`{"text":"a\u0062c\ud83d\ude00\/","named":"x","int":-5,"tiny":127,"uint":9007199254740991,"small":255,"yes":true}`,
	`{"tiny":128}`, `{"tiny":-129}`, `{"small":256}`, `{"uint":-1}`, `{"int":"5"}`, `{"int":true}`, `{"yes":1}`, `{"text":1}`, `{"text":[]}`, `{"text":{}}`,
	`{"text":null,"int":null,"yes":null,"id":null,"inner":null,"list":null,"deep":null,"grid":null}`,
	`{"id":"` + strings.Repeat("ab", 32) + `","ids":["` + strings.Repeat("\\u0061b", 32) + `",""]}`,
	`{"id":"` + strings.Repeat("AB", 32) + `"}`, `{"id":"x"}`, `{"id":5}`, `{"id":[1]}`, `{"ids":["x"]}`, `{"ids":[null]}`, `{"ids":{}}`,
	`{"inner":{"a":"x","b":2}}`, `{"inner":{"b":2,"a":"x","c":[{"d":1}]}}`, `{"inner":{"a":"x","a":"y"}}`, `{"inner":[{"zz":1}]}`, `{"inner":{"a":1,"b":"x","zz":2}}`,
	`{"list":[]}`, `{"list":["x"]}`, `{"list":["x","y","z","w"]}`, `{"list":{"zz":1}}`, `{"list":"x"}`, `{"list":[1,{"zz":1}]}`,
	`{"deep":[{"text":"x"},{"deep":[{"int":1}]},{"zz":1}]}`, `{"grid":[[1,2],[],[3]]}`, `{"grid":[[1,2],3]}`, `{"grid":[null,[1]]}`,
	`{"zz":1,"zy":2,"text":"x"}`, `{"zz":1,"zz":2}`, `{"text":"x","text":"y"}`, `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"i":2}`,
	`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"a":2}`,
	`{"bytes":"aGk=","number":5,"quoted":"5","float":3,"array":[1,2,3],"ids":{"a":{"n":1},"b":null}}`, `{"ids":{"a":{"zz":1}}}`, `{"quoted":5}`, `{"bytes":"!"}`,
	`{"text":"` + strings.Repeat("a", sign.MaxString) + `"}`, `{"text":"` + strings.Repeat("a", sign.MaxString+9) + `"}`,
	`{"text":"` + strings.Repeat(`\n`, sign.MaxString-1) + `😀"}`, `{"text":"` + strings.Repeat("a", sign.MaxString-1) + `\u00e9"}`,
	`{"text":"` + strings.Repeat("a", sign.MaxString) + "\x01" + `"}`, `{"text":"` + strings.Repeat("a", sign.MaxString),
	`{"label":"t-1","text":"x","depends_on":[""],"attachments":[{"name":"a","size":1}],"land":true}`,
}

func TestDecodeJSONIsTheReference(t *testing.T) {
	for _, tt := range jsonCases {
		sameDecode(t, []byte(tt.body))
	}
	for _, data := range decodeCases {
		sameDecode(t, []byte(data))
		if len(data) > 1000 {
			continue
		}
		// Each of its beginnings, and with a byte more or less.
		for i := range data {
			sameDecode(t, []byte(data[:i]))
			sameDecode(t, []byte(data[:i]+`"`+data[i:]))
			sameDecode(t, []byte(data[:i]+data[i+1:]))
		}
	}
	for _, b := range typicalBodies(t) {
		sameDecode(t, b.data)
	}
}

func FuzzDecodeJSON(f *testing.F) {
	for _, tt := range jsonCases {
		f.Add([]byte(tt.body))
	}
	for _, data := range decodeCases {
		if len(data) < 1000 {
			f.Add([]byte(data))
		}
	}
	for _, b := range typicalBodies(f) {
		f.Add(b.data)
	}
	f.Fuzz(sameDecode)
}

type typicalBody struct {
	name string
	data []byte
	new  func() ferry.Body
}

// typicalBodies are of the sizes that an ordinary order brings about.
func typicalBodies(t testing.TB) (out []typicalBody) {
	t.Helper()
	id := ferry.RecordID{1, 2, 3}
	commit := ferry.Commit(strings.Repeat("0123456789", 4))
	usage := ferry.Usage{Requests: 12, TokensIn: 120_000, TokensOut: 4_000, CostMicroUSD: 31_000, CostSource: "engine"}
	result := &ferry.Result{
		Order: id, Attempt: 1, Revision: 1, Start: id, Engine: "codex", Model: "model-1", Base: commit, From: commit, Commit: commit, Tree: commit,
		Content: strings.Repeat("ab", 32), Branch: "ferry/t-1", FilesTotal: 20, Sandbox: ferry.Sandbox{Level: "bwrap", Net: "off"}, Usage: usage,
		Checks: []ferry.Check{{Command: "go test ./...", Tail: strings.Repeat("ok  \tpackage\t0.1s\n", 20), Millis: 3100}},
		Answer: strings.Repeat("The function returns early when the list is empty. ", 10),
	}
	for i := range 20 {
		result.Files = append(result.Files, ferry.File{
			Path: fmt.Sprintf("internal/part/file%02d.go", i), Status: "M", ModeOld: "100644", ModeNew: "100644", OldBlob: commit, NewBlob: commit, Added: 12, Deleted: 3,
		})
	}
	for _, b := range []ferry.Body{
		&ferry.Order{
			Label: "t-1", Project: "demo", Text: strings.Repeat("Make the parser faster and keep its tests. ", 12), Kind: "code-change", Size: "small",
			Touches: []string{"parser/**"}, Checks: []string{"go test ./parser"}, Tags: []string{"speed"}, Target: "main", Base: commit, TimeoutSecs: 1800, MaxAttempts: 3,
		},
		&ferry.Claim{Order: id, Attempt: 1},
		&ferry.Start{Order: id, Attempt: 1, Claim: id, Engine: "codex", Model: "model-1", Sandbox: "bwrap", From: commit},
		&ferry.Run{
			Order: id, Start: id, Attempt: 1, N: 1, Run: "r-1", Engine: "codex", Started: "2026-11-30T12:00:00Z", Ended: "2026-11-30T12:04:00Z",
			Outcome: ferry.OutcomeDone, Commit: commit, Usage: usage,
		},
		result,
		&ferry.Verdict{Order: id, Result: id, Decision: ferry.DecisionKeep, Notes: "Clear and tested.", Commit: commit, Tree: commit, Content: strings.Repeat("ab", 32)},
	} {
		data, err := sign.EncodeJSON(b)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, typicalBody{name: string(b.Type()), data: data, new: func() ferry.Body { return ferry.New(b.Type()) }})
	}
	return out
}

// BenchmarkDecodeJSON reads bodies as ingest does, beside the same in two passes.
func BenchmarkDecodeJSON(b *testing.B) {
	for _, decode := range []struct {
		name string
		fn   func([]byte, any, sign.UnknownFields) (int, error)
	}{{"strict", sign.DecodeJSON}, {"two-passes", decodeTwice}} {
		for _, body := range typicalBodies(b) {
			b.Run(decode.name+"/"+body.name, func(b *testing.B) {
				b.SetBytes(int64(len(body.data)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := decode.fn(body.data, body.new(), sign.Refuse); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

package sign_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry/sign"
)

var jsonCases = []struct {
	body string
	ok   bool
}{
	{`{}`, true},
	{" {\"a\" :\t1,\r\n \"b2_c\": [true,false,null,\"\"] } \n", true},
	{`{"a":9007199254740991,"b":-9007199254740991,"c":0}`, true},
	{`{"a":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00 é 😀"}`, true},
	{`{"a":{"a":{"a":1}}}`, true},
	{``, false},
	{` `, false},
	{`[]`, false},
	{`"a"`, false},
	{`1`, false},
	{`null`, false},
	{"\xef\xbb\xbf{}", false},
	{`{}{}`, false},
	{`{} x`, false},
	{`{"a":1}` + "\x00", false},
	{`{"a":1,}`, false},
	{`{,}`, false},
	{`{"a":[1,]}`, false},
	{`{"a":[,]}`, false},
	{`{"a":[1 2]}`, false},
	{`{"a" 1}`, false},
	{`{"a":}`, false},
	{`{"a"`, false},
	{`{"a":1`, false},
	{`{"a":"`, false},
	{`{"a":"\`, false},
	{`{"a":"\u12`, false},
	{`{a:1}`, false},
	{`{'a':1}`, false},
	{`{"a":1,"a":1}`, false},
	{`{"a":1,"A":1}`, false},
	{`{"A":1}`, false},
	{`{"":1}`, false},
	{`{"1a":1}`, false},
	{`{"_a":1}`, false},
	{`{"a-b":1}`, false},
	{`{"\u0061":1}`, false},
	{`{"é":1}`, false},
	{`{"a":{"b":1,"b":2}}`, false},
	{`{"a":1.0}`, false},
	{`{"a":1e3}`, false},
	{`{"a":1E3}`, false},
	{`{"a":-0}`, false},
	{`{"a":01}`, false},
	{`{"a":-}`, false},
	{`{"a":+1}`, false},
	{`{"a":NaN}`, false},
	{`{"a":9007199254740992}`, false},
	{`{"a":-9007199254740992}`, false},
	{`{"a":99999999999999999999999999}`, false},
	{`{"a":18446744073709551617}`, false},
	{`{"a":"\u0000"}`, false},
	{"{\"a\":\"\x00\"}", false},
	{"{\"a\":\"\n\"}", false},
	{"{\"a\":\"\xff\"}", false},
	{"{\"a\":\"\xed\xa0\x80\"}", false},
	{`{"a":"\ud800"}`, false},
	{`{"a":"\ud800x"}`, false},
	{`{"a":"\ud800\n"}`, false},
	{`{"a":"\ud800\ud800"}`, false},
	{`{"a":"\udc00\ud800"}`, false},
	{`{"a":"\x41"}`, false},
	{`{"a":"\u00zz"}`, false},
	{`{"a":tru}`, false},
	{`{"a":truex}`, false},
	{`{"a":/**/1}`, false},
	{`{"a":1]`, false},
	{`{"a":[1}`, false},
}

func TestCheckJSON(t *testing.T) {
	for _, tt := range jsonCases {
		err := sign.CheckJSON([]byte(tt.body), sign.Limits{})
		if (err == nil) != tt.ok || err != nil && !errors.Is(err, sign.ErrMalformed) {
			t.Errorf("CheckJSON(%q) = %v, want ok %v", tt.body, err, tt.ok)
		}
	}
}

func TestJSONLimits(t *testing.T) {
	nested := func(n int) string { return `{"a":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}` }
	items := func(n int) string { return `{"a":[` + strings.TrimSuffix(strings.Repeat("1,", n), ",") + `]}` }
	text := func(n int) string { return `{"a":"` + strings.Repeat("é", n/2) + `"}` }
	keys := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"k%d":1,`, i)
		}
		return "{" + strings.TrimSuffix(b.String(), ",") + "}"
	}
	for _, tt := range []struct {
		name, body string
		ok         bool
	}{
		{"deepest", nested(sign.MaxDepth), true},
		{"too deep", nested(sign.MaxDepth + 1), false},
		{"10,000 deep", nested(10_000), false},
		{"most tokens", items(sign.MaxTokens - 5), true},
		{"too many tokens", items(sign.MaxTokens - 4), false},
		{"longest string", text(sign.MaxString), true},
		{"too long a string", text(sign.MaxString + 2), false},
		{"escaped string of the same length", `{"a":"` + strings.Repeat(`\u00e9`, sign.MaxString/2) + `"}`, true},
		{"escaped string too long", `{"a":"` + strings.Repeat(`\u00e9`, sign.MaxString/2+1) + `"}`, false},
		{"many keys", keys(9_000), true},
		{"100,000 keys", keys(100_000), false},
		{"a key of 1 MiB", `{"` + strings.Repeat("k", 1<<20) + `":1}`, false},
	} {
		if err := sign.CheckJSON([]byte(tt.body), sign.Limits{}); (err == nil) != tt.ok {
			t.Errorf("%s: CheckJSON = %v, want ok %v", tt.name, err, tt.ok)
		}
	}
	if err := sign.CheckJSON([]byte(`{"a":"four"}`), sign.Limits{String: 3}); err == nil {
		t.Error("a smaller limit was ignored")
	}
}

type inner struct {
	N int `json:"n"`
}

type embedded struct {
	Shared string `json:"shared"`
}

type body struct {
	embedded
	ID     string           `json:"id"`
	Inner  *inner           `json:"inner"`
	List   []inner          `json:"list"`
	Named  map[string]inner `json:"named"`
	Free   any              `json:"free"`
	Raw    json.RawMessage  `json:"raw"`
	Time   time.Time        `json:"time"`
	Hidden string           `json:"-"`
}

func TestDecodeJSON(t *testing.T) {
	good := `{"id":"x","shared":"s","inner":{"n":1},"list":[{"n":2}],"named":{"any":{"n":3}},"free":{"whatever":1},"raw":{"whatever":2},"time":"2026-11-30T12:00:00Z"}`
	var got body
	ignored, err := sign.DecodeJSON([]byte(good), &got, sign.Refuse)
	want := body{
		embedded: embedded{Shared: "s"}, ID: "x", Inner: &inner{1}, List: []inner{{2}}, Named: map[string]inner{"any": {3}},
		Free: map[string]any{"whatever": 1.0}, Raw: json.RawMessage(`{"whatever":2}`), Time: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC),
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(body{})); diff != "" || err != nil || ignored != 0 {
		t.Errorf("DecodeJSON = %d, %v, (-want +got):\n%s", ignored, err, diff)
	}
	for unknown, count := range map[string]int{
		`{"extra":1}`: 1, `{"hidden":""}`: 1, `{"inner":{"x":{"y":1}}}`: 1, `{"list":[{"x":1},{"n":1,"y":2}]}`: 2, `{"named":{"a":{"x":1}}}`: 1, `{"embedded":{}}`: 1,
	} {
		if _, err := sign.DecodeJSON([]byte(unknown), &got, sign.Refuse); !errors.Is(err, sign.ErrMalformed) {
			t.Errorf("DecodeJSON(%s, Refuse) = %v, want ErrMalformed", unknown, err)
		}
		if n, err := sign.DecodeJSON([]byte(unknown), &got, sign.Ignore); n != count || err != nil {
			t.Errorf("DecodeJSON(%s, Ignore) = %d, %v, want %d", unknown, n, err, count)
		}
	}
	for _, wrong := range []string{`{"id":1}`, `{"inner":[]}`, `{"id":"a","id":"b"}`, `{"ID":"b"}`} {
		if _, err := sign.DecodeJSON([]byte(wrong), &got, sign.Ignore); !errors.Is(err, sign.ErrMalformed) {
			t.Errorf("DecodeJSON(%s) = %v, want ErrMalformed", wrong, err)
		}
	}
}

func TestDecodeJSONWantsExactNames(t *testing.T) {
	for name, v := range map[string]any{
		"no tag": &struct{ Order string }{},
		"upper case tag": &struct {
			Order string `json:"Order"`
		}{},
		"not a pointer": struct{}{},
		"not a struct":  new(int),
		"nil":           nil,
	} {
		if _, err := sign.DecodeJSON([]byte(`{"order":"x"}`), v, sign.Ignore); err == nil {
			t.Errorf("%s: DecodeJSON succeeded", name)
		}
	}
}

func TestEncodeJSON(t *testing.T) {
	got, err := sign.EncodeJSON(map[string]any{"text": "<a & b>", "list": []int{1}})
	if want := `{"list":[1],"text":"<a & b>"}`; string(got) != want || err != nil {
		t.Errorf("EncodeJSON = %s, %v, want %s", got, err, want)
	}
	for name, v := range map[string]any{
		"float": map[string]any{"a": 1.5}, "key": map[string]any{"A": 1}, "list": []int{1}, "NUL": map[string]string{"a": "\x00"}, "channel": make(chan int),
		"large": map[string]int{"a": sign.MaxInteger + 1}, "long": map[string]string{"a": strings.Repeat("a", sign.MaxString+1)}, "key bytes": testKey(t, 1),
	} {
		if got, err := sign.EncodeJSON(v); err == nil {
			t.Errorf("%s: EncodeJSON = %s", name, got)
		}
	}
}

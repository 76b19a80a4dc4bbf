package sign_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ferry-fleet/ferry/sign"
)

func addGolden(f *testing.F) {
	f.Helper()
	paths, err := filepath.Glob("testdata/v1/*.fr")
	if err != nil || len(paths) == 0 {
		f.Fatalf("no golden files: %v", err)
	}
	for _, path := range paths {
		file, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file)
		f.Add(file[:len(file)/2])
		f.Add(bytes.ReplaceAll(file, []byte("\n"), []byte("\r\n")))
	}
}

func FuzzParseHeader(f *testing.F) {
	addGolden(f)
	key := testKey(f, 7)
	f.Fuzz(func(t *testing.T, file []byte) {
		u, err := sign.ParseHeader(file)
		if err != nil {
			if !errors.Is(err, sign.ErrIncomplete) && !errors.Is(err, sign.ErrMalformed) {
				t.Fatalf("untyped error: %v", err)
			}
			return
		}
		if _, _, _, err := sign.ParseName(u.Name()); err != nil {
			t.Fatal(err)
		}
		h := u.Header()
		if h.Blob {
			return
		}
		// What parses has one spelling: sealing it again gives the same signed bytes, hence the same id.
		again, err := sign.Seal(key, h, u.Body())
		if err != nil {
			t.Fatal(err)
		}
		v, err := sign.Open(again, key.Public())
		if err != nil {
			t.Fatal(err)
		}
		if v.Header().BodyHash == h.BodyHash && v.ID() != u.ID() {
			t.Fatalf("two spellings of one header:\n%q\n%q", file, again)
		}
	})
}

func FuzzOpen(f *testing.F) {
	addGolden(f)
	key := testKey(f, 1)
	f.Fuzz(func(t *testing.T, file []byte) {
		v, err := sign.Open(file, key.Public())
		if err != nil {
			return
		}
		if !v.Header().Blob && v.CheckBody(v.Body()) != nil || !bytes.Equal(v.Bytes(), file) {
			t.Fatal("a verified record does not agree with itself")
		}
	})
}

func FuzzParseName(f *testing.F) {
	f.Add("0001-0000000118-0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a.fr")
	f.Add("../../../../etc/passwd")
	f.Fuzz(func(t *testing.T, name string) {
		_, _, id32, err := sign.ParseName(name)
		if err == nil && (filepath.Base(name) != name || !filepath.IsLocal(name) || len(id32) != 32) {
			t.Fatalf("%q is not a plain name", name)
		}
	})
}

func FuzzJSON(f *testing.F) {
	for _, tt := range jsonCases {
		f.Add([]byte(tt.body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		err := sign.CheckJSON(body, sign.Limits{})
		if err != nil {
			if !errors.Is(err, sign.ErrMalformed) {
				t.Fatalf("untyped error: %v", err)
			}
			return
		}
		var v map[string]any
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.UseNumber()
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("CheckJSON passed what encoding/json refuses: %v", err)
		}
		again, err := sign.EncodeJSON(v)
		if err != nil {
			t.Fatalf("a good body cannot be encoded again: %v", err)
		}
		var w map[string]any
		if _, err := sign.DecodeJSON(again, &struct{}{}, sign.Ignore); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(again, &w); err != nil {
			t.Fatal(err)
		}
	})
}

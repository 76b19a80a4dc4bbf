package sign_test

import (
	"bytes"
	"crypto/ed25519"
	"testing"

	"github.com/ferry-fleet/ferry/sign"
)

var benchBody = bytes.Repeat([]byte("x"), 500)

func BenchmarkSeal(b *testing.B) {
	key := testKey(b, 1)
	for b.Loop() {
		seal(b, key, header(), benchBody)
	}
}

func BenchmarkOpen(b *testing.B) {
	key := testKey(b, 1)
	file := seal(b, key, header(), benchBody)
	for b.Loop() {
		open(b, file, key)
	}
}

// BenchmarkParseHeader is what is known of a record before anything in it is believed.
func BenchmarkParseHeader(b *testing.B) {
	file := seal(b, testKey(b, 1), header(), benchBody)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := sign.ParseHeader(file); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpenParsed is the rest of the way to believing it.
func BenchmarkOpenParsed(b *testing.B) {
	key := testKey(b, 1)
	u, err := sign.ParseHeader(seal(b, key, header(), benchBody))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := u.Open(key.Public()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRawVerify is the floor under BenchmarkOpen: one signature over as many bytes.
func BenchmarkRawVerify(b *testing.B) {
	private := ed25519.NewKeyFromSeed(make([]byte, 32))
	public := private.Public().(ed25519.PublicKey)
	message := make([]byte, 600)
	sig := ed25519.Sign(private, message)
	for b.Loop() {
		if !ed25519.Verify(public, message, sig) {
			b.Fatal("does not verify")
		}
	}
}

func BenchmarkCheckJSON(b *testing.B) {
	body := []byte(`{"id":"t-1","text":"do it","list":[1,2,3],"inner":{"a":true,"b":"` + string(benchBody) + `"}}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if err := sign.CheckJSON(body, sign.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

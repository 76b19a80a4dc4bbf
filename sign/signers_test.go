package sign_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry/sign"
)

func TestSigners(t *testing.T) {
	var keys []sign.Key
	var pub []sign.PublicKey
	for i := range 4 {
		k, err := sign.GenerateKey(bytes.NewReader(fmt.Appendf(nil, "%-32s", fmt.Sprint("signer ", i))))
		if err != nil {
			t.Fatal(err)
		}
		keys, pub = append(keys, k), append(pub, k.Public())
	}
	file := seal(t, keys[0], header(), []byte(`{}`))
	for _, k := range keys[1:3] {
		var err error
		if file, err = sign.Cosign(k, file); err != nil {
			t.Fatal(err)
		}
	}
	// The identity is a weak point: with it anybody makes a signature that the plain equation accepts.
	weak := sign.PublicKey{1}
	identity := append(make([]byte, 0, 64), weak[:]...)
	identity = append(identity, make([]byte, 32)...)
	changed := bytes.Clone(file)
	changed[len(changed)-1] = ']'

	tests := []struct {
		name string
		file []byte
		keys []sign.PublicKey
		want []sign.PublicKey
	}{
		{"all that signed", file, pub, pub[:3]},
		{"in the order of the question", file, []sign.PublicKey{pub[2], pub[0]}, []sign.PublicKey{pub[2], pub[0]}},
		{"each once", file, []sign.PublicKey{pub[1], pub[1], pub[3], pub[1]}, pub[1:2]},
		{"nobody is asked for", file, nil, nil},
		{"a weak key", withSignature(t, file, weak.KeyID(), identity), []sign.PublicKey{weak, pub[1]}, pub[1:2]},
		{"a signature of another record", withSignature(t, file, pub[3].KeyID(), make([]byte, 64)), pub, pub[1:3]},
		{"another body", changed, pub, nil},
		{"cut short", file[:len(file)-1], pub, nil},
		{"not a record", []byte("ferry-record 2\n"), pub, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, sign.Signers(tt.file, tt.keys)); diff != "" {
				t.Errorf("signers (-want +got):\n%s", diff)
			}
		})
	}
}

package channel_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/channel"
	"github.com/ferry-fleet/ferry/sign"
)

// What a body decodes to can be written again, and is read back as the same.
func FuzzBody(f *testing.F) {
	for i, t := range ferry.Types() {
		body, err := sign.EncodeJSON(ferry.New(t))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(i, body)
	}
	f.Add(2, []byte(`{"label":"t-1","project":"p","text":"x","base":"","touches":["**"],"checks":["go test ./..."]}`))
	f.Add(3, []byte(`{"order":"0101010101010101010101010101010101010101010101010101010101010101","attempt":1}`))
	f.Add(8, []byte(`{"order":"0101010101010101010101010101010101010101010101010101010101010101","result":"","decision":"reject"}`))
	f.Fuzz(func(t *testing.T, i int, body []byte) {
		typ := ferry.Types()[uint(i)%uint(len(ferry.Types()))]
		b, err := channel.DecodeBody(typ, body)
		if err != nil {
			return
		}
		again, err := channel.EncodeBody(b)
		if err != nil {
			t.Fatalf("%s was read and cannot be written: %v", typ, err)
		}
		c, err := channel.DecodeBody(typ, again)
		if err != nil {
			t.Fatalf("%s was written and cannot be read: %v", typ, err)
		}
		third, err := channel.EncodeBody(c)
		if diff := cmp.Diff(string(again), string(third)); err != nil || diff != "" {
			t.Fatalf("%s changes when it is written again (%v):\n%s", typ, err, diff)
		}
	})
}

// A frame is read only as it was written, and never beyond its end.
func FuzzFrame(f *testing.F) {
	f.Add([]byte("ferry-record 1\n"), []byte("more"))
	f.Add(channel.Frame([]byte("inner")), []byte{0xf5})
	f.Fuzz(func(t *testing.T, data, more []byte) {
		if got, size, ok := channel.ParseFrame(data); ok && (size > len(data) || len(got) > size) {
			t.Fatalf("a frame of %d bytes in %d", size, len(data))
		}
		if len(data) == 0 || len(data) > sign.MaxRecord {
			return
		}
		frame := channel.Frame(data)
		got, size, ok := channel.ParseFrame(append(bytes.Clone(frame), more...))
		if !ok || size != len(frame) || !bytes.Equal(got, data) {
			t.Fatalf("a frame is read as %q, %d, %v", got, size, ok)
		}
		for _, cut := range []int{0, 1, len(frame) / 2, len(frame) - 1} {
			if _, _, ok := channel.ParseFrame(frame[:cut]); ok {
				t.Fatalf("a frame cut to %d bytes is read", cut)
			}
		}
		at := len(more) * 7 % len(frame)
		frame[at] ^= 1
		if _, _, ok := channel.ParseFrame(frame); ok {
			t.Fatalf("a frame with byte %d changed is read", at)
		}
	})
}

// A name that is taken for a record's is exactly of the one form, and harmless as a path.
func FuzzName(f *testing.F) {
	f.Add("0001-0000000001-00112233445566778899aabbccddeeff.fr")
	f.Add("0001-0000000001-00112233445566778899aabbccddeeff.sync-conflict-20261130-120000-ABCDEF7.fr")
	f.Add("../../etc/passwd")
	f.Fuzz(func(t *testing.T, name string) {
		if channel.Misfit(name) != "" {
			return
		}
		for _, r := range name {
			if !(r >= '0' && r <= '9' || r >= 'a' && r <= 'f' || r == '-' || r == '.' || r == 'r') {
				t.Fatalf("the name %q is taken", name)
			}
		}
		if len(name) != 51 {
			t.Fatalf("the name %q is taken", name)
		}
	})
}

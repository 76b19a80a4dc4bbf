package sign_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ferry-fleet/ferry/sign"
)

func topOf(tb testing.TB) (key sign.Key, file []byte, v sign.Verified) {
	tb.Helper()
	key, err := sign.GenerateKey(bytes.NewReader(bytes.Repeat([]byte{7}, 32)))
	if err != nil {
		tb.Fatal(err)
	}
	file, err = sign.Seal(key, sign.Header{
		Channel: [32]byte{1}, Prev: [32]byte{2}, Type: "note", Writer: key.Public().WriterID(), Epoch: 1, Seq: 4,
	}, []byte(`{"kind":"x"}`))
	if err != nil {
		tb.Fatal(err)
	}
	if v, err = sign.Open(file, key.Public()); err != nil {
		tb.Fatal(err)
	}
	return key, file, v
}

func TestTop(t *testing.T) {
	key, file, v := topOf(t)
	top := v.Top()
	if !bytes.HasPrefix(file, top) || bytes.Contains(top, []byte(`"kind"`)) {
		t.Fatalf("the top of the record is\n%s", top)
	}
	got, err := sign.OpenTop(top, key.Public())
	if err != nil || got.ID() != v.ID() || got.Header().Seq != 4 || !bytes.Equal(got.Top(), top) {
		t.Errorf("OpenTop = %+v, %v", got.Header(), err)
	}
	other, err := sign.GenerateKey(bytes.NewReader(bytes.Repeat([]byte{8}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sign.OpenTop(top, other.Public()); !errors.Is(err, sign.ErrUnverified) {
		t.Errorf("another key: %v", err)
	}
	for name, bad := range map[string][]byte{
		"a body behind it": file,
		"an empty line":    append(bytes.Clone(top), '\n'),
		"another number":   bytes.Replace(top, []byte("seq 4"), []byte("seq 5"), 1),
		"no signature":     top[:bytes.Index(top, []byte("sig "))],
		"cut":              top[:len(top)-5],
		"huge":             append(bytes.Clone(top), bytes.Repeat([]byte("x"), 8<<10)...),
		"nothing":          nil,
	} {
		if _, err := sign.OpenTop(bad, key.Public()); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestBare(t *testing.T) {
	key, file, v := topOf(t)
	bare := file[:len(file)-len(v.Body())]
	got, err := sign.ParseBare(bare)
	if err != nil {
		t.Fatal(err)
	}
	if got, err = got.Open(key.Public()); err != nil || got.ID() != v.ID() || !bytes.Equal(got.Bytes(), bare) || len(got.Body()) != 0 {
		t.Errorf("the bare form is read as %q, %v", got.Bytes(), err)
	}
	other, err := sign.GenerateKey(bytes.NewReader(bytes.Repeat([]byte{8}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := got.Open(other.Public()); !errors.Is(err, sign.ErrUnverified) {
		t.Errorf("another key: %v", err)
	}
	if _, err := sign.Open(bare, key.Public()); !errors.Is(err, sign.ErrIncomplete) {
		t.Errorf("the bare form as a whole record: %v", err)
	}
	seal := func(h sign.Header, body string) []byte {
		h.Type, h.Writer, h.Epoch, h.Seq, h.Channel, h.Prev = "note", key.Public().WriterID(), 1, 4, [32]byte{1}, [32]byte{2}
		file, err := sign.Seal(key, h, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	for name, bad := range map[string][]byte{
		"whole": file, "a byte of the body": file[:len(bare)+1], "without the empty line": bare[:len(bare)-1],
		"two empty lines": append(bytes.Clone(bare), '\n'), "no body at all": seal(sign.Header{}, ""),
		"a blob": seal(sign.Header{Blob: true}, "{}"), "nothing": nil,
	} {
		if _, err := sign.ParseBare(bad); err == nil {
			t.Errorf("%s: read as a bare form", name)
		}
	}
}

func FuzzParseTop(f *testing.F) {
	_, file, v := topOf(f)
	f.Add(v.Top())
	f.Add(file)
	f.Add(append(bytes.Clone(v.Top()), '\n'))
	f.Fuzz(func(t *testing.T, b []byte) {
		if bare, err := sign.ParseBare(b); err == nil && (!bytes.Equal(bare.Bytes(), b) || bare.Header().BodySize == 0) {
			t.Errorf("the bare form of %q is %q", b, bare.Bytes())
		}
		top, err := sign.ParseTop(b)
		if err == nil && !bytes.Equal(top.Top(), b) {
			t.Errorf("the top of %q is %q", b, top.Top())
		}
	})
}

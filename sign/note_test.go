package sign_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/ferry-fleet/ferry/sign"
)

func sealNote(t testing.TB, k sign.Key, payloadType, body string) []byte {
	t.Helper()
	file, err := sign.SealNote(k, payloadType, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestNote(t *testing.T) {
	a, b := testKey(t, 1), testKey(t, 2)
	file := sealNote(t, a, sign.TypeJoin, `{"name":"wisp"}`)
	if !bytes.HasPrefix(file, []byte("ferry-note 1\ntype join.v1\nbody 15\nsig ")) {
		t.Errorf("the file begins with %q", file[:50])
	}
	both, err := sign.CosignNote(b, file)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []sign.Key{a, b} {
		body, err := sign.OpenNote(both, sign.TypeJoin, k.Public())
		if err != nil || string(body) != `{"name":"wisp"}` {
			t.Errorf("body %q, %v", body, err)
		}
	}
	if again, err := sign.CosignNote(a, both); err != nil || !bytes.Equal(again, both) {
		t.Errorf("signing twice: %q, %v", again, err)
	}
	if _, err := sign.OpenNote(file, sign.TypeJoin, b.Public()); !errors.Is(err, sign.ErrUnverified) {
		t.Errorf("a key that did not sign: %v", err)
	}
	if _, err := sign.OpenNote(file, sign.TypeBeat, a.Public()); !errors.Is(err, sign.ErrMalformed) {
		t.Errorf("another type: %v", err)
	}
	// The type is signed: a join request never becomes a beat.
	moved := bytes.Replace(file, []byte("type join.v1"), []byte("type beat.v1"), 1)
	if _, err := sign.OpenNote(moved, sign.TypeBeat, a.Public()); !errors.Is(err, sign.ErrUnverified) {
		t.Errorf("under another type: %v", err)
	}
	changed := bytes.Replace(file, []byte("wisp"), []byte("moth"), 1)
	if _, err := sign.OpenNote(changed, sign.TypeJoin, a.Public()); !errors.Is(err, sign.ErrUnverified) {
		t.Errorf("with another body: %v", err)
	}
}

func TestNoteRefused(t *testing.T) {
	k := testKey(t, 1)
	good := string(sealNote(t, k, sign.TypeBeat, "{}"))
	sig := good[strings.Index(good, "sig "):strings.Index(good, "\n\n")]
	for name, tt := range map[string]struct {
		file string
		want error
	}{
		"empty":               {"", sign.ErrIncomplete},
		"half a first line":   {"ferry-no", sign.ErrIncomplete},
		"half a signature":    {good[:len(good)-40], sign.ErrIncomplete},
		"no body":             {strings.TrimSuffix(good, "{}"), sign.ErrIncomplete},
		"half a body":         {strings.TrimSuffix(good, "}"), sign.ErrIncomplete},
		"something follows":   {good + "\n", sign.ErrMalformed},
		"another version":     {strings.Replace(good, "note 1", "note 2", 1), sign.ErrMalformed},
		"carriage returns":    {strings.ReplaceAll(good, "\n", "\r\n"), sign.ErrMalformed},
		"a zero before":       {strings.Replace(good, "body 2", "body 02", 1), sign.ErrMalformed},
		"a record":            {"ferry-record 1\n", sign.ErrMalformed},
		"no signature":        {strings.Replace(good, sig+"\n", "", 1), sign.ErrMalformed},
		"one signature twice": {strings.Replace(good, sig, sig+"\n"+sig, 1), sign.ErrMalformed},
		"too large":           {good + strings.Repeat("x", sign.MaxNote), sign.ErrMalformed},
	} {
		if _, err := sign.ParseNote([]byte(tt.file)); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	var crowd []byte = sealNote(t, k, sign.TypeBeat, "{}")
	for i := range sign.MaxSignatures {
		next, err := sign.CosignNote(testKey(t, byte(10+i)), crowd)
		if last := i == sign.MaxSignatures-1; last != (err != nil) {
			t.Fatalf("signature %d: %v", i+2, err)
		}
		if err == nil {
			crowd = next
		}
	}
	for _, payloadType := range []string{"beat.v1", "application/vnd.ferry.", sign.TypeBeat + "\n", sign.TypeRecordHeader} {
		if _, err := sign.SealNote(k, payloadType, nil); err == nil {
			t.Errorf("a note of the type %q is sealed", payloadType)
		}
	}
	if _, err := sign.SealNote(k, sign.TypeBeat, make([]byte, sign.MaxNote)); err == nil {
		t.Error("a note that is too large is sealed")
	}
	if _, err := sign.SealNote(sign.Key{}, sign.TypeBeat, nil); err == nil {
		t.Error("the empty key seals")
	}
}

func FuzzParseNote(f *testing.F) {
	k := testKey(f, 1)
	good := sealNote(f, k, sign.TypeBeat, `{"epoch":1}`)
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add(bytes.ReplaceAll(good, []byte("\n"), []byte("\r\n")))
	f.Fuzz(func(t *testing.T, file []byte) {
		n, err := sign.ParseNote(file)
		if err != nil {
			if !errors.Is(err, sign.ErrIncomplete) && !errors.Is(err, sign.ErrMalformed) {
				t.Fatalf("untyped error: %v", err)
			}
			return
		}
		if len(file) > sign.MaxNote || !bytes.HasSuffix(file, n.Body()) {
			t.Fatal("a note that was taken apart does not agree with itself")
		}
		if n.Verify(k.Public()) == nil && n.PayloadType() == sign.TypeBeat && string(n.Body()) != `{"epoch":1}` {
			t.Fatalf("a body that was never signed verifies: %q", n.Body())
		}
	})
}

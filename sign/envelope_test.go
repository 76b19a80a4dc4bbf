package sign_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ferry-fleet/ferry/sign"
)

var update = flag.Bool("update", false, "write the golden files anew")

const zeroWriter = sign.WriterID("abcdefghijklmnopqrstuvwxyz")

func header() sign.Header {
	h := sign.Header{
		Type: "order", Writer: zeroWriter, Epoch: 1, Seq: 118,
		Time: time.Date(2026, 11, 30, 12, 0, 0, 250_000_000, time.UTC),
		Need: []string{"claim.2", "sandbox.proxy.1"},
		Saw: []sign.Head{
			{Writer: zeroWriter, Epoch: 1, Seq: 7, ID32: strings.Repeat("0f", 16)},
			{Writer: zeroWriter, Epoch: 9999, Seq: 9_999_999_999, ID32: strings.Repeat("a", 32)},
		},
	}
	h.Channel[0], h.Prev[31] = 1, 2
	return h
}

func genesis() sign.Header {
	return sign.Header{Type: "root", Writer: zeroWriter, Epoch: 1, Seq: 1, Time: header().Time}
}

func seal(t testing.TB, k sign.Key, h sign.Header, body []byte) []byte {
	t.Helper()
	file, err := sign.Seal(k, h, body)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// withSignature puts another signature in the place of the first.
func withSignature(t testing.TB, file []byte, keyID string, sig []byte) []byte {
	t.Helper()
	at := bytes.Index(file, []byte("\nsig ")) + 1
	end := at + bytes.IndexByte(file[at:], '\n')
	line := "sig " + keyID + " " + base64.StdEncoding.EncodeToString(sig)
	return append(append(bytes.Clone(file[:at]), line...), file[end:]...)
}

func TestSealAndOpen(t *testing.T) {
	key := testKey(t, 1)
	for name, h := range map[string]sign.Header{"record": header(), "genesis": genesis()} {
		body := []byte(`{"id":"t-1","text":"do it"}`)
		file := seal(t, key, h, body)
		v, err := sign.Open(file, key.Public())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := h
		want.BodySize, want.BodyHash = int64(len(body)), v.Header().BodyHash
		if diff := cmp.Diff(want, v.Header()); diff != "" {
			t.Errorf("%s: header changed (-want +got):\n%s", name, diff)
		}
		if !bytes.Equal(v.Body(), body) || !bytes.Equal(v.Bytes(), file) {
			t.Errorf("%s: body %q, bytes %q", name, v.Body(), v.Bytes())
		}
		u, err := sign.ParseHeader(file)
		if err != nil || u.ID() != v.ID() || u.Name() != v.Name() {
			t.Errorf("%s: ParseHeader = %v, %v", name, u.Name(), err)
		}
		epoch, seq, id32, err := sign.ParseName(v.Name())
		if head := v.Head(); err != nil || epoch != head.Epoch || seq != head.Seq || id32 != head.ID32 || id32 != fmt.Sprintf("%x", v.ID())[:32] {
			t.Errorf("%s: ParseName(%q) = %d, %d, %s, %v", name, v.Name(), epoch, seq, id32, err)
		}
		if _, err := sign.Open(file, testKey(t, 2).Public()); !errors.Is(err, sign.ErrUnverified) {
			t.Errorf("%s: Open with another key = %v, want ErrUnverified", name, err)
		}
	}
}

func TestOpenWhatWasParsed(t *testing.T) {
	key := testKey(t, 1)
	file := seal(t, key, header(), []byte(`{"a":1}`))
	u, err := sign.ParseHeader(file)
	if err != nil {
		t.Fatal(err)
	}
	want := open(t, file, key)
	if got, err := u.Open(key.Public()); err != nil || got.ID() != want.ID() || !bytes.Equal(got.Body(), want.Body()) {
		t.Errorf("Open = %v, %v", got, err)
	}
	if _, err := u.Open(testKey(t, 2).Public()); !errors.Is(err, sign.ErrUnverified) {
		t.Errorf("Open with another key = %v", err)
	}
	for name, at := range map[string]int{"header": 40, "body": len(file) - 2} {
		changed := bytes.Clone(file)
		u, err := sign.ParseHeader(changed)
		if err != nil {
			t.Fatal(err)
		}
		changed[at] ^= 1
		if _, err := u.Open(key.Public()); !errors.Is(err, sign.ErrUnverified) {
			t.Errorf("Open after the %s was changed = %v", name, err)
		}
	}
}

func TestBlobRecord(t *testing.T) {
	key, h := testKey(t, 1), header()
	h.Blob = true
	body := make([]byte, sign.MaxBody+1)
	file := seal(t, key, h, body)
	v, err := sign.Open(file, key.Public())
	if err != nil || len(v.Body()) != 0 || v.Header().BodySize != int64(len(body)) {
		t.Fatalf("Open = %v, body of %d bytes", err, len(v.Body()))
	}
	if err := v.CheckBody(body); err != nil {
		t.Error(err)
	}
	if err := v.CheckBody(body[1:]); !errors.Is(err, sign.ErrUnverified) {
		t.Errorf("CheckBody of another body = %v", err)
	}
	if _, err := sign.Open(append(file, body...), key.Public()); err == nil {
		t.Error("Open accepted a blob record with a body in it")
	}
}

func TestSealRefusesWhatOpenWould(t *testing.T) {
	key := testKey(t, 1)
	for name, change := range map[string]func(*sign.Header){
		"no type":            func(h *sign.Header) { h.Type = "" },
		"upper case type":    func(h *sign.Header) { h.Type = "Order" },
		"long type":          func(h *sign.Header) { h.Type = strings.Repeat("a", 33) },
		"injected line":      func(h *sign.Header) { h.Type = "order\nwriter abc" },
		"no writer":          func(h *sign.Header) { h.Writer = "" },
		"epoch 0":            func(h *sign.Header) { h.Epoch = 0 },
		"epoch too large":    func(h *sign.Header) { h.Epoch = sign.MaxEpoch + 1 },
		"seq 0":              func(h *sign.Header) { h.Seq = 0 },
		"seq too large":      func(h *sign.Header) { h.Seq = sign.MaxSeq + 1 },
		"year 10000":         func(h *sign.Header) { h.Time = h.Time.AddDate(9000, 0, 0) },
		"feature with comma": func(h *sign.Header) { h.Need = []string{"a,b"} },
		"empty feature":      func(h *sign.Header) { h.Need = []string{""} },
		"dash feature":       func(h *sign.Header) { h.Need = []string{"-"} },
		"head without id":    func(h *sign.Header) { h.Saw = []sign.Head{{Writer: zeroWriter, Epoch: 1, Seq: 1}} },
		"two heads in one": func(h *sign.Header) {
			h.Saw = []sign.Head{{Writer: zeroWriter + ":1:1:" + sign.WriterID(strings.Repeat("a", 32)) + " " + zeroWriter, Epoch: 1, Seq: 1, ID32: strings.Repeat("b", 32)}}
		},
		"too many heads":    func(h *sign.Header) { h.Saw = append(h.Saw, make([]sign.Head, 60)...) },
		"genesis mid-chain": func(h *sign.Header) { h.Channel, h.Prev = [32]byte{}, [32]byte{} },
		"no channel":        func(h *sign.Header) { h.Channel = [32]byte{} },
		"no prev":           func(h *sign.Header) { h.Prev = [32]byte{} },
	} {
		h := header()
		change(&h)
		if file, err := sign.Seal(key, h, []byte("{}")); err == nil {
			t.Errorf("%s: Seal made %q", name, file)
		}
	}
	if _, err := sign.Seal(key, header(), make([]byte, sign.MaxBody+1)); !errors.Is(err, sign.ErrMalformed) {
		t.Errorf("Seal of a large body = %v", err)
	}
	if _, err := sign.Seal(sign.Key{}, header(), nil); err == nil {
		t.Error("Seal with the empty key succeeded")
	}
	if _, err := sign.Open(seal(t, key, header(), make([]byte, sign.MaxBody)), key.Public()); err != nil {
		t.Errorf("the largest body: %v", err)
	}
}

// Every change of one byte must be refused: there is only one spelling of a record.
func TestEveryChangedByteIsRefused(t *testing.T) {
	key := testKey(t, 1)
	file := seal(t, key, header(), []byte(`{"id":"t-1"}`))
	want, err := sign.Open(file, key.Public())
	if err != nil {
		t.Fatal(err)
	}
	for i := range file {
		for _, b := range mutations(file[i]) {
			changed := bytes.Clone(file)
			changed[i] = b
			if v, err := sign.Open(changed, key.Public()); err == nil {
				t.Fatalf("byte %d: %q as %q was accepted; same id: %v", i, file[i], b, v.ID() == want.ID())
			}
		}
		cut := append(bytes.Clone(file[:i]), file[i+1:]...)
		if _, err := sign.Open(cut, key.Public()); err == nil {
			t.Fatalf("without byte %d (%q) the record was accepted", i, file[i])
		}
		doubled := append(bytes.Clone(file[:i+1]), file[i:]...)
		if _, err := sign.Open(doubled, key.Public()); err == nil {
			t.Fatalf("with byte %d (%q) twice the record was accepted", i, file[i])
		}
	}
}

// mutations returns all bit flips of b and the characters that a parser is most likely to take for something else.
func mutations(b byte) []byte {
	var out []byte
	for bit := range 8 {
		out = append(out, b^1<<bit)
	}
	for _, c := range []byte("\x00\t\n\r 0aA=-+/\xff") {
		if c != b {
			out = append(out, c)
		}
	}
	return out
}

func TestTruncatedRecordIsIncomplete(t *testing.T) {
	key := testKey(t, 1)
	file := seal(t, key, header(), []byte(`{"id":"t-1"}`))
	for i := range file {
		if _, err := sign.Open(file[:i], key.Public()); !errors.Is(err, sign.ErrIncomplete) {
			t.Fatalf("first %d bytes: %v, want ErrIncomplete", i, err)
		}
	}
	for _, bad := range []string{"x", "ferry-record 2\n", "garbage without a line end", "ferry-record 1\nchannel " + strings.Repeat("a", 5000)} {
		if _, err := sign.ParseHeader([]byte(bad)); !errors.Is(err, sign.ErrMalformed) {
			t.Errorf("ParseHeader(%.30q) = %v, want ErrMalformed", bad, err)
		}
	}
	if _, err := sign.ParseHeader(make([]byte, sign.MaxRecord+1)); !errors.Is(err, sign.ErrMalformed) {
		t.Errorf("too large a file: %v", err)
	}
}

func TestCosign(t *testing.T) {
	first := testKey(t, 1)
	file := seal(t, first, genesis(), []byte("{}"))
	id := open(t, file, first).ID()
	for n := byte(2); n <= sign.MaxSignatures; n++ {
		var err error
		if file, err = sign.Cosign(testKey(t, n), file); err != nil {
			t.Fatal(err)
		}
	}
	for n := byte(1); n <= sign.MaxSignatures; n++ {
		if got := open(t, file, testKey(t, n)).ID(); got != id {
			t.Errorf("the id under key %d is %x, want %x", n, got, id)
		}
	}
	if again, err := sign.Cosign(first, file); err != nil || !bytes.Equal(again, file) {
		t.Errorf("second Cosign by the same key changed the file or failed: %v", err)
	}
	if _, err := sign.Cosign(testKey(t, 99), file); !errors.Is(err, sign.ErrMalformed) {
		t.Errorf("ninth signature: %v", err)
	}
	ninth := bytes.Replace(file, []byte("\nsig "), []byte("\nsig 0123456789abcdef "+strings.Repeat("A", 86)+"==\nsig "), 1)
	if _, err := sign.ParseHeader(ninth); !errors.Is(err, sign.ErrMalformed) {
		t.Errorf("a file with nine signatures: %v", err)
	}
	at := bytes.Index(file, []byte("sig "))
	twice := append(append(bytes.Clone(file[:at]), file[at:at+110]...), file[at:]...)
	if _, err := sign.ParseHeader(twice); !errors.Is(err, sign.ErrMalformed) {
		t.Errorf("one key twice: %v", err)
	}
}

func open(t testing.TB, file []byte, k sign.Key) sign.Verified {
	t.Helper()
	v, err := sign.Open(file, k.Public())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestParseNameIsStrict(t *testing.T) {
	good := "0001-0000000118-" + strings.Repeat("0a", 16) + ".fr"
	if _, _, _, err := sign.ParseName(good); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{
		"", "x", good + "x", "0" + good, strings.ToUpper(good), strings.Replace(good, "0001", "0000", 1), strings.Replace(good, "0000000118", "0000000000", 1),
		strings.Replace(good, ".fr", ".fp", 1), strings.Replace(good, "0001-", "0001/", 1), strings.Replace(good, "0001", "+001", 1), strings.Replace(good, "0a", "0A", 1),
		strings.Replace(good, "118-", "118_", 1), strings.Replace(good, ".fr", ".sync-conflict-20261130-120000-ABCDEFG.fr", 1),
	} {
		if _, _, _, err := sign.ParseName(bad); err == nil {
			t.Errorf("ParseName(%q) succeeded", bad)
		}
	}
}

func TestHead(t *testing.T) {
	want := header().Saw[1]
	if got, err := sign.ParseHead(want.String()); got != want || err != nil {
		t.Errorf("ParseHead(%s) = %v, %v", want, got, err)
	}
	for _, bad := range []string{"", ":", want.String() + ":", strings.Replace(want.String(), ":9999:", ":09999:", 1), strings.Replace(want.String(), ":", "", 1)} {
		if _, err := sign.ParseHead(bad); err == nil {
			t.Errorf("ParseHead(%q) succeeded", bad)
		}
	}
}

func TestGolden(t *testing.T) {
	key := testKey(t, 1)
	cosigned, err := sign.Cosign(testKey(t, 2), seal(t, key, genesis(), []byte(`{"version":1}`)))
	if err != nil {
		t.Fatal(err)
	}
	blob := header()
	blob.Blob, blob.Need, blob.Saw = true, nil, nil
	for name, file := range map[string][]byte{
		"order":   seal(t, key, header(), []byte(`{"id":"t-1","text":"do it"}`)),
		"genesis": cosigned,
		"blob":    seal(t, key, blob, []byte("a body in a file of its own")),
	} {
		v := open(t, file, key)
		for path, got := range map[string][]byte{
			filepath.Join("testdata", "v1", name+".fr"):   file,
			filepath.Join("testdata", "v1", name+".name"): []byte(v.Name() + "\n"),
		} {
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %v\ngot:\n%s\nwant:\n%s", path, err, got, want)
			}
		}
	}
}

package sign_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/edwards25519"

	"github.com/ferry-fleet/ferry/internal/atomicfile"
	"github.com/ferry-fleet/ferry/sign"
)

// testKey returns a key that is the same in every run.
func testKey(t testing.TB, n byte) sign.Key {
	t.Helper()
	k, err := sign.GenerateKey(bytes.NewReader(bytes.Repeat([]byte{n}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestKeyIsNeverShown(t *testing.T) {
	key := testKey(t, 0xab)
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{0xab}, 32))
	type holder struct {
		key   sign.Key
		Key   sign.Key
		Inner struct{ k *sign.Key }
	}
	h := holder{key: key, Key: key}
	h.Inner.k = &key
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%b", "%T"} {
		for _, v := range []any{key, &key, h, &h, []sign.Key{key}, map[string]sign.Key{"a": key}, []any{h}} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
	}
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "key", key, "holder", h)
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "key", key, "holder", h)
	for _, secret := range []string{hex.EncodeToString(private[:4]), "abababab", "171 171 171", "253 253", "0xab, 0xab", "q6ur", `\xab\xab`} {
		if strings.Contains(strings.ToLower(out.String()), secret) {
			t.Errorf("the private key is shown as %q in:\n%s", secret, out.String())
		}
	}
	if _, err := json.Marshal(key); err == nil {
		t.Error("json.Marshal of a key succeeded")
	}
	if _, err := key.MarshalText(); err == nil {
		t.Error("MarshalText of a key succeeded")
	}
}

func TestSaveAndLoadKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	key, other := testKey(t, 1), testKey(t, 2)
	for range 2 {
		if err := key.Save(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Save(path); !errors.Is(err, atomicfile.ErrDiffers) {
		t.Errorf("Save over another key = %v, want ErrDiffers", err)
	}
	loaded, err := sign.LoadKey(path)
	if err != nil || loaded.Public() != key.Public() {
		t.Errorf("LoadKey = %v, %v", loaded, err)
	}
	if info, _ := os.Stat(path); info.Mode() != 0o600 {
		t.Errorf("mode = %v, want 0600", info.Mode())
	}
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o620, 0o610} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := sign.LoadKey(path); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("LoadKey with mode %o = %v, want ErrPermission", mode, err)
		}
	}
	if err := (sign.Key{}).Save(path); err == nil {
		t.Error("Save of the empty key succeeded")
	}
}

func TestLoadKeyRefusesOtherFiles(t *testing.T) {
	dir := t.TempDir()
	good := "ferry-key-1 " + strings.Repeat("01", 32) + "\n"
	for i, content := range []string{
		"", "ferry-key-1 ", good[:len(good)-1], good + "\n", strings.Replace(good, "-1", "-2", 1), strings.Replace(good, " 01", " 0x", 1),
	} {
		path := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := sign.LoadKey(path); err == nil {
			t.Errorf("LoadKey accepted %q", content)
		}
	}
	if _, err := sign.LoadKey(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("LoadKey of a missing file = %v", err)
	}
	if _, err := sign.GenerateKey(strings.NewReader("short")); err == nil {
		t.Error("GenerateKey took 5 bytes of randomness")
	}
}

// smallOrder returns the encodings of the eight points of small order, with and without the sign bit, and those that
// are not canonical.
func smallOrder(t *testing.T) [][]byte {
	t.Helper()
	order8, err := hex.DecodeString("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")
	if err != nil {
		t.Fatal(err)
	}
	p, err := new(edwards25519.Point).SetBytes(order8)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for q, i := edwards25519.NewIdentityPoint(), 0; i < 8; i++ {
		b := q.Bytes()
		flipped := bytes.Clone(b)
		flipped[31] ^= 0x80
		out = append(out, b, flipped)
		q = new(edwards25519.Point).Add(q, p)
	}
	// y = p and y = p+1 are 0 and 1 again.
	for _, low := range []byte{0xed, 0xee, 0xef, 0xff} {
		b := bytes.Repeat([]byte{0xff}, 32)
		b[0], b[31] = low, 0x7f
		out = append(out, b)
	}
	return out
}

func TestWeakPublicKeysAreRefused(t *testing.T) {
	key := testKey(t, 1)
	file := seal(t, key, header(), []byte("{}"))
	for _, b := range smallOrder(t) {
		if _, err := sign.ParsePublicKey(hex.EncodeToString(b)); !errors.Is(err, sign.ErrMalformed) {
			t.Errorf("ParsePublicKey(%x) = %v, want ErrMalformed", b, err)
		}
		// The identity verifies any message with S = 0 and R = the identity: put such a signature under the right key id.
		weak := sign.PublicKey(b)
		forged := append([]byte{1}, make([]byte, 63)...)
		bad := withSignature(t, file, weak.KeyID(), forged)
		if _, err := sign.Open(bad, weak); !errors.Is(err, sign.ErrUnverified) {
			t.Errorf("Open with key %x = %v, want ErrUnverified", b, err)
		}
	}
	for _, s := range []string{"", "00", strings.Repeat("0", 63), strings.Repeat("g", 64), strings.ToUpper(key.Public().String()), key.Public().String() + "\n", "02" + strings.Repeat("0", 62)} {
		if _, err := sign.ParsePublicKey(s); err == nil {
			t.Errorf("ParsePublicKey(%q) succeeded", s)
		}
	}
	for n := range byte(50) {
		want := testKey(t, n).Public()
		if got, err := sign.ParsePublicKey(want.String()); err != nil || got != want {
			t.Errorf("ParsePublicKey(%s) = %v, %v", want, got, err)
		}
	}
}

func TestWriterID(t *testing.T) {
	key := testKey(t, 1).Public()
	id := key.WriterID()
	if got, err := sign.ParseWriterID(string(id)); got != id || err != nil || len(id) != 26 {
		t.Errorf("ParseWriterID(%q) = %q, %v", id, got, err)
	}
	for _, bad := range []string{"", string(id[1:]), string(id) + "a", strings.ToUpper(string(id)), "1" + string(id[1:]), "/" + string(id[1:]), "\n" + string(id[1:])} {
		if _, err := sign.ParseWriterID(bad); err == nil {
			t.Errorf("ParseWriterID(%q) succeeded", bad)
		}
	}
}

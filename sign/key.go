package sign

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"filippo.io/edwards25519"

	"github.com/ferry-fleet/ferry/internal/atomicfile"
)

// WriterID names a writer for good: 26 characters of lowercase base32, derived from the public key of its first epoch. It
// is a safe file name on every system.
type WriterID string

const writerIDLen = 26

// ParseWriterID checks that s has the form of a writer id.
func ParseWriterID(s string) (WriterID, error) {
	if len(s) != writerIDLen {
		return "", fmt.Errorf("writer id has %d characters, want %d: %w", len(s), writerIDLen, ErrMalformed)
	}
	for i := range len(s) {
		if !(s[i] >= 'a' && s[i] <= 'z' || s[i] >= '2' && s[i] <= '7') {
			return "", fmt.Errorf("writer id %q: only a-z and 2-7 are allowed: %w", s, ErrMalformed)
		}
	}
	return WriterID(s), nil
}

// PublicKey is an Ed25519 public key. A value from ParsePublicKey or Key.Public is a sound point; Open refuses others.
type PublicKey [32]byte

// ParsePublicKey reads 64 lowercase hex digits. It refuses small-order points, for which anybody can make a signature, and
// encodings that are not canonical.
func ParsePublicKey(s string) (PublicKey, error) {
	var k PublicKey
	if len(s) != 64 || s != strings.ToLower(s) {
		return k, fmt.Errorf("public key: want 64 lowercase hex digits: %w", ErrMalformed)
	}
	if _, err := hex.Decode(k[:], []byte(s)); err != nil {
		return PublicKey{}, fmt.Errorf("public key: %v: %w", err, ErrMalformed)
	}
	p, err := new(edwards25519.Point).SetBytes(k[:])
	if err != nil {
		return PublicKey{}, fmt.Errorf("public key %s: %v: %w", s, err, ErrMalformed)
	}
	if k.weak() || new(edwards25519.Point).MultByCofactor(p).Equal(edwards25519.NewIdentityPoint()) == 1 {
		return PublicKey{}, fmt.Errorf("public key %s: weak point: %w", s, ErrMalformed)
	}
	return k, nil
}

// String returns the key as 64 hex digits, the form that ParsePublicKey reads.
func (k PublicKey) String() string { return hex.EncodeToString(k[:]) }

// WriterID returns the id of the writer whose first key this is.
func (k PublicKey) WriterID() WriterID {
	sum := sha256.Sum256(append([]byte("ferry-writer-v1\x00"), k[:]...))
	return WriterID(strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:writerIDLen])
}

// KeyID returns the 16 hex digits that name this key in a signature line.
func (k PublicKey) KeyID() string {
	var buf [13 + 32]byte
	sum := sha256.Sum256(append(append(buf[:0], "ferry-key-v1\x00"...), k[:]...))
	return hex.EncodeToString(sum[:8])
}

// weak reports whether k is small-order or not canonically encoded, by looking at its bytes only. The y coordinates of the
// eight small-order points are 0, 1, -1 and two of order eight; the sign bit does not matter.
func (k PublicKey) weak() bool {
	y := k
	y[31] &= 0x7f
	// p = 2^255-19: an encoding is canonical when y < p.
	if y[31] == 0x7f && y[0] >= 0xed {
		canonical := false
		for _, b := range y[1:31] {
			canonical = canonical || b != 0xff
		}
		if !canonical {
			return true
		}
	}
	switch y.String() {
	case "0000000000000000000000000000000000000000000000000000000000000000",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a":
		return true
	}
	return false
}

// Key is a private key. It never shows its bytes: printing, logging and encoding give the id of its public half or fail.
// The zero Key signs nothing.
type Key struct {
	// A function, because fmt calls no method of an unexported field and follows pointers for a verb that it finds wrong,
	// but shows nothing of a closure.
	open func() *pair
}

// pair returns nil for the zero Key.
func (k Key) pair() *pair {
	if k.open == nil {
		return nil
	}
	return k.open()
}

type pair struct {
	private ed25519.PrivateKey
	public  PublicKey
	id      string
}

// GenerateKey makes a key from 32 bytes of rand, which is crypto/rand.Reader outside of tests.
func GenerateKey(rand io.Reader) (Key, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(rand, seed); err != nil {
		return Key{}, fmt.Errorf("make key: %w", err)
	}
	return keyFromSeed(seed), nil
}

func keyFromSeed(seed []byte) Key {
	private := ed25519.NewKeyFromSeed(seed)
	public := PublicKey(private.Public().(ed25519.PublicKey))
	p := &pair{private: private, public: public, id: public.KeyID()}
	return Key{open: func() *pair { return p }}
}

// Public returns the public half, which is all zeros for the zero Key.
func (k Key) Public() PublicKey {
	if k.pair() == nil {
		return PublicKey{}
	}
	return k.pair().public
}

// keyFileHeader begins the one line of a key file. The redactor knows it, so that a key file that is printed stays hidden.
const keyFileHeader = "ferry-key-1 "

// LoadKey reads a key that Save wrote. It refuses a file that anybody but its owner may read or write.
func LoadKey(path string) (Key, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return Key{}, fmt.Errorf("load key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return Key{}, fmt.Errorf("load key %s: mode is %04o, so others can use it: make it 0600 with chmod, and replace the key if others had access: %w",
			path, info.Mode().Perm(), fs.ErrPermission)
	}
	data, err := atomicfile.ReadBounded(path, int64(len(keyFileHeader)+2*ed25519.SeedSize+1))
	if err != nil {
		return Key{}, fmt.Errorf("load key: %w", err)
	}
	rest, ok := strings.CutPrefix(string(data), keyFileHeader)
	text, end := strings.CutSuffix(rest, "\n")
	seed, err := hex.DecodeString(text)
	if !ok || !end || err != nil || len(seed) != ed25519.SeedSize {
		return Key{}, fmt.Errorf("load key %s: not a ferry key file: %w", path, ErrMalformed)
	}
	return keyFromSeed(seed), nil
}

// Save writes the key to path, readable by its owner only. A file that exists is never replaced: with another key in it the
// error is atomicfile.ErrDiffers, with the same key Save succeeds.
func (k Key) Save(path string) error {
	if k.pair() == nil {
		return errors.New("save key: it is empty")
	}
	data := fmt.Appendf(nil, "%s%x\n", keyFileHeader, k.pair().private.Seed())
	if err := atomicfile.Create(path, data, 0o600); err != nil {
		return fmt.Errorf("save key: %w", err)
	}
	return nil
}

// String names the key without showing it.
func (k Key) String() string {
	if k.pair() == nil {
		return "private key (empty)"
	}
	return "private key " + k.pair().id + " (hidden)"
}

// GoString names the key without showing it.
func (k Key) GoString() string { return "sign.Key{" + k.String() + "}" }

// Format names the key without showing it, for every verb.
func (k Key) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, k.String()) }

// LogValue names the key without showing it.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalJSON refuses: a private key never becomes part of a document.
func (k Key) MarshalJSON() ([]byte, error) { return nil, errors.New("a private key is not encoded") }

// MarshalText refuses: a private key never becomes part of a document.
func (k Key) MarshalText() ([]byte, error) { return nil, errors.New("a private key is not encoded") }

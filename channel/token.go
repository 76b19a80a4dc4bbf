package channel

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/tyler-smith/go-bip39/wordlists"

	"github.com/ferry-fleet/ferry"
	"github.com/ferry-fleet/ferry/sign"
)

// ErrToken reports text that is no invite code: mistyped, cut short, or of a version that this ferry does not know.
var ErrToken = errors.New("not an invite code")

// Token is what an invite code carries: which channel, where its authority stood when the code was given, and the key that
// lets its holder ask. It is a secret and never shows its key; only Code gives it out.
type Token struct {
	Channel  ferry.RecordID
	Root     ferry.RecordID // the root in force
	Master   ferry.WriterID
	Invite   ferry.RecordID // the invite's record, of the master's chain: below it nothing is believed
	Epoch    uint32         // of the invite's record
	Seq      uint64
	NotAfter time.Time // to the second
	Name     string    // what the new member is to be called, or ""
	Carrier  Hint
	Version  string // the oldest ferry that can join, or ""
	seed     [32]byte
}

// Hint says where a carrier finds the folder.
type Hint struct {
	Kind string // "folder", …
	Text string
}

// Bounds of an invite code.
const (
	maxTokenName    = 64
	maxTokenVersion = 32
	maxHintKind     = 16
	maxHintText     = 256
	maxCode         = 1200 // characters, blanks included
)

const (
	tokenPrefix  = "ferry1."
	tokenVersion = 1
	flagRoot     = 1 // the root is another than the first, which is the channel
	checksumLen  = 4
	writerBytes  = 17 // 26 characters of five bits, and six bits of nothing
)

var (
	tokenEncoding  = base32.StdEncoding.WithPadding(base32.NoPadding)
	writerEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
)

// NewToken gives a token with a fresh key. The caller fills in the rest.
func NewToken() Token {
	var t Token
	rand.Read(t.seed[:]) // it never returns an error: crypto/rand ends the program instead
	return t
}

// Key gives the invite's key, whose public half is in the invite's record.
func (t *Token) Key() (sign.Key, error) { return sign.GenerateKey(bytes.NewReader(t.seed[:])) }

// Code gives the token as the text that a person copies. It refuses what ParseToken would.
func (t *Token) Code() (string, error) {
	raw, err := t.encode()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return tokenPrefix + strings.ToLower(tokenEncoding.EncodeToString(append(raw, sum[:checksumLen]...))), nil
}

func (t *Token) encode() ([]byte, error) {
	if _, err := ferry.ParseWriterID(string(t.Master)); err != nil {
		return nil, fmt.Errorf("invite code: %w", err)
	}
	seconds := t.NotAfter.Unix()
	if seconds < 0 || t.Epoch == 0 || t.Epoch > sign.MaxEpoch || t.Seq == 0 || t.Seq > sign.MaxSeq {
		return nil, fmt.Errorf("invite code: a number is out of range: %w", ErrToken)
	}
	b := []byte{tokenVersion, 0}
	b = append(b, t.Channel[:]...)
	if t.Root != t.Channel {
		b[1] |= flagRoot
		b = append(b, t.Root[:]...)
	}
	writer, err := writerEncoding.DecodeString(string(t.Master) + "aaaaaa")
	if err != nil {
		return nil, fmt.Errorf("invite code: writer %s: %w", t.Master, err)
	}
	b = append(b, writer[:writerBytes]...)
	b = append(b, t.Invite[:]...)
	b = binary.AppendUvarint(b, uint64(t.Epoch))
	b = binary.AppendUvarint(b, t.Seq)
	b = append(b, t.seed[:]...)
	b = binary.AppendUvarint(b, uint64(seconds))
	for _, s := range t.texts() {
		if len(*s.text) > s.most || strings.ContainsFunc(*s.text, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\ufffd' }) {
			return nil, fmt.Errorf("invite code: %s has more than %d bytes, or a character that no text has: %w", s.what, s.most, ErrToken)
		}
		b = append(binary.AppendUvarint(b, uint64(len(*s.text))), *s.text...)
	}
	return b, nil
}

type tokenText struct {
	what string
	text *string
	most int
}

func (t *Token) texts() []tokenText {
	return []tokenText{
		{"the name", &t.Name, maxTokenName}, {"the version", &t.Version, maxTokenVersion},
		{"the carrier", &t.Carrier.Kind, maxHintKind}, {"the carrier's hint", &t.Carrier.Text, maxHintText},
	}
}

// ParseToken reads an invite code. Upper and lower case do not matter, nor do blanks and line ends, which copying from a
// terminal adds. A code has one spelling otherwise.
func ParseToken(code string) (Token, error) {
	var t Token
	if len(code) > maxCode {
		return t, fmt.Errorf("it has more than %d characters: %w", maxCode, ErrToken)
	}
	text := strings.ToLower(strings.Join(strings.Fields(code), ""))
	body, ok := strings.CutPrefix(text, tokenPrefix)
	if !ok {
		return t, fmt.Errorf("it does not begin with %q: %w", tokenPrefix, ErrToken)
	}
	raw, err := tokenEncoding.DecodeString(strings.ToUpper(body))
	if err != nil || len(raw) < checksumLen+2 {
		return t, fmt.Errorf("it is mistyped or cut short: %w", ErrToken)
	}
	raw, sum := raw[:len(raw)-checksumLen], raw[len(raw)-checksumLen:]
	if want := sha256.Sum256(raw); !bytes.Equal(sum, want[:checksumLen]) {
		return t, fmt.Errorf("it is mistyped or cut short: %w", ErrToken)
	}
	if raw[0] != tokenVersion {
		return t, fmt.Errorf("it is of version %d, and needs a newer ferry: %w", raw[0], ErrToken)
	}
	if err := t.decode(raw); err != nil {
		return Token{}, err
	}
	if again, err := t.encode(); err != nil || !bytes.Equal(again, raw) {
		return Token{}, fmt.Errorf("it is not spelled as ferry spells it: %w", ErrToken)
	}
	return t, nil
}

func (t *Token) decode(raw []byte) error {
	r := bytes.NewReader(raw[2:])
	var failed error
	fill := func(b []byte) {
		if _, err := io.ReadFull(r, b); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	number := func() uint64 {
		n, err := binary.ReadUvarint(r)
		failed = errors.Join(failed, err)
		return n
	}
	fill(t.Channel[:])
	t.Root = t.Channel
	if raw[1]&flagRoot != 0 {
		fill(t.Root[:])
	}
	writer := make([]byte, writerBytes+3)
	fill(writer[:writerBytes])
	t.Master = ferry.WriterID(writerEncoding.EncodeToString(writer)[:26])
	fill(t.Invite[:])
	epoch, seq := number(), number()
	t.Epoch, t.Seq = uint32(min(epoch, sign.MaxEpoch+1)), seq
	fill(t.seed[:])
	t.NotAfter = time.Unix(int64(min(number(), 1<<40)), 0).UTC()
	for _, s := range t.texts() {
		n := number()
		if n > uint64(s.most) {
			return fmt.Errorf("%s has %d bytes, at most %d are allowed: %w", s.what, n, s.most, ErrToken)
		}
		b := make([]byte, n)
		fill(b)
		*s.text = string(b)
	}
	if failed != nil || r.Len() > 0 {
		return fmt.Errorf("its parts do not fit together: %w", ErrToken)
	}
	return nil
}

// String names the token without its key.
func (t Token) String() string {
	return fmt.Sprintf("invite %s to channel %s (key hidden)", t.Invite.Short(), t.Channel.Short())
}

// Format names the token without its key, for every verb.
func (t Token) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, t.String()) }

// LogValue names the token without its key.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// Words gives the six words that two people compare before a key is let in: they follow from everything that is given, so
// that another key, channel, nonce or invite has other words.
func Words(parts ...[]byte) []string {
	h := sha256.New()
	h.Write([]byte("ferry-words-v1\x00"))
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write(p)
	}
	sum := h.Sum(nil)
	words := make([]string, wordCount)
	for i := range words {
		// Eleven bits each, as the list has 2048 words.
		at := i * wordBits
		bits := uint32(sum[at/8])<<16 | uint32(sum[at/8+1])<<8 | uint32(sum[at/8+2])
		words[i] = wordlists.English[bits>>(24-wordBits-at%8)&(1<<wordBits-1)]
	}
	return words
}

const (
	wordCount = 6
	wordBits  = 11
)

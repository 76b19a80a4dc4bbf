package sign

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// MaxNote bounds the file of a note.
const MaxNote = 8 << 10

// The payload types of notes.
const (
	TypeBeat = "application/vnd.ferry.beat.v1"
	TypeJoin = "application/vnd.ferry.join.v1"
)

const (
	noteFirstLine = "ferry-note"
	notePrefix    = "application/vnd.ferry."
)

// Note is a small signed file that is part of no chain. Nothing in it may be believed before a Verify.
type Note struct {
	payloadType string
	raw         []byte
	body        int
	sigs        []signature
}

// PayloadType returns the kind of the note, which its signatures cover.
func (n Note) PayloadType() string { return n.payloadType }

// Body returns the body, which is part of the file that was parsed and must not be changed.
func (n Note) Body() []byte { return n.raw[n.body:] }

// Verify reports with ErrUnverified that key did not sign the note.
func (n Note) Verify(key PublicKey) error {
	id, message := key.KeyID(), preAuth(n.payloadType, n.Body())
	for _, sig := range n.sigs {
		if sig.keyID == id && !key.weak() && ed25519.Verify(key[:], message, sig.value[:]) {
			return nil
		}
	}
	return fmt.Errorf("note by key %s: %w", id, ErrUnverified)
}

// ParseNote takes the file of a note apart without believing any of it. It keeps file, which must not be changed.
// ErrIncomplete means that the file ends too early.
func ParseNote(file []byte) (Note, error) {
	if len(file) > MaxNote {
		return Note{}, fmt.Errorf("note has more than %d bytes: %w", MaxNote, ErrMalformed)
	}
	t := &noteText{rest: string(file)}
	t.check(t.value(noteFirstLine) == "1")
	kind := t.value("type")
	t.check(isWord(kind))
	size, ok := parseUint(t.value("body"), 0, MaxNote)
	t.check(ok)
	sigs := t.signatures()
	if t.err != nil {
		return Note{}, t.err
	}
	switch have := len(t.rest); {
	case have < int(size):
		return Note{}, fmt.Errorf("note body has %d of %d bytes: %w", have, size, ErrIncomplete)
	case have > int(size):
		return Note{}, fmt.Errorf("note has %d bytes after its body: %w", have-int(size), ErrMalformed)
	}
	return Note{payloadType: notePrefix + kind, raw: file, body: len(file) - len(t.rest), sigs: sigs}, nil
}

// noteText reads a note line by line and keeps the first error.
type noteText struct {
	rest string
	err  error
}

// value returns what follows "name " on the next line.
func (t *noteText) value(name string) string {
	if t.err != nil {
		return ""
	}
	line, rest, ok := strings.Cut(t.rest, "\n")
	value, named := strings.CutPrefix(line, name+" ")
	switch {
	case !ok && (named || strings.HasPrefix(name+" ", line)):
		t.err = fmt.Errorf("note, line %q: %w", name, ErrIncomplete)
	case !ok || !named:
		t.err = fmt.Errorf("note, line %q: %w", name, ErrMalformed)
	}
	t.rest = rest
	return value
}

func (t *noteText) check(ok bool) {
	if t.err == nil && !ok {
		t.err = fmt.Errorf("note: a value is not in its one form: %w", ErrMalformed)
	}
}

// signatures reads the signature lines and the empty line behind them.
func (t *noteText) signatures() []signature {
	var sigs []signature
	for t.err == nil && !strings.HasPrefix(t.rest, "\n") {
		sig, ok := parseSignature(t.value("sig"))
		t.check(ok && len(sigs) < MaxSignatures)
		for _, other := range sigs {
			t.check(other.keyID != sig.keyID)
		}
		sigs = append(sigs, sig)
	}
	t.check(len(sigs) > 0)
	t.rest = strings.TrimPrefix(t.rest, "\n")
	return sigs
}

// OpenNote checks that key signed the note in file as one of the wanted type, and returns its body.
func OpenNote(file []byte, payloadType string, key PublicKey) ([]byte, error) {
	n, err := ParseNote(file)
	if err != nil {
		return nil, err
	}
	if n.payloadType != payloadType {
		return nil, fmt.Errorf("note of the type %q, want %q: %w", n.payloadType, payloadType, ErrMalformed)
	}
	if err := n.Verify(key); err != nil {
		return nil, err
	}
	return n.Body(), nil
}

// SealNote signs a body as a note of a type and returns the exact bytes of its file.
func SealNote(k Key, payloadType string, body []byte) ([]byte, error) {
	if k.pair() == nil {
		return nil, errors.New("seal note: the key is empty")
	}
	kind, ok := strings.CutPrefix(payloadType, notePrefix)
	if !ok || !isWord(kind) {
		return nil, fmt.Errorf("seal note: the type %q is none of a note: %w", payloadType, ErrMalformed)
	}
	file := fmt.Appendf(nil, "%s 1\ntype %s\nbody %d\n", noteFirstLine, kind, len(body))
	file = appendNoteSignature(file, k, payloadType, body)
	file = append(append(file, '\n'), body...)
	if len(file) > MaxNote {
		return nil, fmt.Errorf("seal note: it has %d bytes, at most %d are allowed: %w", len(file), MaxNote, ErrMalformed)
	}
	return file, nil
}

// CosignNote adds the signature of k to the file of a note. A note that k has signed is returned as it is.
func CosignNote(k Key, file []byte) ([]byte, error) {
	if k.pair() == nil {
		return nil, errors.New("cosign note: the key is empty")
	}
	n, err := ParseNote(file)
	if err != nil {
		return nil, fmt.Errorf("cosign: %w", err)
	}
	for _, sig := range n.sigs {
		if sig.keyID == k.pair().id {
			return file, nil
		}
	}
	if len(n.sigs) == MaxSignatures {
		return nil, fmt.Errorf("cosign note: it has %d signatures: %w", MaxSignatures, ErrMalformed)
	}
	out := append([]byte(nil), file[:n.body-1]...)
	out = appendNoteSignature(out, k, n.payloadType, n.Body())
	out = append(append(out, '\n'), n.Body()...)
	if len(out) > MaxNote {
		return nil, fmt.Errorf("cosign note: it has %d bytes, at most %d are allowed: %w", len(out), MaxNote, ErrMalformed)
	}
	return out, nil
}

func appendNoteSignature(b []byte, k Key, payloadType string, body []byte) []byte {
	sig := ed25519.Sign(k.pair().private, preAuth(payloadType, body))
	b = append(append(append(b, "sig "...), k.pair().id...), ' ')
	return append(base64.StdEncoding.AppendEncode(b, sig), '\n')
}

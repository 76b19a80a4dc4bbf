package sign

import (
	"bytes"
	"crypto/sha256"
	"fmt"
)

// Top is the header of a record with its signatures: what proves that a writer signed a record, without the record's body.
type Top struct{ record }

// Top returns the header and the signature lines as they stand in the file.
func (r record) Top() []byte { return r.raw[:r.body-1] }

// ParseTop takes a header and its signature lines apart without believing any of it.
func ParseTop(top []byte) (Top, error) {
	r, _, err := parseTop(top)
	return Top{r}, err
}

// OpenTop checks that key signed the header in top. It says nothing about the body, which it does not see.
func OpenTop(top []byte, key PublicKey) (Top, error) {
	r, message, err := parseTop(top)
	if err != nil {
		return Top{}, err
	}
	if err := r.verify(message, key); err != nil {
		return Top{}, err
	}
	return Top{r}, nil
}

// ParseBare takes the bare form of a record apart without believing any of it: the header, the signature lines and the empty
// line, and nothing of the body that the header names.
func ParseBare(file []byte) (Top, error) {
	top, ok := bytes.CutSuffix(file, []byte("\n"))
	r, _, err := parseTop(top)
	switch {
	case err != nil:
		return Top{}, err
	case !ok || r.header.Blob || r.header.BodySize == 0:
		return Top{}, fmt.Errorf("record %s is not in its bare form: %w", r.Name(), ErrMalformed)
	}
	return Top{r}, nil
}

// Open checks that key signed the header. It says nothing about the body, which is not here.
func (t Top) Open(key PublicKey) (Top, error) {
	if err := t.verify(preAuth(TypeRecordHeader, t.raw[:t.signed]), key); err != nil {
		return Top{}, err
	}
	return t, nil
}

func parseTop(top []byte) (record, []byte, error) {
	if len(top) > MaxHeader+MaxSignatures*sigLineLen {
		return record{}, nil, fmt.Errorf("record header with signatures has %d bytes: %w", len(top), ErrMalformed)
	}
	text := string(top) + "\n" // as in a file, where an empty line ends the signatures
	header, rest, err := parseHeader(text[:min(len(text), MaxHeader)])
	if err != nil {
		return record{}, nil, err
	}
	r := record{header: header, raw: []byte(text), signed: min(len(text), MaxHeader) - len(rest)}
	if err := r.parseSignatures(text[r.signed:]); err != nil {
		return record{}, nil, err
	}
	if r.body != len(text) {
		return record{}, nil, fmt.Errorf("record header has %d bytes after its signatures: %w", len(text)-r.body, ErrMalformed)
	}
	message := preAuth(TypeRecordHeader, r.raw[:r.signed])
	r.id = sha256.Sum256(message)
	return r, message, nil
}

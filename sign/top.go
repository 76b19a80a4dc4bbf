package sign

import (
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

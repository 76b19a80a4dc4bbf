package sign

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// record is a file that was taken apart.
type record struct {
	header Header
	id     [32]byte
	raw    []byte
	signed int // length of the signed header in raw
	body   int // where the body begins in raw
	sigs   []signature
}

type signature struct {
	keyID string
	value [ed25519.SignatureSize]byte
}

// Unverified is a record that has the right form. Nothing in it may be believed.
type Unverified struct{ record }

// Verified is a record whose signature and body were checked by Open.
type Verified struct{ record }

// Header returns the header.
func (r record) Header() Header { return r.header }

// ID returns the id of the record: the hash of what is signed.
func (r record) ID() [32]byte { return r.id }

// Body returns the body, which is empty when it lies in a blob. It is part of Bytes and must not be changed.
func (r record) Body() []byte { return r.raw[r.body:] }

// Bytes returns the exact bytes of the file. They must not be changed.
func (r record) Bytes() []byte { return r.raw }

// Head returns the head that names this record.
func (r record) Head() Head {
	return Head{Writer: r.header.Writer, Epoch: r.header.Epoch, Seq: r.header.Seq, ID32: hex.EncodeToString(r.id[:16])}
}

// Name returns the file name of the record in its writer's directory.
func (r record) Name() string {
	return fmt.Sprintf("%04d-%010d-%s.fr", r.header.Epoch, r.header.Seq, hex.EncodeToString(r.id[:16]))
}

// ParseName takes the name of a record file apart. It is a hint: only the content of the file counts.
func ParseName(name string) (epoch uint32, seq uint64, id32 string, err error) {
	if len(name) != len("eeee-ssssssssss-")+32+len(".fr") || name[4] != '-' || name[15] != '-' || name[48:] != ".fr" || !isHex(name[16:48], 32) {
		return 0, 0, "", fmt.Errorf("record name %q: %w", name, ErrMalformed)
	}
	e, epochOK := parseUint(unpad(name[:4]), 1, MaxEpoch)
	s, seqOK := parseUint(unpad(name[5:15]), 1, MaxSeq)
	if !epochOK || !seqOK {
		return 0, 0, "", fmt.Errorf("record name %q: %w", name, ErrMalformed)
	}
	return uint32(e), s, name[16:48], nil
}

func unpad(digits string) string { return strings.TrimLeft(digits, "0") }

// Seal signs a record and returns the exact bytes of its file. It fills in the size and the hash of body; with h.Blob the
// body is left out of the file. The time is cut to milliseconds.
func Seal(k Key, h Header, body []byte) ([]byte, error) {
	if k.pair() == nil {
		return nil, errors.New("seal record: the key is empty")
	}
	h.BodySize, h.BodyHash = int64(len(body)), sha256.Sum256(body)
	header := h.encode()
	if len(header) > MaxHeader {
		return nil, fmt.Errorf("seal record: header has %d bytes, at most %d are allowed: %w", len(header), MaxHeader, ErrMalformed)
	}
	// Reading it back is the check of every field; the counts catch an element that reads as two.
	if got, rest, err := parseHeader(string(header)); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	} else if rest != "" || len(got.Need) != len(h.Need) || len(got.Saw) != len(h.Saw) {
		return nil, fmt.Errorf("seal record: a field holds a separator: %w", ErrMalformed)
	}
	file := make([]byte, 0, len(header)+sigLineLen+1+len(body))
	file = append(file, header...)
	file = appendSignature(file, k, header)
	file = append(file, '\n')
	if !h.Blob {
		file = append(file, body...)
	}
	return file, nil
}

const sigLineLen = len("sig ") + 16 + 1 + 88 + 1

func appendSignature(b []byte, k Key, header []byte) []byte {
	sig := ed25519.Sign(k.pair().private, preAuth(TypeRecordHeader, header))
	b = append(append(append(b, "sig "...), k.pair().id...), ' ')
	return append(base64.StdEncoding.AppendEncode(b, sig), '\n')
}

// preAuth is the DSSE pre-authentication encoding.
func preAuth(payloadType string, payload []byte) []byte {
	b := make([]byte, 0, len(payloadType)+len(payload)+32)
	b = append(b, "DSSEv1 "...)
	b = append(strconv.AppendInt(b, int64(len(payloadType)), 10), ' ')
	b = append(append(b, payloadType...), ' ')
	b = append(strconv.AppendInt(b, int64(len(payload)), 10), ' ')
	return append(b, payload...)
}

// ParseHeader takes a record file apart without believing any of it. ErrIncomplete means that
// the file ends too early; ErrMalformed means that no further byte can help. It keeps file, which must not be changed.
func ParseHeader(file []byte) (Unverified, error) {
	r, _, err := parse(file)
	return Unverified{r}, err
}

// parse also returns the bytes whose signature counts.
func parse(file []byte) (record, []byte, error) {
	if len(file) > MaxRecord {
		return record{}, nil, fmt.Errorf("record has more than %d bytes: %w", MaxRecord, ErrMalformed)
	}
	const maxTop = MaxHeader + MaxSignatures*sigLineLen + 1
	top := string(upToEmptyLine(file[:min(len(file), maxTop)]))
	header, rest, err := parseHeader(top[:min(len(top), MaxHeader)])
	if err != nil {
		if errors.Is(err, ErrIncomplete) && len(file) >= MaxHeader {
			err = fmt.Errorf("record header is longer than %d bytes: %w", MaxHeader, ErrMalformed)
		}
		return record{}, nil, err
	}
	r := record{header: header, raw: file, signed: min(len(top), MaxHeader) - len(rest)}
	if err := r.parseSignatures(top[r.signed:]); err != nil {
		return record{}, nil, err
	}
	inline := header.BodySize
	if header.Blob {
		inline = 0
	}
	switch have := int64(len(file) - r.body); {
	case have < inline:
		return record{}, nil, fmt.Errorf("record body has %d of %d bytes: %w", have, inline, ErrIncomplete)
	case have > inline:
		return record{}, nil, fmt.Errorf("record has %d bytes after its body: %w", have-inline, ErrMalformed)
	}
	message := preAuth(TypeRecordHeader, file[:r.signed])
	r.id = sha256.Sum256(message)
	return r, message, nil
}

// upToEmptyLine cuts off what the strings of a header would otherwise keep in memory with them: the body.
func upToEmptyLine(b []byte) []byte {
	if at := bytes.Index(b, []byte("\n\n")); at >= 0 {
		return b[:at+2]
	}
	return b
}

func (r *record) parseSignatures(text string) error {
	l := &lines{rest: text}
	for !strings.HasPrefix(l.rest, "\n") {
		if len(r.sigs) == MaxSignatures && l.rest != "" {
			return fmt.Errorf("record has more than %d signatures: %w", MaxSignatures, ErrMalformed)
		}
		sig, ok := parseSignature(l.value("sig"))
		l.check("sig", ok)
		for _, other := range r.sigs {
			l.check("sig", other.keyID != sig.keyID)
		}
		if l.err != nil {
			return l.err
		}
		r.sigs = append(r.sigs, sig)
	}
	if len(r.sigs) == 0 {
		return fmt.Errorf("record has no signature: %w", ErrMalformed)
	}
	r.body = r.signed + len(text) - len(l.rest) + 1
	return nil
}

func parseSignature(s string) (sig signature, ok bool) {
	keyID, value, _ := strings.Cut(s, " ")
	if !isHex(keyID, 16) || len(value) != 88 {
		return signature{}, false
	}
	sig.keyID = keyID
	var buf [66]byte
	n, err := base64.StdEncoding.Strict().Decode(buf[:], []byte(value))
	copy(sig.value[:], buf[:])
	// The decoder skips line ends, of which a line has none but CR.
	return sig, err == nil && n == len(sig.value) && strings.IndexByte(value, '\r') < 0
}

// Open checks that key signed the record in file and that its body is whole. It keeps file, which must not be changed. It
// does not check the bytes of a blob (see Verified.CheckBody), nor whether key may say what the record says.
func Open(file []byte, key PublicKey) (Verified, error) {
	r, message, err := parse(file)
	if err != nil {
		return Verified{}, err
	}
	return r.open(message, key)
}

// Open checks what the function Open checks, of a file that is already taken apart.
func (u Unverified) Open(key PublicKey) (Verified, error) {
	message := preAuth(TypeRecordHeader, u.raw[:u.signed])
	if sha256.Sum256(message) != u.id {
		return Verified{}, fmt.Errorf("record %s: its file was changed after it was read: %w", u.Name(), ErrUnverified)
	}
	return u.open(message, key)
}

func (r record) open(message []byte, key PublicKey) (Verified, error) {
	if err := r.verify(message, key); err != nil {
		return Verified{}, err
	}
	if !r.header.Blob && sha256.Sum256(r.Body()) != r.header.BodyHash {
		return Verified{}, fmt.Errorf("body of record %s: %w", r.Name(), ErrUnverified)
	}
	return Verified{r}, nil
}

func (r record) verify(message []byte, key PublicKey) error {
	id := key.KeyID()
	for _, sig := range r.sigs {
		if sig.keyID == id && !key.weak() && ed25519.Verify(key[:], message, sig.value[:]) {
			return nil
		}
	}
	return fmt.Errorf("record %s by key %s: %w", r.Name(), id, ErrUnverified)
}

// CheckBody reports with ErrUnverified that body is not the one that the header names. It is how a blob is checked.
func (v Verified) CheckBody(body []byte) error {
	if int64(len(body)) != v.header.BodySize || sha256.Sum256(body) != v.header.BodyHash {
		return fmt.Errorf("body of record %s: %w", v.Name(), ErrUnverified)
	}
	return nil
}

// Cosign adds the signature of k to a record file, for records that need several keys. A record that k has signed is
// returned as it is.
func Cosign(k Key, file []byte) ([]byte, error) {
	if k.pair() == nil {
		return nil, errors.New("cosign record: the key is empty")
	}
	r, _, err := parse(file)
	if err != nil {
		return nil, fmt.Errorf("cosign: %w", err)
	}
	for _, sig := range r.sigs {
		if sig.keyID == k.pair().id {
			return file, nil
		}
	}
	if len(r.sigs) == MaxSignatures {
		return nil, fmt.Errorf("cosign record %s: it has %d signatures: %w", r.Name(), MaxSignatures, ErrMalformed)
	}
	out := make([]byte, 0, len(file)+sigLineLen)
	out = append(out, file[:r.body-1]...)
	out = appendSignature(out, k, file[:r.signed])
	out = append(append(out, '\n'), r.Body()...)
	if len(out) > MaxRecord {
		return nil, fmt.Errorf("cosign record %s: more than %d bytes: %w", r.Name(), MaxRecord, ErrMalformed)
	}
	return out, nil
}

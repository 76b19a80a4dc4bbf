package sign

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Head names the newest record of a writer that somebody had seen.
type Head struct {
	Writer WriterID
	Epoch  uint32
	Seq    uint64
	ID32   string // the first 32 hex digits of the record's id
}

// String returns the head as it stands in a header.
func (h Head) String() string { return string(h.append(nil)) }

func (h Head) append(b []byte) []byte {
	b = append(append(b, h.Writer...), ':')
	b = append(strconv.AppendUint(b, uint64(h.Epoch), 10), ':')
	b = append(strconv.AppendUint(b, h.Seq, 10), ':')
	return append(b, h.ID32...)
}

// ParseHead reads what Head.String writes.
func ParseHead(s string) (Head, error) {
	if h, ok := parseHead(s); ok {
		return h, nil
	}
	return Head{}, fmt.Errorf("head %q: %w", s, ErrMalformed)
}

// Header is everything about a record but its body. Time is for display: no decision may depend on it.
type Header struct {
	Channel  [32]byte
	Type     string
	Writer   WriterID
	Epoch    uint32
	Seq      uint64
	Prev     [32]byte
	Time     time.Time
	Need     []string
	Saw      []Head
	BodySize int64
	BodyHash [32]byte
	Blob     bool
}

const (
	firstLine  = "ferry-record 1"
	timeLayout = "2006-01-02T15:04:05.000Z"
	maxWord    = 32 // a type or a feature
	hashPrefix = "sha256:"
)

// encode returns the signed bytes of the header. What parseHeader would refuse is refused by the caller, by parsing it.
func (h Header) encode() []byte {
	b := make([]byte, 0, 512)
	line := func(name string) { b = append(append(b, name...), ' ') }
	b = append(b, firstLine...)
	line("\nchannel")
	b = hex.AppendEncode(b, h.Channel[:])
	line("\ntype")
	b = append(b, h.Type...)
	line("\nwriter")
	b = append(b, h.Writer...)
	line("\nepoch")
	b = strconv.AppendUint(b, uint64(h.Epoch), 10)
	line("\nseq")
	b = strconv.AppendUint(b, h.Seq, 10)
	line("\nprev")
	b = hex.AppendEncode(append(b, hashPrefix...), h.Prev[:])
	line("\ntime")
	b = h.Time.UTC().AppendFormat(b, timeLayout)
	line("\nneed")
	b = append(b, orDash(strings.Join(h.Need, ","))...)
	line("\nsaw")
	for i, head := range h.Saw {
		if i > 0 {
			b = append(b, ' ')
		}
		b = head.append(b)
	}
	if len(h.Saw) == 0 {
		b = append(b, '-')
	}
	line("\nbody")
	b = append(strconv.AppendInt(b, h.BodySize, 10), ' ')
	b = hex.AppendEncode(append(b, hashPrefix...), h.BodyHash[:])
	if h.Blob {
		b = append(b, " blob"...)
	}
	return append(b, '\n')
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// lines reads a text line by line and keeps the first error.
type lines struct {
	rest string
	err  error
}

// value returns what follows "name " on the next line.
func (l *lines) value(name string) string {
	if l.err != nil {
		return ""
	}
	line, rest, ok := strings.Cut(l.rest, "\n")
	if !ok {
		err := ErrMalformed
		if prefix := name + " "; strings.HasPrefix(line, prefix) || strings.HasPrefix(prefix, line) {
			err = ErrIncomplete
		}
		l.fail(name, err)
		return ""
	}
	value, ok := strings.CutPrefix(line, name+" ")
	if !ok {
		l.fail(name, ErrMalformed)
		return ""
	}
	l.rest = rest
	return value
}

func (l *lines) check(name string, ok bool) {
	if !ok {
		l.fail(name, ErrMalformed)
	}
}

func (l *lines) fail(name string, err error) {
	if l.err == nil {
		l.err = fmt.Errorf("record header, line %q: %w", name, err)
	}
}

// parseHeader reads the header at the start of text, which is at most MaxHeader long, and returns what follows it.
func parseHeader(text string) (h Header, rest string, err error) {
	l := &lines{rest: text}
	l.check("ferry-record", l.value("ferry-record") == "1")
	l.check("channel", parseHex(h.Channel[:], l.value("channel")))
	h.Type = l.value("type")
	l.check("type", isWord(h.Type))
	wid, widErr := ParseWriterID(l.value("writer"))
	h.Writer = wid
	l.check("writer", widErr == nil)
	epoch, ok := parseUint(l.value("epoch"), 1, MaxEpoch)
	h.Epoch = uint32(epoch)
	l.check("epoch", ok)
	h.Seq, ok = parseUint(l.value("seq"), 1, MaxSeq)
	l.check("seq", ok)
	l.check("prev", parseHash(h.Prev[:], l.value("prev")))
	at := l.value("time")
	h.Time, err = time.Parse(timeLayout, at)
	l.check("time", err == nil && len(at) == len(timeLayout) && string(h.Time.AppendFormat(make([]byte, 0, len(timeLayout)), timeLayout)) == at)
	h.Need, ok = parseNeed(l.value("need"))
	l.check("need", ok)
	h.Saw, ok = parseSaw(l.value("saw"))
	l.check("saw", ok)
	l.check("body", h.parseBody(l.value("body")))
	l.check("channel", h.genesisIsWhole())
	if l.err != nil {
		return Header{}, "", l.err
	}
	return h, l.rest, nil
}

// genesisIsWhole reports whether the zeros of a genesis record stand all together or not at all.
func (h Header) genesisIsWhole() bool {
	var zero [32]byte
	if h.Channel != zero && h.Prev != zero {
		return true
	}
	return h.Channel == zero && h.Prev == zero && h.Type == "root" && h.Epoch == 1 && h.Seq == 1
}

func (h *Header) parseBody(s string) bool {
	size, hash, ok := strings.Cut(s, " ")
	hash, h.Blob = strings.CutSuffix(hash, " blob")
	limit := uint64(MaxBody)
	if h.Blob {
		limit = MaxBlob
	}
	n, sizeOK := parseUint(size, 0, limit)
	h.BodySize = int64(n)
	return ok && sizeOK && parseHash(h.BodyHash[:], hash)
}

func parseNeed(s string) ([]string, bool) {
	if s == "-" {
		return nil, true
	}
	need := strings.Split(s, ",")
	for _, feature := range need {
		if !isWord(feature) || feature == "-" {
			return nil, false
		}
	}
	return need, true
}

func parseSaw(s string) ([]Head, bool) {
	if s == "-" {
		return nil, true
	}
	saw := make([]Head, 0, strings.Count(s, " ")+1)
	for part := range strings.SplitSeq(s, " ") {
		head, ok := parseHead(part)
		if !ok {
			return nil, false
		}
		saw = append(saw, head)
	}
	return saw, true
}

func parseHead(s string) (Head, bool) {
	writer, s, _ := strings.Cut(s, ":")
	epochText, s, _ := strings.Cut(s, ":")
	seqText, id32, _ := strings.Cut(s, ":")
	wid, err := ParseWriterID(writer)
	epoch, epochOK := parseUint(epochText, 1, MaxEpoch)
	seq, seqOK := parseUint(seqText, 1, MaxSeq)
	if err != nil || !epochOK || !seqOK || !isHex(id32, 32) {
		return Head{}, false
	}
	return Head{Writer: wid, Epoch: uint32(epoch), Seq: seq, ID32: id32}, true
}

// isWord reports whether s is a type or a feature: 1 to 32 of a-z, 0-9, "." and "-".
func isWord(s string) bool {
	for i := range len(s) {
		if c := s[i]; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '-') {
			return false
		}
	}
	return s != "" && len(s) <= maxWord
}

// parseUint reads a decimal number between low and high without sign or leading zero.
func parseUint(s string, low, high uint64) (uint64, bool) {
	if s == "" || len(s) > 1 && s[0] == '0' || len(s) > 19 {
		return 0, false
	}
	var n uint64
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + uint64(s[i]-'0')
	}
	return n, n >= low && n <= high
}

func parseHash(dst []byte, s string) bool {
	digits, ok := strings.CutPrefix(s, hashPrefix)
	return ok && parseHex(dst, digits)
}

func parseHex(dst []byte, s string) bool {
	if !isHex(s, 2*len(dst)) {
		return false
	}
	_, err := hex.Decode(dst, []byte(s))
	return err == nil
}

func isHex(s string, digits int) bool {
	for i := range len(s) {
		if c := s[i]; !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return len(s) == digits
}

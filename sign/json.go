package sign

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Limits bounds a JSON body. A zero field means the cap of the format (MaxDepth, MaxTokens, MaxString).
type Limits struct {
	Depth  int // nesting of objects and arrays
	Tokens int // keys, values and brackets
	String int // bytes of one decoded string
}

func (l Limits) filled() Limits {
	or := func(n, standard int) int {
		if n == 0 {
			return standard
		}
		return n
	}
	return Limits{Depth: or(l.Depth, MaxDepth), Tokens: or(l.Tokens, MaxTokens), String: or(l.String, MaxString)}
}

// UnknownFields says what DecodeJSON does with a key that the Go type does not have.
type UnknownFields int

const (
	// Refuse makes an unknown key an error. It is for types that carry authority.
	Refuse UnknownFields = iota
	// Ignore skips unknown keys and counts them.
	Ignore
)

// CheckJSON reports what is wrong with a body: it must be one JSON object in UTF-8 with nothing after it, keys of a-z, 0-9
// and "_" that begin with a letter and occur once in their object, integers between -(2^53-1) and 2^53-1 and no other
// numbers, strings without U+0000 and without half surrogates, all of it within limits.
func CheckJSON(body []byte, limits Limits) error {
	_, err := scan(body, scanner{limits: limits})
	return err
}

// DecodeJSON checks body as CheckJSON does with the caps of the format and stores it in v, a pointer to a struct whose
// fields all have JSON names of the form that keys have. Names are matched exactly. It returns how many keys were ignored.
func DecodeJSON(body []byte, v any, unknown UnknownFields) (ignored int, err error) {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return 0, fmt.Errorf("decode JSON into %T: want a pointer to a struct", v)
	}
	ignored, err = scan(body, scanner{shape: t, refuse: unknown == Refuse})
	if err != nil {
		return 0, err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return 0, fmt.Errorf("json body: %v: %w", err, ErrMalformed)
	}
	return ignored, nil
}

// EncodeJSON returns the body for v: no spaces, no HTML escapes, and certain to pass CheckJSON. Bytes in strings that are
// not UTF-8 become U+FFFD.
func EncodeJSON(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode JSON body: %w", err)
	}
	body := bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	if err := CheckJSON(body, Limits{}); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return body, nil
}

// scanner makes the one strict pass. It is recursive: its depth is capped by limits.
type scanner struct {
	limits Limits
	shape  reflect.Type // what the top object is decoded into, nil when nothing
	refuse bool

	src     []byte
	pos     int
	tokens  int
	ignored int
}

func scan(body []byte, s scanner) (ignored int, err error) {
	s.limits, s.src = s.limits.filled(), body
	if !utf8.Valid(body) {
		return 0, fmt.Errorf("json body is not UTF-8: %w", ErrMalformed)
	}
	s.space()
	if s.peek() != '{' {
		return 0, s.bad("want an object")
	}
	if err := s.value(1, s.shape); err != nil {
		return 0, err
	}
	if s.space(); s.pos != len(s.src) {
		return 0, s.bad("something follows the object")
	}
	return s.ignored, nil
}

func (s *scanner) bad(what string) error {
	return fmt.Errorf("json body, byte %d: %s: %w", s.pos, what, ErrMalformed)
}

// peek returns the next byte, or 0 at the end; a zero byte is never valid JSON.
func (s *scanner) peek() byte {
	if s.pos < len(s.src) {
		return s.src[s.pos]
	}
	return 0
}

func (s *scanner) space() {
	for c := s.peek(); c == ' ' || c == '\n' || c == '\r' || c == '\t'; c = s.peek() {
		s.pos++
	}
}

func (s *scanner) token() error {
	if s.tokens++; s.tokens > s.limits.Tokens {
		return s.bad("more than " + strconv.Itoa(s.limits.Tokens) + " tokens")
	}
	return nil
}

func (s *scanner) value(depth int, shape reflect.Type) error {
	if err := s.token(); err != nil {
		return err
	}
	switch c := s.peek(); {
	case c == '{' || c == '[':
		if depth > s.limits.Depth {
			return s.bad("nested more than " + strconv.Itoa(s.limits.Depth) + " deep")
		}
		if c == '{' {
			return s.object(depth, shape)
		}
		return s.array(depth, shape)
	case c == '"':
		_, err := s.str()
		return err
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s.src[s.pos:], []byte(word)) {
			s.pos += len(word)
			return nil
		}
	}
	return s.bad("want a value")
}

func (s *scanner) object(depth int, shape reflect.Type) error {
	fields, each, err := members(shape)
	if err != nil {
		return err
	}
	var seen map[string]bool
	return s.list('}', func() error {
		start := s.pos
		key, err := s.key()
		if err != nil {
			return err
		}
		if seen == nil {
			seen = make(map[string]bool)
		}
		if seen[key] {
			s.pos = start
			return s.bad("key " + key + " twice")
		}
		seen[key] = true
		next := each
		if fields != nil {
			field, known := fields[key]
			if !known && s.refuse {
				s.pos = start
				return s.bad("unknown key " + key)
			}
			if !known {
				s.ignored++
			}
			next = field
		}
		s.space()
		if s.peek() != ':' {
			return s.bad("want a colon")
		}
		s.pos++
		s.space()
		return s.value(depth+1, next)
	})
}

func (s *scanner) array(depth int, shape reflect.Type) error {
	elem := element(shape)
	return s.list(']', func() error { return s.value(depth+1, elem) })
}

// list reads the inside of an object or array up to end, calling item for each element.
func (s *scanner) list(end byte, item func() error) error {
	s.pos++
	s.space()
	for first := true; s.peek() != end; first = false {
		if !first {
			if s.peek() != ',' {
				return s.bad("want a comma or the end of the list")
			}
			s.pos++
			s.space()
		}
		if err := item(); err != nil {
			return err
		}
		s.space()
	}
	s.pos++
	return s.token()
}

// key reads a key. Its letters are all lowercase, so that two keys can not differ in case alone.
func (s *scanner) key() (string, error) {
	if err := s.token(); err != nil {
		return "", err
	}
	if s.peek() != '"' {
		return "", s.bad("want a key")
	}
	start := s.pos + 1
	for s.pos++; s.peek() != '"'; s.pos++ {
		c, first := s.peek(), s.pos == start
		if !(c >= 'a' && c <= 'z' || !first && (c >= '0' && c <= '9' || c == '_')) {
			return "", s.bad("a key has only a-z, 0-9 and _, and begins with a letter")
		}
		if s.pos-start >= s.limits.String {
			return "", s.bad("key is too long")
		}
	}
	if s.pos == start {
		return "", s.bad("empty key")
	}
	s.pos++
	return string(s.src[start : s.pos-1]), nil
}

// str checks a string and returns the length of what it stands for.
func (s *scanner) str() (length int, err error) {
	for s.pos++; s.peek() != '"'; {
		c := s.peek()
		switch {
		case c < 0x20:
			return 0, s.bad("control character or end inside of a string")
		case c == '\\':
			n, err := s.escape()
			if err != nil {
				return 0, err
			}
			length += n
		default:
			s.pos++
			length++
		}
		if length > s.limits.String {
			return 0, s.bad("string has more than " + strconv.Itoa(s.limits.String) + " bytes")
		}
	}
	s.pos++
	return length, nil
}

func (s *scanner) escape() (length int, err error) {
	s.pos++
	c := s.peek()
	if c != 'u' {
		if c == 0 || bytes.IndexByte([]byte(`"\/bfnrt`), c) < 0 {
			return 0, s.bad("unknown escape")
		}
		s.pos++
		return 1, nil
	}
	r, err := s.hex4()
	if err != nil {
		return 0, err
	}
	if utf16.IsSurrogate(r) {
		if !bytes.HasPrefix(s.src[s.pos:], []byte(`\u`)) {
			return 0, s.bad("half a surrogate pair")
		}
		s.pos++
		low, err := s.hex4()
		if err != nil {
			return 0, err
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return 0, s.bad("half a surrogate pair")
		}
	}
	if r == 0 {
		return 0, s.bad("U+0000 in a string")
	}
	return utf8.RuneLen(r), nil
}

// hex4 reads "uXXXX".
func (s *scanner) hex4() (rune, error) {
	if len(s.src)-s.pos < 5 {
		return 0, s.bad("escape is cut off")
	}
	var r rune
	for _, c := range s.src[s.pos+1 : s.pos+5] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, s.bad("escape without four hex digits")
		}
		r = r<<4 | rune(c)
	}
	s.pos += 5
	return r, nil
}

func (s *scanner) number() error {
	start := s.pos
	if s.peek() == '-' {
		s.pos++
	}
	digits := s.pos
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.pos++
	}
	n, ok := parseUint(string(s.src[digits:min(s.pos, digits+20)]), 0, MaxInteger)
	switch c := s.peek(); {
	case c == '.' || c == 'e' || c == 'E':
		return s.bad("only integers are allowed")
	case !ok || n == 0 && digits > start:
		s.pos = start
		return s.bad("not an integer between -(2^53-1) and 2^53-1")
	}
	return nil
}

// errTag is a mistake in our own types, found by the first test that decodes one.
var errTag = errors.New("every exported field needs a json name of a-z, 0-9 and _")

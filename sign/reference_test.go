package sign_test

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/ferry-fleet/ferry/sign"
)

// This file reads a body in two passes: a plain scan, and encoding/json. It is slow and simple, and says what DecodeJSON
// has to accept, to store and to answer.

var errTag = errors.New("every exported field needs a json name of a-z, 0-9 and _")

func decodeTwice(body []byte, v any, unknown sign.UnknownFields) (ignored int, err error) {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return 0, fmt.Errorf("decode JSON into %T: want a pointer to a struct", v)
	}
	ignored, err = slowScan(body, slowScanner{shape: t, refuse: unknown == sign.Refuse})
	if err != nil {
		return 0, err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return 0, fmt.Errorf("json body: %v: %w", err, sign.ErrMalformed)
	}
	return ignored, nil
}

// slowScanner makes the strict pass. It is recursive: its depth is capped by limits.
type slowScanner struct {
	limits sign.Limits
	shape  reflect.Type // what the top object is decoded into, nil when nothing
	refuse bool

	src     []byte
	pos     int
	tokens  int
	ignored int
}

func slowScan(body []byte, s slowScanner) (ignored int, err error) {
	s.limits = sign.Limits{Depth: sign.MaxDepth, Tokens: sign.MaxTokens, String: sign.MaxString}
	s.src = body
	if !utf8.Valid(body) {
		return 0, fmt.Errorf("json body is not UTF-8: %w", sign.ErrMalformed)
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

func (s *slowScanner) bad(what string) error {
	return fmt.Errorf("json body, byte %d: %s: %w", s.pos, what, sign.ErrMalformed)
}

// peek returns the next byte, or 0 at the end; a zero byte is never valid JSON.
func (s *slowScanner) peek() byte {
	if s.pos < len(s.src) {
		return s.src[s.pos]
	}
	return 0
}

func (s *slowScanner) space() {
	for c := s.peek(); c == ' ' || c == '\n' || c == '\r' || c == '\t'; c = s.peek() {
		s.pos++
	}
}

func (s *slowScanner) token() error {
	if s.tokens++; s.tokens > s.limits.Tokens {
		return s.bad("more than " + strconv.Itoa(s.limits.Tokens) + " tokens")
	}
	return nil
}

func (s *slowScanner) value(depth int, shape reflect.Type) error {
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

func (s *slowScanner) object(depth int, shape reflect.Type) error {
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

func (s *slowScanner) array(depth int, shape reflect.Type) error {
	elem := element(shape)
	return s.list(']', func() error { return s.value(depth+1, elem) })
}

// list reads the inside of an object or array up to end, calling item for each element.
func (s *slowScanner) list(end byte, item func() error) error {
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
func (s *slowScanner) key() (string, error) {
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
func (s *slowScanner) str() (length int, err error) {
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

func (s *slowScanner) escape() (length int, err error) {
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
func (s *slowScanner) hex4() (rune, error) {
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

func (s *slowScanner) number() error {
	start := s.pos
	if s.peek() == '-' {
		s.pos++
	}
	digits := s.pos
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.pos++
	}
	n, ok := parseUint(string(s.src[digits:min(s.pos, digits+20)]), 0, sign.MaxInteger)
	switch c := s.peek(); {
	case c == '.' || c == 'e' || c == 'E':
		return s.bad("only integers are allowed")
	case !ok || n == 0 && digits > start:
		s.pos = start
		return s.bad("not an integer between -(2^53-1) and 2^53-1")
	}
	return nil
}

func parseUint(s string, low, high uint64) (uint64, bool) {
	if s == "" || len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && n >= low && n <= high
}

// members says what an object may hold that is decoded into t: either named fields, or for a map any key with values of one
// type. Both are nil where the type decides for itself (an interface, or a type with its own decoder).
func members(t reflect.Type) (fields map[string]reflect.Type, each reflect.Type, err error) {
	t = settled(t)
	if t == nil {
		return nil, nil, nil
	}
	switch t.Kind() {
	case reflect.Map:
		return nil, t.Elem(), nil
	case reflect.Struct:
		fields = make(map[string]reflect.Type, t.NumField())
		return fields, nil, addFields(fields, t)
	}
	return nil, nil, nil
}

// element returns the type of what an array holds that is decoded into t, or nil.
func element(t reflect.Type) reflect.Type {
	if t = settled(t); t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		return t.Elem()
	}
	return nil
}

// settled follows pointers, and returns nil for a type that decodes itself.
func settled(t reflect.Type) reflect.Type {
	for t != nil {
		p := reflect.PointerTo(t)
		if p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
			return nil
		}
		if t.Kind() != reflect.Pointer {
			return t
		}
		t = t.Elem()
	}
	return nil
}

func addFields(fields map[string]reflect.Type, t reflect.Type) error {
	for f := range t.Fields() {
		tag := f.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		if f.Anonymous && name == "" {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				if err := addFields(fields, inner); err != nil {
					return err
				}
				continue
			}
		}
		if tag == "-" || !f.IsExported() {
			continue
		}
		if !isKey(name) {
			return fmt.Errorf("json field %s of %s: %w", f.Name, t, errTag)
		}
		fields[name] = f.Type
	}
	return nil
}

func isKey(s string) bool {
	return s != "" && s[0] >= 'a' && s[0] <= 'z' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

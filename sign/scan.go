package sign

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner makes the one strict pass, and stores what it reads where it has a place for it. It is recursive: its depth is
// capped by limits.
type scanner struct {
	src    string
	limits Limits
	refuse bool // unknown keys

	pos     int
	tokens  int
	ignored int
	misfit  bool   // something did not go into its Go value: encoding/json says why
	buf     []byte // what a string with escapes stands for
	none    shape  // takes anything
}

func (s *scanner) body(p *shape, v reflect.Value) error {
	if !utf8.ValidString(s.src) {
		return fmt.Errorf("json body is not UTF-8: %w", ErrMalformed)
	}
	s.space()
	if s.peek() != '{' {
		return s.bad("want an object")
	}
	if err := s.value(1, s.or(p), v); err != nil {
		return err
	}
	if s.space(); s.pos != len(s.src) {
		return s.bad("something follows the object")
	}
	return nil
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

// value reads a value of shape p, and stores it in v unless that is the zero reflect.Value.
func (s *scanner) value(depth int, p *shape, v reflect.Value) error {
	if err := s.token(); err != nil {
		return err
	}
	switch c := s.peek(); {
	case c == '{' || c == '[':
		if depth > s.limits.Depth {
			return s.bad("nested more than " + strconv.Itoa(s.limits.Depth) + " deep")
		}
		if c == '{' {
			return s.object(depth, p, v)
		}
		return s.array(depth, p, v)
	case c == '"':
		text, err := s.str()
		if err == nil && v.IsValid() {
			s.storeText(p, v, text)
		}
		return err
	case c == '-' || c >= '0' && c <= '9':
		n, err := s.number()
		if err == nil && v.IsValid() {
			s.storeNumber(p, v, n)
		}
		return err
	}
	return s.word(p, v)
}

func (s *scanner) word(p *shape, v reflect.Value) error {
	rest := s.src[s.pos:]
	switch {
	case strings.HasPrefix(rest, "true"):
		s.pos += len("true")
	case strings.HasPrefix(rest, "false"):
		s.pos += len("false")
	case strings.HasPrefix(rest, "null"):
		s.pos += len("null")
		if v.IsValid() && p.storing == asSlice {
			v.SetZero()
		}
		return nil
	default:
		return s.bad("want a value")
	}
	if v.IsValid() {
		if p.storing == asBool {
			v.SetBool(rest[0] == 't')
		} else {
			s.misfit = true
		}
	}
	return nil
}

func (s *scanner) storeText(p *shape, v reflect.Value, text string) {
	switch p.storing {
	case asString:
		v.SetString(text)
	case asText:
		s.buf = append(s.buf[:0], text...)
		if v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText(s.buf) != nil {
			s.misfit = true
		}
	default:
		s.misfit = true
	}
}

func (s *scanner) storeNumber(p *shape, v reflect.Value, n int64) {
	switch {
	case p.storing == asInt && !v.OverflowInt(n):
		v.SetInt(n)
	case p.storing == asUint && n >= 0 && !v.OverflowUint(uint64(n)):
		v.SetUint(uint64(n))
	default:
		s.misfit = true
	}
}

// more steps to the next element of an object or array that ends with end; it is false behind the end.
func (s *scanner) more(end byte, first bool) (bool, error) {
	if first {
		s.pos++
	}
	s.space()
	if s.peek() == end {
		s.pos++
		return false, s.token()
	}
	if !first {
		if s.peek() != ',' {
			return false, s.bad("want a comma or the end of the list")
		}
		s.pos++
		s.space()
	}
	return true, nil
}

func (s *scanner) object(depth int, p *shape, v reflect.Value) error {
	if p.err != nil {
		return p.err
	}
	if v.IsValid() && p.storing != asStruct {
		s.misfit, v = true, reflect.Value{}
	}
	var seen keys
	for first, next := true, 0; ; first = false {
		more, err := s.more('}', first)
		if !more {
			return err
		}
		start := s.pos
		key, err := s.key()
		if err != nil {
			return err
		}
		at := p.find(key, next)
		if !seen.add(key, at) {
			s.pos = start
			return s.bad("key " + key + " twice")
		}
		below, into := p.values, reflect.Value{}
		if at >= 0 {
			next, below = at+1, p.fields[at].shape
			if v.IsValid() {
				into = v.Field(p.fields[at].index)
			}
		} else if p.object {
			if s.refuse {
				s.pos = start
				return s.bad("unknown key " + key)
			}
			s.ignored++
		}
		if err := s.colon(); err != nil {
			return err
		}
		if err := s.value(depth+1, s.or(below), into); err != nil {
			return err
		}
	}
}

// or gives p, or where there is none a shape that takes anything.
func (s *scanner) or(p *shape) *shape {
	if p == nil {
		return &s.none
	}
	return p
}

// keys are the keys of one object. Those of fields are bits; of others a few are looked through, and many go into a map.
type keys struct {
	fields uint64
	few    [8]string
	n      int
	many   map[string]bool
}

// add reports whether key is not there yet. It is that of field number at, or of none when at is negative.
func (k *keys) add(key string, at int) bool {
	if at >= 0 && at < 64 {
		fresh := k.fields&(1<<at) == 0
		k.fields |= 1 << at
		return fresh
	}
	if k.many != nil {
		fresh := !k.many[key]
		k.many[key] = true
		return fresh
	}
	for _, other := range k.few[:k.n] {
		if other == key {
			return false
		}
	}
	if k.n < len(k.few) {
		k.few[k.n] = key
		k.n++
		return true
	}
	k.many = map[string]bool{key: true}
	for _, other := range k.few {
		k.many[other] = true
	}
	return true
}

func (s *scanner) colon() error {
	s.space()
	if s.peek() != ':' {
		return s.bad("want a colon")
	}
	s.pos++
	s.space()
	return nil
}

// array stores elements as encoding/json does: over those that are there.
func (s *scanner) array(depth int, p *shape, v reflect.Value) error {
	if v.IsValid() && p.storing != asSlice {
		s.misfit, v = true, reflect.Value{}
	}
	items := s.or(p.items)
	for n := 0; ; n++ {
		more, err := s.more(']', n == 0)
		if err != nil {
			return err
		}
		if !more {
			if v.IsValid() && n == 0 {
				v.Set(reflect.MakeSlice(v.Type(), 0, 0))
			} else if v.IsValid() {
				v.SetLen(n)
			}
			return nil
		}
		into := reflect.Value{}
		if v.IsValid() {
			if n >= v.Cap() {
				v.Grow(1)
			}
			if n >= v.Len() {
				v.SetLen(n + 1)
			}
			into = v.Index(n)
		}
		if err := s.value(depth+1, items, into); err != nil {
			return err
		}
	}
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
	return s.src[start : s.pos-1], nil
}

// str reads a string and returns what it stands for.
func (s *scanner) str() (string, error) {
	start, escaped, length := s.pos+1, false, 0
	s.buf = s.buf[:0]
	for s.pos++; ; {
		run := s.pos
		for s.pos < len(s.src) && s.src[s.pos] >= 0x20 && s.src[s.pos] != '"' && s.src[s.pos] != '\\' {
			s.pos++
		}
		if length += s.pos - run; length > s.limits.String {
			s.pos -= length - s.limits.String - 1
			return "", s.tooLong()
		}
		switch s.peek() {
		case '"':
			s.pos++
			if !escaped {
				return s.src[start : s.pos-1], nil
			}
			return string(append(s.buf, s.src[run:s.pos-1]...)), nil
		case '\\':
			escaped = true
			s.buf = append(s.buf, s.src[run:s.pos]...)
			r, err := s.escape()
			if err != nil {
				return "", err
			}
			s.buf = utf8.AppendRune(s.buf, r)
			if length = len(s.buf); length > s.limits.String {
				return "", s.tooLong()
			}
		default:
			return "", s.bad("control character or end inside of a string")
		}
	}
}

func (s *scanner) tooLong() error {
	return s.bad("string has more than " + strconv.Itoa(s.limits.String) + " bytes")
}

func (s *scanner) escape() (rune, error) {
	s.pos++
	c := s.peek()
	if c != 'u' {
		at := strings.IndexByte(`"\/bfnrt`, c)
		if at < 0 {
			return 0, s.bad("unknown escape")
		}
		s.pos++
		return rune("\"\\/\b\f\n\r\t"[at]), nil
	}
	r, err := s.hex4()
	if err != nil {
		return 0, err
	}
	if utf16.IsSurrogate(r) {
		if !strings.HasPrefix(s.src[s.pos:], `\u`) {
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
	return r, nil
}

// hex4 reads "uXXXX".
func (s *scanner) hex4() (rune, error) {
	if len(s.src)-s.pos < 5 {
		return 0, s.bad("escape is cut off")
	}
	var r rune
	for _, c := range []byte(s.src[s.pos+1 : s.pos+5]) {
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

func (s *scanner) number() (int64, error) {
	start := s.pos
	if s.peek() == '-' {
		s.pos++
	}
	digits := s.pos
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.pos++
	}
	n, ok := parseUint(s.src[digits:min(s.pos, digits+20)], 0, MaxInteger)
	switch c := s.peek(); {
	case c == '.' || c == 'e' || c == 'E':
		return 0, s.bad("only integers are allowed")
	case !ok || n == 0 && digits > start:
		s.pos = start
		return 0, s.bad("not an integer between -(2^53-1) and 2^53-1")
	}
	if digits > start {
		return -int64(n), nil
	}
	return int64(n), nil
}

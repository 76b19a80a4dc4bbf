package sign

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
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
	s := scanner{src: string(body), limits: limits.filled()}
	return s.body(nil, reflect.Value{})
}

// DecodeJSON checks body as CheckJSON does with the caps of the format and stores it in v, a pointer to a struct whose
// fields all have JSON names of the form that keys have. Names are matched exactly. It returns how many keys were ignored.
// After an error v may hold a part of the body. The strings in v share one copy of the body.
func DecodeJSON(body []byte, v any, unknown UnknownFields) (ignored int, err error) {
	at := reflect.ValueOf(v)
	if v == nil || at.Kind() != reflect.Pointer || at.Type().Elem().Kind() != reflect.Struct {
		return 0, fmt.Errorf("decode JSON into %T: want a pointer to a struct", v)
	}
	t := targetOf(at.Type().Elem())
	s := scanner{src: string(body), limits: Limits{}.filled(), refuse: unknown == Refuse}
	into := reflect.Value{}
	if t.plain {
		into = at.Elem()
	}
	if err := s.body(t.shape, into); err != nil {
		return 0, err
	}
	if t.plain && !s.misfit {
		return s.ignored, nil
	}
	if err := json.Unmarshal(body, v); err != nil {
		return 0, fmt.Errorf("json body: %v: %w", err, ErrMalformed)
	}
	return s.ignored, nil
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

// errTag is a mistake in our own types, found by the first test that decodes one.
var errTag = errors.New("every exported field needs a json name of a-z, 0-9 and _")

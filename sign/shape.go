package sign

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

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
	for i := range len(s) {
		if c := s[i]; !(c >= 'a' && c <= 'z' || i > 0 && (c >= '0' && c <= '9' || c == '_')) {
			return false
		}
	}
	return s != ""
}

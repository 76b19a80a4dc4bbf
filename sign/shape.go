package sign

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// storing says how a JSON value gets into a Go value.
type storing int

const (
	byJSON storing = iota // by encoding/json, which knows every type
	asText                // by the type's own UnmarshalText
	asString
	asBool
	asInt
	asUint
	asStruct
	asSlice
)

// shape is what a value is decoded into: a Go type, looked at once. The zero shape takes anything.
type shape struct {
	storing storing
	object  bool    // an object may hold fields and nothing else
	fields  []field // in the order of the struct, which is the order in which they are written
	values  *shape  // of a map
	items   *shape  // of a list
	err     error   // the type has a field without a proper name
}

type field struct {
	name  string
	index int
	shape *shape
}

// find returns the place of the field called key, or -1. It begins at next, where the key of a body that we wrote is.
func (p *shape) find(key string, next int) int {
	for i := next; i < len(p.fields); i++ {
		if p.fields[i].name == key {
			return i
		}
	}
	for i := range min(next, len(p.fields)) {
		if p.fields[i].name == key {
			return i
		}
	}
	return -1
}

// target is the shape of a whole body.
type target struct {
	shape *shape
	plain bool // the scanner can store all of it
}

// targetOf keeps the targets of the types that were decoded into: no more than the program has.
var targetOf = remember(func(t reflect.Type) target {
	known := map[reflect.Type]*shape{}
	top := shapeOf(t, known)
	plain := true
	for _, p := range known {
		plain = plain && p.storing != byJSON
	}
	return target{shape: top, plain: plain}
})

func remember[K comparable, V any](find func(K) V) func(K) V {
	var known sync.Map
	return func(k K) V {
		v, ok := known.Load(k)
		if !ok {
			v, _ = known.LoadOrStore(k, find(k))
		}
		return v.(V)
	}
}

// shapeOf says how a value of type t is read. A type may hold itself, so known has those that are begun.
func shapeOf(t reflect.Type, known map[reflect.Type]*shape) *shape {
	if p, ok := known[t]; ok && t.Kind() != reflect.Pointer {
		return p
	}
	p := &shape{}
	known[t] = p
	pointer := reflect.PointerTo(t)
	switch {
	case pointer.Implements(reflect.TypeFor[json.Unmarshaler]()):
		return p
	case pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		if t.Kind() != reflect.Pointer && t.Name() != "" {
			p.storing = asText
		}
		return p
	}
	switch t.Kind() {
	case reflect.Pointer:
		return shapeOf(t.Elem(), known)
	case reflect.Map:
		p.values = shapeOf(t.Elem(), known)
	case reflect.Array, reflect.Slice:
		p.items = shapeOf(t.Elem(), known)
		if t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 {
			p.storing = asSlice
		}
	case reflect.Struct:
		p.storing, p.object = asStruct, true
		p.err = p.addFields(t, known)
	default:
		p.storing = simple(t)
	}
	return p
}

func simple(t reflect.Type) storing {
	switch t.Kind() {
	case reflect.String:
		if t != reflect.TypeFor[json.Number]() {
			return asString
		}
	case reflect.Bool:
		return asBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return asInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return asUint
	}
	return byJSON
}

func (p *shape) addFields(t reflect.Type, known map[reflect.Type]*shape) error {
	for f := range t.Fields() {
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		if f.Anonymous {
			p.storing = byJSON
		}
		if f.Anonymous && name == "" {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				if err := p.addFields(inner, known); err != nil {
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
		if strings.Contains(options, "string") {
			p.storing = byJSON
		}
		p.add(field{name: name, index: f.Index[0], shape: shapeOf(f.Type, known)})
	}
	return nil
}

// add leaves it to encoding/json which of two fields with one name counts.
func (p *shape) add(f field) {
	if at := p.find(f.name, 0); at >= 0 {
		p.storing, p.fields[at] = byJSON, f
		return
	}
	p.fields = append(p.fields, f)
}

func isKey(s string) bool {
	for i := range len(s) {
		if c := s[i]; !(c >= 'a' && c <= 'z' || i > 0 && (c >= '0' && c <= '9' || c == '_')) {
			return false
		}
	}
	return s != ""
}

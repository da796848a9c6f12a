package openapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Words is what a type of strings may implement to have all of its values listed.
type Words interface{ Words() []string }

func typeOf(value any) reflect.Type {
	t := reflect.TypeOf(value)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// schemas are those of named types, each defined once.
type schemas struct {
	defined map[string]any
	types   map[string]reflect.Type
	err     error
}

// of is the schema of a type as encoding/json writes it: a reference where the type has a name.
func (s *schemas) of(t reflect.Type) any {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[json.RawMessage](), t.Kind() == reflect.Interface:
		return map[string]any{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.String:
		return s.text(t)
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string", "contentEncoding": "base64"}
		}
		return map[string]any{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		return s.named(t, func() any { return s.object(t) })
	}
	s.fail(fmt.Errorf("schema of %s: encoding/json cannot write it", t))
	return map[string]any{}
}

func (s *schemas) text(t reflect.Type) any {
	words, ok := reflect.Zero(t).Interface().(Words)
	if !ok {
		return map[string]any{"type": "string"}
	}
	return s.named(t, func() any { return map[string]any{"type": "string", "enum": words.Words()} })
}

// named defines a type that has a name, and refers to it. Of a generic type the name holds that of its parameter.
func (s *schemas) named(t reflect.Type, define func() any) any {
	name := nameOf(t)
	if name == "" {
		return define()
	}
	if before, ok := s.types[name]; ok {
		if before != t {
			s.fail(fmt.Errorf("schema of %s: %s has the same name", t, before))
		}
		return reference(name)
	}
	s.types[name] = t
	s.defined[name] = define()
	return reference(name)
}

// nameOf makes DeploymentList of List[…/v1.Deployment].
func nameOf(t reflect.Type) string {
	name, parameter, generic := strings.Cut(t.Name(), "[")
	if !generic {
		return name
	}
	parameter = strings.TrimSuffix(parameter, "]")
	if strings.HasPrefix(parameter, "interface") {
		parameter = "Any"
	}
	return parameter[strings.LastIndexAny(parameter, "./")+1:] + name
}

// object is a struct's schema. Fields that may be left out are not required, and further ones may come.
func (s *schemas) object(t reflect.Type) any {
	properties, required := map[string]any{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() {
			continue // what is embedded has its fields among the visible ones
		}
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		if tag == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		properties[name] = s.of(f.Type)
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	out := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

func (s *schemas) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

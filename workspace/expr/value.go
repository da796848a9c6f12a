package expr

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// evaluation is one Eval, with what remains of its bounds.
type evaluation struct {
	vars         map[string]any
	secret       func(Ref) bool
	write        func([]string, []Part) (string, error)
	values, text int
	end          time.Time
}

func (e *evaluation) node(n node) (any, error) {
	switch n := n.(type) {
	case branch:
		m := make(map[string]any, len(n))
		for _, key := range slices.Sorted(maps.Keys(n)) { // in order, so that the same mistake is reported every time
			value, err := e.node(n[key])
			if err != nil {
				return nil, err
			}
			m[key] = value
		}
		return m, nil
	case list:
		l := make([]any, len(n))
		for i, item := range n {
			value, err := e.node(item)
			if err != nil {
				return nil, err
			}
			l[i] = value
		}
		return l, nil
	case *text:
		return e.expressions(n)
	}
	return n, nil
}

func (e *evaluation) expressions(t *text) (any, error) {
	parts := make([]Part, len(t.parts))
	for i, p := range t.parts {
		parts[i] = Part{Text: p.text, Given: p.code != nil}
		if p.code == nil {
			continue
		}
		value, err := e.one(p)
		if err == nil && len(t.parts) == 1 {
			value, err = e.written(t.path, value)
			if err == nil {
				return value, nil
			}
		}
		if err == nil {
			parts[i].Text, err = textOf(value)
		}
		if err != nil {
			return nil, &Error{t.at, p.text, e.hidden(t, err)}
		}
	}
	if e.write != nil {
		out, err := e.write(t.path, parts)
		if err != nil {
			return nil, &Error{t.at, t.source(), err}
		}
		return out, nil
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String(), nil
}

// source is the text as it was written.
func (t *text) source() string {
	var b strings.Builder
	for _, p := range t.parts {
		if p.code != nil {
			b.WriteString("${" + p.text + "}")
		} else {
			b.WriteString(p.text)
		}
	}
	return b.String()
}

// written has every text of what an expression gave written anew. The value is the evaluation's own.
func (e *evaluation) written(path []string, value any) (any, error) {
	if e.write == nil {
		return value, nil
	}
	var err error
	switch v := value.(type) {
	case string:
		return e.write(path, []Part{{v, true}})
	case []any:
		for i := range v {
			if v[i], err = e.written(append(slices.Clip(path), strconv.Itoa(i)), v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for _, key := range sortedKeys(v) {
			if v[key], err = e.written(append(slices.Clip(path), key), v[key]); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

// errHidden stands for an error that may tell a secret.
var errHidden = errors.New("it cannot be evaluated; what it says is not shown, since it may tell a secret")

// hidden is the error without the values of secrets: the library quotes what it cannot convert, parse or find.
func (e *evaluation) hidden(t *text, err error) error {
	var absent *MissingError
	switch {
	case !slices.ContainsFunc(t.refs, e.secret):
		return err
	case errors.As(err, &absent) && slices.ContainsFunc(t.refs, func(r Ref) bool { return slices.Contains(r.Path, absent.Key) }):
		return err // the key is written in the expression
	case errors.Is(err, errShape):
		return err
	}
	return errHidden
}

func (e *evaluation) one(p piece) (any, error) {
	if time.Now().After(e.end) {
		return nil, shapeError("the expressions before it took longer than %s", maxTime)
	}
	value, err := p.code.Eval(e.vars)
	if err != nil {
		return nil, err
	}
	return e.native(value, 0)
}

// textOf is a value as it stands in a text.
func textOf(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case bool, int64, uint64:
		return fmt.Sprint(v), nil
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	}
	return "", shapeError("it gives %s, which has no place inside a text", kindOf(value))
}

// native is a value as a decoded tree has it.
func (e *evaluation) native(value ref.Val, depth int) (any, error) {
	if e.values--; e.values < 0 || depth > MaxDepth {
		return nil, shapeError("it gives more than %d values, or more than %d levels of them", maxValues, MaxDepth)
	}
	switch v := value.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		return uint64(v), nil
	case types.Double:
		return float64(v), nil
	case types.String:
		if e.text -= len(v); e.text < 0 {
			return nil, shapeError("it gives more than %d MiB of text", maxText>>20)
		}
		return string(v), nil
	case traits.Mapper:
		return e.nativeMap(v, depth)
	case traits.Lister:
		return e.nativeList(v, depth)
	}
	return nil, shapeError("it gives a value of type %s; make a text of it with string()", value.Type().TypeName())
}

func (e *evaluation) nativeList(v traits.Lister, depth int) (any, error) {
	l := []any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		item, err := e.native(it.Next(), depth+1)
		if err != nil {
			return nil, err
		}
		l = append(l, item)
	}
	return l, nil
}

func (e *evaluation) nativeMap(v traits.Mapper, depth int) (any, error) {
	m := map[string]any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, shapeError("it gives a map with keys that are not text")
		}
		item, err := e.native(v.Get(key), depth+1)
		if err != nil {
			return nil, err
		}
		m[string(name)] = item
	}
	return m, nil
}

// errShape is that of errors about what an expression gives, which tell no values.
var errShape = errors.New("value of the wrong shape")

type shape struct{ text string }

func (s *shape) Error() string        { return s.text }
func (s *shape) Is(target error) bool { return target == errShape }

func shapeError(format string, args ...any) error { return &shape{fmt.Sprintf(format, args...)} }

// kindOf is what a value is, in words.
func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case int64, uint64, float64:
		return "a number"
	case string:
		return "a text"
	case []any:
		return "a list"
	}
	return "a map"
}

package compare

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/unseal"
)

// masker hides what nobody is to see of one side.
type masker struct {
	key    []byte
	sealed []string
}

// appliedAnnotation holds, on objects that kubectl apply made, the whole object once more.
const appliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"

// field is a copy of the value at a path of an object, as people may see it.
func (m masker) field(id object.ID, path []string, value any) any {
	if id.IsSecret() && secretPath(path) {
		return m.all(value)
	}
	switch v := value.(type) {
	case string:
		return m.text(v, path)
	case int64:
		return m.number(v, strconv.FormatInt(v, 10))
	case float64:
		return m.number(v, strconv.FormatFloat(v, 'f', -1, 64))
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = m.field(id, append(slices.Clip(path), position(i)), v[i])
		}
		return list
	case map[string]any:
		plain := make(map[string]any, len(v))
		for key := range v {
			name := key
			if len(path) > 0 { // those of the object itself are the API's
				name = m.name(key)
			}
			plain[name] = m.field(id, append(slices.Clip(path), key), v[key])
		}
		return plain
	}
	return value
}

// secretPath says whether everything at a path of a Secret is a value.
func secretPath(path []string) bool {
	switch {
	case len(path) == 0:
		return false
	case path[0] == "data" || path[0] == "stringData":
		return true
	}
	return slices.Equal(path, []string{"metadata", "annotations", appliedAnnotation})
}

// all hides each value, and shows the keys.
func (m masker) all(value any) any {
	switch v := value.(type) {
	case nil:
		return nil
	case map[string]any:
		hidden := make(map[string]any, len(v))
		for key := range v {
			hidden[key] = m.all(v[key])
		}
		return hidden
	case []any:
		hidden := make([]any, len(v))
		for i := range v {
			hidden[i] = m.all(v[i])
		}
		return hidden
	}
	return "***(" + m.digits(fmt.Sprint(value)) + ")"
}

// text hides what was sealed in a string. What says which object it is stays.
func (m masker) text(text string, path []string) string {
	if len(m.sealed) == 0 || identifying(path) {
		return text
	}
	if hidden := unseal.Redact(text, m.sealed); hidden != text {
		return hidden + "(" + m.digits(text) + ")"
	}
	return text
}

// number is one as it is, or in the place of a value that was sealed what a text has there.
func (m masker) number(value any, text string) any {
	if slices.Contains(m.sealed, text) {
		return m.all(text)
	}
	return value
}

// name hides what was sealed in a key, or in what tells one item of a list from the others.
func (m masker) name(key string) string { return m.text(key, nil) }

func identifying(path []string) bool {
	if len(path) == 1 {
		return slices.Contains([]string{"apiVersion", "kind", "type"}, path[0])
	}
	return len(path) == 2 && path[0] == "metadata" && (path[1] == "name" || path[1] == "namespace")
}

// digits tell values apart and say nothing else of them.
func (m masker) digits(text string) string {
	sum := hmac.New(sha256.New, m.key)
	sum.Write([]byte(text))
	return hex.EncodeToString(sum.Sum(nil)[:4])
}

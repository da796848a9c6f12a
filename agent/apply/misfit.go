package apply

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// misfit is a line in which the API server says of a field that its value does not fit: what it expects there, and what it got, as
// Go prints its own memory.
var misfit = regexp.MustCompile(`(?m), got &(value\.valueUnstructured\{Value:|\{)(.*)\}$`)

// plainValues is what the API server says of values that do not fit, with the values as JSON. It takes the text with its lines, since
// each ends with a value.
func plainValues(text string) string {
	return misfit.ReplaceAllStringFunc(text, func(said string) string {
		parts := misfit.FindStringSubmatch(said)
		if parts[1] == "{" {
			return ", got " + clippedValue(loose(parts[2]))
		}
		value, read := jsonOf(parts[2])
		if !read {
			value = "another"
		}
		return ", got " + clippedValue(value)
	})
}

// maxValue is how much is repeated of a value that does not fit, in characters.
const maxValue = 100

func clippedValue(value string) string {
	if runes := []rune(value); len(runes) > maxValue {
		return string(runes[:maxValue]) + "..."
	}
	return value
}

// loose is a value of which Go printed the text alone, so that what is in a map or a list cannot be told apart.
func loose(printed string) string {
	switch {
	case strings.HasPrefix(printed, "map["):
		return "a map"
	case strings.HasPrefix(printed, "["):
		return "a list"
	case json.Valid([]byte(printed)): // a number, most likely
		return printed
	}
	return quoted(printed)
}

// jsonOf is a value that Go printed with its types, as JSON; read is false where that is not possible.
func jsonOf(printed string) (value string, read bool) {
	syntax := []struct{ from, to, end string }{
		{"map[string]interface {}{", "{", "}"},
		{"map[interface {}]interface {}{", "{", "}"},
		{"[]interface {}{", "[", "]"},
		{"interface {}(nil)", "null", ""},
	}
	var out strings.Builder
	var ends []string
next:
	for printed != "" {
		if text, err := strconv.QuotedPrefix(printed); err == nil {
			plain, _ := strconv.Unquote(text) // it is quoted as it should be
			out.WriteString(quoted(plain))
			printed = printed[len(text):]
			continue
		}
		for _, s := range syntax {
			if rest, is := strings.CutPrefix(printed, s.from); is {
				out.WriteString(s.to)
				if s.end != "" {
					ends = append(ends, s.end)
				}
				printed = rest
				continue next
			}
		}
		if printed[0] == '}' && len(ends) > 0 {
			out.WriteString(ends[len(ends)-1])
			ends = ends[:len(ends)-1]
		} else {
			out.WriteByte(printed[0])
		}
		printed = printed[1:]
	}
	return out.String(), json.Valid([]byte(out.String()))
}

// quoted is text as JSON writes it, on a page of no browser.
func quoted(text string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string can be written
	return strings.TrimSuffix(out.String(), "\n")
}

// secretMisfit is the first field of which the API server says what it expects there: before it in the text there is no value.
var secretMisfit = regexp.MustCompile(`^(?:errors:\s*)?(\.[\w.-]+: expected ` +
	`(?:map|list|string|boolean|any scalar|numeric \(int or float\))), got `)

// misfitOfSecret is what the API server says of a Secret that does not fit its schema without the value; empty for anything else.
func misfitOfSecret(text string) string {
	_, rest, _ := strings.Cut(text, typedPatch)
	_, told, _ := strings.Cut(rest, "): ")
	if parts := secretMisfit.FindStringSubmatch(told); parts != nil {
		return parts[1] + ", got a value that is not repeated"
	}
	return ""
}

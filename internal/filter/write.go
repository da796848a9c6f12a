package filter

import (
	"slices"
	"strings"
)

// Tags are the terms that pick by tags as -l does: k=v, k!=v, k for a tag that is there, !k for one that is not, with commas
// between them. The error is an *Error.
func Tags(text string) (string, error) {
	words, rest, err := argument("-l", strings.TrimSpace(text))
	if err != nil {
		return "", err
	}
	if rest != "" {
		return "", &Error{text, "there is a space in it", "write tags with commas between them: env=prod,tier!=db"}
	}
	terms := make([]string, len(words))
	for i, w := range words {
		if w.not {
			terms[i] = "!"
		}
		terms[i] += "tag." + w.key + ":" + quote(w.patterns[0].parts)
	}
	return strings.Join(terms, " "), nil
}

// OneOf is a term that picks the items of which a field has one of these values, where a star stands for any text.
func OneOf(key string, values []string) string {
	written := make([]string, len(values))
	for i, value := range values {
		written[i] = quote(strings.Split(value, "*"))
	}
	return key + ":" + strings.Join(written, ",")
}

// quote writes texts with stars between them.
func quote(parts []string) string {
	parts = slices.Clone(parts)
	for i, part := range parts {
		if part != "" {
			parts[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(part) + `"`
		}
	}
	return strings.Join(parts, "*")
}

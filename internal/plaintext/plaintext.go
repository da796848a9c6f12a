// Package plaintext owns the cleaning of outside text for errors, logs and answers.
//
// It refuses to know where the text comes from: git quotes damaged files as they are, and so do servers.
package plaintext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Of has the replacement character in the place of what is no text: a NUL, another control character than a tab or a line's end,
// broken UTF-8.
func Of(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.IsControl(r) {
			return r
		}
		return utf8.RuneError
	}, strings.ToValidUTF8(text, string(utf8.RuneError)))
}

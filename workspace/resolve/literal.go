package resolve

import (
	"strconv"
	"strings"
)

// Whoever generates Services writes plain texts with braces in them as {{ "..." }}. They are as long as people's answers are, and
// cost nothing but their bytes: so they are cut out before a template is parsed, and do not count for its bounds.

// cutLiteral splits a template at the first action that is one text in quotes, which is value. Where there is none that can be
// told for sure, found is false: the parser then reads it like any other action.
func cutLiteral(text string) (before, value, rest string, found bool) {
	for at := 0; ; {
		open := strings.Index(text[at:], "{{")
		if open < 0 {
			return text, "", "", false
		}
		at += open
		if value, size := literal(text[at:]); size > 0 {
			return text[:at], value, text[at+size:], true
		}
		size := action(text[at:])
		if size < 0 {
			return text, "", "", false
		}
		at += size
	}
}

// literal is the text of the action that s begins with, and the action's size: 0 when it is no text in quotes.
func literal(s string) (value string, size int) {
	const open, end = "{{ ", " }}"
	if !strings.HasPrefix(s, open+`"`) {
		return "", 0
	}
	quoted, err := strconv.QuotedPrefix(s[len(open):])
	if err != nil || !strings.HasPrefix(s[len(open)+len(quoted):], end) {
		return "", 0
	}
	if value, err = strconv.Unquote(quoted); err != nil {
		return "", 0
	}
	return value, len(open) + len(quoted) + len(end)
}

// action is the size of the action that s begins with, -1 when its end is not to be found.
func action(s string) int {
	inside := s[len("{{"):]
	trimmed := strings.TrimPrefix(inside, "-")
	if strings.HasPrefix(strings.TrimLeft(trimmed, " \t\r\n"), "/*") {
		comment := strings.Index(s, "*/")
		end := strings.Index(s[max(comment, 0):], "}}")
		if comment < 0 || end < 0 {
			return -1
		}
		return comment + end + len("}}")
	}
	for i := len("{{"); i < len(s); {
		switch {
		case strings.HasPrefix(s[i:], "}}"):
			return i + len("}}")
		case strings.IndexByte("\"`'", s[i]) >= 0:
			quoted, err := strconv.QuotedPrefix(s[i:])
			if err != nil {
				return -1
			}
			i += len(quoted)
		default:
			i++
		}
	}
	return -1
}

package expr

import (
	"errors"
	"strconv"
	"strings"
)

// part is a piece of a text: as it is, or the code of an expression.
type part struct {
	text string
	code bool
}

// split cuts a text at its expressions.
func split(s string) ([]part, error) {
	var parts []part
	var plain strings.Builder
	flush := func() {
		if plain.Len() > 0 {
			parts = append(parts, part{text: plain.String()})
			plain.Reset()
		}
	}
	for s != "" {
		switch {
		case strings.HasPrefix(s, "$${"):
			plain.WriteString("${")
			s = s[3:]
		case strings.HasPrefix(s, "${"):
			end := closing(s[2:])
			if end < 0 {
				return nil, errors.New("there is no } for its ${")
			}
			flush()
			parts = append(parts, part{s[2 : 2+end], true})
			s = s[2+end+1:]
		default:
			next := strings.IndexByte(s[1:], '$') + 1
			if next == 0 {
				next = len(s)
			}
			plain.WriteString(s[:next])
			s = s[next:]
		}
	}
	flush()
	return parts, nil
}

// closing is where the } stands that ends an expression which begins at the start of s; -1 when there is none. Braces inside
// texts, comments and other braces do not end it.
func closing(s string) int {
	depth := 0
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '"' || c == '\'':
			i += literal(s[i:], rawBefore(s[:i]))
			continue
		case strings.HasPrefix(s[i:], "//"):
			line := strings.IndexByte(s[i:], '\n')
			if line < 0 {
				return -1
			}
			i += line
		case c == '{':
			depth++
		case c == '}' && depth == 0:
			return i
		case c == '}':
			depth--
		}
		i++
	}
	return -1
}

// rawBefore says whether a text that follows s is raw, so that a backslash in it is one.
func rawBefore(s string) bool {
	prefix := s[len(strings.TrimRight(s, "rRbB")):]
	before := s[:len(s)-len(prefix)]
	if before != "" {
		switch c := before[len(before)-1]; {
		case c == '_', '0' <= c && c <= '9', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
			return false // the end of a name
		}
	}
	return len(prefix) <= 2 && strings.ContainsAny(prefix, "rR")
}

// literal is the length of the text that s begins with, its quotes included.
func literal(s string, raw bool) int {
	quote := s[:1]
	if strings.HasPrefix(s, strings.Repeat(quote, 3)) {
		quote = s[:3]
	}
	for i := len(quote); i < len(s); i++ {
		switch {
		case s[i] == '\\' && !raw:
			i++
		case strings.HasPrefix(s[i:], quote):
			return i + len(quote)
		}
	}
	return len(s)
}

// quoted is an expression as it is shown in an error.
func quoted(code string) string {
	const most = 120
	if len(code) > most {
		code = code[:most] + "..."
	}
	return strconv.Quote(code)
}

package values

import (
	"regexp"
	"strings"
)

// envLine is one assignment, up to its value.
var envLine = regexp.MustCompile(`^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*`)

// readEnv fills f from lines like NAME=value. A value may stand between quotes; between double quotes a backslash
// escapes, and between either kind it may go over several lines.
func (f *file) readEnv() error {
	root := &node{kind: mapping, end: len(f.text)}
	f.docs = []*document{{text: f.text, root: root}}
	seen := map[string]bool{}
	text := string(f.text)
	for at, line := 0, 1; at < len(text); {
		n := len(nextLine(text[at:]))
		trimmed := strings.TrimSpace(text[at : at+n])
		if trimmed == "" || trimmed[0] == '#' {
			root.comments.foot += len(trimmed[:min(1, len(trimmed))])
			at, line = at+n, line+1
			continue
		}
		m := envLine.FindStringSubmatchIndex(text[at : at+n])
		if m == nil {
			return &Error{File: f.name, Line: line, Message: "it is not a line like NAME=value", Err: ErrFormat}
		}
		key := &node{tag: "!!str", text: text[at+m[2] : at+m[3]], start: at + m[2], end: at + m[3], line: line}
		key.comments.head, root.comments.foot = root.comments.foot, 0
		if seen[key.text] {
			f.flaw = f.errorAt(key, "the name %q is written twice", key.text)
		}
		seen[key.text] = true
		value := envValue(text, at+m[1], at+n)
		value.line = line
		root.entries = append(root.entries, entry{key, value})
		next := value.end + len(nextLine(text[value.end:]))
		line += strings.Count(text[at:next], "\n")
		at = next
	}
	return nil
}

// envValue reads the value that starts at start, on a line that ends at end.
func envValue(text string, start, end int) *node {
	n := &node{tag: "!!str", start: start}
	if start < end {
		if value, length, ok := quotedEnv(text[start:]); ok {
			n.text, n.end, n.style = value, start+length, doubleQuoted
			if text[start] == '\'' {
				n.style = singleQuoted
			}
			return n
		}
	}
	n.text = plainEnv(text[start:end])
	n.end = start + len(n.text)
	return n
}

// plainEnv is a value without quotes: up to a comment.
func plainEnv(text string) string {
	for i := range text {
		if text[i] == '#' && (i == 0 || text[i-1] == ' ' || text[i-1] == '\t') {
			text = text[:i]
			break
		}
	}
	return strings.TrimSpace(text)
}

// quotedEnv reads a value between quotes, behind which nothing but a comment may stand.
func quotedEnv(text string) (value string, length int, ok bool) {
	quote := text[0]
	if quote != '"' && quote != '\'' {
		return "", 0, false
	}
	var b strings.Builder
	i := 1
	for ; i < len(text) && text[i] != quote; i++ {
		if text[i] == '\\' && quote == '"' && i+1 < len(text) {
			i++
			b.WriteString(unescapeEnv(text[i]))
			continue
		}
		b.WriteByte(text[i])
	}
	if i >= len(text) {
		return "", 0, false
	}
	if behind := strings.TrimSpace(nextLine(text[i+1:])); behind != "" && behind[0] != '#' {
		return "", 0, false
	}
	return b.String(), i + 1, true
}

func unescapeEnv(c byte) string {
	switch c {
	case 'n':
		return "\n"
	case 'r':
		return "\r"
	case 't':
		return "\t"
	case '"', '\\', '$', '`':
		return string(c)
	}
	return `\` + string(c)
}

// envForms are the ways to write value, the best first.
func envForms(value string, like style) []string {
	double := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "$", `\$`, "`", "\\`").Replace(value) + `"`
	single := "'" + value + "'"
	safe := !strings.ContainsAny(value, " \t\n\r'\"\\$`#")
	var forms []string
	switch {
	case like == doubleQuoted:
	case like == singleQuoted:
		forms = []string{single}
	case safe:
		forms = []string{value}
	default:
		forms = []string{single}
	}
	if strings.ContainsAny(value, "'\n\r") {
		forms = nil
	}
	return append(forms, double)
}

// nextLine is the first line of text, with its end.
func nextLine(text string) string {
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		return text[:i+1]
	}
	return text
}

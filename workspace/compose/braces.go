package compose

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/pluralsh/plural/workspace/expr"
	"github.com/pluralsh/plural/workspace/fleet"
)

// Some texts of a Service are templates that are filled in for each cluster. In them stays a template what the package's author
// wrote as one; what an expression gives is a value, whatever it holds, and has to come out as it went in.

// errInside is an expression in the middle of a template's code.
var errInside = errors.New("an expression between {{ and }} stands inside of double quotes, or not at all: what it gives is a text")

// errBeside is a template in a text that is sealed, which only the agent sees.
var errBeside = errors.New("a text with a secret in it is no template: nobody but the agent reads it, which fills in nothing")

// braces says how the texts of a step are written of which a Service is made: secret are the leaves that read a secret.
func braces(raw any, secret [][]string) func([]string, []expr.Part) (string, error) {
	sealed := make([][]string, len(secret))
	for n, leaf := range secret {
		sealed[n] = whole(raw, leaf)
	}
	return func(path []string, parts []expr.Part) (string, error) {
		if len(path) == 0 || path[0] != "spec" || !fleet.Templated(path[1:]...) {
			return plain(parts), nil
		}
		for _, taken := range sealed {
			if len(path) < len(taken) || !slices.Equal(path[:len(taken)], taken) {
				continue
			}
			if slices.ContainsFunc(parts, func(p expr.Part) bool { return !p.Given && strings.Contains(p.Text, "{{") }) {
				return "", errBeside
			}
			return plain(parts), nil
		}
		return template(parts)
	}
}

// whole is what is sealed of a leaf: a list goes as a whole.
func whole(raw any, leaf []string) []string {
	for n := range leaf {
		if _, list := at(raw, leaf[:n]).([]any); list {
			return leaf[:n]
		}
	}
	return leaf
}

func plain(parts []expr.Part) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// template writes a text so that, filled in, it has every value byte for byte.
func template(parts []expr.Part) (string, error) {
	if all := plain(parts); !strings.Contains(all, "{{") {
		return all, nil
	}
	var out strings.Builder
	var in code
	for n, p := range parts {
		switch {
		case p.Given && in == inText:
			out.WriteString(`{{ ` + strconv.Quote(p.Text) + ` }}`)
		case p.Given && in == inQuotes:
			quoted := strconv.Quote(p.Text)
			out.WriteString(quoted[1 : len(quoted)-1])
		case p.Given:
			return "", errInside
		default:
			in = in.after(p.Text)
			plain, open := p.Text, ""
			if in == inText && n+1 < len(parts) { // a brace before those of a value would be taken for one of them
				plain = strings.TrimRight(p.Text, "{")
				open = p.Text[len(plain):]
			}
			out.WriteString(plain)
			if open != "" {
				out.WriteString(`{{ ` + strconv.Quote(open) + ` }}`)
			}
		}
	}
	return out.String(), nil
}

// code is where in a template one is.
type code int

const (
	inText    code = iota // outside of {{ and }}
	inCode                // between them
	inQuotes              // in "" between them
	inRaw                 // in `` between them
	inChar                // in '' between them
	inComment             // in /* */ between them
)

// after is where one is behind more of what the author wrote.
func (c code) after(s string) code {
	for s != "" {
		size := 1
		switch {
		case c == inText:
			open := strings.Index(s, "{{")
			if open < 0 {
				return inText
			}
			size, c = open+len("{{"), inCode
			if strings.HasPrefix(strings.TrimLeft(strings.TrimPrefix(s[size:], "-"), " \t\r\n"), "/*") {
				c = inComment
			}
		case c == inComment:
			end := strings.Index(s, "*/")
			if end < 0 {
				return inComment
			}
			size, c = end+len("*/"), inCode
		case c == inCode && strings.HasPrefix(s, "}}"):
			size, c = len("}}"), inText
		case c == inCode:
			if quote := strings.IndexByte("\"`'", s[0]); quote >= 0 {
				c = inQuotes + code(quote)
			}
		case c != inRaw && s == `\`: // it would change what comes next
			return inCode
		case c != inRaw && s[0] == '\\':
			size = 2
		case s[0] == "\"`'"[c-inQuotes]:
			c = inCode
		}
		s = s[size:]
	}
	return c
}

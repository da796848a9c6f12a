package filter

import (
	"regexp"
	"strings"
)

// pattern fits texts that have its parts in order, whatever lies between them. Unless it is loose, the first part stands at the
// text's start, the last at its end.
type pattern struct {
	parts []string // in lower case
	loose bool
	// wide says that there is more than ASCII in it.
	wide bool
	// expr, where it is set, is all that counts.
	expr *regexp.Regexp
}

func newPattern(parts []string, loose bool) pattern {
	p := pattern{parts: make([]string, len(parts)), loose: loose}
	for i, part := range parts {
		p.parts[i] = strings.ToLower(part)
		p.wide = p.wide || strings.ContainsFunc(part, func(c rune) bool { return c >= 0x80 })
	}
	return p
}

// fits is on the path of every row of a fleet: it makes no copy of a text in ASCII.
func (p *pattern) fits(text string) bool {
	if p.expr != nil {
		return p.expr.MatchString(text)
	}
	if p.wide {
		text = strings.ToLower(text)
	}
	parts := p.parts
	if !p.loose {
		first, last := parts[0], parts[len(parts)-1]
		if len(parts) == 1 {
			return len(text) == len(first) && startsFold(text, first)
		}
		if len(text) < len(first)+len(last) || !startsFold(text, first) || !startsFold(text[len(text)-len(last):], last) {
			return false
		}
		text, parts = text[len(first):len(text)-len(last)], parts[1:len(parts)-1]
	}
	for _, part := range parts {
		at := indexFold(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return true
}

// indexFold is where a part in lower case begins in a text, or -1.
func indexFold(text, part string) int {
	for i := 0; i+len(part) <= len(text); i++ {
		if startsFold(text[i:], part) {
			return i
		}
	}
	return -1
}

func startsFold(text, part string) bool {
	if len(text) < len(part) {
		return false
	}
	for i := range len(part) {
		c := text[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != part[i] {
			return false
		}
	}
	return true
}

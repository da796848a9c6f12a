package filter

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// maxSteps bounds all regular expressions of one filter together: how long one takes over a text grows with its steps, and a fleet
// has a hundred thousand texts.
const maxSteps = 128

// expression is what fits a regular expression, as patterns where that can be told by them, which are several times faster.
func expression(term, text string, budget *int) ([]pattern, error) {
	const literal = `put it in quotes to look for the very characters: "a[1]"`
	tree, err := syntax.Parse(text, syntax.Perl|syntax.FoldCase)
	if err != nil {
		return nil, &Error{term, "it is no regular expression: " + strings.TrimPrefix(err.Error(), "error parsing regexp: "), literal}
	}
	if simple, ok := alternatives(tree); ok {
		return simple, nil
	}
	if *budget -= steps(tree); *budget < 0 {
		message := fmt.Sprintf("the regular expressions of a filter have more than %d steps together", maxSteps)
		return nil, &Error{term, message, "pick by simpler ones"}
	}
	compiled, err := regexp.Compile("(?i:" + text + ")")
	if err != nil {
		return nil, &Error{term, "it is no regular expression", literal}
	}
	return []pattern{{expr: compiled}}, nil
}

// steps is how large an expression gets when repetitions are written out, or any number above maxSteps.
func steps(tree *syntax.Regexp) int {
	n := max(1, len(tree.Rune))
	if tree.Op == syntax.OpCharClass {
		n = 1
	}
	for _, sub := range tree.Sub {
		n = min(n+steps(sub), maxSteps+1)
	}
	if tree.Op == syntax.OpRepeat {
		n = min(n*max(1, tree.Min, tree.Max), maxSteps+1)
	}
	return n
}

// alternatives are an expression as patterns of which one fits.
func alternatives(tree *syntax.Regexp) ([]pattern, bool) {
	for tree.Op == syntax.OpCapture {
		tree = tree.Sub[0]
	}
	branches := []*syntax.Regexp{tree}
	if tree.Op == syntax.OpAlternate {
		branches = tree.Sub
	}
	var all []pattern
	for _, branch := range branches {
		p, ok := sequence(branch)
		if !ok {
			return nil, false
		}
		all = append(all, p)
	}
	return all, true
}

// sequence is an expression of texts with anything between them as a pattern.
func sequence(tree *syntax.Regexp) (pattern, bool) {
	items := []*syntax.Regexp{tree}
	if tree.Op == syntax.OpConcat {
		items = tree.Sub
	}
	begins := items[0].Op == syntax.OpBeginText
	if begins {
		items = items[1:]
	}
	ends := len(items) > 0 && items[len(items)-1].Op == syntax.OpEndText
	if ends {
		items = items[:len(items)-1]
	}
	parts := []string{""}
	for _, item := range items {
		switch {
		case item.Op == syntax.OpLiteral && item.Flags&syntax.FoldCase != 0:
			parts[len(parts)-1] += string(item.Rune)
		case item.Op == syntax.OpStar && (item.Sub[0].Op == syntax.OpAnyCharNotNL || item.Sub[0].Op == syntax.OpAnyChar):
			parts = append(parts, "")
		default:
			return pattern{}, false
		}
	}
	switch {
	case begins && !ends:
		parts = append(parts, "")
	case ends && !begins:
		parts = append([]string{""}, parts...)
	}
	return newPattern(parts, !begins && !ends), true
}

package yamlstrict

import "fmt"

// Position is where something was written. File is slash-separated and relative to the repository's root;
// Line and Column count from 1, and 0 means unknown.
type Position struct {
	File   string `yaml:"-" json:"-"`
	Line   int    `yaml:"-" json:"-"`
	Column int    `yaml:"-" json:"-"`
}

// String is "file:line:column" as far as it is known, fit to be printed.
func (p Position) String() string {
	s := Printable(p.File)
	if p.Line > 0 {
		s += fmt.Sprintf(":%d", p.Line)
	}
	if p.Line > 0 && p.Column > 0 {
		s += fmt.Sprintf(":%d", p.Column)
	}
	return s
}

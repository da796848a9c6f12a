package resolve

import (
	"path"
	"strings"
)

// selection is a part of a repository: all that is at a path, or some of what is inside it. The zero value is nothing.
type selection struct {
	all    bool
	within map[string]*selection
}

// add selects all that is at a path.
func (s *selection) add(name string) { *s.walk(name) = selection{all: true} }

// at is what is selected at a path.
func (s *selection) at(name string) *selection { return s.walk(name) }

// walk goes to a path, or to the folder on the way there of which all is selected.
func (s *selection) walk(name string) *selection {
	if name = path.Clean(name); name == "." {
		return s
	}
	for elem := range strings.SplitSeq(name, "/") {
		if s.all {
			return s
		}
		next := s.within[elem]
		if next == nil {
			if s.within == nil {
				s.within = map[string]*selection{}
			}
			next = &selection{}
			s.within[elem] = next
		}
		s = next
	}
	return s
}

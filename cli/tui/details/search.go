package details

import (
	"fmt"
	"regexp"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

// searched is a page of text in which a text can be looked for, as a list is narrowed: all lines stay, and what was
// found is set off.
type searched[T any] struct{ *page[T] }

type searchKeys struct{ next, before key.Binding }

func searchKeysOf() searchKeys {
	return searchKeys{next: bind("n", "next found", "n"), before: bind("N", "found before", "N")}
}

// Searches says that nothing goes by what is typed as a filter.
func (s *searched[T]) Searches() bool { return true }

// Filter is what is looked for.
func (s *searched[T]) Filter() string { return s.sought }

// SetFilter looks for another text, and goes to the first line from here on that has it.
func (s *searched[T]) SetFilter(text string) error {
	s.sought, s.pattern = text, nil
	if text == "" {
		return nil
	}
	s.pattern = regexp.MustCompile("(?i)" + regexp.QuoteMeta(text))
	s.hit = s.top - 1
	s.find(1)
	return nil
}

// Words complete nothing: a text is anything.
func (s *searched[T]) Words(string) []string { return nil }

// find goes to the next line that has what is looked for, or the one before, and from the last to the first.
func (s *searched[T]) find(by int) {
	n := len(s.lines)
	for i := 1; i <= n; i++ {
		if at := ((s.hit+by*i)%n + n) % n; s.has(at) {
			s.hit = at
			s.jump(at)
			return
		}
	}
}

// Note says which of the lines that have it is gone to.
func (s *searched[T]) Note() string {
	note := s.page.Note()
	if s.pattern == nil {
		return note
	}
	found, nth := 0, 0
	for i := range s.lines {
		if s.has(i) {
			if found++; i == s.hit {
				nth = found
			}
		}
	}
	of := fmt.Sprintf("found in %d lines", found)
	switch {
	case found == 0:
		of = "not found"
	case nth > 0:
		of = fmt.Sprintf("found %d of %d", nth, found)
	}
	return strings.TrimSuffix(of+", "+note, ", ")
}

// Keys are those of the page and, while something is looked for, those that go on looking.
func (s *searched[T]) Keys() []key.Binding {
	if s.pattern == nil {
		return s.page.Keys()
	}
	k := searchKeysOf()
	return append([]key.Binding{k.next, k.before}, s.page.Keys()...)
}

// Update goes on looking, or is the page's.
func (s *searched[T]) Update(msg tea.Msg) tea.Cmd {
	if press, ok := msg.(tea.KeyPressMsg); ok && s.pattern != nil {
		switch k := searchKeysOf(); {
		case key.Matches(press, k.next):
			s.find(1)
			return nil
		case key.Matches(press, k.before):
			s.find(-1)
			return nil
		}
	}
	return s.page.Update(msg)
}

// has says whether a line has what is looked for.
func (s *sheet) has(i int) bool {
	var b strings.Builder
	for _, part := range s.lines[i] {
		b.WriteString(part.text)
	}
	return s.pattern.MatchString(b.String())
}

// setOff is a line with what the pattern finds in it apart, however many spans that is in.
func setOff(l line, pattern *regexp.Regexp) line {
	if pattern == nil {
		return l
	}
	var b strings.Builder
	for _, part := range l {
		b.WriteString(part.text)
	}
	found := pattern.FindAllStringIndex(b.String(), -1)
	if found == nil {
		return l
	}
	var out line
	from := 0
	for _, part := range l {
		begin, end := from, from+len(part.text)
		for _, f := range found {
			cut, until := max(f[0], begin), min(f[1], end)
			if cut >= until {
				continue
			}
			out = append(out, span{part.style, part.text[begin-from : cut-from]})
			out = append(out, span{paint.Found, part.text[cut-from : until-from]})
			begin = until
		}
		out = append(out, span{part.style, part.text[begin-from:]})
		from = end
	}
	return out
}

var _ pane.Filtered = (*searched[int])(nil)

package helmrepo

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// readLines reads an index in block style, line by line:
//
//	entries:
//	  podinfo:
//	  - version: 6.7.0
//	    digest: ...
//
// Only what stands under the names of wanted charts is given to a YAML parser, one version at a time, because as a
// whole the document would take some thirty times its size in memory. Indentation may be of any width. What would need
// more knowledge of YAML than this to cut apart is errShape.
func readLines(in *bufio.Reader, wanted map[string]bool) (map[string]*listing, error) {
	s := &lineScanner{wanted: wanted, charts: map[string]*listing{}, names: map[string]bool{}}
	for !s.done {
		text, long, err := nextLine(in)
		if len(text) > 0 {
			s.number++
			if err := s.line(text, long); err != nil {
				return nil, s.at(err)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if err := s.flush(); err != nil {
		return nil, err
	}
	if !s.found {
		return nil, &IndexError{Reason: `has no "entries": it is not the index of a Helm repository`}
	}
	return s.charts, nil
}

// nextLine gives a line with its end; of one that does not fit the buffer only the beginning, and long is true.
func nextLine(in *bufio.Reader) (text []byte, long bool, err error) {
	text, err = in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return text, false, err
	}
	text = bytes.Clone(text[:256])
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = in.ReadSlice('\n')
	}
	return text, true, err
}

// lineScanner knows where in the document it stands.
type lineScanner struct {
	wanted map[string]bool
	charts map[string]*listing
	number int
	// found says that entries was seen; within that the scanner is inside; other that it is inside another key; done that
	// the document has ended.
	found, within, other, done bool
	// nameIndent and dashIndent are of charts' names and of their versions. What is not known yet is 0, and -1.
	nameIndent, dashIndent int
	names                  map[string]bool
	// chart is nil inside one that is not wanted; closed says that its value stood beside its name.
	chart  *listing
	closed bool
	// item is one version's text, from line start on; itemLong says that it is cut off.
	item     bytes.Buffer
	start    int
	itemLong bool
}

func (s *lineScanner) at(err error) error {
	if errors.Is(err, errShape) {
		return fmt.Errorf("index.yaml:%d: %w", s.number, err)
	}
	return err
}

func (s *lineScanner) line(text []byte, long bool) error {
	rest := bytes.TrimLeft(text, " ")
	indent := len(text) - len(rest)
	rest = bytes.TrimRight(rest, " \t\r\n")
	switch {
	case len(rest) == 0 || rest[0] == '#':
		s.keep(text, long)
		return nil
	case indent == 0:
		return s.top(rest)
	case s.within:
		return s.entry(indent, rest, text, long)
	case s.other:
		return nil
	}
	return errShape
}

// top takes a line that starts at the left edge.
func (s *lineScanner) top(rest []byte) error {
	if err := s.flush(); err != nil {
		return err
	}
	if marker := string(rest[:min(3, len(rest))]); marker == "---" || marker == "..." {
		if s.done = s.found || s.other; !s.done && string(rest) != "---" {
			return errShape
		}
		return nil
	}
	if s.other && isDash(rest) {
		return nil // an item of a list that is not indented
	}
	key, value, ok := splitKey(rest)
	if !ok {
		return errShape
	}
	if s.within, s.other = key == "entries", key != "entries"; s.other {
		return nil
	}
	if s.found {
		return &IndexError{Line: s.number, Reason: `has "entries" twice`}
	}
	s.found = true
	if value == "{}" || value == "null" || value == "~" {
		s.within, s.other = false, true
	} else if value != "" {
		return errShape
	}
	return nil
}

// entry takes an indented line below entries.
func (s *lineScanner) entry(indent int, rest, text []byte, long bool) error {
	if s.nameIndent == 0 {
		s.nameIndent = indent
	}
	if indent == s.nameIndent && !isDash(rest) {
		return s.name(rest)
	}
	switch {
	case indent < s.nameIndent || len(s.names) == 0:
		return errShape
	case s.chart == nil && !s.closed:
		return nil
	case s.closed:
		return errShape
	}
	if s.dashIndent < 0 {
		s.dashIndent = indent
	}
	if indent < s.dashIndent || indent == s.dashIndent && !isDash(rest) {
		return errShape
	}
	if indent == s.dashIndent {
		if err := s.flush(); err != nil {
			return err
		}
		s.start = s.number
	}
	s.keep(text, long)
	return nil
}

// name takes the line that names the chart whose versions follow.
func (s *lineScanner) name(rest []byte) error {
	if err := s.flush(); err != nil {
		return err
	}
	name, value, ok := splitKey(rest)
	if !ok {
		return errShape
	}
	if s.names[name] {
		return &IndexError{Line: s.number, Reason: fmt.Sprintf("names chart %.80q twice", name)}
	}
	s.names[name] = true
	s.chart, s.dashIndent = nil, -1
	if s.wanted[name] {
		s.chart = &listing{}
		s.charts[name] = s.chart
	}
	s.closed = value != ""
	if s.closed && value != "[]" && value != "null" && value != "~" {
		return errShape
	}
	return nil
}

// keep adds a line to the version that is being collected.
func (s *lineScanner) keep(text []byte, long bool) {
	if s.start == 0 {
		return
	}
	if s.itemLong = s.itemLong || long || s.item.Len()+len(text) > maxItem; !s.itemLong {
		s.item.Write(text)
	}
}

// flush reads the version that has been collected.
func (s *lineScanner) flush() error {
	if s.start == 0 {
		return nil
	}
	var r release
	err := fmt.Errorf("says more than %d bytes of one version", maxItem)
	if !s.itemLong {
		r, err = parseItem(s.item.Bytes())
	}
	line := s.start
	s.item.Reset()
	s.start, s.itemLong = 0, false
	return s.chart.add(r, err, line)
}

func isDash(rest []byte) bool { return rest[0] == '-' && (len(rest) == 1 || rest[1] == ' ') }

// splitKey takes a mapping's key, bare or in quotes, from what follows it on the line, less a comment.
func splitKey(rest []byte) (key, value string, ok bool) {
	line := string(rest)
	if quote := line[0]; quote == '"' || quote == '\'' {
		key, value, ok = strings.Cut(line[1:], string(quote))
		if !ok || strings.Contains(key, `\`) || !strings.HasPrefix(value, ":") {
			return "", "", false
		}
		value = value[1:]
	} else {
		key, value, ok = strings.Cut(line, ":")
		if !ok || strings.ContainsFunc(key, notInName) {
			return "", "", false
		}
	}
	if key == "" || value != "" && value[0] != ' ' && value[0] != '\t' {
		return "", "", false
	}
	value, _, _ = strings.Cut(" "+strings.TrimSpace(value), " #")
	return key, strings.TrimSpace(value), true
}

func notInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_./", r)
}

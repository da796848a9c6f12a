package main

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// look is how a cell's text is drawn.
type look struct {
	fore, back                             color
	bold, faint, italic, underline, invert bool
}

// cell is one place of the screen. Text is empty in the second half of a wide character.
type cell struct {
	text string
	look look
}

// screen is a terminal's screen: it takes what a program writes, and shows what a person would see. It knows the sequences that
// programs built on bubbletea write for TERM=xterm-256color; others are left out of the picture.
type screen struct {
	cols, rows    int
	cells         [][]cell
	row, col      int
	savedRow      int
	savedCol      int
	top, bottom   int // the rows that scroll, both included
	pen           look
	last          string // the text that REP repeats
	insert        bool
	wrapped       bool // the cursor stands behind the last column
	main          [][]cell
	mainRow       int
	mainCol       int
	parser        *ansi.Parser
	width         func(string) int
	alternate     bool
	cursorVisible bool
}

func newScreen(cols, rows int) *screen {
	s := &screen{parser: ansi.NewParser(), width: ansi.StringWidth}
	s.size(cols, rows)
	s.parser.SetHandler(ansi.Handler{Print: s.print, Execute: s.control, HandleCsi: s.sequence, HandleEsc: s.escape})
	return s
}

// size makes the screen empty, and that big.
func (s *screen) size(cols, rows int) {
	s.cols, s.rows, s.row, s.col, s.top, s.bottom = cols, rows, 0, 0, 0, rows-1
	s.cells = blank(cols, rows, look{})
	s.pen, s.wrapped, s.cursorVisible = look{}, false, true
}

func blank(cols, rows int, with look) [][]cell {
	lines := make([][]cell, rows)
	for i := range lines {
		lines[i] = blankLine(cols, with)
	}
	return lines
}

// blankLine is what erasing leaves: the background stays that of the pen.
func blankLine(cols int, with look) []cell {
	line := make([]cell, cols)
	for i := range line {
		line[i] = cell{" ", look{back: with.back}}
	}
	return line
}

// Write shows what a program wrote.
func (s *screen) Write(data []byte) (int, error) {
	for _, b := range data {
		s.parser.Advance(b)
	}
	return len(data), nil
}

// text is what stands on the screen, without looks.
func (s *screen) text() string {
	var b strings.Builder
	for _, line := range s.cells {
		var row strings.Builder
		for _, c := range line {
			row.WriteString(c.text)
		}
		b.WriteString(strings.TrimRight(row.String(), " ") + "\n")
	}
	return b.String()
}

func (s *screen) print(r rune) {
	text := string(r)
	width := s.width(text)
	if width == 0 { // belongs to the character before
		if at := s.before(); at != nil {
			at.text += text
		}
		return
	}
	s.put(text, width)
}

// before is the cell that was written last.
func (s *screen) before() *cell {
	col := s.col - 1
	if s.wrapped {
		col = s.cols - 1
	}
	for col > 0 && s.cells[s.row][col].text == "" {
		col--
	}
	if col < 0 {
		return nil
	}
	return &s.cells[s.row][col]
}

func (s *screen) put(text string, width int) {
	if s.wrapped || s.col+width > s.cols {
		s.col, s.wrapped = 0, false
		s.feed()
	}
	line := s.cells[s.row]
	if s.insert {
		line = slices.Insert(line, s.col, blankLine(width, s.pen)...)[:s.cols]
		s.cells[s.row] = line
	}
	line[s.col] = cell{text, s.pen}
	for i := 1; i < width; i++ {
		line[s.col+i] = cell{"", s.pen}
	}
	s.last = text
	if s.col += width; s.col >= s.cols {
		s.col, s.wrapped = s.cols-1, true
	}
}

// feed goes one row down, and scrolls at the end.
func (s *screen) feed() {
	if s.row == s.bottom {
		s.scroll(s.top, 1)
		return
	}
	s.row = min(s.row+1, s.rows-1)
}

// scroll moves the rows from first to the bottom of the region up by n, or down where n is negative.
func (s *screen) scroll(first, n int) {
	region := s.cells[first : s.bottom+1]
	for ; n > 0; n-- {
		copy(region, region[1:])
		region[len(region)-1] = blankLine(s.cols, s.pen)
	}
	for ; n < 0; n++ {
		copy(region[1:], region)
		region[0] = blankLine(s.cols, s.pen)
	}
}

func (s *screen) control(b byte) {
	switch b {
	case '\r':
		s.col = 0
	case '\n', '\v', '\f':
		s.feed()
	case '\b':
		s.col = max(s.col-1, 0)
	case '\t':
		s.col = min((s.col/8+1)*8, s.cols-1)
	default:
		return
	}
	s.wrapped = false
}

func (s *screen) escape(cmd ansi.Cmd) {
	switch cmd.Final() {
	case '7':
		s.savedRow, s.savedCol = s.row, s.col
	case '8':
		s.move(s.savedRow, s.savedCol)
	case 'M':
		if s.row == s.top {
			s.scroll(s.top, -1)
		} else {
			s.move(s.row-1, s.col)
		}
	case 'D':
		s.feed()
	case 'E':
		s.col = 0
		s.feed()
	case 'c':
		s.size(s.cols, s.rows)
	}
}

func (s *screen) move(row, col int) {
	s.row, s.col, s.wrapped = min(max(row, 0), s.rows-1), min(max(col, 0), s.cols-1), false
}

func (s *screen) sequence(cmd ansi.Cmd, params ansi.Params) {
	if cmd.Prefix() == '?' {
		s.mode(cmd.Final(), params)
		return
	}
	if cmd.Prefix() != 0 || cmd.Intermediate() != 0 {
		return
	}
	one := func(i, otherwise int) int {
		n, _, _ := params.Param(i, otherwise)
		return min(max(n, 1), s.cols*s.rows)
	}
	n := one(0, 1)
	switch cmd.Final() {
	case 'A':
		s.move(s.row-n, s.col)
	case 'B', 'e':
		s.move(s.row+n, s.col)
	case 'C', 'a':
		s.move(s.row, s.col+n)
	case 'D':
		s.move(s.row, s.col-n)
	case 'E':
		s.move(s.row+n, 0)
	case 'F':
		s.move(s.row-n, 0)
	case 'G', '`':
		s.move(s.row, n-1)
	case 'd':
		s.move(n-1, s.col)
	case 'H', 'f':
		s.move(n-1, one(1, 1)-1)
	case 'I':
		s.move(s.row, (s.col/8+n)*8)
	case 'Z':
		s.move(s.row, (s.col-1)/8*8-(n-1)*8)
	case 'm':
		s.pen = s.pen.with(params)
	case 'r':
		if top, bottom := n-1, min(one(1, s.rows), s.rows)-1; top < bottom {
			s.top, s.bottom = top, bottom
			s.move(0, 0)
		}
	case 'h', 'l':
		if mode, _, _ := params.Param(0, 0); mode == 4 {
			s.insert = cmd.Final() == 'h'
		}
	default:
		s.edit(cmd.Final(), params, n)
	}
}

// edit carries out what changes cells without writing any.
func (s *screen) edit(final byte, params ansi.Params, n int) {
	line := s.cells[s.row]
	what, _, _ := params.Param(0, 0)
	switch final {
	case 'J':
		switch what {
		case 0:
			s.erase(s.row, s.col, s.cols)
			s.eraseRows(s.row+1, s.rows)
		case 1:
			s.eraseRows(0, s.row)
			s.erase(s.row, 0, s.col+1)
		default:
			s.eraseRows(0, s.rows)
		}
	case 'K':
		switch what {
		case 0:
			s.erase(s.row, s.col, s.cols)
		case 1:
			s.erase(s.row, 0, s.col+1)
		default:
			s.erase(s.row, 0, s.cols)
		}
	case 'X':
		s.erase(s.row, s.col, min(s.col+n, s.cols))
	case 'P':
		n = min(n, s.cols-s.col)
		s.cells[s.row] = append(slices.Delete(line, s.col, s.col+n), blankLine(n, s.pen)...)
	case '@':
		s.cells[s.row] = slices.Insert(line, s.col, blankLine(n, s.pen)...)[:s.cols]
	case 'L', 'M':
		if s.row < s.top || s.row > s.bottom {
			return
		}
		if final == 'L' {
			n = -n
		}
		s.scroll(s.row, n)
	case 'S':
		s.scroll(s.top, n)
	case 'T':
		s.scroll(s.top, -n)
	case 'b':
		for range n {
			if s.last != "" {
				s.put(s.last, s.width(s.last))
			}
		}
	}
}

func (s *screen) erase(row, from, to int) {
	copy(s.cells[row][from:to], blankLine(to-from, s.pen))
}

func (s *screen) eraseRows(from, to int) {
	for row := from; row < to; row++ {
		s.erase(row, 0, s.cols)
	}
}

// mode keeps the screen of the shell while a program has one of its own.
func (s *screen) mode(final byte, params ansi.Params) {
	if final != 'h' && final != 'l' {
		return
	}
	on := final == 'h'
	params.ForEach(0, func(_, mode int, _ bool) {
		switch mode {
		case 25:
			s.cursorVisible = on
		case 47, 1047, 1049:
			if on == s.alternate {
				return
			}
			s.alternate = on
			if on {
				s.main, s.mainRow, s.mainCol = s.cells, s.row, s.col
				s.cells = blank(s.cols, s.rows, look{})
				s.move(0, 0)
				return
			}
			s.cells = s.main
			s.top, s.bottom, s.pen = 0, s.rows-1, look{}
			s.move(s.mainRow, s.mainCol)
		}
	})
}

// with is the look after a sequence of graphic renditions.
func (l look) with(params ansi.Params) look {
	if len(params) == 0 {
		return look{}
	}
	for i := 0; i < len(params); i++ {
		p := params[i].Param(0)
		switch {
		case p == 0:
			l = look{}
		case p == 1:
			l.bold = true
		case p == 2:
			l.faint = true
		case p == 3:
			l.italic = true
		case p == 4:
			l.underline = true
		case p == 7:
			l.invert = true
		case p == 22:
			l.bold, l.faint = false, false
		case p == 23:
			l.italic = false
		case p == 24:
			l.underline = false
		case p == 27:
			l.invert = false
		case p >= 30 && p <= 37:
			l.fore = indexed(p - 30)
		case p >= 90 && p <= 97:
			l.fore = indexed(p - 90 + 8)
		case p >= 40 && p <= 47:
			l.back = indexed(p - 40)
		case p >= 100 && p <= 107:
			l.back = indexed(p - 100 + 8)
		case p == 39:
			l.fore = ""
		case p == 49:
			l.back = ""
		case p == 38 || p == 48:
			c, used := colorOf(params[i+1:])
			if p == 38 {
				l.fore = c
			} else {
				l.back = c
			}
			i += used
		}
	}
	return l
}

// colorOf reads the parameters behind 38 or 48, and says how many there were.
func colorOf(params ansi.Params) (color, int) {
	at := func(i int) int {
		n, _, _ := params.Param(i, 0)
		return n
	}
	switch at(0) {
	case 5:
		return indexed(at(1)), 2
	case 2:
		return rgb(at(1), at(2), at(3)), 4
	}
	return "", 0
}

// Package ui owns streams, output formats, prompts, errors and exit codes.
//
// It refuses to know what is being talked about: no fleet, hub or git appears here.
//
// A command builds a View, a plain value, and hands it to a Printer, which writes it to Streams.Out in the format that
// was asked for. Whatever else there is to say goes to Streams.ErrOut. Text from outside is cleaned of control
// characters on its way into a cell or an error, so nobody's commit message steers a terminal.
package ui

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cli/go-gh/v2/pkg/term"
)

// Streams are where the program reads and writes, and what is known of them.
type Streams struct {
	In          io.Reader
	Out, ErrOut io.Writer
	// InTTY, OutTTY and ErrTTY say which of them is a terminal.
	InTTY, OutTTY, ErrTTY bool
	// Width is the terminal's width in columns; 80 when there is none.
	Width int
	// Height is the terminal's height in lines; 0 when there is none.
	Height int
	// Color says whether Out may carry escape sequences.
	Color bool
	// Plain says that the terminal can do nothing but print lines: TERM=dumb, or ACCESSIBLE is set.
	Plain bool
	// NoHeaders leaves the names of columns out of tables.
	NoHeaders bool
	// Pager is the command of the program that shows long texts on a terminal; empty: none does.
	Pager string
	// size asks the terminal; nil: it keeps its size.
	size func() (width, height int, err error)
}

// System are the streams of this process. NO_COLOR, CLICOLOR, CLICOLOR_FORCE and TERM=dumb are respected.
func System() *Streams {
	t := term.FromEnv()
	dumb := os.Getenv("TERM") == "dumb"
	s := &Streams{
		In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr,
		InTTY:  term.IsTerminal(os.Stdin),
		OutTTY: t.IsTerminalOutput(),
		ErrTTY: term.IsTerminal(os.Stderr),
		Width:  80,
		Color:  t.IsColorEnabled() && !dumb,
		Plain:  dumb || os.Getenv("ACCESSIBLE") != "",
	}
	if s.OutTTY {
		s.size = t.Size
		s.Width, s.Height = s.Size()
	}
	return s
}

// Size is the terminal's now.
func (s *Streams) Size() (width, height int) {
	if s.size != nil {
		if width, height, err := s.size(); err == nil && width > 0 {
			return width, height
		}
	}
	return s.Width, s.Height
}

// Colored returns the streams under --color: "auto" leaves what was found out, "always" and "never" decide.
func (s *Streams) Colored(mode string) (*Streams, error) {
	c := *s
	switch mode {
	case "auto":
	case "always":
		c.Color = true
	case "never":
		c.Color = false
	default:
		return nil, &Err{Msg: fmt.Sprintf("unknown color mode %q", mode), Fix: "--color auto, always or never"}
	}
	return &c, nil
}

// Style is a way to set off text on a terminal; it never carries meaning alone.
type Style string

// The styles there are.
const (
	Bold   Style = "1"
	Faint  Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
)

// Paint sets text off when colors are on.
func (s *Streams) Paint(style Style, text string) string {
	if !s.Color || style == "" || text == "" {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}

// Difference is a line of a unified diff as a terminal may have it: cleaned, and set off by what it says.
func (s *Streams) Difference(line string) string {
	style := Style("")
	switch {
	case strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "--- "):
		style = Bold
	case strings.HasPrefix(line, "+"):
		style = Green
	case strings.HasPrefix(line, "-"):
		style = Red
	case strings.HasPrefix(line, "@"):
		style = Faint
	}
	return s.Paint(style, CleanText(line))
}

// Clean escapes what a terminal would act on: control characters, direction marks. What would break a line or a column becomes a
// space, and invalid UTF-8 the replacement character.
func Clean(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, unprintable) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if r == '\n' || r == '\t' { // what is meant by them is a space between words
			b.WriteByte(' ')
			continue
		}
		if unprintable(r) {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// CleanText is Clean for text that holds lines and tabs, which stay.
func CleanText(s string) string {
	bad := func(r rune) bool { return r != '\n' && r != '\t' && unprintable(r) }
	if utf8.ValidString(s) && strings.IndexFunc(s, bad) < 0 {
		return s
	}
	var b strings.Builder
	for at, r := range s {
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r == '\r' && strings.HasPrefix(s[at+1:], "\n"): // the line's end, as some systems write it
		default:
			b.WriteString(Clean(string(r)))
		}
	}
	return b.String()
}

func unprintable(r rune) bool { return !strconv.IsPrint(r) }

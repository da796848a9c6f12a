package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"time"
)

// Sizes of a cell and of what is around them, in pixels. A font's own advance may be another: each piece of text says how wide it
// has to be, so that columns stay columns.
const (
	cellWidth, cellHeight = 8.4, 18.0
	baseline              = 13.5
	margin                = 14.0
	bar                   = 26.0 // the window's upper edge
)

const fonts = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"

// frame is one screen, and how long it is shown.
type frame struct {
	lines [][]cell
	shown time.Duration
}

// sheet draws frames into one SVG. Lines that are the same are written once.
type sheet struct {
	title      string
	cols, rows int
	styles     map[string]string // declarations to class
	lines      map[string]string // markup to id
	defs, css  strings.Builder
}

func newSheet(title string, cols, rows int) *sheet {
	return &sheet{title: title, cols: cols, rows: rows, styles: map[string]string{}, lines: map[string]string{}}
}

// still is a picture of one frame.
func still(title string, f frame) []byte {
	s := newSheet(title, len(f.lines[0]), len(f.lines))
	return s.document(s.frame(f), "")
}

// cast is a picture that moves: its frames lie side by side, and are seen one at a time.
func cast(title string, frames []frame) []byte {
	s := newSheet(title, len(frames[0].lines[0]), len(frames[0].lines))
	var all time.Duration
	for _, f := range frames {
		all += f.shown
	}
	var body, steps strings.Builder
	var at time.Duration
	width := s.width()
	for i, f := range frames {
		fmt.Fprintf(&body, "<g transform=\"translate(%s)\">%s</g>\n", number(float64(i)*width), s.frame(f))
		fmt.Fprintf(&steps, "%s%%{transform:translateX(%spx)}", number(100*at.Seconds()/all.Seconds()), number(-float64(i)*width))
		at += f.shown
	}
	// Who asked for less motion sees where it ends.
	last := number(-float64(len(frames)-1) * width)
	fmt.Fprintf(&steps, "100%%{transform:translateX(%spx)}", last)
	css := fmt.Sprintf("@keyframes play{%s}\n.play{animation:play %ss step-end infinite}\n"+
		"@media(prefers-reduced-motion:reduce){.play{animation:none;transform:translateX(%spx)}}\n", &steps, number(all.Seconds()), last)
	return s.document(fmt.Sprintf("<g class=\"play\">\n%s</g>", &body), css)
}

func (s *sheet) width() float64 { return float64(s.cols)*cellWidth + 2*margin }

func (s *sheet) document(body, css string) []byte {
	width, height := s.width(), float64(s.rows)*cellHeight+bar+margin
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" role="img" aria-label="%s">`+"\n",
		number(width), number(height), number(width), escaped(s.title))
	fmt.Fprintf(&b, "<title>%s</title>\n<style>\ntext{font:14px %s;fill:%s;white-space:pre}\n%s%s</style>\n", escaped(s.title), fonts,
		foreground, &s.css, css)
	if s.defs.Len() > 0 {
		fmt.Fprintf(&b, "<defs>\n%s</defs>\n", &s.defs)
	}
	fmt.Fprintf(&b, `<rect width="%s" height="%s" rx="8" fill="%s"/>`+"\n", number(width), number(height), background)
	for i := range 3 {
		fmt.Fprintf(&b, `<circle cx="%s" cy="13" r="4.5" fill="#3a424d"/>`, number(margin+5+float64(i)*15))
	}
	fmt.Fprintf(&b, "\n<svg y=\"%s\" width=\"%s\" height=\"%s\">\n%s\n</svg>\n</svg>\n", number(bar), number(width), number(height-bar), body)
	return b.Bytes()
}

// frame is the markup of a frame: uses of lines.
func (s *sheet) frame(f frame) string {
	var b strings.Builder
	for row, line := range f.lines {
		if id := s.line(line); id != "" {
			fmt.Fprintf(&b, `<use href="#%s" y="%s"/>`, id, number(float64(row)*cellHeight))
		}
	}
	return b.String()
}

// line is the name of a line's markup; empty for one that shows nothing.
func (s *sheet) line(cells []cell) string {
	markup := s.markup(cells)
	if markup == "" {
		return ""
	}
	id, known := s.lines[markup]
	if !known {
		id = fmt.Sprintf("l%d", len(s.lines))
		s.lines[markup] = id
		fmt.Fprintf(&s.defs, "<g id=%q>%s</g>\n", id, markup)
	}
	return id
}

// markup draws a line: what lies behind the text, then words, each at its place.
func (s *sheet) markup(cells []cell) string {
	var behind, words strings.Builder
	for from := 0; from < len(cells); {
		_, back := cells[from].look.colors()
		to := from + 1
		for to < len(cells) {
			if _, next := cells[to].look.colors(); next != back {
				break
			}
			to++
		}
		if back != "" && back != background {
			fmt.Fprintf(&behind, `<rect x="%s" width="%s" height="%s" fill="%s"/>`, place(from), number(float64(to-from)*cellWidth),
				number(cellHeight), back)
		}
		from = to
	}
	for _, w := range split(cells) {
		length := ""
		if cellsWide := w.to - w.from; cellsWide > 1 {
			length = fmt.Sprintf(` textLength="%s" lengthAdjust="spacingAndGlyphs"`, number(float64(cellsWide)*cellWidth))
		}
		fmt.Fprintf(&words, `<text x="%s" y="%s"%s%s>%s</text>`, place(w.from), number(baseline), length, s.class(w.look), escaped(w.text))
	}
	return behind.String() + words.String()
}

func place(col int) string { return number(margin + float64(col)*cellWidth) }

// word is text of one look that one gap of at most one blank is in.
type word struct {
	text     string
	look     look
	from, to int
}

func split(cells []cell) []word {
	var words []word
	for i, c := range cells {
		last := len(words) - 1
		switch {
		case c.text == "":
			if last >= 0 && words[last].to == i {
				words[last].to++
			}
		case c.text == " " && !c.look.underline:
			continue
		case last >= 0 && words[last].look == c.look && words[last].to == i:
			words[last].text, words[last].to = words[last].text+c.text, i+1
		case last >= 0 && words[last].look == c.look && words[last].to == i-1 && cells[i-1].look == c.look:
			words[last].text, words[last].to = words[last].text+" "+c.text, i+1
		default:
			words = append(words, word{c.text, c.look, i, i + 1})
		}
	}
	return words
}

// class is the attribute of text that looks so; empty for plain text.
func (s *sheet) class(l look) string {
	var css strings.Builder
	if fore, _ := l.colors(); fore != foreground {
		fmt.Fprintf(&css, "fill:%s;", fore)
	}
	if l.bold {
		css.WriteString("font-weight:bold;")
	}
	if l.italic {
		css.WriteString("font-style:italic;")
	}
	if l.underline {
		css.WriteString("text-decoration:underline;")
	}
	if css.Len() == 0 {
		return ""
	}
	name, known := s.styles[css.String()]
	if !known {
		name = fmt.Sprintf("c%d", len(s.styles))
		s.styles[css.String()] = name
		fmt.Fprintf(&s.css, ".%s{%s}\n", name, &css)
	}
	return fmt.Sprintf(" class=%q", name)
}

func number(f float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", f), "0"), ".")
}

func escaped(text string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(text)); err != nil {
		return ""
	}
	return b.String()
}

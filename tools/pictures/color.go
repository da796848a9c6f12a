package main

import "fmt"

// color is #rrggbb; empty is the terminal's own.
type color string

// The terminal of the pictures is dark, with colours that are read on its background.
const (
	foreground color = "#d5dbe3"
	background color = "#12161c"
)

func rgb(r, g, b int) color { return color(fmt.Sprintf("#%02x%02x%02x", r&255, g&255, b&255)) }

// indexed is a colour by its number among 256.
func indexed(n int) color {
	sixteen := [...]color{
		"#48515c", "#ff8078", "#7ee08a", "#e6bd5c", "#7fb8ff", "#d8adff", "#72d9e6", "#c9d1d9",
		"#8b949e", "#ffa198", "#a0f0aa", "#f2d28b", "#a5d0ff", "#e6ccff", "#a0ecf5", "#ffffff",
	}
	switch {
	case n < 0 || n > 255:
		return ""
	case n < len(sixteen):
		return sixteen[n]
	case n >= 232:
		grey := 8 + (n-232)*10
		return rgb(grey, grey, grey)
	}
	n -= 16
	level := func(i int) int {
		if i == 0 {
			return 0
		}
		return 55 + i*40
	}
	return rgb(level(n/36), level(n/6%6), level(n%6))
}

// mixed is c with part of what is behind it, as faint text is drawn.
func (c color) mixed(behind color) color {
	var from, to [3]int
	for at, of := range map[color]*[3]int{c: &from, behind: &to} {
		if _, err := fmt.Sscanf(string(at), "#%02x%02x%02x", &of[0], &of[1], &of[2]); err != nil {
			return c
		}
	}
	part := func(i int) int { return (from[i]*62 + to[i]*38) / 100 }
	return rgb(part(0), part(1), part(2))
}

// colors are what a look is drawn with.
func (l look) colors() (fore, back color) {
	fore, back = l.fore, l.back
	if fore == "" {
		fore = foreground
	}
	if l.invert {
		if back == "" {
			back = background
		}
		fore, back = back, fore
	}
	if l.faint {
		behind := back
		if behind == "" {
			behind = background
		}
		fore = fore.mixed(behind)
	}
	return fore, back
}

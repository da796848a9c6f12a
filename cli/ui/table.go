package ui

import (
	"io"
	"math"

	"github.com/cli/go-gh/v2/pkg/tableprinter"
)

// Column is one column of a View.
type Column struct {
	Name string
	// Wide columns appear only with -o wide.
	Wide bool
	// Style picks how a cell is set off on a terminal; nil means plain.
	Style func(cell string) Style
	// Age columns say how long ago something was: that they grow is no change.
	Age bool
}

// Table writes rows under their columns' names: aligned and cut to the width on a terminal, whole and tab-separated when piped.
func (s *Streams) Table(w io.Writer, columns []Column, rows [][]string) error {
	return s.table(tableprinter.New(w, s.OutTTY, s.Width), s.OutTTY, columns, rows)
}

// Aligned is Table for screens that people read when piped too: always aligned, and never cut when piped.
func (s *Streams) Aligned(w io.Writer, columns []Column, rows [][]string) error {
	width := math.MaxInt32
	if s.OutTTY {
		width = s.Width
	}
	return s.table(tableprinter.New(w, true, width), true, columns, rows)
}

func (s *Streams) table(t tableprinter.TablePrinter, aligned bool, columns []Column, rows [][]string) error {
	if len(columns) == 0 || len(rows) == 0 {
		return nil
	}
	switch {
	case s.NoHeaders:
	case aligned:
		names := make([]string, len(columns))
		for i, c := range columns {
			names[i] = c.Name
		}
		t.AddHeader(names, tableprinter.WithColor(func(name string) string { return s.Paint(Bold, name) }))
	default: // go-gh leaves headers out of what is separated by tabs
		for _, c := range columns {
			t.AddField(c.Name)
		}
		t.EndRow()
	}
	for _, row := range rows {
		for i, c := range columns {
			t.AddField(Clean(row[i]), tableprinter.WithColor(s.painter(c, row[i])))
		}
		t.EndRow()
	}
	return t.Render()
}

func (s *Streams) painter(c Column, cell string) func(string) string {
	return func(shown string) string {
		if c.Style == nil {
			return shown
		}
		return s.Paint(c.Style(cell), shown)
	}
}

// visible drops the wide columns, unless they are wanted.
func visible(columns []Column, rows [][]string, wide bool) ([]Column, [][]string) {
	if wide {
		return columns, rows
	}
	var kept []Column
	cut := make([][]string, len(rows))
	for i, c := range columns {
		if c.Wide {
			continue
		}
		kept = append(kept, c)
		for r := range rows {
			cut[r] = append(cut[r], rows[r][i])
		}
	}
	return kept, cut
}

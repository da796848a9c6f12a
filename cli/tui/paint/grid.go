package paint

// Grid lays out rows under a header. It keeps how wide columns have been, so that they do not jump while rows go by.
type Grid struct {
	Columns []Column
	// Pinned counts the columns at the left that stay when the others are scrolled.
	Pinned int
	// Sorted is the column that rows are in the order of, -1: none; Descending is its direction.
	Sorted     int
	Descending bool

	shift int
	fit   fit
}

// Column is one column of a grid.
type Column struct {
	Name string
	// Weight is the column's share of the cells that are left over, and of those that are missing. Columns without keep the width
	// of what is in them.
	Weight int
	// Min and Max bound the width; zero: the width of the name, and any. A column with a Weight that is not pinned has Min only where
	// what is in it takes as much: other columns stay for as long as there is nothing to read in it.
	Min, Max int
	// Right aligns to the right, as for figures.
	Right bool
	// Hide is the width of the screen below which the column is not shown.
	Hide int
	// Rank is the column's turn to go when not all fit, the highest first; zero never goes.
	Rank int
	// Spare is the width of the screen below which the column is shown only where one of its cells in sight is not Usual.
	Spare int
}

// Cell is what stands in one column of a row. The zero cell is empty.
type Cell struct {
	// Glyph stands before the text, with a space.
	Glyph, Text string
	Style       Style
	// Usual says that nobody misses the cell.
	Usual bool
}

// Rows are what a grid shows.
type Rows struct {
	// N counts them. Top is the first that is drawn, Cursor the one under the cursor; -1: none.
	N, Top, Cursor int
	// Cells fills in a row. It is called for those that can be seen.
	Cells func(i int, cells []Cell)
	// Marked says whether a row is marked; nil: none is.
	Marked func(i int) bool
}

const (
	gutter = 3 // the pointer, the mark, a space
	gap    = 2 // between columns
	// maxText is how much of a text is looked at: no screen shows more.
	maxText = 2048
)

// fit is how the columns stand at one width.
type fit struct {
	natural []int  // what columns would take: the widest that was seen
	telling []bool // whether some cell of the column was not usual
	widths  []int  // what they get; 0: not shown
	steps   int    // how far they can be scrolled
	cut     bool   // some that could be shown have no room
	cells   []Cell
	line    line
}

// Scroll shifts the columns that are not pinned to the left, or back.
func (g *Grid) Scroll(by int) { g.shift = min(max(g.shift+by, 0), g.fit.steps) }

// Reset forgets how wide columns have been: other rows are shown.
func (g *Grid) Reset() {
	clear(g.fit.natural)
	clear(g.fit.telling)
}

// Draw is the header and the rows from Top on in at most height lines of at most width cells.
func (g *Grid) Draw(l *Look, width, height int, rows Rows) []string {
	if width <= 0 || height <= 0 {
		return nil
	}
	n := max(min(rows.N-rows.Top, height-1), 0)
	g.read(l, n, rows)
	g.place(width)
	lines := make([]string, 0, n+1)
	lines = append(lines, g.header(l, width))
	for i := range n {
		row := rows.Top + i
		lines = append(lines, g.row(l, width, g.fit.cells[i*len(g.Columns):][:len(g.Columns)], row == rows.Cursor,
			rows.Marked != nil && rows.Marked(row)))
	}
	return lines
}

// ColumnAt is the column that was drawn at a cell of a line, or -1.
func (g *Grid) ColumnAt(x int) int {
	at := gutter
	for c, width := range g.fit.widths {
		if width == 0 {
			continue
		}
		if x >= at && x < at+width+gap {
			return c
		}
		at += width + gap
	}
	return -1
}

// read takes the cells of n rows in, cleaned, and sees how wide they are.
func (g *Grid) read(l *Look, n int, rows Rows) {
	f, columns := &g.fit, len(g.Columns)
	if len(f.natural) != columns {
		f.natural, f.widths, f.telling = make([]int, columns), make([]int, columns), make([]bool, columns)
	}
	if cap(f.cells) < n*columns {
		f.cells = make([]Cell, n*columns)
	}
	f.cells = f.cells[:n*columns]
	clear(f.cells)
	for i := range n {
		cells := f.cells[i*columns:][:columns]
		rows.Cells(rows.Top+i, cells)
		for c := range cells {
			text := cells[c].Text
			cells[c].Text = l.Clean(text[:min(len(text), maxText)])
			f.natural[c] = max(f.natural[c], cells[c].width())
			f.telling[c] = f.telling[c] || !cells[c].Usual && cells[c].Text != ""
		}
	}
}

func (c *Cell) width() int {
	if c.Glyph == "" {
		return Width(c.Text)
	}
	return Width(c.Glyph) + 1 + Width(c.Text)
}

// place gives the columns their widths.
func (g *Grid) place(width int) {
	f := &g.fit
	shown := g.chosen(width)
	clear(f.widths)
	left := width - gutter + gap
	for _, c := range shown {
		f.widths[c] = g.least(c, width)
		left -= f.widths[c] + gap
	}
	f.cut = false
	for left < 0 {
		at := g.first(shown)
		if at < 0 {
			break
		}
		left += f.widths[shown[at]] + gap
		f.widths[shown[at]], f.cut = 0, true
		shown = append(shown[:at], shown[at+1:]...)
	}
	for left < 0 && g.squeeze(shown) {
		left++
	}
	// What names a row comes first.
	pinned := 0
	for pinned < len(shown) && shown[pinned] < g.Pinned {
		pinned++
	}
	g.share(shown, g.share(shown[:pinned], left))
}

// squeeze takes a cell from the widest column.
func (g *Grid) squeeze(shown []int) bool {
	const least = 3
	widest := -1
	for _, c := range shown {
		if g.fit.widths[c] > least && (widest < 0 || g.fit.widths[c] > g.fit.widths[widest]) {
			widest = c
		}
	}
	if widest >= 0 {
		g.fit.widths[widest]--
	}
	return widest >= 0
}

// chosen are the columns that are to be shown if they can be.
func (g *Grid) chosen(width int) []int {
	shown := make([]int, 0, 16)
	skip := g.shift
	g.fit.steps = -1
	for c := range g.Columns {
		if width < g.Columns[c].Hide || width < g.Columns[c].Spare && !g.fit.telling[c] {
			continue
		}
		if c >= g.Pinned {
			g.fit.steps++
			if skip > 0 {
				skip--
				continue
			}
		}
		shown = append(shown, c)
	}
	g.fit.steps = max(g.fit.steps, 0)
	return shown
}

// first is the place of the column that goes first, or -1.
func (g *Grid) first(shown []int) int {
	at, rank := -1, 0
	for i, c := range shown {
		if r := g.Columns[c].Rank; r > 0 && r >= rank {
			at, rank = i, r
		}
	}
	return at
}

// least is what a column has to have; wanted is what it would take. Columns that are pinned name the row: others make room for
// them.
func (g *Grid) least(c, width int) int {
	column := &g.Columns[c]
	least := max(column.Min, g.named(c))
	switch {
	case column.Weight == 0:
		return g.wanted(c)
	case c < g.Pinned:
		return max(least, min(g.wanted(c), width/4))
	}
	return max(g.named(c), min(column.Min, g.fit.natural[c]))
}

func (g *Grid) wanted(c int) int {
	column := &g.Columns[c]
	wanted := max(g.fit.natural[c], g.named(c), column.Min)
	if column.Max > 0 {
		wanted = min(wanted, max(column.Max, g.named(c)))
	}
	return wanted
}

// named is the width of a column's name.
func (g *Grid) named(c int) int {
	n := Width(g.Columns[c].Name)
	if c == g.Sorted {
		n += 2
	}
	return n
}

// share gives columns with a weight what is left over, as far as they want it, and says what is left then.
func (g *Grid) share(shown []int, left int) int {
	f := &g.fit
	for left > 0 {
		weights := 0
		for _, c := range shown {
			if f.widths[c] < g.wanted(c) {
				weights += g.Columns[c].Weight
			}
		}
		if weights == 0 {
			break
		}
		round := left
		for _, c := range shown {
			want := g.wanted(c) - f.widths[c]
			if want <= 0 || g.Columns[c].Weight == 0 {
				continue
			}
			take := min(want, max(round*g.Columns[c].Weight/weights, 1), left)
			f.widths[c], left = f.widths[c]+take, left-take
		}
	}
	return left
}

func (g *Grid) header(l *Look, width int) string {
	w := &g.fit.line
	w.begin(l, width, false)
	w.space(gutter)
	for c := range g.Columns {
		cell := Cell{Text: g.Columns[c].Name, Style: Head}
		if c == g.Sorted {
			cell.Style = Bold
			cell.Text += " " + l.pickMark(g.Descending)
		}
		g.cell(w, c, &cell)
	}
	if g.fit.cut {
		w.pending = max(width-w.used-1, 0)
		w.write(Head, l.glyphs[More])
	}
	return w.end()
}

func (l *Look) pickMark(descending bool) string {
	if descending {
		return l.glyphs[Down]
	}
	return l.glyphs[Up]
}

func (g *Grid) row(l *Look, width int, cells []Cell, cursor, marked bool) string {
	w := &g.fit.line
	w.begin(l, width, cursor)
	w.sign(Bold, l.glyphs[Pointer], cursor)
	w.sign(Mark, l.glyphs[Ticked], marked)
	w.space(1)
	for c := range cells {
		g.cell(w, c, &cells[c])
	}
	if cursor && l.options.Color {
		w.space(width - w.used - w.pending)
		w.flush()
	}
	return w.end()
}

// cell writes one cell with the gap behind it.
func (g *Grid) cell(w *line, c int, cell *Cell) {
	width := g.fit.widths[c]
	if width == 0 {
		return
	}
	taken := cell.width()
	if g.Columns[c].Right {
		w.space(width - taken)
	}
	rest := width
	if cell.Glyph != "" {
		w.write(cell.Style, cell.Glyph)
		w.space(1)
		rest -= Width(cell.Glyph) + 1
	}
	if text := cell.Text; text != "" && rest > 0 {
		if taken > width {
			text = w.look.cut(text, rest)
		}
		w.write(cell.Style, text)
	}
	if !g.Columns[c].Right {
		w.space(width - taken)
	}
	w.space(gap)
}

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
	// Min and Max bound the width; zero: the width of the name, and any.
	Min, Max int
	// Right aligns to the right, as for figures.
	Right bool
	// Hide is the width of the screen below which the column is not shown.
	Hide int
	// Rank is the column's turn to go when not all fit, the highest first; zero never goes.
	Rank int
}

// Cell is what stands in one column of a row. The zero cell is empty.
type Cell struct {
	// Glyph stands before the text, with a space.
	Glyph, Text string
	Style       Style
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

// fit is how the columns stand at one width.
type fit struct {
	width   int
	natural []int // what columns would take
	widths  []int // what they get; 0: not shown
	cells   []Cell
	line    []byte
}

// Draw is the header and the rows from Top on in at most height lines of at most width cells.
func (g *Grid) Draw(l *Look, width, height int, rows Rows) []string { return nil }

// Scroll shifts the columns that are not pinned to the left, or back.
func (g *Grid) Scroll(by int) {}

// Reset forgets how wide columns have been: other rows are shown.
func (g *Grid) Reset() {}

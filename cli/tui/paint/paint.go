// Package paint owns the look of rows and words in a terminal's cells.
//
// It refuses to know what is shown: it is given texts with roles, and phases with the words that the hub has for them.
//
// Text comes in as others wrote it, and is cleaned here of whatever a terminal would act on: nothing but this package's own
// colours leaves it as a control sequence. A [Look] turns a text and a role into cells; a [Grid] lays rows of them out under a
// header, for the rows that can be seen only. Nothing is ever said by colour alone: a look without colours shows the same
// words.
package paint

// Style is the role of a text. What it looks like is the look's to say.
type Style uint8

// The roles there are.
const (
	Plain Style = iota
	// Faint is what is read last, such as an age; Bold is what is read first.
	Faint
	Bold
	// Good, Busy and Bad say how something is; Old that what is known of it is not from now.
	Good
	Busy
	Bad
	Old
	// Title is the name of a screen or a box, Head the names of columns, Crumb a step of the way to a screen, Rule a line
	// between parts.
	Title
	Head
	Crumb
	Rule
	// Key is a key to press, Hint what it does.
	Key
	Hint
	// Mark is what a person marked, Found what a search found.
	Mark
	Found
	// Added, Removed, Changed and Hunk are the lines of a diff.
	Added
	Removed
	Changed
	Hunk
	// Name, Value and Note are the words of a document, such as YAML: keys, values, comments.
	Name
	Value
	Note
	// Cursor is the line that keys act on.
	Cursor
	styles
)

// Glyph is a sign of one cell.
type Glyph uint8

// The signs there are.
const (
	Ellipsis Glyph = iota
	// Pointer stands before the line under the cursor, Ticked before a marked one.
	Pointer
	Ticked
	// Up and Down stand behind the name of a sorted column.
	Up
	Down
	// Step stands between the steps of a path, Between between the parts of a line.
	Step
	Between
	// Branch, LastBranch, Trunk and Twig draw trees: "├", "└", "│", "─".
	Branch
	LastBranch
	Trunk
	Twig
	// Open and Shut say whether what hangs below is shown.
	Open
	Shut
	// Full and Empty fill bars.
	Full
	Empty
	// The corners of a box.
	TopLeft
	TopRight
	BottomLeft
	BottomRight
	// More says that a list goes on to the side.
	More
	glyphs
)

// Options are what a look depends on.
type Options struct {
	// Color says that the terminal shows colours; without, nothing that this package draws has a control sequence.
	Color bool
	// Dark says that the terminal's background is dark.
	Dark bool
	// Skin is what the person wants; nil: what fits the terminal.
	Skin *Skin
	// ASCII leaves out all characters but those.
	ASCII bool
}

// Look is a theme with its glyphs. It does not change.
type Look struct {
	options Options
	sgr     [styles]string // what switches a style on, all else off
	under   [styles]string // the same on the line under the cursor
	glyphs  [glyphs]string
}

// Package paint owns how rows and words look in a terminal's cells.
package paint

// Look is a theme with its glyphs. It does not change.
type Look struct{}

// Package editor owns a text on its way through a person's own editor.
//
// It refuses to know what the text is, and writes it nowhere but into a private copy. Open makes that copy, in memory where the
// system has such a place; Edit lets the person work on it, as often as it takes; Text reads what has become of it; and Wipe
// overwrites it.
package editor

import (
	"context"
	"errors"

	"github.com/pluralsh/plural/cli/cmdutil"
)

// Draft is a private copy of a text, in a folder of its own.
type Draft struct{ f *cmdutil.Factory }

// Open makes a draft in a file named base.
func Open(f *cmdutil.Factory, base string, text []byte) (*Draft, error) {
	return nil, errors.New("not there yet")
}

// Name is where the draft lies.
func (d *Draft) Name() string { return "" }

// Edit runs the person's editor until it ends.
func (d *Draft) Edit(context.Context) error { return errors.New("not there yet") }

// Text is the draft as it is now, if it is at most so long.
func (d *Draft) Text(most int64) ([]byte, error) { return nil, errors.New("not there yet") }

// Wipe overwrites the draft, with whatever the editor left beside it, and removes it.
func (d *Draft) Wipe() {}

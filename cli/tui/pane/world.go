package pane

import (
	"context"
	"time"

	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/tui/known"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/workspace"
)

// World is what every pane is given.
type World struct {
	// Context ends with the console.
	Context context.Context //nolint:containedctx // commands of bubbletea have no other way to it
	Fleet   *known.Fleet
	// Source fills Fleet.
	Source known.Source
	// Hub is nil where there is none to ask: panes then show what is known without it, and say so.
	Hub *client.Client
	// Repo is the person's clone of the installation repo; nil: there is none.
	Repo *workspace.Repo
	Look *paint.Look
	Now  func() time.Time
	// ReadOnly leaves out everything that changes something.
	ReadOnly bool
}

// Maker makes a pane about a subject. The filter is for panes that are Filtered; the error is told in the pane's place.
type Maker func(w *World, about Subject, filter string) (Pane, error)

package pane

import (
	"context"
	"time"

	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/tui/kinds"
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/views"
)

// World is what every pane is given.
type World struct {
	// Context ends with the console.
	Context context.Context //nolint:containedctx // commands of bubbletea have no other way to it
	Fleet   *model.Fleet
	// Source fills Fleet.
	Source model.Source
	// Hub is nil where there is none to ask: panes then show what is known without it, and say so.
	Hub *client.Client
	// TokenFrom is the variable that names the person's token; empty: it is that of the last login.
	TokenFrom string
	// Repo is the person's clone of the installation repo; nil: there is none.
	Repo *workspace.Repo
	// Views reads the views that people of this fleet share, by their keys; nil: there is no clone that has some. It takes a moment.
	Views func() ([]views.View, error)
	// Kinds are those that the clusters' own APIs have.
	Kinds *kinds.Kinds
	Look  *paint.Look
	Now   func() time.Time
	// ReadOnly leaves out everything that changes something.
	ReadOnly bool
}

// TagEnv and Production are the tag of clusters on which people are to be careful.
const (
	TagEnv     = "env"
	Production = "prod"
)

// Production says whether a subject is a cluster that is tagged as production, or on one.
func (w *World) Production(s Subject) bool {
	name := s.Cluster
	if s.Kind == KindCluster {
		name = s.Name
	}
	c := w.Fleet.Clusters.Get(name)
	return c != nil && c.Tags[TagEnv] == Production
}

// LogIn says what lets a person in again whom the hub does not know any more. key says which key does.
func (w *World) LogIn(key string) string {
	switch w.TokenFrom {
	case "":
		return key + ", as plural auth login does in another terminal"
	case "PLURAL_TOKEN_FILE":
		return "write another token into the file that PLURAL_TOKEN_FILE names"
	}
	return "start the console anew with another " + w.TokenFrom
}

// Maker makes a pane about a subject. The filter is for panes that are Filtered; the error is told in the pane's place.
type Maker func(w *World, about Subject, filter string) (Pane, error)

package tui

import (
	"slices"
	"testing"

	"github.com/pluralsh/plural/cli/tui/act"
	"github.com/pluralsh/plural/cli/tui/console"
	"github.com/pluralsh/plural/cli/tui/paint"
)

// The menu gives a label 15 cells.
func TestLabelsOfActionsStandInTheMenuWhole(t *testing.T) {
	_, open := console.Keys()
	for _, b := range slices.Concat(act.Keys(), open) {
		if h := b.Help(); paint.Width(h.Desc) > 15 {
			t.Errorf("%s %s takes %d cells", h.Key, h.Desc, paint.Width(h.Desc))
		}
	}
}

// Package details owns the panes about one subject.
//
// It refuses to know how the subject was found, and how the console is drawn around a pane.
//
// A pane asks when it is opened, on another goroutine, says who is being asked until the answer is there, and shows that with its
// age; r asks again. An answer goes to the pane that asked by its own message, and one that another question has overtaken is
// passed over. What cannot be had is told in its place, with what to do about it, and what was known before stays. Logs and trees
// of objects go on while somebody looks: a stream is taken up again when it breaks, what it brings is gathered for a moment, and
// what is kept of it is bounded. Lines are kept as words with roles, and only those that are seen are painted. Values of Secrets
// and of sealed files are masked before they become lines.
package details

import (
	"charm.land/bubbles/v2/key"

	"github.com/pluralsh/plural/cli/tui/pane"
)

// Keys are those of all panes: nobody else may have them.
func Keys() []key.Binding {
	d, l, t, s := diffKeysOf(), logKeysOf(), treeKeysOf(), searchKeysOf()
	return append(movesOf().all(), movesOf().wrap, again(), showDiff(), d.next, d.before, d.blanks, d.cluster, d.clusterBefore,
		l.previous, l.timestamps, s.next, s.before, t.enter, t.open, t.shut)
}

// Panes are the panes by the names that they are opened by.
func Panes() map[string]pane.Maker {
	unfiltered := func(make func(*pane.World, pane.Subject) (pane.Pane, error)) pane.Maker {
		return func(w *pane.World, about pane.Subject, _ string) (pane.Pane, error) { return make(w, about) }
	}
	return map[string]pane.Maker{
		"describe": unfiltered(newDescribe), "yaml": unfiltered(newYAML), "diff": unfiltered(newDiff), "logs": newLogs,
		"tree": unfiltered(newTree), "history": unfiltered(newHistory), "happened": unfiltered(newHappened),
	}
}

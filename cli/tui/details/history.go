package details

import (
	"context"
	"fmt"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/internal/paging"
)

// maxRevisions is how many steps of a history are shown.
const maxRevisions = 200

// past is a history with where it is from.
type past struct {
	from      string
	revisions []v1.Revision
	// more says that there are older ones.
	more bool
	// beside is why the hub did not say it.
	beside error
}

// historyPane is the pane of a history, a commit a row.
type historyPane struct{ rowed[*past] }

func newHistory(w *pane.World, about pane.Subject) (pane.Pane, error) {
	c := &historyPane{rowed[*past]{page: newPage[*past](w, about, "history")}}
	c.none = "nothing of it was ever committed"
	c.count = func(found *past) int { return len(found.revisions) }
	c.cells = func(found *past, i int, now time.Time, cells []paint.Cell) {
		drawRevision(&found.revisions[i], now, cells)
	}
	a := askerOf(w)
	c.question = func(ctx context.Context) (*past, error) { return a.history(ctx, about) }
	c.write = func(found *past) []line { // rows are drawn from the answer
		if found.beside == nil {
			return nil
		}
		return []line{say(paint.Faint, "the hub did not say: "+cmdutil.Explain(found.beside).Error())}
	}
	c.grid = paint.Grid{Sorted: -1, Columns: []paint.Column{
		{Name: "COMMIT"},
		{Name: "RESULT"},
		{Name: "MADE", Rank: 2},
		{Name: "AUTHOR", Max: 24, Rank: 3},
		{Name: "SUBJECT", Weight: 3},
		{Name: "FILES", Weight: 1, Rank: 4, Hide: 110},
	}}
	return c, nil
}

// history is what made a subject what it is: as the hub says, which knows what became of each commit, or as the clone does.
func (a asker) history(ctx context.Context, about pane.Subject) (*past, error) {
	var beside error
	if a.hub != nil && about.Kind != pane.KindCluster {
		found, err := a.told(ctx, serviceOf(about))
		if err == nil || a.repo == nil {
			return found, err
		}
		beside = err
	}
	revisions, err := a.past(ctx, about)
	if err != nil {
		return nil, err
	}
	return &past{from: "the clone", revisions: revisions, more: len(revisions) == maxRevisions, beside: beside}, nil
}

func (a asker) told(ctx context.Context, service string) (*past, error) {
	q := paging.Query{Limit: maxRevisions}
	ask := func(ctx context.Context, q paging.Query) (*v1.List[v1.Revision], error) {
		if service != "" {
			return a.hub.ServiceHistory(ctx, service, q)
		}
		return a.hub.History(ctx, q)
	}
	page, err := ask(ctx, q)
	if err != nil {
		return nil, err
	}
	return &past{from: "the hub", revisions: page.Items, more: page.Next != ""}, nil
}

// Subjects is the commit under the cursor.
func (c *historyPane) Subjects() []pane.Subject {
	if r := c.revision(); r != nil {
		return []pane.Subject{{Kind: pane.KindCommit, Name: r.ID, Service: serviceOf(c.about)}}
	}
	return nil
}

func (c *historyPane) revision() *v1.Revision {
	if c.value == nil || c.cursor >= len(c.value.revisions) {
		return nil
	}
	return &c.value.revisions[c.cursor]
}

// Note says where it is from.
func (c *historyPane) Note() string {
	if c.value == nil {
		return ""
	}
	note := fmt.Sprintf("%d commits", len(c.value.revisions))
	if c.value.more {
		note = "the newest " + note
	}
	return note + ", from " + c.value.from + ", " + c.page.Note()
}

func showDiff() key.Binding { return bind("enter", "what it changed", "enter") }

// Keys are those of rows.
func (c *historyPane) Keys() []key.Binding {
	return append([]key.Binding{showDiff(), again()}, listKeys()...)
}

// Update opens what a commit changed, or moves the cursor.
func (c *historyPane) Update(msg tea.Msg) tea.Cmd {
	if press, ok := msg.(tea.KeyPressMsg); ok && key.Matches(press, showDiff()) {
		if on := c.Subjects(); len(on) == 1 {
			return pane.Ask(pane.Open{Pane: "diff", About: on[0]})
		}
		return nil
	}
	return c.rowed.Update(msg)
}

// drawRevision fills in a row.
func drawRevision(r *v1.Revision, now time.Time, cells []paint.Cell) {
	result, style := resultOf(r)
	cells[0] = paint.Cell{Text: cmdutil.ShortCommit(r.ID), Style: paint.Name}
	cells[1] = paint.Cell{Text: result, Style: style}
	cells[2] = paint.Cell{Text: cmdutil.Ago(now, r.Time)}
	cells[3] = paint.Cell{Text: r.Author}
	cells[4] = paint.Cell{Text: subjectOf(r)}
	cells[5] = paint.Cell{Text: filesOf(r), Style: paint.Faint}
}

func resultOf(r *v1.Revision) (string, paint.Style) {
	switch {
	case r.RevertedBy != "":
		return "undone by " + cmdutil.ShortCommit(r.RevertedBy), paint.Faint
	case r.Result == v1.ResultCurrent:
		return string(r.Result), paint.Good
	case r.Outcome() == v1.ResultRefused:
		return string(v1.ResultRefused), paint.Bad
	case r.Result == v1.ResultWaiting:
		return string(r.Result), paint.Busy
	}
	return cmdutil.OrDash(string(r.Result)), paint.Faint
}

func subjectOf(r *v1.Revision) string {
	if r.Merge {
		return "merge: " + r.Subject
	}
	return r.Subject
}

func filesOf(r *v1.Revision) string {
	files := strings.Join(r.Files, ", ") + others(r.LeftOut)
	if r.Incomplete {
		files = strings.TrimSpace(files + " (not all was compared)")
	}
	return files
}

package console

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/views"
)

// viewsRead are the views as they are now, of which one was asked for by its key; 0: none was.
type viewsRead struct {
	list  []views.View
	err   error
	wants int
}

// readViews reads the views, to go to one of them: somebody may have pushed others since.
func (m *Model) readViews(wants int) tea.Cmd {
	read := m.World.Views
	switch {
	case read == nil && wants == 0:
		return nil
	case read == nil:
		return m.cannot(fmt.Sprintf("%d goes to a view of %s, and there is no installation repo here that has some", wants, views.File))
	}
	return func() tea.Msg {
		list, err := read()
		return viewsRead{list, err, wants}
	}
}

func (m *Model) viewsRead(r viewsRead) tea.Cmd {
	if r.err != nil {
		return m.cannot(mistaken(r.err))
	}
	m.shared = r.list
	if r.wants == 0 {
		return nil
	}
	at := slices.IndexFunc(m.shared, func(v views.View) bool { return v.Key == r.wants })
	if at < 0 {
		return m.cannot(fmt.Sprintf("no view has the key %d; %s of the installation repo gives keys to views", r.wants, views.File))
	}
	return m.open(pane.Open{Pane: m.shared[at].List, Filter: m.shared[at].Filter}, true)
}

// mistaken tells the first of what is wrong, and where all of it is told.
func mistaken(err error) string {
	var mistakes fleet.Errors
	if !errors.As(err, &mistakes) || len(mistakes) < 2 {
		return err.Error()
	}
	return fmt.Sprintf("%v (and %d more: plural validate)", mistakes[0], len(mistakes)-1)
}

// viewKeys are those of the views that there are.
func (m *Model) viewKeys() []key.Binding {
	var keys []key.Binding
	for _, v := range m.shared {
		keys = append(keys, bind(strconv.Itoa(v.Key), v.Name))
	}
	return keys
}

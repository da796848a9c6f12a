package console

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/pluralsh/plural/cli/tui/guide"
	"github.com/pluralsh/plural/cli/tui/pane"
)

func bind(keys, text string, also ...string) key.Binding {
	return key.NewBinding(key.WithKeys(append([]string{keys}, also...)...), key.WithHelp(keys, text))
}

// keymap is what the console does itself.
type keymap struct {
	filter, command, help, log, back, quit, stop, before, after, last, preview, peek, views, menu, click, drag key.Binding
}

func keysOf() keymap {
	return keymap{
		filter:  bind("/", "filter"),
		command: bind(":", "command"),
		help:    bind("?", "help"),
		log:     bind("@", "commands that were run"),
		back:    bind("esc", "back"),
		quit:    bind("q", "back, or quit"),
		stop:    bind("ctrl+c", "stop what is under way, or quit"),
		before:  bind("[", "view before"),
		after:   bind("]", "view after"),
		last:    bind("-", "last view"),
		preview: bind("p", "preview beside a list, or not"),
		views:   bind("1", "to a view of views.yaml, 1 to 9", "2", "3", "4", "5", "6", "7", "8", "9"),
		menu:    bind("ctrl+e", "menu, or not"),
		click:   key.NewBinding(key.WithKeys("mouse"), key.WithHelp("click", "select a row, or sort by a column")),
		drag:    key.NewBinding(key.WithKeys("mouse"), key.WithHelp("shift+drag", "mark text for copying, as the terminal does")),
		peek:    bind("shift+down", "scroll the preview", "shift+up"),
	}
}

func (k keymap) all() []key.Binding {
	return []key.Binding{
		k.help, k.filter, k.command, k.back, k.quit, k.stop, k.before, k.after, k.last, k.preview, k.peek, k.views,
		k.menu, k.log, k.click, k.drag,
	}
}

// Keys are what the console does itself, and which panes it opens about what the cursor is on.
func Keys() (own, open []key.Binding) {
	for _, o := range openers() {
		open = append(open, o.Binding)
	}
	return keysOf().all(), open
}

// opener is a key that opens a pane about the subject under the cursor.
type opener struct {
	key.Binding
	pane  string
	kinds []pane.Kind // none: all
}

func openers() []opener {
	live := []pane.Kind{pane.KindCluster, pane.KindService, pane.KindDeployment, pane.KindObject}
	return []opener{
		{bind("d", "describe"), "describe", nil},
		{bind("l", "logs"), "logs", live},
		{bind("D", "diff"), "diff", []pane.Kind{pane.KindService, pane.KindDeployment, pane.KindPackage, pane.KindCommit}},
		{bind("y", "YAML"), "yaml", []pane.Kind{
			pane.KindCluster, pane.KindService, pane.KindDeployment, pane.KindObject, pane.KindSource,
			pane.KindPackage,
		}},
		{bind("t", "tree of objects"), "tree", []pane.Kind{pane.KindService, pane.KindDeployment}},
		{bind("h", "history"), "history", []pane.Kind{pane.KindService, pane.KindDeployment, pane.KindFleet}},
		{bind("E", "events"), "happened", []pane.Kind{pane.KindCluster, pane.KindService, pane.KindDeployment}},
	}
}

func (o opener) applies(s pane.Subject) bool {
	if len(o.kinds) == 0 {
		return s.Kind != pane.KindCommand
	}
	for _, kind := range o.kinds {
		if s.Kind == kind {
			return true
		}
	}
	return false
}

// key takes a key to whom it is for.
func (m *Model) key(k tea.KeyPressMsg) tea.Cmd {
	m.told = pane.Told{}
	keys := keysOf()
	switch t, typing := m.top().(pane.Typing); {
	case key.Matches(k, keys.stop):
		if m.stop() {
			return nil
		}
		return tea.Quit
	case m.prompt != nil:
		return m.typed(k)
	case typing && t.Typing():
		return m.top().Update(k)
	}
	if cmd, yes := m.own(k, keys); yes {
		return cmd
	}
	subjects := m.subjects()
	if len(subjects) == 1 {
		for _, o := range openers() {
			switch {
			case !key.Matches(k, o.Binding) || !o.applies(subjects[0]):
			case m.shows(o.pane, subjects[0]):
				return nil
			default:
				return m.open(pane.Open{Pane: o.pane, About: subjects[0]}, false)
			}
		}
	}
	if cmd, yes := m.Actions.Key(k, m.pointing()); yes {
		return cmd
	}
	return m.top().Update(k)
}

// own does what is the console's own to do.
func (m *Model) own(k tea.KeyPressMsg, keys keymap) (cmd tea.Cmd, yes bool) {
	switch {
	case key.Matches(k, keys.help):
		return m.push(guide.New(m.World.Look, m.groups()), pane.Open{}), true
	case key.Matches(k, keys.command):
		m.command()
	case key.Matches(k, keys.filter):
		m.narrow()
	case key.Matches(k, keys.log):
		return m.open(pane.Open{Pane: "commands"}, false), true
	case key.Matches(k, keys.back):
		return m.leave(), true
	case key.Matches(k, keys.quit):
		if len(m.stack) == 1 {
			return tea.Quit, true
		}
		return m.back(), true
	case key.Matches(k, keys.before):
		return m.visit(m.places.step(-1)), true
	case key.Matches(k, keys.after):
		return m.visit(m.places.step(1)), true
	case key.Matches(k, keys.last):
		return m.visit(m.places.last()), true
	case key.Matches(k, keys.views):
		return m.readViews(int(k.Code - '0')), true
	case key.Matches(k, keys.menu):
		m.bare = !m.bare
	case key.Matches(k, keys.preview) && m.previews():
		m.toggle()
	case key.Matches(k, keys.peek) && m.preview.on && m.previews():
		return m.preview.scroll(k), true
	default:
		return nil, false
	}
	return nil, true
}

// stop stops what is under way, and tells what goes on regardless. It says false when nothing was.
func (m *Model) stop() bool {
	told, stopped := m.Actions.Stop()
	if stopped {
		m.told = pane.Told{Text: told}
	}
	return stopped
}

// leave takes back the last thing that narrowed the view: marks, then the filter, then the pane; where there is none, it stops what is
// under way.
func (m *Model) leave() tea.Cmd {
	if p, ok := m.top().(pane.Pointing); ok && p.Marked() > 0 {
		p.Unmark()
		return nil
	}
	if f, ok := m.top().(pane.Filtered); ok && f.Filter() != "" {
		_ = f.SetFilter("") // everything fits no filter
		return nil
	}
	if len(m.stack) == 1 && m.stop() {
		return nil
	}
	return m.back()
}

func (m *Model) visit(to pane.Open, is bool) tea.Cmd {
	if !is {
		return nil
	}
	return m.open(to, isHome(to))
}

// groups are all keys that do something now.
func (m *Model) groups() []guide.Group {
	groups := []guide.Group{{Title: m.top().Title(), Keys: m.top().Keys()}}
	subjects := m.subjects()
	var about []key.Binding
	if len(subjects) == 1 {
		for _, o := range openers() {
			if o.applies(subjects[0]) && !m.shows(o.pane, subjects[0]) {
				about = append(about, o.Binding)
			}
		}
	}
	if about = append(about, m.Actions.Offered(subjects)...); len(about) > 0 {
		groups = append(groups, guide.Group{Title: "What the cursor is on", Keys: about})
	}
	if len(m.shared) > 0 {
		groups = append(groups, guide.Group{Title: "Views of this fleet", Keys: m.viewKeys()})
	}
	keys := keysOf()
	keys.filter = m.filterKey()
	return append(groups, guide.Group{Title: "Everywhere", Keys: keys.all()})
}

// filterKey is the key by which a filter is typed, with what that does here; it is disabled where it does nothing.
func (m *Model) filterKey() key.Binding {
	b := keysOf().filter
	if s, ok := m.top().(pane.Searching); ok && s.Searches() {
		b.SetHelp(b.Help().Key, "search")
	}
	_, ok := m.top().(pane.Filtered)
	b.SetEnabled(ok)
	return b
}

// shows says whether what is looked at is that pane about that subject: it is not opened on itself.
func (m *Model) shows(name string, about pane.Subject) bool {
	top := m.stack[len(m.stack)-1].asked
	a := top.About
	if top.Pane != name || a.Kind != about.Kind || a.Cluster != about.Cluster || a.Service != about.Service {
		return false
	}
	if a.Kind == pane.KindDeployment { // its name is told by these
		return true
	}
	if a.Object != nil && about.Object != nil {
		x, y := a.Object, about.Object
		return x.Group == y.Group && x.Kind == y.Kind && x.Namespace == y.Namespace && x.Name == y.Name
	}
	return a.Name == about.Name
}

// pressed is the key of that name, as if it had been pressed.
func pressed(name string) tea.KeyPressMsg {
	var k tea.KeyPressMsg
	for before, mod := range map[string]tea.KeyMod{"ctrl+": tea.ModCtrl, "shift+": tea.ModShift, "alt+": tea.ModAlt} {
		if rest, found := strings.CutPrefix(name, before); found {
			k.Mod, name = mod, rest
		}
	}
	named := map[string]rune{
		"esc": tea.KeyEscape, "enter": tea.KeyEnter, "space": tea.KeySpace, "tab": tea.KeyTab, "up": tea.KeyUp, "down": tea.KeyDown,
		"left": tea.KeyLeft, "right": tea.KeyRight, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "home": tea.KeyHome, "end": tea.KeyEnd,
		"delete": tea.KeyDelete,
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(name, "f")); err == nil && len(name) > 1 && n >= 1 && n <= 12 {
		k.Code = tea.KeyF1 + rune(n-1)
		return k
	}
	if code, ok := named[name]; ok {
		k.Code = code
		return k
	}
	k.Code, _ = utf8.DecodeRuneInString(name)
	if k.Mod == 0 {
		k.Text = name
	}
	return k
}

// Package console owns the frame of the console around the current pane.
//
// It refuses to know what panes show and what actions do.
//
// From top to bottom: the pulse (the fleet in figures), the breadcrumbs, the pane on top of the stack, the line where a filter or a
// command is typed or something is told, and the keys. A message goes to what it is for: a key as pane.Pane says, a batch of what is
// known to the fleet, an answer to all panes of the stack. A key is drawn at once; what comes from the fleet at most ten times a
// second, however much there is of it.
package console

import (
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/pluralsh/plural/cli/tui/guide"
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/internal/filter"
	"github.com/pluralsh/plural/workspace/views"
)

const (
	// coalesce is the shortest time between two frames that nobody pressed a key for.
	coalesce = 100 * time.Millisecond
	// beat is how often ages are drawn anew, keepEvery how many beats lie between two times that what was seen is written down.
	beat      = time.Second
	keepEvery = 30
)

// Actions are what can be done to subjects.
type Actions interface {
	// Offered are the keys of those that apply now.
	Offered(subjects []pane.Subject) []key.Binding
	// Key begins what a key asks for; on may be nil. It says false when the key is no action's.
	Key(k tea.KeyPressMsg, on pane.Pointing) (tea.Cmd, bool)
	// Update takes in a message about what is under way; false: it is none of those.
	Update(msg tea.Msg) (tea.Cmd, bool)
	// Busy says what is under way; empty: nothing.
	Busy() string
	// Stop stops what is under way, and says what goes on regardless; false: nothing was.
	Stop() (told string, stopped bool)
}

// Options are what the console is made of.
type Options struct {
	World   *pane.World
	Panes   map[string]pane.Maker
	Actions Actions
	// Keep gives what writes down what was seen of the fleet, for another goroutine; nil: there is nothing new.
	Keep func() func() error
	// Home is the first pane, Greeting what is told at first.
	Home     pane.Open
	Greeting pane.Told
	// NoMouse leaves the mouse to the terminal.
	NoMouse bool
}

// level is a pane of the stack, with what was asked for to have it.
type level struct {
	pane.Pane
	asked pane.Open
}

// Model is the console, as bubbletea runs it.
type Model struct {
	Options
	stack   []level
	places  places
	preview preview
	// shared are the views of the fleet's people, as they were read last.
	shared []views.View
	prompt *prompt
	told   pane.Told
	// bare says that no menu of keys is wanted.
	bare bool
	// elsewhere says that the terminal is not the one that the person looks at.
	elsewhere     bool
	width, height int
	frame         string
	// dirty says that the frame is old, due that a tick is on its way which draws it.
	dirty, due bool
	beats      int
	// counted are the upgrades under way at a generation of their list.
	counted struct {
		at uint64
		n  int
	}
}

// New is a console that shows home.
func New(o Options) *Model {
	return &Model{Options: o, told: o.Greeting, width: 80, height: 24, dirty: true}
}

// Init opens the first pane.
func (m *Model) Init() tea.Cmd {
	return tea.Batch(m.open(m.Home, true), tea.RequestBackgroundColor, beatOnce(), m.readViews(0))
}

type (
	drawn struct{}
	beats time.Time
)

func beatOnce() tea.Cmd { return tea.Tick(beat, func(t time.Time) tea.Msg { return beats(t) }) }

// Update takes a message in.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	cmd := m.update(msg)
	if !m.preview.on {
		return m, cmd
	}
	return m, tea.Batch(cmd, m.follow())
}

func (m *Model) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case model.Batch:
		m.World.Fleet.Apply(msg)
		return m.later()
	case pane.Repaint:
		return m.later()
	case drawn:
		m.due, m.dirty = false, true
		return m.tick()
	case beats:
		m.dirty = true
		return tea.Batch(beatOnce(), m.keep(), m.tick())
	}
	m.dirty = true
	return m.act(msg)
}

// tick tells what is seen that time went by, or that something changed.
func (m *Model) tick() tea.Cmd {
	now := pane.Tick{Now: m.World.Now()}
	return tea.Batch(m.top().Update(now), m.preview.update(now))
}

// keep has what was seen written down, when it is time.
func (m *Model) keep() tea.Cmd {
	if m.beats++; m.beats%keepEvery != 0 {
		return nil
	}
	write := m.Keep()
	if write == nil {
		return nil
	}
	return func() tea.Msg {
		if err := write(); err != nil {
			return pane.Told{Text: err.Error(), Bad: true}
		}
		return nil
	}
}

// later has what is known now drawn with the next tick.
func (m *Model) later() tea.Cmd {
	if m.due {
		return nil
	}
	m.due = true
	return tea.Tick(coalesce, func(time.Time) tea.Msg { return drawn{} })
}

func (m *Model) act(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(msg.Width, 0), max(msg.Height, 0)
		return nil
	case tea.BackgroundColorMsg:
		o := m.World.Look.Options()
		o.Dark = msg.IsDark()
		m.World.Look = paint.NewLook(o)
		return nil
	case tea.KeyPressMsg:
		return m.key(msg)
	case guide.Press:
		return m.key(pressed(msg.Key))
	case pane.Open:
		return m.open(msg, isHome(msg))
	case pane.Push:
		return m.push(msg.Pane, pane.Open{})
	case pane.Question:
		m.question(msg)
		return nil
	case pane.Back:
		return m.back()
	case pane.Told:
		m.told = msg
		return nil
	case pane.Ended:
		return m.ring(msg)
	case tea.BlurMsg:
		m.elsewhere = true
		return nil
	case tea.FocusMsg:
		m.elsewhere = false
		return nil
	case viewsRead:
		return m.viewsRead(msg)
	case rested:
		return m.rested(msg.turn)
	case tea.MouseClickMsg:
		return m.click(msg)
	case tea.PasteMsg, tea.MouseWheelMsg:
		if m.prompt != nil {
			return m.typed(msg)
		}
		return m.top().Update(msg)
	}
	if cmd, yes := m.Actions.Update(msg); yes {
		return cmd
	}
	cmds := []tea.Cmd{m.preview.update(msg)}
	for _, l := range m.stack {
		cmds = append(cmds, l.Update(msg))
	}
	return tea.Batch(cmds...)
}

// click gives a click to the pane that it is on.
func (m *Model) click(msg tea.MouseClickMsg) tea.Cmd {
	p, ok := m.top().(pane.Clicked)
	y := msg.Y - headLines - m.menuLines()
	if !ok || m.prompt != nil || msg.Button != tea.MouseLeft || y < 0 || y >= m.listHeight() || msg.X >= m.listWidth() {
		return nil
	}
	m.told = pane.Told{}
	return p.Click(msg.X, y)
}

func (m *Model) top() pane.Pane { return m.stack[len(m.stack)-1].Pane }

// subjects are what the keys are about.
func (m *Model) subjects() []pane.Subject {
	if p := m.pointing(); p != nil {
		return p.Subjects()
	}
	return nil
}

// pointing is the pane on top, if it points to something.
func (m *Model) pointing() pane.Pointing {
	if p, ok := m.top().(pane.Pointing); ok {
		return pointing{p, m.World.Fleet}
	}
	return nil
}

// open puts the pane of that name on the stack; base begins the stack anew with it.
func (m *Model) open(o pane.Open, base bool) tea.Cmd {
	maker := m.Panes[o.Pane]
	if maker == nil {
		return m.cannot("there is no view called " + o.Pane)
	}
	if o.Pane == "objects" && o.Filter == "" {
		o.Filter = m.selected()
	}
	made, err := maker(m.World, o.About, o.Filter)
	if err != nil {
		return m.cannot(err.Error())
	}
	if base {
		m.close(0)
	}
	m.places.visit(o)
	return m.push(made, o)
}

// selected is a filter for the clusters that the cursor, or marks, are on; empty: none are.
func (m *Model) selected() string {
	var names []string
	if len(m.stack) > 0 {
		for _, s := range m.subjects() {
			if s.Cluster != "" && !slices.Contains(names, s.Cluster) {
				names = append(names, s.Cluster)
			}
		}
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return "@" + names[0]
	}
	return filter.OneOf("cluster", names)
}

// cannot tells why a pane is not there to be looked at.
func (m *Model) cannot(why string) tea.Cmd {
	m.places.going = false
	m.told = pane.Told{Text: why, Bad: true}
	return nil
}

// isHome says whether a pane is one that everything else hangs below: a list of the whole fleet.
func isHome(o pane.Open) bool {
	return o.About.Kind == "" && slices.Contains([]string{"fleet", "clusters", "services", "sources", "packages", "events"}, o.Pane)
}

func (m *Model) push(p pane.Pane, o pane.Open) tea.Cmd {
	m.prompt = nil
	m.stack = append(m.stack, level{p, o})
	return p.Init()
}

// back takes the pane on top away. The last one stays.
func (m *Model) back() tea.Cmd {
	if len(m.stack) > 1 {
		m.close(len(m.stack) - 1)
		m.places.visit(m.stack[len(m.stack)-1].asked)
	}
	return m.top().Update(pane.Tick{Now: m.World.Now()})
}

// close leaves n panes on the stack.
func (m *Model) close(n int) {
	for _, l := range m.stack[n:] {
		if c, ok := l.Pane.(pane.Closing); ok {
			c.Close()
		}
	}
	m.stack = m.stack[:n]
}

// Close gives back what the panes hold.
func (m *Model) Close() {
	m.close(0)
	m.preview.drop()
}

// View is the frame.
func (m *Model) View() tea.View {
	if m.dirty && len(m.stack) > 0 {
		m.frame, m.dirty = m.draw(), false
	}
	view := tea.NewView(m.frame)
	view.AltScreen = true
	if !m.NoMouse {
		view.MouseMode = tea.MouseModeCellMotion
	}
	view.WindowTitle = "plural"
	view.ReportFocus = true
	if m.prompt != nil {
		view.Cursor = tea.NewCursor(m.prompt.column(m.width), max(m.height-2, 0))
	}
	return view
}

// around is how many lines are the console's own beside the menu of keys, headLines how many of those stand above the pane.
const (
	around    = 4
	headLines = 2
)

// room is how many lines the pane has.
func (m *Model) room() int { return max(m.height-around-m.menuLines(), 1) }

func (m *Model) draw() string {
	lines := make([]string, 0, m.height)
	lines = append(append(lines, m.pulse()), m.menu()...)
	lines = append(lines, m.crumbs())
	room := m.room()
	body := m.body(m.width, room)
	lines = append(lines, body[:min(len(body), room)]...)
	for len(lines) < m.height-2 {
		lines = append(lines, "")
	}
	lines = append(lines, m.line(), m.footer())
	return strings.Join(lines[:min(len(lines), max(m.height, 1))], "\n")
}

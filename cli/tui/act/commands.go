package act

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

// commands shows the log, the newest first; or of it only what goes on in the background.
type commands struct {
	desk *Desk
	grid paint.Grid
	// forwards says that only those are shown.
	forwards bool
	// cursor is the entry under the cursor, which moves down when others come.
	cursor      *Entry
	top, height int
}

func newCommands(d *Desk, forwards bool) *commands {
	return &commands{desk: d, forwards: forwards, grid: paint.Grid{Sorted: -1, Columns: []paint.Column{
		{Name: "WHEN", Min: 8},
		{Name: "ENDED", Min: 9},
		{Name: "TOOK", Right: true, Rank: 2},
		{Name: "COMMIT", Min: 7, Rank: 1},
		{Name: "COMMAND", Weight: 3, Min: 20},
		{Name: "SAID", Weight: 2, Min: 10, Rank: 3, Hide: 100},
	}}}
}

// Init has nothing to ask for.
func (c *commands) Init() tea.Cmd { return nil }

// Title is its name.
func (c *commands) Title() string {
	if c.forwards {
		return "forwarded ports"
	}
	return "commands"
}

// entries are those that are shown.
func (c *commands) entries() []*Entry {
	if c.forwards {
		return c.desk.log.background()
	}
	all := make([]*Entry, c.desk.log.Len())
	for i := range all {
		all[i] = c.desk.log.At(i)
	}
	return all
}

// Note counts them.
func (c *commands) Note() string {
	if c.forwards {
		return fmt.Sprintf("%d since the console was opened", len(c.entries()))
	}
	return fmt.Sprintf("%d since the console was opened", c.desk.log.Len())
}

// Keys are its own.
func (c *commands) Keys() []key.Binding {
	return []key.Binding{bind("enter", "what it said"), bind("c", "copy command"), deletes("end what is forwarded")}
}

func deletes(text string) key.Binding {
	return key.NewBinding(key.WithKeys("delete"), key.WithHelp("del", text))
}

// at is where the cursor is.
func (c *commands) at(entries []*Entry) int { return max(slices.Index(entries, c.cursor), 0) }

// Update takes a key.
func (c *commands) Update(msg tea.Msg) tea.Cmd {
	entries := c.entries()
	n := len(entries)
	if n == 0 {
		return nil
	}
	at := c.at(entries)
	switch msg := msg.(type) {
	case tea.MouseWheelMsg:
		if msg.Button == tea.MouseWheelDown {
			at++
		} else {
			at--
		}
	case tea.KeyPressMsg:
		switch msg.String() {
		case "down", "j":
			at++
		case "up", "k":
			at--
		case "pgdown", "ctrl+f", "ctrl+d":
			at += max(c.height-2, 1)
		case "pgup", "ctrl+b", "ctrl+u":
			at -= max(c.height-2, 1)
		case "home", "g":
			at = 0
		case "end", "G":
			at = n - 1
		case "enter":
			return pane.Ask(pane.Push{Pane: newOutput(c.desk, entries[at])})
		case "c", "C":
			line := entries[at].Line
			return tea.Batch(tea.SetClipboard(line), told(false, "copied %s", line))
		case "delete":
			return entries[at].finish()
		}
	}
	c.cursor = entries[min(max(at, 0), n-1)]
	return nil
}

// Click puts the cursor on a row.
func (c *commands) Click(_, y int) tea.Cmd {
	if all, at := c.entries(), c.top+y-1; y > 0 && at < len(all) {
		c.cursor = all[at]
	}
	return nil
}

// Draw are the rows that fit.
func (c *commands) Draw(width, height int) []string {
	look, entries := c.desk.world.Look, c.entries()
	n, at := len(entries), c.at(entries)
	if n == 0 {
		none := "Nothing was done yet. What is done stands here, as the command for it."
		if c.forwards {
			none = "No port is forwarded. F on a pod, a service or a deployment in a tree does that."
		}
		return []string{look.Paint(paint.Faint, look.Cut(none, width))}
	}
	c.height = height
	c.top = min(max(min(c.top, at), at-height+2, 0), max(n-height+1, 0))
	return c.grid.Draw(look, width, height, paint.Rows{
		N: n, Top: c.top, Cursor: at,
		Cells: func(i int, cells []paint.Cell) { c.cells(entries[i], cells) },
	})
}

func (c *commands) cells(e *Entry, cells []paint.Cell) {
	glyph, style, word := c.desk.sign(e)
	cells[0] = paint.Cell{Text: e.Began.Format(time.TimeOnly), Style: paint.Faint}
	cells[1] = paint.Cell{Glyph: glyph, Text: word, Style: style}
	cells[2] = paint.Cell{Text: c.desk.took(e), Style: paint.Faint}
	cells[3] = paint.Cell{Text: short(e.Commit)}
	cells[4] = paint.Cell{Text: e.Line}
	cells[5] = paint.Cell{Text: e.Told, Style: style}
}

// finish ends what goes on in the background.
func (e *Entry) finish() tea.Cmd {
	if e.stop == nil || e.Ending != Running {
		return told(true, "only a forwarded port is ended here; ctrl+c stops what is under way")
	}
	e.Ending = Stopped
	e.stop()
	return told(false, "ended %s", e.Line)
}

// took is how long a command took, or takes so far.
func (d *Desk) took(e *Entry) string {
	if e.Ending == Running {
		return duration.HumanDuration(max(d.world.Now().Sub(e.Began), 0))
	}
	return fmt.Sprintf("%.1fs", e.Took.Seconds())
}

func short(commit string) string { return commit[:min(len(commit), 7)] }

// output shows what one command said.
type output struct {
	desk   *Desk
	entry  *Entry
	scroll scroller
	// ending and look are what the lines were made for.
	ending Ending
	look   *paint.Look
}

func newOutput(d *Desk, e *Entry) *output {
	return &output{desk: d, entry: e}
}

// Init has nothing to ask for.
func (o *output) Init() tea.Cmd { return nil }

// Title is what was done.
func (o *output) Title() string { return o.entry.Action }

// Keys are its own.
func (o *output) Keys() []key.Binding { return append(scrolling(), bind("c", "copy command")) }

// Update takes a key.
func (o *output) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.MouseWheelMsg:
		o.scroll.wheel(msg.Button == tea.MouseWheelDown)
	case tea.KeyPressMsg:
		if k := msg.String(); !o.scroll.key(k) && (k == "c" || k == "C") {
			return tea.Batch(tea.SetClipboard(o.entry.Line), told(false, "copied %s", o.entry.Line))
		}
	}
	return nil
}

// Draw is the command with what it said.
func (o *output) Draw(width, height int) []string {
	if look := o.desk.world.Look; o.ending != o.entry.Ending || o.look != look {
		o.ending, o.look = o.entry.Ending, look
		o.scroll.set(o.lines())
	}
	return o.scroll.draw(o.look, width, height)
}

func (o *output) lines() []text {
	e := o.entry
	glyph, style, word := o.desk.sign(e)
	state := []string{glyph + " " + word, "began " + e.Began.Format(time.TimeOnly)}
	if e.Ending != Running {
		state = append(state, "took "+o.desk.took(e))
	}
	if e.Commit != "" {
		state = append(state, "commit "+short(e.Commit))
	}
	out := []text{{paint.Key, "$ " + e.Line}, {style, strings.Join(state, "   ")}, {}}
	if e.Ending != Running && e.Output == "" {
		return append(out, text{paint.Faint, "It said nothing."})
	}
	return append(out, diffed(e.Output)...)
}

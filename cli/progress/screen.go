package progress

import (
	"fmt"
	"strings"
	"time"

	"charm.land/bubbles/v2/spinner"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/pluralsh/plural/cli/ui"
)

// screen draws the steps in place, below what the terminal shows already.
type screen struct {
	program *tea.Program
	done    chan struct{}
}

func newScreen(s *ui.Streams, now func() time.Time) *screen {
	spin := spinner.New(spinner.WithSpinner(spinner.Dot))
	drawn := &screen{
		program: tea.NewProgram(model{streams: s, now: now, spinner: spin}, tea.WithInput(nil), tea.WithOutput(s.ErrOut), tea.WithoutSignalHandler()),
		done:    make(chan struct{}),
	}
	go func() { // Close waits for it
		defer close(drawn.done)
		_, _ = drawn.program.Run() // what cannot be drawn is lost, the work is not
	}()
	return drawn
}

func (s *screen) Start(step string) { s.program.Send(event{Step: step, State: "started"}) }

func (s *screen) Detail(step, text string) {
	s.program.Send(event{Step: step, State: "waiting", Text: text})
}

func (s *screen) Done(step, text string) {
	s.program.Send(event{Step: step, State: "done", Text: text})
}

func (s *screen) Fail(step string, err error) {
	s.program.Send(event{Step: step, State: "failed", Text: err.Error()})
}

func (s *screen) Close() {
	s.program.Quit()
	<-s.done
}

// row is one step as it is drawn.
type row struct {
	event
	started time.Time
	took    time.Duration
}

type model struct {
	streams *ui.Streams
	now     func() time.Time
	spinner spinner.Model
	rows    []row
}

func (m model) Init() tea.Cmd { return m.spinner.Tick }

func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case event:
		m.rows = m.with(msg)
	case tea.WindowSizeMsg:
		streams := *m.streams
		streams.Width = msg.Width
		m.streams = &streams
	case spinner.TickMsg:
		var cmd tea.Cmd
		m.spinner, cmd = m.spinner.Update(msg)
		return m, cmd
	}
	return m, nil
}

// with is the rows after an event.
func (m model) with(e event) []row {
	rows := append([]row(nil), m.rows...)
	for i := range rows {
		if rows[i].Step == e.Step {
			rows[i].event, rows[i].took = e, m.now().Sub(rows[i].started)
			return rows
		}
	}
	return append(rows, row{event: e, started: m.now()})
}

func (m model) View() tea.View {
	var b strings.Builder
	for _, r := range m.rows {
		b.WriteString(m.line(r) + "\n")
	}
	return tea.NewView(b.String())
}

func (m model) line(r row) string {
	mark, took := m.spinner.View(), m.now().Sub(r.started)
	switch r.State {
	case "done":
		mark, took = m.streams.Paint(ui.Green, "✓"), r.took
	case "failed":
		mark, took = m.streams.Paint(ui.Red, "✗"), r.took
	}
	line := fmt.Sprintf("  %s %-16s %s", mark, ui.Clean(r.Step), ui.Clean(r.Text))
	seconds := m.streams.Paint(ui.Faint, fmt.Sprintf("%5.1fs", took.Seconds()))
	const tail = 8
	line = ansi.Truncate(line, max(m.streams.Width-tail, 20), "…")
	return line + strings.Repeat(" ", max(m.streams.Width-tail-ansi.StringWidth(line), 1)) + seconds
}

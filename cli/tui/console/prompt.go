package console

import (
	"strings"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/pluralsh/plural/cli/tui/cmdline"
	"github.com/pluralsh/plural/cli/tui/pane"
)

// prompt is a line that is typed: a filter for the pane, or a command.
type prompt struct {
	textinput.Model
	// pane is what is narrowed; nil: a command is typed. before is its filter as it was.
	pane   pane.Filtered
	before string
	// cannot says why nothing comes of what is typed: it is taken all the same, so that its letters are no commands.
	cannot string
	// then is given what was typed, where a question was asked.
	then func(string) tea.Cmd
	// proposed says that the text is a proposal as yet: what is typed takes its place, and other keys change it.
	proposed bool
	// offered are the words that may stand in the place of the last one.
	offered []string
	// past are commands that were typed, at which of them the arrow keys are.
	past []string
	at   int
}

func newPrompt(mark, text string) *prompt {
	input := textinput.New()
	input.Prompt = mark
	input.SetVirtualCursor(false)
	input.ShowSuggestions = true
	input.SetValue(text)
	input.CursorEnd()
	input.Focus()
	return &prompt{Model: input}
}

// line is what is typed, after the mark that says what it is.
func (p *prompt) line() string { return p.Prompt + p.Value() }

// next is what tab makes of the line; empty: nothing else.
func (p *prompt) next() string {
	if text := p.CurrentSuggestion(); text != p.Value() {
		return text
	}
	return ""
}

// column is where the cursor stands, on a screen that shows the line's end.
func (p *prompt) column(width int) int {
	at := ansi.StringWidth(p.Prompt + string([]rune(p.Value())[:p.Position()]))
	return max(at-max(ansi.StringWidth(p.line())-width+1, 0), 0)
}

// suggest offers words in the place of the last one. Tab takes the first.
func (p *prompt) suggest(list []string) {
	p.offered = list
	line := p.Value()
	before := line[:strings.LastIndex(line, " ")+1]
	lines := make([]string, len(list))
	for i, word := range list {
		lines[i] = before + word
	}
	p.SetSuggestions(lines)
}

// narrow begins to type a filter. Where the pane has none, it says so, and still takes what is typed.
func (m *Model) narrow() {
	f, ok := m.top().(pane.Filtered)
	if !ok {
		m.prompt = newPrompt("/", "")
		m.prompt.cannot = "nothing can be filtered here; esc goes on"
		m.told = pane.Told{Text: m.prompt.cannot, Bad: true}
		return
	}
	m.prompt = newPrompt("/", f.Filter())
	m.prompt.pane, m.prompt.before = f, f.Filter()
	m.prompt.suggest(f.Words(f.Filter()))
}

// question asks for a word.
func (m *Model) question(q pane.Question) {
	m.told = pane.Told{}
	m.prompt = newPrompt(q.Mark, q.Value)
	m.prompt.then, m.prompt.offered, m.prompt.past = q.Then, q.Words, q.Words // the arrow keys go through them
	m.prompt.SetSuggestions(q.Words)
	m.prompt.proposed = true
}

// command begins to type a command.
func (m *Model) command() {
	m.prompt = newPrompt(":", "")
	m.prompt.past, m.prompt.at = m.places.typed, len(m.places.typed)
	m.prompt.suggest(cmdline.Words("", m.World))
}

// typed takes a key, or what was pasted, into the prompt.
func (m *Model) typed(msg tea.Msg) tea.Cmd {
	p := m.prompt
	if k, ok := msg.(tea.KeyPressMsg); ok {
		switch k.String() {
		case "esc":
			m.prompt = nil
			if p.pane != nil {
				_ = p.pane.SetFilter(p.before) // it was taken before
			}
			return nil
		case "enter":
			if p.then != nil {
				m.prompt = nil
				return p.then(p.Value())
			}
			if p.cannot != "" {
				m.prompt = nil
				return nil
			}
			if p.pane == nil {
				m.prompt = nil
				return m.run(p.Value())
			}
			if err := p.pane.SetFilter(p.Value()); err != nil {
				m.told = pane.Told{Text: err.Error(), Bad: true}
				return nil
			}
			m.prompt = nil
			return nil
		case "up", "down":
			p.recall(k.String())
			return nil
		}
	}
	if p.proposed {
		key, isKey := msg.(tea.KeyPressMsg)
		_, pasted := msg.(tea.PasteMsg)
		if pasted || isKey && key.Text != "" {
			p.SetValue("")
		}
		p.proposed = !pasted && !isKey
	}
	before := p.Value()
	var cmd tea.Cmd
	p.Model, cmd = p.Model.Update(msg)
	text := p.Value()
	if p.cannot != "" {
		m.told = pane.Told{Text: p.cannot, Bad: true}
		return cmd
	}
	if text == before {
		return cmd
	}
	if p.then != nil {
		return cmd
	}
	if p.pane == nil {
		p.suggest(cmdline.Words(text, m.World))
		return cmd
	}
	p.suggest(p.pane.Words(text))
	m.told = pane.Told{}
	if err := p.pane.SetFilter(text); err != nil {
		p.without(text)
		if p.next() == "" {
			m.told = pane.Told{Text: err.Error(), Bad: true}
		}
	}
	return cmd
}

// without narrows by what stands before the last word, where that has a key whose value is not whole yet: what was typed of it so
// far picks nothing.
func (p *prompt) without(text string) {
	cut := strings.LastIndexByte(text, ' ') + 1
	if strings.Contains(text[cut:], ":") {
		_ = p.pane.SetFilter(strings.TrimRight(text[:cut], " ")) // it stays as it was, then
	}
}

// recall puts an earlier command into the prompt.
func (p *prompt) recall(direction string) {
	if direction == "up" {
		p.at = max(p.at-1, 0)
	} else {
		p.at = min(p.at+1, len(p.past))
	}
	text := ""
	if p.at < len(p.past) {
		text = p.past[p.at]
	}
	p.SetValue(text)
	p.CursorEnd()
}

// run does what a command asks for.
func (m *Model) run(line string) tea.Cmd {
	msg, err := cmdline.Parse(line, m.World)
	if err != nil {
		m.told = pane.Told{Text: err.Error(), Bad: true}
		return nil
	}
	m.places.said(line)
	if msg == nil {
		return nil
	}
	return pane.Ask(msg)
}

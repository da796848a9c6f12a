package paint

import (
	v1 "github.com/pluralsh/plural/api/v1"
)

const off = "\x1b[m"

// NewLook makes a look.
func NewLook(o Options) *Look {
	base, dark := Auto, o.Dark
	if o.Skin != nil {
		base = o.Skin.Base
	}
	switch base {
	case Dark, Light:
		dark = base == Dark
	case NoColors:
		o.Color = false
	}
	l := &Look{options: o, glyphs: signs(o.ASCII)}
	if o.Color {
		l.sgr, l.under = theme(dark)
	}
	if base == HighContrast {
		l.contrasting()
	}
	l.wear(o.Skin)
	return l
}

// Options are what the look was made from.
func (l *Look) Options() Options { return l.options }

// Glyph is a sign, in one cell.
func (l *Look) Glyph(g Glyph) string { return l.glyphs[g] }

// Paint is a text, cleaned, in a style.
func (l *Look) Paint(s Style, text string) string {
	text = l.Clean(text)
	if l.sgr[s] == "" || text == "" {
		return text
	}
	return l.sgr[s] + text + off
}

// Under is a text, cleaned, in a style on the line under the cursor, for panes that draw lines of their own.
func (l *Look) Under(s Style, text string) string {
	text = l.Clean(text)
	if l.under[s] == "" || text == "" {
		return text
	}
	return l.under[s] + text + off
}

// Phase is the sign of a phase, to stand before its word, with the style of both.
func (l *Look) Phase(p v1.Phase) (glyph string, s Style) {
	switch p {
	case v1.Healthy:
		return l.pick("✓", "+"), Good
	case v1.Removing:
		return l.pick("⊖", "-"), Busy
	case v1.Progressing:
		return l.pick("↻", "~"), Busy
	case v1.Pending:
		return l.pick("◌", "."), Busy
	case v1.Unregistered:
		return l.pick("∅", "o"), Faint
	case v1.Held:
		return l.pick("⚑", "="), Busy
	case v1.Stale:
		return l.pick("◷", "?"), Old
	case v1.Degraded:
		return "!", Bad
	case v1.Failed:
		return l.pick("✗", "x"), Bad
	}
	return "?", Plain
}

// Health is Phase for an object.
func (l *Look) Health(h v1.ObjectHealth) (glyph string, s Style) {
	switch h {
	case v1.ObjectHealthy:
		return l.Phase(v1.Healthy)
	case v1.ObjectProgressing:
		return l.Phase(v1.Progressing)
	case v1.ObjectDegraded:
		return l.Phase(v1.Degraded)
	case v1.ObjectUnknown:
	}
	return "?", Faint
}

// Upgrade is Phase for an upgrade.
func (l *Look) Upgrade(u v1.UpgradeState) (glyph string, s Style) {
	switch u {
	case v1.UpgradeCurrent:
		return l.Phase(v1.Healthy)
	case v1.UpgradeAvailable:
		return l.pick("↑", "^"), Bold
	case v1.UpgradeWaiting:
		return l.Phase(v1.Pending)
	case v1.UpgradeBlocked, v1.UpgradeProposed:
		return l.Phase(v1.Held)
	case v1.UpgradeReady, v1.UpgradeRolling:
		return l.Phase(v1.Progressing)
	case v1.UpgradeReverted:
		return l.Phase(v1.Failed)
	}
	return "?", Plain
}

func (l *Look) pick(unicode, ascii string) string {
	if l.options.ASCII {
		return ascii
	}
	return unicode
}

func signs(ascii bool) [glyphs]string {
	if ascii {
		return [glyphs]string{
			Ellipsis: "~", Pointer: ">", Ticked: "*", Up: "^", Down: "v", Step: ">", Between: "-",
			Branch: "|", LastBranch: "`", Trunk: "|", Twig: "-", Open: "v", Shut: ">", Full: "#", Empty: ".",
			TopLeft: "+", TopRight: "+", BottomLeft: "+", BottomRight: "+", More: ">",
		}
	}
	return [glyphs]string{
		Ellipsis: "…", Pointer: "▸", Ticked: "✱", Up: "↑", Down: "↓", Step: "›", Between: "·",
		Branch: "├", LastBranch: "└", Trunk: "│", Twig: "─", Open: "▾", Shut: "▸", Full: "█", Empty: "░",
		TopLeft: "╭", TopRight: "╮", BottomLeft: "╰", BottomRight: "╯", More: "›",
	}
}

// theme is what the styles look like. Away from the cursor they are of the terminal's own sixteen colours, which its owner
// chose to be read on its background. Under the cursor the background is ours, so that foregrounds are too: should the terminal
// be wrong about its own, that line is still read.
func theme(dark bool) (sgr, under [styles]string) {
	yellow, back, front := "33", "48;5;238", "38;5;255"
	good, busy, bad, cyan, dim := "38;5;120", "38;5;222", "38;5;217", "38;5;123", "38;5;250"
	if !dark {
		yellow, back, front = "38;5;94", "48;5;253", "38;5;16"
		good, busy, bad, cyan, dim = "38;5;22", "38;5;94", "38;5;88", "38;5;24", "38;5;238"
	}
	both := [styles][2]string{
		Plain: {"", front}, Faint: {"2", dim}, Bold: {"1", "1;" + front},
		Good: {"32", good}, Busy: {yellow, busy}, Bad: {"31", bad}, Old: {yellow, busy},
		Title: {"1", "1;" + front}, Head: {"1;2", dim}, Crumb: {"36", cyan}, Rule: {"2", dim},
		Key: {"1;36", "1;" + cyan}, Hint: {"2", dim},
		Mark: {"1;35", "1;" + front}, Found: {"7", "7;" + front},
		Added: {"32", good}, Removed: {"31", bad}, Changed: {yellow, busy}, Hunk: {"36", cyan},
		Name: {"36", cyan}, Value: {"", front}, Note: {"2", dim},
		Cursor: {"1;" + front + ";" + back, "1;" + front},
	}
	for s, codes := range both {
		if codes[0] != "" {
			sgr[s] = "\x1b[0;" + codes[0] + "m"
		}
		under[s] = "\x1b[0;" + codes[1] + ";" + back + "m"
	}
	return sgr, under
}

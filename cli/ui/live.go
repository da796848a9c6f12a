package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Live prints a view over and over as it changes: on a terminal in one place, else only what is new about it.
type Live struct {
	p *Printer
	// frame is the text on the screen, note the line below it; open says that the screen was taken.
	frame []string
	note  string
	open  bool
	// drawn is what was sent to the screen last.
	drawn string
	// seen is what each row or item was when it was printed last, by its name; order keeps the names in the view's.
	seen  map[string]string
	order []string
	// last are the rows as they were.
	last map[string][]string
	// headed says that the columns' names were printed.
	headed bool
	// still is a whole view's.
	still string
	shown bool
}

// Live begins.
func (p *Printer) Live() *Live { return &Live{p: p, seen: map[string]string{}} }

// Screen says whether the view stands in one place of a terminal.
func (l *Live) Screen() bool { return l.p.Human() && l.p.streams.OutTTY && !l.p.streams.Plain }

// Print shows the view as it is now.
func (l *Live) Print(v View) error {
	defer func() { l.shown = true }()
	switch {
	case l.Screen():
		l.p.streams.Width, _ = l.p.streams.Size() // it may have been resized
		var b bytes.Buffer
		if err := l.p.write(&b, v); err != nil {
			return err
		}
		for _, line := range append(slices.Clone(v.Lacks), v.Note) {
			fmt.Fprintln(&b, Clean(line))
		}
		l.frame, l.note = strings.Split(strings.TrimRight(b.String(), "\n"), "\n"), ""
		return l.draw()
	case l.p.Human() && v.Screen == nil:
		return l.rows(v)
	}
	return l.values(v)
}

// Say tells a person something beside the view.
func (l *Live) Say(text string) {
	if l.open {
		l.note = Clean(text)
		_ = l.draw()
		return
	}
	fmt.Fprintln(l.p.streams.ErrOut, Clean(text))
}

// Close gives a terminal's screen back, with the last view on it.
func (l *Live) Close() error {
	if !l.open {
		return nil
	}
	l.open = false
	_, err := fmt.Fprintf(l.p.streams.Out, "\x1b[?25h\x1b[?1049l%s\n", strings.Join(l.frame, "\n"))
	return err
}

// draw writes over what stands on the screen, line by line, so that nothing flickers.
func (l *Live) draw() error {
	width, height := l.p.streams.Size()
	lines := l.frame
	if l.note != "" {
		lines = append(slices.Clone(lines), "", l.note)
	}
	if room := max(height, 2) - 1; height > 0 && len(lines) > room {
		more := len(lines) - room + 1
		rest := fmt.Sprintf("and %d lines more: make the window higher, or pick by --filter", more)
		lines = append(slices.Clone(lines[:room-1]), rest)
	}
	var b strings.Builder
	if !l.open {
		b.WriteString("\x1b[?1049h\x1b[?25l")
		l.open = true
	}
	b.WriteString("\x1b[?2026h\x1b[H")
	for _, line := range lines {
		b.WriteString(ansi.Truncate(line, max(width, 1), "") + "\x1b[K\n")
	}
	b.WriteString("\x1b[J\x1b[?2026l")
	if b.String() == l.drawn {
		return nil
	}
	l.drawn = b.String()
	_, err := l.p.streams.Out.Write([]byte(b.String()))
	return err
}

// rows prints those that are new or changed, and says of others that they are gone.
func (l *Live) rows(v View) error {
	columns, rows := visible(v.Columns, v.Rows, l.p.kind == "wide")
	now := make([]string, len(rows))
	for i, row := range rows {
		var still []string
		for n, c := range columns {
			if !c.Age {
				still = append(still, row[n])
			}
		}
		now[i] = strings.Join(still, "\x00")
	}
	changed, gone := l.differences(&v, now)
	var out [][]string
	for _, i := range changed {
		out = append(out, rows[i])
	}
	for _, name := range gone {
		row := slices.Clone(l.last[name])
		row[len(row)-1] = "gone"
		out = append(out, row)
	}
	l.last = map[string][]string{}
	for i, name := range v.ids() {
		l.last[name] = rows[i]
	}
	var b bytes.Buffer
	streams := *l.p.streams
	streams.NoHeaders = streams.NoHeaders || l.headed
	if err := streams.Table(&b, columns, out); err != nil {
		return err
	}
	l.headed = l.headed || len(out) > 0
	_, err := l.p.streams.Out.Write(b.Bytes())
	return err
}

// differences are the places of what is new or changed since it was asked last, and the names of what is gone.
func (l *Live) differences(v *View, now []string) (changed []int, gone []string) {
	there, names := map[string]bool{}, v.ids()
	for i, name := range names {
		if old, known := l.seen[name]; !known || old != now[i] {
			changed = append(changed, i)
		}
		l.seen[name], there[name] = now[i], true
	}
	for _, name := range l.order {
		if !there[name] && !v.Past {
			gone = append(gone, name)
			delete(l.seen, name)
		}
	}
	l.order = slices.Clone(names)
	return changed, gone
}

// values prints a line a change: a list whole at first, and then only the items that changed.
func (l *Live) values(v View) error {
	still := v.Still
	if still == nil {
		still = v.Value
	}
	text, err := json.Marshal(still)
	if err != nil {
		return err
	}
	if l.shown && string(text) == l.still {
		return nil
	}
	l.still = string(text)
	some, err := l.changes(&v, text)
	if err != nil || l.shown && !some {
		return err
	}
	var b bytes.Buffer
	if l.shown && (l.p.kind == "yaml" || l.p.Human()) {
		b.WriteString(map[bool]string{true: "\n", false: "---\n"}[l.p.Human()])
	}
	if l.p.kind == "json" {
		err = encodeLine(&b, v.Value)
	} else {
		err = l.p.write(&b, v)
	}
	if err != nil {
		return err
	}
	_, err = l.p.streams.Out.Write(b.Bytes())
	return err
}

// changes makes of a list that was shown before one of what is different. It says whether anything is.
func (l *Live) changes(v *View, still []byte) (some bool, err error) {
	old, isList := items(still)
	whole, err := json.Marshal(v.Value)
	if err != nil {
		return false, err
	}
	all, _ := items(whole)
	ids := v.ids()
	if !isList || len(old) != len(ids) || len(all) != len(old) {
		return true, nil
	}
	now := make([]string, len(old))
	for i := range old {
		now[i] = string(old[i])
	}
	changed, gone := l.differences(v, now)
	if !l.shown {
		return true, nil
	}
	picked, names := []json.RawMessage{}, []string{}
	for _, i := range changed {
		picked = append(picked, all[i])
		if len(v.Names) == len(ids) {
			names = append(names, v.Names[i])
		}
	}
	v.Names, v.Value = names, any(picked)
	if still[0] == '{' {
		change := map[string]any{"items": picked}
		if len(gone) > 0 {
			change["gone"] = gone
		}
		v.Value = change
		return len(picked)+len(gone) > 0, nil
	}
	return len(picked) > 0, nil
}

// items are the elements of an array, or of a list's.
func items(text []byte) (all []json.RawMessage, isList bool) {
	if len(text) > 0 && text[0] == '[' {
		return all, json.Unmarshal(text, &all) == nil
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	err := json.Unmarshal(text, &list)
	return list.Items, err == nil && list.Items != nil
}
